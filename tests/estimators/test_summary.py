"""Standard errors, tests and intervals against statsmodels on all data in one place, and by hand with a penalty."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from tacit import (
    HorizontalClassifier,
    HorizontalRegressor,
    InputError,
    Privacy,
    VerticalClassifier,
    VerticalRegressor,
)
from tacit.problem.registry import get_loss

ROWS = 300
NONE: dict[str, Any] = {"penalty": "none", "alpha": 0.0, "tol": 1e-13}


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 5)) * [1, 2, 0.5, 1, 3]
    return X, X @ [0.5, -0.2, 0.3, 0.0, 0.1] + 0.3


def peer(kind: str, X: np.ndarray, y: np.ndarray) -> Any:
    table = sm.add_constant(X, prepend=False)
    if kind == "logistic":
        return sm.Logit(y, table).fit(disp=0, tol=1e-12)
    return sm.OLS(y, table).fit() if kind == "squared" else sm.GLM(y, table, family=sm.families.Poisson()).fit()


@pytest.mark.parametrize("kind", ["logistic", "squared", "poisson"])
@pytest.mark.parametrize("split", ["features", "samples"])
def test_everything_is_as_statsmodels_has_it(rows: tuple[np.ndarray, np.ndarray], kind: str, split: str) -> None:
    X, score = rows
    rng = np.random.default_rng(1)
    y = {
        "logistic": (score + rng.logistic(size=ROWS) > 0).astype(int),
        "squared": score + rng.normal(size=ROWS),
        "poisson": rng.poisson(np.exp(score / 2)),
    }[kind]
    vertical, horizontal = (
        (VerticalClassifier, HorizontalClassifier) if kind == "logistic" else (VerticalRegressor, HorizontalRegressor)
    )
    model = (vertical if split == "features" else horizontal)(loss=kind, parties=[2, 3] if split == "features" else 3)
    found, expected = model.set_params(**NONE).fit(X, y).summary(), peer(kind, X, y)
    np.testing.assert_allclose(found.coef, expected.params, atol=1e-6)
    np.testing.assert_allclose(found.error, expected.bse, rtol=1e-6)
    np.testing.assert_allclose(found.statistic, expected.tvalues, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.p, expected.pvalues, atol=1e-6)
    np.testing.assert_allclose(found.intervals(), expected.conf_int(), atol=1e-6)
    np.testing.assert_allclose(found.covariance, expected.cov_params(), atol=1e-6)
    assert found.covers.endswith("(maximum likelihood)")
    assert found.remarks == ()
    if split == "features":
        test = found.test("party 2")
        wald = expected.wald_test(np.eye(6)[2:5], scalar=True)
        assert test.statistic == pytest.approx(float(wald.statistic), rel=1e-6)
        assert test.p == pytest.approx(float(wald.pvalue), rel=1e-5)
        assert found.tests()["party 2"] == test


def test_without_an_intercept(rows: tuple[np.ndarray, np.ndarray]) -> None:
    X, score = rows
    y = score + np.random.default_rng(2).normal(size=ROWS)
    found = VerticalRegressor(**NONE, fit_intercept=False).fit(X, y).summary()
    expected = sm.OLS(y, X).fit()
    np.testing.assert_allclose(found.error, expected.bse, rtol=1e-6)
    assert "intercept" not in found.columns


def test_the_sandwich_of_a_penalty_by_hand(rows: tuple[np.ndarray, np.ndarray]) -> None:
    X, score = rows
    y = (score + np.random.default_rng(3).logistic(size=ROWS) > 0).astype(int)
    model = VerticalClassifier(alpha=0.05, tol=1e-12).fit(X, y)
    found = model.summary()
    table = np.column_stack([X, np.ones(ROWS)])
    p = model.predict_proba(X)[:, 1]
    penalty = np.diag([0.05 * ROWS] * 5 + [0.0])
    information = table.T @ (table * (p * (1 - p))[:, None])
    gradients = table * (p - y)[:, None]
    inverse = np.linalg.inv(information + penalty)
    spread = (gradients - gradients.mean(axis=0)).T @ (gradients - gradients.mean(axis=0))
    left = ROWS - np.trace(inverse @ information)
    np.testing.assert_allclose(found.covariance, inverse @ spread @ inverse * ROWS / left, rtol=1e-6)
    assert "pulled towards 0" in found.covers


def test_robust_errors_of_huber_are_those_of_a_sandwich(rows: tuple[np.ndarray, np.ndarray]) -> None:
    X, score = rows
    y = score + np.random.default_rng(4).standard_t(2, size=ROWS)
    found = VerticalRegressor(loss="huber", **NONE).fit(X, y).summary()
    table, residual = np.column_stack([X, np.ones(ROWS)]), X @ found.coef[:5] + found.coef[5] - y
    loss, y = get_loss("huber"), np.asarray(y)
    g, h = loss.grad(residual + y, y), loss.hess(residual + y, y)
    inverse = np.linalg.inv(table.T @ (table * h[:, None]))
    spread = table.T @ (table * (g**2)[:, None])
    np.testing.assert_allclose(found.covariance, inverse @ spread @ inverse * ROWS / (ROWS - 6), rtol=1e-3)


def test_weights_make_a_sandwich(rows: tuple[np.ndarray, np.ndarray]) -> None:
    X, score = rows
    rng = np.random.default_rng(5)
    y, weights = score + rng.normal(size=ROWS), rng.uniform(0.5, 2, size=ROWS)
    expected = sm.WLS(y, sm.add_constant(X, prepend=False), weights=weights).fit(cov_type="HC0")
    for model in (VerticalRegressor(**NONE), HorizontalRegressor(**NONE, parties=[ROWS], random_state=0)):
        found = model.fit(X, y, sample_weight=weights).summary()
        np.testing.assert_allclose(found.error, expected.bse * np.sqrt(ROWS / (ROWS - 6)), rtol=1e-4)


def test_curves_have_bands_and_columns_tests() -> None:
    rng = np.random.default_rng(6)
    table = pd.DataFrame({"age": rng.uniform(20, 80, ROWS), "noise": rng.normal(size=ROWS)})
    table["city"] = rng.choice(["Bern", "Basel"], ROWS)
    y = np.sin(table["age"] / 10) + rng.normal(size=ROWS) / 3
    model = VerticalRegressor(terms="spline", alpha=1e-5, parties=[["age"], ["noise", "city"]], tol=1e-10).fit(table, y)
    found = model.summary()
    tests = found.column_tests()
    assert tests["party 1", "age"].p < 1e-6
    assert tests["party 2", "noise"].p > 1e-4
    cells, value, low, high = found.curves()["party 1"]["age"]
    truth = np.sin(cells / 10) - np.mean(np.sin(table["age"] / 10))
    inside = (low < truth) & (truth < high)
    assert np.all(low < value)
    assert inside.mean() > 0.8
    assert list(found.of("party 2").party_names) == ["party 2"]
    assert set(found.of("party 2").curves()) == {"party 2"}
    assert "does a column add anything?" in str(found)
    frame = found.to_frame()
    assert list(frame.columns) == ["party", "column", "coef", "standard_error", "statistic", "p", "low", "high"]


def test_a_pickle_holds_no_row(rows: tuple[np.ndarray, np.ndarray]) -> None:
    X, score = rows
    model = VerticalRegressor(**NONE).fit(X, score)
    copied = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copied.predict(X), model.predict(X))
    assert X[3, 2].tobytes() not in pickle.dumps(model)
    for other in (copied, copy.deepcopy(model)):
        with pytest.raises(InputError, match="fit again"):
            other.summary()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"penalty": "l1", "alpha": 0.01}, "which sets coefficients to a limit"),
        ({"penalty": "nonnegative"}, "which sets coefficients to a limit"),
        ({"loss": "hinge"}, "no standard errors for loss"),
        ({"privacy": Privacy(epsilon=2, delta=1e-5, row_norm=5)}, "a private model has none"),
        ({"privacy": Privacy(label_epsilon=2)}, "a private model has none"),
    ],
)
def test_refusals_are_one_line(rows: tuple[np.ndarray, np.ndarray], settings: dict[str, Any], words: str) -> None:
    X, score = rows
    model = VerticalClassifier(**settings).fit(X, score > 0.2)
    with pytest.raises(InputError, match=words) as found:
        model.summary()
    assert "\n" not in str(found.value)


def test_columns_that_depend_on_each_other_and_early_stops(rows: tuple[np.ndarray, np.ndarray]) -> None:
    X, score = rows
    y = score + np.random.default_rng(7).normal(size=ROWS)
    twins = np.column_stack([X, X[:, 0]])
    with pytest.raises(InputError, match="depend on each other, "):
        VerticalRegressor(**NONE).fit(twins, y).summary()
    assert np.isfinite(VerticalRegressor(alpha=0.01).fit(twins, y).summary().error).all()
    with pytest.raises(InputError, match="too few for"):
        VerticalRegressor(penalty="none", parties=2).fit(X[:6], y[:6]).summary()
    model = VerticalRegressor(**NONE).fit(X, y)
    model.coef_by_party_[0] = model.coef_by_party_[0] + 1.0
    with pytest.raises(InputError, match="standard errors away from the optimum"):
        model.summary()
