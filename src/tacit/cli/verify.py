"""`tacit verify`: recompute a certificate with a second accountant."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.errors import InputError

if TYPE_CHECKING:
    from tacit.privacy.verify import Verification

DESCRIPTION = """\
Compute the numbers of a privacy certificate anew from the releases it lists, by
two accountants, and compare them with what it states.

It shows that the certificate's numbers follow from its releases. It cannot show
that the run released nothing else, nor who wrote the certificate."""
EPILOG = """\
example:
  tacit verify runs/credit/certificate.json

exit codes: 0 it agrees, 1 it does not, 2 it cannot be read."""
CERTIFICATE, PLAN = "certificate.json", "plan.json"
AGREES, DISAGREES = 0, 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the verb."""
    parser.add_argument("certificate", metavar="CERT", help="a certificate.json, or the directory of a run")


def run(options: argparse.Namespace) -> int:
    """Check the certificate and say what was found."""
    from tacit.privacy.verify import verify

    path = Path(options.certificate)
    text = read(path)
    try:
        verdict = verify(text)
    except InputError as error:
        raise InputError(f"cannot read the certificate {_shown(path)}: {error}") from error
    _print(verdict)
    return AGREES if verdict.agrees else DISAGREES


def read(path: Path) -> bytes:
    """The bytes of a certificate, or of the certificate in a run directory."""
    try:
        return (path / CERTIFICATE if path.is_dir() else path).read_bytes()
    except (OSError, ValueError) as error:
        if os.path.exists(path / PLAN):
            raise InputError(
                f"cannot read the certificate {_shown(path)}: the run is not finished, go on with "
                f"tacit train JOB --out {_shown(path)} --resume"
            ) from error
        raise InputError(
            f"cannot read the certificate {_shown(path)}: give a {CERTIFICATE}, or the directory of a run"
        ) from error


def _shown(path: Path) -> str:
    return "".join(character if character.isprintable() else "?" for character in str(path))


def _print(verdict: Verification) -> None:
    if verdict.lines:
        _print_table(verdict)
        print()
    for problem in verdict.problems:
        print(f"- {problem}")
    if not verdict.agrees:
        print("The certificate does NOT agree with its own releases.")
    elif verdict.lines:
        print(f"The certificate agrees: epsilon {verdict.claimed:.6g}, within {verdict.difference:.2g} of the second.")
    else:
        print("The certificate agrees: it claims no privacy, and epsilon is infinite.")


def _print_table(verdict: Verification) -> None:
    """A table: with rules in a terminal, plain text elsewhere."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from tacit.text import plain

    console = Console(width=None if sys.stdout.isatty() else 80, highlight=False)
    fancy = console.is_terminal
    table = Table(box=box.SIMPLE_HEAD if fancy else None, pad_edge=fancy)
    table.add_column("claim")
    for title in ("stated", "recomputed", "second", "verdict"):
        table.add_column(title, justify="right")
    for line in verdict.lines:
        numbers = [f"{value:.6g}" for value in (line.claimed, line.first, line.second)]
        table.add_row(Text(plain(line.about)), *numbers, "no" if line.problem else "agrees")
    console.print(table)
    for name in sorted({line.accountant for line in verdict.lines}):
        print(f"second accountant: {name}")
