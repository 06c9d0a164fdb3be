"""The best prediction that looks at no feature: where an intercept starts, and what objectives are compared with."""

from __future__ import annotations

import numpy as np
from scipy import optimize

from tacit.errors import InputError
from tacit.solvers.base import Problem
from tacit.types import Vector

WIDEST_SCORE = 40.0  # of a classifier: beyond it the loss of a right answer is rounding


def best_constant(problem: Problem, labels: Vector) -> float:
    """Minimiser of the loss over one constant prediction; 0 without an intercept or where the loss is not convex.

    Raises
    ------
    InputError
        Where the loss falls for ever in a constant that these labels do not hold back: no intercept is best.
    """
    if not problem.fit_intercept or not problem.loss.convex:
        return 0.0
    _check_held_back(problem, labels)
    low, high = _bracket(problem, labels)
    if not low < high:
        return low

    def loss(constant: float) -> float:
        return problem.loss.total(np.full(labels.size, constant), labels, problem.row_weights)

    found = optimize.minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 1e-9 * (high - low)})
    return min((low, float(found.x), high, min(max(0.0, low), high)), key=loss)


def constant_loss(problem: Problem, labels: Vector, constant: float) -> float:
    """Mean loss of that prediction."""
    return problem.loss.total(np.full(labels.size, constant), labels, problem.row_weights) / problem.total


def negligible_objective(problem: Problem, labels: Vector, constant: float) -> float:
    """Below this an objective counts as zero: a thousandth of that of the best constant, or rounding of the labels.

    A loss without a lower bound passes through zero by chance, so that nothing is relative to its value there: its
    unit is the loss of the prediction 0.
    """
    if problem.loss.least_slope > 0:
        return constant_loss(problem, labels, 0.0)
    rounding = 1e-10 * float(np.abs(labels).max(initial=0.0))
    at_best = constant_loss(problem, labels, constant)
    return max(1e-3 * at_best, constant_loss(problem, labels, constant + rounding) - at_best, 1e-300)


def label_spread(labels: Vector) -> float:
    """Standard deviation of the labels; 1 where they differ by rounding only."""
    spread = float(np.std(labels))
    return spread if spread > 1e-12 * float(np.abs(labels).max(initial=0.0)) else 1.0


def _check_held_back(problem: Problem, labels: Vector) -> None:
    """Refuse labels of which one kind is so frequent that the mean loss falls for ever in the intercept.

    In a constant prediction that grows, every row of its own sign pulls on with the least slope, and every other row
    pulls back with at most the largest one.
    """
    least, most = problem.loss.least_slope, problem.loss.lipschitz
    if least == 0.0:
        return
    weights = np.ones(labels.size) if problem.row_weights is None else problem.row_weights
    share = float(weights[labels > 0].sum()) / problem.total
    low, high = least / (least + most), most / (least + most)
    if not low < share < high:
        raise InputError(
            f"the randomized labels are {share:.4g} positive, outside {low:.4g} to {high:.4g}, so that no intercept is "
            "best: use more rows or a larger label_epsilon (randomizing again costs it again)"
        )


def _bracket(problem: Problem, labels: Vector) -> tuple[float, float]:
    if problem.loss.task == "classification":
        return -WIDEST_SCORE, WIDEST_SCORE
    low, high = float(labels.min()), float(labels.max())
    if problem.loss.task == "counts":
        return -WIDEST_SCORE, float(np.log(max(high, 1e-12))) + 1.0
    return low, high
