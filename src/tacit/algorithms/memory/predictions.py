"""The joint predictions z, their loss, its derivatives, and the intercept."""

from __future__ import annotations

import numpy as np

from tacit.algorithms.base import Problem
from tacit.algorithms.constant import best_constant, negligible_objective
from tacit.types import Vector


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

    def move(self, step: Vector, loss: float) -> None:
        """Add a step at whose end the loss is known."""
        self.z = self.z + step
        self._evaluate(loss)

    def loss_at(self, z: Vector) -> float:
        """Mean loss of other predictions."""
        return self.problem.loss.total(z, self.labels, self.weights) / self.total

    def _evaluate(self, loss: float) -> None:
        self.loss = loss
        self.residual, self.curvature = self.problem.loss.slopes(self.z, self.labels)
        if self.weights is not None:
            self.residual, self.curvature = self.weights * self.residual, self.weights * self.curvature

    def settle_intercept(self) -> None:
        """Move b to the minimiser over b alone, so that the residual sums to zero."""
        for _ in range(50):
            slope = float(self.residual.sum())
            if abs(slope) <= 1e-12 * float(np.abs(self.residual).sum()):
                return
            move, loss = self._intercept_step(slope)
            gain = self.loss - loss
            if move == 0.0:
                return
            self.z = self.z + move
            self.intercept += move
            self._evaluate(loss)
            if gain < 1e-14 * max(loss, self.scale):
                return

    def _intercept_step(self, slope: float) -> tuple[float, float]:
        """Newton's step for b, shortened until the loss falls; 0 where it does not."""
        move = -slope / max(float(self.curvature.sum()), 1e-12 * self.total)
        for _ in range(40):
            loss = self.loss_at(self.z + move)
            if loss <= self.loss + 1e-4 * move * slope / self.total:
                return move, loss
            move /= 4
        return 0.0, self.loss

    def restore(self, z: Vector, intercept: float, scale: float) -> None:
        """Go on from a saved place."""
        self.z, self.intercept, self.scale = z, intercept, scale
        self._evaluate(self.loss_at(z))
