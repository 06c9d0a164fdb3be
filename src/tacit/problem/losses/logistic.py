"""Logistic loss: value = log(1 + exp(-y z)).

The two loops below run once per row and round, so they are compiled. Throughout, m = y z is the margin
and sigma(m) = 1 / (1 + exp(-m)).
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from scipy.special import xlog1py, xlogy

from tacit.problem.losses.base import Loss
from tacit.problem.losses.domain import SLACK, indicate, shrink_to, slack_of
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
        """Root of m - y v - step sigma(-m) = 0, to rounding; see `_solve_margin`."""
        shape = np.broadcast(v, y).shape
        z = np.empty(shape)
        steps = np.full(1, step) if np.ndim(step) == 0 else _flat(step, shape)
        _fill_prox(_flat(v, shape), _flat(y, shape), steps, int(np.ndim(step) > 0), z.ravel())
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


@njit(cache=True, nogil=True)
def _fill_prox(v: Vector, y: Vector, steps: Vector, stride: int, out: Vector) -> None:
    """Write the prox of every row; stride 0 reads one step for all rows."""
    for i in range(v.size):
        step = steps[i * stride]
        low = y[i] * v[i]
        center = low + 0.5 * step
        # m -> -m maps the equation to itself with low -> -(low + step): only m >= 0 needs solving.
        if center >= 0.0:
            out[i] = y[i] * _solve_margin(low, center, step)
        else:
            out[i] = -y[i] * _solve_margin(-(low + step), -center, step)


@njit(cache=True, nogil=True)
def _solve_margin(low: float, center: float, step: float) -> float:
    """Root m >= 0 of f(m) = m - low - step sigma(-m), where center = low + step / 2 >= 0.

    Why this cannot fail. On m >= 0, f is increasing and concave and |f''| <= f'. So:

    - Newton from any m >= 0 lands at or left of the root, and from there climbs monotonically to it;
    - a Newton step d bounds the distance e to the root: e <= -log(1 - d) from the left, e <= |d| from the
      right;
    - for |d| <= 1/2, Halley's step (Newton's, divided by 1 - c with |c| <= 1/4) at least divides the
      distance by 2.5, and it is cubic in the end: a last step below 1e-5 leaves an error near 1e-15.
    """
    if center <= 0.01 * (1.0 + 0.25 * step):
        tiny: float = _solve_small_margin(center, step)
        return tiny
    floor = max(0.0, low)
    m = floor
    if step > 20.0:
        # The root is at least that of m - low = (step / 2) exp(-m), whose Lambert function has this bound.
        room = math.log(0.5 * step) - low
        if room > 1.0:
            m = max(floor, low + room - math.log(room))
    for _ in range(200):
        small = math.exp(-m)
        share = 1.0 / (1.0 + small)
        rest = small * share
        bend = step * rest * share
        slope = 1.0 + bend
        move = (low + step * rest - m) / slope
        if abs(move) <= 0.5:
            move /= 1.0 - 0.5 * move * bend * (share - rest) / slope
        m = max(m + move, floor)
        if abs(move) <= 1e-5:
            break
    return m


@njit(cache=True, nogil=True)
def _solve_small_margin(center: float, step: float) -> float:
    """The same root below about 0.01, from m + (step / 2) tanh(m / 2) = center.

    Here sigma(-m) - 1/2 would cancel; three terms of tanh(m / 2) are exact to rounding.
    """
    m = center / (1.0 + 0.25 * step)
    for _ in range(3):
        square = m * m
        ratio = 0.25 * step * (1.0 - square * (1.0 / 12.0 - square * (1.0 / 120.0 - square * 17.0 / 20160.0)))
        slope = 1.0 + 0.25 * step * (1.0 - 0.25 * square)
        m -= (m + m * ratio - center) / slope
    return m
