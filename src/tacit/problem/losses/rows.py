"""The loss of rows that have more than a label: an offset, which is added to the score, and a weight.

Labels of such rows are a structured array with a label, an offset and a weight in each row. Only who holds the labels
knows the other two: parties see derivatives of the loss, as without them. A weight is times the loss; weights have mean
1 over the rows, so that the number of rows stays the sum of the weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.problem.losses.base import Loss
from tacit.problem.losses.families import NegativeBinomial
from tacit.types import Vector

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


def estimates_dispersion(loss: Loss, given: object) -> bool:
    """Whether a dispersion was left open that the loss has."""
    inner = loss.inner if isinstance(loss, RowLoss) else loss
    return isinstance(inner, NegativeBinomial) and given is None


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
        self.least_slope = inner.least_slope

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
