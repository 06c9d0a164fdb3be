"""How private can a mechanism be at most: a lower bound on epsilon with a stated confidence, from guesses.

In each run a fair coin picks one of two neighbours, the mechanism runs on it, and a score of what was released says
which it was: the larger, the more it speaks for the second. All bounds hold whatever the score is; a better score makes
them larger. Proofs: docs/proofs/audit.md.

| bound | against | from |
|---|---|---|
| curve | "the mechanism is mu-GDP" | the rate of wrong guesses at one threshold, which is at least Phi(-mu/2) |
| any | "the mechanism is (epsilon, delta)-DP" | sure guesses are right at most e^epsilon times as often as wrong |

The first is much the stronger for Gaussian noise, which claims a whole curve. The second asks for nothing but
(epsilon, delta). Thresholds are chosen on one part of the runs and judged on the other.

In the guessing game of a scene the score is the log likelihood ratio of the transcript, the best one there is for the
planned noise: the transcript is handed to both neighbours, and what each would have released without noise is compared
with what was released.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy
from scipy.special import ndtr, ndtri

from tacit.audit.scene import PartyData, Stage
from tacit.errors import InputError
from tacit.privacy.accountant import gaussian_epsilon
from tacit.types import Vector

# --- How private can a mechanism be at most: a lower bound on epsilon with a stated confidence, from guesses


Truths = npt.NDArray[np.bool_]
CONFIDENCE = 0.95
SURE = 0.999  # an audit calls a claim broken only where the bound exceeds it with this confidence
CHOOSING = 0.25  # part of the runs on which thresholds are chosen
FEWEST = 40
LARGEST = 1e100  # an infinite score, of a transcript that one neighbour cannot give, is as good as this
RARE = 0.1  # part of the error probability that the rate of sure guesses may take


@dataclass(frozen=True)
class Guesses:
    """Which neighbour each run was on, and its score.

    Attributes
    ----------
    truths : array of bool
        True for the second neighbour; fair coins, drawn independently of everything else.
    scores : array
        The larger, the more the run speaks for the second neighbour.
    """

    truths: Truths
    scores: Vector

    def __post_init__(self) -> None:
        if self.truths.shape != self.scores.shape or self.truths.ndim != 1:
            raise InputError(
                f"{self.truths.size} truths and {self.scores.size} scores do not fit: give one of each a run"
            )
        if self.truths.size < FEWEST:
            raise InputError(f"{self.truths.size} runs are too few to bound anything: make at least {FEWEST}")
        if np.isnan(self.scores).any():
            raise InputError("a score is NaN: the run it belongs to must not be counted")
        object.__setattr__(self, "scores", np.clip(self.scores, -LARGEST, LARGEST))

    def parts(self) -> tuple[Guesses, Guesses]:
        """The runs on which thresholds are chosen, and those on which they are judged."""
        cut = int(self.truths.size * CHOOSING)
        return _cut(self, slice(0, cut)), _cut(self, slice(cut, None))


@dataclass(frozen=True)
class LowerBound:
    """What many runs show about a mechanism.

    Attributes
    ----------
    confidence : float
        Of each of the bounds below.
    runs : int
    delta : float
        At which epsilon is stated.
    mu : float
        The mechanism is mu-GDP for no smaller mu.
    epsilon_curve : float
        Epsilon at `delta` of the curve of `mu`: what a mechanism that claims a Gaussian curve must at least claim.
    epsilon_any : float
        The mechanism is (epsilon, delta)-DP for no smaller epsilon, whatever curve it has.
    guessed_right : float
        Part of the judged runs that were guessed right.
    right_low, right_high : float
        The two-sided interval, at 95 %, of the rate behind it.
    judged : int
        Runs that were judged: those on which no threshold was chosen.
    distance : float
        The total variation between the two laws is at least this.
    """

    confidence: float
    runs: int
    delta: float
    mu: float
    epsilon_curve: float
    epsilon_any: float
    guessed_right: float
    right_low: float
    right_high: float
    judged: int
    distance: float

    def right_line(self) -> str:
        """How often it was guessed right, with the error of the measurement."""
        return share_line(self.guessed_right, self.right_low, self.right_high)

    def record(self) -> Mapping[str, Any]:
        """The bound as the audit's JSON file holds it."""
        return dict(vars(self))


def lower_bound(guesses: Guesses, delta: float, confidence: float = CONFIDENCE) -> LowerBound:
    """Both bounds from the same runs, each with the given confidence.

    Parameters
    ----------
    guesses : Guesses
        At least 40 runs.
    delta : float
        0 <= delta < 1.
    confidence : float
        Probability with which each bound is not above the truth.
    """
    if not 0 < confidence < 1:
        raise InputError(f"confidence={confidence} is not allowed: it must be between 0 and 1")
    if not 0 <= delta < 1:
        raise InputError(f"delta={delta} is not allowed: it must be at least 0 and below 1")
    choosing, judging = guesses.parts()
    wrong = _wrong(judging, _middle(choosing))
    most = upper_rate(wrong, judging.truths.size, 1 - confidence)
    mu = max(0.0, -2 * float(ndtri(most)))
    low, high = interval(judging.truths.size - wrong, judging.truths.size)
    return LowerBound(
        confidence=confidence,
        runs=guesses.truths.size,
        delta=delta,
        mu=mu,
        epsilon_curve=gaussian_epsilon(mu, delta) if mu > 0 and delta > 0 else 0.0,
        epsilon_any=_epsilon_any(choosing, judging, delta, 1 - confidence),
        guessed_right=1 - wrong / judging.truths.size,
        right_low=low,
        right_high=high,
        judged=judging.truths.size,
        distance=max(0.0, 1 - 2 * most),
    )


def upper_rate(events: int, trials: int, error: float) -> float:
    """Clopper-Pearson: with probability 1 - error at least the true rate of the events."""
    return 1.0 if events >= trials else float(scipy.stats.beta.ppf(1 - error, events + 1, trials - events))


def lower_rate(events: int, trials: int, error: float) -> float:
    """Clopper-Pearson: with probability 1 - error at most the true rate of the events."""
    return 0.0 if events <= 0 else float(scipy.stats.beta.ppf(error, events, trials - events + 1))


def interval(events: int, trials: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Clopper-Pearson, two-sided: with this confidence the true rate of the events is inside."""
    half = (1 - confidence) / 2
    return lower_rate(events, trials, half), upper_rate(events, trials, half)


def share_line(rate: float, low: float, high: float) -> str:
    """A measured rate with its interval, in words."""
    return f"{100 * rate:.1f} % (95 % interval {100 * low:.1f} to {100 * high:.1f} %)"


# --- any (epsilon, delta) ----------------------------------------------------------------------------


def _epsilon_any(choosing: Guesses, judging: Guesses, delta: float, error: float) -> float:
    """Largest epsilon that the sure guesses refute; the coin makes right ones binomial, given how many are sure."""
    low, high = _sure(choosing, judging.truths.size, delta)
    return _refuted(*_counts(judging, low, high), judging.truths.size, delta, error)


def _refuted(right: int, sure: int, runs: int, delta: float, error: float) -> float:
    """(epsilon, delta)-DP makes the rate of right among sure guesses at most (e^eps + delta/rate) / (1 + e^eps)."""
    rate = lower_rate(sure, runs, error * RARE)
    if rate <= 0:
        return 0.0
    part = lower_rate(right, sure, error * (1 - RARE))
    excess = part - delta / rate
    if excess <= 0:
        return 0.0
    return math.log(excess / (1 - part)) if excess > 1 - part else 0.0


def _sure(choosing: Guesses, runs: int, delta: float) -> tuple[float, float]:
    """The thresholds with the largest bound that so many further runs would give, by a smooth model of these."""
    middle, model = _middle(choosing), _Normal.of(choosing)
    best, answer = -1.0, (middle, middle)
    for reach in np.linspace(0.0, 4.0, 81) * model.spread:
        low, high = middle - reach, middle + reach
        right, sure = model.rates(low, high) if model.smooth else _rates(choosing, low, high)
        if runs * sure < 8:
            continue
        bound = _refuted(round(runs * right), round(runs * sure), runs, delta, 1 - CONFIDENCE)
        if bound > best:
            best, answer = bound, (low, high)
    return answer


@dataclass(frozen=True)
class _Normal:
    """Scores as two normal laws of one spread: less at the mercy of a few runs than the runs themselves."""

    first: float
    second: float
    spread: float
    smooth: bool

    @classmethod
    def of(cls, guesses: Guesses) -> _Normal:
        first, second = guesses.scores[~guesses.truths], guesses.scores[guesses.truths]
        if min(first.size, second.size) < 2:
            return cls(0.0, 0.0, 1.0, False)
        spread = math.sqrt((first.var() + second.var()) / 2)
        few_values = np.unique(guesses.scores).size < guesses.scores.size / 2  # randomized response, say
        return cls(float(first.mean()), float(second.mean()), spread or 1.0, spread > 0 and not few_values)

    def rates(self, low: float, high: float) -> tuple[float, float]:
        """Rates of right and of all sure guesses."""
        below = [float(ndtr((low - mean) / self.spread)) for mean in (self.first, self.second)]
        above = [float(ndtr((mean - high) / self.spread)) for mean in (self.first, self.second)]
        return (below[0] + above[1]) / 2, (sum(below) + sum(above)) / 2


def _rates(guesses: Guesses, low: float, high: float) -> tuple[float, float]:
    right, sure = _counts(guesses, low, high)
    return right / guesses.truths.size, sure / guesses.truths.size


def _counts(guesses: Guesses, low: float, high: float) -> tuple[int, int]:
    """Right and all guesses, where a score above `high` speaks for the second and one up to `low` for the first."""
    second, first = guesses.scores > high, guesses.scores <= low
    right = int(np.sum(second & guesses.truths) + np.sum(first & ~second & ~guesses.truths))
    return right, int(np.sum(second | first))


# --- one threshold -----------------------------------------------------------------------------------


def _middle(guesses: Guesses) -> float:
    """The threshold with the fewest wrong guesses, smoothed: half way between the medians of the two."""
    if guesses.truths.all() or not guesses.truths.any():
        return float(np.median(guesses.scores))
    return float(np.median(guesses.scores[guesses.truths]) + np.median(guesses.scores[~guesses.truths])) / 2


def _wrong(guesses: Guesses, threshold: float) -> int:
    return int(np.sum((guesses.scores > threshold) != guesses.truths))


def _cut(guesses: Guesses, part: slice) -> Guesses:
    cut = object.__new__(Guesses)  # a part may be smaller than what a bound needs
    object.__setattr__(cut, "truths", guesses.truths[part])
    object.__setattr__(cut, "scores", guesses.scores[part])
    return cut


# --- The guessing game: a fair coin picks one of two neighbours, the mechanism runs on it


BATCH = 50
LARGEST_SEED = 2**62


@dataclass(frozen=True)
class Game:
    """The guessing game of two neighbours in a scene: runs on one of them, and which it was."""

    scene: Stage
    first: PartyData
    second: PartyData

    def score(self, second: bool, seed: int | None) -> float:
        """Run on one of the two; how much the transcript speaks for the second."""
        if second:
            return -self.scene.compare(self.second, self.first, seed).cost.evidence
        return self.scene.compare(self.first, self.second, seed).cost.evidence

    def play(
        self, runs: int, seed: int | None = None, workers: int = 1, observe: Callable[[int], None] | None = None
    ) -> Guesses:
        """So many runs; fresh noise from the operating system, or repeatable noise from a seed.

        Parameters
        ----------
        runs : int
        seed : int or None
        workers : int
            Processes; they are forked, where the system allows it, and 1 plays here.
        observe : callable, optional
            Told how many runs were played.
        """
        coins = np.random.default_rng(seed)
        truths = coins.random(runs) < 0.5
        seeds = [None] * runs if seed is None else [int(value) for value in coins.integers(LARGEST_SEED, size=runs)]
        tasks = [(truths[i : i + BATCH].tolist(), seeds[i : i + BATCH]) for i in range(0, runs, BATCH)]
        scores: list[float] = []
        for part in self._scores(tasks, workers):
            scores += part
            if observe:
                observe(len(scores))
        return Guesses(truths, np.array(scores, dtype=np.float64))

    def _scores(self, tasks: list[Any], workers: int) -> Any:
        """Scores of each task, in order."""
        if workers < 2 or len(tasks) < 4 or not hasattr(os, "fork"):
            yield from (self.batch(task) for task in tasks)
            return
        _PLAYED.append(self)
        try:
            with ProcessPoolExecutor(workers, mp_context=get_context("fork")) as pool:
                yield from pool.map(_batch, tasks)
        finally:
            _PLAYED.pop()

    def batch(self, task: tuple[list[bool], list[int | None]]) -> list[float]:
        """Scores of some runs."""
        return [self.score(truth, seed) for truth, seed in zip(*task, strict=True)]


_PLAYED: list[Game] = []  # the game that forked processes inherit: a solver's sides cannot be pickled


def _batch(task: Any) -> list[float]:
    return _PLAYED[-1].batch(task)


def rates(guesses: Guesses, thresholds: Vector) -> tuple[Vector, Vector]:
    """False alarms and misses at each threshold, as measured."""
    first, second = np.sort(guesses.scores[~guesses.truths]), np.sort(guesses.scores[guesses.truths])
    alarms = 1 - np.searchsorted(first, thresholds, side="right") / max(first.size, 1)
    misses = np.searchsorted(second, thresholds, side="right") / max(second.size, 1)
    return alarms, misses
