"""Rounds until the objective is within a given part of scikit-learn's optimum."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.data import ALPHA, Task, a9a, basehock, mnist49
from bench.progress import say
from bench.row import Row
from tacit import VerticalClassifier
from tacit.types import Vector

TITLE = "rounds until the relative gap is below 1e-3 / 1e-4 / 1e-6"
LEVELS = (1e-3, 1e-4, 1e-6)
Limits = tuple[int | None, int | None, int | None]

A9A_LIMITS: dict[int, Limits] = {2: (5, 8, 10), 10: (10, 16, 26), 30: (12, 20, 34)}
AVERAGED_LIMITS: Limits = (10, 36, 45)
MNIST_LIMITS: dict[int, Limits] = {2: (None, 24, None), 10: (None, 28, None), 30: (None, 34, None)}
SEEDS = (0, 1, 2)
PUBLISHED_ROUNDS = 200
PUBLISHED_GRID = (0.1, 0.3, 1.0, 3.0, 10.0)  # times the default rho


def run(quick: bool = False) -> list[Row]:
    """Count the rounds on every data set; the short form has only a9a."""
    task = a9a()
    rows = [*task.remark(), *_a9a_rows(task)]
    if quick:
        return rows
    rows += [_random_splits(task, parties) for parties in A9A_LIMITS]
    for parties in A9A_LIMITS:
        rows += _published_rows(task, parties)
    return rows + _other_sets()


def _a9a_rows(task: Task) -> list[Row]:
    rows = [_row(task, parties, limits) for parties, limits in A9A_LIMITS.items()]
    return [*rows, _row(task, 2, AVERAGED_LIMITS, method="averaged")]


def _other_sets() -> list[Row]:
    digits, news = mnist49(), basehock()
    rows = [*digits.remark(), *(_row(digits, parties, limits) for parties, limits in MNIST_LIMITS.items())]
    return [*rows, *news.remark(), *(_row(news, parties) for parties in MNIST_LIMITS)]


def cut(task: Task, parties: int, seed: int | None = None) -> list[list[int]]:
    """Columns of each party: in order, or at random; two parties of a9a hold 66 and 57."""
    order = np.arange(task.X.shape[1])
    if seed is not None:
        order = np.random.default_rng(seed).permutation(order)
    elif parties == 2 and task.name == "a9a":
        return [order[:66].tolist(), order[66:].tolist()]
    return [part.tolist() for part in np.array_split(order, parties)]


def trace_of(task: Task, columns: list[list[int]], rounds: int = 60, **settings: Any) -> Any:
    """Trace of a fit with default settings that does not stop early."""
    model = VerticalClassifier(
        parties=columns, alpha=ALPHA, fit_intercept=False, max_rounds=rounds, tol=0.0, **settings
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is meant not to stop
        return model.fit(task.X, task.y).trace_


def rounds_to_levels(task: Task, trace: Any) -> list[int | None]:
    """First round below each gap."""
    gaps = np.array([row.objective for row in trace]) / task.optimum() - 1.0
    return [_first(gaps, level) for level in LEVELS]


def _first(gaps: Vector, level: float) -> int | None:
    below = np.flatnonzero(gaps < level)
    return int(below[0]) + 1 if below.size else None


def _row(task: Task, parties: int, limits: Limits = (None, None, None), method: str = "auto") -> Row:
    name = f"{task.name}, {parties} parties" + ("" if method == "auto" else f", {method}")
    say(name)
    counts = rounds_to_levels(task, trace_of(task, cut(task, parties), method=method))
    return _judged(name, counts, limits if task.is_real else (None, None, None))


def _judged(name: str, counts: Sequence[int | None], limits: Limits) -> Row:
    """Row whose value is the largest count over its limit, or the rounds to 1e-4 where there is no limit."""
    if limits == (None, None, None):
        return Row(name, _shown(counts), float(counts[1] or np.inf))
    ratios = [(count or np.inf) / limit for count, limit in zip(counts, limits, strict=True) if limit]
    return Row(name, _shown(counts), max(ratios), 1.0, f"at most {_shown(limits)}")


def _shown(counts: Sequence[int | None]) -> str:
    return " / ".join("-" if count is None else str(count) for count in counts)


def _random_splits(task: Task, parties: int) -> Row:
    name = f"{task.name}, {parties} parties, columns at random"
    say(name)
    counts = [rounds_to_levels(task, trace_of(task, cut(task, parties, seed))) for seed in SEEDS]
    worst = max(count[1] or np.inf for count in counts)
    return Row(f"{name} ({len(SEEDS)} draws)", ";  ".join(map(_shown, counts)), float(worst))


def _published_rows(task: Task, parties: int) -> list[Row]:
    """The published iteration at its default rho, and at the best rho of a grid for each gap."""
    name, columns = f"{task.name}, {parties} parties, published", cut(task, parties)
    say(name)
    trace = trace_of(task, columns, PUBLISHED_ROUNDS, method="published")
    counts = rounds_to_levels(task, trace)
    default = trace[0].rho
    traces = {
        factor: trace_of(task, columns, PUBLISHED_ROUNDS, method="published", rho=factor * default)
        for factor in PUBLISHED_GRID
    }
    return [
        Row(name, f"{_shown(counts)}  ({_end(task, trace)})", float(counts[1] or np.inf)),
        _best_row(task, f"{name}, best of {len(traces)} fixed rho", traces),
    ]


def _best_row(task: Task, name: str, traces: dict[float, Any]) -> Row:
    """For each gap the rounds of the rho that needs the fewest, and that rho over the default."""
    grid = {factor: rounds_to_levels(task, trace) for factor, trace in traces.items()}
    best = [_fewest(grid, level) for level in range(len(LEVELS))]
    shown = _shown([count for count, _ in best]) + "  at " + " / ".join(where for _, where in best) + " x default rho"
    least = min((_end(task, trace) for trace in traces.values()), key=lambda end: float(end.split()[1]))
    return Row(name, f"{shown}  (best {least})", float(best[1][0] or np.inf))


def _end(task: Task, trace: Any) -> str:
    gap = min(row.objective for row in trace) / task.optimum() - 1.0
    return f"gap {gap:.1e} after {len(trace)} rounds"


def _fewest(grid: dict[float, list[int | None]], level: int) -> tuple[int | None, str]:
    reached = [(count, f"{factor:g}") for factor, counts in grid.items() if (count := counts[level])]
    return min(reached, default=(None, "-"))
