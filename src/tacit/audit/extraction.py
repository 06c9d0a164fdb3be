"""Model extraction: a party's coefficients from the scores that it serves.

A score is linear in the row, s = row . x - offset, for rows that are not clipped: d + 1 rows in general position, asked
one by one, give x and the offset exactly. Where the rows of a private fit are clipped around a centre, small rows around
that centre stay unclipped, and the same holds. Whether this breaks a claim depends on what x is: the private outcome of
a mechanism may be published, an exact fit may not.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tacit.audit.result import AS_STATED, BROKEN, HOLDS, AttackResult
from tacit.types import Vector

SAME = 1e-6


def chosen_rows(columns: int, size: float = 1.0, centre: Vector | None = None) -> Vector:
    """The rows to ask about: the centre, and one step from it along each column."""
    steps = np.vstack([np.zeros(columns), size * np.eye(columns)])
    return steps if centre is None else np.asarray(steps + centre)


def coefficients_from_scores(rows: Vector, scores: Vector) -> tuple[Vector, float]:
    """Coefficients and constant by least squares."""
    design = np.column_stack([rows, np.ones(len(rows))])
    solution, *_ = np.linalg.lstsq(design, scores, rcond=None)
    return np.asarray(solution[:-1]), float(solution[-1])


def extract(
    serve: Callable[[Vector], Vector],
    coef: Vector,
    *,
    claimed: str,
    covered: bool,
    party: str,
    size: float = 1.0,
    centre: Vector | None = None,
) -> AttackResult:
    """Ask for d + 1 scores and compare what they give with the coefficients that the party holds.

    Parameters
    ----------
    serve : callable
        Rows to scores: what whoever may ask gets to see.
    coef : Vector
        The coefficients that the party trained with, to compare; for a clipped fit in units of its rows.
    claimed : str
        What the certificate says about the model.
    covered : bool
        True where `coef` may be seen: it is itself the private output.
    """
    rows = chosen_rows(coef.size, size, centre)
    found, _ = coefficients_from_scores(rows, serve(rows))
    error = float(np.linalg.norm(found - coef) / max(float(np.linalg.norm(coef)), 1e-300))
    exact = error < SAME
    said = f"{'exact' if exact else 'not exact'}: relative error {error:.1e} from {len(rows)} predictions"
    if covered:
        said += "; it is the private output" if exact else ""
        verdict = HOLDS
    else:
        verdict = AS_STATED if exact else HOLDS
    details = {"party": party, "predictions": len(rows), "relative_error": error, "covered": covered}
    return AttackResult(f"model of {party} from served predictions", claimed, said, verdict, details)


def judge_moved(name: str, moved: float, *, claimed_private: bool, claimed: str) -> AttackResult:
    """The model itself: does it depend on the rows beyond what was released?

    `moved` is the largest relative change of the coefficients when a row is replaced and every release stays the same.
    """
    free = moved <= SAME
    said = "a function of the releases alone" if free else f"moves by {moved:.1e} beyond the releases"
    if free:
        verdict = HOLDS
    else:
        verdict = BROKEN if claimed_private else AS_STATED
    return AttackResult(name, claimed, said, verdict, {"moved": moved})
