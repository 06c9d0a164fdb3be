"""Two attacks on the sharing paper's noise: by the column space of its releases, and on its sensitivity bound.

What is released is D (x + xi), a vector in the column space of D whatever the noise xi is. Whoever knows two versions
of the data projects the releases on both column spaces: on the true one nothing is left over, on the other something
nearly always is. Proofs: docs/proofs/published.md, sections 2 and 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import linalg, sparse

from tacit.errors import InputError
from tacit.privacy.published import lemma1_bound
from tacit.types import Matrix, Vector

ROUNDING = 1e-9  # a part of the release that is left over and smaller than this is rounding
APART = 100.0  # the other version must leave over this many times more


@dataclass(frozen=True)
class ColumnSpaceVerdict:
    """Which of two versions of the data the releases were made from.

    Attributes
    ----------
    chosen : int
        0 for the first version, 1 for the second: that which leaves less over.
    residuals : tuple of float
        Norm of what each version leaves over, as a part of the norm of the releases.
    certain : bool
        Whether one version leaves over nothing but rounding, and the other clearly more.
    """

    chosen: int
    residuals: tuple[float, float]
    certain: bool


def column_space_attack(released: npt.ArrayLike, first: Matrix, second: Matrix) -> ColumnSpaceVerdict:
    """Tell by the releases alone which version of a party's data they were made from.

    Parameters
    ----------
    released : array of shape (rounds, rows) or (rows,)
        The vectors that one party sent.
    first, second : matrix of shape (rows, columns)
        Both versions, as the mechanism multiplies them (rows already scaled to their norm), with fewer columns than
        rows: else both column spaces may be everything, and nothing is certain.

    Raises
    ------
    InputError
        Where the numbers of rows differ.
    """
    shares = np.atleast_2d(np.asarray(released, dtype=np.float64)).T
    for version in (first, second):
        if version.shape[0] != shares.shape[0]:
            raise InputError(
                f"released has {shares.shape[0]} rows and the data have {version.shape[0]}: give vectors of one party"
            )
    left = (_left_over(shares, first), _left_over(shares, second))
    low, high = min(left), max(left)
    return ColumnSpaceVerdict(int(left[1] < left[0]), left, low <= ROUNDING and high > APART * max(low, ROUNDING))


def _left_over(shares: Vector, features: Matrix) -> float:
    """Relative norm of the shares off the column space; projected twice, so that rounding stays small."""
    dense = features.toarray() if sparse.issparse(features) else np.asarray(features)
    basis = linalg.orth(dense.astype(np.float64))
    size = float(np.linalg.norm(shares))
    for _ in range(2):
        shares = shares - basis @ (basis.T @ shares)
    return float(np.linalg.norm(shares)) / size if size > 0 else 0.0


@dataclass(frozen=True)
class SensitivityCheck:
    """Lemma 1's bound on how far a share can move, against how far it moved.

    Attributes
    ----------
    claimed : float
        C, with the smallest b1 that Assumption 2.1 allows here (or the one that was given).
    moved : float
        Norm of the change of D x.
    """

    claimed: float
    moved: float

    @property
    def ratio(self) -> float:
        """How many times the claim the change is; the lemma is refuted above 1."""
        return self.moved / self.claimed


def check_lemma1(
    features: Matrix,
    neighbour: Matrix,
    *,
    others: Vector,
    z: Vector,
    dual: Vector,
    rho: float,
    weight: float,
    blocks: int,
    bound: float = 0.0,
) -> SensitivityCheck:
    """Evaluate Lemma 1 on two versions of a party's data that differ in one column, for R = ||x||^2 / 2.

    Parameters
    ----------
    features, neighbour : matrix of shape (rows, columns)
    others : vector
        Sum of the other parties' shares.
    z, dual : vector
        What the central node sends.
    rho, weight : float
        Penalty and lambda of the summed loss.
    blocks : int
        M, the number of parties.
    bound : float
        b1, where it must be larger than the norms of x, x', y and z (for the other parties' coefficients).
    """
    target = z - others - dual / rho
    x, moved_x = (_update(version, target, weight / rho) for version in (features, neighbour))
    largest = max(bound, *(float(np.linalg.norm(v)) for v in (x, moved_x, dual, z)))
    claimed = lemma1_bound(features.shape[1], rho, weight, 1.0, blocks, largest)
    return SensitivityCheck(claimed, float(np.linalg.norm(neighbour @ moved_x - features @ x)))


def towards_residual(features: Matrix, target: Vector, ridge: float, column: int = 0) -> Vector:
    """The data with one column moved, by a vector of norm 1, towards what the x-update leaves of its target."""
    moved = np.array(features, dtype=np.float64)
    rest = target - moved @ _update(moved, target, ridge)
    moved[:, column] += rest / float(np.linalg.norm(rest))
    return moved


def _update(features: Matrix, target: Vector, ridge: float) -> Vector:
    """The x-update: argmin ridge/2 ||x||^2 + 1/2 ||D x - target||^2."""
    gram = np.asarray(features.T @ features) + ridge * np.eye(features.shape[1])
    return np.asarray(linalg.solve(gram, features.T @ target, assume_a="pos"))
