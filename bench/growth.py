"""How seconds per round and memory grow with the number of rows."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
from threadpoolctl import threadpool_limits

from bench.clock import Timing, products, time_rounds
from bench.data import dense_blocks
from bench.progress import say
from bench.row import Row, seconds
from tacit.solvers.memory.coordinator import REFRESH_ROUNDS
from tacit.types import Vector

TITLE = "two parties of 50 dense columns, from ten thousand to a million rows"
SIZES = (10_000, 100_000, 1_000_000)
QUICK_SIZES = (1_000, 10_000)
ROUNDS = {"averaged": 15, "memory": 8}  # memory has reached the last digit after that, and does less per round
MOST_PER_DECADE = 1.3
MOST_MEMORY = 1.6

Runs = dict[int, list[Timing]]


def run(quick: bool = False) -> list[Row]:
    """Time a fixed number of rounds at each size, in turns; then weigh one run in a process of its own."""
    sizes = QUICK_SIZES if quick else SIZES
    data = {n: dense_blocks(n) for n in sizes}
    repeats = 1 if quick else 2
    rows: list[Row] = []
    for method in ROUNDS:
        rows += _time_rows(method, _time(data, method, repeats), not quick)
        with threadpool_limits(1, user_api="blas"):
            rows += _time_rows(f"{method}, 1 BLAS thread", _time(data, method, repeats), False)
    del data
    return rows + [memory_row(method, sizes[-1], not quick) for method in ROUNDS]


def _time(data: dict[int, tuple[list[Vector], Vector]], method: str, repeats: int) -> Runs:
    runs: Runs = {n: [] for n in data}
    for turn in range(repeats):
        for n, (blocks, labels) in data.items():
            say(f"{method}, {n} rows, run {turn + 1} of {repeats}")
            aside = products(blocks)
            for _ in range(max(1, min(5, 100_000 // n))):  # short runs are repeated, to be seen above the noise
                runs[n].append(time_rounds(blocks, labels, method, ROUNDS[method], aside))
    return runs


def _time_rows(method: str, runs: Runs, judged: bool) -> list[Row]:
    plain = {n: float(np.median(np.concatenate([_plain(t.rounds) for t in timings]))) for n, timings in runs.items()}
    whole = {n: float(np.median([t.total / t.rounds.size for t in timings])) for n, timings in runs.items()}
    bare = {n: float(np.median(np.concatenate([t.asides for t in timings]))) for n, timings in runs.items()}
    return [
        _growth_row(f"{method}, median round without refreshes", plain, judged),
        _growth_row(f"{method}, whole run / rounds", whole, judged),
        _growth_row(f"{method}, bare products in the same runs", bare, False),
    ]


def _plain(rounds: Vector) -> Vector:
    """The rounds in which no metric is renewed."""
    return rounds[[k for k in range(rounds.size) if k + 1 not in REFRESH_ROUNDS]]


def _growth_row(name: str, per_round: dict[int, float], judged: bool) -> Row:
    """Seconds per row, each size over the one before it."""
    sizes = list(per_round)
    pairs = itertools.pairwise(sizes)
    ratios = [(per_round[large] / large) / (per_round[small] / small) for small, large in pairs]
    shown = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    times = ", ".join(seconds(value) for value in per_round.values())
    limits = {"limit": MOST_PER_DECADE, "target": "at most 1.3 per decade"} if judged else {}
    return Row(name, f"{shown} ({times} per round)", max(ratios), **limits)


def memory_row(method: str, n: int, judged: bool) -> Row:
    """Peak memory of one run, in a process of its own."""
    say(f"{method}, peak memory at {n} rows")
    command = [sys.executable, "-m", "bench.peak_memory", method, str(n)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    peak, baseline, inputs = (int(word) for word in output.split())
    ratio = (peak - baseline) / inputs
    measured = f"{ratio:.2f} ({(peak - baseline) / 2**20:.0f} MiB for {inputs / 2**20:.0f} MiB of input)"
    limits = {"limit": MOST_MEMORY, "target": "at most 1.6"} if judged else {}
    return Row(f"{method}, peak memory / input arrays, {n} rows", measured, ratio, **limits)
