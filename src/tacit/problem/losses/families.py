"""Losses of generalised linear models with log link: half the deviance of labels whose mean is exp(z).

| loss | labels | variance |
|---|---|---|
| Poisson | counts | mean |
| negative binomial | counts | mean + dispersion mean^2 |
| Tweedie | amounts, many of them 0 | mean^power, 1 < power < 2 |
| gamma | positive amounts | mean^2 |

Each has the value 0 at z = log y, and no lower one.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy
from scipy.special import digamma, expit, wrightomega, xlog1py, xlogy

from tacit.errors import InputError
from tacit.problem.losses.base import SLACK, Loss, indicate, is_number, slack_of
from tacit.problem.losses.logistic import Logistic
from tacit.types import Vector

_LARGEST_EXPONENT = 700.0  # exp of it is still finite


# --- Poisson: exp(z) - y z, less its smallest value


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


class BoundedPoisson(Loss):
    """Poisson loss of labels from 0 to 1 whose mean exp(z) counts as 1 where it is more: slope min(exp(z), 1) - y.

    It is convex, no slope exceeds 1 and no curvature 1. The best score of labels with mean m is log m, as without the
    bound. Private methods use it in place of the Poisson loss (docs/proofs/graph.md, section 3b).
    """

    name = "bounded poisson"
    task = "counts"
    lipschitz = 1.0
    curvature = 1.0

    def value(self, z: Vector, y: Vector) -> Vector:
        """The Poisson loss up to z = 0, a line beyond."""
        inside = np.minimum(z, 0.0)
        return np.asarray(Poisson().value(inside, y) + (1.0 - y) * (z - inside))

    def grad(self, z: Vector, y: Vector) -> Vector:
        """min(exp(z), 1) - y."""
        return np.asarray(np.exp(np.minimum(z, 0.0)) - y)

    def hess(self, z: Vector, y: Vector) -> Vector:
        """exp(z) up to z = 0, 0 beyond."""
        return np.where(z <= 0.0, np.exp(np.minimum(z, 0.0)), 0.0)

    def prox(self, v: Vector, y: Vector, step: float | Vector) -> Vector:
        """That of the Poisson loss where it is not above 0, else v less step (1 - y)."""
        beyond = v - step * (1.0 - y)
        return np.where(beyond > 0.0, beyond, np.minimum(exponential_root(v + step * y, step), 0.0))

    def conjugate(self, t: Vector, y: Vector) -> Vector:
        """That of the Poisson loss, for t + y <= 1."""
        return indicate(t + y <= 1.0 + SLACK, Poisson().conjugate(np.minimum(t, 1.0 - y), y))


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


# --- Gamma: d + exp(-d) - 1 with d = z - log y


class Gamma(Loss):
    """Gamma loss, z - log y + y exp(-z) - 1: positive amounts with mean exp(z)."""

    name = "gamma"
    task = "counts"

    def value(self, z: Vector, y: Vector) -> Vector:
        """exp(-d) - 1 + d, d = z - log y."""
        gap = _gap(z, y)
        with np.errstate(over="ignore"):
            return np.maximum(np.expm1(-gap) + gap, 0.0)

    def grad(self, z: Vector, y: Vector) -> Vector:
        """1 - exp(-d)."""
        with np.errstate(over="ignore"):
            return -np.expm1(-_gap(z, y))

    def hess(self, z: Vector, y: Vector) -> Vector:
        """exp(-d)."""
        with np.errstate(over="ignore"):
            return np.exp(-_gap(z, y))

    def prox(self, v: Vector, y: Vector, step: float | Vector) -> Vector:
        """Minus the root u of u + step y exp(u) = step - v."""
        return -exponential_root(step - v, step * np.asarray(y, dtype=np.float64))

    def conjugate(self, t: Vector, y: Vector) -> Vector:
        """T log y + (1 - t) log(1 - t) + t, for t <= 1."""
        left = np.maximum(1.0 - t, 0.0)
        return indicate(t <= 1.0 + SLACK, t * np.log(y) + xlogy(left, left) + t)

    def check_labels(self, y: Vector) -> None:
        """Raise InputError for labels that are not positive."""
        if np.any(y <= 0):
            raise InputError(
                f"loss='gamma' needs labels above 0: found {float(np.min(y)):g}; where 0 occurs use loss='tweedie'"
            )


def _gap(z: Vector, y: Vector) -> Vector:
    return np.asarray(z - np.log(y))


# --- Tweedie: exp(q z) / q + y exp(-k z) / k with q = 2 - power, k = power - 1, less its smallest value


class Tweedie(Loss):
    """Tweedie loss: amounts of at least 0 with mean exp(z), a part of them exactly 0 (claims, rain, sales).

    Parameters
    ----------
    power : float
        Variance grows as mean^power: above 1 (nearly Poisson) and below 2 (nearly gamma).
    """

    name = "tweedie"
    task = "counts"
    parameters = ("power",)

    def __init__(self, power: float = 1.5) -> None:
        if not is_number(power) or not 1.0 < power < 2.0:
            raise InputError(
                f"power={power!r} is not allowed: it must lie between 1 and 2, both left out; for 1 use "
                "loss='poisson', for 2 loss='gamma'"
            )
        self.power = float(power)

    def value(self, z: Vector, y: Vector) -> Vector:
        """y^q (expm1(q d) / q + expm1(-k d) / k) with d = z - log y; exp(q z) / q where y is 0."""
        q, k, positive = 2.0 - self.power, self.power - 1.0, y > 0
        known = np.where(positive, y, 1.0)
        with np.errstate(over="ignore"):
            gap = z - np.log(known)
            counted = known**q * np.maximum(np.expm1(q * gap) / q + np.expm1(-k * gap) / k, 0.0)
            return np.where(positive, counted, np.exp(q * z) / q)

    def grad(self, z: Vector, y: Vector) -> Vector:
        """exp(q z) - y exp(-k z)."""
        up, down = self._parts(z, y)
        return np.asarray(up - down)

    def hess(self, z: Vector, y: Vector) -> Vector:
        """Q exp(q z) + k y exp(-k z)."""
        up, down = self._parts(z, y)
        return np.asarray((2.0 - self.power) * up + (self.power - 1.0) * down)

    def _parts(self, z: Vector, y: Vector) -> tuple[Vector, Vector]:
        with np.errstate(over="ignore", divide="ignore"):
            return np.exp((2.0 - self.power) * z), np.exp(np.log(y) - (self.power - 1.0) * z)

    def prox(self, v: Vector, y: Vector, step: float | Vector) -> Vector:
        """Root of z + step (exp(q z) - y exp(-k z)) = v: between v and log y, and not beyond what one term allows."""
        v, y, step = (np.asarray(a, dtype=np.float64) for a in np.broadcast_arrays(v, y, step))
        q, k, taken = 2.0 - self.power, self.power - 1.0, np.where(step > 0, step, 1.0)
        with np.errstate(divide="ignore"):
            best, pull = np.log(y), np.log(np.abs(v)) - np.log(taken)  # of the loss alone; of the distance
            most = np.maximum(np.maximum(best, 0.0), np.logaddexp(pull, best) / q)
            least = np.minimum(np.minimum(best, 0.0), (best - np.logaddexp(pull, 0.0)) / k)
        above = v > best
        low = np.where(above, np.maximum(best, np.minimum(0.0, v - taken)), np.maximum(v, least))
        high = np.where(above, np.minimum(v, most), best)
        z = _bracketed_root(lambda z: ((z - v) + taken * self.grad(z, y), 1.0 + taken * self.hess(z, y)), low, high)
        return np.where(step > 0, z, v)

    def conjugate(self, t: Vector, y: Vector) -> Vector:
        """T z - value(z) at the root z of exp(q z) - y exp(-k z) = t; where y is 0, (t log t - t) / q for t >= 0."""
        t, y = (np.asarray(a, dtype=np.float64) for a in np.broadcast_arrays(t, y))
        q, k, positive = 2.0 - self.power, self.power - 1.0, y > 0
        up, down, known = np.maximum(t, 0.0), np.where(positive, np.minimum(t, 0.0), 0.0), np.where(positive, y, 1.0)
        best = np.log(known)
        high = np.where(up > 0, np.maximum(np.maximum(best, 0.0), np.log(up + known) / q), best)
        low = np.where(down < 0, np.minimum(np.minimum(best, 0.0), (best - np.log1p(-down)) / k), best)
        z = _bracketed_root(lambda z: (self.grad(z, known) - (up + down), self.hess(z, known)), low, high)
        empty = indicate(t >= -slack_of(t), (xlogy(up, up) - up) / q)
        return np.where(positive, t * z - self.value(z, known), empty)


MOST_STEPS = 200


def _bracketed_root(of: Callable[[Vector], tuple[Vector, Vector]], low: Vector, high: Vector) -> Vector:
    """Root of a rising function, given with its slope, between two points: Newton's steps, every third in the middle.

    Newton's step crawls down an exponential from far above; halving keeps the number of steps small there.
    """
    z = 0.5 * (low + high)
    for turn in range(MOST_STEPS):
        with np.errstate(over="ignore", invalid="ignore"):
            excess, slope = of(z)
            move = -excess / slope
        low, high = np.where(excess <= 0, z, low), np.where(excess >= 0, z, high)
        found = (np.abs(move) <= 1e-15 * (1.0 + np.abs(z))) | (high <= low)
        if np.all(found):
            break
        inside = np.isfinite(move) & (z + move > low) & (z + move < high) & (turn % 3 != 2)
        moved = np.where(inside, z + np.where(inside, move, 0.0), 0.5 * (low + high))
        z = np.where(found, z, moved)
    return z


# --- Negative binomial: (y + 1/a) log(1 + a exp(z)) - y z, less its smallest value


class NegativeBinomial(Loss):
    """Negative binomial loss: counts with mean m = exp(z) and variance m + dispersion m^2.

    Parameters
    ----------
    dispersion : float or None
        How much more than Poisson the counts vary, above 0; None leaves it open, and fits begin at 1.
    """

    name = "negative_binomial"
    task = "counts"
    parameters = ("dispersion",)

    def __init__(self, dispersion: float | None = None) -> None:
        self.leaves_open = dispersion is None
        dispersion = 1.0 if dispersion is None else dispersion
        if not is_number(dispersion) or not LEAST_DISPERSION <= dispersion <= MOST_DISPERSION:
            raise InputError(
                f"dispersion={dispersion!r} is not allowed: it must lie between {LEAST_DISPERSION:g} and "
                f"{MOST_DISPERSION:g}; for 0 use loss='poisson'"
            )
        self.dispersion = float(dispersion)
        self.size, self.shift = 1.0 / self.dispersion, float(np.log(self.dispersion))

    def value(self, z: Vector, y: Vector) -> Vector:
        """(y + 1/a) log((1 + a exp(z)) / (1 + a y)) - y d with d = z - log y, from exp(d) - 1 where d is near 0."""
        positive, mass = y > 0, self.dispersion * y
        gap = np.where(positive, z - np.log(np.where(positive, y, 1.0)), 0.0)
        near = np.log1p(mass / (1.0 + mass) * np.expm1(np.clip(gap, -NEAR, NEAR)))
        ratio = np.where(positive & (np.abs(gap) < NEAR), near, np.logaddexp(0.0, z + self.shift) - np.log1p(mass))
        return np.asarray(np.maximum((y + self.size) * ratio - y * gap, 0.0))

    def grad(self, z: Vector, y: Vector) -> Vector:
        """(exp(z) - y) / (1 + a exp(z)), as p / a - y (1 - p)."""
        s = z + self.shift
        return np.asarray(self.size * expit(s) - y * expit(-s))

    def hess(self, z: Vector, y: Vector) -> Vector:
        """(y + 1/a) p (1 - p)."""
        s = z + self.shift
        return np.asarray((y + self.size) * expit(s) * expit(-s))

    def prox(self, v: Vector, y: Vector, step: float | Vector) -> Vector:
        """That of the logistic loss in s = z + log a, from a shifted centre and with a scaled step.

        One Newton step removes the rounding of the shifts.
        """
        s = Logistic().prox(v + self.shift - step * self.size, np.ones(np.shape(v)), step * (y + self.size))
        z = s - self.shift
        z = z - ((z - v) + step * self.grad(z, y)) / (1.0 + step * self.hess(z, y))
        return np.where(np.asarray(step) > 0, z, v)

    def conjugate(self, t: Vector, y: Vector) -> Vector:
        """(y + 1/a) (p log p + (1 - p) log(1 - p)) - t log a + c, with p = (t + y) / (y + 1/a) in [0, 1]."""
        count = y + self.size
        p = (t + y) / count
        slack = SLACK + slack_of(t) / count
        constant = count * np.log1p(self.dispersion * y) - y * self.shift - xlogy(y, y)
        p, inside = np.clip(p, 0.0, 1.0), (p >= -slack) & (p <= 1.0 + slack)
        return indicate(inside, count * (xlogy(p, p) + xlogy(1 - p, 1 - p)) - t * self.shift + constant)


LEAST_DISPERSION, MOST_DISPERSION = 1e-6, 1e6
NEAR = 1.0


def fit_dispersion(y: Vector, mean: Vector, weights: Vector | None = None) -> float:
    """The dispersion of greatest likelihood of counts whose means are known, within its range.

    Its logarithm is the root of the slope of the likelihood in r = 1 / dispersion.
    """
    weights = np.ones(y.size) if weights is None else weights

    def slope(log_dispersion: float) -> float:
        r = math.exp(-log_dispersion)
        logs = np.log1p((mean - y) / (r + y)) - (mean - y) / (r + mean)  # log((r + mean) / (r + y)) and what follows it
        return float(weights @ (digamma(y + r) - digamma(r) - np.log1p(y / r) - logs))

    low, high = math.log(LEAST_DISPERSION), math.log(MOST_DISPERSION)
    if slope(low) >= 0:  # the likelihood rises in r up to its end
        return LEAST_DISPERSION
    if slope(high) <= 0:
        return MOST_DISPERSION
    return float(math.exp(scipy.optimize.brentq(slope, low, high, xtol=1e-13)))
