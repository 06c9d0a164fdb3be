"""Public numbers of noisy shares, how far one row can move a share, and the quadratic for very noisy ones.

A quadratic in place of the loss, for shares whose noise is larger than they are.

A derivative of the loss at a noisy score is biased, since the loss bends; one that is linear in the score is not, and
its noise averages out over the rows in every party's regression.

| symbol | meaning |
|---|---|
| m | the best constant score |
| h | how far scores are expected to reach from it: 2 for classes, the spread of numbers, 1 on a log scale |
| g, k | slope at m for each row and curvature: those of the chord of the derivative from m - h to m + h |
| z | the coordinator's scores; their covariance with g tells how much of the labels is explained |
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.polynomial.hermite_e import hermegauss

from tacit.blocks.dense import ROWS_AT_ONCE
from tacit.solvers.base import WIDEST_SCORE, Problem, label_spread
from tacit.types import Vector

# --- Public numbers of noisy shares, and how far one row can move a party's share (docs/proofs/shares.md)


SHARE = "share"  # the one name under which a party releases
SOLVE_SLACK = 1e-4  # certified distance of a computed share from the exact one, in units of b
ROUNDING_SLACK = 1e-6  # what rounding may add to that, in units of b
LEAST_RIDGE, MOST_RIDGE = 1e-6, 1e6  # of the number of rows: beyond these rounding could not be certified
UNIT = 2.0**-53


@dataclass(frozen=True)
class SharesSettings:
    """What every side of a run with noisy shares knows.

    Attributes
    ----------
    row_norm : float
        Rows are scaled down to this norm.
    bound : float
        Largest share of one row: row_norm times the largest norm of the coefficients (of one step, with `steps`).
    quadratic : bool
        Whether noise is so large that the coordinator puts a quadratic in place of the loss.
    steps : bool
        Whether a party answers with the share of a step, which it fits to the broadcast alone. Its own past answers
        enter nothing then, so that they may stay hidden in sums (theorem 5).
    """

    row_norm: float
    bound: float
    quadratic: bool = True
    steps: bool = False


def exact_sensitivity(neighbours: str, bound: float) -> float:
    """Largest L2 distance of the exact shares of neighbouring data, for one inbox and one past (theorems 1 and 2)."""
    return bound if neighbours == "zero-out" else 2.0 * bound


def sensitivity(neighbours: str, bound: float) -> float:
    """The same for shares as they are computed: certified solves and rounding included (theorem 3)."""
    return exact_sensitivity(neighbours, bound) + 2.0 * (SOLVE_SLACK + ROUNDING_SLACK) * bound


def certifiable(rows: int, columns: int) -> bool:
    """Whether what rounding hides takes at most half of the slack, for every ridge that is taken (shares.md, 3)."""
    least, most = LEAST_RIDGE * rows, (MOST_RIDGE + 1) * rows
    worst = max(slope_rounding(rows, columns, ridge) / math.sqrt(ridge) for ridge in (least, most))
    return share_rounding(rows, columns) <= ROUNDING_SLACK and worst <= SOLVE_SLACK / 2


def share_rounding(rows: int, columns: int) -> float:
    """How far rounding can move a computed share, in units of b."""
    return 4.0 * math.sqrt(rows) * (columns + 32) * UNIT


def slope_rounding(rows: int, columns: int, ridge: float) -> float:
    """How far rounding can move the computed slope of the objective, in units of b; `ridge` with its multiplier."""
    terms = ROWS_AT_ONCE + rows / ROWS_AT_ONCE + columns + 32
    return 4.0 * UNIT * (rows * terms + (columns + 32) * ridge)


# --- A quadratic in place of the loss, for shares whose noise is larger than they are


CLASS_REACH, COUNT_REACH = 2.0, 1.0
NODES, _WEIGHTS = hermegauss(31)
WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


class Surrogate:
    """sum_i g_i (z_i - m) + k/2 (z_i - m)^2."""

    def __init__(self, problem: Problem, labels: Vector, centre: float) -> None:
        self.problem, self.labels, self.centre = problem, labels, centre
        reach = {"classification": CLASS_REACH, "counts": COUNT_REACH}.get(problem.loss.task) or label_spread(labels)
        low = problem.loss.grad(np.full(labels.size, centre - reach), labels)
        high = problem.loss.grad(np.full(labels.size, centre + reach), labels)
        self.slope = (low + high) / 2
        self.curvature = max(float(np.mean(high - low)) / (2 * reach), 1e-9)

    def prox(self, w: Vector, step: float) -> Vector:
        """The argmin over z of the quadratic + ||z - w||^2 / (2 step)."""
        drop = self.slope - self.curvature * self.centre
        return np.asarray((w - step * drop) / (1 + step * self.curvature))

    def intercept(self, z: Vector, linear: float) -> float:
        """The constant that fits the loss beside scores spread as widely as least squares say; `linear` is their own.

        Of least-squares scores, curvature times variance is minus the covariance with the slope: linear in the noise.
        """
        loss = self.problem.loss
        if not self.problem.fit_intercept or loss.task == "regression":
            return linear
        spread = np.sqrt(max(-float(np.mean(z * (self.slope - self.slope.mean()))) / self.curvature, 0.0))
        scores = float(z.mean()) - linear + spread * NODES
        kinds, counts = np.unique(self.labels, return_counts=True)
        weights = np.multiply.outer(counts / self.labels.size, WEIGHTS)

        def mean_loss(constant: float) -> float:
            return float(np.sum(weights * loss.value(constant + scores[None, :], kinds[:, None])))

        return float(
            scipy.optimize.minimize_scalar(mean_loss, bounds=(-WIDEST_SCORE, WIDEST_SCORE), method="bounded").x
        )
