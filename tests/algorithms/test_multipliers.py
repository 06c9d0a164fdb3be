"""Multipliers: agreement with outside solvers, exact zeros and bounds, few rounds, and runs that can be paused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import QuantileRegressor
from sklearn.svm import LinearSVC

from tacit import InputError, VerticalClassifier, VerticalRegressor
from tacit.blocks.dense import Block
from tacit.problem.registry import get_loss, get_regularizer
from tacit.problem.regularizers import Ball, Box
from tacit.run.star import Run
from tacit.solvers.base import Problem
from tacit.solvers.multipliers.envelopes import LossEnvelope, PenaltyEnvelope
from tacit.types import Shard
from tests.conftest import correlated
from tests.oracles.convex import optimum
from tests.plans import feature_plan


def svm(**changes: object) -> VerticalClassifier:
    settings = {"loss": "hinge", "alpha": 1e-2, "parties": 4, "method": "multipliers", "tol": 1e-7, "max_rounds": 1000}
    return VerticalClassifier(**{**settings, **changes})


def median(**changes: object) -> VerticalRegressor:
    settings = {"loss": "absolute", "penalty": "l1", "alpha": 1e-2, "parties": 4, "method": "multipliers"}
    return VerticalRegressor(**{**settings, "tol": 1e-7, "max_rounds": 1000, **changes})


def objective(model: VerticalClassifier | VerticalRegressor, X: np.ndarray, y: np.ndarray) -> float:
    scores = X @ np.ravel(model.coef_) + float(np.ravel(model.intercept_)[0])
    penalty = get_regularizer(model.penalty)
    value = sum(penalty.value(coef) for coef in model.coef_by_party_)
    return float(get_loss(model.loss).value(scores, y).mean()) + model.alpha * value


def test_agrees_with_the_support_vector_machine_of_scikit_learn() -> None:
    X, y = correlated("classification", columns=20)
    ours = svm(fit_intercept=False, tol=1e-9).fit(X, y)
    theirs = LinearSVC(C=1 / (1e-2 * len(y)), loss="hinge", fit_intercept=False, tol=1e-10, max_iter=10**6).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-4)
    assert ours.intercept_ == 0.0
    assert 0 <= ours.trace_[-1].gap <= 1e-9 * ours.trace_[-1].objective


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("penalty", ["l1", "none"])
def test_agrees_with_the_linear_programme_of_scikit_learn(fit_intercept: bool, penalty: str) -> None:
    X, y = correlated("regression", columns=20)
    ours = median(penalty=penalty, fit_intercept=fit_intercept).fit(X, y)
    weight = 0.5e-2 if penalty == "l1" else 0.0  # theirs halves the absolute loss
    theirs = QuantileRegressor(alpha=weight, fit_intercept=fit_intercept).fit(X, y)
    best = np.abs(X @ theirs.coef_ + theirs.intercept_ - y).mean() + 2 * weight * np.abs(theirs.coef_).sum()
    assert best - 1e-9 <= objective(ours, X, y) <= best * (1 + 1e-6)


@pytest.mark.parametrize("penalty", ["l2", "elastic_net", "ball"])
def test_row_weights_are_repetitions(penalty: str) -> None:
    X, y = correlated("classification", rows=120, columns=20)
    counts = np.random.default_rng(0).integers(0, 4, len(y))
    weighted = svm(penalty=penalty, tol=1e-9).fit(X, y, sample_weight=counts)
    repeated = svm(penalty=penalty, tol=1e-9).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=2e-3)
    assert weighted.trace_[-1].objective == pytest.approx(repeated.trace_[-1].objective, rel=1e-8)


@pytest.mark.parametrize("columns", [20, 120])
@pytest.mark.parametrize("penalty", ["l2", "l1", "box"])
def test_every_form_of_the_data_gives_the_optimum(columns: int, penalty: str) -> None:
    """Dense, float32 and sparse; with 120 columns every party has as many as there are rows."""
    X, y = correlated("classification", rows=60, columns=columns)
    X[np.abs(X) < 0.05] = 0.0
    X = X.astype(np.float32)
    best = optimum("hinge", penalty, X.astype(float), y, 1e-2, [])
    for form in (X.astype(float), X, sparse.csr_array(X.astype(float))):
        model = svm(penalty=penalty, parties=2, tol=1e-6).fit(form, y)
        assert best - 1e-8 <= objective(model, X.astype(float), y) <= best + 1e-5 * max(best, 1e-2)


def test_l1_gives_exact_zeros() -> None:
    X, y = correlated("regression")
    coef = median(parties=10, tol=1e-6).fit(X, y).coef_
    assert np.all(coef[::10] == 0.0)  # constant columns
    assert 0 < np.count_nonzero(coef) < 20


@pytest.mark.parametrize("parties", [1, 3, 10])
def test_bounds_are_kept_exactly(parties: int) -> None:
    X, y = correlated("regression")
    coef = median(penalty="nonnegative", parties=parties, tol=1e-5).fit(X, y).coef_
    assert coef.min() == 0.0 < coef.max()
    coef = median(penalty=Box(-0.5, 0.25), parties=parties, tol=1e-5).fit(X, y).coef_
    assert (coef.min(), coef.max()) == (-0.5, 0.25)
    model = median(penalty=Ball(0.5), parties=parties, tol=1e-5).fit(X, y)
    assert max(np.linalg.norm(coef) for coef in model.coef_by_party_) <= 0.5 * (1 + 1e-15)


def test_bounds_that_exclude_zero_are_kept_from_the_first_round_on() -> None:
    X, y = correlated("classification")
    with pytest.warns(ConvergenceWarning):
        first = svm(penalty=Box(0.5, 2.0), max_rounds=1).fit(X, y)
    assert first.coef_.min() >= 0.5
    last = svm(penalty=Box(0.5, 2.0), tol=1e-5).fit(X, y)
    assert last.coef_.min() == 0.5
    assert objective(last, X, y) < objective(first, X, y)


@pytest.mark.parametrize("penalty", ["l2", "l1"])
def test_a_warm_start_is_at_least_as_good_from_the_first_round_on(penalty: str) -> None:
    X, y = correlated("classification")
    model = svm(penalty=penalty, warm_start=True, tol=1e-5).fit(X, y)
    rounds, before = model.n_rounds_, objective(model, X, y)
    model.fit(X, y)
    assert model.n_rounds_ < rounds
    assert max(row.objective for row in model.trace_) <= before * (1 + 1e-12)


def test_a_warm_start_out_of_bounds_is_brought_back() -> None:
    X, y = correlated("classification")
    model = svm(penalty="none", warm_start=True, tol=1e-3).fit(X, y)
    assert np.abs(model.coef_).max() > 1
    model.set_params(penalty="box").fit(X, y)
    assert np.abs(model.coef_).max() == 1.0


def test_rounds_stay_far_below_those_of_averaging() -> None:
    X, y = correlated("classification")
    rounds = svm(penalty="l1", alpha=1e-3, parties=10, tol=1e-4).fit(X, y).n_rounds_
    assert rounds <= 150  # 107 when this was written
    averaged = svm(penalty="l1", alpha=1e-3, parties=10, tol=1e-4, method="averaged", max_rounds=5 * rounds)
    with pytest.warns(ConvergenceWarning):
        averaged.fit(X, y)


def test_the_objective_of_the_trace_never_rises_and_is_that_of_the_model() -> None:
    X, y = correlated("classification")
    model = svm(penalty="l1", tol=1e-4).fit(X, y)
    values = [row.objective for row in model.trace_]
    assert np.all(np.diff(values) <= 0)
    assert values[-1] == pytest.approx(objective(model, X, y), rel=1e-10)
    assert all(0 <= row.primal <= 1 and row.dual >= 0 and row.rho > 0 for row in model.trace_)
    assert model.trace_[-1].primal < 1e-3


def test_any_rho_leads_to_the_same_optimum() -> None:
    X, y = correlated("classification", columns=20)
    values = [objective(svm(rho=rho, tol=1e-6).fit(X, y), X, y) for rho in ("auto", 1e-4, 1.0)]
    np.testing.assert_allclose(values, values[0], rtol=2e-6)


# --- pausing ------------------------------------------------------------------------------------------


def paused(loss: str, penalty: str, rounds: int) -> tuple[Run, Run]:
    """A run to the end, and one that was paused after some rounds and taken up by new sides."""
    X, y = correlated(get_loss(loss).task, columns=20)
    shards = [Shard(f"party{i}", part) for i, part in enumerate(np.array_split(X, 3, axis=1))]
    plan = feature_plan(
        loss=loss,
        penalty=penalty,
        alpha=1e-3,
        fit_intercept=True,
        method="multipliers",
        rho="auto",
        max_rounds=30,
        tol=0.0,
        privacy=None,
        party_names=tuple(shard.name for shard in shards),
        rows=len(y),
        input_bytes=X.nbytes,
    )
    snapshots = []

    def keep(run: Run) -> None:
        if run.state.rounds == rounds:
            copies = {who: {k: v.copy() for k, v in arrays.items()} for who, arrays in run.snapshot().items()}
            snapshots.append((copies, replace(run.state, trace=type(run.state.trace)(run.state.trace))))

    whole, again = Run(plan, shards, y), Run(plan, shards, y)
    whole.go(checkpoint=keep)
    again.restore(*snapshots[0])
    again.go()
    return whole, again


@pytest.mark.parametrize("rounds", [1, 2, 3, 4, 5, 6, 7, 20])
@pytest.mark.parametrize(
    ("loss", "penalty"), [("hinge", "l1"), ("absolute", "ball"), ("hinge", "l2"), ("huber", "box")]
)
def test_a_paused_run_ends_where_the_whole_one_does(loss: str, penalty: str, rounds: int) -> None:
    whole, again = paused(loss, penalty, rounds)
    assert len(whole.state.trace) == len(again.state.trace) == 30
    for one, other in zip(whole.parties, again.parties, strict=True):
        np.testing.assert_allclose(other.coef, one.coef, rtol=1e-6, atol=1e-8)
    assert again.coordinator.side.intercept == pytest.approx(whole.coordinator.side.intercept, rel=1e-6, abs=1e-8)


def test_parties_of_one_process_keep_the_steps_once() -> None:
    whole, _ = paused("hinge", "l1", 1)
    assert len({id(party.side.outlook.steps) for party in whole.parties}) == 1


# --- the envelopes ------------------------------------------------------------------------------------


def problem(loss: str, penalty: str, rows: int) -> Problem:
    return Problem(get_loss(loss), get_regularizer(penalty), 0.3, True, 1, rows, 0.0)


@pytest.mark.parametrize("loss", ["hinge", "absolute", "huber"])
def test_slopes_of_the_loss_are_derivatives_and_the_value_is_a_bound(loss: str) -> None:
    rng = np.random.default_rng(0)
    y = np.sign(rng.normal(size=50))
    envelope = LossEnvelope(problem(loss, "l2", 50), y)
    z, step = 2 * rng.normal(size=50), 1e-6 * rng.normal(size=50)
    for _ in range(3):
        here = envelope.at(z)
        change = envelope.at(z + step).value - envelope.at(z - step).value
        assert change == pytest.approx(2 * here.slope @ step, rel=1e-4)
        assert here.value <= get_loss(loss).value(z, y).sum() + 1e-12
        envelope.move_multiplier(here, 1.5)
        z = z + 0.1 * rng.normal(size=50)


def test_constant_columns_are_held_as_firmly_beside_others_as_alone() -> None:
    """Rounding would move a column without end that the penalty's envelope hardly holds."""
    varied = np.random.default_rng(1).normal(size=30)
    stiffness = []
    for columns in ([np.ones(30)], [np.zeros(30)], [np.ones(30), varied]):
        block = Block(np.column_stack(columns))
        block.set_centre(None)
        envelope = PenaltyEnvelope(problem("hinge", "box", 30), block)
        envelope.set_stiffness(1.0)
        stiffness.append(envelope.stiffness[0])
    np.testing.assert_allclose(stiffness, stiffness[-1], rtol=0.5)


@pytest.mark.parametrize("penalty", ["l1", "elastic_net", "nonnegative", "box", "ball", "l2", "none"])
def test_slopes_of_the_penalty_are_derivatives_and_the_value_is_a_bound(penalty: str) -> None:
    rng = np.random.default_rng(1)
    envelope = PenaltyEnvelope(problem("hinge", penalty, 30), Block(rng.normal(size=(30, 8))))
    envelope.set_stiffness(1.0)
    x, step = 2 * rng.normal(size=8), 1e-6 * rng.normal(size=8)
    for _ in range(3):
        here = envelope.at(x)
        change = envelope.at(x + step).value - envelope.at(x - step).value
        assert change == pytest.approx(2 * here.slope @ step, rel=1e-4, abs=1e-12)
        feasible = get_regularizer(penalty).prox(x, 1e-12)
        assert envelope.at(feasible).value <= envelope.weight * get_regularizer(penalty).value(feasible) + 1e-12
        assert np.isfinite(get_regularizer(penalty).value(here.model))
        envelope.move_multiplier(here, 1.5)
        x = x + 0.1 * rng.normal(size=8)


# --- the choice ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "penalty", "parties", "columns", "method"),
    [
        ("logistic", "l2", 30, 5, "memory"),
        ("logistic", "l1", 3, 5, "averaged"),
        ("logistic", "l1", 10, 5, "multipliers"),
        ("hinge", "l2", 2, 5, "multipliers"),
        ("absolute", "ball", 2, 5, "multipliers"),
        ("absolute", "l1", 2, 3000, "averaged"),
        ("hinge", "l1", 2, 2001, "averaged"),
        ("sigmoid", "l1", 30, 5, "averaged"),
    ],
)
def test_the_default_method(loss: str, penalty: str, parties: int, columns: int, method: str) -> None:
    plan = feature_plan(
        loss=loss,
        penalty=penalty,
        alpha=1e-3,
        fit_intercept=True,
        method="auto",
        rho="auto",
        max_rounds=10,
        tol=1e-4,
        privacy=None,
        party_names=tuple(f"party{i}" for i in range(parties)),
        rows=2500,
        input_bytes=0,
        columns=(columns,) * parties,
    )
    assert plan.recorded_method == method


def test_a_loss_that_is_not_convex_is_refused() -> None:
    X, y = correlated("classification")
    with pytest.raises(InputError, match=r"loss='sigmoid' is not convex; use method=\"auto\""):
        svm(loss="sigmoid").fit(X, y)
