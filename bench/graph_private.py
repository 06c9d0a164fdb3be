"""Private learning over a graph: log loss and accuracy on a9a against epsilon, nothing tuned; and what masks cost."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.data import Task, a9a
from bench.row import Row, seconds
from tacit import HorizontalClassifier, Privacy
from tacit.types import Vector

TITLE = "Private learning over a graph: ten nodes, one row replaced, delta 1e-5, rows scaled to norm sqrt(14)"
ROW_NORM = math.sqrt(14)  # every row of a9a has 14 groups of one-hot columns: public
SEEDS = 12
# (largest log loss, least accuracy) by epsilon
GRAPH = {0.5: (0.343, 0.842), 1.0: (0.333, 0.847), 2.0: (0.328, 0.849), 4.0: (0.3265, 0.8495)}
MASKED = {0.5: (0.329, 0.848), 1.0: (0.3265, 0.8495), 2.0: (0.3255, 0.850)}
SHOWN = dict.fromkeys(MASKED, (None, None))
MASKED_SEEDS = 10
MANY, FEW_ROUNDS, LOW = 100, 60, 0.5  # nodes, gradients and epsilon of the run that is timed
MOST_TIMES = 3.0  # the seconds of a round without masks


@dataclass(frozen=True)
class Case:
    """One row of runs: a graph, whether sums travel under masks, and how many nodes keep to themselves."""

    name: str
    graph: str
    secure: bool
    targets: dict[float, tuple[Any, Any]]
    honest: int | None = None


STAR = Case("star, masks", "star", True, MASKED)
CASES = (
    Case("random graph, 13 edges", "random", False, GRAPH),
    STAR,
    Case("random graph, 13 edges, masks", "random", True, MASKED),
    Case("ring, masks", "ring", True, MASKED),
    Case("random graph, 13 edges, masks, 5 honest", "random", True, SHOWN, 5),
)


def run(quick: bool) -> list[Row]:
    """One pair of rows for each form and epsilon: means over seeds of the noise and of the split; then the cost."""
    task, rows, star = a9a(), [], dict[float, Vector]()
    rows += task.remark()
    for case in CASES[:3] if quick else CASES:
        for epsilon, target in case.targets.items():
            if not quick or epsilon == 1.0:
                seeds = 1 if quick else MASKED_SEEDS if case.secure else SEEDS
                found = np.array([_fit(task, case, epsilon, seed) for seed in range(seeds)])
                rows += _rows(task, f"{case.name}, epsilon {epsilon:g}", found, target)
                if case is STAR:
                    star[epsilon] = found[:, 0]
                elif case.secure and case.honest is None and not quick:
                    rows.append(_against_star(case.name, epsilon, found[:, 0], star[epsilon]))
    return rows + _cost(task, 10 if quick else MANY, judged=not quick)


def _rows(task: Task, name: str, found: Vector, target: tuple[Any, Any]) -> list[Row]:
    loss, right = found.mean(axis=0)
    seeds = len(found)
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


def _against_star(name: str, epsilon: float, found: Vector, star: Vector) -> Row:
    """How far the mean log loss is from that of a star, in standard errors of the difference."""
    apart = float(found.mean() - star.mean())
    error = math.sqrt((found.var(ddof=1) + star.var(ddof=1)) / len(found))
    shown = f"{apart:+.5f}, {abs(apart) / error:.2f} standard errors ({error:.5f})"
    return Row(f"{name}, epsilon {epsilon:g}: log loss beyond the star's", shown)


def _shown(how: str, value: float | None) -> str:
    return "" if value is None else f"{how} {value:g}"


def _fit(task: Task, case: Case, epsilon: float, seed: int) -> tuple[float, float]:
    model = _model(case, epsilon, seed).fit(task.X, task.y)
    scores: Vector = model.decision_function(task.X_test)
    return float(np.logaddexp(0.0, -task.y_test * scores).mean()), float(np.mean(np.sign(scores) == task.y_test))


def _model(case: Case, epsilon: float, seed: int, **more: Any) -> HorizontalClassifier:
    return HorizontalClassifier(
        penalty="none",
        graph=case.graph,
        privacy=Privacy(epsilon=epsilon, row_norm=ROW_NORM, noise_seed=seed, honest=case.honest),
        secure_aggregation=case.secure,
        random_state=seed,
        **({"parties": 10} | more),
    )


def _cost(task: Task, nodes: int, *, judged: bool) -> list[Row]:
    """Processor seconds of a round of all nodes in one process, and bytes, with masks and without."""
    rows, plain = [], 0.0
    for name, honest in (("without masks", None), ("masks", None), ("masks, half of the nodes honest", nodes // 2)):
        case = Case(name, "random", name != "without masks", {}, honest)
        model = _model(case, LOW, 0, parties=nodes, max_rounds=FEW_ROUNDS)
        start = time.process_time()
        model.fit(task.X, task.y)
        spent = (time.process_time() - start) / model.n_rounds_
        plain = plain or spent
        times = spent / plain
        edges, sent = len(model.graph_.edges), model.traffic_["bytes"]
        shown = (
            f"{seconds(spent)} a round, {times:.2f} times; {sent / model.n_rounds_ / edges:.0f} bytes an edge and round"
        )
        most = MOST_TIMES if judged and case.secure else None
        rows.append(Row(f"{nodes} nodes, {edges} edges, {name}", shown, times, most, _shown("times <=", most)))
    return rows
