"""Losses of support vector machines: the hinge loss max(0, 1 - y z), and half its square."""

from __future__ import annotations

import numpy as np

from tacit.problem.losses.base import SLACK, Loss, indicate, slack_of
from tacit.types import Vector


class Hinge(Loss):
    """Hinge loss, max(0, 1 - y z): support vector machine."""

    name = "hinge"
    task = "classification"
    smooth = False
    lipschitz = 1.0

    def value(self, z: Vector, y: Vector) -> Vector:
        """max(0, 1 - y z)."""
        return np.maximum(0.0, 1.0 - y * z)

    def grad(self, z: Vector, y: Vector) -> Vector:
        """-y below the margin, 0 from it on."""
        return np.where(y * z < 1.0, -y, 0.0)

    def hess(self, z: Vector, y: Vector) -> Vector:
        """0 everywhere."""
        return np.zeros(np.broadcast(z, y).shape)

    def prox(self, v: Vector, y: Vector, step: float | Vector) -> Vector:
        """The margin y v raised by step, but not beyond 1."""
        margin = y * v
        return np.asarray(y * np.maximum(margin, np.minimum(margin + step, 1.0)))

    def conjugate(self, t: Vector, y: Vector) -> Vector:
        """Product t y for -1 <= t y <= 0."""
        pull = -t * y
        inside = (pull >= -slack_of(t)) & (pull <= 1.0 + SLACK)
        return indicate(inside, -np.maximum(pull, 0.0))


class SquaredHinge(Loss):
    """Squared hinge loss, 1/2 max(0, 1 - y z)^2: support vector machine with a smooth loss."""

    name = "squared_hinge"
    task = "classification"
    curvature = 1.0

    def value(self, z: Vector, y: Vector) -> Vector:
        """1/2 max(0, 1 - y z)^2; infinite where the square leaves float64 (|z| above 1e154)."""
        with np.errstate(over="ignore"):
            return np.asarray(0.5 * np.square(np.maximum(0.0, 1.0 - y * z)))

    def grad(self, z: Vector, y: Vector) -> Vector:
        """-y max(0, 1 - y z)."""
        return np.asarray(-y * np.maximum(0.0, 1.0 - y * z))

    def hess(self, z: Vector, y: Vector) -> Vector:
        """1 below the margin, 0 from it on."""
        return (y * z < 1.0).astype(np.float64)

    def prox(self, v: Vector, y: Vector, step: float | Vector) -> Vector:
        """The margin y v averaged with 1 where it is below 1, else kept."""
        margin = y * v
        return np.where(margin < 1.0, y * ((margin + step) / (1.0 + step)), v)

    def conjugate(self, t: Vector, y: Vector) -> Vector:
        """Sum t y + t^2 / 2 for t y <= 0."""
        pull = np.maximum(-t * y, 0.0)
        with np.errstate(over="ignore"):
            return indicate(t * y <= slack_of(t), pull * (0.5 * pull - 1.0))
