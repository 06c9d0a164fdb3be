"""`tacit federation`: make the kits with which organisations train together."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tacit.cli.wording import command
from tacit.errors import InputError

if TYPE_CHECKING:
    from tacit.federation.kit import Kit
    from tacit.federation.project import Federation

HELP = "set up training between organisations"
DESCRIPTION = """\
Make one directory, a kit, for every organisation of a federation: keys,
certificates, settings, and a page that says what to do with it. Hand each kit
to its organisation; keep the authority, which signs new kits, to yourself."""
EPILOG = """\
examples:
  tacit federation init --name credit --server bank --host tacit.bank.example \\
        --party bank --party shop --party phone --out credit
  tacit federation init credit.toml --out credit
  tacit federation add credit insurer
  tacit federation renew credit --only shop

credit.toml:
  name = "credit"
  server = "bank"
  host = "tacit.bank.example"
  port = 8002
  parties = ["bank", "shop", "phone"]"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the verb."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action")
    init = actions.add_parser("init", help="make the kits of a new federation", allow_abbrev=False)
    init.add_argument("file", metavar="FEDERATION.toml", nargs="?", help="who takes part, as a file")
    init.add_argument("--name", help="the federation's name")
    init.add_argument("--server", metavar="NAME", help="the organisation that runs the server: who holds the labels")
    init.add_argument("--host", help="where the others reach the server")
    init.add_argument("--port", type=int, help="the one port to open (default: 8002)")
    init.add_argument("--party", metavar="NAME", action="append", help="an organisation with data; give all of them")
    init.add_argument("--out", metavar="DIR", required=True, help="a directory that does not exist yet")
    init.set_defaults(act=_init)
    add = actions.add_parser("add", help="make the kit of one more party", allow_abbrev=False)
    add.add_argument("directory", metavar="DIR", help="what init made")
    add.add_argument("party", metavar="NAME", help="the new party")
    add.set_defaults(act=_add)
    renew = actions.add_parser("renew", help="make kits with new keys and certificates", allow_abbrev=False)
    renew.add_argument("directory", metavar="DIR", help="what init made")
    renew.add_argument("--only", metavar="NAME", action="append", default=[], help="a party, or server (default: all)")
    renew.set_defaults(act=_renew)


def run(options: argparse.Namespace) -> int:
    """Do what was asked for."""
    if options.action is None:
        raise InputError("say what to do: tacit federation init, add or renew; see tacit federation --help")
    options.act(options)
    return 0


def _init(options: argparse.Namespace) -> None:
    from tacit.federation.project import CERTIFICATE_DAYS, init

    federation = _federation(options)
    kits = init(federation, options.out)
    for kit in kits:
        keep = " (you keep it)" if kit.organisation == federation.server else f": hand it to {kit.organisation}"
        print(f"kit        {kit.path}{keep}")
    print(f"authority  {kits[0].path.parent / 'authority'} (you keep it, secret: it signs new kits)")
    print(f"compare    {kits[0].authority.fingerprint}")
    print(f"valid      certificates {CERTIFICATE_DAYS} days, until {kits[0].certificate.until.date()}")
    print(f"next       read README.html in each kit; start with {command('tacit', 'serve', kits[0].path)}")


def _add(options: argparse.Namespace) -> None:
    from tacit.federation.project import add

    kit = add(options.directory, options.party)
    print(f"kit        {kit.path}: hand it to {kit.organisation}")
    print(f"compare    {kit.authority.fingerprint}")


def _renew(options: argparse.Namespace) -> None:
    from tacit.federation.project import renew

    kits: list[Kit] = renew(options.directory, options.only)
    for kit in kits:
        print(f"kit        {kit.path}: valid until {kit.certificate.until.date()}")
    print("next       each organisation copies the new keys over the old ones; README.html says how")


def _federation(options: argparse.Namespace) -> Federation:
    """The federation of the file, or of the options."""
    from tacit.federation.project import DEFAULT_PORT, Federation

    given = {name: getattr(options, name) for name in ("name", "server", "host", "port", "party")}
    if options.file is not None:
        for name, value in given.items():
            if value is not None:
                raise InputError(f"--{name} and a file together: say it in {options.file}")
        return Federation.read(options.file)
    for name in ("name", "server", "host", "party"):
        if not given[name]:
            raise InputError(f"--{name} is missing: give it, or a file; see tacit federation init --help")
    port = DEFAULT_PORT if options.port is None else options.port
    return Federation(options.name, options.server, options.host, tuple(options.party), port)
