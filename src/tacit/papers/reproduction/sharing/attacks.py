"""Three short refutations, without the rest of the audit: the column space, Lemma 1, labels from the dual.

The papers' layer does not import the audit's, which has the same attacks for runs of users; the tests hold both against
each other. Proofs: docs/proofs/published.md, sections 2, 3 and 5.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import linalg

from tacit.privacy.published import lemma1_bound
from tacit.types import Vector

ROUNDING = 1e-9  # a part of the release that is left over and smaller than this is rounding


def version_of(released: Vector, versions: Sequence[Vector]) -> int:
    """Which version of a party's data a release was made from: that whose column space leaves less of it over.

    Where both leave nothing, one space is within the other, and the release came from the smaller one: from the larger
    one it would have left the smaller with probability 1.
    """
    bases = [linalg.orth(version) for version in versions]
    left = [_left_over(released, basis) for basis in bases]
    if max(left) <= ROUNDING:
        return int(np.argmin([basis.shape[1] for basis in bases]))
    return int(np.argmin(left))


def _left_over(released: Vector, basis: Vector) -> float:
    """Relative norm of the release off the space; projected twice, so that rounding stays small."""
    rest = released
    for _ in range(2):
        rest = rest - basis @ (basis.T @ rest)
    return float(np.linalg.norm(rest) / max(float(np.linalg.norm(released)), 1e-300))


def movement(features: Vector, others: Vector, z: Vector, dual: Vector, rho: float, weight: float) -> float:
    """How far the share of one of two parties moves, in units of Lemma 1's C, when its first column moves by norm 1.

    The column moves towards what the x-update leaves of its target; R = ||x||^2 / 2, and b1 is the smallest that
    Assumption 2.1 allows.
    """
    target = z - others - dual / rho
    x = _update(features, target, weight / rho)
    rest, neighbour = target - features @ x, features.copy()
    neighbour[:, 0] += rest / np.linalg.norm(rest)
    moved_x = _update(neighbour, target, weight / rho)
    bound = max(float(np.linalg.norm(vector)) for vector in (x, moved_x, dual, z))
    claimed = lemma1_bound(features.shape[1], rho, weight, 1.0, 2, bound)
    return float(np.linalg.norm(neighbour @ moved_x - features @ x)) / claimed


def _update(features: Vector, target: Vector, ridge: float) -> Vector:
    """The x-update: argmin ridge/2 ||x||^2 + 1/2 ||D x - target||^2."""
    gram = features.T @ features + ridge * np.eye(features.shape[1])
    return np.asarray(linalg.solve(gram, features.T @ target, assume_a="pos"))


def labels_read(duals: Sequence[Vector], labels: Vector) -> float:
    """Part of the labels that are minus the sign of the dual, each row's of the round in which it is largest."""
    stacked = np.stack(duals)
    largest = np.take_along_axis(stacked, np.abs(stacked).argmax(axis=0)[None], axis=0)[0]
    return float(np.mean(-np.sign(largest) == labels))
