"""Lasso: R(x) = ||x||_1."""

from __future__ import annotations

import numpy as np

from tacit.problem.regularizers.base import Regularizer
from tacit.types import Vector

_SLACK = 1e-12  # rounding that still counts as on the edge of the dual ball


class L1(Regularizer):
    """R(x) = ||x||_1: few coefficients."""

    name = "l1"
    form = "separable"
    l1 = 1.0

    def value(self, x: Vector) -> float:
        """||x||_1."""
        with np.errstate(over="ignore"):
            return float(np.sum(np.abs(x)))

    def prox(self, v: Vector, step: float) -> Vector:
        """Soft threshold: every coefficient moved towards 0 by step."""
        return soft_threshold(v, step)

    def conjugate(self, v: Vector) -> float:
        """0 where max|v| <= 1, infinite elsewhere."""
        return 0.0 if np.max(np.abs(v), initial=0.0) <= 1.0 + _SLACK else np.inf

    def shrink(self, v: Vector) -> float:
        """1 / max|v|, at most 1."""
        return 1.0 / max(1.0, float(np.max(np.abs(v), initial=0.0)))


def soft_threshold(v: Vector, amount: float) -> Vector:
    """Every entry moved towards 0 by an amount, and not beyond it."""
    return np.sign(v) * np.maximum(np.abs(v) - amount, 0.0)
