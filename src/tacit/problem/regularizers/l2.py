"""Ridge: R(x) = 1/2 ||x||^2."""

from __future__ import annotations

import numpy as np

from tacit.problem.regularizers.base import Regularizer
from tacit.types import Vector


class L2(Regularizer):
    """R(x) = 1/2 ||x||^2: small coefficients."""

    name = "l2"
    form = "quadratic"
    l2 = 1.0

    def value(self, x: Vector) -> float:
        """1/2 ||x||^2."""
        with np.errstate(over="ignore"):
            return 0.5 * float(np.sum(np.square(x)))

    def prox(self, v: Vector, step: float) -> Vector:
        """Every coefficient divided by 1 + step."""
        return np.asarray(v / (1.0 + step))

    def conjugate(self, v: Vector) -> float:
        """1/2 ||v||^2: R is its own conjugate."""
        return self.value(v)

    def shrink(self, v: Vector) -> float:
        """1: the conjugate is finite everywhere."""
        return 1.0
