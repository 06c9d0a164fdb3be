"""The estimators that choose alpha: the same choice and losses as fits anew, fewer rounds, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.utils.estimator_checks import check_estimator

from tacit import (
    InputError,
    Privacy,
    VerticalClassifier,
    VerticalClassifierCV,
    VerticalRegressor,
    VerticalRegressorCV,
)
from tacit.data.holdout import deal_folds
from tacit.problem.alphas import CURVE_ALPHAS
from tacit.problem.registry import get_loss

ALPHAS = (1.0, 0.1, 0.01, 0.001)
Data = tuple[np.ndarray, np.ndarray]


@pytest.fixture(scope="module")
def cancer() -> Data:
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X), np.where(y > 0, 1.0, -1.0)


@pytest.fixture(scope="module")
def diabetes() -> Data:
    X, y = load_diabetes(return_X_y=True)
    return scale(X), y / 50


def anew(model: Any, X: Any, y: np.ndarray, splits: Any, weights: np.ndarray | None = None) -> tuple[Any, Any]:
    """Mean losses of rows left out, and rounds, by a fit from zero to copied rows for each alpha and fold."""
    losses, rounds = np.zeros((len(ALPHAS), len(splits))), np.zeros((len(ALPHAS), len(splits)), dtype=int)
    weights = np.ones(len(y)) if weights is None else weights
    for i, alpha in enumerate(ALPHAS):
        for k, (seen, left_out) in enumerate(splits):
            one = clone(model).set_params(alpha=alpha).fit(X[seen], y[seen], sample_weight=weights[seen])
            values = get_loss(model.loss).value(one._scores(X[left_out]), y[left_out])
            losses[i, k] = np.average(values, weights=weights[left_out])
            rounds[i, k] = one.n_rounds_
    return losses, rounds


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize("kind", [VerticalClassifierCV, VerticalRegressorCV], ids=["classifier", "regressor"])
def test_scikit_learn_s_own_checks(kind: type) -> None:
    results = check_estimator(kind(alphas=3, cv=2), on_fail=None)  # of 130 fits: few runs in each
    failed = [(r["check_name"], r["exception"]) for r in results if r["status"] not in ("passed", "skipped")]
    assert failed == []
    assert {r["check_name"] for r in results if r["status"] == "skipped"} <= {"check_array_api_input"}
    assert len(results) > 50


# --- the same as fits anew ---------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "squared", "huber"])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_one_run_that_follows_alpha_ends_where_fits_anew_end(cancer, diabetes, loss, fit_intercept) -> None:
    two_classes = loss in ("logistic", "squared_hinge")
    X, y = cancer if two_classes else diabetes
    search, single = (
        (VerticalClassifierCV, VerticalClassifier) if two_classes else (VerticalRegressorCV, VerticalRegressor)
    )
    settings: Any = {"loss": loss, "fit_intercept": fit_intercept, "parties": 3, "tol": 1e-9, "max_rounds": 500}
    splits = deal_folds(3, len(y), 0)
    model = search(alphas=ALPHAS, cv=splits, **settings).fit(X, y)
    losses, rounds = anew(single(**settings), X, y, splits)
    np.testing.assert_allclose(model.loss_path_, losses, rtol=1e-4)
    assert model.alpha_ == ALPHAS[int(np.argmin(losses.mean(axis=1)))]
    assert model.rounds_path_.sum() < 0.8 * rounds.sum()
    np.testing.assert_array_equal(model.coef_, single(alpha=model.alpha_, **settings).fit(X, y).coef_)


@pytest.mark.parametrize(
    "settings", [{"loss": "hinge"}, {"penalty": "l1"}, {"method": "averaged", "rho": 0.05}], ids=["hinge", "l1", "rho"]
)
def test_methods_that_cannot_follow_fit_anew(cancer, settings) -> None:
    X, y = cancer
    splits = deal_folds(2, len(y), 1, y)
    model = VerticalClassifierCV(alphas=ALPHAS, cv=splits, max_rounds=2000, **settings).fit(X, y)
    losses, rounds = anew(VerticalClassifier(max_rounds=2000, **settings), X, y, splits)
    np.testing.assert_allclose(model.loss_path_, losses, rtol=5e-3)
    np.testing.assert_allclose(model.rounds_path_ - 1, rounds, rtol=0.1)  # one is for the scores of the rows left out


def test_agrees_with_scikit_learn_on_pooled_rows(cancer, diabetes) -> None:
    X, y = cancer
    splits = list(StratifiedKFold(4).split(X, y))
    model = VerticalClassifierCV(alphas=ALPHAS, cv=StratifiedKFold(4), tol=1e-10).fit(X, y)
    for i, alpha in enumerate(ALPHAS):
        for k, (seen, left_out) in enumerate(splits):
            theirs = LogisticRegression(C=1 / (alpha * len(seen)), tol=1e-10, max_iter=5000).fit(X[seen], y[seen])
            loss = np.logaddexp(0, -y[left_out] * theirs.decision_function(X[left_out])).mean()
            assert model.loss_path_[i, k] == pytest.approx(loss, rel=1e-4)
    X, y = diabetes
    seen, left_out = np.arange(300), np.arange(300, len(y))
    ridge = VerticalRegressorCV(alphas=[0.05], cv=[(seen, left_out)], tol=1e-12).fit(X, y)
    theirs = Ridge(alpha=0.05 * len(seen)).fit(X[seen], y[seen])
    assert ridge.loss_path_[0, 0] == pytest.approx(0.5 * np.mean((theirs.predict(X[left_out]) - y[left_out]) ** 2))


def test_more_columns_than_rows() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 200))
    y = np.where(X[:, :5].sum(axis=1) + rng.normal(size=60) > 0, 1.0, -1.0)
    splits = deal_folds(3, 60, 0)
    model = VerticalClassifierCV(alphas=ALPHAS, cv=splits, tol=1e-9).fit(X, y)
    losses, rounds = anew(VerticalClassifier(tol=1e-9), X, y, splits)
    np.testing.assert_allclose(model.loss_path_, losses, rtol=1e-4)
    assert model.rounds_path_.sum() < rounds.sum()


def test_weights_count_in_fits_and_in_losses(cancer) -> None:
    X, y = cancer
    rng = np.random.default_rng(0)
    weights = rng.integers(0, 4, len(y)).astype(float)
    splits = deal_folds(3, len(y), 0)
    model = VerticalClassifierCV(alphas=ALPHAS, cv=splits, tol=1e-9).fit(X, y, sample_weight=weights)
    losses, _ = anew(VerticalClassifier(tol=1e-9), X, y, splits, weights)
    np.testing.assert_allclose(model.loss_path_, losses, rtol=1e-4)
    np.testing.assert_allclose(model.search_.sizes, [weights[left_out].sum() for _, left_out in splits])
    held = weights > 0  # rows that weigh nothing are in no fold
    some = VerticalClassifierCV(alphas=ALPHAS, random_state=3).fit(X, y, sample_weight=weights)
    without = VerticalClassifierCV(alphas=ALPHAS, random_state=3).fit(X[held], y[held], sample_weight=weights[held])
    np.testing.assert_allclose(some.loss_path_, without.loss_path_, rtol=1e-3)


def test_masks_change_nothing(cancer) -> None:
    X, y = cancer
    plain = VerticalClassifierCV(alphas=ALPHAS, parties=3, random_state=0).fit(X, y)
    masked = clone(plain).set_params(secure_aggregation=True).fit(X, y)
    np.testing.assert_allclose(masked.loss_path_, plain.loss_path_, rtol=1e-5)
    assert masked.alpha_ == plain.alpha_


def test_every_kind_of_table(cancer) -> None:
    X, y = cancer
    table = VerticalClassifierCV(alphas=ALPHAS, parties=[10, 20], random_state=0).fit(X, y)
    frames = {"bank": pd.DataFrame(X[:, :10]).add_prefix("b"), "shop": pd.DataFrame(X[:, 10:]).add_prefix("s")}
    named = clone(table).fit(frames, y)
    thin = clone(table).fit([sparse.csr_array(X[:, :10]), sparse.csr_array(X[:, 10:])], y)
    for other in (named, thin):
        np.testing.assert_allclose(other.loss_path_, table.loss_path_, rtol=1e-4)
    np.testing.assert_allclose(named.predict_proba(frames), table.predict_proba(X), atol=1e-6)
    assert make_pipeline(StandardScaler(), clone(table)).fit(X, y).score(X, y) > 0.97


# --- what it says ------------------------------------------------------------------------------------


def test_counts_every_round_and_every_byte(cancer) -> None:
    X, y = cancer
    model = VerticalClassifierCV(alphas=ALPHAS, cv=3, random_state=0).fit(X, y)
    single = VerticalClassifier(alpha=model.alpha_, random_state=0).fit(X, y)
    assert model.n_rounds_ == model.rounds_path_.sum(axis=0).max() + single.n_rounds_
    assert model.traffic_["rounds"] == model.n_rounds_
    down = model.traffic_["bytes_down"] - single.traffic_["bytes_down"]
    assert down >= 2 * 8 * len(y) * model.rounds_path_.sum()  # a number per row to each of two parties
    assert len(model.trace_) == single.n_rounds_
    assert model.search_.traffic["rounds"] == model.rounds_path_.sum(axis=0).max()


def test_one_standard_error_takes_a_larger_alpha(cancer) -> None:
    X, y = cancer
    best = VerticalClassifierCV(random_state=0).fit(X, y)
    careful = VerticalClassifierCV(random_state=0, rule="one-standard-error").fit(X, y)
    np.testing.assert_array_equal(best.loss_path_, careful.loss_path_)
    means = best.search_.mean_losses
    at = int(np.argmin(means))
    bar = means[at] + best.loss_path_[at].std(ddof=1) / np.sqrt(5)
    assert careful.alpha_ == best.alphas_[means <= bar].max() > best.alpha_


def test_folds_come_from_the_seed(cancer) -> None:
    X, y = cancer
    one, same, other = (VerticalClassifierCV(alphas=[0.1, 0.01], random_state=s).fit(X, y) for s in (0, 0, 1))
    np.testing.assert_array_equal(one.loss_path_, same.loss_path_)
    assert np.abs(one.loss_path_ - other.loss_path_).max() > 1e-3


def test_grid_reaches_down_with_the_rows(cancer) -> None:
    X, y = cancer
    model = VerticalClassifierCV(alphas=4, cv=2, random_state=0).fit(X, y)
    np.testing.assert_allclose(model.alphas_, np.geomspace(1, 0.01 / len(y), 4))
    assert VerticalClassifierCV(alphas=[0.1, 1, 0.1], cv=2, random_state=0).fit(X, y).alphas_.tolist() == [1.0, 0.1]


def test_remarks_on_the_end_of_the_grid(cancer) -> None:
    X, y = cancer
    assert "smaller" in VerticalClassifierCV(alphas=[10, 5, 1], cv=2, random_state=0).fit(X, y).search_.remark
    assert VerticalClassifierCV(alphas=[10, 1e-2, 1e-5], cv=2, random_state=0).fit(X, y).search_.remark == ""


def test_says_that_fits_did_not_converge(cancer) -> None:
    X, y = cancer
    with pytest.warns(ConvergenceWarning) as caught:
        VerticalClassifierCV(alphas=[1e-2, 1e-4], cv=2, max_rounds=2).fit(X, y)
    assert any("4 of the 4 fits of the search did not converge" in str(one.message) for one in caught)


# --- what it refuses ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"privacy": Privacy(epsilon=1.0)}, "every fit it tries is a release of its own"),
        ({"privacy": Privacy(epsilon=None, label_epsilon=1.0)}, "give one alpha that these rows did not choose"),
        ({"penalty": "none"}, "penalty='none' has no alpha to choose"),
        ({"penalty": "ball"}, "has no alpha to choose"),
        ({"rule": "luck"}, "rule='luck' is unknown: choose one of best, one-standard-error"),
        ({"alphas": 1}, "give a number from 2 to 1000"),
        ({"alphas": []}, "give how many to try"),
        ({"alphas": "many"}, "give how many to try"),
        ({"alphas": [0.1, 0.0]}, "alphas holds 0.0"),
        ({"alphas": [0.1, np.nan]}, "alphas holds nan"),
        ({"cv": 1}, "cv=1 is not allowed"),
        ({"cv": True}, "cv=True is not allowed"),
        ({"cv": 600}, "cv=600 needs at least 600 rows"),
        ({"cv": None}, "cv=None is not allowed"),
        ({"cv": 2.5}, "cv does not split these 569 rows"),
        ({"cv": [([0, 1], [700])]}, "cv does not split these 569 rows"),
        ({"cv": [([], [0])]}, "no row of any weight to train on"),
        ({"cv": [([0, 1], [])]}, "have weight zero"),
    ],
)
def test_refuses(cancer, settings, reason) -> None:
    X, y = cancer
    model = VerticalClassifierCV(**settings)
    with pytest.raises(InputError, match=reason.replace("(", r"\(")) as refused:
        model.fit(X, y)
    assert "\n" not in str(refused.value)
    assert not hasattr(model, "alpha_")


# --- lines or curves ---------------------------------------------------------------------------------


def bent(rows: int = 500) -> tuple[Any, Any, Any]:
    """Numbers, labels that bend in them, and labels that do not."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 4)) * [1, 50, 1, 1]
    noise = rng.logistic(size=rows)
    return X, 3 * X[:, 0] ** 2 - 3 + X[:, 2] + noise > 0, X @ [1, 0.02, 0, -1] + noise > 0


def test_auto_takes_curves_where_they_are_better_by_more_than_chance() -> None:
    X, bends, straight = bent()
    for y, expected in ((bends, "spline"), (straight, "linear")):
        model = VerticalClassifierCV(terms="auto", cv=4, random_state=0).fit(X, y)
        assert model.terms_ == expected
        found = model.search_
        assert found.linear.alphas == found.curve.alphas == tuple(model.alphas_) == CURVE_ALPHAS
        lines, curves = (own.losses[own.alphas.index(own.alpha)] for own in (found.linear, found.curve))
        gains = lines - curves  # folds of one size, so that the plain standard error is the oracle
        assert found.gain == pytest.approx((gains.mean(), gains.std(ddof=1) / 2), rel=1e-2)
        assert (found.gain[0] > found.gain[1]) == (expected == "spline")
        last = model.n_rounds_ - found.linear.rounds - found.curve.rounds
        assert last == len(model.trace_)
        assert model.traffic_["bytes_up"] > found.linear.bytes_up + found.curve.bytes_up


def test_the_model_is_that_of_one_fit_at_what_was_taken() -> None:
    X, bends, _ = bent()
    model = VerticalClassifierCV(terms="auto", cv=3, random_state=0).fit(X, bends)
    single = VerticalClassifier(terms="spline", alpha=model.alpha_, random_state=0).fit(X, bends)
    np.testing.assert_array_equal(model.coef_, single.coef_)
    alone = VerticalClassifierCV(terms="spline", cv=3, random_state=0).fit(X, bends)
    assert alone.alpha_ == model.alpha_
    assert alone.terms_ == "spline"
    np.testing.assert_array_equal(alone.loss_path_, model.loss_path_)
    y = X[:, 0] ** 2
    numbers = VerticalRegressorCV(terms="auto", cv=3, random_state=0).fit(X, y)
    assert numbers.terms_ == "spline"
    assert numbers.score(X, y) > 0.95


def test_where_no_column_bends_there_is_nothing_to_choose() -> None:
    rng = np.random.default_rng(1)
    X = rng.integers(0, 2, (200, 3)).astype(float)
    model = VerticalClassifierCV(terms="auto", cv=3, random_state=0).fit(X, X[:, 0] + rng.normal(size=200) > 0.5)
    assert (model.terms_, model.search_.curve) == ("linear", None)


def test_lines_alone_are_searched_as_ever() -> None:
    X, _, straight = bent()
    model = VerticalClassifierCV(cv=3, random_state=0).fit(X, straight)
    assert (model.terms_, len(model.alphas_), model.encoders_) == ("linear", 10, {})
    ten = VerticalClassifierCV(alphas=10, cv=3, random_state=0).fit(X, straight)
    np.testing.assert_array_equal(model.coef_, ten.coef_)
    with pytest.raises(InputError, match="terms='wavy' is unknown: choose one of linear, spline, auto"):
        VerticalClassifierCV(terms="wavy").fit(X, straight)
    with pytest.raises(InputError, match="X is sparse, which is used as it is"):
        VerticalClassifierCV(terms="auto").fit(sparse.csr_array(X), straight)
