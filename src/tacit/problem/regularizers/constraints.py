"""Constraints on coefficients: a ball, bounds, a sign."""

from __future__ import annotations

import math

import numpy as np

from tacit.errors import InputError
from tacit.problem.regularizers.base import Regularizer
from tacit.types import Vector

# --- Norm constraint: ||x|| <= radius


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


# --- Bounds: low <= x <= high


_BOX_SLACK = 1e-9  # rounding that still counts as feasible


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
        slack = _BOX_SLACK * max(abs(self.low), abs(self.high))
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


# --- Sign constraint: x >= 0


_VALUE_SLACK = 1e-9  # rounding that still counts as feasible
_DUAL_SLACK = 1e-12  # rounding that still counts as the right sign, against the largest entry


class NonNegative(Regularizer):
    """R(x) = 0 for x >= 0, infinite elsewhere."""

    name = "nonnegative"
    form = "separable"
    constraint = True
    low = 0.0

    def value(self, x: Vector) -> float:
        """0 where no coefficient is negative, infinite elsewhere."""
        scale = max(1.0, float(np.max(np.abs(x), initial=0.0)))
        return 0.0 if np.all(x >= -_VALUE_SLACK * scale) else np.inf

    def prox(self, v: Vector, step: float) -> Vector:
        """Projection: negative entries become 0."""
        return np.maximum(v, 0.0)

    def conjugate(self, v: Vector) -> float:
        """0 where no entry is positive, infinite elsewhere."""
        return 0.0 if self._is_dual(v) else np.inf

    def shrink(self, v: Vector) -> float:
        """0 where an entry is positive, else 1."""
        return 1.0 if self._is_dual(v) else 0.0

    def _is_dual(self, v: Vector) -> bool:
        """True where v <= 0 up to rounding."""
        return bool(np.all(v <= _DUAL_SLACK * np.max(np.abs(v), initial=0.0)))
