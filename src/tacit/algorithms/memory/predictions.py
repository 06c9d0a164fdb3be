"""The joint predictions z, their loss, its derivatives, and the intercept."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import blas

from tacit.algorithms.base import Problem
from tacit.algorithms.constant import best_constant, negligible_objective
from tacit.algorithms.memory.lean import Combination, row_slices
from tacit.types import Vector

UNSEEN = 1e-12  # of the loss: what a step gains below this, rounding may hide, and the step is taken unseen,
SURE = 1e-3  # where it is this small beside the intercept


class Predictions:
    """z with everything the coordinator knows about it; moved only to where the objective is known."""

    def __init__(self, problem: Problem, labels: Vector) -> None:
        self.problem, self.labels, self.weights = problem, labels, problem.row_weights
        self.total = problem.total
        self.scale = 0.0
        start = best_constant(problem, labels)
        self.place(np.full(labels.size, start), start)
        self.scale = negligible_objective(problem, labels, self.intercept)

    def place(self, z: Vector, intercept: float) -> None:
        """Put z somewhere, and b to its minimiser."""
        self.z, self.intercept = z, intercept
        self._evaluate(self.loss_at(z))
        if self.problem.fit_intercept:
            self.settle_intercept()

    def combine(self, step: Combination) -> Any:
        """A step in the form that the next three take."""
        return step[:]

    def curvature_along(self, step: Any) -> float:
        """Second derivative of the sum of losses along a step."""
        return float(self.curvature @ (step * step))

    def loss_along(self, step: Any, length: float) -> float:
        """Mean loss at the end of so much of a step."""
        return self.loss_at(self.z + length * step)

    def move(self, step: Any, length: float, loss: float) -> None:
        """Go so far along a step, at whose end the loss is known."""
        self.z = self.z + length * step
        self._evaluate(loss)

    def mark(self) -> Any:
        """Where z is, for `moved_since`."""
        return self.z

    def moved_since(self, mark: Any, step: Combination) -> Vector | Combination:
        """How far z has moved; `step` says it up to rounding."""
        return np.asarray(self.z - mark)

    def loss_at(self, z: Vector) -> float:
        """Mean loss of other predictions."""
        return self.problem.loss.total(z, self.labels, self.weights) / self.total

    def _evaluate(self, loss: float) -> None:
        self.loss = loss
        self.residual, self._curvature = self.problem.loss.slopes(self.z, self.labels)
        if self.weights is not None:
            self.residual, self._curvature = self.weights * self.residual, self.weights * self._curvature

    @property
    def curvature(self) -> Vector:
        """Second derivatives at z."""
        return self._curvature

    def settle_intercept(self) -> None:
        """Move b to the minimiser over b alone, so that the residual sums to zero."""
        for _ in range(50):
            slope = float(self.residual.sum())
            if abs(slope) <= 1e-12 * float(blas.dasum(self.residual)):
                return
            move, loss = self._intercept_step(slope)
            gain = self.loss - loss
            if move == 0.0:
                return
            self._shift(move)
            self.intercept += move
            self._evaluate(loss)
            if gain < 1e-14 * max(loss, self.scale):
                return

    def _curvature_sum(self) -> float:
        return float(self.curvature.sum())

    def _shift(self, move: float) -> None:
        self.z = self.z + move

    def _loss_shifted(self, move: float) -> float:
        return self.loss_at(self.z + move)

    def _intercept_step(self, slope: float) -> tuple[float, float]:
        """Newton's step for b, shortened until the loss falls; 0 where it does not."""
        move = -slope / max(self._curvature_sum(), 1e-12 * self.total)
        gain = -0.5 * move * slope / self.total
        if gain <= UNSEEN * max(self.loss, self.scale) and abs(move) <= SURE * (1 + abs(self.intercept)):
            return move, self._loss_shifted(move)
        for _ in range(40):
            loss = self._loss_shifted(move)
            if loss <= self.loss + 1e-4 * move * slope / self.total:
                return move, loss
            move /= 4
        return 0.0, self.loss

    def restore(self, z: Vector, intercept: float, scale: float) -> None:
        """Go on from a saved place."""
        self.z, self.intercept, self.scale = z, intercept, scale
        self._evaluate(self.loss_at(z))


class LeanPredictions(Predictions):
    """The same, with three vectors: labels, z and residual, moved in place some rows at a time."""

    def place(self, z: Vector, intercept: float) -> None:
        """Put z, which is kept and changed, somewhere, and b to its minimiser."""
        self.residual = np.empty_like(z)
        super().place(z, intercept)

    def loss_at(self, z: Vector | Combination) -> float:
        """Mean loss of other predictions."""
        parts = (self._total(z[rows], rows) for rows in row_slices(self.labels.size))
        return sum(parts) / self.total

    def combine(self, step: Combination) -> Combination:
        """A step as it is: its rows are formed when they are needed."""
        return step

    def curvature_along(self, step: Combination) -> float:
        """Second derivative of the sum of losses along a step."""
        return sum(float(self._slopes(rows)[1] @ np.square(step[rows])) for rows in row_slices(self.labels.size))

    def loss_along(self, step: Combination, length: float) -> float:
        """Mean loss at the end of so much of a step."""
        slices = row_slices(self.labels.size)
        return sum(self._total(self.z[rows] + length * step[rows], rows) for rows in slices) / self.total

    def move(self, step: Combination, length: float, loss: float) -> None:
        """Go so far along a step, at whose end the loss is known."""
        for rows in row_slices(self.labels.size):
            self.z[rows] += length * step[rows]
        self._evaluate(loss)

    def mark(self) -> None:
        """Nothing: z changes in place."""

    def moved_since(self, mark: None, step: Combination) -> Combination:
        """How far z has moved: the step itself."""
        return step

    @property
    def curvature(self) -> Vector:
        """Second derivatives, made anew each time."""
        curvature = np.empty(self.labels.size)
        for rows in row_slices(self.labels.size):
            curvature[rows] = self._slopes(rows)[1]
        return curvature

    def _total(self, z: Vector, rows: slice) -> float:
        weights = None if self.weights is None else self.weights[rows]
        return self.problem.loss.total(z, self.labels[rows], weights)

    def _slopes(self, rows: slice) -> tuple[Vector, Vector]:
        residual, curvature = self.problem.loss.slopes(self.z[rows], self.labels[rows])
        if self.weights is None:
            return residual, curvature
        return self.weights[rows] * residual, self.weights[rows] * curvature

    def _evaluate(self, loss: float) -> None:
        self.loss, self._summed_curvature = loss, 0.0
        for rows in row_slices(self.labels.size):
            self.residual[rows], curvature = self._slopes(rows)
            self._summed_curvature += float(curvature.sum())

    def _curvature_sum(self) -> float:
        return self._summed_curvature

    def _shift(self, move: float) -> None:
        self.z += move

    def _loss_shifted(self, move: float) -> float:
        slices = row_slices(self.labels.size)
        return sum(self._total(self.z[rows] + move, rows) for rows in slices) / self.total
