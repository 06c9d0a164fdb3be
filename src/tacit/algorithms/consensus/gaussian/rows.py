"""A node's rows in the coordinates of the private method: scaled down to norm 1, centred, with a constant beside them.

| symbol | meaning |
|---|---|
| R | public unit of the rows |
| x | a row over R, scaled down to norm 1 where it is longer |
| m, C | released centre and spread |
| u | ((x - m)/C, b) |
"""

from __future__ import annotations

import numpy as np

from tacit.algorithms.block import Block
from tacit.algorithms.consensus.gaussian.settings import CONSTANT
from tacit.algorithms.rows import RowClip
from tacit.types import Vector


class UnitRows:
    """The matrix with rows x, by its products."""

    def __init__(self, block: Block, norm: float) -> None:
        self.clipped, self.norm = RowClip(norm).apply(block), norm

    @property
    def n(self) -> int:
        """Rows."""
        return self.clipped.n

    @property
    def d(self) -> int:
        """Columns."""
        return self.clipped.d

    def predict(self, x: Vector) -> Vector:
        """The rows times x."""
        return self.clipped.predict(x / self.norm)

    def correlate(self, r: Vector) -> Vector:
        """The transposed rows times r."""
        return self.clipped.correlate(r) / self.norm

    def gram(self, weights: Vector) -> Vector:
        """The transposed rows times diag(weights) times the rows."""
        return self.clipped.gram(weights) / self.norm**2

    def squares(self) -> Vector:
        """Squared norm of each row."""
        return self.clipped.squares() / self.norm**2


class CentredRows:
    """The matrix with rows u, by its products."""

    def __init__(self, rows: UnitRows, mean: Vector, spread: float) -> None:
        self.rows, self.mean, self.spread = rows, mean, spread
        away = rows.squares() - 2 * rows.predict(mean) + float(mean @ mean)
        # what rounding may have taken off a difference of large numbers is put back
        away = np.maximum(away, 0.0) + 1e-14 * (rows.squares() + float(mean @ mean))
        self.norms = np.sqrt(away / spread**2 + CONSTANT**2) * (1 + 1e-12)

    @property
    def n(self) -> int:
        """Rows."""
        return self.rows.n

    @property
    def d(self) -> int:
        """Columns and the constant."""
        return self.rows.d + 1

    def predict(self, x: Vector) -> Vector:
        """The rows times x."""
        own = x[:-1] / self.spread
        return np.asarray(self.rows.predict(own) + (CONSTANT * x[-1] - float(self.mean @ own)))

    def correlate(self, r: Vector) -> Vector:
        """The transposed rows times r."""
        total = r.sum()
        return np.append((self.rows.correlate(r) - total * self.mean) / self.spread, CONSTANT * total)

    def gram(self, weights: Vector) -> Vector:
        """The transposed rows times diag(weights) times the rows."""
        total, cross = float(weights.sum()), self.rows.correlate(weights)
        whole = np.empty((self.d, self.d))
        both = np.outer(self.mean, cross)
        inner = self.rows.gram(weights) - both - both.T + total * np.outer(self.mean, self.mean)
        whole[:-1, :-1] = inner / self.spread**2
        whole[:-1, -1] = whole[-1, :-1] = CONSTANT / self.spread * (cross - total * self.mean)
        whole[-1, -1] = CONSTANT**2 * total
        return whole
