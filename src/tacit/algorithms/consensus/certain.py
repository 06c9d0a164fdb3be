"""Solves that end near the minimiser for every data set and every message: nothing here can fail and be seen to fail.

A private round must not stop because of what its rows are, and its proof needs a point within t of the minimiser of an
m-strongly convex function whose gradient is M-Lipschitz. Newton steps find one nearly always and are believed only with
a gradient norm to show for it. Where they have none, steps of length 1/M along the gradient are taken, as many as bring
any start within reach: each shrinks the distance by 1 - m/M, whatever the function is, and rounding adds no more than
the plan has counted (docs/proofs/dynamic.md, theorem 2a).

| symbol | here | meaning |
|---|---|---|
| R | reach | largest norm of what is taken in from others: a longer vector is scaled down |
| m, M | modulus, curvature | least and largest curvature of the whole objective |
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tacit.types import Vector


def within(v: Vector, reach: float) -> Vector:
    """The vector scaled down to norm `reach` where it is longer; entries that are no numbers count as 0."""
    found = np.asarray(v, dtype=np.float64)
    if not np.isfinite(found).all():
        found = np.where(np.isfinite(found), found, 0.0)
    largest = float(np.abs(found).max(initial=0.0))
    if largest > reach:  # first so that squares do not overflow
        found = found * (reach / largest)
    norm = float(np.linalg.norm(found))
    return found if norm <= reach else np.asarray(found * (reach / norm))


def steps_for(modulus: float, curvature: float, start: float, end: float) -> int:
    """How many steps bring a distance of `start` below `end`."""
    return max(1, math.ceil(curvature / modulus * math.log(max(start / end, 1.0)))) + 1


def descend(gradient: Callable[[Vector], Vector], start: Vector, curvature: float, steps: int) -> Vector:
    """Steps of length 1/M along the gradient; stops before the last where nothing moves any more."""
    point = np.array(start, dtype=np.float64)
    for _ in range(steps):
        there = point - gradient(point) / curvature
        if np.array_equal(there, point):
            break
        point = there
    return point
