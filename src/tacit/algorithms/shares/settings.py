"""Public numbers of noisy shares, and how far one row can move a party's share (docs/proofs/shares.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tacit.algorithms.block import ROWS_AT_ONCE

SHARE = "share"  # the one name under which a party releases
SOLVE_SLACK = 1e-4  # certified distance of a computed share from the exact one, in units of b
ROUNDING_SLACK = 1e-6  # what rounding may add to that, in units of b
LEAST_RIDGE, MOST_RIDGE = 1e-6, 1e6  # of the number of rows: beyond these rounding could not be certified
UNIT = 2.0**-53


@dataclass(frozen=True)
class SharesSettings:
    """What every side of a run with noisy shares knows.

    Attributes
    ----------
    row_norm : float
        Rows are scaled down to this norm.
    bound : float
        Largest share of one row: row_norm times the largest norm of the coefficients (of one step, with `steps`).
    quadratic : bool
        Whether noise is so large that the coordinator puts a quadratic in place of the loss.
    steps : bool
        Whether a party answers with the share of a step, which it fits to the broadcast alone. Its own past answers
        enter nothing then, so that they may stay hidden in sums (theorem 5).
    """

    row_norm: float
    bound: float
    quadratic: bool = True
    steps: bool = False


def exact_sensitivity(neighbours: str, bound: float) -> float:
    """Largest L2 distance of the exact shares of neighbouring data, for one inbox and one past (theorems 1 and 2)."""
    return bound if neighbours == "zero-out" else 2.0 * bound


def sensitivity(neighbours: str, bound: float) -> float:
    """The same for shares as they are computed: certified solves and rounding included (theorem 3)."""
    return exact_sensitivity(neighbours, bound) + 2.0 * (SOLVE_SLACK + ROUNDING_SLACK) * bound


def certifiable(rows: int, columns: int) -> bool:
    """Whether what rounding hides takes at most half of the slack, for every ridge that is taken (shares.md, 3)."""
    least, most = LEAST_RIDGE * rows, (MOST_RIDGE + 1) * rows
    worst = max(slope_rounding(rows, columns, ridge) / math.sqrt(ridge) for ridge in (least, most))
    return share_rounding(rows, columns) <= ROUNDING_SLACK and worst <= SOLVE_SLACK / 2


def share_rounding(rows: int, columns: int) -> float:
    """How far rounding can move a computed share, in units of b."""
    return 4.0 * math.sqrt(rows) * (columns + 32) * UNIT


def slope_rounding(rows: int, columns: int, ridge: float) -> float:
    """How far rounding can move the computed slope of the objective, in units of b; `ridge` with its multiplier."""
    terms = ROWS_AT_ONCE + rows / ROWS_AT_ONCE + columns + 32
    return 4.0 * UNIT * (rows * terms + (columns + 32) * ridge)
