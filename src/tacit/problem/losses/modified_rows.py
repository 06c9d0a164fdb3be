"""The unbiased loss of randomized labels where every row was randomized with an epsilon of its own.

As in `modified`, with one tilt for each row: l(z, y') - tilt_i y' z, tilt_i = 1 / (e^eps_i - 1). Each row's loss has
the mean of its true label's, so that their sum has, too (docs/proofs/labels.md, theorem 3, row by row).
"""

from __future__ import annotations

import numpy as np

from tacit.errors import InputError
from tacit.problem.losses.base import Loss
from tacit.problem.losses.logistic import Logistic
from tacit.problem.losses.modified import Modified
from tacit.types import Vector


class ModifiedRows(Loss):
    """Logistic loss of randomized labels, one epsilon for each row: it takes all rows at once, in their order.

    Parameters
    ----------
    epsilons : array
        The epsilon with which each row's label was randomized.
    """

    task = "classification"
    log_odds = True

    def __init__(self, epsilons: Vector) -> None:
        values = np.asarray(epsilons, dtype=np.float64)
        if values.ndim != 1 or not values.size:
            raise InputError(f"label epsilons have shape {values.shape}: give one for each row")
        for epsilon in (float(values.min()), float(values.max())):
            Modified(Logistic(), epsilon)  # refuses what is out of range
        self.inner = Logistic()
        self.tilt = np.exp(-values) / -np.expm1(-values)
        self.name = f"logistic of labels randomized at epsilons {values.min():g} to {values.max():g}"
        self.lipschitz = 1.0 + float(self.tilt.max())
        self.curvature = self.inner.curvature
        self.least_slope = float(self.tilt.min())

    def value(self, z: Vector, y: Vector) -> Vector:
        """Inner loss, less tilt y z."""
        return np.asarray(self.inner.value(z, y) - self.tilt * (y * z))

    def grad(self, z: Vector, y: Vector) -> Vector:
        """Inner derivative, less tilt y; both have the sign of -y."""
        return np.asarray(self.inner.grad(z, y) - self.tilt * y)

    def hess(self, z: Vector, y: Vector) -> Vector:
        """Inner curvature."""
        return self.inner.hess(z, y)

    def total(self, z: Vector, y: Vector, weights: Vector | None = None) -> float:
        """Weighted sum of the values."""
        lean = self.tilt if weights is None else weights * self.tilt
        return self.inner.total(z, y, weights) - float(lean @ (y * z))

    def prox(self, v: Vector, y: Vector, step: float | Vector) -> Vector:
        """That of the inner loss, from a shifted centre."""
        return self.inner.prox(v + step * self.tilt * y, y, step)

    def conjugate(self, t: Vector, y: Vector) -> Vector:
        """That of the inner loss at t + tilt y."""
        return self.inner.conjugate(t + self.tilt * y, y)


def modified_rows(loss: Loss, epsilons: Vector) -> ModifiedRows:
    """The loss to train with on labels that were randomized with these epsilons, one for each row.

    Raises
    ------
    InputError
        Where the loss is not the logistic one, or an epsilon is below 0.001.
    """
    if not isinstance(loss, Logistic):
        raise InputError(f"loss={loss.name!r} is not for labels with an epsilon each: use 'logistic'")
    return ModifiedRows(np.asarray(epsilons, dtype=np.float64))
