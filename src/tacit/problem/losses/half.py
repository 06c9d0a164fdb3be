"""Half loss: value = exp(-m) for m >= 0, 1 - m below, where m = y z.

Its best score is the log odds, as that of the logistic loss; among all such losses with |grad| <= 1 it has the largest
curvature everywhere (docs/proofs/graph.md, section 3). Private methods use it in place of the logistic loss.
"""

from __future__ import annotations

import numpy as np
from scipy.special import xlogy

from tacit.problem.losses.base import SLACK, Loss, indicate, slack_of
from tacit.types import Vector

MOST_STEPS = 200


class Half(Loss):
    """Half loss: an exponential where the answer is right, a line where it is wrong."""

    name = "half"
    task = "classification"
    lipschitz = 1.0
    curvature = 1.0
    log_odds = True

    def value(self, z: Vector, y: Vector) -> Vector:
        """exp(-m) for m >= 0, 1 - m below."""
        margin = y * z
        return np.exp(-np.maximum(margin, 0.0)) - np.minimum(margin, 0.0)

    def grad(self, z: Vector, y: Vector) -> Vector:
        """-y exp(-max(m, 0))."""
        return np.asarray(-y * np.exp(-np.maximum(y * z, 0.0)))

    def hess(self, z: Vector, y: Vector) -> Vector:
        """exp(-m) for m >= 0, 0 below."""
        margin = y * z
        return np.where(margin >= 0.0, np.exp(-np.maximum(margin, 0.0)), 0.0)

    def prox(self, v: Vector, y: Vector, step: float | Vector) -> Vector:
        """Margin y v raised by step where it stays below 0, else the root of m - y v - step exp(-m) = 0."""
        margin, rise = np.broadcast_arrays(np.asarray(y * v, dtype=np.float64), np.asarray(step, dtype=np.float64))
        low = np.maximum(
            margin, 0.0
        )  # left of the root, where Newton steps of a concave rising function never overshoot
        for _ in range(MOST_STEPS):
            small = rise * np.exp(-low)
            move = (small - (low - margin)) / (1.0 + small)
            low = low + np.maximum(move, 0.0)
            if np.all(move <= 1e-15 * (1.0 + low)):
                break
        return np.asarray(y * np.where(margin + rise < 0.0, margin + rise, low))

    def conjugate(self, t: Vector, y: Vector) -> Vector:
        """P log p - p with p = -t y, for 0 <= p <= 1."""
        pull = -t * y
        inside = (pull >= -slack_of(t)) & (pull <= 1.0 + SLACK)
        p = np.clip(pull, 0.0, 1.0)
        return indicate(inside, xlogy(p, p) - p)
