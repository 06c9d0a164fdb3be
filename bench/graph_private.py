"""Private learning over a graph: log loss and accuracy on a9a against epsilon, nothing tuned."""

from __future__ import annotations

import math

import numpy as np

from bench.data import Task, a9a
from bench.row import Row
from tacit import HorizontalClassifier, Privacy
from tacit.types import Vector

TITLE = "Private learning over a graph: ten nodes, one row replaced, delta 1e-5, rows scaled to norm sqrt(14)"
ROW_NORM = math.sqrt(14)  # every row of a9a has 14 groups of one-hot columns: public
SEEDS = 12
# (largest log loss, least accuracy) by epsilon
GRAPH = {0.5: (0.343, 0.842), 1.0: (0.333, 0.847), 2.0: (0.328, 0.849), 4.0: (0.3265, 0.8495)}
STAR = {0.5: (0.329, 0.848), 1.0: (0.3265, 0.8495), 2.0: (0.3255, 0.850)}


def run(quick: bool) -> list[Row]:
    """One pair of rows for each form and epsilon: means over seeds of the noise and of the split."""
    task, rows = a9a(), []
    rows += task.remark()
    for name, graph, secure, targets in (
        ("random graph, 13 edges", "random", False, GRAPH),
        ("star, secure aggregation", "star", True, STAR),
    ):
        for epsilon, target in targets.items():
            if not quick or epsilon == 1.0:
                rows += _rows(
                    task, f"{name}, epsilon {epsilon:g}", graph, secure, epsilon, target, 1 if quick else SEEDS
                )
    return rows


def _rows(
    task: Task, name: str, graph: str, secure: bool, epsilon: float, target: tuple[float, float], seeds: int
) -> list[Row]:
    found = np.array([_fit(task, graph, secure, epsilon, seed) for seed in range(seeds)])
    loss, right = found.mean(axis=0)
    spread = f" (seeds {seeds}, sd {found[:, 0].std(ddof=1):.4f})" if seeds > 1 else " (one seed)"
    judged = task.is_real and seeds > 1
    most, least = target if judged else (None, None)
    return [
        Row(f"{name}: test log loss", f"{loss:.4f}{spread}", float(loss), most, _shown("<=", most)),
        Row(
            f"{name}: test error",
            f"{1 - right:.4f} (accuracy {right:.4f})",
            float(1 - right),
            None if least is None else 1 - least,
            _shown("accuracy >=", least),
        ),
    ]


def _shown(how: str, value: float | None) -> str:
    return "" if value is None else f"{how} {value:g}"


def _fit(task: Task, graph: str, secure: bool, epsilon: float, seed: int) -> tuple[float, float]:
    model = HorizontalClassifier(
        penalty="none",
        parties=10,
        graph=graph,
        privacy=Privacy(epsilon=epsilon, row_norm=ROW_NORM, noise_seed=seed),
        secure_aggregation=secure,
        random_state=seed,
    ).fit(task.X, task.y)
    scores: Vector = model.decision_function(task.X_test)
    return float(np.logaddexp(0.0, -task.y_test * scores).mean()), float(np.mean(np.sign(scores) == task.y_test))
