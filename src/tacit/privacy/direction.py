"""Privacy loss of noise with a uniform direction: density exp(-rate |e|) in many dimensions.

A release whose density changes by a factor of at most e^(volume + change |u|), u one coordinate of a uniform direction,
is far more private at a delta above 0 than its pure epsilon, volume + change, says: |u| is near 1/sqrt(size).
Its ratio of densities r is dominated by

    r = e^(volume + change |u|) where |u| > c,   e^-(volume + change) elsewhere,   c such that E r = 1

(docs/proofs/composition.md, theorem 7). `losses` has this on a lattice, `delta_curve` by integration, for a second
opinion.

| symbol | meaning |
|---|---|
| u | one coordinate of a uniform direction in `size` dimensions; u^2 has the Beta law (1/2, (size - 1)/2) |
| alpha | volume + change: the pure epsilon |
| under Q, under P | probabilities without and with the weight r |
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy import special

from tacit.privacy import curves
from tacit.types import Vector

CELLS = 4096  # of |u|, before the lattice
LATTICE = 2**13  # values of the sum of all releases
FINEST, COARSEST = 2**9, 2**6  # cells of one release on the lattice
LARGEST = 300.0  # of alpha: beyond it nothing is gained, and e^alpha has no room
FAR = 1e-60  # probability beyond which one cell holds the rest of |u|


@lru_cache(maxsize=64)
def losses(change: float, volume: float, size: int, count: int) -> curves.Losses | None:
    """Loss of `count` releases; None where they are too many for the lattice."""
    alpha = change + volume
    if size == 1 or alpha > LARGEST:
        return curves.response(alpha, 2, count)
    cells = min(FINEST, LATTICE // count)
    if cells < COARSEST:
        return None
    once = curves.on_lattice(_one(change, volume, size), -alpha, alpha, cells)
    masses = curves.power(once, count)
    values = count * alpha * np.linspace(-1.0, 1.0, len(masses))
    kept = masses > 0
    kept[-1] = True
    return curves.Losses(values[kept], masses[kept])


def _one(change: float, volume: float, size: int) -> curves.Losses:
    """One release, under P."""
    alpha = change + volume
    at, weights = _spread(size)
    ratio = np.exp(volume + change * at)
    bottom = math.exp(-alpha)
    # from the top: take in values of |u| until the mean of the ratio is 1, the last of them in part
    excess = np.cumsum((weights * (ratio - bottom))[::-1])[::-1]
    whole = excess <= 1 - bottom
    taken = np.where(whole, weights, 0.0)
    first = int(np.argmax(whole)) - 1 if whole.any() else len(at) - 1
    if first >= 0:
        above = excess[first + 1] if first + 1 < len(at) else 0.0
        taken[first] = min(weights[first], (1 - bottom - above) / (ratio[first] - bottom))
    masses = taken * ratio
    rest = max(1 - float(masses.sum()), 0.0)
    return curves.Losses(np.concatenate([[-alpha], volume + change * at]), np.concatenate([[rest], masses]))


@lru_cache(maxsize=16)
def _spread(size: int) -> tuple[Vector, Vector]:
    """|u| on a grid: each cell's probability moved to its ends, its mean kept; convex functions do not fall by it."""
    shape = (size - 1) / 2
    last = math.sqrt(float(special.betainccinv(0.5, shape, FAR)))
    edges = np.concatenate([np.linspace(0.0, last, CELLS), [1.0]]) if last < 1 - 1e-9 else np.linspace(0, 1, CELLS + 1)
    tail = special.betaincc(0.5, shape, edges**2)
    inside = np.maximum(tail[:-1] - tail[1:], 0.0)
    scale = math.exp(special.gammaln(size / 2) - special.gammaln(shape)) / math.sqrt(math.pi) / shape
    first = scale * (1 - edges**2) ** shape  # integral of |u| beyond an edge
    moment = np.maximum(first[:-1] - first[1:], 0.0) + 1e-15 * first[:-1]
    widths = np.diff(edges)
    above = np.clip(moment - edges[:-1] * inside, 0.0, widths * inside) / widths
    weights = np.zeros(len(edges))
    weights[1:] += above
    weights[:-1] += inside - above
    return edges, weights


def delta_curve(epsilons: Vector, change: float, volume: float, size: int) -> Vector:
    """Delta of one release at each epsilon, by integration over the angle: u = cos(angle)."""
    alpha = change + volume
    if size == 1 or alpha > LARGEST:
        kept = 1 / (1 + math.exp(-alpha))
        return np.asarray(
            kept * -np.expm1(np.minimum(epsilons - alpha, 0)) + (1 - kept) * -np.expm1(np.minimum(epsilons + alpha, 0))
        )
    angle, under_q = _angles(size)
    at = volume + change * np.cos(angle)  # falls along the grid
    sum_q, sum_p = np.cumsum(under_q), np.cumsum(under_q * np.exp(at))
    bottom = math.exp(-alpha)
    taken = sum_p + (1 - sum_q) * bottom <= 1
    above = np.searchsorted(-at, -epsilons)  # how many nodes of the integral lie above each epsilon
    reach = np.minimum(above, int(taken.sum()))
    p, q = np.concatenate([[0.0], sum_p]), np.concatenate([[0.0], sum_q])
    end = min(int(taken.sum()), len(at) - 1)
    part = min(max((1 - p[end] - (1 - q[end]) * bottom) / (math.exp(at[end]) - bottom), 0.0), under_q[end])
    ending = np.where(above > end, part * np.maximum(math.exp(at[end]) - np.exp(epsilons), 0.0), 0.0)
    rest = (1 - q[end] - part) * np.maximum(bottom - np.exp(epsilons), 0.0)
    return np.asarray(p[reach] - np.exp(epsilons) * q[reach] + ending + rest)


def _angles(size: int, panels: int = 4000) -> tuple[Vector, Vector]:
    """Angles from 0 to a right one, and their probabilities by Gauss-Legendre."""
    nodes, weights = np.polynomial.legendre.leggauss(4)
    edges = np.linspace(0.0, math.pi / 2, panels + 1)
    half = np.diff(edges)[:, None] / 2
    angle = ((edges[1:] + edges[:-1])[:, None] / 2 + half * nodes).ravel()
    scale = 2 * math.exp(special.gammaln(size / 2) - special.gammaln((size - 1) / 2)) / math.sqrt(math.pi)
    return angle, scale * np.sin(angle) ** (size - 2) * (half * weights).ravel()
