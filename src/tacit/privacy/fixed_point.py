"""Numbers in steps of a fixed size, counted modulo a power of 2^64: what masks hide completely, and cancel in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from tacit.errors import InputError, RunError
from tacit.types import Vector, Words

WORD_BITS = 64
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

    def subtract(self, total: Words, other: Words) -> None:
        """Subtract `other` from `total` in place, modulo 2^(64 words)."""
        if self.words == 1:
            np.subtract(total, other, out=total)
        else:  # a - b = ~(~a + b)
            np.invert(total, out=total)
            self.add(total, other)
            np.invert(total, out=total)

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
