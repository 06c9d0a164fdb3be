"""A run that goes on with another alpha: both sides stay in step, and what alpha does not touch is not made anew."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tacit.blocks.dense import Block
from tacit.plan import Plan
from tacit.run.star import Run
from tacit.types import Shard
from tests.plans import feature_plan

ALPHAS = (1.0, 0.1, 0.01, 0.001)
ROWS = 200


@pytest.fixture(scope="module")
def shards() -> list[Shard]:
    rng = np.random.default_rng(0)
    mixed = rng.normal(size=(ROWS, 12)) @ rng.normal(size=(12, 12))
    return [Shard(f"p{k}", mixed[:, 4 * k : 4 * k + 4], tuple(f"x{4 * k + j}" for j in range(4))) for k in range(3)]


@pytest.fixture(scope="module")
def labels(shards: list[Shard]) -> np.ndarray:
    rng = np.random.default_rng(1)
    return np.where(shards[0].features[:, 0] + shards[2].features[:, 1] + rng.normal(size=ROWS) > 0, 1.0, -1.0)


def plan_for(loss: str, tol: float, **more: Any) -> Plan:
    weights = np.ones(ROWS)
    weights[::5] = 0.0
    return feature_plan(
        loss=loss, penalty="l2", alpha=ALPHAS[0], fit_intercept=True, method="memory", rho="auto", max_rounds=300,
        tol=tol, privacy=None, party_names=("p0", "p1", "p2"), rows=ROWS, input_bytes=0, row_weights=weights, **more,
    )  # fmt: skip


def at(plan: Plan, alpha: float) -> Plan:
    return replace(plan, problem=replace(plan.problem, alpha=alpha))


@pytest.mark.parametrize("loss", ["logistic", "squared", "squared_hinge"])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("tol", [0.05, 1e-8])
def test_sides_agree_after_each_alpha(shards, labels, loss, masked, tol) -> None:
    """With a loose tol the last step is large: taken twice, or not at all, it would show.

    With a tight one the last steps are rounding, and masks round more: used for large steps, they would drift apart.
    """
    plan = plan_for(loss, tol, secure_aggregation=masked)
    run = Run(plan, shards, labels)
    for alpha in ALPHAS:
        if alpha != ALPHAS[0]:
            run.retune(at(plan, alpha))
        result = run.go()
        assert result.plan.problem.alpha == alpha
        scores = result.model.scores(shards)
        np.testing.assert_allclose(run.coordinator.side.scores, scores, atol=1e-9)


@pytest.mark.parametrize("loss", ["logistic", "squared", "squared_hinge"])
def test_ends_at_the_optimum_of_each_alpha(shards, labels, loss) -> None:
    plan = plan_for(loss, 1e-9)
    run = Run(plan, shards, labels)
    for alpha in ALPHAS:
        if alpha != ALPHAS[0]:
            run.retune(at(plan, alpha))
        followed, anew = run.go(), Run(at(plan, alpha), shards, labels).go()
        assert followed.converged
        assert followed.trace[0].round == 1
        assert followed.trace[-1].objective == pytest.approx(anew.trace[-1].objective, rel=1e-8)
        for one, other in zip(followed.model.parts, anew.model.parts, strict=True):
            np.testing.assert_allclose(one.coef, other.coef, atol=2e-3)


def test_a_metric_that_stays_costs_no_gram_matrix(shards, labels, monkeypatch) -> None:
    made: list[int] = []
    whole = Block.gram
    monkeypatch.setattr(Block, "gram", lambda self, *a, **k: made.append(1) or whole(self, *a, **k))
    plan = plan_for("squared", 1e-4)
    run = Run(plan, shards, labels)
    run.go()
    before = len(made)
    assert before
    for alpha in ALPHAS[1:]:
        run.retune(at(plan, alpha))
        for party in run.parties:
            side = party.side
            assert side.ridge == pytest.approx(alpha * plan.problem.total)
            system = side.solver.gram + side.ridge * np.eye(4)
            np.testing.assert_allclose(system @ side.solved, side.other, atol=1e-8 * np.abs(side.other).max())
        run.go()
    assert len(made) == before
