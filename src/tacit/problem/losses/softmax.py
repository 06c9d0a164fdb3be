"""Softmax loss of C classes: value = log sum_c exp(z_c) - t . z, with C scores z for each row.

| symbol | meaning |
|---|---|
| y | the class of a row: 0, 1, ... C - 1 |
| p | exp(z_c) / sum of these: the probability of each class |
| t | the target: 1 for class y, 0 for the others; of randomized labels see below |

grad = p - t, of norm sqrt 2 at most, and hess = diag(p) - p p', of norm 1/2 at most. A number added to all scores of a
row changes neither, so that scores mean something up to a constant for each row; those of a fit sum to zero.

Labels that went through randomized response over C classes are kept with probability k = e^eps / (e^eps + C - 1), and
become each other class with b = 1 / (e^eps + C - 1). With t = (1[c = y'] - b) / (k - b) of the outcome y' the mean of
the loss over the coins is that of the true label (docs/proofs/labels.md, theorem 7). It stays convex: t is in a linear
term.

Scores of all rows come as one long vector, row after row, or as a table of C columns; derivatives have the same shape.
"""

from __future__ import annotations

import math
import numbers
from typing import NoReturn

import numpy as np
from scipy.special import softmax, xlogy

from tacit.errors import InputError
from tacit.problem.losses.base import LEAST_EPSILON, SLACK, Loss
from tacit.problem.losses.logistic import Logistic
from tacit.types import Vector

LEAST_CHANCE = 1e-300  # a derivative that underflowed stands for every smaller probability,
NEAR_ONE = 1e-16  # and one that rounds to -1 for every smaller one of the own class


class Softmax(Loss):
    """Softmax loss: logistic regression with more than two classes.

    Parameters
    ----------
    classes : int
        How many, at least 2.
    epsilon : float or None
        The label epsilon with which labels were randomized; None for true labels.
    """

    task = "classification"
    lipschitz = math.sqrt(2.0)
    curvature = 0.5
    log_odds = True

    def __init__(self, classes: int, epsilon: float | None = None) -> None:
        self.outputs, self.epsilon = int(classes), epsilon
        self.name = "softmax"
        self.spread = 0.0  # b / (k - b), what each entry of t is lowered by
        if epsilon is not None:
            _check_epsilon(epsilon)
            self.spread = math.exp(-epsilon) / -math.expm1(-epsilon)
            self.name = f"softmax of labels randomized at epsilon {float(epsilon)!r}"
        self.least_slope = self.spread
        self.lipschitz = math.sqrt(2.0) * (1 + self.outputs * self.spread)

    @property
    def keep(self) -> float:
        """Probability with which a label was kept."""
        return (1 + self.spread) / (1 + self.outputs * self.spread)

    def targets(self, y: Vector) -> Vector:
        """The vector t of each row."""
        t = np.full((y.size, self.outputs), -self.spread)
        t[np.arange(y.size), y.astype(np.intp)] += 1 + self.outputs * self.spread
        return t

    def _rows(self, z: Vector, y: Vector) -> Vector:
        return np.reshape(z, (y.size, self.outputs))

    def value(self, z: Vector, y: Vector) -> Vector:
        """Log sum exp(z) - t . z of each row."""
        rows = self._rows(z, y)
        own = rows[np.arange(y.size), y.astype(np.intp)]
        top = rows.max(axis=1, keepdims=True)
        plain = np.log(np.exp(rows - top).sum(axis=1)) + (top[:, 0] - own)
        if not self.spread:
            return np.asarray(plain)
        return np.asarray(plain - self.spread * (self.outputs * own - rows.sum(axis=1)))

    def grad(self, z: Vector, y: Vector) -> Vector:
        """P - t, in the shape of z; exact to rounding where p of the own class is near 1."""
        return self.slopes(z, y)[0]

    def hess(self, z: Vector, y: Vector) -> Vector:
        """diag(p) - p p' of each row, C x C."""
        p = softmax(self._rows(z, y), axis=1)
        return np.asarray(np.eye(self.outputs) * p[:, :, None] - p[:, :, None] * p[:, None, :])

    def slopes(self, z: Vector, y: Vector) -> tuple[Vector, Vector]:
        """(grad, p), both in the shape of z: with p the curvature is known (`hess`)."""
        rows, at = self._rows(z, y), (np.arange(y.size), y.astype(np.intp))
        small = np.exp(rows - rows.max(axis=1, keepdims=True))
        p = small / small.sum(axis=1, keepdims=True)
        slope = p.copy()
        slope[at] = 0.0
        slope[at] = -slope.sum(axis=1)  # p - 1 without cancelling
        if self.spread:
            slope += self.spread
            slope[at] -= self.outputs * self.spread
        return slope.reshape(np.shape(z)), p.reshape(np.shape(z))

    def prox(self, v: Vector, y: Vector, step: float | Vector) -> NoReturn:
        """Not available: no solver that needs it takes several scores for each row."""
        raise NotImplementedError("softmax has no prox")

    def conjugate(self, t: Vector, y: Vector) -> Vector:
        """Negative entropy of t + target of each row, which must be a probability of each class."""
        p = self._rows(t, y) + self.targets(y)
        slack = SLACK * max(1.0, float(np.abs(p).max(initial=0.0)), self.outputs * self.spread)
        inside = (p >= -slack).all(axis=1) & (np.abs(p.sum(axis=1) - 1.0) <= self.outputs * slack)
        p = np.clip(p, 0.0, 1.0)
        return np.where(inside, xlogy(p, p).sum(axis=1), np.inf)

    def recover(self, r: Vector) -> tuple[Vector, Vector] | None:
        """Scores that sum to zero in each row, and p: the own class has the only negative derivative.

        None of randomized labels, whose targets are added to what is small.
        """
        if self.spread:
            return None
        p = np.array(np.reshape(r, (-1, self.outputs)))
        at = (np.arange(len(p)), p.argmin(axis=1))
        p[at] = np.maximum(1.0 + p[at], NEAR_ONE)
        p = np.maximum(p, LEAST_CHANCE)
        z = np.log(p)
        z -= z.mean(axis=1, keepdims=True)
        return z.reshape(np.shape(r)), p.reshape(np.shape(r))

    def best_constant(self, y: Vector, weights: Vector | None, widest: float) -> Vector:
        """The scores, summing to zero, that fit best where they are the same for every row; within -widest .. widest.

        Raises
        ------
        InputError
            Where randomized labels say that a class has a share below 0.
        """
        weights = np.ones(y.size) if weights is None else weights
        counts = np.bincount(y.astype(np.intp), weights, minlength=self.outputs)
        share = (1 + self.outputs * self.spread) * counts / counts.sum() - self.spread
        if self.spread and share.min() <= 0:
            raise InputError(
                f"the randomized labels leave class {int(share.argmin()) + 1} of {self.outputs} a share of "
                f"{share.min():.3g}, not above 0, so that no intercept is best: use more rows or a larger "
                "label_epsilon (randomizing again costs it again)"
            )
        z = np.log(np.maximum(share, math.exp(-widest)))
        return np.asarray(z - z.mean())

    def check_labels(self, y: Vector) -> None:
        """Refuse what is no class."""
        if not np.all((y >= 0) & (y < self.outputs) & (y == np.floor(y))):
            raise InputError(f"loss='softmax' needs labels 0 to {self.outputs - 1}")


def of_classes(loss: Loss, count: int) -> Loss:
    """The loss for so many classes: the same for two, softmax for more where it is the logistic loss.

    Raises
    ------
    InputError
        For any other loss.
    """
    if count <= 2:
        return loss
    if isinstance(loss, Logistic):
        return Softmax(count)
    raise InputError(
        f"Only binary classification is supported with loss={loss.name!r}, and the labels have {count} classes: use "
        "loss='logistic', or join them into two"
    )


def _check_epsilon(epsilon: object) -> None:
    is_number = isinstance(epsilon, numbers.Real) and not isinstance(epsilon, bool)
    if not is_number or not LEAST_EPSILON <= float(epsilon) < math.inf:  # type: ignore[arg-type]
        raise InputError(f"label epsilon={epsilon!r} is not allowed: it must be finite and at least {LEAST_EPSILON:g}")
