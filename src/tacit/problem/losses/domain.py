"""Edges of the domains of conjugates, with the slack that rounding needs.

A derivative that should be 0 often arrives as 1e-17 of the wrong sign. Taken literally, it makes the
conjugate infinite and a duality certificate worthless; so up to `SLACK`, measured against the largest
entry (and against 1, the scale of a label), it counts as 0.
"""

from __future__ import annotations

import numpy as np

from tacit.types import Vector

SLACK = 1e-12


def slack_of(t: Vector) -> float:
    """How far beyond an edge at 0 an entry of t still counts as on it."""
    return SLACK * max(1.0, float(np.max(np.abs(t), initial=0.0)))


def indicate(inside: np.ndarray, values: Vector) -> Vector:
    """Values inside the domain, +inf outside."""
    return np.where(inside, values, np.inf)
