"""The small problem at the coordinator: the objective over every direction known so far."""

from __future__ import annotations

import numpy as np

from tacit.algorithms.linear import solve_scaled
from tacit.algorithms.memory.lean import Combination
from tacit.algorithms.memory.predictions import Predictions
from tacit.algorithms.memory.window import Window, bordered
from tacit.types import Arrays, Vector

SUBSPACE_CUTOFF = 1e-12
INNER_STEPS = 2
NEEDLESS = 1e-12  # of z
SLOPE_LEFT = 1e-3  # the search ends when the slope has fallen to this part of the first


class Subspace:
    """Objective over cf in z + [S, share] cf + b, and its chord Newton model in the frozen metric.

    The penalty along cf is known exactly from the parties' inner products, so no message is needed.
    """

    def __init__(self, predictions: Predictions, window: Window, alpha: float, total: Arrays) -> None:
        self.predictions, self.window, self.alpha = predictions, window, alpha
        heard = _is_more_than_rounding(total["share"], predictions.z)
        self.share = total["share"] if heard else 0.0 * total["share"]  # not copied: it has a number for every row
        pp, px = (heard * float(value) for value in total["direction_dots"][:2])
        self.start_norm2 = float(total["coef_norm2"][0])
        self.linear = np.append(total["move_dot_coef"], px)
        self.penalty_gram = bordered(window.gram, heard * total["move_dot_direction"], pp)
        products, own, total_weighted = window.products(self.share)
        gram = bordered(window.curvature_gram, products, own)
        self.sums = np.append(window.sums, total_weighted)
        self.model = window.projected(gram, self.sums) / predictions.total + alpha * self.penalty_gram
        self.cf = np.zeros(window.used + 1)
        self.shift = 0.0

    def minimise(self) -> None:
        """A few Newton steps with an exact line search on the true objective: it never rises."""
        first = 0.0
        for inner in range(INNER_STEPS):
            direction, shift, slope = self._newton()
            first = first or -slope
            small = SLOPE_LEFT * first if inner else 1e-16 * max(self.objective(), self.predictions.scale)
            if -slope <= small or not self._advance(direction, shift, slope):
                return

    def objective(self) -> float:
        """Objective at the current predictions."""
        return self.predictions.loss + 0.5 * self.alpha * self.norm2(self.cf)

    def norm2(self, cf: Vector) -> float:
        """||x||^2 after the step cf."""
        return self.start_norm2 + 2 * float(cf @ self.linear) + float(cf @ self.penalty_gram @ cf)

    def intercept_move(self) -> float:
        """How far b has moved: its own shift, and the part inside the steps that are used again."""
        return self.shift + float(self.window.intercepts[: self.window.used] @ self.cf[:-1])

    def step(self, more: float) -> Combination:
        """How far z has moved, with so much `more` of b."""
        return Combination(self.window.columns, self.share, self.cf, self.shift + more)

    def _newton(self) -> tuple[Vector, float, float]:
        """Direction over cf, the move of b that goes with it, and the slope of the objective along both."""
        residual, total = self.predictions.residual, self.predictions.total
        slopes = np.append(self.window.columns.T @ residual, self.share @ residual) / total
        gradient = slopes + self.alpha * (self.linear + self.penalty_gram @ self.cf)
        if not self.window.project:
            direction = -solve_scaled(self.model, gradient, np.diag(self.model), SUBSPACE_CUTOFF)
            return direction, 0.0, float(gradient @ direction)
        pull = float(residual.sum())  # the slope in b, times total
        reduced = gradient - self.sums * (pull / self.window.metric_sum) / total
        direction = -solve_scaled(self.model, reduced, np.diag(self.model), SUBSPACE_CUTOFF)
        shift = -(float(self.sums @ direction) + pull) / self.window.metric_sum
        return direction, shift, float(gradient @ direction) + pull / total * shift

    def _advance(self, direction: Vector, shift: float, slope: float) -> bool:
        """Go along the direction as far as the true curvature says, less where that is too far."""
        predictions = self.predictions
        step = predictions.combine(Combination(self.window.columns, self.share, direction, shift))
        curvature = predictions.curvature_along(step) / predictions.total
        curvature += self.alpha * float(direction @ self.penalty_gram @ direction)
        length = -slope / curvature if curvature > 0 else 1.0
        before = self.objective()
        for _ in range(40):
            cf = self.cf + length * direction
            loss = predictions.loss_along(step, length)
            if loss + 0.5 * self.alpha * self.norm2(cf) <= before + 1e-4 * length * slope:
                self.cf = cf
                self.shift += length * shift
                predictions.move(step, length, loss)
                return True
            length /= 2
        return False


def _is_more_than_rounding(share: Vector, z: Vector) -> bool:
    """False for a direction that the window has made needless: using what is left of it would multiply its rounding."""
    return float(np.linalg.norm(share)) > NEEDLESS * float(np.linalg.norm(z))
