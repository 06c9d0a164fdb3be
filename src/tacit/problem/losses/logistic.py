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
from tacit.problem.losses.domain import SLACK, indicate, slack_of
from tacit.problem.losses.exponential import exp_negative
from tacit.problem.losses.logistic_prox import fill_prox
from tacit.types import Vector

_BLOCK = 512  # terms of one product: at most 2^512
_FINITE = {
    "nnan",
    "ninf",
    "nsz",
}  # inputs are finite; never "reassoc", which would undo the rounding in the exponential


class Logistic(Loss):
    """Logistic loss, log(1 + exp(-y z)): logistic regression."""

    name = "logistic"
    task = "classification"
    lipschitz = 1.0
    curvature = 0.25
    log_odds = True

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

    def slopes(self, z: Vector, y: Vector) -> tuple[Vector, Vector]:
        """(grad, hess) from one exponential per row."""
        shape = np.broadcast(z, y).shape
        grad, hess = np.empty(shape), np.empty(shape)
        _fill_slopes(_flat(z, shape), _flat(y, shape), grad.ravel(), hess.ravel())
        return grad, hess

    def total(self, z: Vector, y: Vector, weights: Vector | None = None) -> float:
        """Weighted sum of the values; without weights one logarithm serves many rows."""
        if weights is not None:
            return super().total(z, y, weights)
        shape = np.broadcast(z, y).shape
        return float(_sum_values(_flat(z, shape), _flat(y, shape)))

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


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FINITE)
def _fill_slopes(z: Vector, y: Vector, grad: Vector, hess: Vector) -> None:
    """Write grad and hess of every row."""
    for i in range(z.size):
        margin = y[i] * z[i]
        size = abs(margin)
        small = exp_negative(-(size if size < 700.0 else 700.0))
        share = 1.0 / (1.0 + small)
        rest = small * share
        grad[i] = -y[i] * (rest if margin > 0.0 else share)
        hess[i] = share * rest


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FINITE)
def _sum_values(z: Vector, y: Vector) -> float:
    """Sum of log(1 + exp(-m)): the logarithm of a product of terms between 1 and 2, taken once per block."""
    terms, linear = np.empty(_BLOCK), np.empty(_BLOCK)
    total = 0.0
    for begin in range(0, z.size, _BLOCK):
        count = min(_BLOCK, z.size - begin)
        for j in range(count):
            margin = y[begin + j] * z[begin + j]
            size = abs(margin)
            terms[j] = 1.0 + exp_negative(-(size if size < 700.0 else 700.0))
            linear[j] = 0.5 * (size - margin)
        terms[count:] = 1.0
        linear[count:] = 0.0
        half = _BLOCK
        while half > 1:
            half //= 2
            for j in range(half):
                terms[j] *= terms[j + half]
                linear[j] += linear[j + half]
        total += linear[0] + math.log(terms[0])
    return total
