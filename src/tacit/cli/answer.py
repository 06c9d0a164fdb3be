"""`tacit answer`: a party's service, which answers requests for scores."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.errors import InputError

if TYPE_CHECKING:
    from tacit.service.access import ServiceAccess
    from tacit.service.answering import Answerer
    from tacit.service.identity import Identity

DESCRIPTION = """\
Answer requests for scores over HTTP, with this party's part of a model and its
own file. With --peers the answers go under masks that cancel in the sum of all
parties that answer together, so that whoever asks sees the sum alone. With
--alone they go in the clear: whoever asks sees this party's scores.

Scores are exact functions of rows: no privacy certificate covers them. Which
ids are asked for, how often, and with whom they were answered is limited and
remembered in --state."""
EPILOG = """\
examples:
  tacit answer runs/credit --party shop --show-identity
  tacit answer runs/credit --party shop --data shop.csv --peers parties.toml \\
      --token-file callers.txt
  tacit answer shop.json --data shop.csv --alone --host 0.0.0.0 --port 8443 \\
      --cert shop.pem --key shop-key.pem --ca callers-ca.pem"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the verb."""
    parser.add_argument("model", metavar="MODEL", help="the file of this party's part, or a run with --party")
    parser.add_argument("--party", metavar="NAME", help="whose part of the run this is")
    parser.add_argument("--data", metavar="FILE", help="this party's rows (.csv, .parquet, .svm)")
    who = parser.add_argument_group("with whom")
    who.add_argument("--alone", action="store_true", help="answer alone, in the clear")
    who.add_argument("--peers", metavar="FILE", help="TOML file with the identities of all that answer: [peers]")
    who.add_argument("--least", metavar="N", type=int, help="parties that must answer together (default: all peers)")
    who.add_argument("--identity", metavar="FILE", help="this party's key (default: beside its part; made if absent)")
    who.add_argument("--show-identity", action="store_true", help="print the identity for the others, and end")
    door = parser.add_argument_group("who may ask, and where")
    door.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    door.add_argument("--port", type=int, default=8443, help="port (default: 8443; 0: a free one)")
    door.add_argument("--token-file", metavar="FILE", help="a caller's name and its token on each line")
    door.add_argument("--cert", metavar="FILE", help="certificate for TLS")
    door.add_argument("--key", metavar="FILE", help="its key")
    door.add_argument("--ca", metavar="FILE", help="callers need a certificate from here (mutual TLS)")
    door.add_argument("--insecure", action="store_true", help="ask nobody who they are; on 127.0.0.1 only")
    limits = parser.add_argument_group("limits")
    limits.add_argument("--per-day", metavar="N", type=int, default=1000, help="ids a caller may ask (default: 1000)")
    limits.add_argument("--most-ids", metavar="N", type=int, default=1000, help="ids in a request (default: 1000)")
    limits.add_argument("--state", metavar="FILE", help="what must be remembered (default: beside the part)")


def run(options: argparse.Namespace) -> int:
    """Serve until stopped."""
    from tacit.service import require_packages

    require_packages()
    from tacit.run.own_scores import part_file
    from tacit.service.app import make_app, serve
    from tacit.service.identity import open_identity

    file = part_file(options.model, options.party)
    if options.show_identity:
        print(open_identity(_beside(options.identity, file, "identity.pem")).text)
        return 0
    door = _door(options)
    answerer = _answerer(options, file, open_identity(_beside(options.identity, file, "identity.pem")))
    for remark in answerer.own.said:
        print(f"tacit: {remark}", file=sys.stderr)
    try:
        serve(make_app(answerer, door), door, lambda url: print(_welcome(answerer, url), flush=True))
    finally:
        answerer.state.close()
    return 0


def _door(options: argparse.Namespace) -> ServiceAccess:
    from tacit.service.access import ServiceAccess, Tokens, read_tokens

    tokens = None if options.token_file is None else Tokens(read_tokens(Path(options.token_file)))
    if not 0 <= options.port < 2**16:
        raise InputError(f"--port {options.port} is not allowed: it must be from 0 to 65535")
    return ServiceAccess(options.host, options.port, options.cert, options.key, options.ca, tokens, options.insecure)


def _answerer(options: argparse.Namespace, file: Path, identity: Identity) -> Answerer:
    from tacit.run.own_scores import read_own_scores
    from tacit.service.answering import ALONE, Answerer, Rules
    from tacit.service.identity import read_peers
    from tacit.service.state import State

    if options.data is None:
        raise InputError("no rows to score: give --data FILE")
    if options.alone == (options.peers is not None):
        raise InputError("say with whom: --peers FILE for answers under masks, or --alone for answers in the clear")
    own = read_own_scores(file, options.data)
    peers = {} if options.alone else read_peers(Path(options.peers))
    least = len({*peers, own.party}) if options.least is None else options.least
    if not options.alone and least < 2:
        raise InputError(f"--least {least} would answer in the clear: it must be from 2; or say --alone")
    if options.alone and options.least not in (None, ALONE):
        raise InputError("--least is for answers with others: leave it out with --alone")
    rules = Rules(least, options.per_day, options.most_ids)
    return Answerer(own, State(_beside(options.state, file, "answered.db")), rules, identity, peers)


def _beside(given: str | None, file: Path, end: str) -> Path:
    """A file that was named, or one beside the party's part."""
    return Path(given) if given is not None else file.with_name(f"{file.stem}-{end}")


def _welcome(answerer: Answerer, url: str) -> str:
    least = answerer.rules.least
    how = "alone: whoever asks sees its scores" if least == 1 else f"under masks, {least} parties or more together"
    return f"{answerer.own.party} answers at {url}, {how} (stop with Ctrl-C)"
