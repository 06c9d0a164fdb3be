"""Mean, deviation and range of columns, of all values at once or block by block, without overflow.

Values are divided by a power of 2, which costs no digit, and taken from one of them, so that none is lost where they
are large and near each other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.types import Vector

ROWS_AT_ONCE = 4096  # rows that stay in cache
OF_ZERO = -1100  # exponent of a column that is 0 so far: below that of any other number


def moments(values: Vector) -> tuple[float, float]:
    """Mean and deviation, without overflow, and the same in whatever order the values stand (up to rounding)."""
    if values.size == 0:
        return 0.0, 0.0
    low, high = float(values.min()), float(values.max())
    if low == high:
        return low, 0.0
    exponent = int(np.frexp(max(abs(low), abs(high)))[1])
    scaled = np.ldexp(values, -exponent)  # within -1 .. 1
    start = np.ldexp(low, -exponent)
    shifted = scaled - start
    mean = float(shifted.mean())
    deviation = float(np.sqrt(np.mean((shifted - mean) ** 2)))
    return float(np.ldexp(start + mean, exponent)), float(np.ldexp(deviation, exponent))


class RunningMoments:
    """Range, mean and deviation of columns whose rows come in blocks (Chan, Golub and LeVeque's update).

    Attributes
    ----------
    low, high : array
        Smallest and largest value of each column so far.
    """

    def __init__(self, width: int) -> None:
        self.low, self.high = np.full(width, np.inf), np.full(width, -np.inf)
        self._count = 0
        self._start = self._mean = self._squares = np.zeros(width)  # mean of x - start, both divided by 2**exponent
        self._exponent = np.full(width, OF_ZERO, dtype=np.intc)

    def add(self, block: npt.NDArray[Any]) -> None:
        """Take in some rows."""
        for start in range(0, len(block), ROWS_AT_ONCE):
            self._add(block[start : start + ROWS_AT_ONCE])

    def _add(self, block: npt.NDArray[Any]) -> None:
        low, high = block.min(axis=0).astype(np.float64), block.max(axis=0).astype(np.float64)
        self.low, self.high = np.minimum(self.low, low), np.maximum(self.high, high)
        if not self._count:
            self._start = block[0].astype(np.float64)
        largest = np.maximum(abs(low), abs(high))
        self._widen(np.where(largest == 0.0, OF_ZERO, np.frexp(largest)[1]).astype(np.intc))
        shifted = np.ldexp(block.astype(np.float64), -self._exponent)
        shifted -= np.ldexp(self._start, -self._exponent)
        mean = shifted.mean(axis=0)
        shifted -= mean
        before, more = self._count, len(block)
        apart = mean - self._mean
        self._count += more
        self._mean = self._mean + apart * (more / self._count)
        self._squares = self._squares + (shifted**2).sum(axis=0) + apart**2 * (before * more / self._count)

    def _widen(self, exponent: npt.NDArray[np.intc]) -> None:
        """Divide by a larger power of 2 where a block holds larger values than those before."""
        new = np.maximum(self._exponent, exponent)
        self._mean = np.ldexp(self._mean, self._exponent - new)
        self._squares = np.ldexp(self._squares, 2 * (self._exponent - new))
        self._exponent = new

    def found(self) -> tuple[Vector, Vector]:
        """Mean and deviation of each column, by `moments`'s rules."""
        alike = self.low == self.high
        mean = np.ldexp(np.ldexp(self._start, -self._exponent) + self._mean, self._exponent)
        deviation = np.ldexp(np.sqrt(self._squares / max(self._count, 1)), self._exponent)
        return np.where(alike, self.low, mean), np.where(alike, 0.0, deviation)
