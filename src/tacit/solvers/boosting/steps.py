"""How far the joint score goes along what parties add: one step in [0, 1] for each, chosen on held-out rows.

The loss is convex in the steps, so that a few evaluations find the best ones; a step of 0 is always allowed, so that
the loss on these rows never rises.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import scipy

from tacit.solvers.boosting.losses import TreeLoss
from tacit.types import Vector

LEAST_STEP = 0.02  # below this a block is dropped
LEAST_HALVED = 1e-3


def choose_steps(
    loss: TreeLoss, z: Vector, y: Vector, added: Vector, sure: Sequence[float], weights: Vector | None = None
) -> Vector:
    """Steps in [0, 1] with the least loss on the rows given.

    Parameters
    ----------
    loss, z, y, weights
        The loss, margins, labels and weights of the rows.
    added : array whose first axis is the party
        What each party adds to the margin.
    sure : sequence of float
        A party gets 0 where its gain is not above so many standard errors.
    """
    count = len(added)
    share = np.full(len(y), 1 / len(y)) if weights is None else weights / weights.sum()

    def objective(w: Vector) -> tuple[float, Vector]:
        at = z + np.tensordot(w, added, 1)
        slope = loss.slopes(at, y)[0]
        pull = share * slope if slope.ndim == 1 else share[:, None] * slope
        return float(share @ loss.value(at, y)), np.array([float(np.vdot(one, pull)) for one in added])

    start, allowed = objective(np.zeros(count))[0], np.ones(count)
    w = np.zeros(count)
    for _ in range(2):  # once more without those that are dropped
        box = [(0.0, float(top)) for top in allowed]
        w = np.clip(
            scipy.optimize.minimize(objective, allowed / count, jac=True, bounds=box, method="L-BFGS-B").x, 0.0, allowed
        )
        dropped = (allowed > 0) & ((w < LEAST_STEP) | _unsure(loss, z, y, added, w, sure, share))
        allowed[dropped] = w[dropped] = 0.0
        if not w.any() or not dropped.any():
            break
    return w if objective(w)[0] <= start else np.zeros(count)


def _unsure(
    loss: TreeLoss, z: Vector, y: Vector, added: Vector, w: Vector, sure: Sequence[float], share: Vector
) -> npt.NDArray[np.bool_]:
    """Which parties' gains, beside those of the others, are not surely above 0."""
    whole = loss.value(z + np.tensordot(w, added, 1), y)
    found = np.zeros(len(w), dtype=np.bool_)
    for place, errors in enumerate(sure):
        without = np.where(np.arange(len(w)) == place, 0.0, w)
        gain = loss.value(z + np.tensordot(without, added, 1), y) - whole
        mean = float(share @ gain)
        deviation = np.sqrt(float((share**2) @ (gain - mean) ** 2))
        found[place] = mean <= errors * deviation
    return found


def guard(loss: TreeLoss, z: Vector, y: Vector, added: Vector, w: Vector, weights: Vector | None = None) -> Vector:
    """The steps, halved together until the loss on these rows does not rise."""
    if not w.any():
        return w
    now = loss.mean(z, y, weights)
    while w.any() and not loss.mean(z + np.tensordot(w, added, 1), y, weights) <= now:
        w = np.where(w > LEAST_HALVED, w / 2, 0.0)
    return w
