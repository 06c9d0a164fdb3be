"""How far the objective can still fall: a bound from the best dual point among those the window knows.

Weak duality bounds the gap at a point x by any theta that sums to zero, where there is an intercept:

    gap <= (1/total) sum_i s_i [l(z_i) + l*(theta_i) - theta_i z_i] + |g + D' S (theta - l'(z))|^2 / (2 alpha total^2).

At theta = l'(z) the sum is zero, and the plain bound |g|^2 / (2 alpha total^2) is left. It is loose: every part of g
is divided by alpha, those of large curvature too. With S theta = r + W_f S cf the parties know the second term for
every cf, from inner products of E = D' W_f S and g (`cross_gram`, `pull`), and the first is cf' T cf / 2 up to the
frozen metric. The minimum of both over cf is the model; where it would end a run, the bound itself is evaluated.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tacit.blocks.dense import solve_scaled
from tacit.solvers.base import Problem
from tacit.solvers.memory.party import Window, row_slices
from tacit.types import Vector

CUTOFF = 1e-9  # of the scaled small matrix: below it coefficients are rounding
CARE = 1e-14  # of the terms of the small norm: added for their rounding
SHORTENINGS = 4  # how often the way to the better dual point is halved before the plain bound is kept


class DualPoint(NamedTuple):
    """A dual point S theta = r + W_f S cf, what the model says of the gap there, and |g + E cf|^2."""

    cf: Vector
    model: float
    norm2: float


def best_dual_point(window: Window, ridge: float, gradient2: float, pull: Vector) -> DualPoint:
    """The minimiser of the model; gap and norm are in the unit of a sum over rows."""
    curvature = window.projected(window.curvature_gram, window.sums)
    matrix = curvature + window.cross_gram / ridge
    cf = -solve_scaled(matrix, pull / ridge, np.diag(matrix), CUTOFF)
    return _at(window, ridge, gradient2, pull, cf)


def _at(window: Window, ridge: float, gradient2: float, pull: Vector, cf: Vector) -> DualPoint:
    products = np.append(2 * pull * cf, window.cross_gram * np.outer(cf, cf))
    norm2 = max(gradient2 + float(products.sum()), 0.0) + CARE * float(np.abs(products).sum())
    curvature = float(cf @ window.projected(window.curvature_gram, window.sums) @ cf)
    return DualPoint(cf, curvature / 2 + norm2 / (2 * ridge), norm2)


class Place(NamedTuple):
    """Where the bound is taken: the problem, and labels, predictions and residual of all rows."""

    problem: Problem
    labels: Vector
    z: Vector
    residual: Vector


def evaluated_gap(window: Window, place: Place, ridge: float, gradient2: float, pull: Vector) -> float:
    """The bound at the best dual point, nearer to the residual where that point is outside the loss's domain."""
    plain = gradient2 / (2 * ridge)
    cf = best_dual_point(window, ridge, gradient2, pull).cf
    for _ in range(SHORTENINGS):
        point = _at(window, ridge, gradient2, pull, cf)
        gap = _distance(window, place, cf) + point.norm2 / (2 * ridge)
        if gap < plain:
            return gap
        cf = cf / 2
    return plain


def _distance(window: Window, place: Place, cf: Vector) -> float:
    """Sum over rows of s (l(z) + l*(theta) - theta z), some rows at a time."""
    problem, weights = place.problem, place.problem.row_weights
    shift = float(window.sums @ cf) / window.metric_sum if window.project else 0.0
    total = 0.0
    for rows in row_slices(place.z.size):
        z, labels = place.z[rows], place.labels[rows]
        dual = place.residual[rows] + window.metric[rows] * (window.columns[rows] @ cf - shift)
        if weights is None:
            conjugate = float(problem.loss.conjugate(dual, labels).sum())
        else:
            conjugate = _weighted_conjugate(problem, dual, labels, weights[rows])
        own = problem.loss.total(z, labels, None if weights is None else weights[rows])
        total += own + conjugate - float(dual @ z)
    return max(total, 0.0) if not np.isnan(total) else np.inf


def _weighted_conjugate(problem: Problem, dual: Vector, labels: Vector, weights: Vector) -> float:
    """Sum of s l*(dual / s) over rows that weigh something."""
    used = weights > 0
    kept = weights[used]
    return float(kept @ problem.loss.conjugate(dual[used] / kept, labels[used]))
