"""A verdict on every item of pdml's expected.json: figures and Table I, privacy statements and bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tacit_papers.claims import Expected, Item, Judged, judge_number, judge_words, leave_open
from tacit_papers.pdml import adult, beside, table
from tacit_papers.pdml import claims_measured as seen
from tacit_papers.pdml.rows import BOUNDS, COLUMNS, DECAYS, DELTA, EPSILONS, LABELS_ONLY, NODES, SETS, USUAL, WEIGHT
from tacit_papers.work import MISSING, Results

# --- verdicts on pdml's privacy statements and bounds ------------------------------------------------

ERRORS = 4  # standard errors within which a share of flips must be
NOT_CANCELLED = 0.01
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
    return judge_words(item, words, two > NOT_CANCELLED * one, "nothing is proven for it; no certificate counts on it")


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


BESIDE: Mapping[str, Callable[[Results, Item], Judged]] = {
    "sec-4a/labels": _labels,
    "sec-4c/objective-noise": _cancels,
    "sec-4c/whole-run": _whole_run,
    "theorem-1/applies": _applies,
    "theorem-1/corrected": _corrected,
    "corollary-1": _corollary,
    "corollary-2": _corollary,
}


# --- a verdict on every item of pdml's expected.json -------------------------------------------------

FELL = 0.01  # part of the largest distance that may be left in the last round
STILL = 0.01  # part by which a settled risk may move
NEAR, NEAR_WITH = 0.01, 0.05
SHARE, COMPARABLE, SUITABLE, KEEP = 0.9, 5.0, 10.0, 6
GONE = 0.9  # largest decay whose noise is gone in the last round

Judge = Callable[[Results, Item], Judged]


def judge(results: Results, expected: Expected) -> Sequence[Judged]:
    """Hold every item against the outcomes, in the order of the file."""
    return [_judge_one(results, expected, item) for item in expected.items]


def _judge_one(results: Results, expected: Expected, item: Item) -> Judged:
    kind, _, rest = item.id.partition("/")
    if kind == "table-1":
        return _judge_table(results, expected, item, rest)
    if kind.startswith("fig-"):
        return _on_adult(results, item, FIGURES[item.id])
    return BESIDE[item.id](results, item)


# --- Fig. 3 and 4 --------------------------------------------------------------------------------------


def _on_adult(results: Results, item: Item, judge: Judge) -> Judged:
    names = [adult.REFERENCE, *(adult.name_of(setup) for setup in adult.setups())]
    reasons = [str(results[name][MISSING]) for name in names if MISSING in results[name]]
    return leave_open(item, f"data not at hand: {reasons[0]}") if reasons else judge(results, item)


def _distances(results: Results, item: Item) -> Judged:
    left = {}
    for name, setup in (("with", USUAL), ("without", LABELS_ONLY)):
        distance = seen.curve(results, setup, "distance")
        left[name] = float((distance[:, -1] / distance.max(axis=1)).max())
    words = f"left of the largest distance: with Phase 2 {left['with']:.1e}, without {left['without']:.1e}"
    return judge_words(item, words, max(left.values()) < FELL)


def _converges(results: Results, item: Item) -> Judged:
    risks = seen.curve(results, USUAL)
    tail = risks[:, -max(2, risks.shape[1] // 10) :]
    moved = float(((tail.max(axis=1) - tail.min(axis=1)) / tail[:, -1]).max())
    return judge_words(item, f"moves by {moved:.1e} of itself over the last tenth of the rounds", moved < STILL)


def _longer(results: Results, item: Item) -> Judged:
    with_, without = (seen.settled(seen.curve(results, setup)) for setup in (USUAL, LABELS_ONLY))
    return judge_words(item, f"{with_:.0f} rounds with Phase 2, {without:.0f} without", with_ > without)


def _not_reached(results: Results, item: Item) -> Judged:
    marks = np.array([one["risk"] for one in results[adult.REFERENCE]["seeds"]])
    loose = max(abs(one["risk"] - one["optimum"]) for one in results[adult.REFERENCE]["seeds"])
    gaps = {name: seen.curve(results, s)[:, -1] - marks for name, s in (("with", USUAL), ("without", LABELS_ONLY))}
    words = f"above {marks.mean():.4f}: by {gaps['with'].mean():.4f} with Phase 2, {gaps['without'].mean():.4f} without"
    return judge_words(item, words, all(float(gap.min()) > loose for gap in gaps.values()))


def _gap(results: Results, item: Item) -> Judged:
    gaps = [seen.last_risk(results, USUAL.with_(bound=bound)) - seen.reference(results) for bound in BOUNDS]
    words = ", ".join(f"R = {bound:g}: {gap:.3g}" for bound, gap in zip(BOUNDS, gaps, strict=True))
    return judge_words(item, words, bool(np.all(np.diff(gaps) > 0)))


def _rounds(results: Results, item: Item) -> Judged:
    goal = seen.curve(results, USUAL.with_(decay=DECAYS[0]))[:, -1].tolist()
    curves = [seen.curve(results, USUAL.with_(decay=decay)) for decay in DECAYS]
    counts = [seen.settled(own, goal) for own in curves]
    coarse = [seen.settled(own, goal, 10 * seen.CLOSE) for own in curves]
    words, others = (
        ", ".join(f"{decay:g}: {count:.0f}" for decay, count in zip(DECAYS, found, strict=True))
        for found in (counts, coarse)
    )
    holds = bool(np.all(np.diff(counts) >= 0)) and counts[-1] > counts[0]
    reason = f"to within 1 %, where ADMM itself takes most of the time: {others}"
    return judge_words(item, f"rounds at decay {words}", holds, reason)


def _same(results: Results, item: Item) -> Judged:
    last = {decay: seen.last_risk(results, USUAL.with_(decay=decay)) for decay in DECAYS}
    gone = [value for decay, value in last.items() if decay <= GONE]
    words = ", ".join(f"{decay:g}: {value:.4f}" for decay, value in last.items())
    return judge_words(item, f"last risk at decay {words}", max(gone) - min(gone) <= STILL * min(gone))


def _falls(results: Results, item: Item) -> Judged:
    without = [seen.last_risk(results, LABELS_ONLY.with_(epsilon=e)) for e in EPSILONS]
    with_ = [seen.last_risk(results, USUAL.with_(epsilon=e)) for e in EPSILONS]
    words = "without Phase 2 " + ", ".join(f"{e:g}: {r:.4f}" for e, r in zip(EPSILONS, without, strict=True))
    words += f"; with it {with_[0]:.4f} at {EPSILONS[0]:g}, {with_[-1]:.4f} at {EPSILONS[-1]:g}"
    return judge_words(item, words, bool(np.all(np.diff(without) < 0)) and with_[-1] < with_[0])


def _phase_2(results: Results, item: Item) -> Judged:
    more = [
        seen.last_risk(results, USUAL.with_(epsilon=e)) - seen.last_risk(results, LABELS_ONLY.with_(epsilon=e))
        for e in EPSILONS
    ]
    return judge_words(item, f"larger by {min(more):.3g} to {max(more):.3g}", min(more) > 0)


def _close(results: Results, item: Item) -> Judged:
    with_ = item.id.endswith("with")
    setup, near = (USUAL, NEAR_WITH) if with_ else (LABELS_ONLY, NEAR)
    mark = seen.reference(results)
    away = [seen.last_risk(results, setup.with_(epsilon=e)) / mark - 1 for e in EPSILONS if e > 0.6]
    reason = ""
    if with_:
        names = {what: results[adult.other_name(what)] for what in ("a = 0.1", "a = 10", "a = 100")}
        at = {what: own["risk"][0][-1] / own["reference"][0] - 1 for what, own in names.items()}
        reason = "with other weights, at eps = 1: " + ", ".join(f"{what} {value:+.1%}" for what, value in at.items())
    return judge_words(item, f"{min(away):+.2%} to {max(away):+.2%} from the reference", max(away) <= near, reason)


FIGURES: dict[str, Judge] = {
    "fig-3a/distances": _distances,
    "fig-3b/converges": _converges,
    "fig-3b/longer": _longer,
    "fig-3b/reference": _not_reached,
    "fig-4a/gap": _gap,
    "fig-4b/rounds": _rounds,
    "fig-4b/same": _same,
    "fig-4c/falls": _falls,
    "fig-4c/phase-2": _phase_2,
    "fig-4c/close-without": _close,
    "fig-4c/close-with": _close,
}


# --- Table I -------------------------------------------------------------------------------------------


def _judge_table(results: Results, expected: Expected, item: Item, rest: str) -> Judged:
    name, _, column = rest.partition("/")
    if column in COLUMNS:
        return _cell(results, item, name, column)
    if name == "unsuitable":
        return _unsuitable(results, item, column)
    missing = [one for one in SETS if one not in seen.present(results)]
    if missing:
        return leave_open(item, f"data not at hand: {', '.join(missing)}")
    if name == "order":
        return _order(results, expected, item)
    return _better(results, expected, item) if name == "better" else _comparable(results, expected, item)


def published(expected: Expected, name: str) -> dict[str, float]:
    """The row of a set in Table I."""
    return {column: float(expected.item(f"table-1/{name}/{column}").published or 0) for column in COLUMNS}


def _cell(results: Results, item: Item, name: str, column: str) -> Judged:
    outcome = results[table.name_of(name)]
    if MISSING in outcome:
        return leave_open(item, f"data not at hand: {outcome[MISSING]}")
    mean, spread, count = seen.cell(outcome, column)
    assert isinstance(item.published, int | float)
    reason = f"deviation {spread:.1f} over {count} splits"
    if abs(mean - item.published) > (item.tolerance or 0.0):
        reading, value = seen.nearest_reading(results, name, column, item.published)
        reason += f"; nearest reading: {reading}, {value:.1f}"
    if outcome["drawn"]:
        reason += "; rows drawn from the definition of the set"
    return judge_number(item, round(mean, 2), reason)


def _order(results: Results, expected: Expected, item: Item) -> Judged:
    found = {name: seen.order(results[table.name_of(name)], published(expected, name)) for name in SETS}
    kept = [name for name, (_, turned) in found.items() if not turned]
    reason = "; ".join(
        f"{name}: {len(turned)} of {decisive} decisive pairs reversed"
        + (f" ({', '.join(f'{p} against {q}' for p, q in turned)})" if turned else "")
        for name, (decisive, turned) in found.items()
    )
    decisive, turned = (sum(counts) for counts in zip(*((n, len(pairs)) for n, pairs in found.values()), strict=True))
    words = f"kept for {len(kept)} of {len(SETS)} sets; {decisive - turned} of {decisive} decisive pairs in order"
    return judge_words(item, words, len(kept) >= KEEP, reason)


def _better(results: Results, expected: Expected, item: Item) -> Judged:
    right, clear = seen.claimed_order(results)
    rows = [published(expected, name) for name in SETS]
    against = sum(row[better] <= row[worse] for row in rows for better, worse in seen.claimed_pairs())
    of = len(rows) * len(seen.claimed_pairs())
    reason = f"in the printed table {against} of {of} such pairs are not in this order"
    return judge_words(item, f"{right} of {clear} clear pairs in this order", right >= SHARE * clear, reason)


def _comparable(results: Results, expected: Expected, item: Item) -> Judged:
    worst, plain = "eps=0.4,R=9", "none"
    ours = [
        seen.cell(results[table.name_of(name)], plain)[0] - seen.cell(results[table.name_of(name)], worst)[0]
        for name in SETS
    ]
    printed = [published(expected, name)[plain] - published(expected, name)[worst] for name in SETS]
    reason = f"by the printed numbers {np.mean(printed):.1f} points in the mean, up to {max(printed):.1f}"
    words = f"{np.mean(ours):.1f} points below in the mean, up to {max(ours):.1f}"
    return judge_words(item, words, float(np.mean(ours)) <= COMPARABLE, reason)


def _unsuitable(results: Results, item: Item, name: str) -> Judged:
    outcome = results[table.name_of(name)]
    if MISSING in outcome:
        return leave_open(item, f"data not at hand: {outcome[MISSING]}")
    reading, value = seen.best_plain(results, name)
    words = f"up to {value:.1f} % ({reading}); larger class {outcome['share']:.1f} %"
    return judge_words(item, words, value < outcome["share"] + SUITABLE)
