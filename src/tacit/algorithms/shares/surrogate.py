"""A quadratic in place of the loss, for shares whose noise is larger than they are.

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

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy import optimize

from tacit.algorithms.base import Problem
from tacit.algorithms.constant import WIDEST_SCORE, label_spread
from tacit.types import Vector

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

        return float(optimize.minimize_scalar(mean_loss, bounds=(-WIDEST_SCORE, WIDEST_SCORE), method="bounded").x)
