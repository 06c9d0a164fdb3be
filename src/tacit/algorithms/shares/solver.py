"""Ridge regression within a ball, with a certificate of how far the answer is from the exact one.

| symbol | meaning |
|---|---|
| D | the clipped rows in units of their norm |
| c | D' v |
| e, V | eigenvalues and eigenvectors of D'D, or of DD' where D has more columns than rows |
| s | the multiplier of the ball: (D'D + mu + s) x = c, s = 0 or ||x|| = b |
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import linalg, optimize

from tacit.algorithms.block import Block
from tacit.algorithms.rows import ClippedRows
from tacit.algorithms.shares.settings import slope_rounding
from tacit.types import Vector

MOST_STEPS = 500


@dataclass(frozen=True)
class BallSolution:
    """Coefficients in units of the row norm, their share, and what is certified about it.

    Attributes
    ----------
    x, share : Vector
    distance : float
        The share is at most this far from that of the exact minimiser: sqrt(2 gap). By weak duality the gap of the
        objective is at most ||slope||^2 / (2 (mu + s)), slope that of the objective with the multiplier, at x.
    """

    x: Vector
    share: Vector
    distance: float


class BallRidge:
    """Minimises mu/2 ||x||^2 + 1/2 ||D x - v||^2 over ||x|| <= radius; one eigendecomposition for all v, mu, radius."""

    def __init__(self, rows: ClippedRows) -> None:
        self.rows, self.unit = rows, rows.clip.norm
        self.is_dual = rows.d > rows.n
        self.gram = _outer(rows) if self.is_dual else rows.gram(np.ones(rows.n))
        self.gram /= self.unit**2
        self.values, self.vectors = linalg.eigh(self.gram, check_finite=False)
        self.values = np.maximum(self.values, 0.0)

    def predict(self, x: Vector) -> Vector:
        """D x."""
        return self.rows.predict(x / self.unit)

    def correlate(self, v: Vector) -> Vector:
        """D' v."""
        return self.rows.correlate(v) / self.unit

    def solve(self, v: Vector, ridge: float, radius: float = math.inf) -> BallSolution:
        """The minimiser, its share and its certificate; without a radius nothing is certified."""
        c = None if self.is_dual else self.correlate(v)
        rotated = self.vectors.T @ (v if c is None else c)
        shift = self._multiplier(rotated, ridge, radius)
        inner = self.vectors @ (rotated / (self.values + ridge + shift))
        x = self.correlate(inner) if self.is_dual else inner
        size = float(np.linalg.norm(x))
        if shift > 0 or size > radius:
            x *= radius / size
        share = self.predict(x)
        if math.isinf(radius):
            return BallSolution(x, share, math.inf)
        slope = self.correlate(share - v) if c is None else self.gram @ x - c
        slope += (ridge + shift) * x
        rounding = slope_rounding(self.rows.n, self.rows.d, ridge + shift) * radius
        return BallSolution(x, share, (float(np.linalg.norm(slope)) + rounding) / math.sqrt(ridge + shift))

    def _multiplier(self, rotated: Vector, ridge: float, radius: float) -> float:
        """The root of ||x(s)|| = radius, or 0 where x(0) is within it."""
        squares = rotated**2 * (self.values if self.is_dual else 1.0)

        def size(shift: float) -> float:
            return math.sqrt(float(np.sum(squares / (self.values + ridge + shift) ** 2)))

        if size(0.0) <= radius:
            return 0.0
        top = math.sqrt(float(np.sum(squares))) / radius  # there the norm is at most the radius

        def excess(shift: float) -> float:
            # the reciprocal of the norm is nearly linear in the shift, so the root is found in a few steps
            return 1 / radius - 1 / size(shift)

        found = optimize.brentq(excess, 0.0, top * (1 + 1e-12), xtol=1e-300, rtol=1e-14, maxiter=MOST_STEPS)
        return float(found)


def _outer(rows: ClippedRows) -> Vector:
    """The rows times their transpose, in float64 whatever the data are."""
    with np.errstate(over="ignore", invalid="ignore"):  # of rows that count as zeros
        outer = Block(rows.block.matrix.astype(np.float64, copy=False)).outer()
        outer = rows.shrink[:, None] * outer * rows.shrink
    return np.where(np.logical_and.outer(rows.kept, rows.kept), outer, 0.0)
