"""Squared loss: value = 1/2 (z - y)^2."""

from __future__ import annotations

import numpy as np

from tacit.problem.losses.base import Loss
from tacit.types import Vector


class Squared(Loss):
    """Squared loss, 1/2 (z - y)^2: linear regression."""

    name = "squared"
    task = "regression"
    curvature = 1.0

    def value(self, z: Vector, y: Vector) -> Vector:
        """1/2 (z - y)^2; infinite where the square leaves float64 (|z - y| above 1e154)."""
        with np.errstate(over="ignore"):
            return np.asarray(0.5 * np.square(z - y))

    def grad(self, z: Vector, y: Vector) -> Vector:
        """Residual z - y."""
        return np.asarray(z - y)

    def hess(self, z: Vector, y: Vector) -> Vector:
        """1 everywhere."""
        return np.ones(np.broadcast(z, y).shape)

    def prox(self, v: Vector, y: Vector, step: float | Vector) -> Vector:
        """(v + step y) / (1 + step)."""
        return np.asarray((v + step * y) / (1.0 + step))

    def conjugate(self, t: Vector, y: Vector) -> Vector:
        """t^2 / 2 + t y, finite everywhere."""
        with np.errstate(over="ignore"):
            return np.asarray(t * (0.5 * t + y))

    def recover(self, r: Vector) -> tuple[Vector, Vector]:
        """The derivative is the prediction up to the label, which does not move."""
        return np.array(r, dtype=np.float64), np.ones(np.shape(r))
