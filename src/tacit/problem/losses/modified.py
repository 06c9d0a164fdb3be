"""The unbiased loss of labels that went through randomized response, with one epsilon or one for each row.

| symbol | meaning |
|---|---|
| eps | label epsilon: a label y was kept with probability p = e^eps / (1 + e^eps), else flipped; y' is the outcome |
| c | 1 / (e^eps - 1) |
| l | the inner loss, of the true label |

The modified loss (p l(z, y') - (1 - p) l(z, -y')) / (2p - 1) = ((1 + c) l(z, y') - c l(z, -y')) has the mean l(z, y)
over the flip. Two losses know their own mirror image, l(z, -y) = a l(z, y) + b y z + d, which turns it into

    scale l(z, y') - tilt y' z - shift,   scale = 1 + c - a c,   tilt = b c,   shift = d c :

the logistic loss (a, b, d) = (1, 1, 0) and the sigmoid loss (-1, 0, 1). docs/proofs/labels.md proves what is said here.

Where every row has an epsilon of its own, there is one tilt for each row: l(z, y') - tilt_i y' z, tilt_i = 1 / (e^eps_i
- 1). Each row's loss has the mean of its true label's, so that their sum has, too (docs/proofs/labels.md, theorem 3,
row by row).
"""

from __future__ import annotations

import math
import numbers

import numpy as np

from tacit.errors import InputError
from tacit.problem.losses.base import LEAST_EPSILON, SLACK, Loss
from tacit.problem.losses.logistic import Logistic, Softmax
from tacit.problem.losses.sigmoid import Sigmoid
from tacit.types import Vector

# --- The unbiased loss of labels that went through randomized response


_MIRRORS: dict[type[Loss], tuple[float, float, float]] = {Logistic: (1.0, 1.0, 0.0), Sigmoid: (-1.0, 0.0, 1.0)}


def flip_of(label_epsilon: float | None) -> float:
    """Probability with which a label was flipped."""
    return 0.0 if label_epsilon is None else 1 / (1 + math.exp(min(label_epsilon, 700.0)))


class Modified(Loss):
    """Loss of randomized labels whose mean over the flips is the inner loss of the true labels.

    Its values may be negative; with the logistic loss they have no lower bound (see `unbounded_reason`).

    Parameters
    ----------
    inner : Loss
        "logistic" or "sigmoid".
    epsilon : float
        The label epsilon with which the labels were randomized.
    """

    task = "classification"

    def __init__(self, inner: Loss, epsilon: float) -> None:
        reason = _refusal(inner, epsilon)
        if reason:
            raise InputError(reason)
        self.inner, self.epsilon = inner, float(epsilon)
        odds = math.exp(-self.epsilon) / -math.expm1(-self.epsilon)  # c, without overflow
        mirror, lean, offset = _MIRRORS[type(inner)]
        self.scale = 1.0 + (1.0 - mirror) * odds
        self.tilt = lean * odds
        self.shift = offset * odds
        self.name = f"{inner.name} of labels randomized at epsilon {self.epsilon!r}"
        self.convex, self.smooth, self.log_odds = inner.convex, inner.smooth, inner.log_odds
        self.lipschitz = self.scale * inner.lipschitz + self.tilt
        self.curvature = self.scale * inner.curvature
        self.concavity = self.scale * inner.concavity
        self.least_slope = self.tilt

    def value(self, z: Vector, y: Vector) -> Vector:
        """Scaled inner loss, less tilt y z, less shift."""
        return np.asarray(self.scale * self.inner.value(z, y) - self.tilt * (y * z) - self.shift)

    def grad(self, z: Vector, y: Vector) -> Vector:
        """Scaled inner derivative, less tilt y; both have the sign of -y."""
        return np.asarray(self.scale * self.inner.grad(z, y) - self.tilt * y)

    def hess(self, z: Vector, y: Vector) -> Vector:
        """Scaled inner curvature."""
        return np.asarray(self.scale * self.inner.hess(z, y))

    def slopes(self, z: Vector, y: Vector) -> tuple[Vector, Vector]:
        """(grad, hess) from one pass of the inner loss."""
        grad, hess = self.inner.slopes(z, y)
        return np.asarray(self.scale * grad - self.tilt * y), np.asarray(self.scale * hess)

    def total(self, z: Vector, y: Vector, weights: Vector | None = None) -> float:
        """Weighted sum of the values, from that of the inner loss."""
        margin = y * z
        lean = float(margin.sum() if weights is None else weights @ margin)
        rows = float(margin.size if weights is None else weights.sum())
        return self.scale * self.inner.total(z, y, weights) - self.tilt * lean - self.shift * rows

    def prox(self, v: Vector, y: Vector, step: float | Vector) -> Vector:
        """That of the inner loss, from a shifted centre and with a scaled step."""
        return self.inner.prox(v + step * self.tilt * y, y, step * self.scale)

    def conjugate(self, t: Vector, y: Vector) -> Vector:
        """That of the inner loss at (t + tilt y) / scale, scaled, plus shift."""
        slope = (t + self.tilt * y) / self.scale
        if self.tilt:
            # The subtraction leaves rounding of the size of tilt: within it, an edge of the domain is still met.
            slack, pull = SLACK * (1.0 + self.tilt), -slope * y
            edge = np.clip(pull, 0.0, self.inner.lipschitz)
            slope = np.where(np.abs(pull - edge) <= slack, -y * edge, slope)
        return np.asarray(self.scale * self.inner.conjugate(slope, y) + self.shift)

    def recover(self, r: Vector) -> tuple[Vector, Vector] | None:
        """That of the inner loss: the sign of r is that of -y, so that the tilt can be taken off again.

        What is left is known to a rounding of r, which stands for every margin beyond about 36 - log(1 + tilt).
        """
        least = 1e-16 * (1.0 + self.tilt) if self.tilt else 0.0
        pull = np.maximum(np.abs(r) - self.tilt, least) / self.scale
        recovered = self.inner.recover(np.copysign(pull, r))
        return None if recovered is None else (recovered[0], np.asarray(self.scale * recovered[1]))


def modified(loss: Loss, epsilon: float) -> Loss:
    """The loss to train with on labels that were randomized with this epsilon.

    Parameters
    ----------
    loss : Loss
        The loss wanted of the true labels: logistic, softmax, or sigmoid (whose modified loss is a multiple of it and
        as little convex as itself).
    epsilon : float
        Label epsilon, at least 0.001.

    Returns
    -------
    Modified, or Softmax of randomized labels

    Raises
    ------
    InputError
        Where the modified loss would not be one that can be minimised; the message says why.
    """
    plain = isinstance(loss, Softmax) and loss.epsilon is None
    return Softmax(loss.outputs, epsilon) if plain else Modified(loss, epsilon)


def _refusal(loss: Loss, epsilon: object) -> str:
    """Why there is no modified loss; empty where there is one."""
    is_number = isinstance(epsilon, numbers.Real) and not isinstance(epsilon, bool)
    if not is_number or not LEAST_EPSILON <= float(epsilon) < math.inf:  # type: ignore[arg-type]
        return f"label epsilon={epsilon!r} is not allowed: it must be finite and at least {LEAST_EPSILON:g}"
    if type(loss) in _MIRRORS:
        return ""
    if isinstance(loss, Modified | Softmax):
        return f"loss={loss.name!r} is modified already: labels are randomized once; give the loss of the true labels"
    if loss.task != "classification":
        return f"loss={loss.name!r} is not for randomized labels: they are -1 or +1; leave label_epsilon out"
    return (
        f"loss={loss.name!r} is not for randomized labels: its unbiased form subtracts the curvature of the other "
        "label, so that it is not convex; use 'logistic'"
    )


# --- The unbiased loss of randomized labels where every row was randomized with an epsilon of its own


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
