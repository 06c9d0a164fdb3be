"""A party's rows from shares without noise.

| symbol | meaning |
|---|---|
| D | the party's rows, n x d |
| S | the shares s_t = D x_t of T rounds, n x T; x_t is the party's own secret |
| A | a d x d matrix that nobody but the party knows |

S = D X with X = (x_1 .. x_T). Where X has rank d, the columns of S span those of D, and nothing else is fixed: every
D A with A invertible explains the same S. So shares alone give the column space of D, and with it the answer to every
question of the form "is this vector a combination of your columns?". Whoever also knows d rows in general position,
say their own and a few friends' records, solves for A and has all the other rows exactly; so does whoever knows X.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import subspace_angles, svd

from tacit.audit.result import AttackResult, judged
from tacit.types import Vector

SEEN = 1e-7  # singular values below this part of the largest are rounding
TINY = 1e-9  # shares below this part of the largest are rounding
SAME = 1e-4


@dataclass(frozen=True)
class RowRecovery:
    """What shares gave away.

    Attributes
    ----------
    rank : int
        Dimensions of the column space that were seen.
    angle : float
        Largest principal angle, in radians, between what was seen and the true column space (pi/2 where some of it is
        missing).
    error : float
        Relative error of the unknown rows, given as many known rows as there are dimensions; NaN without.
    """

    rank: int
    angle: float
    error: float


def column_space(shares: Vector) -> Vector:
    """An orthonormal basis of what the shares span, n x rank."""
    sizes = np.linalg.norm(shares, axis=0)
    large = sizes > TINY * sizes.max(initial=0.0)
    left, values, _ = svd(shares[:, large] / sizes[large], full_matrices=False)
    rank = int(np.sum(values > SEEN * values[0])) if values.size and values[0] > 0 else 0
    return np.asarray(left[:, :rank])


def complete_rows(basis: Vector, known: Vector) -> Vector:
    """All rows, from the column space and the first ones, which are `known`."""
    solution, *_ = np.linalg.lstsq(basis[: len(known)], known, rcond=None)
    return np.asarray(basis @ solution)


def recover(shares: Vector, rows: Vector) -> RowRecovery:
    """Attack the shares, n x T, and compare with the true rows, n x d; as many as there are dimensions are known."""
    basis = column_space(shares)
    rank, columns = basis.shape[1], int(np.linalg.matrix_rank(rows))
    angle = math.pi / 2
    if rank > 0:
        angles = subspace_angles(basis, column_space(rows))
        angle = float(angles.max()) if rank >= columns else math.pi / 2
    error = math.nan
    if 0 < rank < len(rows):
        found = complete_rows(basis, rows[:rank])
        error = float(np.linalg.norm(found[rank:] - rows[rank:]) / np.linalg.norm(rows[rank:]))
    return RowRecovery(rank, angle, error)


def judge(
    found: RowRecovery, rounds: int, columns: int, party: str, *, covered: bool, masked: bool = False
) -> AttackResult:
    """The attack as a line of an audit."""
    space, rows = found.angle < SAME, found.error < SAME
    if rows:
        said = f"all rows exactly, given {found.rank} of them ({rounds} rounds of shares)"
    elif space:
        said = f"the column space ({rounds} rounds of shares)"
    else:
        said = f"neither rows nor column space, from {rounds} vector{'s' * (rounds > 1)} of shares"
        said += "" if math.isnan(found.error) else f"; guessed rows wrong by {100 * min(found.error, 9.99):.0f} %"
    claimed = "only sums can be read" if masked else "covered" if covered else "not covered"
    details = {"rank": found.rank, "angle": found.angle, "error": found.error, "rounds": rounds, "columns": columns}
    return AttackResult(
        f"rows of {party} from its shares", claimed, said, judged(space or rows, covered=covered), details
    )
