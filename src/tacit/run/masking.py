"""Secure aggregation in a run: which numbers go under masks, in how many bits, and how their sum comes out again.

| array | one number | largest | step |
|---|---|---|---|
| share; added, by a party's trees | 16 bytes | 2^50 = 1e15 | 2^-60 = 9e-19 |
| all others: inner products, penalties, counts | 24 bytes | 2^70 = 1e21 | 2^-100 = 8e-31 |

Masks are bound to all that was broadcast up to the answer that they hide: parties that were told different things have
masks that do not cancel, so that whoever tells them so gets noise instead of a sum.

The table is the same for every run, so nothing about the data is needed to choose it. The bits left over (16 and 20
for two parties, one less for twice as many) are what a sum whose masks did not cancel is recognised by.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from tacit.errors import RunError
from tacit.privacy.aggregation import SHARE, FixedPoint, MaskingParty, fingerprint, unmask_sum
from tacit.privacy.randomness import pack
from tacit.privacy.releases import digest
from tacit.types import Arrays, Message, Vector, Words

RUN = "feature split"  # part of every mask; what makes two runs differ is that keys are drawn for each
MASKED_KINDS = frozenset({"start", "step"})
KEY_WORDS = 4  # 32 bytes
HEARD = "masks.heard"  # name of what was heard in a party's state
HALF = 32  # bytes of a fingerprint
NOT_SUMMED = ("min_", "max_")
OF_ROWS = ("share", "added")  # arrays with a number for each row

OTHERS = FixedPoint(scale_bits=100, bound=2.0**70, words=3)


def point_of(name: str) -> FixedPoint:
    """How the numbers of an array are counted."""
    return SHARE if name in OF_ROWS else OTHERS


def heard(before: bytes, message: Message) -> bytes:
    """Fingerprint of all broadcasts up to this one; hearing the last one again changes nothing.

    The first half stands for all broadcasts before the last, the second for the last one, so that an answer which is
    sent again after a restart is bound to the same as the first time.
    """
    last = hashlib.sha256(f"{message.kind} {message.round} {digest(message)}".encode()).digest()
    if before[HALF:] == last:
        return before
    return hashlib.sha256(before).digest() + last


class KeySigner(Protocol):
    """Vouches for the own public key of masks, and tells whether those of others are theirs."""

    words: int

    def unchecked(self, names: Sequence[str]) -> list[str]:
        """Parties whose keys nobody here knows."""

    def prove(self, statement: bytes) -> Words:
        """As many words as stated, which show that this party made a statement."""

    def check(self, name: str, statement: bytes, proof: Words) -> bool:
        """Whether a party made a statement; False where nobody here knows its keys. Raises where it did not."""


class Masks:
    """One party's masks, from fresh keys: never saved, and made anew whenever a run goes on.

    Parameters
    ----------
    name : str
    parties : sequence of str
        Everybody who is going to agree, in the order in which the coordinator passes their keys on.
    run : str
        Part of every mask.
    hold : bool
        Whether numbers beyond the range of the masks are held to it; they are refused otherwise. In a private run no
        answer is refused, since that would tell of the rows.
    signer : KeySigner or None
        Vouches for keys, where parties have lasting keys of their own; without it a key is a number that whoever
        passes it on may have replaced.
    rows : str
        A fingerprint of the ids of the rows: part of every mask, and of no signature, by which others could try ids.
    partners : sequence of str or None
        With whom masks are shared; with all parties where it is not said.

    Attributes
    ----------
    fingerprint : str
        Of all keys: the same for every party, unless somebody passed on false ones.
    unchecked : tuple of str
        Parties of which nobody here can tell whether the key that was passed on is theirs.
    """

    def __init__(
        self,
        name: str,
        parties: Sequence[str],
        run: str = RUN,
        *,
        hold: bool = False,
        signer: KeySigner | None = None,
        rows: str = "",
        partners: Sequence[str] | None = None,
    ) -> None:
        self.partners = partners
        self.name, self.parties, self.run, self.hold, self.signer = name, tuple(parties), run, hold, signer
        self._party = MaskingParty(name, f"{run} {rows}")
        self.fingerprint, self.unchecked = "", tuple(one for one in self.parties if one != name)

    @property
    def key(self) -> Words:
        """The public key, and what shows that it is this party's."""
        key = np.frombuffer(self._party.public_bytes, dtype="<u8").astype(np.uint64)
        if self.signer is None:
            return key
        return np.concatenate([key, self.signer.prove(self._statement(self.name, self._party.public_bytes))])

    def _statement(self, name: str, key: bytes) -> bytes:
        """What a party signs: this key of its is for these masks, and for nothing else."""
        return pack("tacit key of masks", self.run, len(self.parties), *self.parties, name, key)

    def agree(self, keys: Words) -> None:
        """Agree on secrets with the others, given everybody's public key in the order of the parties."""
        words = KEY_WORDS + (0 if self.signer is None else self.signer.words)
        if keys.dtype != np.uint64 or keys.shape != (len(self.parties), words):
            raise RunError(f"party {self.name!r} was passed keys of shape {keys.shape}: one for each party is needed")
        told = {name: key[:KEY_WORDS].astype("<u8").tobytes() for name, key in zip(self.parties, keys, strict=True)}
        if told[self.name] != self._party.public_bytes:
            raise RunError(f"party {self.name!r} was passed a key as its own that is not: somebody changed the keys")
        others = {name: key for name, key in told.items() if name != self.name}
        if self.signer is not None:
            proofs = dict(zip(self.parties, keys[:, KEY_WORDS:], strict=True))
            signed = {name: self._statement(name, key) for name, key in others.items()}
            self.unchecked = tuple(n for n in others if not self.signer.check(n, signed[n], proofs[n]))
        self._party.agree(others, self.partners)
        self.fingerprint = fingerprint(told)

    def hide(self, round_: int, arrays: Mapping[str, Vector | Words], *, seen: bytes = b"") -> dict[str, Words]:
        """The arrays of one answer under masks, which cancel among those who have seen the same alone."""
        return {name: self._hide(round_, name, np.asarray(array), seen) for name, array in arrays.items()}

    def _hide(self, round_: int, name: str, array: Vector, seen: bytes) -> Words:
        if name.startswith(NOT_SUMMED):
            raise RunError(f"party {self.name!r}: {name} is no sum, so masks cannot hide it: it does not leave")
        point = point_of(name)
        if self.hold:
            array = np.clip(np.where(np.isnan(array), 0.0, array), -point.bound, point.bound)
        if np.abs(array).max(initial=0.0) > point.bound:
            raise RunError(
                f"party {self.name!r}: {name} of round {round_} has numbers beyond {point.bound:.3g}, which masks "
                "cannot carry: scale the party's columns (and labels that are numbers) to moderate size "
                "(say, standard deviation 1)"
            )
        return self._party.mask(round_, name, array, point, seen)


def unmask(answers: Sequence[Message], parties: Sequence[str]) -> Arrays:
    """Sums over the parties, name by name, from their answers under masks."""
    return {
        name: unmask_sum({answer.sender: answer.arrays[name] for answer in answers}, parties, point_of(name))  # type: ignore[misc]
        for name in answers[0].arrays
    }
