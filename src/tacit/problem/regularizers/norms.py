"""Penalties by a norm: none, ridge, lasso, elastic net."""

from __future__ import annotations

import numpy as np

from tacit.errors import InputError
from tacit.problem.regularizers.base import Regularizer
from tacit.types import Vector

# --- No regularizer: R(x) = 0


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


# --- Ridge: R(x) = 1/2 ||x||^2


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


# --- Lasso: R(x) = ||x||_1


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


# --- Elastic net: R(x) = l1_ratio ||x||_1 + (1 - l1_ratio) / 2 ||x||^2


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
