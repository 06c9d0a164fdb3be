"""Checking a certificate: its numbers are computed anew from its events, by two accountants.

A certificate is found in order where, for every claim, the epsilon it states
- is what its events give by the first accountant (to 1e-6), which catches every edited number, and
- is within 1 % of what they give by the second, which catches a wrong accountant;
and where delta, the largest epsilon and what was asked fit together. Somebody who changes the events and computes all
numbers anew makes another consistent certificate: only a signature could tell it from the first.

A party's signature of a certificate: that this party stated it, and that not a byte has changed since.

Ed25519 of the `cryptography` package, over the party's name and the SHA-256 of the certificate's bytes. A signature
says nothing about whether the statements are true (see above).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import math
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tacit.errors import InputError
from tacit.privacy import accountant
from tacit.privacy.certificate import Certificate, from_record
from tacit.privacy.claim import Claim, at_least_or_infinite
from tacit.privacy.randomness import pack
from tacit.records import as_choice, as_text, check_names, load

SAME = 1e-6
CLOSE = 0.01


@dataclass(frozen=True)
class ClaimCheck:
    """One claim, as stated and as computed anew."""

    about: str
    claimed: float
    first: float
    second: float
    accountant: str
    problem: str = ""


@dataclass(frozen=True)
class Verification:
    """What a check found.

    Attributes
    ----------
    agrees : bool
        Whether everything stated was confirmed.
    claimed, recomputed : float
        The certificate's epsilon as stated, and by the second accountant.
    difference : float
        Relative difference of the two.
    lines : tuple of Line
        One for each claim.
    problems : tuple of str
        What does not fit, in plain sentences; empty where it agrees.
    """

    agrees: bool
    claimed: float
    recomputed: float
    difference: float
    lines: tuple[ClaimCheck, ...]
    problems: tuple[str, ...]


def verify(certificate_json: str | bytes) -> Verification:
    """Compute the epsilon of a certificate anew and compare.

    Raises
    ------
    InputError
        Where the text is no certificate; the message names the field.
    """
    record = load(certificate_json)
    certificate = from_record(record)
    claimed = at_least_or_infinite(record["epsilon"], "epsilon")
    at = record.get("delta")
    stated = [at_least_or_infinite(claim["epsilon"], "epsilon") for claim in record.get("claims", [])]
    lines = tuple(_check(*pair, certificate) for pair in zip(certificate.claims, stated, strict=True))
    main = [
        line.second for line, claim in zip(lines, certificate.claims, strict=True) if claim.unit == certificate.unit
    ]
    recomputed = max(main, default=math.inf)
    problems = [line.problem for line in lines if line.problem]
    problems += _whole(certificate, record["private"], claimed, at)
    return Verification(not problems, claimed, recomputed, difference(claimed, recomputed), lines, tuple(problems))


def difference(claimed: float, recomputed: float) -> float:
    """Relative difference; 0 where both are infinite."""
    if claimed == recomputed:
        return 0.0
    if math.isinf(claimed) or math.isinf(recomputed) or recomputed == 0:
        return math.inf
    return abs(claimed - recomputed) / recomputed


def _check(claim: Claim, claimed: float, certificate: Certificate) -> ClaimCheck:
    assert certificate.target is not None  # a certificate with claims has a target
    at = certificate.target.delta
    first, second = claim.epsilon(at), accountant.second_opinion(claim.events, at)
    about = " ".join(filter(None, (claim.unit, f"of {claim.party}" if claim.party else "", claim.rows)))
    problem = ""
    if difference(claimed, first) > SAME:
        lower = "less" if claimed < first else "more"
        problem = f"{about}: states epsilon {claimed:.6g}, {lower} than the {first:.6g} of its own events"
    elif difference(claimed, second) > CLOSE:
        problem = f"{about}: the second accountant finds epsilon {second:.6g}, not {claimed:.6g}"
    return ClaimCheck(about, claimed, first, second, accountant.opinion_by(claim.events, at), problem)


def _whole(certificate: Certificate, private: bool, claimed: float, at: float | None) -> list[str]:
    """What the certificate states as a whole."""
    problems = []
    target = certificate.target
    target_delta = target.delta if target else None
    if at != target_delta:
        problems.append(f"it states delta {at}, but its target has delta {target_delta}")
    own = certificate.epsilon(target_delta) if target_delta is not None else math.inf
    if difference(claimed, own) > SAME:
        problems.append(f"it states epsilon {claimed:.6g}, but its claims give {own:.6g}")
    if private != certificate.private:
        problems.append(f"it says private: {str(private).lower()}, but its claims say the opposite")
    if target and target.epsilon is not None and own > target.epsilon * (1 + SAME):
        problems.append(f"its events spend epsilon {own:.6g}, more than the {target.epsilon:.6g} that was asked")
    return problems


__all__ = ["Signature", "sign"]

# --- A party's signature of a certificate


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
