"""Pieces of work of Table I: the run of every cell, and the same cells in other readings of the paper."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tacit.types import Vector
from tacit_papers.pdml.rows import (
    CHOSEN,
    COLUMNS,
    NODES,
    READINGS,
    SETS,
    WEIGHT,
    Array,
    benchmark,
    benchmark_split,
    of_column,
    one_hot,
    prepare,
)
from tacit_papers.pdml.runs import accuracy, make_plan, optimum, run_epsilon, watch
from tacit_papers.work import Outcome, Piece, Settings, seeds

SPLITS, READING_SPLITS, QUICK_SPLITS, QUICK_ROUNDS = 8, 20, 1, 12
EUCLIDEAN = "noise of Euclidean norm R"
WEIGHTS = {"a = 0.1": 0.1, "a = 10": 10.0}
WITH_ONES = ", column of ones"
ALL_READINGS = (*READINGS, *(reading + WITH_ONES for reading in READINGS), *WEIGHTS, EUCLIDEAN)


def name_of(name: str) -> str:
    """Name of the piece with the runs of a set."""
    return f"table/{name}"


def readings_name(name: str) -> str:
    """Name of the piece with the other readings of a set."""
    return f"readings/{name}"


def run_set(settings: Settings) -> Outcome:
    """Test accuracy of every column of Table I on each split, of the averaged and of the last models."""
    X, y, drawn = benchmark(settings["set"])
    X = prepare(X)
    found: Outcome = {"rows": len(y), "columns": X.shape[1], "drawn": drawn, "share": _larger_share(y)}
    found |= {"averaged": {}, "last": {}, "run_epsilon": {}, "flipped": {}}
    for column in COLUMNS:
        setup = of_column(column).with_(rounds=settings["rounds"])
        averaged, last, flips = [], [], []
        for seed in settings["seeds"]:
            split = benchmark_split(X, y, seed)
            plan = make_plan(setup, split, seed)
            seen = watch(plan, split, setup, curves=False)
            averaged.append(accuracy(split.test, split.test_labels, seen.averaged))
            last.append(accuracy(split.test, split.test_labels, seen.last))
            flips.append(seen.flipped)
            found["test_rows"] = len(split.test_labels)
        found["averaged"][column], found["last"][column], found["flipped"][column] = averaged, last, flips
        found["run_epsilon"][column] = run_epsilon(plan)
    return found


def run_readings(settings: Settings) -> Outcome:
    """The cells of Table I at the exact optimum that ADMM tends to, in every reading of what the paper leaves open."""
    X, y, drawn = benchmark(settings["set"])
    found: Outcome = {"drawn": drawn, "accuracy": {}, "one_hot": None}
    for reading in ALL_READINGS:
        how = next((one for one in READINGS if reading in (one, one + WITH_ONES)), CHOSEN)
        rows = prepare(X, how, constant=reading.endswith(WITH_ONES))
        weight = WEIGHTS.get(reading, WEIGHT)
        found["accuracy"][reading] = {
            column: [_at_optimum(rows, y, column, weight, seed, reading == EUCLIDEAN) for seed in settings["seeds"]]
            for column in COLUMNS
        }
    if settings["set"] == "splice":
        rows = prepare(one_hot(X), "as in the files", constant=True)
        found["one_hot"] = [_at_optimum(rows, y, "none", WEIGHT, seed, False) for seed in settings["seeds"]]
    return found


def _at_optimum(X: Array, y: Vector, column: str, weight: float, seed: int, euclidean: bool) -> float:
    """Test accuracy of one cell; labels flipped and noise drawn as in a run."""
    split = benchmark_split(X, y, seed)
    table, labels = np.vstack(split.tables), np.concatenate(split.labels)
    epsilon, bound = COLUMNS[column]
    rng = np.random.default_rng([seed, list(COLUMNS).index(column)])
    if epsilon is not None:
        labels = np.where(rng.random(len(labels)) < 1 / (1 + np.exp(epsilon)), -labels, labels)
    noise = rng.uniform(-bound, bound, size=(NODES, split.columns))
    if euclidean and bound:
        noise = rng.normal(size=noise.shape)
        noise *= bound * rng.random((NODES, 1)) ** (1 / split.columns) / np.linalg.norm(noise, axis=1, keepdims=True)
    return accuracy(split.test, split.test_labels, optimum(table, labels, weight, epsilon, noise.mean(axis=0)))


def _larger_share(y: Vector) -> float:
    """Accuracy of always the larger class, in percent."""
    return 100 * float(max(np.mean(y > 0), np.mean(y < 0)))


def pieces(quick: bool) -> Sequence[Piece]:
    """All pieces of Table I."""
    splits = list(seeds(0, QUICK_SPLITS if quick else SPLITS))
    rounds = QUICK_ROUNDS if quick else of_column("none").rounds
    found = []
    for name in SETS:
        settings = {"set": name, "seeds": splits, "rounds": rounds}
        found.append(Piece(name_of(name), run_set, settings, ("raetsch",), 3.0 if quick else 40.0))
        settings = {"set": name, "seeds": splits if quick else list(seeds(0, READING_SPLITS))}
        found.append(Piece(readings_name(name), run_readings, settings, ("raetsch",), 1.0 if quick else 6.0))
    return found
