"""Secure aggregation: every party hides its vector under masks that cancel in the sum of all parties.

Numbers are in steps of a fixed size, counted modulo a power of 2^64: there masks hide them completely.

`docs/explanation/secure-aggregation.md` says in plain words who sees what, and what is assumed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NoReturn

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256, Hash

from tacit.errors import InputError, RunError
from tacit.privacy.randomness import LIMIT, Keystream, derive_packed, pack
from tacit.types import Vector, Words

# --- Numbers in steps of a fixed size, counted modulo a power of 2^64: what masks hide completely, and cancel in


WORD_BITS = 64
HALF_BITS, HALF_WORD = np.uint64(32), np.uint64(2**32 - 1)
MOST_BITS = 1000  # scale_bits beyond this would leave the range of floats
MOST_WORDS = 8


@dataclass(frozen=True)
class FixedPoint:
    """Numbers as multiples of 2^-scale_bits, counted modulo 2^(64 words).

    Attributes
    ----------
    scale_bits : int
        Bits behind the point; negative for steps larger than 1.
    bound : float
        Public bound on the absolute value of every entry of every party.
    words : int
        Words of 64 bits that hold one number. With one, encoded arrays have the shape of the vector; with more, one
        more axis in front, the lowest word first.
    """

    scale_bits: int
    bound: float
    words: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.words <= MOST_WORDS:
            raise InputError(f"words={self.words} is not allowed: it must be from 1 to {MOST_WORDS}")
        most = MOST_BITS - WORD_BITS * (self.words - 1)
        if abs(self.scale_bits) > most:
            raise InputError(f"scale_bits={self.scale_bits} is not allowed: at most {most} either way")
        if not 0 < self.bound < math.inf:
            raise InputError(f"bound={self.bound} is not allowed: it must be positive and finite")
        self.check_room(("one party",))

    @property
    def step(self) -> float:
        """Distance of neighbouring numbers."""
        return math.ldexp(1.0, -self.scale_bits)

    def check_room(self, parties: Sequence[str]) -> None:
        """Refuse a number of parties whose sum might leave the bits: the party at which it happens is named."""
        bits = WORD_BITS * self.words
        fit = (2 ** (bits - 1) - 1) // self._largest()
        if len(parties) > fit:
            raise InputError(
                f"{parties[fit]}: the sum of {len(parties)} vectors with entries up to {self.bound:g} can overflow "
                f"{bits} bits at scale_bits={self.scale_bits}: lower scale_bits, or the bound"
            )

    def encode(self, vector: npt.ArrayLike, party: str) -> Words:
        """The vector in steps, rounded to nearest; the message on a refusal never shows the entry, which is private."""
        array = np.atleast_1d(np.asarray(vector, dtype=np.float64))
        bad = np.flatnonzero(~(np.abs(array) <= self.bound))
        if bad.size:
            raise RunError(f"{party}: entry {bad[0]} is NaN or beyond the public bound {self.bound:g}: clip it first")
        steps = array * math.ldexp(1.0, self.scale_bits)
        np.rint(steps, out=steps)
        if self.words == 1:
            return steps.astype(np.int64).view(np.uint64)
        return _signed_words(steps, self.words)

    def decode_sum(self, total: Words, parties: int) -> Vector:
        """A sum over parties as floats; refused where it is larger than the parties' bounds allow."""
        negative, size = self._magnitude(total)
        if self._exceeds(size, parties * self._largest()):
            raise RunError(
                "the masks did not cancel, so the sum is noise: all parties must use the same keys, run, round, "
                "name and scale_bits"
            )
        value = np.zeros(size.shape[1:])
        for place in range(self.words):  # from the lowest, so that the roundings stay small
            value += size[place] * math.ldexp(1.0, WORD_BITS * place - self.scale_bits)
        np.negative(value, out=value, where=negative)
        return value

    def add(self, total: Words, other: Words) -> None:
        """Add `other` to `total` in place, modulo 2^(64 words)."""
        if self.words == 1:
            np.add(total, other, out=total)
            return
        carry = np.zeros(total.shape[1:], dtype=np.uint64)
        for place in range(self.words):
            part = total[place]
            part += carry
            carry = (part < carry).astype(np.uint64)
            part += other[place]
            carry += part < other[place]

    def add_masks(self, total: Words, masks: Iterable[tuple[Words, bool]]) -> None:
        """Add masks to `total` in place, modulo 2^(64 words), or subtract those that are marked so.

        Halves of words are added up without carrying, which is faster than to carry for each of many masks.
        """
        low, high = np.zeros_like(total), np.zeros_like(total)
        subtracted = 0
        for mask, minus in masks:
            own = ~mask if minus else mask  # -m = ~m + 1
            subtracted += minus
            low += own & HALF_WORD
            high += own >> HALF_BITS
        low, high, whole = (array.reshape(self.words, -1) for array in (low, high, total))
        carry = np.full(whole.shape[1], subtracted, dtype=np.uint64)
        for place in range(self.words):
            below = low[place] + (whole[place] & HALF_WORD) + carry
            above = high[place] + (whole[place] >> HALF_BITS) + (below >> HALF_BITS)
            whole[place] = (below & HALF_WORD) | (above << HALF_BITS)
            carry = above >> HALF_BITS

    def _magnitude(self, total: Words) -> tuple[npt.NDArray[np.bool_], Words]:
        """Which entries are negative, and the absolute values in words, lowest first."""
        words = total[None] if self.words == 1 else total
        negative = words[-1] >> np.uint64(WORD_BITS - 1) > 0
        size = words.copy()
        _negate(size, negative)
        return negative, size

    def _exceeds(self, size: Words, largest: int) -> bool:
        """Whether some absolute value is larger."""
        above = np.zeros(size.shape[1:], dtype=bool)
        for place in range(self.words):
            limit = np.uint64((largest >> (WORD_BITS * place)) & (2**WORD_BITS - 1))
            above = (size[place] > limit) | ((size[place] == limit) & above)
        return bool(above.any())

    def _largest(self) -> int:
        """Largest absolute number of steps of one entry, at least 1."""
        return max(1, math.ceil(Fraction(self.bound) * Fraction(2) ** self.scale_bits))


SHARE = FixedPoint(scale_bits=60, bound=2.0**50, words=2)
"""How a run counts the shares of rows, so that a plan can tell which numbers pass unrounded."""


def _signed_words(steps: Vector, count: int) -> Words:
    """Whole numbers as `count` words each, in two's complement; every operation is exact."""
    left = np.abs(steps)
    words = np.empty((count, *steps.shape), dtype=np.uint64)
    for place in reversed(range(1, count)):
        part = np.floor(left * 2.0 ** (-WORD_BITS * place))
        words[place] = part
        part *= 2.0 ** (WORD_BITS * place)
        left -= part
    words[0] = left
    _negate(words, steps < 0)
    return words


def _negate(words: Words, where: npt.NDArray[np.bool_]) -> None:
    """Negate some numbers in place, in two's complement: every bit turned over, plus 1."""
    np.bitwise_xor(words, np.where(where, np.uint64(2**WORD_BITS - 1), np.uint64(0)), out=words)
    carry = where
    for word in words:
        word += carry
        carry = carry & (word == 0)


# --- Secure aggregation: every party hides its vector under masks that cancel in the sum of all parties


class MaskingParty:
    """One party's side of secure aggregation: one key pair for one run.

    Parameters
    ----------
    name : str
        The party's name, different from all others.
    run : str
        Name of the run, the same for all parties.
    private_key : X25519PrivateKey, optional
        For tests only. A fresh one is drawn without it, also when a paused run goes on: a key that came back from a
        file would give the masks of rounds that were already played.
    """

    def __init__(self, name: str, run: str, private_key: X25519PrivateKey | None = None) -> None:
        self.name = name
        self._run = run
        self._key = private_key if private_key is not None else X25519PrivateKey.generate()
        self._secrets: dict[str, bytes] = {}
        self._contexts: dict[str, bytes] = {}  # by other party: what their masks are bound to besides their use
        self._roster, self._parties = b"", [name]
        self._last_round: dict[str, int] = {}

    @property
    def public_bytes(self) -> bytes:
        """The public key, 32 bytes, for all other parties."""
        return self._key.public_key().public_bytes_raw()

    def agree(self, others: Mapping[str, bytes], partners: Collection[str] | None = None) -> None:
        """Agree on secrets with others, given all public keys; once in the life of a key.

        Masks are shared with `partners`, who share theirs with this party; without them with everybody.
        """
        if self._secrets:
            raise RunError(f"{self.name} has already agreed on its keys: make a new MaskingParty for a new run")
        self._check_others(others)
        self._roster, self._parties = _digest({**others, self.name: self.public_bytes}), sorted([self.name, *others])
        shared = others if partners is None else {name: others[name] for name in partners}
        self._secrets = {other: self._exchange(other, key) for other, key in sorted(shared.items())}
        about = ("tacit", "mask", self._run, self._roster)
        self._contexts = {other: pack(*about, *sorted((self.name, other))) for other in shared}

    def mask(self, round: int, name: str, vector: npt.ArrayLike, fixed_point: FixedPoint, seen: bytes = b"") -> Words:
        """The vector under masks that cancel in the sum over all parties.

        Parameters
        ----------
        round : int
            Must grow from call to call for one name: masks are never used twice.
        name : str
            Name of the array within the round.
        vector : array
            Finite, with entries within the bound of `fixed_point`.
        fixed_point : FixedPoint
            The same for all parties.
        seen : bytes
            Fingerprint of what the vector answers: masks cancel among those who answer the same alone, so that whoever
            asks different parties different things gets noise.

        Returns
        -------
        array of uint64
            Uniform to whoever lacks the secret with one other party.
        """
        if not self._secrets:
            raise RunError(f"{self.name} has no keys of the other parties yet: call agree first")
        fixed_point.check_room(self._parties)
        masked = fixed_point.encode(vector, self.name)
        self._claim(round, name, masked.size)
        use = pack(round, name, seen)
        fixed_point.add_masks(
            masked,
            (
                (self._mask_with(other, use, masked.size).reshape(masked.shape), self.name > other)
                for other in self._secrets
            ),
        )
        return masked

    def _mask_with(self, other: str, use: bytes, size: int) -> Words:
        """The mask that this pair of parties shares for one use: the first of them adds it, the other subtracts it."""
        return Keystream(derive_packed(self._secrets[other], self._contexts[other] + use)).words(size)

    def _claim(self, round: int, name: str, size: int) -> None:
        """Refuse to mask twice in one round: the difference of the two would be bare."""
        last = self._last_round.get(name, -1)
        if round <= last:
            raise RunError(
                f"{self.name}: round {round} of {name!r} is masked already (last: {last}): a mask is never used twice, "
                "so send the first answer again, or begin a new run"
            )
        if size > LIMIT:
            raise InputError(f"{name!r} has {size} entries, more than {LIMIT}: send it in parts")
        self._last_round[name] = round

    def _exchange(self, other: str, key: bytes) -> bytes:
        try:
            return self._key.exchange(X25519PublicKey.from_public_bytes(key))
        except ValueError as error:
            raise RunError(f"{other} sent a key that is no X25519 public key: ask it for a new one") from error

    def _check_others(self, others: Mapping[str, bytes]) -> None:
        if not others:
            raise InputError(f"{self.name} is alone: masks need at least one other party")
        if self.name in others:
            raise InputError(f"two parties are called {self.name}: give every party a name of its own")
        keys = [self.public_bytes, *others.values()]
        if len(set(keys)) < len(keys):
            raise RunError(f"two of {', '.join([self.name, *others])} have the same public key: each draws its own")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a MaskingParty is not copied, since two copies would use the same masks: make a new one")


def unmask_sum(masked: Mapping[str, Words], parties: Sequence[str], fixed_point: FixedPoint) -> Vector:
    """Sum of all parties' vectors from their masked ones.

    Parameters
    ----------
    masked : mapping of party name to array of uint64
        The answers of one round, from every party.
    parties : sequence of str
        Everybody who agreed on keys.
    fixed_point : FixedPoint
        The same that the parties used.

    Returns
    -------
    Vector
        Within len(parties) * step / 2 of the sum of the vectors, plus 2^-53 of itself where it exceeds 2^53 steps.
    """
    _check_answers(masked, parties)
    fixed_point.check_room(parties)
    arrays = list(masked.values())
    total = arrays[0].copy()
    for array in arrays[1:]:
        fixed_point.add(total, array)
    return fixed_point.decode_sum(total, len(parties))


def fingerprint(keys: Mapping[str, bytes]) -> str:
    """A short text for the names and public keys of all parties; people compare it over another channel."""
    digits = _digest(keys)[:16].hex()
    return " ".join(digits[i : i + 4] for i in range(0, len(digits), 4))


def explain_collusion(parties: Sequence[str], coordinator_is_party: bool) -> str:
    """Say in one paragraph who would have to work together to see one party's vector."""
    count = len(parties)
    if count < 2:
        return "Masks hide nothing: the sum over one party is its vector."
    if count == 2 and coordinator_is_party:
        return (
            "Masks hide nothing: the coordinator takes its own vector off the sum and has the other party's. "
            "Add a third party, or let somebody else coordinate."
        )
    spare = count - 2 - coordinator_is_party
    who = "The coordinator, a party itself," if coordinator_is_party else "The coordinator"
    alone = f"{who} sees only the sum over {_list(parties)}."
    if count == 2:
        return f"{alone} With one party it sees the other's vector, and a party that is told the sum sees it too."
    if spare == 0:
        return f"{alone} Together with any one other party it sees the vector of the last."
    return (
        f"{alone} Even with {spare} other {'party' if spare == 1 else 'parties'} it sees only the sum of the remaining "
        f"two; with {spare + 1} it sees the vector of the last."
    )


def _check_answers(masked: Mapping[str, Words], parties: Sequence[str]) -> None:
    if not parties:
        raise InputError("parties is empty: name everybody who agreed on keys")
    missing = [party for party in parties if party not in masked]
    if missing:
        raise RunError(f"no answer from {_list(missing)}: masks cancel only when all are there; resume when they are")
    strangers = [party for party in masked if party not in parties]
    if strangers:
        raise RunError(f"an answer from {_list(strangers)}, who did not agree on keys: leave it out")
    shape = masked[parties[0]].shape
    for party, array in masked.items():
        if array.dtype != np.uint64:
            raise RunError(f"{party} sent numbers of type {array.dtype}: masked vectors are uint64")
        if array.shape != shape:
            raise RunError(f"{party} sent an array of shape {array.shape}, {parties[0]} one of {shape}: send alike")


def _digest(keys: Mapping[str, bytes]) -> bytes:
    digest = Hash(SHA256())
    for name, key in sorted(keys.items()):
        digest.update(pack(name, key))
    return digest.finalize()


def _list(names: Iterable[str]) -> str:
    *first, last = [*names] or [""]
    return f"{', '.join(first)} and {last}" if first else last
