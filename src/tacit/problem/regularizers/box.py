"""Bounds: low <= x <= high."""

from __future__ import annotations

import math

import numpy as np

from tacit.errors import InputError
from tacit.problem.regularizers.base import Regularizer
from tacit.types import Vector

_SLACK = 1e-9  # rounding that still counts as feasible


class Box(Regularizer):
    """R(x) = 0 for low <= x <= high, infinite elsewhere.

    Parameters
    ----------
    low, high : float
        Bounds of every coefficient.
    """

    name = "box"
    form = "separable"
    constraint = True

    def __init__(self, low: float = -1.0, high: float = 1.0) -> None:
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise InputError(
                f"low={low:g}, high={high:g} is not allowed: both must be finite, with low below high; "
                'for x >= 0 alone use "nonnegative"'
            )
        self.low = float(low)
        self.high = float(high)

    def value(self, x: Vector) -> float:
        """0 within the bounds, infinite elsewhere."""
        slack = _SLACK * max(abs(self.low), abs(self.high))
        return 0.0 if np.all((x >= self.low - slack) & (x <= self.high + slack)) else np.inf

    def prox(self, v: Vector, step: float) -> Vector:
        """Projection: entries clipped into the bounds."""
        return np.clip(v, self.low, self.high)

    def conjugate(self, v: Vector) -> float:
        """Sum of max(low v, high v)."""
        with np.errstate(over="ignore"):
            return float(np.sum(np.maximum(self.low * v, self.high * v)))

    def shrink(self, v: Vector) -> float:
        """1: the conjugate is finite everywhere."""
        return 1.0
