"""Lower bounds on the optimum from a point of the dual problem: what makes a stopping rule a certificate.

For any theta with sum_i s_i theta_i = 0 (where there is an intercept), weak duality gives

    optimum >= -(1/total) sum_i s_i l*(theta_i; y_i) - sum_m alpha R*(v_m),   v_m = -D_m' S theta / (alpha total).

Loss derivatives lie in the domain of l*, an interval that holds 0, so shrinking them towards 0 keeps them there. Where
the loss has a least slope the interval ends there instead, on the side of 0: derivatives are shrunk towards that end.
"""

from __future__ import annotations

import numpy as np

from tacit.errors import RunError
from tacit.solvers.base import Problem
from tacit.types import Arrays, Vector


def is_certifiable(problem: Problem) -> bool:
    """False where R* is infinite off a point or a cone, so that no bound is to be had.

    Where only sums may travel also for l1 alone: its bound needs the least of the parties' shrinking factors.
    """
    regularizer = problem.regularizer
    penalised = problem.alpha > 0 or regularizer.constraint
    if problem.sums_only and regularizer.l1 > 0 and regularizer.l2 == 0:
        return False
    return problem.loss.convex and penalised and regularizer.name not in ("none", "nonnegative")


def balance(problem: Problem, theta: Vector) -> tuple[float, float]:
    """Factors <= 1 of the positive and the negative part after which the weighted sum is 0, for an intercept.

    They multiply what is beyond the least slope. A negative factor says that even the rest is too much to be balanced.
    """
    if not problem.fit_intercept:
        return 1.0, 1.0
    up, down = weighted_mean(problem, np.maximum(theta, 0.0)), weighted_mean(problem, np.maximum(-theta, 0.0))
    least = problem.loss.least_slope
    if least == 0.0 and (up == 0.0 or down == 0.0):
        return 0.0, 0.0
    fixed_up = least * weighted_mean(problem, (theta > 0).astype(np.float64)) if least else 0.0
    fixed_down = least * weighted_mean(problem, (theta < 0).astype(np.float64)) if least else 0.0
    return _factor(up, down, fixed_up), _factor(down, up, fixed_down)


def _factor(size: float, other: float, fixed: float) -> float:
    """What the part of `size` beyond `fixed` is multiplied by, so that it is no more than `other`."""
    if size <= other:
        return 1.0
    return (other - fixed) / (size - fixed) if size > fixed else -1.0


def balanced(problem: Problem, theta: Vector) -> Vector:
    """Shrink the positive or the negative part so that the weighted sum is 0, where an intercept asks for it."""
    return shrunk(problem, theta, *balance(problem, theta))


def shrunk(problem: Problem, theta: Vector, up: float, down: float, weights: Vector | None = None) -> Vector:
    """Theta with the factors of `balance` applied; `weights` where theta already carries the row weights.

    Zero where nothing in the domain of l* is balanced: with a least slope zero is outside, and its bound -infinity.
    """
    least = problem.loss.least_slope
    if min(up, down) < 0:
        return np.zeros_like(theta)
    factor = np.where(theta > 0, up, down)
    if least == 0.0:
        return np.asarray(factor * theta)
    kept = least * np.sign(theta) * (1.0 if weights is None else weights)
    return np.asarray(kept + factor * (theta - kept))


def conjugate_terms(problem: Problem, pull: Vector) -> Arrays:
    """One party's part of the bound: alpha R*(v) at `pull` = D' S theta, after the shrinking that makes it finite."""
    alpha = 1.0 if problem.regularizer.constraint else problem.alpha
    v = -pull / (alpha * problem.total)
    shrink = problem.regularizer.shrink(v)
    value = alpha * problem.regularizer.conjugate(shrink * v) if shrink > 0 else 0.0
    if not problem.sums_only:
        return {"conjugate": np.array([value]), "min_shrink": np.array([shrink])}
    if shrink < 1.0:
        raise RunError(f"penalty={problem.regularizer.name!r} needs more than sums: leave secure_aggregation out")
    return {"conjugate": np.array([value])}


def lower_bound(problem: Problem, labels: Vector, theta: Vector, total: Arrays) -> float:
    """The bound, from theta and the parties' terms; they are convex and 0 at 0, so shrinking more keeps it true."""
    if "min_shrink" in total:
        theta = float(total["min_shrink"][0]) * theta
    conjugate = problem.loss.conjugate(theta, labels)
    if problem.row_weights is not None:
        conjugate = np.where(problem.row_weights > 0, conjugate, 0.0)  # 0 times infinity is no number
    return -weighted_mean(problem, conjugate) - float(total["conjugate"][0])


def weighted_mean(problem: Problem, values: Vector) -> float:
    """Mean over the rows, by their weights."""
    weights = problem.row_weights
    return float(values.sum() if weights is None else weights @ values) / problem.total
