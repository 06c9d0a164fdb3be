"""A verdict on every number and claim of the sharing paper."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tacit.papers.reproduction.claims import (
    FAILS,
    HOLDS,
    OPEN,
    Expected,
    Item,
    Judged,
    judge_number,
    judge_words,
    leave_open,
)
from tacit.papers.reproduction.sharing import claims_theory
from tacit.papers.reproduction.sharing.claims_measures import (
    ADMM_EPOCHS,
    CLOSE,
    NEAR,
    Curve,
    at_epoch,
    best_rho,
    best_step,
    chosen_rho,
    default_step,
    edge,
    end,
    first_below,
    label,
    mean,
    noisy_ends,
    numbers,
    settled,
    why_missing,
    wide_sets,
)
from tacit.papers.reproduction.work import Results

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
    **claims_theory.JUDGES,
}
