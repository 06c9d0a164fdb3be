"""What a loss must know about itself.

The edges of the domains of conjugates have the slack that rounding needs. A derivative that should be 0 often arrives
as 1e-17 of the wrong sign. Taken literally, it makes the conjugate infinite and a duality certificate worthless; so up
to `SLACK`, measured against the largest entry (and against 1, the scale of a label), it counts as 0.
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
