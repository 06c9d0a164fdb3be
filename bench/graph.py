"""The sample split: seconds per round against nodes and edges, and rounds to the pooled optimum of a9a."""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from bench.clock import RoundClock, timed
from bench.data import ALPHA, Task, a9a
from bench.progress import say
from bench.row import Row, seconds
from tacit import HorizontalClassifier
from tacit.plan import SampleSplit, TrainingRequest, make_plan
from tacit.run.graph import GraphRun
from tacit.run.result import Result
from tacit.topologies import Graph, make_graph
from tacit.types import Shard, Vector

TITLE = "nodes of 1000 rows and 100 columns: seconds per round; a9a: rounds to the pooled optimum"
ROWS, COLUMNS = 1000, 100
NODES, QUICK_NODES = (10, 100, 1000), (5, 20)
ROUNDS = 12
MOST_PER_DECADE = 1.3
GAP = 1e-6


def run(quick: bool = False) -> list[Row]:
    """Time rounds on random graphs of growing size and on denser ones; then fit a9a on several graphs."""
    nodes = QUICK_NODES if quick else NODES
    tables, labels = _data(nodes[-1])
    rows = _growth_rows(nodes, tables, labels, judged=not quick)
    rows += _edge_rows(nodes[-2], tables, labels, judged=not quick)
    rows += [_pooled_row(tables, labels)]
    return rows + _a9a_rows(quick)


def _growth_rows(nodes: Sequence[int], tables: list[Vector], labels: list[Vector], judged: bool) -> list[Row]:
    """Seconds per round and node, each size over the one before it."""
    per_round = {}
    for count in nodes:
        say(f"{count} nodes")
        per_round[count] = _median_round(make_graph("random", count), tables, labels)
    ratios = [(per_round[b] / b) / (per_round[a] / a) for a, b in itertools.pairwise(nodes)]
    times = ", ".join(f"{seconds(value)} at {count}" for count, value in per_round.items())
    limits: dict[str, Any] = {"limit": MOST_PER_DECADE, "target": "at most 1.3 per step"} if judged else {}
    shown = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    return [Row("seconds per round and node, against fewer nodes", f"{shown} ({times} nodes)", max(ratios), **limits)]


def _edge_rows(count: int, tables: list[Vector], labels: list[Vector], judged: bool) -> list[Row]:
    """What more edges cost: a graph with all edges beside a ring of the same nodes."""
    say(f"edges between {count} nodes")
    graphs = [make_graph(kind, count) for kind in ("ring", "complete")]
    few, many = (_median_round(graph, tables, labels) for graph in graphs)
    edges = [len(graph.edges) for graph in graphs]
    shown = f"{many / few:.2f} ({seconds(few)} with {edges[0]} edges, {seconds(many)} with {edges[1]})"
    limits: dict[str, Any] = {"limit": edges[1] / edges[0], "target": "at most the edges"} if judged else {}
    return [Row(f"{count} nodes, complete graph / ring, seconds per round", shown, many / few, **limits)]


def _median_round(graph: Graph, tables: list[Vector], labels: list[Vector]) -> float:
    """Median seconds of a round, compiling done before."""
    _warm_up()
    clock = RoundClock()
    _run(graph, tables[: graph.nodes], labels[: graph.nodes], ROUNDS, clock)
    return float(np.median(clock.rounds))


@cache
def _warm_up() -> None:
    """Have everything compiled that a run calls."""
    rng = np.random.default_rng(0)
    tables, labels = list(rng.normal(size=(3, 50, 4))), [np.where(rng.random(50) < 0.5, 1.0, -1.0) for _ in range(3)]
    _run(make_graph("ring", 3), tables, labels, 8, None)


def _run(graph: Graph, tables: list[Vector], labels: list[Vector], rounds: int, clock: RoundClock | None) -> Result:
    request = TrainingRequest("logistic", "l2", ALPHA, fit_intercept=False, tol=0.0, method="none", max_rounds=rounds)
    plan = make_plan(request, SampleSplit(graph, tuple(len(own) for own in labels), tables[0].shape[1]))
    shards = [Shard(name, table) for name, table in zip(graph.names, tables, strict=True)]
    run = GraphRun(plan, shards, labels)
    if clock is not None:
        clock.mark = time.perf_counter()
    return run.go(clock)


def _pooled_row(tables: list[Vector], labels: list[Vector]) -> Row:
    """Scikit-learn on all rows in one place, for comparison."""
    say("scikit-learn on the pooled rows")
    X, y = np.concatenate(tables), np.concatenate(labels)
    model = LogisticRegression(C=1 / (ALPHA * len(y)), solver="newton-cholesky", fit_intercept=False)
    spent = timed(lambda: model.fit(X, y))
    return Row(f"scikit-learn, whole fit of the {len(y)} pooled rows", seconds(spent), spent)


def _data(nodes: int) -> tuple[list[Vector], list[Vector]]:
    rng = np.random.default_rng(0)
    coef = rng.normal(size=COLUMNS) / 5
    tables, labels = [], []
    for _ in range(nodes):
        X = rng.standard_normal((ROWS, COLUMNS))
        tables.append(X)
        labels.append(np.where(rng.random(ROWS) < 1 / (1 + np.exp(-X @ coef)), 1.0, -1.0))
    return tables, labels


# --- a9a ---------------------------------------------------------------------------------------------------


def _a9a_rows(quick: bool) -> list[Row]:
    task = a9a()
    sizes = np.round(np.linspace(1, 20, 10) / 105 * len(task.y)).astype(int)
    sizes[-1] += len(task.y) - sizes.sum()
    cases: dict[str, dict[str, Any]] = {
        "10 nodes, 13 edges": {"parties": 10},
        "star of 10": {"parties": 10, "graph": "star"},
        "10 nodes of sizes 1 to 20": {"parties": sizes.tolist()},
    }
    if not quick:
        cases["ring of 50"] = {"parties": 50, "graph": "ring"}
    return [*task.remark(), *(_a9a_row(task, name, settings, not quick) for name, settings in cases.items())]


def _a9a_row(task: Task, name: str, settings: dict[str, Any], judged: bool) -> Row:
    """Rounds until the mean model is within 1e-6 of the optimum, and the gap where the nodes stop by themselves."""
    say(f"a9a, {name}")
    model = HorizontalClassifier(alpha=ALPHA, fit_intercept=False, tol=GAP, random_state=0, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        spent = timed(lambda: model.fit(task.X, task.y))
    gaps = [row.objective / task.optimum() - 1 for row in model.trace_]
    first = next(row.round for row, gap in zip(model.trace_, gaps, strict=True) if gap < GAP)
    worst = max(task.gap(coef) for coef in model.coef_by_party_)
    shown = (
        f"{first} rounds to 1e-6; stops after {model.n_rounds_} at {gaps[-1]:.0e} (worst node {worst:.0e}), "
        f"nodes agree to {model.trace_[-1].primal:.0e}; {seconds(spent)}, {model.traffic_['bytes'] / 1e6:.1f} MB"
    )
    limits: dict[str, Any] = {"limit": GAP, "target": "gap at most 1e-6"} if judged and task.is_real else {}
    return Row(f"a9a, {name}", shown, max(worst, 1e-16), **limits)
