"""`tacit ask`: predictions from the parties' services."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.errors import InputError

if TYPE_CHECKING:
    from tacit.run.predict import SavedModel
    from tacit.service.asking import Asker

DESCRIPTION = """\
Predict the rows of your own file together with parties that run tacit answer.
Each is asked for the ids in your file; what comes back is the sum of their
scores, to which your own score and the constant of the model are added.

Writes the same CSV as tacit predict. The parties see the ids. An id that a
party does not know counts as an average one there, and nothing says so."""
EPILOG = """\
examples:
  tacit ask runs/credit --data bank.csv --from shop=https://shop.example:8443 \\
      phone=https://phone.example:8443 --token-file parties.txt
  tacit ask runs/credit --data bank.csv --from shop=http://127.0.0.1:8443"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the verb."""
    parser.add_argument("directory", metavar="RUN", help="directory of the run, with your own part of the model")
    parser.add_argument("--data", metavar="FILE", required=True, help="your own rows (.csv, .parquet, .svm)")
    parser.add_argument(
        "--from", dest="sources", metavar="PARTY=URL", nargs="+", required=True, help="where each other party answers"
    )
    parser.add_argument("--degrade", action="store_true", help="count parties that are away as average, and say so")
    parser.add_argument("--token-file", metavar="FILE", help="a party's name and your token there on each line")
    parser.add_argument("--cert", metavar="FILE", help="your certificate")
    parser.add_argument("--key", metavar="FILE", help="its key")
    parser.add_argument("--ca", metavar="FILE", help="who signed the parties' certificates (default: the system's)")
    parser.add_argument("--seconds", type=float, default=30.0, help="how long to wait for a party (default: 30)")
    parser.add_argument("--out", metavar="FILE", help="write the predictions to FILE instead of the terminal")


def run(options: argparse.Namespace) -> int:
    """Ask and write the predictions."""
    from tacit.service import require_packages

    require_packages()
    from tacit.cli.predict import write_predictions
    from tacit.data.load import load_prediction_data
    from tacit.run.predict import predictions_of, row_offsets
    from tacit.text import listing

    sources = _sources(options.sources)
    model = _own_model(options.directory, sources)
    if options.degrade and model.has_trees_elsewhere:
        raise InputError("--degrade counts a party that is away as 0, and the average of trees is not: leave it out")
    data = load_prediction_data(model.specs, [options.data], model.encoders)
    if data.ids is None:
        raise InputError("the model has no id column: train with id = ... to ask others by id")
    for remark in data.said:
        print(f"tacit: {remark}", file=sys.stderr)
    asker = _asker(options, sources, model)
    try:
        reply = asker.ask([str(one) for one in data.ids.tolist()])
    finally:
        asker.close()
    if reply.fingerprint:
        print(f"tacit: fingerprint of the keys: {reply.fingerprint}", file=sys.stderr)
    if reply.replaced:
        print(f"tacit: away, so counted as average in every row: {listing(reply.replaced)}", file=sys.stderr)
    for line in model.not_covered:
        print(f"tacit: the certificate does not cover {line}", file=sys.stderr)
    score = model.score(data.shards) + row_offsets(model, data) + reply.total
    write_predictions(options.out, predictions_of(model, data.ids, score, data.id_column))
    return 0


def _sources(given: list[str]) -> dict[str, str]:
    """Addresses by party."""
    pairs = [one.partition("=") for one in given]
    for (name, _, url), text in zip(pairs, given, strict=True):
        if not name or not url:
            raise InputError(f"--from {text} is not allowed: give PARTY=URL")
    found = {name: url for name, _, url in pairs}
    if len(found) < len(pairs):
        raise InputError("--from names a party twice: give one address for each")
    return found


def _own_model(directory: str, sources: Mapping[str, Any]) -> SavedModel:
    """The model with one's own part alone: that of the party which is not asked."""
    from tacit.run.predict import load_model
    from tacit.text import listing

    joint = load_model(directory, own=())
    if joint.parties:
        raise InputError("this model is of whole rows, so that one file is enough: use tacit predict")
    names = joint.names
    strangers = [name for name in sources if name not in names]
    if strangers:
        raise InputError(f"there is no party {listing(strangers)}: the parties are {listing(names)}")
    own = [name for name in names if name not in sources]
    if len(own) != 1:
        what = "all parties" if not own else f"nobody is asked for {listing(own)}, and one of them can be you"
        raise InputError(f"{what}: give --from PARTY=URL for every party but yourself")
    return load_model(directory, own=own)


def _asker(options: argparse.Namespace, sources: Mapping[str, str], model: SavedModel) -> Asker:
    from tacit.service.access import client_tls, read_tokens
    from tacit.service.asking import Asker, PartyClient

    if not 0 < options.seconds <= 3600:
        raise InputError(f"--seconds {options.seconds} is not allowed: it must be above 0, up to 3600")
    tokens = {} if options.token_file is None else read_tokens(Path(options.token_file))
    tls = client_tls(options.ca, options.cert, options.key)
    lines = {name: PartyClient(name, url, tokens.get(name), tls, options.seconds) for name, url in sources.items()}
    return Asker(lines, degrade=options.degrade, outputs=model.outputs)
