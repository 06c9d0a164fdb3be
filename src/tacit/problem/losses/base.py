"""What a loss must know about itself.

The edges of the domains of conjugates have the slack that rounding needs. A derivative that should be 0 often arrives
as 1e-17 of the wrong sign. Taken literally, it makes the conjugate infinite and a duality certificate worthless; so up
to `SLACK`, measured against the largest entry (and against 1, the scale of a label), it counts as 0.

The loss of rows that have more than a label: an offset, which is added to the score, and a weight.

Labels of such rows are a structured array with a label, an offset and a weight in each row. Only who holds the labels
knows the other two: parties see derivatives of the loss, as without them. A weight is times the loss; weights have mean
1 over the rows, so that the number of rows stays the sum of the weights.
"""

from __future__ import annotations

import math
import numbers
from abc import ABC, abstractmethod
from typing import Any, Literal

import numpy as np

from tacit.problem.regularizers import Regularizer
from tacit.types import Vector

# --- What a loss must know about itself


LEAST_EPSILON = 1e-3  # of randomized labels: below it they are coins, and their unbiased loss 1000 times as steep
Task = Literal["classification", "regression", "counts"]


class Loss(ABC):
    """A loss of one prediction against one label, applied elementwise.

    Labels `y` are -1 or +1 for classification, real for regression, non-negative for counts.
    Every method is elementwise, never warns and never returns NaN for finite input. Where `outputs` is more than 1, a
    prediction has so many scores, and methods are applied row by row (`Softmax`).

    Attributes
    ----------
    name : str
        The name users write.
    task : {"classification", "regression", "counts"}
        What the labels are.
    convex : bool
    smooth : bool
        True where the loss has a continuous derivative (so that `hess` drives Newton steps).
    lipschitz : float
        True bound on |grad|; infinite where there is none.
    curvature : float
        True bound on |hess|, that is, the Lipschitz constant of `grad`; infinite where there is none.
    concavity : float
        True bound on -hess; 0 for a convex loss. `prox` is only single-valued for step < 1/concavity.
    least_slope : float
        True lower bound on |grad|. Where it is positive, grad has the sign of -y everywhere, and the loss has no
        lower bound: it falls for ever along a right answer, and only a regularizer gives the problem an optimum.
    log_odds : bool
        True where the best score is the logarithm of the odds of +1, so that its sigmoid is a probability.
    parameters : tuple of str
        Names of the numbers that the loss is made with; it has attributes of these names.
    outputs : int
        Scores of a prediction: 1, or one for each of more than two classes.
    leaves_open : bool
        True where a number of the loss was not given, and is to be estimated from the rows.
    """

    name: str
    task: Task
    convex: bool = True
    smooth: bool = True
    lipschitz: float = math.inf
    curvature: float = math.inf
    concavity: float = 0.0
    least_slope: float = 0.0
    log_odds: bool = False
    parameters: tuple[str, ...] = ()
    outputs: int = 1
    leaves_open: bool = False

    def slope_range(self, y: Vector) -> tuple[Any, Any]:
        """True bounds on grad from below and above: two numbers, or one of each for every row."""
        return -self.lipschitz, self.lipschitz

    @property
    def settings(self) -> dict[str, float]:
        """The numbers that the loss was made with, by name."""
        return {name: getattr(self, name) for name in self.parameters}

    @abstractmethod
    def value(self, z: Vector, y: Vector) -> Vector:
        """Loss of each prediction; never negative, except where labels were randomized (see `modified`)."""

    @abstractmethod
    def grad(self, z: Vector, y: Vector) -> Vector:
        """Derivative in z (one subgradient where there is a kink)."""

    @abstractmethod
    def hess(self, z: Vector, y: Vector) -> Vector:
        """Second derivative in z where it exists, 0 at kinks."""

    def slopes(self, z: Vector, y: Vector) -> tuple[Vector, Vector]:
        """(grad, hess) at once, for losses where one pass is cheaper than two."""
        return self.grad(z, y), self.hess(z, y)

    def total(self, z: Vector, y: Vector, weights: Vector | None = None) -> float:
        """Weighted sum of the values, for losses where a sum is cheaper than its terms."""
        value = self.value(z, y)
        return float(value.sum() if weights is None else weights @ value)

    @abstractmethod
    def prox(self, v: Vector, y: Vector, step: float | Vector) -> Vector:
        """The argmin over z of value(z, y) + (z - v)^2 / (2 step); step >= 0, a number or one per row."""

    @abstractmethod
    def conjugate(self, t: Vector, y: Vector) -> Vector:
        """The sup over z of t z - value(z, y); +inf outside its domain."""

    def recover(self, r: Vector) -> tuple[Vector, Vector] | None:
        """(z up to a constant per row, hess) from the derivative r alone, or None where that is impossible.

        Lets a party that knows only the broadcast derivative follow how the predictions move.
        """
        return None

    def check_labels(self, y: Vector) -> None:
        """Raise InputError where a label is outside what this loss is defined for."""
        from tacit.errors import InputError

        if self.task == "classification" and not np.all(np.abs(y) == 1):
            raise InputError(f"loss={self.name!r} needs labels -1 and +1")
        if self.task == "counts" and np.any(y < 0):
            raise InputError(f"loss={self.name!r} needs labels >= 0: found {float(np.min(y)):g}")


def is_number(value: object) -> bool:
    """True for a real number that is neither infinite nor NaN; true and false are none."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(float(value))


# --- Edges of the domains of conjugates, with the slack that rounding needs


SLACK = 1e-12


def slack_of(t: Vector) -> float:
    """How far beyond an edge at 0 an entry of t still counts as on it."""
    return SLACK * max(1.0, float(np.max(np.abs(t), initial=0.0)))


def indicate(inside: np.ndarray, values: Vector) -> Vector:
    """Values inside the domain, +inf outside."""
    return np.where(inside, values, np.inf)


def unbounded_reason(loss: Loss, regularizer: Regularizer, alpha: float) -> str:
    """Why this loss has no optimum for sure with this regularizer; empty where it has one.

    A loss that falls for ever needs a penalty that grows faster than any line, or bounds on every coefficient.
    """
    bounded = math.isfinite(regularizer.radius) or (math.isfinite(regularizer.low) and math.isfinite(regularizer.high))
    if loss.least_slope == 0 or bounded or (alpha > 0 and regularizer.l2 > 0):
        return ""
    what = f"penalty={regularizer.name!r}"
    if regularizer.l2 > 0:
        what += f" with alpha={alpha:g}"
    elif regularizer.l1 > 0:
        what += " without a squared part"
    return (
        f"{what} does not fit loss={loss.name!r}: it has no lower bound, so that a coefficient may grow for ever; "
        'use penalty="l2" or "elastic_net" with alpha above 0, "ball" or "box"'
    )


# --- The loss of rows that have more than a label


ROW = np.dtype([("label", np.float64), ("offset", np.float64), ("weight", np.float64)])


def with_rows(labels: Vector, offset: Vector | None = None, weight: Vector | None = None) -> Any:
    """Labels with an offset (0 where there is none) and a weight (1 where there is none) in each row."""
    rows = np.empty(labels.shape, dtype=ROW)
    rows["label"], rows["offset"], rows["weight"] = (
        labels,
        0.0 if offset is None else offset,
        1.0 if weight is None else weight,
    )
    return rows


def bare_labels(labels: Any) -> Vector:
    """The labels alone, of rows with or without an offset and a weight."""
    return np.asarray(labels["label"] if labels.dtype == ROW else labels)


def at_offsets(scores: Vector, labels: Any) -> tuple[Vector, Vector]:
    """Scores with the offsets of their rows, and the labels alone."""
    return (scores + labels["offset"], bare_labels(labels)) if labels.dtype == ROW else (scores, labels)


def offset_range(labels: Any) -> tuple[float, float]:
    """Least and largest offset of the rows; 0 where they have none."""
    return (float(labels["offset"].min()), float(labels["offset"].max())) if labels.dtype == ROW else (0.0, 0.0)


class RowLoss(Loss):
    """weight * inner(z + offset, label), with labels as `with_rows` makes them.

    Its constants are those of a row of weight 1.

    Parameters
    ----------
    inner : Loss
    weighted : bool
        Whether rows may have weights other than 1, which a derivative alone does not tell.
    """

    def __init__(self, inner: Loss, *, weighted: bool = False) -> None:
        self.inner, self.weighted = inner, weighted
        self.name, self.task, self.parameters = inner.name, inner.task, inner.parameters
        self.convex, self.smooth, self.log_odds = inner.convex, inner.smooth, inner.log_odds
        self.lipschitz, self.curvature, self.concavity = inner.lipschitz, inner.curvature, inner.concavity
        self.least_slope, self.leaves_open = inner.least_slope, inner.leaves_open

    @property
    def settings(self) -> dict[str, float]:
        """Those of the inner loss."""
        return self.inner.settings

    def slope_range(self, y: Any) -> tuple[Any, Any]:
        """Weight times those of the inner loss."""
        low, high = self.inner.slope_range(y["label"])
        return y["weight"] * low, y["weight"] * high

    def value(self, z: Vector, y: Any) -> Vector:
        """Weight times the inner loss at z + offset."""
        return np.asarray(y["weight"] * self.inner.value(z + y["offset"], y["label"]))

    def grad(self, z: Vector, y: Any) -> Vector:
        """Weight times the inner derivative."""
        return np.asarray(y["weight"] * self.inner.grad(z + y["offset"], y["label"]))

    def hess(self, z: Vector, y: Any) -> Vector:
        """Weight times the inner curvature."""
        return np.asarray(y["weight"] * self.inner.hess(z + y["offset"], y["label"]))

    def slopes(self, z: Vector, y: Any) -> tuple[Vector, Vector]:
        """(grad, hess) from one pass of the inner loss."""
        grad, hess = self.inner.slopes(z + y["offset"], y["label"])
        return np.asarray(y["weight"] * grad), np.asarray(y["weight"] * hess)

    def total(self, z: Vector, y: Any, weights: Vector | None = None) -> float:
        """Sum of the values, `weights` times."""
        both = y["weight"] if weights is None else y["weight"] * weights
        return self.inner.total(z + y["offset"], np.ascontiguousarray(y["label"]), both)

    def prox(self, v: Vector, y: Any, step: float | Vector) -> Vector:
        """That of the inner loss around v + offset, with a step times the weight."""
        moved = self.inner.prox(v + y["offset"], np.ascontiguousarray(y["label"]), step * y["weight"])
        return np.asarray(moved - y["offset"])

    def conjugate(self, t: Vector, y: Any) -> Vector:
        """Weight times that of the inner loss at t / weight, less t offset."""
        inner = self.inner.conjugate(t / y["weight"], np.ascontiguousarray(y["label"]))
        return np.asarray(y["weight"] * inner - t * y["offset"])

    def recover(self, r: Vector) -> tuple[Vector, Vector] | None:
        """That of the inner loss: an offset is a constant of its row; None where rows have weights."""
        return None if self.weighted else self.inner.recover(r)

    def check_labels(self, y: Any) -> None:
        """Raise InputError where a label is outside what the inner loss is defined for."""
        self.inner.check_labels(bare_labels(y))
