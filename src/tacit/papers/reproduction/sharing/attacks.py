"""Three short refutations by the audit's attacks: the column space, Lemma 1, labels from the dual.

Proofs: docs/proofs/published.md, sections 2, 3 and 5.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tacit.audit.column_space import ROUNDING, check_lemma1, column_space_attack, towards_residual
from tacit.audit.label_recovery import labels_from_dual, largest
from tacit.types import Vector


def version_of(released: Vector, versions: tuple[Vector, Vector]) -> int:
    """Which version of a party's data a release was made from: that whose column space leaves less of it over.

    Where both leave nothing, one space is within the other, and the release came from the smaller one: from the larger
    one it would have left the smaller with probability 1.
    """
    verdict = column_space_attack(released, *versions)
    if max(verdict.residuals) <= ROUNDING:
        return int(np.argmin([np.linalg.matrix_rank(version) for version in versions]))
    return verdict.chosen


def movement(features: Vector, others: Vector, z: Vector, dual: Vector, rho: float, weight: float) -> float:
    """How far the share of one of two parties moves, in units of Lemma 1's C, when its first column moves by norm 1.

    The column moves towards what the x-update leaves of its target; R = ||x||^2 / 2, and b1 is the smallest that
    Assumption 2.1 allows.
    """
    neighbour = towards_residual(features, z - others - dual / rho, weight / rho)
    check = check_lemma1(features, neighbour, others=others, z=z, dual=dual, rho=rho, weight=weight, blocks=2)
    return check.ratio


def labels_read(duals: Sequence[Vector], labels: Vector) -> float:
    """Part of the labels that are minus the sign of the dual, each row's of the round in which it is largest."""
    return float(np.mean(labels_from_dual(largest(duals)) == labels))
