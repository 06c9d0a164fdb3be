"""`tacit sign`: sign a certificate with a party's own key."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.errors import InputError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

DESCRIPTION = """\
Sign a privacy certificate with your organisation's own key, so that others can
check that you stated it and that nobody changed it since. A certificate whose
numbers do not follow from its releases is not signed."""
EPILOG = """\
examples:
  tacit sign runs/credit --kit bank-kit               with a federation's keys
  tacit sign runs/credit --key bank.pem --party bank  with a key of its own

others check it:
  tacit verify certificate.json --signature certificate.bank.sig"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the verb."""
    parser.add_argument("certificate", metavar="CERT", help="a certificate.json, or the directory of a run")
    choice = parser.add_mutually_exclusive_group(required=True)
    choice.add_argument("--kit", metavar="KIT", help="sign with the keys of this organisation's kit")
    choice.add_argument("--key", metavar="FILE", help="sign with the Ed25519 key in this file (PEM); made if missing")
    parser.add_argument("--party", metavar="NAME", help="your name, with --key")


def run(options: argparse.Namespace) -> int:
    """Check the certificate, sign it, and say where the signature is."""
    from tacit.cli.verify import certificate_path, read, read_checked
    from tacit.files import show_path, write_json
    from tacit.privacy.verify import sign

    path = Path(options.certificate)
    text = read(path)
    if not read_checked(path, text).agrees:
        raise InputError(f"not signed: {show_path(path)} does not agree with its own releases, see tacit verify")
    key, party = _signer(options)
    made = sign(key, party, text)
    out = certificate_path(path).with_suffix(f".{party}.sig")
    write_json(out, made.record())
    print(f"signed by {party}: {show_path(out)}")
    print(f"its key:  {made.key_text}")
    return 0


def _signer(options: argparse.Namespace) -> tuple[Ed25519PrivateKey, str]:
    """The key and the name of whoever signs."""
    if options.kit is not None:
        from tacit.federation.identity import OwnKeys
        from tacit.federation.kit import Kit

        if options.party is not None:
            raise InputError("leave --party out: the kit says who you are")
        kit = Kit.open(Path(options.kit))
        return OwnKeys.of(kit).signing, kit.name
    from tacit.federation.kit import check_name
    from tacit.service.identity import open_identity

    if options.party is None:
        raise InputError("say who signs: --party NAME")
    party = check_name(options.party, "party")
    return open_identity(Path(options.key)).key, party
