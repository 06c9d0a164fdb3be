"""Poisson loss with log link: value = exp(z) - y z + (y log y - y)."""

from __future__ import annotations

import numpy as np
from scipy.special import wrightomega, xlog1py, xlogy

from tacit.problem.losses.base import SLACK, Loss, indicate, slack_of
from tacit.types import Vector

_LARGEST_EXPONENT = 700.0  # exp of it is still finite


class Poisson(Loss):
    """Poisson loss, exp(z) - y z + (y log y - y): counts with mean exp(z).

    The constant makes the smallest value 0, at z = log y.
    """

    name = "poisson"
    task = "counts"

    def value(self, z: Vector, y: Vector) -> Vector:
        """Value written as y (exp(d) - 1 - d), d = z - log y: no cancellation, never negative."""
        positive = y > 0
        with np.errstate(over="ignore"):
            gap = np.where(positive, z - np.log(np.where(positive, y, 1.0)), 0.0)
            counted = y * np.maximum(np.expm1(gap) - gap, 0.0)
            return np.where(positive, counted, np.exp(z))

    def grad(self, z: Vector, y: Vector) -> Vector:
        """exp(z) - y."""
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(z) - y)

    def hess(self, z: Vector, y: Vector) -> Vector:
        """exp(z)."""
        with np.errstate(over="ignore"):
            return np.exp(z)

    def prox(self, v: Vector, y: Vector, step: float | Vector) -> Vector:
        """Root of z + step exp(z) = v + step y."""
        return exponential_root(v + step * y, step)

    def conjugate(self, t: Vector, y: Vector) -> Vector:
        """Value u log u - u - (y log y - y) with u = t + y, for u >= 0."""
        rate = np.maximum(t + y, 0.0)
        positive = y > 0
        known = np.where(positive, y, 1.0)
        # Written with log(u / y) for y > 0: the difference of two large terms would cancel.
        ratio = np.where(positive, np.maximum(t / known, -1.0), 0.0)
        counted = xlog1py(rate, ratio) + t * np.log(known) - t
        return indicate(t + y >= -_edge(t, y), np.where(positive, counted, xlogy(rate, rate) - rate))


def exponential_root(target: Vector, rate: float | Vector) -> Vector:
    """Root of z + rate exp(z) = target.

    With w = rate exp(z) this reads w + log w = target + log rate: Wright's omega function, which never overflows. z is
    then taken from whichever of its two forms does not cancel, and one Newton step removes the rounding of the
    logarithms.
    """
    with np.errstate(divide="ignore"):
        log_rate = np.log(rate)
    weight = wrightomega(target + log_rate)
    large = weight > 1.0
    from_log = np.log(np.where(large, weight, 1.0)) - np.where(large, log_rate, 0.0)
    z = np.where(large, from_log, target - weight)
    safe = z < _LARGEST_EXPONENT
    weight = rate * np.exp(np.where(safe, z, 0.0))
    return np.where(safe, z - (z + weight - target) / (1.0 + weight), z)


def _edge(t: Vector, y: Vector) -> Vector:
    """Slack at the edge t = -y."""
    return np.maximum(slack_of(t), SLACK * y)
