"""`tacit serve`: run the server of a federation."""

from __future__ import annotations

import argparse

from tacit.cli.join import supervise
from tacit.errors import InputError

DESCRIPTION = """\
Run the server that the parties of a federation connect to. It has no data: it
carries what they send each other, which it cannot read. It stays in the
foreground until you press Ctrl-C, and ends everything it started."""
EPILOG = """\
examples:
  tacit serve credit/server"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the verb."""
    parser.add_argument("kit", metavar="KIT", help="directory that tacit federation init made for the server")


def run(options: argparse.Namespace) -> int:
    """Serve, until told to stop."""
    from tacit.federation.kit import SERVER, Kit

    kit = Kit.open(options.kit)
    if kit.role != SERVER:
        raise InputError(f"{options.kit} is the kit of the party {kit.name}: start it with tacit join")
    return supervise(kit)
