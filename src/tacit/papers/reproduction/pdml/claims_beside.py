"""Verdicts on pdml's privacy statements and bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from tacit.papers.reproduction.claims import Item, Judged, judge_words, leave_open
from tacit.papers.reproduction.pdml import adult, beside, table
from tacit.papers.reproduction.pdml import claims_measured as seen
from tacit.papers.reproduction.pdml.chosen import COLUMNS, DELTA, NODES, USUAL, WEIGHT
from tacit.papers.reproduction.runner import MISSING
from tacit.papers.reproduction.work import Results

ERRORS = 4  # standard errors within which a share of flips must be
GONE = 0.01
NOTHING = 100.0


def _labels(results: Results, item: Item) -> Judged:
    """Flips of all runs with randomized labels, on Adult and in Table I."""
    worst, count = 0.0, 0
    for setup in adult.setups():
        outcome = results[adult.name_of(setup)]
        if MISSING in outcome or setup.epsilon is None:
            continue
        rows = results[adult.REFERENCE]["rows"]
        for share in outcome["flipped"]:
            worst, count = max(worst, _away(share, setup.epsilon, rows)), count + 1
    for name in seen.present(results):
        outcome = results[table.name_of(name)]
        rows = (outcome["rows"] - outcome["test_rows"]) // NODES * NODES
        for column, (epsilon, _) in COLUMNS.items():
            for share in outcome["flipped"][column] if epsilon is not None else []:
                worst, count = max(worst, _away(share, epsilon or 0.0, rows)), count + 1
    if not count:
        return leave_open(item, "data not at hand")
    # the largest of many deviations: as far out as the largest of `count` independent ones may be
    allowed = max(ERRORS, math.sqrt(2 * math.log(100.0 * count)))
    words = f"largest of {count} deviations {worst:.1f} standard errors"
    return judge_words(item, words, worst <= allowed, "post-processing does not change it, whatever is run afterwards")


def _away(share: float, epsilon: float, rows: int) -> float:
    flip = 1 / (1 + math.exp(epsilon))
    return abs(share - flip) / math.sqrt(flip * (1 - flip) / rows)


def _cancels(results: Results, item: Item) -> Judged:
    outcome = results[beside.CANCELS]
    if MISSING in outcome:
        return leave_open(item, f"data not at hand: {outcome[MISSING]}")
    one, two = outcome["one_round"][-1], outcome["difference"][-1]
    words = f"in the gradient of one round {one:.3g}, in the difference of the last two {two:.1e}"
    return judge_words(item, words, two > GONE * one, "nothing is proven for it; no certificate counts on it")


def _whole_run(results: Results, item: Item) -> Judged:
    outcome = results[adult.name_of(USUAL)]
    if MISSING in outcome:
        return leave_open(item, f"data not at hand: {outcome[MISSING]}")
    spent = float(outcome["run_epsilon"])
    words = f"epsilon {spent:.3g} at delta {DELTA:g} after {outcome['rounds']} rounds"
    return judge_words(item, words, spent > NOTHING, "it grows by a factor 1/decay with every round")


def _applies(results: Results, item: Item) -> Judged:
    outcome = results[beside.BOUNDS]
    if MISSING in outcome:
        return leave_open(item, f"data not at hand: {outcome[MISSING]}")
    graph = outcome["graph"]
    words = f"condition (25) holds on {graph['met']} of {graph['tried']} random graphs"
    return judge_words(item, words, graph["met"] > 0, graph["reason"])


def _corrected(results: Results, item: Item) -> Judged:
    outcome = results[beside.BOUNDS]
    if MISSING in outcome:
        return leave_open(item, f"data not at hand: {outcome[MISSING]}")
    run = outcome["run"]
    words = f"measured {run['measured']:.3g}, bound {run['proven']:.3g}, after {run['rounds']} rounds"
    return judge_words(item, words, run["measured"] <= run["proven"], "true, and too loose to choose parameters by")


def _corollary(results: Results, item: Item) -> Judged:
    outcome = results[beside.BOUNDS]
    if MISSING in outcome:
        return leave_open(item, f"data not at hand: {outcome[MISSING]}")
    noisy = item.id == "corollary-1"
    rows = [row for row in outcome["optima"] if (row[1] > 0) == noisy]
    words = "; ".join(
        f"eps {e:g}" + (f", R {r:g}" if noisy else "") + f": {measured:.2g} of {printed:.3g}"
        for e, r, measured, printed, _ in rows
    )
    holds = all(measured <= printed for _, _, measured, printed, _ in rows)
    reason = _noise_term(rows) if noisy else ""
    return judge_words(item, words, holds, reason)


def _noise_term(rows: Sequence[Sequence[float]]) -> str:
    """Whether the term of (35) that stands for the noise covers what was measured by itself."""
    parts = [(r, measured, r**2 / (NODES * WEIGHT)) for _, r, measured, _, _ in rows]
    short = [f"R {r:g}: {measured:.2g} of {term:.2g}" for r, measured, term in parts if measured > term]
    if not short:
        return ""
    return f"the term of the noise alone, R^2/(n a), is too small ({'; '.join(short)}): the data term makes up for it"


JUDGES: Mapping[str, Callable[[Results, Item], Judged]] = {
    "sec-4a/labels": _labels,
    "sec-4c/objective-noise": _cancels,
    "sec-4c/whole-run": _whole_run,
    "theorem-1/applies": _applies,
    "theorem-1/corrected": _corrected,
    "corollary-1": _corollary,
    "corollary-2": _corollary,
}
