"""Every loss with every penalty, from two to thirty parties whose blocks share strong directions, on the defaults."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest

from tacit import VerticalClassifier, VerticalRegressor
from tacit.problem.registry import LOSSES, REGULARIZERS, get_loss, get_regularizer
from tests.conftest import correlated
from tests.oracles.convex import optimum

ALPHA, TOL, MAX_ROUNDS = 1e-3, 1e-5, 300
CONVEX = sorted(name for name in LOSSES if get_loss(name).convex)
SMOOTH = [name for name in CONVEX if get_loss(name).smooth]
STRONG = sorted(name for name in REGULARIZERS if get_regularizer(name).strong_convexity > 0)


@cache
def data(loss: str) -> tuple[np.ndarray, np.ndarray]:
    """A column for each of thirty parties; those of three parties are constant."""
    return correlated("amounts" if loss == "gamma" else get_loss(loss).task, rows=120, columns=30)


@cache
def least(loss: str, penalty: str, parties: int) -> float:
    X, y = data(loss)
    blocks = np.array_split(np.arange(X.shape[1]), parties)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Solution may be inaccurate")  # by less than what is asked below
        return optimum(loss, penalty, X, y, ALPHA, blocks)


def fit(
    loss: str, penalty: str, parties: int, method: str = "auto", tol: float = TOL
) -> VerticalClassifier | VerticalRegressor:
    X, y = data(loss)
    kind = VerticalClassifier if get_loss(loss).task == "classification" else VerticalRegressor
    columns = [part.tolist() for part in np.array_split(np.arange(X.shape[1]), parties)]
    model = kind(
        loss=loss,
        penalty=penalty,
        parties=columns,
        method=method,
        alpha=ALPHA,
        tol=tol,
        max_rounds=MAX_ROUNDS,
        **({"dispersion": 1.0} if loss == "negative_binomial" else {}),
    )
    return model.fit(X, y)


def objective(model: VerticalClassifier | VerticalRegressor) -> float:
    """From the coefficients alone, as nobody in a run could compute it."""
    loss = get_loss(model.loss)
    X, y = data(model.loss)
    scores = X @ np.ravel(model.coef_) + float(np.ravel(model.intercept_)[0])
    penalty = get_regularizer(model.penalty)
    return float(loss.value(scores, y).mean()) + ALPHA * sum(penalty.value(coef) for coef in model.coef_by_party_)


def check_optimal(model: VerticalClassifier | VerticalRegressor, best: float) -> None:
    assert model.converged_
    found = objective(model)
    size = max(abs(best), 1e-2)  # so that 1e-4 of it is 1e-6 where the optimum is nearly zero
    assert -1e-7 * size <= found - best <= 1e-4 * size
    assert min(row.objective for row in model.trace_) == pytest.approx(found, rel=1e-9)
    for row in model.trace_:
        assert row.gap >= row.objective - best - 1e-7 * size  # a certificate is never wrong


@pytest.mark.parametrize("penalty", sorted(REGULARIZERS))
@pytest.mark.parametrize("loss", CONVEX)
def test_the_default_reaches_the_pooled_optimum(loss: str, penalty: str) -> None:
    for parties in (30, 10, 3, 2):
        check_optimal(fit(loss, penalty, parties), least(loss, penalty, parties if penalty == "ball" else 1))


@pytest.mark.parametrize("penalty", STRONG)
@pytest.mark.parametrize("loss", SMOOTH)
def test_averaging_reaches_the_pooled_optimum(loss: str, penalty: str) -> None:
    for parties in (2, 10):
        check_optimal(fit(loss, penalty, parties, "averaged"), least(loss, penalty, 1))


@pytest.mark.parametrize("penalty", sorted(set(REGULARIZERS) - {"group_lasso"}))
@pytest.mark.parametrize("loss", sorted(set(LOSSES) - set(CONVEX)))
def test_without_convexity_the_default_reaches_a_stationary_point(loss: str, penalty: str) -> None:
    _, y = data(loss)
    start = float(get_loss(loss).value(np.zeros_like(y), y).mean())
    for parties in (2, 3, 10, 30):
        model = fit(loss, penalty, parties, tol=1e-3)  # of the root of the measure below
        assert model.converged_
        assert objective(model) < start
        assert model.trace_[-1].stationarity <= 1e-6 * model.trace_[0].stationarity
