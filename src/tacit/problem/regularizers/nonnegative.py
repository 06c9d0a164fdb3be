"""Sign constraint: x >= 0."""

from __future__ import annotations

import numpy as np

from tacit.problem.regularizers.base import Regularizer
from tacit.types import Vector

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
