"""Losses that trees can be grown on: value, slope and curvature of each row, and the best constant.

A margin z has one number for each row, or for softmax one for each row and class. Losses that linear models have, too,
are those of `tacit.problem.losses`.

| loss | labels | value |
|---|---|---|
| logistic | -1, +1 | log(1 + exp(-y z)) |
| randomized | -1, +1 after randomized response | minus the log likelihood of the label that was drawn |
| softmax | 0 .. C - 1 | log(sum of exp(z)) - z[y] |
| squared | numbers | 1/2 (z - y)^2 |
| poisson | counts | exp(z) - y z, up to a constant of y |
| gamma | positive numbers | z + y exp(-z), up to a constant of y |
| quantile | numbers | pinball: level (y - z) above, (1 - level) (z - y) below |
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from scipy.special import expit, logsumexp

from tacit.errors import InputError
from tacit.problem.losses.base import Loss, Task
from tacit.problem.losses.families import Poisson
from tacit.problem.losses.logistic import Logistic
from tacit.problem.losses.residual import Squared
from tacit.types import Vector

LARGEST_EXPONENT = 40.0
LEAST_CURVATURE = 1e-9


class TreeLoss(ABC):
    """A loss of one margin against one label; every method is by row.

    Attributes
    ----------
    name : str
    task : {"classification", "regression", "counts"}
    outputs : int
        Numbers of a margin: 1, or one for each class.
    log_odds : bool
        Whether the sigmoid of the margin is a probability.
    kinked : bool
        Whether leaves are set to a quantile of the residuals, as slopes do not tell how far to go.
    leaves_open : bool
        As in `Loss`: trees have no loss with a number that is estimated.
    """

    name: str
    task: Task
    outputs: int = 1
    log_odds: bool = False
    kinked: bool = False
    least_slope: float = 0.0
    leaves_open: bool = False

    @abstractmethod
    def value(self, z: Vector, y: Vector) -> Vector:
        """Loss of each row."""

    @abstractmethod
    def slopes(self, z: Vector, y: Vector) -> tuple[Vector, Vector]:
        """Derivative and curvature in z; the curvature may be an upper bound of the second derivative."""

    @abstractmethod
    def constant(self, y: Vector, weights: Vector | None = None) -> Vector:
        """The best margin that looks at no column: one number for each output."""

    def mean(self, z: Vector, y: Vector, weights: Vector | None = None) -> float:
        """Mean loss of rows with these weights."""
        value = self.value(z, y)
        return float(value.mean() if weights is None else weights @ value / weights.sum())

    def check_labels(self, y: Vector) -> None:
        """Raise InputError where a label is outside what this loss is defined for."""
        if self.task == "classification" and self.outputs == 1 and not np.all(np.abs(y) == 1):
            raise InputError(f"loss={self.name!r} needs labels -1 and +1")

    def of_randomized(self, flip: float) -> TreeLoss:
        """The loss of labels that were flipped with this probability.

        Raises
        ------
        InputError
            Where labels are not one of two.
        """
        raise InputError(
            f"label_epsilon does not fit loss={self.name!r}: labels are randomized where there are two classes"
        )

    @property
    def linear_name(self) -> str:
        """The name of the same loss of linear models; empty where there is none."""
        return ""

    def record(self) -> dict[str, Any]:
        """The loss as plain values."""
        return {"name": self.name}


class FromProblem(TreeLoss):
    """A loss that linear models have, too."""

    of: Loss

    @property
    def linear_name(self) -> str:
        """The name of that loss."""
        return self.of.name

    def value(self, z: Vector, y: Vector) -> Vector:
        """Loss of each row."""
        return self.of.value(z, y)

    def slopes(self, z: Vector, y: Vector) -> tuple[Vector, Vector]:
        """Derivative and second derivative."""
        return self.of.slopes(z, y)


class LogisticTrees(FromProblem):
    """Logistic loss of labels -1 and +1."""

    name, task, log_odds, of = "logistic", "classification", True, Logistic()

    def of_randomized(self, flip: float) -> TreeLoss:
        """The likelihood of the randomized label."""
        return RandomizedTrees(flip)

    def constant(self, y: Vector, weights: Vector | None = None) -> Vector:
        """The log odds of +1."""
        return _log_odds(_share(y > 0, weights))


class RandomizedTrees(TreeLoss):
    """Likelihood of labels -1 and +1 after randomized response: bounded below, unlike the unbiased loss.

    A label was kept with probability 1 - flip. P(+1) = flip + (1 - 2 flip) sigma(z), which is not concave in z: the
    curvature is that of the expected loss (Fisher's), which is positive.
    """

    name, task, log_odds = "randomized", "classification", True

    def __init__(self, flip: float) -> None:
        if not 0 <= flip < 0.5:
            raise InputError(f"flip={flip!r} is not allowed: give a probability of at least 0 and below 1/2")
        self.flip = float(flip)

    def value(self, z: Vector, y: Vector) -> Vector:
        """-log P(y)."""
        p, _ = self._chance(z)
        return np.asarray(-np.log(np.where(y > 0, p, 1 - p)))

    def slopes(self, z: Vector, y: Vector) -> tuple[Vector, Vector]:
        """Derivative, and the expected second derivative."""
        p, move = self._chance(z)
        spread = p * (1 - p)
        return (p - (y > 0)) / spread * move, np.maximum(move * move / spread, LEAST_CURVATURE)

    def constant(self, y: Vector, weights: Vector | None = None) -> Vector:
        """The log odds of +1 before randomizing."""
        share = (_share(y > 0, weights)[0] - self.flip) / (1 - 2 * self.flip)
        return _log_odds(np.array([np.clip(share, 0.01, 0.99)]))

    def record(self) -> dict[str, Any]:
        """The loss as plain values."""
        return {"name": self.name, "flip": self.flip}

    def _chance(self, z: Vector) -> tuple[Vector, Vector]:
        p = expit(np.clip(z, -LARGEST_EXPONENT, LARGEST_EXPONENT))
        p = np.clip(p, 1e-15, 1 - 1e-15)  # where nothing was flipped, the logarithm needs it
        return self.flip + (1 - 2 * self.flip) * p, (1 - 2 * self.flip) * p * (1 - p)


class SoftmaxTrees(TreeLoss):
    """Cross-entropy of whole numbers 0 .. classes - 1; margins have a column for each class."""

    name, task = "softmax", "classification"

    def __init__(self, classes: int) -> None:
        self.outputs = int(classes)

    def value(self, z: Vector, y: Vector) -> Vector:
        """log(sum of exp(z)) - z[y]."""
        return np.asarray(logsumexp(z, axis=1) - z[np.arange(len(y)), y.astype(np.int64)])

    def slopes(self, z: Vector, y: Vector) -> tuple[Vector, Vector]:
        """P - 1[y], and 2 p (1 - p), which bounds the curvature of the classes together."""
        p = np.exp(z - z.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        curvature = np.maximum(2 * p * (1 - p), LEAST_CURVATURE)
        p[np.arange(len(y)), y.astype(np.int64)] -= 1
        return p, curvature

    def constant(self, y: Vector, weights: Vector | None = None) -> Vector:
        """The logarithm of each class's share."""
        counts = np.bincount(y.astype(np.int64), weights, minlength=self.outputs)
        return np.asarray(np.log(np.maximum(counts, 0.5) / counts.sum()))

    def check_labels(self, y: Vector) -> None:
        """Raise InputError where a label is no class."""
        if not np.all((y >= 0) & (y < self.outputs) & (y == np.floor(y))):
            raise InputError(f"loss='softmax' needs labels 0 to {self.outputs - 1}")

    def record(self) -> dict[str, Any]:
        """The loss as plain values."""
        return {"name": self.name, "classes": self.outputs}


class SquaredTrees(FromProblem):
    """Half the squared error."""

    name, task, of = "squared", "regression", Squared()

    def constant(self, y: Vector, weights: Vector | None = None) -> Vector:
        """The mean."""
        return np.array([np.average(y, weights=weights)])


class PoissonTrees(FromProblem):
    """Counts with mean exp(z)."""

    name, task, of = "poisson", "counts", Poisson()

    def constant(self, y: Vector, weights: Vector | None = None) -> Vector:
        """The logarithm of the mean."""
        return np.array([math.log(float(np.average(y, weights=weights)))])

    def check_labels(self, y: Vector) -> None:
        """Raise InputError for negative labels, and where all are 0."""
        if np.any(y < 0) or not np.any(y > 0):
            what = f"found {float(np.min(y)):g}" if np.any(y < 0) else "all are 0"
            raise InputError(f"loss='poisson' needs labels of at least 0, not all of them 0: {what}")


class GammaTrees(TreeLoss):
    """Positive numbers with mean exp(z) whose deviation is a part of their mean; the smallest value is 0."""

    name, task = "gamma", "counts"

    def value(self, z: Vector, y: Vector) -> Vector:
        """exp(d) - 1 - d with d = log y - z."""
        gap = np.log(y) - z
        return np.asarray(np.expm1(np.minimum(gap, LARGEST_EXPONENT)) - gap)

    def slopes(self, z: Vector, y: Vector) -> tuple[Vector, Vector]:
        """1 - y exp(-z) and y exp(-z)."""
        ratio = np.exp(np.minimum(np.log(y) - z, LARGEST_EXPONENT))
        return 1 - ratio, np.maximum(ratio, LEAST_CURVATURE)

    def constant(self, y: Vector, weights: Vector | None = None) -> Vector:
        """The logarithm of the mean."""
        return np.array([math.log(float(np.average(y, weights=weights)))])

    def check_labels(self, y: Vector) -> None:
        """Raise InputError for labels that are not positive."""
        if np.any(y <= 0):
            raise InputError(f"loss='gamma' needs labels above 0: found {float(np.min(y)):g}")


class QuantileTrees(TreeLoss):
    """Pinball loss: a tree's shape comes from slopes, its leaves are set to the residuals' quantile."""

    name, task, kinked = "quantile", "regression", True

    def __init__(self, level: float = 0.5) -> None:
        if not 0 < level < 1:
            raise InputError(f"quantile={level!r} is not allowed: give a number between 0 and 1")
        self.level = float(level)

    @property
    def linear_name(self) -> str:
        """That of the median."""
        return "absolute" if self.level == 0.5 else ""

    def value(self, z: Vector, y: Vector) -> Vector:
        """Level times what is missing, or 1 - level times what is too much."""
        return np.maximum(self.level * (y - z), (self.level - 1) * (y - z))

    def slopes(self, z: Vector, y: Vector) -> tuple[Vector, Vector]:
        """-level below the label, 1 - level above it; curvature 1, for the shape of a tree."""
        return np.where(z > y, 1 - self.level, -self.level), np.ones_like(z)

    def constant(self, y: Vector, weights: Vector | None = None) -> Vector:
        """The quantile."""
        return leaf_quantiles(y, np.zeros(y.size, dtype=np.int64), 1, self.level, weights)

    def record(self) -> dict[str, Any]:
        """The loss as plain values."""
        return {"name": self.name, "quantile": self.level}


def leaf_quantiles(residual: Vector, leaf: Any, leaves: int, level: float, weights: Vector | None = None) -> Vector:
    """The weighted quantile of the residuals in each leaf: the least one below which `level` of the weight lies.

    All leaves at once: rows sorted by leaf and residual, cumulative weights, and one search for each leaf.
    """
    order = np.lexsort((residual, leaf))
    weight = np.ones(order.size) if weights is None else weights[order]
    total = np.concatenate([[0.0], np.cumsum(weight)])
    ends = np.cumsum(np.bincount(leaf, minlength=leaves))
    starts = np.concatenate([[0], ends[:-1]])
    target = total[starts] + level * (total[ends] - total[starts])
    place = np.searchsorted(total[1:], target * (1 - 1e-12), side="left")
    place = np.clip(place, starts, np.maximum(ends - 1, starts))
    found = residual[order[np.minimum(place, order.size - 1)]]
    return np.where(ends > starts, found, 0.0)


def _share(positive: Any, weights: Vector | None) -> Vector:
    """The share of positive rows, kept off 0 and 1 by half a row."""
    total = float(positive.size if weights is None else weights.sum())
    share = float(positive.mean() if weights is None else weights @ positive / total)
    edge = min(0.5, 0.5 / max(positive.size, 1))
    return np.array([min(max(share, edge), 1 - edge)])


def _log_odds(share: Vector) -> Vector:
    return np.asarray(np.log(share) - np.log1p(-share))


LOSSES = ("logistic", "randomized", "softmax", "squared", "poisson", "gamma", "quantile")


def make_loss(name: str, classes: int = 2, quantile: float = 0.5, flip: float = 0.0) -> TreeLoss:
    """A loss by its name.

    Raises
    ------
    InputError
        For an unknown name.
    """
    if name == "softmax":
        return SoftmaxTrees(classes)
    if name == "quantile":
        return QuantileTrees(quantile)
    if name == "randomized":
        return RandomizedTrees(flip)
    plain: dict[str, type[TreeLoss]] = {
        one.name: one for one in (LogisticTrees, SquaredTrees, PoissonTrees, GammaTrees)
    }
    if name not in plain:
        raise InputError(f"loss={name!r} is unknown for trees: choose one of {', '.join(LOSSES)}")
    return plain[name]()
