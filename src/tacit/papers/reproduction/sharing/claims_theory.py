"""Verdicts on the theorems of the sharing paper."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from tacit.papers.reproduction.claims import Item, Judged, judge_words
from tacit.papers.reproduction.sharing.claims_measures import mean, noisy_ends
from tacit.papers.reproduction.sharing.pieces import COEFFICIENTS, INVERSE
from tacit.papers.reproduction.work import Results

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
JUDGES: dict[str, tuple[tuple[str, ...], Callable[[Results, Item], Judged]]] = {
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
