"""Timing: repetitions that take turns, and rounds with something else timed in between."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_info

from bench.data import ALPHA
from tacit.plan import FeatureSplit, TrainingRequest, make_plan
from tacit.run.star import Run
from tacit.types import Matrix, Shard, TraceRow, Vector

Action = Callable[[], Any]


def timed(action: Action) -> float:
    """Seconds that one call takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def interleave(actions: Mapping[str, Action], repeats: int) -> dict[str, Vector]:
    """Time every action `repeats` times, in turns that start with another action each time."""
    names = list(actions)
    times: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(repeats):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            times[name].append(timed(actions[name]))
    return {name: np.array(values) for name, values in times.items()}


@dataclass
class RoundClock:
    """Observer of a run: the seconds of each round, without those of `aside`, which runs after each."""

    aside: Action | None = None
    rounds: list[float] = field(default_factory=list)
    asides: list[float] = field(default_factory=list)
    objectives: list[float] = field(default_factory=list)
    mark: float = field(default_factory=time.perf_counter)

    def __call__(self, row: TraceRow) -> None:
        """Note the round that just ended."""
        self.rounds.append(time.perf_counter() - self.mark)
        self.objectives.append(row.objective)
        if self.aside is not None:
            self.asides.append(timed(self.aside))
        self.mark = time.perf_counter()


@dataclass(frozen=True)
class Timing:
    """The seconds of one run: before its first round, of each round, and of what was timed in between."""

    setup: float
    rounds: Vector
    asides: Vector
    objectives: Vector

    @property
    def total(self) -> float:
        """Everything but what was timed in between."""
        return self.setup + float(self.rounds.sum())

    def seconds_to(self, objective: float) -> float:
        """Seconds until the objective is at most this; infinite where it never was."""
        reached = np.flatnonzero(self.objectives <= objective)
        return self.setup + float(self.rounds[: reached[0] + 1].sum()) if reached.size else float("inf")

    def rounds_to(self, objective: float) -> int | None:
        """Rounds until the objective is at most this."""
        reached = np.flatnonzero(self.objectives <= objective)
        return int(reached[0]) + 1 if reached.size else None


def time_rounds(
    blocks: Sequence[Matrix], labels: Vector, method: str, rounds: int, aside: Action | None = None
) -> Timing:
    """Run exactly `rounds` rounds (tol=0) and time each of them; compiling is done before."""
    _warm_up(method)
    return _time_rounds(blocks, labels, method, rounds, aside)


@cache
def _warm_up(method: str) -> None:
    """Have everything compiled that the method calls."""
    rng = np.random.default_rng(0)
    dense, labels = rng.normal(size=(2, 200, 3)), np.where(rng.random(200) < 0.5, 1.0, -1.0)
    for blocks in (list(dense), [sparse.csr_array(block) for block in dense]):
        _time_rounds(blocks, labels, method, 12, None)


def _time_rounds(blocks: Sequence[Matrix], labels: Vector, method: str, rounds: int, aside: Action | None) -> Timing:
    start = time.perf_counter()
    shards = [Shard(f"party {k}", block) for k, block in enumerate(blocks, start=1)]
    request = TrainingRequest("logistic", "l2", ALPHA, fit_intercept=False, tol=0.0, method=method, max_rounds=rounds)
    names, size = tuple(shard.name for shard in shards), sum(_nbytes(block) for block in blocks)
    plan = make_plan(request, FeatureSplit(names, len(labels), input_bytes=size))
    run = Run(plan, shards, labels)
    clock = RoundClock(aside)
    setup = clock.mark - start
    run.go(clock)
    return Timing(setup, *(np.array(values) for values in (clock.rounds, clock.asides, clock.objectives)))


def products(blocks: Sequence[Matrix]) -> Action:
    """The products that no method avoids: each party's D'r and D x, once."""
    rng = np.random.default_rng(0)
    r = rng.normal(size=blocks[0].shape[0])
    vectors = [rng.normal(size=block.shape[1]) for block in blocks]

    def multiply() -> None:
        for block, x in zip(blocks, vectors, strict=True):
            block.T @ r
            block @ x

    return multiply


def _nbytes(block: Matrix) -> int:
    return int(block.nbytes if hasattr(block, "nbytes") else block.data.nbytes + block.indices.nbytes)


def blas_threads() -> int:
    """Threads that linear algebra may use."""
    return max((pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"), default=1)
