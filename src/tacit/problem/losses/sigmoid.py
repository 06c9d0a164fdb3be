"""Sigmoid loss: value = 1 / (1 + exp(y z)), smooth and not convex.

Throughout, m = y z is the margin, sigma(m) = 1 / (1 + exp(-m)), and bell(m) = sigma(m) sigma(-m) is minus
the slope of the loss in m.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from scipy.special import expit

from tacit.problem.losses.base import Loss, indicate, slack_of
from tacit.types import Vector

_CURVATURE = 1.0 / (6.0 * math.sqrt(3.0))


class Sigmoid(Loss):
    """Sigmoid loss, 1 / (1 + exp(y z)): a smooth count of mistakes, bounded, so outliers weigh little."""

    name = "sigmoid"
    task = "classification"
    convex = False
    lipschitz = 0.25
    curvature = _CURVATURE
    concavity = _CURVATURE

    def value(self, z: Vector, y: Vector) -> Vector:
        """1 / (1 + exp(y z))."""
        return np.asarray(expit(-y * z))

    def grad(self, z: Vector, y: Vector) -> Vector:
        """-y bell(y z)."""
        small = np.exp(-np.abs(y * z))
        return np.asarray(-y * small / np.square(1.0 + small))

    def hess(self, z: Vector, y: Vector) -> Vector:
        """bell(m) (sigma(m) - sigma(-m))."""
        margin = y * z
        small = np.exp(-np.abs(margin))
        return np.asarray(small / np.square(1.0 + small) * np.tanh(0.5 * margin))

    def prox(self, v: Vector, y: Vector, step: float | Vector) -> Vector:
        """The global minimiser: from step = 1/concavity on, the lower of up to two local ones."""
        shape = np.broadcast(v, y).shape
        margins = np.ascontiguousarray(np.broadcast_to(y * v, shape), dtype=np.float64)
        steps = np.ascontiguousarray(np.broadcast_to(step, shape), dtype=np.float64)
        best = np.empty(shape)
        _fill_prox(margins.ravel(), steps.ravel(), best.ravel())
        return np.asarray(y * best)

    def conjugate(self, t: Vector, y: Vector) -> Vector:
        """0 at t = 0, infinite elsewhere: the loss is bounded."""
        return indicate(np.abs(t) <= slack_of(t), np.zeros(np.broadcast(t, y).shape))


@njit(cache=True, nogil=True)
def _fill_prox(margins: Vector, steps: Vector, out: Vector) -> None:
    """Write the best margin of every row."""
    for i in range(margins.size):
        out[i] = _minimise(margins[i], steps[i])


@njit(cache=True, nogil=True)
def _minimise(start: float, step: float) -> float:
    """Global minimiser of sigma(-m) + (m - start)^2 / (2 step).

    It is a root of F(m) = m - start - step bell(m), hence in [start, start + step / 4]. For
    step <= 6 sqrt(3), F is increasing. Beyond, F rises up to `peak`, falls down to `dip` and rises again
    (both negative): each rising piece holds at most one local minimiser, and the two are bracketed apart.
    """
    top = start + 0.25 * step
    left: float = start
    right: float = top
    if step * _CURVATURE <= 1.0:
        left = _solve(start, step, start, top)
        return left
    peak, dip = _turns(step)
    has_left = start < peak and _slope(peak, start, step) > 0.0
    has_right = dip <= start or _slope(dip, start, step) < 0.0
    if has_right:
        right = _solve(start, step, max(start, dip), top)
    if has_left or not has_right:
        left = _solve(start, step, start, min(peak, top) if has_left else top)
    if has_left and has_right:
        return left if _objective(left, step) <= _objective(right, step) else right
    return right if has_right else left


@njit(cache=True, nogil=True)
def _turns(step: float) -> tuple[float, float]:
    """Where F turns: F' = 0 reads w - w^3 = 4 / step with w = -tanh(m / 2), a cubic with three real roots."""
    angle = math.acos(-1.0 / (step * _CURVATURE)) / 3.0
    largest = min(2.0 / math.sqrt(3.0) * math.cos(angle), 1.0 - 1e-15)
    middle = max(2.0 / math.sqrt(3.0) * math.cos(angle - 2.0 * math.pi / 3.0), 0.0)
    return -2.0 * math.atanh(largest), -2.0 * math.atanh(middle)


@njit(cache=True, nogil=True)
def _bell(m: float) -> float:
    """sigma(m) sigma(-m)."""
    small = math.exp(-abs(m))
    return small / ((1.0 + small) * (1.0 + small))


@njit(cache=True, nogil=True)
def _objective(m: float, step: float) -> float:
    """Objective at a root of F, where m - start = step bell(m)."""
    bell: float = _bell(m)
    return 1.0 / (1.0 + math.exp(min(m, 700.0))) + 0.5 * step * bell * bell


@njit(cache=True, nogil=True)
def _slope(m: float, start: float, step: float) -> float:
    """F(m) in the form that does not cancel: near 0, bell(m) = 1/4 - tanh(m / 2)^2 / 4."""
    if abs(m) < 1.0:
        bend = math.tanh(0.5 * m)
        return m - (start + 0.25 * step) + 0.25 * step * bend * bend
    bell: float = _bell(m)
    return (m - start) - step * bell


@njit(cache=True, nogil=True)
def _solve(start: float, step: float, low: float, high: float) -> float:
    """Root of F in [low, high], F(low) <= 0 <= F(high): Newton, bisecting where it is slow or leaves."""
    m = low
    last = high - low
    for _ in range(300):
        value = _slope(m, start, step)
        if value < 0.0:
            low = m
        else:
            high = m
        derivative = 1.0 + step * _bell(m) * math.tanh(0.5 * m)
        # Newton's move must stay inside and be at most half the last one; this ends in finitely many steps.
        inside = low * derivative <= m * derivative - value <= high * derivative
        if derivative > 0.0 and inside and abs(2.0 * value) <= abs(last * derivative):
            move = -value / derivative
        else:
            move = 0.5 * (low + high) - m
        m += move
        last = move
        if abs(move) <= 2e-16 * abs(m):
            break
    return m
