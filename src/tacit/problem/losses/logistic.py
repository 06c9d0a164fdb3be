"""Logistic loss: value = log(1 + exp(-y z)).

Every round evaluates it once per row, so the loops are compiled. Throughout, m = y z is the margin and
sigma(m) = 1 / (1 + exp(-m)).
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from scipy.special import xlog1py, xlogy

from tacit.problem.losses.base import Loss
from tacit.problem.losses.domain import SLACK, indicate, shrink_to, slack_of
from tacit.problem.losses.logistic_prox import fill_prox
from tacit.types import Vector


class Logistic(Loss):
    """Logistic loss, log(1 + exp(-y z)): logistic regression."""

    name = "logistic"
    task = "classification"
    lipschitz = 1.0
    curvature = 0.25

    def value(self, z: Vector, y: Vector) -> Vector:
        """log(1 + exp(-y z))."""
        margin = y * z
        return np.log1p(np.exp(-np.abs(margin))) + np.maximum(-margin, 0.0)

    def grad(self, z: Vector, y: Vector) -> Vector:
        """-y sigma(-y z)."""
        margin = y * z
        small = np.exp(-np.abs(margin))
        return np.asarray(-y * np.where(margin > 0, small, 1.0) / (1.0 + small))

    def hess(self, z: Vector, y: Vector) -> Vector:
        """sigma(m) sigma(-m)."""
        small = np.exp(-np.abs(y * z))
        return np.asarray(small / np.square(1.0 + small))

    def derivatives(self, z: Vector, y: Vector) -> tuple[Vector, Vector, Vector]:
        """(value, grad, hess) from one exponential and one logarithm per row."""
        shape = np.broadcast(z, y).shape
        value, grad, hess = np.empty(shape), np.empty(shape), np.empty(shape)
        _fill_derivatives(_flat(z, shape), _flat(y, shape), value.ravel(), grad.ravel(), hess.ravel())
        return value, grad, hess

    def prox(self, v: Vector, y: Vector, step: float | Vector) -> Vector:
        """Root of m - y v - step sigma(-m) = 0, to rounding; see `logistic_prox`."""
        shape = np.broadcast(v, y).shape
        z = np.empty(shape)
        steps = np.full(1, step) if np.ndim(step) == 0 else _flat(step, shape)
        fill_prox(_flat(v, shape), _flat(y, shape), steps, int(np.ndim(step) > 0), z.ravel())
        return z

    def conjugate(self, t: Vector, y: Vector) -> Vector:
        """Negative entropy p log p + (1 - p) log(1 - p) with p = -t y, for 0 <= p <= 1."""
        pull = -t * y
        inside = (pull >= -slack_of(t)) & (pull <= 1.0 + SLACK)
        p = np.clip(pull, 0.0, 1.0)
        return indicate(inside, xlogy(p, p) + xlog1py(1.0 - p, -p))

    def shrink(self, t: Vector, y: Vector) -> float:
        """0 where some t points away from its label, else 1 / max|t|, at most 1."""
        pull = -t * y
        if np.any(pull < -slack_of(t)):
            return 0.0
        return shrink_to(1.0, pull)

    def recover(self, r: Vector) -> tuple[Vector, Vector]:
        """Prediction and curvature from the derivative: |r| = sigma(-m) and the label is -sign(r).

        A derivative that rounds to 0 or to 1 stands for every margin beyond about 690 or below about -36.
        """
        pull = np.clip(np.abs(r), 1e-300, 1.0 - 1e-16)
        margin = np.log1p(-pull) - np.log(pull)
        # copysign, not sign: a derivative that underflowed to -0.0 still tells its label.
        return -np.copysign(1.0, r) * margin, pull * (1.0 - pull)


def _flat(values: float | Vector, shape: tuple[int, ...]) -> Vector:
    """Contiguous float64 copy-if-needed of one value per row."""
    full = values if np.shape(values) == shape else np.broadcast_to(values, shape)
    return np.ascontiguousarray(full, dtype=np.float64).ravel()


@njit(cache=True, nogil=True)
def _fill_derivatives(z: Vector, y: Vector, value: Vector, grad: Vector, hess: Vector) -> None:
    """Write value, grad and hess of every row."""
    for i in range(z.size):
        margin = y[i] * z[i]
        small = math.exp(-abs(margin))
        share = 1.0 / (1.0 + small)
        rest = small * share
        value[i] = math.log1p(small) + max(-margin, 0.0)
        grad[i] = -y[i] * (rest if margin > 0.0 else share)
        hess[i] = share * rest
