"""Elastic net: R(x) = l1_ratio ||x||_1 + (1 - l1_ratio) / 2 ||x||^2."""

from __future__ import annotations

import numpy as np

from tacit.errors import InputError
from tacit.problem.regularizers.base import Regularizer
from tacit.problem.regularizers.l1 import L1, soft_threshold
from tacit.types import Vector


class ElasticNet(Regularizer):
    """R(x) = l1_ratio ||x||_1 + (1 - l1_ratio) / 2 ||x||^2: few coefficients, shared by correlated columns.

    Parameters
    ----------
    l1_ratio : float
        Share of the absolute value: 0 is "l2", 1 is "l1".
    """

    name = "elastic_net"
    form = "separable"

    def __init__(self, l1_ratio: float = 0.5) -> None:
        if not 0.0 <= l1_ratio <= 1.0:
            raise InputError(f"l1_ratio={l1_ratio:g} is not allowed: it must lie between 0 and 1")
        self.l1 = float(l1_ratio)
        self.l2 = 1.0 - self.l1

    def value(self, x: Vector) -> float:
        """Weighted sum of both norms."""
        with np.errstate(over="ignore"):
            square = float(np.sum(np.square(x))) if self.l2 else 0.0
            return self.l1 * float(np.sum(np.abs(x))) + 0.5 * self.l2 * square

    def prox(self, v: Vector, step: float) -> Vector:
        """Soft threshold by step l1_ratio, then divided by 1 + step (1 - l1_ratio)."""
        return np.asarray(soft_threshold(v, step * self.l1) / (1.0 + step * self.l2))

    def conjugate(self, v: Vector) -> float:
        """Sum of max(|v| - l1_ratio, 0)^2 / (2 (1 - l1_ratio)); that of "l1" for l1_ratio = 1."""
        if self.l2 == 0.0:
            return L1().conjugate(v)
        with np.errstate(over="ignore"):
            excess = np.maximum(np.abs(v) - self.l1, 0.0)
            return float(np.sum(np.square(excess))) / (2.0 * self.l2)

    def shrink(self, v: Vector) -> float:
        """1, the conjugate being finite everywhere; that of "l1" for l1_ratio = 1."""
        return L1().shrink(v) if self.l2 == 0.0 else 1.0
