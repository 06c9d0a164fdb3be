"""Privacy curves: delta as a function of epsilon, of a Gaussian, of discrete losses, and of both together.

With d the curve of the Gaussian and (l_j, p_j) the discrete privacy losses and their probabilities,

    d(eps)     = Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2)
    delta(eps) = sum_j p_j d(eps - l_j)

Everything is rounded towards less privacy. Proofs: docs/proofs/composition.md, sections 2, 5 and 7.

| symbol | meaning |
|---|---|
| mu | parameter of the Gaussian: sensitivity over standard deviation |
| a, b | -eps/mu + mu/2 and -eps/mu - mu/2; phi(a) = e^eps phi(b) |
| losses, masses | the discrete privacy loss: values l_j and probabilities p_j |
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from scipy import special

from tacit.types import Vector

ROUNDING = 1e-15  # covers the relative rounding of one difference of special functions, which is below 4 ulp
SLACK = 1e-11  # relative, added to sums over many atoms
TINY = 1e-300  # added to such sums, for masses too small to be stored
MOST_ATOMS = 2**15
GRID = 2**13
NEGLIGIBLE = 1e-30  # a probability so small is not split over a grid by itself


@dataclass(frozen=True, eq=False)
class Losses:
    """A privacy loss with finitely many values."""

    values: Vector
    masses: Vector


NO_LOSS = Losses(np.zeros(1), np.ones(1))


def gaussian_log_delta(epsilon: Vector, mu: float) -> Vector:
    """Upper bound on log d(epsilon), tight to about 12 digits, however small d is; epsilon may be negative."""
    if mu == 0:
        with np.errstate(divide="ignore"):
            return np.log(-np.expm1(np.minimum(epsilon, 0.0)))
    if mu == math.inf:
        return np.zeros_like(epsilon)
    with np.errstate(all="ignore"):  # an overflow ends in d = 0 or 1, as it should
        a = -epsilon / mu + mu / 2
        return np.minimum(np.where(a <= 0, _log_tail(a, mu), _log_bulk(epsilon, a, mu)), 0.0)


def _log_tail(a: Vector, mu: float) -> Vector:
    """For a <= 0: d = phi(a) (R(-a) - R(-a + mu)) with R the Mills ratio, so that e^eps never appears."""
    near, far = special.erfcx(-a / math.sqrt(2)), special.erfcx((mu - a) / math.sqrt(2))
    rounding = ROUNDING * (8 + a * a)
    return np.asarray(-a * a / 2 + np.log((near - far + ROUNDING * near) / 2) + rounding)


def _log_bulk(epsilon: Vector, a: Vector, mu: float) -> Vector:
    """For a > 0, where Phi(a) > 1/2 and nothing can underflow."""
    b = a - mu
    second = np.where(
        b <= 0, np.exp(-a * a / 2) * special.erfcx(-b / math.sqrt(2)) / 2, np.exp(epsilon) * special.ndtr(b)
    )
    return np.asarray(np.log(special.ndtr(a) - second + 4 * ROUNDING * (1 + np.minimum(a * a, 1000.0) * second)))


def mixed_delta(epsilon: float, mu: float, losses: Losses) -> float:
    """Upper bound on delta(epsilon) of a Gaussian together with discrete losses."""
    total = float(losses.masses @ np.exp(gaussian_log_delta(epsilon - losses.values, mu)))
    return min(1.0, total * (1 + SLACK) + TINY)


def response(epsilon: float, symbols: int, count: int) -> Losses | None:
    """Loss of `count` randomized responses over `symbols` symbols, on its lattice; None where that is too large."""
    if 2 * count + 1 > MOST_ATOMS:
        return None
    other = 1 / (math.exp(epsilon) + symbols - 1) if epsilon < 700 else 0.0
    once = np.array([other, (symbols - 2) * other, 1 - (symbols - 1) * other])
    masses = power(once, count)
    steps = np.arange(-count, count + 1)
    kept = (masses > 0) | (steps == count)
    return Losses(epsilon * steps[kept], masses[kept])


def power(once: Vector, count: int) -> Vector:
    """The `count`-fold convolution, by sums of positive terms alone: no cancellation."""
    power, square = np.ones(1), once
    while True:
        if count % 2:
            power = np.convolve(power, square)
        count //= 2
        if not count:
            return power
        square = np.convolve(square, square)


def together(first: Losses, second: Losses) -> Losses:
    """The sum of two independent losses, on a coarser grid where it has too many values."""
    if len(first.values) * len(second.values) > MOST_ATOMS:
        return _coarse_sum(first, second)
    values = np.add.outer(first.values, second.values).ravel()
    return Losses(values, np.multiply.outer(first.masses, second.masses).ravel())


def _coarse_sum(first: Losses, second: Losses) -> Losses:
    """The sum of two independent losses on a grid, never more private.

    Each mass is split between its two neighbours on the grid so that E[e^-L] stays: e^-L is spread out about its
    mean, and delta is convex in it.
    """
    low = float(first.values.min() + second.values.min())
    high = float(first.values.max() + second.values.max())
    if high == low:
        return Losses(np.array([low]), np.array([first.masses.sum() * second.masses.sum()]))
    masses: Vector = np.zeros(GRID + 1)
    first, second = _without_negligible(first), _without_negligible(second)
    for value, mass in zip(first.values, first.masses, strict=True):
        _split(value + second.values, mass * second.masses, low, (high - low) / GRID, masses)
    return Losses(low + (high - low) / GRID * np.arange(GRID + 1.0), masses)


def _without_negligible(losses: Losses) -> Losses:
    """The loss with its negligible masses at its largest value: a larger loss is never more private.

    Half of all values may have such masses, and every value of one loss meets every value of the other.
    """
    kept, last = losses.masses >= NEGLIGIBLE, int(np.argmax(losses.values))
    kept[last] = True
    masses = losses.masses.copy()
    masses[last] += losses.masses[~kept].sum()
    return Losses(losses.values[kept], masses[kept])


def on_lattice(losses: Losses, low: float, high: float, cells: int) -> Vector:
    """Masses at `low`, ..., `high`, both ends of `cells` equal cells, in the way of `_coarse_sum`."""
    masses: Vector = np.zeros(cells + 1)
    _split(losses.values, losses.masses, low, (high - low) / cells, masses)
    return masses


@njit(cache=True, nogil=True)  # pragma: no cover - compiled
def _split(values: Vector, masses: Vector, low: float, step: float, on_grid: Vector) -> None:
    """Add each mass to the two ends of the cell in which its value lies."""
    whole, last = math.expm1(-step), len(on_grid) - 2
    for value, mass in zip(values, masses):  # noqa: B905 - compiled
        cell = min(max(int((value - low) / step), 0), last)
        above = min(max(math.expm1(-(value - low - cell * step)) / whole, 0.0), 1.0)
        on_grid[cell] += mass * (1 - above)
        on_grid[cell + 1] += mass * above
