"""Certificates are true: no dual point gives a bound above the optimum, and every stated gap covers the true one."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit import VerticalClassifier, VerticalRegressor
from tacit.problem.registry import LOSSES, get_loss, get_regularizer
from tacit.solvers.base import Problem
from tacit.solvers.duality import balanced, conjugate_terms, is_certifiable, lower_bound
from tests.conftest import correlated
from tests.oracles.convex import optimum

CONVEX = sorted(name for name, loss in LOSSES.items() if loss.convex)
CERTIFIED = ["l2", "l1", "elastic_net", "box", "ball"]
BLOCKS = [np.arange(0, 4), np.arange(4, 12)]


@cache
def solved(loss: str, penalty: str) -> tuple[np.ndarray, np.ndarray, float]:
    X, y = correlated("amounts" if loss == "gamma" else get_loss(loss).task, rows=60, columns=12, seed=3)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Solution may be inaccurate")  # by less than what is asked below
        return X, y, optimum(loss, penalty, X, y, 1e-2, BLOCKS)


@pytest.mark.parametrize("penalty", CERTIFIED)
@pytest.mark.parametrize("loss", CONVEX)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6), spread=st.sampled_from([0.01, 1.0, 10.0]))
def test_no_dual_point_beats_the_optimum(loss: str, penalty: str, seed: int, spread: float) -> None:
    X, y, best = solved(loss, penalty)
    problem = Problem(get_loss(loss), get_regularizer(penalty), 1e-2, True, 2, len(y), 1e-4)
    assert is_certifiable(problem)
    z = spread * np.random.default_rng(seed).normal(size=len(y))
    theta = balanced(problem, problem.loss.grad(z, y))
    assert abs(theta.mean()) <= 1e-12 * max(1.0, np.abs(theta).max())
    terms = [conjugate_terms(problem, (X[:, block] - X[:, block].mean(axis=0)).T @ theta) for block in BLOCKS]
    total = {
        "conjugate": terms[0]["conjugate"] + terms[1]["conjugate"],
        "min_shrink": np.minimum(terms[0]["min_shrink"], terms[1]["min_shrink"]),
    }
    assert lower_bound(problem, y, theta, total) <= best + 1e-7 * (1 + abs(best))


@pytest.mark.parametrize("method", ["averaged", "memory"])
@pytest.mark.parametrize("loss", ["logistic", "squared", "poisson", "squared_hinge"])
def test_every_stated_gap_covers_the_true_one(loss: str, method: str) -> None:
    X, y, best = solved(loss, "l2")
    estimator = VerticalClassifier if get_loss(loss).task == "classification" else VerticalRegressor
    model = estimator(loss=loss, alpha=1e-2, parties=[4, 8], tol=1e-6, method=method, max_rounds=500).fit(X, y)
    lowest, stated = np.inf, 0
    for row in model.trace_:
        lowest = min(lowest, row.objective)
        if np.isfinite(row.gap):
            stated += 1
            assert lowest - best <= row.gap + 1e-7
    assert stated >= 1
    assert lowest - best <= 1e-6 * best + 1e-7
