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

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import binom

from tacit.audit.result import AS_STATED, BROKEN, HOLDS, AttackResult
from tacit.types import Arrays, Vector

CONFIDENCE = 0.999


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
        now, relaxation, slot = (float(value) for value in inbox["control"][:3])
        if rho is not None and now != rho:
            break
        rho, q, mixture = now, inbox["q"], inbox["mixture"]
        start = sum((weight * kept[j] for j, weight in enumerate(mixture) if weight), np.zeros_like(q))
        dual = (q + start) / 2
        kept[int(slot)] = dual - (1 - relaxation) * (q - dual)
        duals.append(dual)
    return duals


@dataclass(frozen=True)
class Recovery:
    """How many labels were guessed right, by class, so that a lopsided class does not help."""

    right: tuple[int, int]
    rows: tuple[int, int]

    @property
    def rate(self) -> float:
        """Mean over the two classes of the part that was guessed right."""
        return sum(right / max(rows, 1) for right, rows in zip(self.right, self.rows, strict=True)) / 2


def count(guesses: Vector, truth: Vector) -> Recovery:
    """Count right guesses in each class; a guess of 0 is a coin's, counted as half."""
    right, rows = [], []
    for label in (-1.0, 1.0):
        mine = guesses[truth == label]
        right.append(int(np.sum(mine == label) + np.sum(mine == 0) // 2))
        rows.append(int(mine.size))
    return Recovery((right[0], right[1]), (rows[0], rows[1]))


def judge(name: str, guesses: Vector, truth: Vector, epsilon: float | None, source: str) -> AttackResult:
    """Compare recovered labels with what randomized response with `epsilon` allows; None where nothing is claimed.

    The true labels must be fair coins, independent of everything else: then whoever sees nothing but randomized labels
    guesses each one right with probability at most e^epsilon / (1 + e^epsilon), and the rows are independent, so that
    the number of right guesses is at most binomial.
    """
    found = count(guesses, truth)
    right, rows = sum(found.right), sum(found.rows)
    details = {"right": right, "rows": rows, "rate": right / rows, "source": source, "label_epsilon": epsilon}
    said = f"{100 * right / rows:.1f} % of {rows} labels right"
    if epsilon is None:
        better = binom.sf(right - 1, rows, 0.5) < 1 - CONFIDENCE
        verdict = AS_STATED if better else HOLDS
        return AttackResult(name, "labels not covered", said, verdict, details)
    allowed = 1 / (1 + math.exp(-epsilon))
    chance = float(binom.sf(right - 1, rows, allowed))
    details |= {"allowed": allowed, "chance": chance, "confidence": CONFIDENCE}
    verdict = BROKEN if chance < 1 - CONFIDENCE else HOLDS
    return AttackResult(name, f"at most {100 * allowed:.1f} % right (epsilon {epsilon:g})", said, verdict, details)


def seen_by_a_party(inboxes: Sequence[Arrays]) -> tuple[Vector, str] | None:
    """Guesses of all labels from what a party was told, by whichever array gives them away; None where none does."""
    first = inboxes[0] if inboxes else {}
    if "labels" in first:
        return np.asarray(np.sign(first["labels"])), "the labels as they are sent"
    if "residual" in first:
        return labels_from_dual(first["residual"]), "the residual of round 1"
    if "q" in first:
        return labels_from_dual(duals_from_combined(inboxes[:1])[0]), "the combined vector q of round 1"
    for key in ("dual", "y"):
        if key in first:
            return labels_from_dual(first[key]), "the dual of round 1"
    return None
