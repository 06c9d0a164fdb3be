"""A party's signature of a certificate: that this party stated it, and that not a byte has changed since.

Ed25519 of the `cryptography` package, over the party's name and the SHA-256 of the certificate's bytes. A signature
says nothing about whether the statements are true; `privacy/verify.py` recomputes their numbers.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tacit.errors import InputError
from tacit.privacy.keys import pack
from tacit.records import as_choice, as_text, check_names

__all__ = ["Signature", "sign"]

KIND = "signature of a Tacit certificate"
_FIELDS = ("kind", "party", "certificate_sha256", "public_key", "signature")


@dataclass(frozen=True)
class Signature:
    """A signature as it is kept in a file.

    Attributes
    ----------
    party : str
        Who signed, by its own word: only the key can be compared.
    certificate_sha256 : str
        The digest of the certificate's bytes, in hexadecimal digits.
    public_key, signature : bytes
    """

    party: str
    certificate_sha256: str
    public_key: bytes
    signature: bytes

    @property
    def key_text(self) -> str:
        """The public key as people hand it on."""
        return base64.b64encode(self.public_key).decode()

    def record(self) -> dict[str, str]:
        """The fields as plain values, for a file."""
        words = (KIND, self.party, self.certificate_sha256, self.key_text, base64.b64encode(self.signature).decode())
        return dict(zip(_FIELDS, words, strict=True))

    @classmethod
    def read(cls, record: dict[str, Any]) -> Signature:
        """A signature from plain values, which anybody may have written.

        Raises
        ------
        InputError
            Where they are no signature.
        """
        check_names(record, "signature", _FIELDS)
        as_choice(record["kind"], "kind", (KIND,))
        party, digest = (as_text(record[name], name) for name in ("party", "certificate_sha256"))
        return cls(party, digest, _bytes(record["public_key"], 32), _bytes(record["signature"], 64))

    def problem(self, certificate: bytes) -> str:
        """What is wrong with it as a signature of these bytes; empty where nothing is."""
        if hashlib.sha256(certificate).hexdigest() != self.certificate_sha256:
            return "it was made for a different certificate, or the certificate was changed since"
        try:
            key = Ed25519PublicKey.from_public_bytes(self.public_key)
            key.verify(self.signature, _statement(self.party, self.certificate_sha256))
        except (InvalidSignature, ValueError):
            return "it was not made with the key that it names"
        return ""


def sign(key: Ed25519PrivateKey, party: str, certificate: bytes) -> Signature:
    """The signature of a certificate's bytes by a party's key."""
    digest = hashlib.sha256(certificate).hexdigest()
    return Signature(party, digest, key.public_key().public_bytes_raw(), key.sign(_statement(party, digest)))


def _statement(party: str, digest: str) -> bytes:
    return pack(KIND, party, digest)


def _bytes(value: object, size: int) -> bytes:
    try:
        found = base64.b64decode(as_text(value, "key or signature"), validate=True)
    except (binascii.Error, ValueError) as error:
        raise InputError("a key or a signature is not written in base64") from error
    if len(found) != size:
        raise InputError(f"a key or a signature has {len(found)} bytes where {size} belong")
    return found
