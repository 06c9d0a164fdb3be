"""Made-up outcomes with which every claim of pdml that can hold does, to be spoilt one at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tacit_papers.claims import Expected
from tacit_papers.pdml import adult, beside, table
from tacit_papers.pdml.claims import published
from tacit_papers.pdml.rows import COLUMNS, SETS, Setup

ROUNDS, ROWS = 100, 45_000
REFERENCE = 6.0


def made_up(expected: Expected) -> dict[str, Any]:
    """Outcomes by piece."""
    results: dict[str, Any] = {adult.REFERENCE: _reference()}
    results |= {adult.name_of(setup): curves(setup) for setup in adult.setups()}
    results |= {adult.other_name(what): curves(Setup(**changes)) for what, changes in adult.OTHERS.items()}  # type: ignore[arg-type]
    for name in SETS:
        row = published(expected, name)
        if name == "banana":
            row["eps=0.4,R=9"] = 50.0
        results[table.name_of(name)] = cells(row)
        accuracy = {
            reading: {column: [value, value] for column, value in row.items()} for reading in table.ALL_READINGS
        }
        one_hot = [56.0, 57.0] if name == "splice" else None
        results[table.readings_name(name)] = {"drawn": False, "accuracy": accuracy, "one_hot": one_hot}
    results[beside.CANCELS] = {"one_round": [0.6, 0.6], "difference": [0.5], "gradient": 0.2, "bound": 1.0}
    optima = [[eps, bound, 0.1, 5.0, 9.0] for eps in (0.4, 1.0) for bound in (0.0, 1.0, 9.0)]
    graph = {"tried": 5, "met": 1, "reason": ""}
    run = {"measured": 1.0, "proven": 100.0, "rounds": ROUNDS}
    results[beside.BOUNDS] = {"lowest": 0.6, "optima": optima, "graph": graph, "run": run}
    found = {method: {"accuracy": 80.0, "log_loss": 0.4, "risk": 6.5, "epsilon": 1.0} for method in beside.METHODS}
    accuracy = {name: {method: [70.0, 71.0] for method in beside.METHODS} for name in SETS}
    results[beside.SOUND] = {"epsilon": 1.0, "accuracy": accuracy, "adult": found}
    return results


def _reference() -> dict[str, Any]:
    one = {"risk": REFERENCE, "rounds": 30, "optimum": REFERENCE, "accuracy": 80.0, "norm": 3.0, "share": 75.0}
    return {"seeds": [one, one], "columns": 105, "rows": ROWS}


def curves(setup: Setup) -> dict[str, Any]:
    """A run that settles at its own rate, at a risk that grows with R and falls with eps."""
    assert setup.epsilon is not None
    gap = 0.04 / setup.epsilon**2 * 0.2 + 0.05 * setup.bound**2
    rate = 0.6 if setup.decay is None else setup.decay * 0.9
    t = np.arange(1, ROUNDS + 1)
    risk = REFERENCE + gap + 2.0 * rate**t
    flipped = 1 / (1 + math.exp(setup.epsilon))
    twice = {"risk": risk, "averaged_risk": risk, "distance": rate**t, "norm_gap": rate**t}
    found: dict[str, Any] = {key: [value.tolist(), value.tolist()] for key, value in twice.items()}
    found |= {"flipped": [flipped, flipped], "accuracy": [76.0, 76.0], "norm": [3.0, 3.0]}
    found |= {"reference": [REFERENCE, REFERENCE], "rounds": ROUNDS, "setup": setup.record()}
    return found | {"run_epsilon": None if setup.decay is None else 1e6}


def cells(row: dict[str, float]) -> dict[str, Any]:
    """Two splits around a row of accuracies; flips as they should be."""
    averaged = {column: [value - 0.1, value + 0.1] for column, value in row.items()}
    flips = {c: [0.0 if eps is None else 1 / (1 + math.exp(eps))] * 2 for c, (eps, _) in COLUMNS.items()}
    spent = {column: 1e6 if bound else None for column, (_, bound) in COLUMNS.items()}
    found: dict[str, Any] = {"rows": 1000, "columns": 20, "drawn": False, "share": 55.0, "test_rows": 300}
    return found | {"averaged": averaged, "last": averaged, "run_epsilon": spent, "flipped": flips}
