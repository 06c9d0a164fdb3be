"""`tacit verify`: recompute a certificate with a second accountant."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.errors import InputError

if TYPE_CHECKING:
    from tacit.privacy.verify import Signature, Verification

DESCRIPTION = """\
Compute the numbers of a privacy certificate anew from the releases it lists, by
two accountants, and compare them with what it states.

It shows that the certificate's numbers follow from its releases. It cannot show
that the run released nothing else. With --signature it also checks who stated
the certificate."""
EPILOG = """\
examples:
  tacit verify runs/credit/certificate.json
  tacit verify certificate.json --signature certificate.bank.sig --kit phone-kit
  tacit verify certificate.json --signature certificate.bank.sig --signed-by KEY

exit codes: 0 it agrees, 1 it does not, 2 it cannot be read."""
CERTIFICATE, PLAN = "certificate.json", "plan.json"
AGREES, DISAGREES = 0, 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the verb."""
    parser.add_argument("certificate", metavar="CERT", help="a certificate.json, or the directory of a run")
    add = parser.add_argument
    add("--signature", metavar="FILE", action="append", default=[], help="check a signature too (made by tacit sign)")
    whose = parser.add_mutually_exclusive_group()
    whose.add_argument("--signed-by", metavar="KEY", help="the key that must have signed, as its owner told you")
    whose.add_argument("--kit", metavar="KIT", help="compare keys with the members that your organisation confirmed")


def run(options: argparse.Namespace) -> int:
    """Check the certificate and say what was found."""
    if not options.signature and (options.kit is not None or options.signed_by is not None):
        raise InputError("--kit and --signed-by say whose signature is checked: name it with --signature FILE")
    path = Path(options.certificate)
    text = read(path)
    verdict = read_checked(path, text)
    _print(verdict)
    signed = [_signed(Path(signature), text, options) for signature in options.signature]
    return AGREES if verdict.agrees and all(signed) else DISAGREES


def read_checked(path: Path, text: bytes) -> Verification:
    """What both accountants say of a certificate."""
    from tacit.privacy.verify import verify

    try:
        return verify(text)
    except InputError as error:
        raise InputError(f"cannot read the certificate {_shown(path)}: {error}") from error


def _signed(path: Path, text: bytes, options: argparse.Namespace) -> bool:
    """Whether a signature holds, which is printed."""
    from tacit.files import read_json
    from tacit.privacy.verify import Signature
    from tacit.text import plain

    try:
        found = Signature.read(read_json(path))
    except InputError as error:
        raise InputError(f"cannot read the signature {_shown(path)}: {error}") from error
    problem = found.problem(text) or _whose(found, options)
    name = plain(found.party)
    if problem:
        print(f"The signature {_shown(path)} does NOT hold: {problem}.")
    elif options.kit is None and options.signed_by is None:
        print(f"Signed with the key {found.key_text}, by somebody called {name}: ask {name} whether it is theirs.")
    else:
        print(f"Signed by {name}.")
    return not problem


def _whose(found: Signature, options: argparse.Namespace) -> str:
    """What is wrong with the key of a signature; empty where nobody says whose it must be."""
    if options.signed_by is not None:
        return "" if options.signed_by.strip() == found.key_text else "it was made with a different key"
    if options.kit is None:
        return ""
    from tacit.federation.identity import OwnKeys
    from tacit.federation.kit import Kit
    from tacit.federation.members import Members

    kit = Kit.open(Path(options.kit))
    card = OwnKeys.of(kit).card if found.party == kit.name else Members(kit).card(found.party)
    if card is None:
        return "your organisation has confirmed no key of whoever it names (tacit federation members KIT)"
    return "" if card.signing == found.public_key else "its key is not the one that your organisation confirmed"


def certificate_path(path: Path) -> Path:
    """The certificate that is meant, where the directory of a run may be given."""
    return path / CERTIFICATE if path.is_dir() else path


def read(path: Path) -> bytes:
    """The bytes of a certificate, or of the certificate in a run directory."""
    try:
        return certificate_path(path).read_bytes()
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
