"""Families of regression against scikit-learn and statsmodels on pooled data: 2 and 5 parties, and a graph."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import statsmodels.api as sm
from sklearn.linear_model import (
    GammaRegressor,
    LogisticRegression,
    PoissonRegressor,
    QuantileRegressor,
    TweedieRegressor,
)
from sklearn.metrics import mean_poisson_deviance

from tacit import (
    HorizontalClassifier,
    HorizontalRegressor,
    Privacy,
    VerticalClassifier,
    VerticalRegressor,
    VerticalRegressorCV,
)
from tacit.errors import InputError
from tacit.problem.registry import get_loss
from tests.oracles.convex import LOSSES

ROWS, COLUMNS, ALPHA = 200, 6, 1e-2
TIGHT = {"alpha": ALPHA, "tol": 1e-13}
LOG = ["poisson", "gamma", "tweedie", "negative_binomial"]


def rows(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(ROWS, COLUMNS))
    return X, 0.5 + X @ rng.normal(0.0, 0.3, COLUMNS), rng


def labels(loss: str, score: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    mean = np.exp(score)
    if loss == "gamma":
        return rng.gamma(2.0, mean / 2)
    if loss == "tweedie":
        return np.array(
            [rng.gamma(2.0, m / 2, count).sum() for m, count in zip(mean, rng.poisson(1.0, ROWS), strict=True)]
        )
    return rng.poisson(mean * rng.gamma(2.0, 0.5, ROWS)).astype(float)


def fitters(**more: Any) -> list[Any]:
    """Two and five parties, and a graph."""
    return [
        VerticalRegressor(parties=2, max_rounds=500, **TIGHT, **more),
        VerticalRegressor(parties=5, max_rounds=500, **TIGHT, **more),
        HorizontalRegressor(parties=4, graph="ring", random_state=0, **TIGHT, **more),
    ]


PEERS = {
    "poisson": lambda: PoissonRegressor(alpha=ALPHA, tol=1e-10, max_iter=10_000),
    "gamma": lambda: GammaRegressor(alpha=ALPHA, tol=1e-10, max_iter=10_000),
    "tweedie": lambda: TweedieRegressor(power=1.7, link="log", alpha=ALPHA, tol=1e-10, max_iter=10_000),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", sorted(PEERS))
def test_a_family_equals_scikit_learn(loss: str, weighted: bool) -> None:
    X, score, rng = rows()
    y, weights = labels(loss, score, rng), rng.uniform(0.2, 3.0, ROWS) if weighted else None
    peer = PEERS[loss]().fit(X, y, sample_weight=weights)
    for model in fitters(loss=loss, **({"power": 1.7} if loss == "tweedie" else {})):
        model.fit(X, y, sample_weight=weights)
        np.testing.assert_allclose(model.coef_, peer.coef_, atol=1e-6)
        np.testing.assert_allclose(model.intercept_, peer.intercept_, atol=1e-6)
        np.testing.assert_allclose(model.predict(X), peer.predict(X), rtol=1e-5)


@pytest.mark.parametrize("quantile", [0.2, 0.5, 0.9])
def test_quantiles_equal_scikit_learn(quantile: float) -> None:
    X, score, rng = rows()
    y, weights = score + rng.standard_t(3, ROWS), rng.uniform(0.2, 3.0, ROWS)
    for own in (None, weights):
        peer = QuantileRegressor(quantile=quantile, alpha=ALPHA).fit(X, y, sample_weight=own)
        for parties in (2, 5):
            model = VerticalRegressor(
                "quantile", penalty="l1", parties=parties, quantile=quantile, max_rounds=2000, alpha=ALPHA, tol=1e-9
            ).fit(X, y, sample_weight=own)
            np.testing.assert_allclose(model.coef_, peer.coef_, atol=1e-6)
            np.testing.assert_allclose(model.intercept_, peer.intercept_, atol=1e-6)


def family(loss: str) -> Any:
    return {
        "poisson": sm.families.Poisson(),
        "gamma": sm.families.Gamma(sm.families.links.Log()),
        "tweedie": sm.families.Tweedie(sm.families.links.Log(), var_power=1.5),
        "negative_binomial": sm.families.NegativeBinomial(alpha=0.7),
        "squared": sm.families.Gaussian(),
    }[loss]


@pytest.mark.parametrize("loss", [*LOG, "squared"])
def test_offsets_and_exposure_equal_statsmodels(loss: str) -> None:
    X, score, rng = rows(1)
    offset, exposure, weights = rng.normal(0, 0.4, ROWS), rng.uniform(0.3, 4.0, ROWS), rng.uniform(0.5, 2.0, ROWS)
    counts = loss != "squared"
    y = labels(loss, score + offset + np.log(exposure), rng) if counts else score + offset + rng.normal(size=ROWS)
    given = {"offset": offset, **({"exposure": exposure} if counts else {})}
    total = offset + np.log(exposure) if counts else offset
    peer = sm.GLM(y, sm.add_constant(X), family(loss), offset=total, freq_weights=weights).fit(tol=1e-13, maxiter=500)
    more = {"dispersion": 0.7} if loss == "negative_binomial" else {}
    for model in fitters(loss=loss, **more):
        model.set_params(penalty="none").fit(X, y, sample_weight=weights, **given)
        np.testing.assert_allclose(model.intercept_, peer.params[0], atol=1e-6)
        np.testing.assert_allclose(model.coef_, peer.params[1:], atol=1e-6)
        np.testing.assert_allclose(model.predict(X, **given), peer.fittedvalues, rtol=1e-5)
        rate = np.exp(sm.add_constant(X) @ peer.params) if counts else sm.add_constant(X) @ peer.params
        np.testing.assert_allclose(model.predict(X), rate, rtol=1e-5)


def test_the_dispersion_is_estimated_as_by_statsmodels() -> None:
    X, score, rng = rows(2)
    y, exposure = labels("negative_binomial", score, rng), rng.uniform(0.5, 2.0, ROWS)
    plain = sm.NegativeBinomial(y, sm.add_constant(X)).fit(disp=0, method="bfgs", gtol=1e-9, maxiter=500)
    exposed = sm.NegativeBinomial(y, sm.add_constant(X), exposure=exposure).fit(
        disp=0, method="bfgs", gtol=1e-9, maxiter=500
    )
    for peer, given in ((plain, None), (exposed, exposure)):
        for model in fitters(loss="negative_binomial"):
            model.set_params(penalty="none").fit(X, y, exposure=given)
            assert model.dispersion_ == pytest.approx(peer.params[-1], rel=1e-6)
            np.testing.assert_allclose(model.coef_, peer.params[1:-1], atol=1e-6)
            np.testing.assert_allclose(model.intercept_, peer.params[0], atol=1e-6)


def test_counts_that_vary_too_little_are_told() -> None:
    X = np.arange(20.0)[:, None]
    with pytest.warns(UserWarning, match=r"vary no more than Poisson counts: use loss='poisson'"):
        VerticalRegressor("negative_binomial", parties=1).fit(X, np.full(20, 3.0))


@pytest.mark.parametrize("loss", ["logistic", "hinge", "absolute", "huber"])
def test_offsets_of_other_losses_reach_the_pooled_optimum(loss: str) -> None:
    X, score, rng = rows(3)
    offset, classes = rng.normal(0, 1.0, ROWS), loss in ("logistic", "hinge")
    number = score + offset + rng.logistic(size=ROWS)
    y = np.where(number > 0, 1.0, -1.0) if classes else number
    w, b = cp.Variable(COLUMNS), cp.Variable()
    value = LOSSES[loss](X @ w + b + offset, y) / ROWS + ALPHA / 2 * cp.sum_squares(w)
    best = cp.Problem(cp.Minimize(value)).solve(solver=cp.CLARABEL)
    for parties in (2, 5):
        kind = VerticalClassifier if classes else VerticalRegressor
        model = kind(loss, parties=parties, alpha=ALPHA, tol=1e-8, max_rounds=2000).fit(X, y, offset=offset)
        at = (model.decision_function if classes else model.predict)(X, offset=offset)
        coef = np.ravel(model.coef_)
        assert get_loss(loss).value(at, y).mean() + ALPHA / 2 * coef @ coef == pytest.approx(best, abs=1e-7)


@pytest.mark.parametrize("weight", ["balanced", {"yes": 3.0}])
def test_class_weights_equal_scikit_learn(weight: Any) -> None:
    X, score, rng = rows(4)
    y = np.where(score + rng.logistic(size=ROWS) > 1.5, "yes", "no")
    own = rng.uniform(0.5, 2.0, ROWS)
    peer = LogisticRegression(class_weight=weight, tol=1e-12, max_iter=5000)
    kinds = {"no": 1.0, "yes": 3.0}
    if weight == "balanced":  # by weight
        kinds = {kind: own.sum() / (2 * own[y == kind].sum()) for kind in ("no", "yes")}
    total = float(own @ np.array([kinds[label] for label in y]))
    peer.set_params(C=1 / (ALPHA * total)).fit(X, y, sample_weight=own)
    models: list[Any] = [VerticalClassifier(parties=parties, max_rounds=500, **TIGHT) for parties in (2, 5)]
    models.append(HorizontalClassifier(parties=3, graph="ring", random_state=0, **TIGHT))
    for model in models:
        model.set_params(class_weight=weight).fit(X, y, sample_weight=own)
        np.testing.assert_allclose(model.coef_, peer.coef_, atol=1e-6)
        np.testing.assert_allclose(model.intercept_, peer.intercept_, atol=1e-6)


def test_costs_move_the_threshold_of_decisions() -> None:
    X, score, rng = rows(5)
    y = score + rng.logistic(size=ROWS) > 1.5
    for kind in (VerticalClassifier, HorizontalClassifier):
        plain, costly = (kind(parties=2, costs=costs) for costs in (None, {"false_positive": 1, "false_negative": 5}))
        plain.fit(X, y)
        costly.fit(X, y)
        positive = costly.predict_proba(X)[:, 1]
        np.testing.assert_array_equal(costly.predict(X), positive > 1 / 6)
        np.testing.assert_array_equal(plain.predict(X), positive > 0.5)

        def cost(said: np.ndarray) -> float:
            return float(np.sum(said & ~y) + 5 * np.sum(~said & y))

        assert cost(costly.predict(X)) < cost(plain.predict(X))


BAD_ROWS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"loss": "gamma"}, {"y": 0.0}, "loss='gamma' needs labels above 0: found 0; where 0 occurs use loss='tweedie'"),
    ({"loss": "tweedie"}, {"y": -1.0}, "loss='tweedie' needs labels >= 0: found -1"),
    ({"loss": "negative_binomial"}, {"y": -1.0}, "loss='negative_binomial' needs labels >= 0"),
    ({"loss": "poisson"}, {"exposure": 0.0}, "exposure is 0 in row 0: it must be above 0"),
    ({"loss": "poisson"}, {"exposure": np.nan}, "exposure is nan in row 0: give a number"),
    ({"loss": "poisson"}, {"offset": np.inf}, "offset is inf in row 0: give a number"),
    ({"loss": "squared"}, {"exposure": 2.0}, "exposure does not fit loss='squared'"),
    ({"loss": "squared"}, {"sample_weight": -1.0}, "sample_weight has a negative, NaN or infinite entry"),
    ({"loss": "tweedie", "power": 2.5}, {}, "power=2.5 is not allowed"),
    ({"loss": "gamma", "power": 1.5}, {}, "power is for loss='tweedie', not for loss='gamma'"),
    ({"loss": "negative_binomial", "dispersion": -1}, {}, "dispersion=-1 is not allowed"),
]


@pytest.mark.parametrize(("asked", "wrong", "match"), BAD_ROWS)
@pytest.mark.parametrize("kind", [VerticalRegressor, HorizontalRegressor])
def test_bad_rows_are_one_line(kind: Any, asked: dict[str, Any], wrong: dict[str, Any], match: str) -> None:
    X, _, _ = rows()
    y, given = np.full(ROWS, 2.0), {}
    for name, value in wrong.items():
        values = y if name == "y" else given.setdefault(name, np.ones(ROWS))
        values[0] = value
    with pytest.raises(InputError, match=match) as caught:
        kind(**asked).fit(X, y, **given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("asked", "match"),
    [
        ({"costs": {"false_positive": 1}}, "give both costs"),
        ({"costs": {"false_positive": 0, "false_negative": 1}}, "false_positive=0 is not allowed"),
        ({"costs": {"false_positive": 1, "false_negative": 1}, "loss": "squared_hinge"}, "gives no probabilities"),
        ({"costs": {"false_positive": 1, "false_negative": 5}, "class_weight": "balanced"}, "count the costs twice"),
        ({"class_weight": "even"}, "class_weight=.*even.* is not allowed"),
        ({"class_weight": {"maybe": 2}}, "which is no class"),
        ({"class_weight": {"yes": 0}}, "it must be a number above 0"),
    ],
)
@pytest.mark.parametrize("kind", [VerticalClassifier, HorizontalClassifier])
def test_bad_weights_and_costs_are_one_line(kind: Any, asked: dict[str, Any], match: str) -> None:
    X, score, _ = rows()
    with pytest.raises(InputError, match=match) as caught:
        kind(**asked).fit(X, np.where(score > 0, "yes", "no"))
    assert "\n" not in str(caught.value)


def test_privacy_refuses_what_has_no_bound() -> None:
    X, score, rng = rows()
    y = labels("gamma", score, rng)
    vertical, horizontal = Privacy(epsilon=1.0), Privacy(epsilon=1.0, row_norm=3.0, label_norm=5.0)
    for kind, privacy in ((VerticalRegressor, vertical), (HorizontalRegressor, horizontal)):
        for loss in (one for one in LOG if one != "poisson"):
            more = {"dispersion": 1.0} if loss == "negative_binomial" else {}
            with pytest.raises(InputError, match=f"does not fit loss='{loss}'"):
                kind(loss, privacy=privacy, **more).fit(X, y)
        with pytest.raises(InputError, match="offset, exposure, weights and class weights are not available"):
            kind("squared", privacy=privacy).fit(X, y, offset=np.ones(ROWS))
    shares = Privacy(epsilon=1.0, mechanism="shares")
    with pytest.raises(InputError, match="privacy does not fit a dispersion that is estimated: give dispersion"):
        VerticalRegressor("negative_binomial", privacy=shares).fit(X, y)
    with pytest.raises(InputError, match="sample_weight is not available with privacy"):
        VerticalClassifier(class_weight="balanced", privacy=vertical).fit(X, score > 0.5)


def test_a_search_for_alpha_takes_offsets_and_asks_for_the_dispersion() -> None:
    X, score, rng = rows(6)
    exposure = rng.uniform(0.5, 2.0, ROWS)
    y = labels("poisson", score + np.log(exposure), rng)
    found = VerticalRegressorCV("poisson", alphas=[1e-1, 1e-2], cv=3, tol=1e-9).fit(X, y, exposure=exposure)
    plain = VerticalRegressor("poisson", alpha=found.alpha_, tol=1e-9).fit(X, y, exposure=exposure)
    np.testing.assert_allclose(found.coef_, plain.coef_, atol=1e-6)
    with pytest.raises(InputError, match="give dispersion"):
        VerticalRegressorCV("negative_binomial").fit(X, y)


def test_private_counts_of_columns_help_the_label_holder() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(3000, 4))
    y = rng.poisson(np.exp(1.0 + X @ [0.4, 0.3, 0.9, -0.8])).astype(np.float64)
    train, test = slice(0, 2000), slice(2000, None)
    privacy = Privacy(epsilon=2.0, row_norm=1.5, noise_seed=1)
    joint = VerticalRegressor("poisson", parties=[2, 2], alpha=1e-6, privacy=privacy).fit(X[train], y[train])
    alone = VerticalRegressor("poisson", parties=[2], alpha=1e-6).fit(X[train, :2], y[train])
    best = VerticalRegressor("poisson", parties=[2, 2], alpha=1e-6).fit(X[train], y[train])
    own, both, most = (
        mean_poisson_deviance(y[test], model.predict(X[test, : model.coef_.size])) for model in (alone, joint, best)
    )
    assert most < both < own - 0.7 * (own - most)


@pytest.mark.parametrize("loss", LOG)
def test_masks_change_nothing_of_a_family(loss: str) -> None:
    """Exposure and weights stay with the label holder, so that what is hidden is what is sent without masks."""
    X, score, rng = rows(7)
    y, more = labels(loss, score, rng), {"dispersion": 1.0} if loss == "negative_binomial" else {}
    extras = {"exposure": rng.uniform(0.5, 2.0, ROWS), "sample_weight": rng.uniform(0.5, 2.0, ROWS)}
    plain, masked = (
        VerticalRegressor(loss, parties=3, alpha=1e-2, tol=1e-10, secure_aggregation=secure, **more).fit(X, y, **extras)
        for secure in (False, True)
    )
    np.testing.assert_allclose(masked.coef_, plain.coef_, rtol=0, atol=1e-9)
