"""HorizontalClassifier and HorizontalRegressor: scikit-learn's checks, the pooled optimum, bad input."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.preprocessing import scale
from sklearn.utils import estimator_checks

from tacit import HorizontalClassifier, HorizontalRegressor, InputError, Privacy
from tacit.data.datasets import load_a9a
from tests.conftest import real_data


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X), y


@pytest.fixture(scope="module")
def a9a():
    return real_data(load_a9a)


@pytest.mark.usefixtures("usual_class_weights")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize("model", [HorizontalClassifier, HorizontalRegressor])
def test_scikit_learn_checks(model):
    few = model(parties=4, tol=1e-14)  # the checks hold for any number of nodes, ask for 7 digits and fit 130 times
    results = estimator_checks.check_estimator(few, on_fail=None)
    failed = [(r["check_name"], r["exception"]) for r in results if r["status"] not in ("passed", "skipped")]
    assert failed == []
    skipped = {r["check_name"] for r in results if r["status"] == "skipped"}
    assert skipped <= {"check_array_api_input"}  # needs an environment variable of scipy's
    assert len(results) > 50


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("graph", ["random", "ring", "star", "complete", "grid"])
def test_agrees_with_scikit_learn(cancer, fit_intercept, graph):
    X, y = cancer
    ours = HorizontalClassifier(
        alpha=1e-2, parties=6, graph=graph, fit_intercept=fit_intercept, tol=1e-10, random_state=0
    ).fit(X, y)
    C = 1 / (1e-2 * len(y))
    theirs = LogisticRegression(C=C, fit_intercept=fit_intercept, tol=1e-12, solver="newton-cholesky").fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-5)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-5)
    np.testing.assert_allclose(ours.predict_log_proba(X), np.log(ours.predict_proba(X)), atol=1e-8)
    assert len(ours.coef_by_party_) == len(ours.intercept_by_party_) == 6
    for coef in ours.coef_by_party_:
        np.testing.assert_allclose(coef, ours.coef_[0], atol=1e-4)


def test_regression_agrees_with_scikit_learn():
    X, y = load_diabetes(return_X_y=True)
    X = scale(X)
    ours = HorizontalRegressor(alpha=1e-2, parties=5, tol=1e-12, random_state=0).fit(X, y)
    theirs = Ridge(alpha=1e-2 * len(y)).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-4, atol=1e-3)
    counts = np.floor(y / 50)
    poisson = HorizontalRegressor(loss="poisson", alpha=1e-2, parties=5, tol=1e-10, random_state=0).fit(X, counts)
    known = PoissonRegressor(alpha=1e-2, tol=1e-10, max_iter=1000).fit(X, counts)
    np.testing.assert_allclose(poisson.predict(X), known.predict(X), rtol=1e-3)


@pytest.mark.parametrize(
    ("task", "loss"), [("c", "squared_hinge"), ("r", "huber"), ("r", "squared"), ("c", "logistic")]
)
@pytest.mark.parametrize("penalty", ["l2", None])
def test_every_pair_reaches_the_model_of_one_party_with_all_rows(cancer, task, loss, penalty):
    X, y = cancer[0][:, :8], cancer[1]
    model = HorizontalClassifier if task == "c" else HorizontalRegressor
    settings = {"loss": loss, "penalty": penalty, "alpha": 1e-3, "tol": 1e-9, "random_state": 0}
    alone = model(parties=1, **settings).fit(X, y)
    joint = model(parties=7, **settings).fit(X, y)
    assert joint.converged_
    np.testing.assert_allclose(joint.coef_, alone.coef_, atol=2e-3)


def test_tables_as_they_are_sparse_and_frames(cancer):
    X, y = cancer
    names = [f"f{j}" for j in range(X.shape[1])]
    cuts = [50, 200, 569]
    parts = [slice(a, b) for a, b in zip([0, *cuts], cuts, strict=False)]
    settings = {"alpha": 1e-2, "graph": [("party 1", "party 2"), ("party 2", "party 3")], "tol": 1e-10}
    one = HorizontalClassifier(**settings).fit([X[p] for p in parts], [y[p] for p in parts])
    two = HorizontalClassifier(**settings).fit([sparse.csr_array(X[p]) for p in parts], [y[p] for p in parts])
    frames = [pd.DataFrame(X[p], columns=names) for p in parts]
    three = HorizontalClassifier(**settings).fit(frames, [y[p] for p in parts])
    np.testing.assert_allclose(one.coef_, two.coef_, atol=1e-6)
    np.testing.assert_allclose(one.coef_, three.coef_, atol=1e-10)
    assert list(three.feature_names_in_) == names
    assert one.graph_.neighbours("party 2") == ("party 1", "party 3")
    assert set(one.traffic_) == {"bytes", "bytes_busiest_edge", "rounds"}
    assert one.n_rounds_ == len(one.trace_) == one.traffic_["rounds"]
    np.testing.assert_array_equal(three.predict(pd.DataFrame(X, columns=names)), one.predict(X))


def test_a_party_may_have_one_class_only(cancer):
    X, y = cancer
    parts = [np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:100], np.flatnonzero(y == 1)[100:]]
    model = HorizontalClassifier(alpha=1e-2, graph="ring", tol=1e-10).fit([X[p] for p in parts], [y[p] for p in parts])
    theirs = LogisticRegression(C=1 / (1e-2 * len(y)), tol=1e-12, solver="newton-cholesky").fit(X, y)
    np.testing.assert_allclose(model.coef_, theirs.coef_, atol=1e-4)


@pytest.mark.parametrize("parties", [1, 2, 7, 500])
def test_fewer_rows_than_parties_give_fewer_nodes(cancer, parties):
    X, y = cancer[0][15:25, :3], cancer[1][15:25]
    model = HorizontalClassifier(parties=parties, alpha=0.1, tol=1e-9, random_state=0).fit(X, y)
    assert model.graph_.nodes == min(parties, 10)
    theirs = LogisticRegression(C=1 / (0.1 * 10), tol=1e-12, solver="newton-cholesky").fit(X, y)
    np.testing.assert_allclose(model.coef_, theirs.coef_, atol=1e-4)


def test_the_split_and_the_graph_follow_random_state(cancer):
    fits = [HorizontalClassifier(alpha=1e-2, random_state=seed).fit(*cancer) for seed in (3, 3, 4)]
    assert np.array_equal(fits[0].coef_, fits[1].coef_)
    assert fits[0].graph_ == fits[1].graph_ != fits[2].graph_
    assert not np.array_equal(fits[0].coef_by_party_[0], fits[2].coef_by_party_[0])


def test_it_says_so_where_it_did_not_converge(cancer):
    with pytest.warns(ConvergenceWarning, match="not converged to tol=1e-12 in 5 rounds: raise max_rounds or tol"):
        model = HorizontalClassifier(max_rounds=5, tol=1e-12, random_state=0).fit(*cancer)
    assert not model.converged_


def test_a_fit_that_fails_leaves_the_model_as_it_was(cancer):
    X, y = cancer
    model = HorizontalClassifier(alpha=1e-2, random_state=0).fit(X, y)
    before = model.coef_.copy()
    with pytest.raises(InputError):
        model.fit(X, np.zeros(len(y)))
    np.testing.assert_array_equal(model.coef_, before)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"graph": "circle"}, "graph='circle' is unknown"),
        ({"graph": [(0, 1), (2, 3)], "parties": 4}, r"falls into 2 parts \(party 1, party 2; party 3, party 4\)"),
        ({"graph": [(0, 1)], "parties": 3}, "node 'party 3' has no neighbour"),
        ({"graph": [("party 1", "bank")], "parties": 2}, "unknown node 'bank'"),
        ({"parties": 0}, "parties=0 is not allowed"),
        ({"parties": [500, 60]}, "sum to 560: make them sum to 569"),
        ({"parties": [569, 0]}, "party 2 would hold 0 rows"),
        ({"parties": "many"}, 'parties="many" is not allowed'),
        ({"loss": "squared"}, "loss='squared' is not for HorizontalClassifier: use HorizontalRegressor"),
        ({"loss": "hinge"}, "loss='hinge' has a kink"),
        ({"engine": "cloud"}, "engine='cloud' is unknown"),
        ({"method": "none", "privacy": Privacy()}, "method='none' has no privacy to offer"),
    ],
)
def test_settings_that_are_refused(cancer, settings, message):
    with pytest.raises(InputError, match=message) as refusal:
        HorizontalClassifier(**settings).fit(*cancer)
    assert "\n" not in str(refusal.value)


def test_tables_that_are_refused(cancer):
    X, y = cancer
    fit = HorizontalClassifier().fit
    two, labels = [X[:200], X[200:]], [y[:200], y[200:]]
    bad = X[200:].copy()
    bad[3, 4] = np.nan
    frames = [pd.DataFrame(X[:200, :2], columns=["a", "b"]), pd.DataFrame(X[200:, :2], columns=["a", "c"])]
    for tables, own, message in [
        ([X[:200], X[200:, :5]], labels, "party 2 has 5 columns and party 1 has 30"),
        (frames, labels, "party 2 has column 'c' where party 1 has 'b'"),
        ([X[:200], X[:0]], [y[:200], y[:0]], "party 2 has no rows"),
        ([X[:200], bad], labels, "party 2, column 4: NaN in row 3"),
        (two, y, "give y as a list with the labels of each of them"),
        (two, [y[:200], y[201:]], "party 2 has 368 labels for 369 rows"),
        (two, [y[:200] * 0, y[200:] * 0], "one class only"),
    ]:
        with pytest.raises(InputError, match=message) as refusal:
            fit(tables, own)
        assert "\n" not in str(refusal.value)
    model = HorizontalClassifier(alpha=1e-2).fit(two, labels)
    with pytest.raises(InputError, match="predict for one table at a time"):
        model.predict(two)
    with pytest.raises(InputError, match="party 2: sample_weight has shape"):
        fit(two, labels, sample_weight=[np.ones(200), np.ones(3)])
    with pytest.raises(InputError, match="party 2: sample_weight is zero for every row"):
        fit(two, labels, sample_weight=[np.ones(200), np.zeros(369)])


def test_without_privacy_every_method_is_the_same(cancer):
    models = [HorizontalClassifier(alpha=1e-2, method=m, random_state=0).fit(*cancer) for m in ("auto", "none")]
    assert np.array_equal(models[0].coef_, models[1].coef_)
    assert not models[0].certificate_.private


@pytest.mark.parametrize("name", ["gaussian", "dual", "primal", "pdml"])
def test_a_mechanism_that_is_named_as_a_method_is_taken_with_a_warning(name):
    X = np.random.default_rng(0).normal(size=(120, 4)) / 2
    y = X[:, 0] > 0
    asked = {"epsilon": 4, "noise_seed": 1, "label_epsilon": 3 if name == "pdml" else None}
    with pytest.warns(FutureWarning, match=rf"method='{name}' names a mechanism.*Privacy\(mechanism='{name}'\)"):
        before = HorizontalClassifier(method=name, parties=3, privacy=Privacy(**asked), random_state=0).fit(X, y)
    after = HorizontalClassifier(parties=3, privacy=Privacy(**asked, mechanism=name), random_state=0).fit(X, y)
    assert np.array_equal(before.coef_, after.coef_)
    assert before.certificate_.claims == after.certificate_.claims
    other = HorizontalClassifier(
        method=name, privacy=Privacy(**asked, mechanism="gaussian" if name == "dual" else "dual")
    )
    with pytest.warns(FutureWarning), pytest.raises(InputError, match="leave method out"):
        other.fit(X, y)


# --- real data -------------------------------------------------------------------------------------------

UNEQUAL = np.linspace(1, 20, 10) / 105


@pytest.mark.parametrize(
    ("graph", "parties", "most"), [("random", 10, 40), ("star", 10, 25), ("random", "unequal", 45), ("ring", 30, 140)]
)
def test_a9a_to_the_pooled_optimum(a9a, graph, parties, most):
    X, y = a9a.X_train, a9a.y_train
    if parties == "unequal":
        sizes = np.round(UNEQUAL * len(y)).astype(int)
        sizes[-1] += len(y) - sizes.sum()
        parties = sizes.tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # scikit-learn's, at its last digits
        best = LogisticRegression(C=1 / (1e-4 * len(y)), tol=1e-10, solver="newton-cholesky").fit(X, y)

    def objective(coef, intercept):
        return np.logaddexp(0, -y * (X @ coef + intercept)).mean() + 5e-5 * coef @ coef

    optimum = objective(best.coef_[0], best.intercept_[0])
    model = HorizontalClassifier(parties=parties, graph=graph, tol=1e-6, random_state=0).fit(X, y)
    assert model.converged_
    assert model.n_rounds_ <= most
    gaps = [objective(c, b) / optimum - 1 for c, b in zip(model.coef_by_party_, model.intercept_by_party_, strict=True)]
    assert objective(model.coef_[0], model.intercept_[0]) / optimum - 1 < 1e-6
    assert max(gaps) < 1e-6
    exact = HorizontalClassifier(parties=parties, graph=graph, tol=1e-10, random_state=0).fit(X, y)
    joint = np.append(exact.coef_[0], exact.intercept_)
    for coef, intercept in zip(exact.coef_by_party_, exact.intercept_by_party_, strict=True):
        assert np.linalg.norm(np.append(coef, intercept) - joint) < 1e-5 * np.linalg.norm(joint)
