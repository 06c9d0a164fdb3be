"""Verdicts on what the paper proves: privacy of one iteration and of all, and the rows that are needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tacit.papers.reproduction.claims import Expected, Item, Judged, judge_number, judge_words, leave_open
from tacit.papers.reproduction.dynamic.readings import Readings
from tacit.papers.sample_sizes import Goal, rows_for_dual, rows_for_released_primal

Check = Callable[[Item, Readings, Expected], Judged]
ROUNDING = 1e-9
CONSTANT = (
    "the bound has a constant that is only said to exist, and Delta(t) without any bound; its terms are in "
    "tacit.papers.sample_sizes, and what is wrong in them in docs/proofs/dynamic.md, section 9"
)
EXAMPLE = Goal(reference=10.0, accuracy=0.1, alpha=0.3, columns=105, weight=1750.0, pull=26.0)


def _densities(name: str, *, last: bool | None = None) -> Check:
    """Iterations of a run: all of them, or the last one, or all but it."""

    def check(item: Item, at: Readings, expected: Expected) -> Judged:
        outcome = at.outcome(f"density/{name}")
        rows = list(zip(outcome["rounds"], outcome["found"], outcome["said"], strict=True))
        if last is not None:
            rows = [row for row in rows if (row[0] == outcome["last"]) == last]
        worst, found, said = max(rows, key=lambda row: row[1] / row[2])
        words = f"largest log ratio found: {found:.3f} in iteration {worst}, stated {said:.3g}"
        holds = found <= said * (1 + ROUNDING)
        reason = "nothing above it was found" if holds else f"{found / said:.2f} times what is stated"
        return judge_words(item, words, holds, reason)

    return check


def _whole_run(item: Item, at: Readings, expected: Expected) -> Judged:
    outcome = at.outcome("epsilon")
    printed, sound = outcome["dvp_printed"]["0.5"], outcome["dvp_sound"]["0.5"]
    reason = (
        f"alpha is the epsilon of one message; {outcome['rounds']} of which no more is known add up to this, and to "
        f"{0.5 * outcome['rounds']:g} at delta 0. The uniform direction of its noise (docs/proofs/composition.md, 4b) "
        f"brings DVP to {sound:.1f} where it is corrected and to {printed:.1f} as printed"
    )
    return judge_number(item, round(outcome["stated"]["0.5"], 2), reason)


def _open(item: Item, at: Readings, expected: Expected) -> Judged:
    return leave_open(item, CONSTANT)


def growth() -> tuple[float, float]:
    """Factors by which the printed bounds of DVP and PVP grow with a reference ten times as large."""
    harder = replace(EXAMPLE, reference=10 * EXAMPLE.reference)
    dual = rows_for_dual(harder, published=True) / rows_for_dual(EXAMPLE, published=True)
    primal = rows_for_released_primal(harder, published=True) / rows_for_released_primal(EXAMPLE, published=True)
    return dual, primal


def _influence(item: Item, at: Readings, expected: Expected) -> Judged:
    dual, primal = growth()
    words = f"ten times |f0|: rows of DVP times {dual:.4g}, of PVP times {primal:.4g}"
    return judge_words(
        item, words, dual > primal, "PVP has |f0|^3, DVP |f0|^2: the printed words are the wrong way round"
    )


def _preferred(item: Item, at: Readings, expected: Expected) -> Judged:
    dual, primal = growth()
    words = f"rows of DVP times {dual:.4g}, of PVP times {primal:.4g}"
    return judge_words(
        item, words, dual < primal, "of two upper bounds with unknown constants, which decide nothing at one |f0|"
    )


CHECKS: dict[str, Check] = {
    "theorem-1/printed": _densities("dvp"),
    "theorem-1/half": _densities("dvp-half"),
    "theorem-2/intermediate": _densities("pvp", last=False),
    "theorem-2/last": _densities("pvp", last=True),
    "sec-6/whole-run": _whole_run,
    **{f"theorem-{number}": _open for number in (3, 4, 5, 6)},
    "sec-4/influence": _influence,
    "sec-4/preferred": _preferred,
}
