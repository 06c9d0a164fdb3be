"""Labels from what the coordinator sends to every party.

| symbol | meaning |
|---|---|
| u | the scaled dual: a positive multiple of the loss derivative at z, row by row |
| q | a - zbar + u, the combined vector of averaged sharing ADMM |
| r | over-relaxation of a round, which is sent with q |

A loss that strictly falls with the margin y z has a derivative of the sign of -y: whoever sees u, or the derivative
itself, reads off every label. The combined q hides nothing: with w/M - a = v at the start of a round, q = 2u - v, where
v = u - (1 - r)(q - u) of the round before (0 at the start, mixed as the round's starts are where it is accelerated).
Without relaxation this is u_t = (q_t + u_{t-1})/2. Proof: docs/proofs/audit.md, section 4.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import binom

from tacit.audit.lower_bound import CONFIDENCE as STATED
from tacit.audit.lower_bound import interval, share_line
from tacit.audit.result import AS_STATED, AT_95, AT_999, BROKEN, AttackResult
from tacit.types import Arrays, Vector

NAME = "labels from what is sent"
CONFIDENCE = 0.999  # with which a claim must be refuted before it is called broken


def labels_from_dual(dual: Vector) -> Vector:
    """Labels -1 and +1 from the loss derivative of each row; 0 where it is 0 and says nothing."""
    return np.asarray(-np.sign(dual), dtype=np.float64)


def duals_from_combined(inboxes: Sequence[Arrays]) -> list[Vector]:
    """The scaled dual of each round from the broadcasts of averaged (or published) sharing ADMM.

    Ends before the first round in which rho changes: from there on the coordinator's state is no longer linear in what
    it sent.
    """
    duals: list[Vector] = []
    kept: dict[int, Vector] = {}
    rho = None
    for inbox in inboxes:
        now, relaxation, slot = (*(float(value) for value in inbox["control"][:3]), 1.0, 0.0)[:3]
        if rho is not None and now != rho:
            break
        rho, q = now, inbox["q"]
        mixture = inbox.get("mixture", np.ones(min(len(kept), 1)))  # without acceleration, the round before
        start = sum((weight * kept[j] for j, weight in enumerate(mixture) if weight), np.zeros_like(q))
        dual = (q + start) / 2
        kept[int(slot)] = dual - (1 - relaxation) * (q - dual)
        duals.append(dual)
    return duals


def largest(duals: Sequence[Vector]) -> Vector:
    """Each row's dual of the round in which it is largest: where a row fits well, its dual is lost in rounding."""
    stacked = np.stack(duals)
    return np.asarray(np.take_along_axis(stacked, np.abs(stacked).argmax(axis=0)[None], axis=0)[0])


def count(guesses: Vector, truth: Vector) -> int:
    """Right guesses; one of 0 is a coin's, so that half of these count."""
    return int(np.sum(guesses == truth) + np.sum(guesses == 0) // 2)


def judge(guesses: Vector, truth: Vector, allowed: float | None, source: str) -> AttackResult:
    """Compare recovered labels with what a certificate allows.

    Parameters
    ----------
    guesses, truth : array
        -1 and +1; a guess may be 0. The true labels must be fair coins, independent of everything else: otherwise who
        knows the rows guesses labels without any leak.
    allowed : float or None
        Largest probability with which an observer may tell two equally likely labels apart: for randomized labels
        e^epsilon / (1 + e^epsilon). None where nothing is claimed.
    source : str
        Where the guesses came from.
    """
    right, rows = count(guesses, truth), truth.size
    low, high = interval(right, rows)
    details: dict[str, object] = {"right": right, "rows": rows, "rate": right / rows, "source": source}
    details |= {"interval": [low, high]}
    said = f"{share_line(right / rows, low, high)} of {rows} labels right, from {source}"
    if allowed is None:
        better = binom.sf(right - 1, rows, 0.5) < 1 - CONFIDENCE
        return AttackResult(NAME, "not covered", said, AS_STATED if better else AT_999, details)
    chance = float(binom.sf(right - 1, rows, allowed))
    details |= {"allowed": allowed, "chance": chance, "confidence": CONFIDENCE}
    verdict = BROKEN if chance < 1 - CONFIDENCE else AT_95 if chance >= 1 - STATED else AT_999
    return AttackResult(NAME, at_most(allowed), said, verdict, details)


def at_most(allowed: float) -> str:
    """A claim on guessed labels: a rate in the long run, which a sample may exceed by chance."""
    return f"{100 * allowed:.1f} % right at most, in the long run"


def seen_by_a_party(inboxes: Sequence[Arrays]) -> tuple[Vector, str] | None:
    """Guesses of all labels from what a party was told, by whichever array gives them away; None where none does."""
    first = inboxes[0] if inboxes else {}
    if "labels" in first:
        return np.asarray(np.sign(first["labels"])), "the labels as they are sent"
    if "symbols" in first:
        return _from_symbols(first["symbols"]), "the randomized symbols"
    if "q" in first:
        return labels_from_dual(duals_from_combined(inboxes[:1])[0]), "the combined vector q of round 1"
    duals = [inbox["dual"] for inbox in inboxes if "dual" in inbox]
    if duals:
        return labels_from_dual(largest(duals)), f"the dual of {len(duals)} rounds"
    if "residual" in first:
        return labels_from_dual(first["residual"]), "the residual of round 1"
    return None


def _from_symbols(symbols: Vector) -> Vector:
    """Symbols -1 and +1 are signs of residuals, which oppose the label; others are 2 level + (label is positive)."""
    if np.all(np.abs(symbols) == 1) and np.any(symbols < 0):
        return np.asarray(-symbols)
    return np.where(symbols % 2 > 0, 1.0, -1.0)
