"""Whole runs of the papers' methods on made data: their rounds, their use, and going on after a pause."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tacit.plan import Plan
from tacit.run.drive import LoopState
from tacit.run.graph import GraphRun
from tacit.run.result import Result
from tacit.topologies import make_graph
from tacit.types import Shard, Vector
from tests.algorithms.paper_nodes import plan
from tests.plans import sample_plan

METHODS = ("dual", "primal", "pdml")
ROWS, COLUMNS, NODES = 1200, 4, 4
TRUTH = np.array([6.0, -4.0, 2.0, 0.0])


def made_data(seed: int = 0) -> tuple[list[Vector], list[Vector]]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(ROWS, COLUMNS))
    X /= np.maximum(np.linalg.norm(X, axis=1), 1)[:, None]
    y = np.where(rng.random(ROWS) < 1 / (1 + np.exp(-X @ TRUTH)), 1.0, -1.0)
    return np.split(X, NODES), np.split(y, NODES)


def start(made: Plan, seed: int = 0) -> GraphRun:
    features, labels = made_data(seed)
    return GraphRun(made, [Shard(n, X) for n, X in zip(made.graph.names, features, strict=True)], labels)


def plan_for(method: str, **changes: Any) -> Plan:
    chosen = {"rows": (ROWS // NODES,) * NODES, "columns": COLUMNS, "graph": make_graph("ring", NODES), "alpha": 1e-3}
    return plan(method, **{**chosen, "rho": "auto", **changes})


def accuracy(result: Result) -> float:
    features, labels = made_data(1)
    X, y = np.concatenate(features), np.concatenate(labels)
    return float(np.mean(np.sign(X @ result.model.coef + result.model.intercept) == y))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_a_private_run_is_of_use(method: str, fit_intercept: bool) -> None:
    made = plan_for(method, fit_intercept=fit_intercept, privacy={"epsilon": 4.0, "label_epsilon": _label(method)})
    result = start(made).go()
    assert made.private is not None
    assert len(result.trace) == made.private.rounds
    assert accuracy(result) > 0.75  # the best possible is about 0.85
    assert result.certificate.epsilon(1e-5) <= 4.0


def _label(method: str) -> float | None:
    return 2.0 if method == "pdml" else None


@pytest.mark.parametrize("method", METHODS)
def test_much_budget_comes_near_the_joint_fit(method: str) -> None:
    asked = {"epsilon": 1e5, "label_epsilon": 30.0 if method == "pdml" else None}
    options: dict[str, Any] = {"rounds": 60} | ({"decay": 1.0} if method == "pdml" else {})
    result = start(plan_for(method, privacy=asked, options=options, rho=0.005)).go()
    joint = start(_ordinary()).go()
    assert np.linalg.norm(result.model.coef - joint.model.coef) < 0.15 * np.linalg.norm(joint.model.coef)


def _ordinary() -> Plan:

    return sample_plan(
        loss="logistic",
        penalty="l2",
        alpha=1e-3,
        fit_intercept=False,
        method="none",
        published=False,
        rho="auto",
        max_rounds=200,
        tol=1e-9,
        privacy=None,
        graph=make_graph("ring", NODES),
        rows=(ROWS // NODES,) * NODES,
        columns=COLUMNS,
    )


@pytest.mark.parametrize("method", METHODS)
def test_published_forms_run(method: str) -> None:
    result = start(plan_for(method, published=True, max_rounds=5, alpha=0.05)).go()
    assert np.all(np.isfinite(result.model.coef))
    assert len(result.trace) <= 5


@pytest.mark.parametrize("options", [{"noise": "norm"}, {"alphas": 1.0, "rounds": 3}, {"last_round": "primal"}])
def test_the_other_noises_of_primal_run(options: dict[str, Any]) -> None:
    result = start(plan_for("primal", options=options, privacy={"epsilon": 4.0})).go()
    assert result.certificate.epsilon(1e-5) <= 4.0
    assert np.all(np.isfinite(result.model.coef))


@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_a_run_that_goes_on_gives_the_same_models(method: str, published: bool) -> None:
    made = plan_for(method, published=published, max_rounds=4, alpha=0.05, options={"rounds": 4})
    whole = start(made).go()
    paused, states, loop = start(made), [], LoopState()

    def keep(run: GraphRun) -> None:
        if run.state.rounds == 2:
            states.append(run.snapshot())
            loop.rounds, loop.exchange, loop.trace = run.state.rounds, run.state.exchange, run.state.trace[:]

    paused.go(checkpoint=keep)
    again = start(made)
    again.restore(states[0], loop)
    resumed = again.go()
    assert np.array_equal(resumed.model.coef, whole.model.coef)
    for node, other in zip(resumed.model.parts, whole.model.parts, strict=True):
        assert np.array_equal(node.coef, other.coef)
