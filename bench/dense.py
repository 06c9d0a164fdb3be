"""Large dense data: how close a round is to its bare products, and which method is done first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bench.clock import Timing, products, time_rounds
from bench.data import dense_blocks
from bench.progress import say
from bench.row import Row, seconds
from tacit.types import Vector

TITLE = "two parties of 50 dense columns"
GAP = 1e-4
MOST_RATIO = 2.0
METHODS = {"averaged": 30, "memory": 8}  # with rounds that take each well below the gap
LONG = 15


def run(quick: bool = False) -> list[Row]:
    """Run both methods in turns with the bare products between their rounds."""
    n, repeats = (50_000, 1) if quick else (1_000_000, 2)
    say(f"making {n} rows")
    blocks, labels = dense_blocks(n)
    say("long run for the optimum")
    best = float(time_rounds(blocks, labels, "memory", LONG).objectives.min())
    runs: dict[str, list[Timing]] = {method: [] for method in METHODS}
    for turn in range(repeats):
        for method, rounds in METHODS.items():
            say(f"{method}, run {turn + 1} of {repeats}")
            runs[method].append(time_rounds(blocks, labels, method, rounds, products(blocks)))
    return [*_per_round(runs, n, quick), *_to_gap(runs, best * (1 + GAP), quick)]


def _per_round(runs: dict[str, list[Timing]], n: int, quick: bool) -> list[Row]:
    bare = float(np.median(_joined(runs["averaged"] + runs["memory"], "asides")))
    rows = [Row(f"bare products, {n} rows", f"{seconds(bare)} for D'r and D x of both parties", bare)]
    for method in METHODS:
        rounds, asides = _joined(runs[method], "rounds"), _joined(runs[method], "asides")
        ratio = float(np.median(rounds) / np.median(asides))
        measured = f"{ratio:.2f} (median {seconds(float(np.median(rounds)))}, least over least "
        measured += f"{rounds.min() / asides.min():.2f})"
        judged = method == "averaged" and not quick
        limits = {"limit": MOST_RATIO, "target": "at most 2"} if judged else {}
        what = "round of memory, refreshes included," if method == "memory" else f"round of {method}"
        rows.append(Row(f"{what} / bare products", measured, ratio, **limits))
    return rows


def _to_gap(runs: dict[str, list[Timing]], objective: float, quick: bool) -> list[Row]:
    times = {method: [timing.seconds_to(objective) for timing in runs[method]] for method in METHODS}
    rows = [_time_row(method, runs[method][0].rounds_to(objective), times[method]) for method in METHODS]
    ratio = float(np.median(times["memory"]) / np.median(times["averaged"]))
    limits = {} if quick else {"limit": 1.0, "target": "below 1"}
    return [*rows, Row("memory / averaged, seconds to gap 1e-4", f"{ratio:.2f}", ratio, **limits)]


def _time_row(method: str, rounds: int | None, times: Sequence[float]) -> Row:
    median = float(np.median(times))
    return Row(f"{method} to gap 1e-4", f"{seconds(median)} in {rounds} rounds, set-up included", median)


def _joined(timings: Sequence[Timing], name: str) -> Vector:
    return np.concatenate([getattr(timing, name) for timing in timings])
