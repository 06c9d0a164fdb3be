"""The loss's envelope: a loss with kinks made smooth around a multiplier."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.algorithms.base import Problem
from tacit.algorithms.constant import label_spread
from tacit.types import Vector

FLOOR = 1e-3  # of the metric, where the loss is flat


@dataclass(frozen=True)
class SmoothLoss:
    """The envelope at one z: its sum over the rows, and slope and curvature of each row (without row weights)."""

    value: float
    slope: Vector
    curvature: Vector


class LossEnvelope:
    """l_e with its multiplier and stiffness; a smooth loss is its own envelope."""

    def __init__(self, problem: Problem, labels: Vector) -> None:
        self.loss, self.labels, self.weights = problem.loss, labels, problem.row_weights
        spread = 1.0 if problem.loss.task == "classification" else label_spread(labels)
        self.stiffness = problem.rho or (1.0 if problem.loss.smooth else problem.loss.lipschitz / spread)
        self.multiplier = np.zeros(labels.size)

    def weigh(self, values: Vector) -> Vector:
        """Values times row weights."""
        return values if self.weights is None else self.weights * values

    def sum(self, values: Vector) -> float:
        """Weighted sum over the rows."""
        return float(values.sum() if self.weights is None else self.weights @ values)

    def at(self, z: Vector) -> SmoothLoss:
        """Value, slope and curvature at z."""
        loss, labels, stiffness = self.loss, self.labels, self.stiffness
        if loss.smooth:
            return SmoothLoss(loss.total(z, labels, self.weights), *loss.slopes(z, labels))
        centre = z + self.multiplier / stiffness
        nearest = loss.prox(centre, labels, 1 / stiffness)
        slope = np.clip(stiffness * (centre - nearest), -loss.lipschitz, loss.lipschitz)
        value = loss.total(nearest, labels, self.weights)
        value += self.sum(slope * slope - self.multiplier**2) / (2 * stiffness)
        size = np.abs(slope)
        on_kink = (size > 1e-12) & (size < (1 - 1e-9) * loss.lipschitz)
        return SmoothLoss(value, slope, np.where(on_kink, stiffness, 0.0))

    def metric(self, curvature: Vector) -> Vector:
        """The curvature with row weights, kept off zero where the loss is flat."""
        top = float(curvature.max(initial=0.0)) or self.stiffness
        return self.weigh(np.maximum(curvature, FLOOR * top))

    def infeasibility(self, here: SmoothLoss) -> float:
        """Sum of sigma (t - z)^2: how far the envelope's minimiser is from the predictions."""
        return 0.0 if self.loss.smooth else self.sum((self.multiplier - here.slope) ** 2) / self.stiffness

    def move_multiplier(self, here: SmoothLoss, growth: float) -> None:
        """Take the slope as the new multiplier."""
        if not self.loss.smooth:
            self.multiplier = here.slope
            self.stiffness *= growth
