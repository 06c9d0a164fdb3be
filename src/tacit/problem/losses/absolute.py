"""Absolute loss: value = |z - y|."""

from __future__ import annotations

import numpy as np

from tacit.problem.losses.base import SLACK, Loss, indicate
from tacit.types import Vector


class Absolute(Loss):
    """Absolute loss, |z - y|: median regression."""

    name = "absolute"
    task = "regression"
    smooth = False
    lipschitz = 1.0

    def value(self, z: Vector, y: Vector) -> Vector:
        """|z - y|."""
        return np.abs(z - y)

    def grad(self, z: Vector, y: Vector) -> Vector:
        """Sign of z - y; 0 at the kink."""
        return np.sign(z - y)

    def hess(self, z: Vector, y: Vector) -> Vector:
        """0 everywhere."""
        return np.zeros(np.broadcast(z, y).shape)

    def prox(self, v: Vector, y: Vector, step: float | Vector) -> Vector:
        """Point moved from v towards y by at most step: the label clipped into [v - step, v + step]."""
        return np.clip(y, v - step, v + step)

    def conjugate(self, t: Vector, y: Vector) -> Vector:
        """Product t y for |t| <= 1."""
        return indicate(np.abs(t) <= 1.0 + SLACK, t * y)
