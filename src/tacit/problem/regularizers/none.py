"""No regularizer: R(x) = 0."""

from __future__ import annotations

import numpy as np

from tacit.problem.regularizers.base import Regularizer
from tacit.types import Vector


class NoPenalty(Regularizer):
    """R(x) = 0: only the loss decides."""

    name = "none"
    form = "quadratic"
    constraint = True

    def value(self, x: Vector) -> float:
        """0 everywhere."""
        return 0.0

    def prox(self, v: Vector, step: float) -> Vector:
        """The point itself."""
        return np.array(v, dtype=np.float64)

    def conjugate(self, v: Vector) -> float:
        """0 at v = 0, infinite elsewhere."""
        return np.inf if np.any(v) else 0.0

    def shrink(self, v: Vector) -> float:
        """0 unless v = 0."""
        return 0.0 if np.any(v) else 1.0
