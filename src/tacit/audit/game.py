"""The guessing game: a fair coin picks one of two neighbours, the mechanism runs on it, and its transcript is scored.

The score is the log likelihood ratio of the transcript, the best one there is for the planned noise: the transcript is
handed to both neighbours, and what each would have released without noise is compared with what was released.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import numpy as np

from tacit.audit.lower_bound import Guesses
from tacit.audit.scene import Held, Stage
from tacit.types import Vector

BATCH = 50
LARGEST_SEED = 2**62


@dataclass(frozen=True)
class Game:
    """Two neighbours in a scene."""

    scene: Stage
    first: Held
    second: Held

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


_PLAYED: list[Game] = []  # the game that forked processes inherit: an algorithm's sides cannot be pickled


def _batch(task: Any) -> list[float]:
    return _PLAYED[-1].batch(task)


def rates(guesses: Guesses, thresholds: Vector) -> tuple[Vector, Vector]:
    """False alarms and misses at each threshold, as measured."""
    first, second = np.sort(guesses.scores[~guesses.truths]), np.sort(guesses.scores[guesses.truths])
    alarms = 1 - np.searchsorted(first, thresholds, side="right") / max(first.size, 1)
    misses = np.searchsorted(second, thresholds, side="right") / max(second.size, 1)
    return alarms, misses
