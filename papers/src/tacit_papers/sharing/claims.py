"""A verdict on every number, claim and theorem of the sharing paper."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tacit_papers.claims import FAILS, HOLDS, OPEN, Expected, Item, Judged, judge_number, judge_words, leave_open
from tacit_papers.sharing.pieces import COEFFICIENTS, INVERSE, RHO, STAND_INS
from tacit_papers.work import Results

# --- numbers read off the outcomes: ends of curves, epochs until a level, the best rho and step, means over seeds ---

MISSING = "missing"  # the key under which a piece without its data says why
CLOSE = 0.002  # test log loss this near to scikit-learn's counts as there
LAST = 5  # SGD's last epochs, whose mean is its end: single ones jump
ADMM_EPOCHS = 20  # after which ADMM is judged
NEAR = 10  # epochs after which speed is compared

Curve = Mapping[str, Any]


def why_missing(results: Results, *names: str) -> str:
    """The reason why one of these pieces has no outcome; empty where all have."""
    return next((str(results[name][MISSING]) for name in names if MISSING in results[name]), "")


def wide_sets(results: Results) -> list[str]:
    """Gisette where it is at hand, else the stand-ins that are."""
    return at_hand(results, ["gisette"]) or at_hand(results, STAND_INS)


def at_hand(results: Results, names: Sequence[str]) -> list[str]:
    """Those sets whose pieces all have outcomes."""
    parts = ("reference", "admm", "sgd", "noise", "sound")
    return [name for name in names if not why_missing(results, *(f"{name}/{part}" for part in parts))]


def label(name: str) -> str:
    """The name of a set, which says where it stands in for another."""
    return f"{name} (stand-in for gisette)" if name in STAND_INS else name


def numbers(values: Sequence[float | None]) -> list[float]:
    """With infinity where a number has left the floats."""
    return [math.inf if value is None else value for value in values]


def at_epoch(curve: Curve, epoch: int, what: str = "test") -> float:
    """Value after an epoch, or the last one where the run is shorter."""
    values = numbers(curve[what])
    return values[min(epoch, len(values)) - 1]


def end(curve: Curve, what: str = "test") -> float:
    """Value of the last epoch."""
    return numbers(curve[what])[-1]


def settled(curve: Curve, what: str = "test") -> float:
    """Mean of the last epochs."""
    return float(np.mean(numbers(curve[what])[-LAST:]))


def first_below(values: Sequence[float], level: float) -> int | None:
    """First epoch (from 1) from which on all values are at most the level; None where the end is above it."""
    above = np.flatnonzero(np.asarray(values) > level)
    start = int(above[-1]) + 1 if above.size else 0
    return start + 1 if start < len(values) else None


def sgd_curve(curve: Curve) -> dict[str, Any]:
    """A curve of SGD without its random start, so that the first entry is after epoch 1."""
    return {**curve, "objective": curve["objective"][1:], "test": curve["test"][1:]}


def best_rho(results: Results, name: str, epoch: int = ADMM_EPOCHS) -> tuple[str, Curve]:
    """The rho of the grid with the least training objective after `epoch` epochs, and its curve."""
    published: dict[str, Curve] = results[f"{name}/admm"]["published"]
    return min(published.items(), key=lambda item: at_epoch(item[1], epoch, "objective"))


def chosen_rho(results: Results, name: str) -> tuple[str, Curve]:
    """The rho that was chosen beforehand, and its curve."""
    key = f"{RHO[name]:g}"
    return key, results[f"{name}/admm"]["published"][key]


def best_step(results: Results, name: str, epoch: int | None = None) -> tuple[str, Curve]:
    """SGD at the size of steps with the least training objective after `epoch` epochs, or in the last ones."""
    curves = {step: sgd_curve(curve) for step, curve in results[f"{name}/sgd"]["steps"].items()}

    def reached(step: str) -> float:
        return settled(curves[step], "objective") if epoch is None else at_epoch(curves[step], epoch, "objective")

    key = min(curves, key=reached)
    return key, curves[key]


def default_step(results: Results, name: str) -> Curve:
    """SGD at the default size of steps."""
    return sgd_curve(results[f"{name}/sgd"]["steps"]["1"])


def noisy_ends(results: Results, name: str, law: str = INVERSE) -> dict[float, list[float]]:
    """Test losses at the end by level, one for each seed."""
    return {float(level): [end(run) for run in runs] for level, runs in results[f"{name}/noise"][law].items()}


def published_epsilon(results: Results, name: str) -> str:
    """Epsilon of the published noise: infinite where a party has fewer columns than rows, else unproven."""
    reference = results[f"{name}/reference"]
    narrow = [k + 1 for k, columns in enumerate(reference["columns"]) if columns < reference["rows"]]
    if len(narrow) == len(reference["columns"]):
        return "infinite"
    said = f"infinite for party {', '.join(map(str, narrow))}; " if narrow else ""
    return said + ("none proven for the others" if narrow else "none proven")


def edge(key: str, grid: Mapping[str, Any]) -> str:
    """A remark where the best of a grid is its smallest or largest value, so that a better one may lie beyond."""
    places = sorted(map(float, grid))
    return ", edge of the grid" if float(key) in (places[0], places[-1]) else ""


def mean(values: Sequence[float]) -> float:
    """Mean, infinite where one is."""
    return float(np.mean(values))


# --- verdicts on the theorems of the sharing paper ---------------------------------------------------

GUESS = 0.6  # more than this part right is no guess
BEYOND = 0.02  # so much better than the commoner label everywhere is no guess either
FALLEN = 1e-3
CONFINED = 10.0
SPECIAL = "squared, 4 parties"
PROOF = "docs/proofs/published.md"


def _assumption(results: Results, item: Item) -> Judged:
    parties = results["a9a/spectrum"]["parties"]
    needed = [party["needed_rho"] for party in parties]
    said = "; ".join(
        f"party {k + 1}: eigenvalues of D'D from {party['smallest']:.3g} to {party['largest']:.3g}, "
        + (f"rho of at least {party['needed_rho']:.3g}" if party["needed_rho"] else "no rho will do")
        for k, party in enumerate(parties)
    )
    reason = "one-hot columns of a block add up to the same constant, so that no block of a9a has full column rank"
    return judge_words(item, said, all(value is not None for value in needed), "" if all(needed) else reason)


def _falls(values: list[float]) -> bool:
    return min(values) < FALLEN * max(values[0], 1e-300)


def _theorem1(results: Results, item: Item) -> Judged:
    case = results["theory/same-columns"][SPECIAL]
    values, last = case["stationarity"], case["primal"][-1]
    said = f"V goes from {values[0]:.3g} to {values[-1]:.3g} in {len(values)} rounds, residual {last:.2g} of z"
    return judge_words(item, said, _falls(case["primal"]), _why_diverges(case))


def _theorem2(results: Results, item: Item) -> Judged:
    cases = {name: case for name, case in results["theory/same-columns"].items() if case["threshold"] > case["rho"]}
    said = "; ".join(
        f"{name}: V from {case['stationarity'][0]:.2g} to {case['stationarity'][-1]:.2g} in "
        f"{len(case['stationarity'])} rounds"
        for name, case in cases.items()
    )
    return judge_words(item, said, all(_falls(case["stationarity"]) for case in cases.values()), "as for Theorem 1")


def _why_diverges(case: dict[str, Any]) -> str:
    parts = ", ".join(name for name, holds in case["assumption"].items() if holds)
    return (
        f"{parts} hold at rho = {case['rho']:g}, but every party corrects the whole residual: it needs "
        f"rho > L (3M - 4)/2 = {case['threshold']:g}; the proof loses a factor rho between Lemmas 3 and 4"
    )


def _lemma1(results: Results, item: Item) -> Judged:
    cases = results["theory/lemma-1"]["cases"]
    worst = max(cases, key=lambda case: case["ratio"])
    said = f"up to {worst['ratio']:.1f} C ({worst['rows']} rows, {worst['columns']} columns, rho {worst['rho']:g})"
    return judge_words(item, said, worst["ratio"] <= 1, f"it takes the norm of (D'D)^-1 to be 1/d; {PROOF}, section 3")


def _rates(results: Results) -> Iterator[tuple[str, float]]:
    for law in (INVERSE, COEFFICIENTS):
        for level, units in results["theory/column-space"][law].items():
            for unit, found in units.items():
                yield f"sigma {level}, one {unit}", found["right"]


def _theorem3(results: Results, item: Item) -> Judged:
    rates = [rate for _, rate in _rates(results)]
    said = f"{100 * min(rates):.0f} to {100 * max(rates):.0f} % right, at every level of noise: epsilon is infinite"
    reason = f"the release lies in the column space of the data, whatever the noise is; {PROOF}, section 2"
    private = max(rates) <= GUESS
    return judge_words(item, said if not private else f"at most {100 * max(rates):.0f} % right", private, reason)


def _broken(results: Results) -> bool:
    return max(rate for _, rate in _rates(results)) > GUESS


def _corollary(results: Results, item: Item) -> Judged:
    case = _case(results, 1.0, 20)
    said = "infinite for T = 1 already" if _broken(results) else "no attack found"
    reason = (
        f"T = 20 at epsilon 1 per round: the formula says {case['said']:.1f}; were its premises true, the exact number "
        f"would be {case['exact']:.2f}"
    )
    return judge_words(item, said, not _broken(results), reason)


def _below_20(results: Results, item: Item) -> Judged:
    case = _case(results, 1.0, 20)
    epsilon = math.inf if _broken(results) else case["said"]
    said = f"epsilon {epsilon:.3g} for T = 1" if math.isinf(epsilon) else f"epsilon {epsilon:.3g} for T = 20"
    delta = results["theory/composition"]["delta"]
    reason = f"and by its own formula {case['said']:.1f} for T = 20, at epsilon 1 of a round and delta {delta:g}"
    return judge_words(item, said, epsilon <= CONFINED, reason)


def _case(results: Results, one: float, rounds: int) -> dict[str, float]:
    cases: list[dict[str, float]] = results["theory/composition"]["cases"]
    return next(case for case in cases if case["one"] == one and case["rounds"] == rounds)


def _leakage(results: Results, item: Item) -> Judged:
    found = results["theory/labels"]
    first, everything, guess = (min(case[key] for case in found.values()) for key in ("first", "all", "guess"))
    said = (
        f"{100 * first:.1f} % of the labels right after one round, {100 * everything:.1f} % after all, at every level "
        f"of noise; {100 * guess:.1f} % by guessing"
    )
    reason = f"the dual is the loss derivative, whose sign is minus the label; {PROOF}, section 5"
    return judge_words(item, said, everything <= guess + BEYOND, reason)


def _conclusion(results: Results, item: Item) -> Judged:
    local = results["a9a/reference"]["local"]
    means = {level: mean(values) for level, values in noisy_ends(results, "a9a").items()}
    below = [level for level, value in means.items() if value < local]
    sound = results["a9a/sound"]
    shares = {float(level): (case["epsilon"], mean(case["test"])) for level, case in sound["shares"].items()}
    better = [(level, *case) for level, case in shares.items() if case[1] < local]
    said = f"better than local ({local:.4f}) up to sigma {max(below, default=0):g}; its epsilon is infinite"
    rescued = f"up to sigma {max(better)[0]:g} (epsilon {max(better)[1]:.3g})" if better else "at no level"
    reason = (
        f"the same noise on the shares themselves is proven, and better than local {rescued}; our default reaches "
        f"{mean(sound['gram']['test']):.4f} at a proven epsilon of {sound['gram']['epsilon']:g} per record of party 2"
    )
    return judge_words(item, said, bool(below) and not _broken(results), reason)


_ATTACK = ("theory/column-space", "theory/composition")
THEORY_JUDGES: dict[str, tuple[tuple[str, ...], Callable[[Results, Item], Judged]]] = {
    "assumption-1.2": (("a9a/spectrum",), _assumption),
    "theorem-1": (("theory/same-columns",), _theorem1),
    "theorem-2": (("theory/same-columns",), _theorem2),
    "lemma-1": (("theory/lemma-1",), _lemma1),
    "theorem-3": (_ATTACK, _theorem3),
    "corollary-1": (_ATTACK, _corollary),
    "below-20": (_ATTACK, _below_20),
    "leakage": (("theory/labels",), _leakage),
    "conclusion": (("a9a/reference", "a9a/noise", "a9a/sound", *_ATTACK), _conclusion),
}


# --- a verdict on every number and claim of the sharing paper ----------------------------------------

BOOST, BETTER = 0.01, 0.001
Judge = Callable[[Results, Item], Judged]
OnSet = Callable[[Results, str], tuple[bool, str]]


def judge(results: Results, expected: Expected) -> Sequence[Judged]:
    """Judge every item, in the order of expected.json; what lacks its data stays open."""
    return [_one(results, item) for item in expected.items]


def _one(results: Results, item: Item) -> Judged:
    needed, judged = JUDGES[item.id]
    lost = why_missing(results, *needed)
    return leave_open(item, lost) if lost else judged(results, item)


# --- a9a ---------------------------------------------------------------------------------------------


def _slower(results: Results, item: Item) -> Judged:
    """Count epochs in two ways, since SGD comes near early and jumps away again: open where they disagree."""
    level, methods = results["a9a/reference"]["pooled"] + CLOSE, results["a9a/admm"]
    (rho, published), (step, sgd) = best_rho(results, "a9a"), best_step(results, "a9a")
    other, chosen = chosen_rho(results, "a9a")
    curves = {
        f"ADMM as published (rho {rho})": published,
        f"at rho {other}": chosen,
        f"SGD (step x {step})": sgd,
        "averaged ADMM": methods["averaged"],
        "our default": methods["default"],
    }
    counts = {name: _reached(numbers(curve["test"]), level) for name, curve in curves.items()}
    said = ", ".join(f"{name} {first:g}/{stays:g}" for name, (first, stays) in counts.items())
    admm, _, descent, *_ = counts.values()
    slower = [ours > theirs for ours, theirs in zip(admm, descent, strict=True)]
    ours = f"epochs until near for the first time/for good: {said}"
    if any(slower) and not all(slower):
        return Judged(item, ours, OPEN, "SGD comes near sooner, but jumps away again: it depends on what is counted")
    return judge_words(item, ours, all(slower))


def _reached(values: Sequence[float], level: float) -> tuple[float, float]:
    """First epoch at most at the level, and the first from which on all are; infinite where there is none."""
    first = next((epoch for epoch, value in enumerate(values, 1) if value <= level), math.inf)
    return first, first_below(values, level) or math.inf


def _same_end(results: Results, item: Item) -> Judged:
    assert item.tolerance is not None
    admm, sgd = end(best_rho(results, "a9a")[1]), settled(best_step(results, "a9a")[1])
    return judge_words(item, f"ADMM {admm:.4f}, SGD {sgd:.4f}", abs(admm - sgd) <= item.tolerance)


def _admm_pooled(results: Results, item: Item) -> Judged:
    rho, curve = chosen_rho(results, "a9a")
    return _near_pooled(results, item, end(curve), f"ADMM as published, rho {rho}")


def _sgd_pooled(results: Results, item: Item) -> Judged:
    return _near_pooled(results, item, settled(default_step(results, "a9a")), "SGD")


def _near_pooled(results: Results, item: Item, found: float, name: str) -> Judged:
    assert item.tolerance is not None
    pooled = results["a9a/reference"]["pooled"]
    averaged = end(results["a9a/admm"]["averaged"])
    reason = f"averaged ADMM {averaged:.4f}, our default {end(results['a9a/admm']['default']):.4f}"
    return judge_words(
        item, f"{name} {found:.4f}, scikit-learn {pooled:.4f}", abs(found - pooled) <= item.tolerance, reason
    )


# --- wide data ---------------------------------------------------------------------------------------


def _admm_number(results: Results, item: Item) -> Judged:
    return judge_number(item, end(best_rho(results, "gisette")[1]))


def _sgd_number(results: Results, item: Item) -> Judged:
    return judge_number(item, settled(default_step(results, "gisette")))


def _on_wide(check: OnSet, also: Sequence[str] = (), remark: str = "") -> Judge:
    """Judge on gisette, or on its stand-ins; where these disagree the claim stays open."""

    def judged(results: Results, item: Item) -> Judged:
        wide = wide_sets(results)
        if not wide:
            return leave_open(item, "neither gisette nor a stand-in for it is at hand")
        found = {name: check(results, name) for name in [*also, *wide]}
        verdicts = {holds for holds, _ in found.values()}
        said = "; ".join(f"{label(name)}: {words}" for name, (_, words) in found.items())
        parts = [remark] if remark else []
        if len(verdicts) > 1:
            holds = [name for name, (one, _) in found.items() if one]
            parts.insert(0, f"the data sets disagree: it holds on {', '.join(holds)} alone")
            return Judged(item, said, OPEN, "; ".join(parts))
        return Judged(item, said, HOLDS if verdicts.pop() else FAILS, "; ".join(parts))

    return judged


def _best(
    results: Results, name: str, epoch: int, steps_after: int | None
) -> tuple[tuple[str, Curve], tuple[str, Curve]]:
    """ADMM and SGD at their best rho and step by then, in words."""
    (rho, admm), (step, sgd) = best_rho(results, name, epoch), best_step(results, name, steps_after)
    rhos, steps = results[f"{name}/admm"]["published"], results[f"{name}/sgd"]["steps"]
    return (f"rho {rho}{edge(rho, rhos)}", admm), (f"step x {step}{edge(step, steps)}", sgd)


def _quick(results: Results, name: str) -> tuple[bool, str]:
    (best, admm), (steps, sgd) = _best(results, name, NEAR, NEAR)
    epochs = min(NEAR, len(admm["test"]), len(sgd["test"]))
    ours, theirs = at_epoch(admm, epochs), at_epoch(sgd, epochs)
    return ours < theirs, f"after {epochs} epochs ADMM {ours:.3f} ({best}), SGD {theirs:.3f} ({steps})"


def _end(results: Results, name: str) -> tuple[bool, str]:
    (best, admm), (steps, sgd) = _best(results, name, ADMM_EPOCHS, None)
    ours, theirs = at_epoch(admm, ADMM_EPOCHS), settled(sgd)
    epochs = min(ADMM_EPOCHS, len(admm["test"]))
    return ours < theirs, (
        f"ADMM {ours:.3f} after {epochs} ({best}), SGD {theirs:.3f} after {len(sgd['test'])} ({steps})"
    )


def _boost(results: Results, name: str) -> tuple[bool, str]:
    found = results[f"{name}/reference"]
    return found["pooled"] < found["local"] - BOOST, f"all {found['pooled']:.3f}, local {found['local']:.3f}"


def _better(results: Results, name: str) -> tuple[bool, str]:
    found, (rho, curve) = results[f"{name}/reference"], chosen_rho(results, name)
    default = end(results[f"{name}/admm"]["default"])
    said = (
        f"ADMM {end(curve):.3f} (rho {rho}), run to the minimiser {default:.3f}, "
        f"scikit-learn {found['pooled']:.3f}, and {found['pooled_default']:.3f} at its default lambda"
    )
    return end(curve) < found["pooled"] - BETTER, said


def _moderate(results: Results, name: str) -> tuple[bool, str]:
    means = {level: mean(values) for level, values in noisy_ends(results, name).items()}
    local, level = results[f"{name}/reference"]["local"], min(means, key=lambda key: means[key])
    below = [level for level, value in means.items() if value < local]
    return bool(below), (
        f"local {local:.3f}; best {means[level]:.3f} at sigma {level:g}; better than local at "
        f"{', '.join(f'{one:g}' for one in below) or 'none of the levels'}"
    )


def _ruin(results: Results, name: str) -> tuple[bool, str]:
    ends = noisy_ends(results, name)
    local, largest = results[f"{name}/reference"]["local"], max(ends)
    found = mean(ends[largest])
    return found > local, f"{found:.3f} at sigma {largest:g}, local {local:.3f}"


SAME_OBJECTIVE = (
    "at one lambda both have the same minimiser, so that ADMM can only be better by ending early or by another lambda"
)
_A9A = tuple(f"a9a/{part}" for part in ("reference", "admm", "sgd", "noise", "sound"))
_GISETTE = ("gisette/admm", "gisette/sgd")
JUDGES: dict[str, tuple[tuple[str, ...], Judge]] = {
    "fig-1/slower": (_A9A, _slower),
    "fig-1/same-end": (_A9A, _same_end),
    "fig-3a/admm": (_A9A, _admm_pooled),
    "fig-3a/sgd": (_A9A, _sgd_pooled),
    "fig-2/admm-0.08": (_GISETTE, _admm_number),
    "fig-2/sgd-0.1": (_GISETTE, _sgd_number),
    "fig-2/quick": ((), _on_wide(_quick)),
    "fig-2/end": ((), _on_wide(_end)),
    "fig-3/boost": (_A9A, _on_wide(_boost, also=["a9a"])),
    "fig-3b/better": ((), _on_wide(_better, remark=SAME_OBJECTIVE)),
    "noise/moderate": (_A9A, _on_wide(_moderate, also=["a9a"], remark="this noise is not private: see Theorem 3")),
    "noise/ruin": (_A9A, _on_wide(_ruin, also=["a9a"])),
    **THEORY_JUDGES,
}
