"""Training on randomized labels: the optimum is met and certified, the truth is approached, the rest is refused."""

from __future__ import annotations

import math
from functools import cache

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize
from sklearn.exceptions import ConvergenceWarning

from tacit import VerticalClassifier
from tacit.errors import InputError
from tacit.privacy.randomness import NoiseSource, randomize_labels
from tacit.problem.losses import Logistic, Loss, Modified, Sigmoid, modified
from tacit.problem.registry import get_regularizer
from tacit.solvers.base import Problem, best_constant, negligible_objective
from tacit.solvers.duality import balanced, conjugate_terms, is_certifiable, lower_bound
from tests.conftest import correlated

ALPHA = 1e-2
BLOCKS = [np.arange(0, 4), np.arange(4, 12)]
PENALTIES = ["l2", "elastic_net", "box", "ball"]


def sample(rows: int, columns: int = 12, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a logistic model with an intercept."""
    rng = np.random.default_rng(seed)
    X, beta = rng.normal(size=(rows, columns)), 0.7 * np.cos(np.arange(columns))
    chance = 1 / (1 + np.exp(-(X @ beta - 0.5)))
    return X, np.where(rng.random(rows) < chance, 1.0, -1.0)


@cache
def randomized(rows: int, epsilon: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X, y = sample(rows)
    return X, y, randomize_labels(y, epsilon, NoiseSource(5))


def pooled(loss: Loss, X: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> tuple[np.ndarray, float]:
    """Minimiser (the intercept last) and least value of the pooled objective with l2, by an outside solver."""
    share = np.full(len(y), 1 / len(y)) if weights is None else weights / weights.sum()

    def objective(w: np.ndarray) -> tuple[float, np.ndarray]:
        z = X @ w[:-1] + w[-1]
        slope = share * loss.grad(z, y)
        value = float(share @ loss.value(z, y)) + 0.5 * ALPHA * float(w[:-1] @ w[:-1])
        return value, np.append(X.T @ slope + ALPHA * w[:-1], slope.sum())

    options = {"maxiter": 10_000, "ftol": 1e-15, "gtol": 1e-10}
    found = optimize.minimize(objective, np.zeros(X.shape[1] + 1), jac=True, method="L-BFGS-B", options=options)
    return found.x, float(found.fun)


def objective_of(model: VerticalClassifier, X: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> float:
    share = np.full(len(y), 1 / len(y)) if weights is None else weights / weights.sum()
    penalty = get_regularizer(model.penalty)
    value = float(share @ model.loss.value(model.decision_function(X), y))
    return value + model.alpha * sum(penalty.value(coef) for coef in model.coef_by_party_)


def fit(loss: Loss, X: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None, **other: object):
    settings = {"alpha": ALPHA, "parties": [4, 8], "tol": 1e-6, "max_rounds": 500} | other
    return VerticalClassifier(loss=loss, **settings).fit(X, y, sample_weight=weights)


# ------------------------------------------------------------------------------------ the optimum


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])  # at 0.1 the least objective is negative
@pytest.mark.parametrize("method", ["memory", "averaged", "multipliers"])
def test_runs_end_at_the_optimum_of_the_pooled_objective(method: str, epsilon: float) -> None:
    X, _, noisy = randomized(600, epsilon)
    loss = modified(Logistic(), epsilon)
    _, least = pooled(loss, X, noisy)
    assert (least < 0) == (epsilon == 0.1)
    model = fit(loss, X, noisy, method=method)
    assert model.converged_
    assert objective_of(model, X, noisy) - least <= 1e-4 * abs(least)
    assert model.trace_[-1].objective == pytest.approx(objective_of(model, X, noisy), rel=1e-9)


@pytest.mark.parametrize("method", ["memory", "averaged", "multipliers"])
def test_row_weights_are_followed(method: str) -> None:
    X, _, noisy = randomized(600, 1.0)
    weights = np.random.default_rng(1).integers(0, 4, 600).astype(float)
    loss = modified(Logistic(), 1.0)
    _, least = pooled(loss, X, noisy, weights)
    model = fit(loss, X, noisy, weights, method=method)
    assert model.converged_
    assert objective_of(model, X, noisy, weights) - least <= 1e-4 * abs(least)


@pytest.mark.parametrize("method", ["auto", "memory", "averaged"])
def test_hard_blocks_without_an_intercept(method: str) -> None:
    X, y = correlated("classification")
    noisy = randomize_labels(y, 0.5, NoiseSource(3))
    loss = modified(Logistic(), 0.5)
    x = cp.Variable(X.shape[1])
    margin = cp.multiply(noisy, X @ x)
    value = cp.sum(cp.logistic(-margin) - loss.tilt * margin) / len(y) + ALPHA * cp.sum_squares(x) / 2
    least = cp.Problem(cp.Minimize(value)).solve(solver=cp.CLARABEL)
    model = fit(loss, X, noisy, parties=3, fit_intercept=False, method=method)
    assert model.converged_
    assert objective_of(model, X, noisy) - least <= 1e-4 * abs(least)


@cache
def certified(penalty: str, epsilon: float) -> tuple[np.ndarray, np.ndarray, Modified, float]:
    """A small problem with its optimum by an outside solver; balls are of each block."""
    X, y = correlated("classification", rows=80, columns=12, seed=3)
    noisy, loss = randomize_labels(y, epsilon, NoiseSource(8)), modified(Logistic(), epsilon)
    x, b = cp.Variable(12), cp.Variable()
    margin = cp.multiply(noisy, X @ x + b)
    terms = {
        "l2": ALPHA * cp.sum_squares(x) / 2,
        "elastic_net": ALPHA * (cp.norm1(x) / 2 + cp.sum_squares(x) / 4),
    }
    limits = {"box": [x >= -1, x <= 1], "ball": [cp.norm2(x[block]) <= 1 for block in BLOCKS]}
    value = cp.sum(cp.logistic(-margin) - loss.tilt * margin) / len(y) + terms.get(penalty, 0.0)
    problem = cp.Problem(cp.Minimize(value), limits.get(penalty, []))
    least = problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    return X, noisy, loss, float(least)


@pytest.mark.parametrize(
    ("penalty", "method"),
    [(penalty, "averaged") for penalty in PENALTIES] + [("l2", "multipliers"), ("elastic_net", "multipliers")],
)
def test_every_stated_gap_covers_the_true_one(penalty: str, method: str) -> None:
    X, noisy, loss, least = certified(penalty, 1.0)
    model = fit(loss, X, noisy, penalty=penalty, method=method)
    assert model.converged_
    lowest, stated = np.inf, 0
    for row in model.trace_:
        lowest = min(lowest, row.objective)
        if np.isfinite(row.gap):
            stated += 1
            assert lowest - least <= row.gap + 1e-7
    assert stated >= 1
    assert lowest - least <= 2e-6


@pytest.mark.parametrize("penalty", PENALTIES)
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), spread=st.sampled_from([0.01, 1.0, 10.0]), shift=st.floats(-3, 3))
def test_no_dual_point_beats_the_optimum(penalty: str, seed: int, spread: float, shift: float) -> None:
    X, noisy, loss, least = certified(penalty, 1.0)
    problem = Problem(loss, get_regularizer(penalty), ALPHA, True, 2, len(noisy), 1e-4)
    assert is_certifiable(problem)
    z = shift + spread * np.random.default_rng(seed).normal(size=len(noisy))
    theta = balanced(problem, loss.grad(z, noisy))
    assert abs(theta.mean()) <= 1e-12 * loss.lipschitz
    terms = [conjugate_terms(problem, (X[:, block] - X[:, block].mean(axis=0)).T @ theta) for block in BLOCKS]
    total = {
        "conjugate": terms[0]["conjugate"] + terms[1]["conjugate"],
        "min_shrink": np.minimum(terms[0]["min_shrink"], terms[1]["min_shrink"]),
    }
    assert lower_bound(problem, noisy, theta, total) <= least + 1e-7 * (1 + abs(least))


def test_balancing_keeps_slopes_in_the_domain_of_the_conjugate() -> None:
    """Far off on one side the intercept's condition is met by giving up part of each slope, never all of it."""
    _, noisy, loss, _ = certified("l2", 1.0)
    problem = Problem(loss, get_regularizer("l2"), ALPHA, True, 2, len(noisy), 1e-4)
    for shift in (-1.0, -0.3, 0.3, 1.0):
        theta = balanced(problem, loss.grad(np.full(len(noisy), shift), noisy))
        assert np.all(-noisy * theta >= loss.least_slope - 1e-12)
        assert np.all(np.isfinite(loss.conjugate(theta, noisy)))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("side", ["far", "edge"])
def test_what_cannot_be_balanced_has_no_bound(side: str, weighted: bool) -> None:
    """Slopes of the rarer label that are all at their least: the other label's cannot be made small enough."""
    labels, loss = lopsided(0.6, 50), modified(Logistic(), 1.0)
    weights = np.where(np.arange(50) % 5 == 0, 0.0, 1.0) if weighted else None
    problem = Problem(loss, get_regularizer("l2"), ALPHA, True, 2, 50, 1e-4, row_weights=weights)
    z = np.full(50, -800.0) if side == "far" else 800.0 * labels
    theta = balanced(problem, loss.grad(z, labels))
    assert abs(theta.sum()) <= 1e-12
    nothing = {"conjugate": np.zeros(1), "min_shrink": np.ones(1)}
    assert lower_bound(problem, labels, theta, nothing) == -math.inf


def test_the_unit_of_a_gap_is_the_loss_of_no_prediction() -> None:
    """Beside an objective that is negative, or zero by chance, no gap would ever be small."""
    X, _, noisy = randomized(600, 0.1)
    loss = modified(Logistic(), 0.1)
    problem = Problem(loss, get_regularizer("l2"), ALPHA, True, 2, 600, 1e-4)
    assert negligible_objective(problem, noisy, best_constant(problem, noisy)) == pytest.approx(math.log(2))
    for method in ("memory", "averaged", "multipliers"):
        model = fit(loss, X, noisy, method=method)
        assert model.trace_[-1].objective < 0
        assert model.trace_[-1].gap <= 1e-6 * max(abs(model.trace_[-1].objective), math.log(2))


def test_a_weighted_run_certifies_as_fast_as_the_same_rows_repeated() -> None:
    X, _, noisy = randomized(600, 1.0)
    times = np.random.default_rng(1).integers(0, 4, 600)
    loss = modified(Logistic(), 1.0)
    for method in ("memory", "averaged", "multipliers"):
        weighted = fit(loss, X, noisy, times.astype(float), method=method)
        repeated = fit(loss, np.repeat(X, times, axis=0), np.repeat(noisy, times), method=method)
        assert [row.objective for row in weighted.trace_] == pytest.approx([row.objective for row in repeated.trace_])
        assert np.allclose([row.gap for row in weighted.trace_], [row.gap for row in repeated.trace_], atol=1e-8)


def test_the_sigmoid_form_is_the_sigmoid_loss_in_another_unit() -> None:
    X, _, noisy = randomized(600, 1.0)
    loss = modified(Sigmoid(), 1.0)
    with pytest.warns(ConvergenceWarning):  # the same iterates, round for round
        ours = fit(loss, X, noisy, tol=0.0, max_rounds=30)
    with pytest.warns(ConvergenceWarning):
        plain = fit(Sigmoid(), X, noisy, alpha=ALPHA / loss.scale, tol=0.0, max_rounds=30)
    np.testing.assert_allclose(ours.coef_, plain.coef_, rtol=1e-6)
    assert fit(loss, X, noisy, tol=1e-2).converged_


# ------------------------------------------------------------------------------------- the truth


def test_the_truth_is_approached_as_rows_grow() -> None:
    """Beside the fit on clean labels the error falls as 1 / sqrt(rows); that of the plain loss stays."""
    ours, plain = [], []
    for rows in (2_000, 32_000, 256_000):
        X, y, noisy = randomized(rows, 1.0)
        clean, _ = pooled(Logistic(), X, y)
        for loss, errors in ((modified(Logistic(), 1.0), ours), (Logistic(), plain)):
            model = fit(loss, X, noisy, method="memory")
            errors.append(float(np.linalg.norm(np.append(model.coef_, model.intercept_) - clean)))
            errors[-1] /= float(np.linalg.norm(clean))
    assert ours[1] < 0.5 * ours[0]
    assert ours[2] < 0.6 * ours[1]
    assert ours[2] < 0.05
    assert min(plain) > 0.4


def test_the_optimum_is_unbiased_to_first_order() -> None:
    """At the fit on clean labels the mean slope over all flips is zero: checked by summing both outcomes."""
    X, y, _ = randomized(2_000, 1.0)
    clean, _ = pooled(Logistic(), X, y)
    z, loss = X @ clean[:-1] + clean[-1], modified(Logistic(), 1.0)
    keep = math.e / (1 + math.e)
    slope = keep * loss.grad(z, y) + (1 - keep) * loss.grad(z, -y)
    assert np.abs(X.T @ slope / len(y) + ALPHA * clean[:-1]).max() < 1e-6
    assert abs(slope.mean()) < 1e-6


# -------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("settings", [{"penalty": "none"}, {"penalty": "l1"}, {"penalty": "nonnegative"}, {"alpha": 0}])
def test_a_penalty_that_does_not_hold_the_loss_is_refused_before_the_run(settings: dict[str, object]) -> None:
    X, _, noisy = randomized(600, 1.0)
    with pytest.raises(InputError, match="no lower bound"):
        fit(modified(Logistic(), 1.0), X, noisy, **settings)


@pytest.mark.parametrize("penalty", ["box", "ball"])
def test_multipliers_refuses_bounds_that_hold_no_step(penalty: str) -> None:
    X, noisy, loss, least = certified(penalty, 1.0)
    with pytest.raises(InputError, match='flat inside its bounds; use method="auto"'):
        fit(loss, X, noisy, penalty=penalty, method="multipliers")
    model = fit(loss, X, noisy, penalty=penalty, parties=12, method="auto")
    assert model.converged_
    if penalty == "box":  # a ball is of each party's columns: with twelve parties it is another problem
        assert objective_of(model, X, noisy) - least <= 2e-6


def lopsided(share: float, rows: int = 1000) -> np.ndarray:
    return np.where(np.arange(rows) < round(share * rows), 1.0, -1.0)


@pytest.mark.parametrize("method", ["memory", "averaged", "multipliers", "sgd"])
@pytest.mark.parametrize("share", [0.2, 0.74])
def test_labels_that_no_intercept_fits_are_refused(method: str, share: float) -> None:
    """With epsilon 1 the share of either label must be between 0.269 and 0.731."""
    X = np.random.default_rng(0).normal(size=(1000, 4))
    with pytest.raises(InputError, match="no intercept is best"):
        fit(modified(Logistic(), 1.0), X, lopsided(share), parties=2, method=method)
    model = fit(modified(Logistic(), 1.0), X, lopsided(share), parties=2, fit_intercept=False)
    assert model.converged_


def test_the_refused_shares_are_those_without_an_optimum() -> None:
    loss = modified(Logistic(), 1.0)
    problem = Problem(loss, get_regularizer("l2"), ALPHA, True, 2, 1000, 1e-4)
    for share in (0.25, 0.265, 0.275, 0.5, 0.725, 0.735, 0.75):
        labels = lopsided(share)
        slopes = [float(loss.grad(np.full(1000, far), labels).sum()) for far in (-50.0, 50.0)]
        if slopes[0] < 0 < slopes[1]:
            constant = best_constant(problem, labels)
            assert abs(loss.grad(np.full(1000, constant), labels).mean()) < 1e-6
        else:
            with pytest.raises(InputError, match=f"{share:.4g} positive, outside 0.2689 to 0.7311"):
                best_constant(problem, labels)
