"""Model extraction: a party's coefficients from the scores that it serves.

A score is linear in the row, s = row . x - offset, for rows that are not clipped: d + 1 rows in general position, asked
one by one, give x and the offset exactly. Where the rows of a private fit are clipped around a centre, rows near that
centre stay as they are, and the same holds. Whether this breaks a claim depends on what x is: the private outcome of a
mechanism may be published, an exact fit may not.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tacit.audit.result import NO_VIOLATION, AttackResult, judged
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
    serve: Callable[[Vector], Vector], coef: Vector, *, party: str, private: bool, claimed: bool, rows: Vector
) -> AttackResult:
    """Ask for d + 1 scores, solve for the coefficients, and judge by what they are.

    Parameters
    ----------
    serve : callable
        Rows to scores: what whoever may ask gets to see.
    coef : Vector
        The coefficients behind the scores, to compare.
    party : str
        Whose they are.
    private : bool
        Whether the coefficients are computed from proven releases alone, and may be published.
    claimed : bool
        Whether the certificate covers them: False where it says that predictions are not covered, or claims nothing.
    rows : Vector
        What to ask, see `chosen_rows`.
    """
    found, _ = coefficients_from_scores(rows, serve(rows))
    error = float(np.linalg.norm(found - coef) / max(float(np.linalg.norm(coef)), 1e-300))
    exact = error < SAME
    said = f"{'exact' if exact else 'not exact'}, from {len(rows)} predictions"
    said += "; a private output" if exact and private else "; NOT private" if exact else ""
    details = {"party": party, "predictions": len(rows), "relative_error": error, "private_output": private}
    verdict = NO_VIOLATION if private or not exact else judged(True, covered=claimed)
    claim = "the model is private" if claimed else "not covered"
    return AttackResult(f"model of {party} from predictions", claim, said, verdict, details)
