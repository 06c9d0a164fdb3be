"""The scikit-learn face: what users hand over and what they get."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, make_classification
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import HuberRegressor, LogisticRegression, PoissonRegressor, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.utils.estimator_checks import check_estimator

from tacit import InputError, RunError, VerticalClassifier, VerticalRegressor, alone, pooled


@pytest.fixture(scope="module")
def cancer() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X), y


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize("estimator", [VerticalClassifier(), VerticalRegressor()], ids=["classifier", "regressor"])
def test_scikit_learn_s_own_checks(estimator: object) -> None:
    results = check_estimator(estimator, on_fail=None)
    failed = [(r["check_name"], r["exception"]) for r in results if r["status"] not in ("passed", "skipped")]
    assert failed == []
    skipped = [r["check_name"] for r in results if r["status"] == "skipped"]
    assert set(skipped) <= {"check_array_api_input"}  # needs an environment variable of scipy's
    assert len(results) > 50


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("parties", [1, 2, 5, [[0, 4, 8], [j for j in range(30) if j not in (0, 4, 8)]]])
def test_agrees_with_scikit_learn(cancer, fit_intercept, parties) -> None:
    X, y = cancer
    ours = VerticalClassifier(alpha=1e-2, parties=parties, fit_intercept=fit_intercept, tol=1e-10).fit(X, y)
    theirs = LogisticRegression(C=1 / (1e-2 * len(y)), fit_intercept=fit_intercept, tol=1e-10, max_iter=5000).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-5)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-5)
    np.testing.assert_allclose(ours.predict_log_proba(X), np.log(theirs.predict_proba(X)), atol=1e-3)
    assert ours.converged_
    assert ours.trace_[-1].gap <= 1e-10
    assert ours.certificate_.epsilon(1e-5) == np.inf


def test_regressors_agree_with_scikit_learn() -> None:
    X, y = load_diabetes(return_X_y=True)
    X, y = scale(X), y / 50
    n = len(y)
    ridge = Ridge(alpha=0.05 * n).fit(X, y)
    ours = VerticalRegressor(alpha=0.05, parties=3, tol=1e-12).fit(X, y)
    np.testing.assert_allclose(ours.coef_, ridge.coef_, atol=1e-6)
    assert ours.intercept_ == pytest.approx(ridge.intercept_, abs=1e-6)
    counts = np.round(y)
    poisson = PoissonRegressor(alpha=0.05, tol=1e-10, max_iter=1000).fit(X, counts)
    mine = VerticalRegressor(loss="poisson", alpha=0.05, parties=3, tol=1e-12).fit(X, counts)
    np.testing.assert_allclose(mine.coef_, poisson.coef_, atol=1e-5)
    np.testing.assert_allclose(mine.predict(X), poisson.predict(X), rtol=1e-4)
    huber = VerticalRegressor(loss="huber", alpha=1e-3, parties=2, tol=1e-8).fit(X, y)
    reference = HuberRegressor(alpha=0.0, epsilon=1.35 * 1.0001, max_iter=1000).fit(X, y)  # scale free: a rough peer
    assert np.corrcoef(huber.predict(X), reference.predict(X))[0, 1] > 0.99


@pytest.mark.parametrize("method", ["memory", "averaged"])
def test_every_form_of_the_data_gives_the_same_model(cancer, method) -> None:
    X, y = cancer
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(30)])
    model = VerticalClassifier(alpha=1e-2, parties=[10, 20], tol=1e-9, method=method, max_rounds=2000)
    reference = clone(model).fit(X, y)
    forms = {
        "fortran": np.asfortranarray(X),
        "csr": sparse.csr_array(X),
        "csc": sparse.csc_matrix(X),
        "frame": frame,
        "list": X.tolist(),
        "blocks": [X[:, :10], X[:, 10:]],
        "mixed blocks": [sparse.csr_array(X[:, :10]), frame.iloc[:, 10:]],
        "float32": X.astype(np.float32),
    }
    for name, form in forms.items():
        fitted = clone(model).fit(form, y)
        close = 2e-3 if name == "float32" else 1e-4
        np.testing.assert_allclose(fitted.coef_, reference.coef_, atol=close, err_msg=name)
        assert np.mean(fitted.predict(form) == reference.predict(X)) > 0.995
    named = clone(model).set_params(parties=[[f"c{j}" for j in range(10)], [f"c{j}" for j in range(10, 30)]])
    np.testing.assert_allclose(named.fit(frame, y).coef_, reference.coef_, atol=1e-4)


def test_float32_data_are_not_copied_to_float64(cancer) -> None:
    X, y = cancer
    model = VerticalClassifier(alpha=1e-2).fit(X.astype(np.float32), y)
    reference = VerticalClassifier(alpha=1e-2).fit(X, y)
    assert model.converged_
    assert model.trace_[-1].objective == pytest.approx(reference.trace_[-1].objective, rel=1e-5)
    scores = X.astype(np.float32).astype(float) @ model.coef_[0] + model.intercept_[0]
    loss = np.logaddexp(0, -np.where(y == 1, 1, -1) * scores).mean() + 0.5e-2 * (model.coef_**2).sum()
    assert model.trace_[-1].objective == pytest.approx(loss, rel=1e-7)  # no drift of the summed float32 shares


@pytest.mark.parametrize("method", ["memory", "averaged"])
def test_sample_weights_are_repetitions(cancer, method) -> None:
    X, y = cancer
    weights = np.random.default_rng(0).integers(0, 4, size=len(y))
    model = VerticalClassifier(alpha=1e-2, tol=1e-9, method=method, max_rounds=1000)
    weighted = clone(model).fit(X, y, sample_weight=weights)
    repeated = clone(model).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-6)
    np.testing.assert_allclose(weighted.intercept_, repeated.intercept_, atol=1e-6)


@pytest.mark.parametrize("method", ["memory", "averaged"])
def test_more_columns_than_rows(method) -> None:
    X, y = make_classification(60, 200, n_informative=20, random_state=0)
    for form in (X, sparse.csr_array(X)):
        model = VerticalClassifier(alpha=1e-2, parties=2, tol=1e-8, method=method, max_rounds=1000).fit(form, y)
        peer = LogisticRegression(C=1 / (1e-2 * 60), tol=1e-10, max_iter=10000).fit(X, y)
        np.testing.assert_allclose(model.coef_, peer.coef_, atol=1e-4)


@pytest.mark.parametrize("method", ["memory", "averaged"])
def test_warm_start_needs_fewer_rounds(cancer, method) -> None:
    X, y = cancer
    model = VerticalClassifier(alpha=1e-3, parties=5, warm_start=True, method=method, tol=1e-6, max_rounds=1000)
    first = model.fit(X, y).n_rounds_
    coef = model.coef_.copy()
    again = model.fit(X, y)
    assert again.n_rounds_ < first / 2
    np.testing.assert_allclose(again.coef_, coef, atol=0.05)
    assert again.trace_[-1].objective == pytest.approx(again.trace_[0].objective, rel=1e-5)


def test_objective_never_rises_with_memory(cancer) -> None:
    X, y = cancer
    for loss in ("logistic", "squared_hinge"):
        trace = VerticalClassifier(loss=loss, parties=10, tol=1e-10).fit(X, y).trace_
        values = [row.objective for row in trace]
        assert all(b <= a * (1 + 1e-14) for a, b in pairwise(values))


def test_the_trace_is_a_table(cancer) -> None:
    X, y = cancer
    model = VerticalClassifier(method="averaged").fit(X, y)
    frame = model.trace_.to_frame()
    assert list(frame["round"]) == list(range(1, model.n_rounds_ + 1))
    assert model.traffic_["bytes_up"] == frame["bytes_up"].sum() > 8 * len(y) * 2 * model.n_rounds_
    assert (frame["seconds"].diff().dropna() >= 0).all()


def test_works_in_pipelines_and_searches(cancer) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), VerticalClassifier()),
        {"verticalclassifier__alpha": [1e-3, 1e-1], "verticalclassifier__parties": [2, 3]},
        cv=2,
    )
    assert search.fit(X, y).best_score_ > 0.95


def test_baselines_have_the_same_interface(cancer) -> None:
    X, y = cancer
    model = VerticalClassifier(alpha=1e-2, parties=[10, 20])
    together = pooled(model).fit(X, y)
    joint = model.fit(X, y)
    np.testing.assert_allclose(together.coef_, joint.coef_, atol=5e-3)
    first = alone(model, 0).fit(X, y)
    peer = LogisticRegression(C=1 / (1e-2 * len(y)), tol=1e-8).fit(X[:, :10], y)
    np.testing.assert_allclose(first.coef_, peer.coef_, atol=5e-3)
    assert first.score(X, y) == pytest.approx(peer.score(X[:, :10], y), abs=0.01)
    assert alone(model, 1).fit([X[:, :10], X[:, 10:]], y).predict_proba([X[:, :10], X[:, 10:]]).shape == (len(y), 2)
    with pytest.raises(InputError, match="party=2 is not allowed: the parties are 0 to 1"):
        alone(model, 2).fit(X, y)


def test_sgd_baseline_comes_near(cancer) -> None:
    X, y = cancer
    best = VerticalClassifier(alpha=1e-2).fit(X, y).trace_[-1].objective
    with pytest.warns(ConvergenceWarning, match="not converged"):
        sgd = VerticalClassifier(alpha=1e-2, method="sgd", max_rounds=50, tol=0.0, random_state=0).fit(X, y)
    assert sgd.trace_[-1].objective < 1.1 * best
    assert sgd.trace_[-1].bytes_up > 8 * len(y) * 2


def test_published_form_stops_when_it_diverges() -> None:
    rng = np.random.default_rng(0)
    column = rng.normal(size=(100, 3))
    X, y = np.hstack([column] * 4), column @ [1.0, 2.0, 3.0]
    with pytest.warns(ConvergenceWarning, match=r"the published form diverges at rho=.*use method=\"averaged\""):
        model = VerticalRegressor(method="published", rho=1e-4, parties=4).fit(X, y)
    assert not model.converged_
    assert model.n_rounds_ < 50
    assert np.all(np.isfinite(model.coef_))
    safe = VerticalRegressor(method="averaged", rho=1e-4, parties=4, max_rounds=2000).fit(X, y)
    assert safe.converged_


def test_published_form_works_where_rho_is_large(cancer) -> None:
    X, y = cancer
    with pytest.warns(ConvergenceWarning):
        model = VerticalClassifier(method="published", alpha=1e-2, max_rounds=60, tol=0.0).fit(X, y)
    best = VerticalClassifier(alpha=1e-2).fit(X, y).trace_[-1].objective
    assert min(row.objective for row in model.trace_) < 1.05 * best


def test_non_convex_loss_reports_stationarity(cancer) -> None:
    X, y = cancer
    model = VerticalClassifier(loss="sigmoid", alpha=1e-2, max_rounds=1000).fit(X, y)
    values = [row.stationarity for row in model.trace_]
    assert values[-1] < 1e-6 * values[0]
    assert model.score(X, y) > 0.95


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alpha": -1}, r"alpha=-1 is not allowed: it must be a finite number of at least 0"),
        ({"tol": float("nan")}, "tol=nan is not allowed"),
        ({"rho": -1}, r'rho=-1 is not allowed: it must be positive, or "auto"'),
        ({"rho": "fast"}, "rho='fast' is not allowed"),
        ({"max_rounds": 0}, "max_rounds=0 is not allowed"),
        ({"max_rounds": 1.5}, "max_rounds=1.5 is not allowed"),
        ({"loss": "logit"}, "loss='logit' is unknown: did you mean 'logistic'"),
        ({"loss": "squared"}, "loss='squared' is not for VerticalClassifier: use VerticalRegressor"),
        ({"penalty": "l3"}, "'l3' is unknown"),
        ({"method": "jacobi"}, "method='jacobi' is unknown: choose one of auto, averaged"),
        ({"method": "memory", "loss": "hinge"}, "method='memory' does not fit: loss='hinge' is not smooth"),
        ({"method": "memory", "penalty": "l1"}, "method='memory' does not fit: penalty='l1' is not l2"),
        ({"engine": "cloud"}, "engine='cloud' is unknown: choose one of in-process"),
        ({"engine": "flare"}, "run tacit train JOB --kit KIT"),
        ({"privacy": 1.0}, "give tacit.Privacy"),
        ({"parties": 31}, r"X has 30 feature\(s\), too few for parties=31"),
        ({"parties": [10, 10]}, "sum to 20: make them sum to 30"),
        ({"loss": "sigmoid", "rho": 1e-6}, "rho=1e-06 is too small for loss='sigmoid'"),
    ],
)
def test_wrong_parameters_are_refused_in_one_line(cancer, change, message) -> None:
    X, y = cancer
    with pytest.raises(InputError, match=message) as caught:
        VerticalClassifier(**change).fit(X, y)
    assert "\n" not in str(caught.value)


def _broken(X: np.ndarray, row: int, column: int, value: float) -> np.ndarray:
    X = X.copy()
    X[row, column] = value
    return X


def test_wrong_data_are_refused_by_party_and_column(cancer) -> None:
    X, y = cancer
    a, b = X[:, :10], X[:, 10:]
    cases = [
        (([a, b[:-1]], y), "different numbers of rows .party 1 has 569, party 2 has 568."),
        (([a, _broken(b, 7, 3, np.nan)], y), "party 2, column 'x13': NaN in row 7"),
        ((_broken(X, 9, 12, np.inf), y), "party 1, column 'x12': infinity in row 9"),
        (([a, sparse.csr_array(_broken(b, 7, 3, np.nan))], y), "party 2, column 'x13': NaN in row 7"),
        (([a, b[:, :0]], y), "party 2 has no columns"),
        ((X, np.ones(len(y))), "one class only"),
        ((X, np.arange(len(y))), "all 569 labels are different"),
        (([a, b], y[:-1]), "y has 568 labels for 569 rows"),
        (([a, np.where(b > 3, "x", b)], y), "party 2, column 'x1.': '.*' is not a number"),
        (([a, pd.DataFrame(b).assign(town=[[1]] * len(b))], y), 'party "party 2": column "town" holds values of type'),
        (([a[:0], b[:0]], y[:0]), "party 1 has no rows"),
    ]
    for (data, labels), message in cases:
        with pytest.raises(ValueError, match=message) as caught:
            VerticalClassifier().fit(data, labels)
        assert "\n" not in str(caught.value)
    for weights, message in [(y[:-1], "has shape"), (-1.0 * y, "negative, NaN"), (0.0 * y, "is zero for every row")]:
        with pytest.raises(InputError, match=f"sample_weight.*{message}"):
            VerticalClassifier().fit(X, y, sample_weight=weights)
    model = VerticalClassifier().fit([a, b], y)
    with pytest.raises(InputError, match="party 1 has 9 columns: it had 10"):
        model.predict([a[:, :9], b])
    with pytest.raises(InputError, match="X has tables of 3 parties: the model has 2"):
        model.predict([a, b, b])


@pytest.mark.parametrize("penalty", ["l2", "l1", "none", "box"])
def test_odd_but_lawful_data_train(penalty) -> None:
    rng = np.random.default_rng(0)
    y = np.array([0, 1] * 20)
    base = rng.normal(size=(40, 4)) + y[:, None] * 0.5
    cases = {
        "constant columns": np.hstack([base, np.ones((40, 2)), np.zeros((40, 2))]),
        "identical columns": np.hstack([base, base]),
        "large values": np.hstack([base * 1e6, base]),
        "tiny values": np.hstack([base * 1e-9, base]),
        "two rows": base[:2],
    }
    for name, X in cases.items():
        model = VerticalClassifier(penalty=penalty, alpha=1e-2, parties=2, max_rounds=3000, tol=1e-3)
        model.fit(X, y[: len(X)])
        assert np.all(np.isfinite(model.coef_)), name
        assert model.converged_, name


def test_labels_of_any_two_kinds(cancer) -> None:
    X, y = cancer
    reference = VerticalClassifier().fit(X, y)
    for labels in (np.where(y == 1, "yes", "no"), y.astype(bool), np.where(y == 1, 5.5, -2.0)):
        model = VerticalClassifier().fit(X, labels)
        np.testing.assert_array_equal(model.predict(X) == model.classes_[1], reference.predict(X) == 1)


# --- what a fit must not do ----------------------------------------------------------------------------


@pytest.mark.parametrize("shift", [0.0, 2e3, 1e5])
@pytest.mark.parametrize(
    ("loss", "penalty"), [("squared", "l2"), ("squared", "l1"), ("huber", "l1"), ("absolute", "l2")]
)
def test_a_large_mean_of_the_labels_changes_nothing(loss, penalty, shift) -> None:
    """The intercept starts at the best constant, and tol is measured against what is left after it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 8))
    y = X @ rng.normal(size=8) + 0.1 * rng.normal(size=300)
    model = VerticalRegressor(loss=loss, penalty=penalty, alpha=1e-3, max_rounds=1000).fit(X, y)
    shifted = clone(model).fit(X, y + shift)
    assert shifted.converged_
    assert shifted.trace_[-1].objective == pytest.approx(model.trace_[-1].objective, rel=1e-3)
    assert shifted.score(X, y + shift) > 0.99


def test_constant_labels() -> None:
    X = np.random.default_rng(0).normal(size=(60, 4))
    for value in (0.1, 0.3, 1e5):
        for loss, penalty in (("absolute", "l2"), ("absolute", "l1"), ("huber", "l1"), ("squared", "l2")):
            model = VerticalRegressor(loss=loss, penalty=penalty, alpha=1e-3).fit(X, np.full(60, value))
            np.testing.assert_allclose(model.predict(X), value, rtol=1e-6)


def test_a_failed_fit_leaves_the_estimator_as_it_was(cancer) -> None:
    X, y = cancer
    model = VerticalClassifier().fit(X, y)
    scores = model.decision_function(X)
    with pytest.raises(InputError):
        model.fit(X, np.where(y == 1, "p", "q"), sample_weight=-np.ones(len(y)))
    with pytest.raises(InputError):
        model.fit(np.where(X[:, :4] > 2, np.nan, X[:, :4]), y)
    with pytest.raises(ConvergenceWarning):
        model.set_params(max_rounds=1).fit(X + 5, y)
    np.testing.assert_array_equal(model.decision_function(X), scores)
    assert set(model.predict(X)) == {0, 1}
    fresh = VerticalClassifier()
    with pytest.raises(InputError):
        fresh.fit(X, y, sample_weight=-np.ones(len(y)))
    with pytest.raises(NotFittedError):
        fresh.predict(X)


def test_column_names_are_checked_party_by_party(cancer) -> None:
    X, y = cancer
    frame = pd.DataFrame(X[:, :6], columns=list("abcdef"))
    model = VerticalClassifier().fit([frame[list("abc")], frame[list("def")]], y)
    right = model.decision_function([frame[list("abc")], frame[list("def")]])
    np.testing.assert_allclose(model.decision_function(frame), right)
    with pytest.raises(InputError, match="party 1: column 0 is 'c', it was 'a' when fitted"):
        model.predict([frame[list("cba")], frame[list("def")]])
    with pytest.raises(InputError, match="party 1 has no column 'a'"):
        model.predict([frame[list("def")], frame[list("abc")]])
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[list("fedcba")])
    table = VerticalClassifier().fit(frame, y)
    with pytest.raises(InputError, match="party 1: column 0 is 'c'"):
        table.predict([frame[list("cba")], frame[list("def")]])
    with pytest.raises(InputError, match="two columns of the name 'a'"):
        VerticalClassifier().fit(frame.set_axis(list("aabcde"), axis=1), y)


def test_warm_start_after_a_change(cancer) -> None:
    X, y = cancer
    model = VerticalClassifier(warm_start=True, alpha=1e-2).fit(X, y)
    regrouped = clone(model).fit(X, y).set_params(parties=3).fit(X, y)
    np.testing.assert_allclose(regrouped.coef_, model.coef_, atol=0.02)
    with pytest.raises(
        InputError, match="warm_start=True goes on with the columns of the last fit: X has 4, it had 30"
    ):
        model.fit(X[:, :4], y)
    for method in ("memory", "averaged", "multipliers"):
        line = VerticalRegressor(warm_start=True, method=method, max_rounds=2000).fit(X, X[:, 0] + 5.0)
        assert line.set_params(fit_intercept=False).fit(X, X[:, 0] + 5.0).intercept_ == 0.0


def test_a_warm_start_never_ends_on_a_worse_model(cancer) -> None:
    X, y = cancer
    best = VerticalClassifier(loss="hinge", penalty="l1", alpha=1e-2, tol=1e-6, max_rounds=1000, warm_start=True).fit(
        X, y
    )
    objective = best.trace_[-1].objective
    for method in ("averaged", "multipliers"):
        again = clone(best).set_params(method=method)
        again.__dict__.update({k: v for k, v in best.__dict__.items() if k.endswith("_") or k.startswith("_")})
        with pytest.warns(ConvergenceWarning):
            again.set_params(max_rounds=1, tol=0.0).fit(X, y)
        assert again.trace_[-1].objective <= objective * (1 + 1e-12)


@pytest.mark.parametrize("method", ["memory", "averaged", "multipliers"])
def test_gaps_are_bounds_for_float32_with_large_means(method) -> None:
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(400, 6)) + 1e3).astype(np.float32)
    y = (X.astype(float) - 1e3) @ rng.normal(size=6) + rng.normal(size=400)
    best = VerticalRegressor(alpha=1e-2, tol=1e-12).fit(X.astype(float), y).trace_[-1].objective
    model = VerticalRegressor(alpha=1e-2, tol=1e-6, method=method, max_rounds=500).fit(X, y)
    assert model.converged_
    for row in model.trace_:
        assert row.objective - best <= row.gap + 1e-9
        assert row.gap >= 0


def test_sgd_on_few_rows_and_with_constraints() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    y = X @ [1.0, 2.0, 0.5, 1.5]
    for penalty in ("l2", "nonnegative"):
        with pytest.warns(ConvergenceWarning):
            model = VerticalRegressor(method="sgd", penalty=penalty, max_rounds=200, tol=0.0).fit(X, y)
        assert model.score(X, y) > 0.99
    with pytest.warns(ConvergenceWarning):
        VerticalRegressor(method="sgd", max_rounds=3, tol=0.0).fit(0 * X, y)


def test_more_wrong_input_is_refused_in_one_line(cancer) -> None:
    X, y = cancer
    cases = [
        (VerticalClassifier(rho=None), X, y, None, "rho=None is not allowed"),
        (VerticalClassifier(fit_intercept="no"), X, y, None, "fit_intercept='no' is not allowed"),
        (VerticalClassifier(), X, y, ["a"] * len(y), "not a number"),
        (VerticalClassifier(), [np.ma.masked_array(X[:, :3]), X[:, 3:]], y, None, "masked arrays"),
        (VerticalRegressor(), X, pd.date_range("2020", periods=len(y)), None, "dates"),
    ]
    for model, data, labels, weights, message in cases:
        with pytest.raises(InputError, match=message) as caught:
            model.fit(data, labels, sample_weight=weights)
        assert "\n" not in str(caught.value)
    with pytest.raises(RunError, match="scale"):
        VerticalClassifier().fit(X * 1e300, y)


# --- secure aggregation --------------------------------------------------------------------------------


def test_secure_aggregation_changes_nothing_but_what_can_be_read(cancer) -> None:
    X, y = cancer
    plain, secure = (
        VerticalClassifier(parties=3, alpha=1e-3, tol=1e-6, secure_aggregation=secure).fit(X, y)
        for secure in (False, True)
    )
    np.testing.assert_allclose(secure.coef_, plain.coef_, rtol=1e-7, atol=1e-9)
    assert secure.n_rounds_ == plain.n_rounds_
    assert "under masks" in str(secure.certificate_)
    assert "under masks" not in str(plain.certificate_)
    assert plain.traffic_["bytes_up"] < secure.traffic_["bytes_up"] < 3 * plain.traffic_["bytes_up"]
    line = VerticalRegressor(parties=3, secure_aggregation=True).fit(X, X[:, 0])
    assert line.get_params()["secure_aggregation"] is True
    assert "under masks" in str(line.certificate_)


def test_secure_aggregation_of_two_parties_is_refused(cancer) -> None:
    with pytest.raises(InputError, match="secure_aggregation=True needs at least 3 parties, not 2"):
        VerticalClassifier(secure_aggregation=True).fit(*cancer)
