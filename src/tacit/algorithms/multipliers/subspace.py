"""The small problem at the coordinator: the smoothed objective over every direction known so far."""

from __future__ import annotations

import numpy as np

from tacit.algorithms.linear import solve_scaled
from tacit.algorithms.memory.lean import ROWS_AT_ONCE
from tacit.algorithms.memory.window import Window
from tacit.algorithms.multipliers.loss import LossEnvelope, SmoothLoss
from tacit.types import Arrays, Vector

CUTOFF = 1e-9
INNER_STEPS = 8
SLOPE_LEFT = 1e-3  # the search ends when the slope has fallen to this part of the first
MOST_HALVINGS = 30


class Subspace:
    """Smoothed objective over cf in z + [S, share, 1] cf: exact for the loss, a quadratic model for the penalty.

    Without an intercept there is no column of ones.
    """

    def __init__(self, envelope: LossEnvelope, window: Window, z: Vector, here: SmoothLoss, total: Arrays) -> None:
        self.envelope, self.columns, self.share = envelope, window.columns, total["share"]
        self.with_intercept = window.project
        extra = int(self.with_intercept)
        self.linear = np.append(total["linear"], np.zeros(extra))
        self.quadratic = np.pad(total["gram"], (0, extra))
        self.cf = np.zeros(self.linear.size)
        self.z, self.here = z, here

    @property
    def coefficients(self) -> Vector:
        """The part of cf that concerns the parties."""
        return self.cf[:-1] if self.with_intercept else self.cf

    @property
    def shift(self) -> float:
        """How far b has moved."""
        return float(self.cf[-1]) if self.with_intercept else 0.0

    def penalty_change(self, cf: Vector) -> float:
        """What the model of the penalty says that cf changes."""
        return float(self.linear @ cf + 0.5 * cf @ self.quadratic @ cf)

    def minimise(self, small: float) -> None:
        """Newton steps with halving, until the slope is small beside the first, or below `small`."""
        first = 0.0
        for _ in range(INNER_STEPS):
            direction, slope = self._newton()
            first = max(first, -slope)
            if -slope <= max(SLOPE_LEFT * first, small) or not self._advance(direction, slope):
                return

    def _newton(self) -> tuple[Vector, float]:
        gradient = self._correlate(self.envelope.weigh(self.here.slope)) + self.linear + self.quadratic @ self.cf
        model = self._gram(self.envelope.metric(self.here.curvature)) + self.quadratic
        direction = -solve_scaled(model, gradient, np.diag(model), CUTOFF)
        return direction, float(gradient @ direction)

    def _advance(self, direction: Vector, slope: float) -> bool:
        step, length = self.predict(direction), 1.0
        before = self.here.value + self.penalty_change(self.cf)
        for _ in range(MOST_HALVINGS):
            cf, z = self.cf + length * direction, self.z + length * step
            here = self.envelope.at(z)
            if here.value + self.penalty_change(cf) <= before + 1e-4 * length * slope:
                self.cf, self.z, self.here = cf, z, here
                return True
            length /= 2
        return False

    def predict(self, cf: Vector) -> Vector:
        """[S, share, 1] cf; without its last entry, [S, share] cf."""
        used = self.columns.shape[1]
        step = self.columns @ cf[:used] + cf[used] * self.share
        return step + cf[-1] if cf.size > used + 1 else step

    def _correlate(self, residual: Vector) -> Vector:
        ones = [float(residual.sum())] if self.with_intercept else []
        return np.array([*(self.columns.T @ residual), float(self.share @ residual), *ones])

    def _gram(self, metric: Vector) -> Vector:
        gram = np.zeros_like(self.quadratic)
        for start in range(0, len(metric), ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            ones = [np.ones(len(metric[rows]))] if self.with_intercept else []
            part = np.column_stack([self.columns[rows], self.share[rows], *ones])
            gram += part.T @ (metric[rows, None] * part)
        return gram
