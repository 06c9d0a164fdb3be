"""Norm constraint: ||x|| <= radius."""

from __future__ import annotations

import math

import numpy as np

from tacit.errors import InputError
from tacit.problem.regularizers.base import Regularizer
from tacit.types import Vector

_SLACK = 1e-9  # rounding that still counts as feasible


class Ball(Regularizer):
    """R(x) = 0 for ||x|| <= radius, infinite elsewhere.

    Parameters
    ----------
    radius : float
        Largest Euclidean norm of one party's coefficients.
    """

    name = "ball"
    form = "ball"
    constraint = True

    def __init__(self, radius: float = 1.0) -> None:
        if not (radius > 0 and math.isfinite(radius)):
            raise InputError(f'radius={radius:g} is not allowed: it must be positive and finite; "none" has no bound')
        self.radius = float(radius)

    def value(self, x: Vector) -> float:
        """0 within the radius, infinite elsewhere."""
        return 0.0 if _norm(x) <= self.radius * (1.0 + _SLACK) else np.inf

    def prox(self, v: Vector, step: float) -> Vector:
        """Projection: v shortened to the radius where it is longer."""
        size = _norm(v)
        return np.array(v, dtype=np.float64) if size <= self.radius else np.asarray(v * (self.radius / size))

    def conjugate(self, v: Vector) -> float:
        """Norm of v times the radius."""
        return self.radius * _norm(v)

    def shrink(self, v: Vector) -> float:
        """1: the conjugate is finite everywhere."""
        return 1.0


def _norm(x: Vector) -> float:
    """Euclidean norm whose squares cannot overflow."""
    scale = float(np.max(np.abs(x), initial=0.0))
    return scale * float(np.sqrt(np.sum(np.square(x / scale)))) if scale > 0.0 else 0.0
