"""More than two classes: scikit-learn's optimum in both splits, and one clear line for what does not fit."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import scale
from sklearn.utils.class_weight import compute_sample_weight

from tacit import (
    HorizontalClassifier,
    InputError,
    PartyTables,
    Privacy,
    VerticalClassifier,
    VerticalClassifierCV,
    alone,
    pooled,
)

ALPHA = 1e-2
Data = tuple[np.ndarray, np.ndarray]


def digits() -> Data:
    X, y = load_digits(return_X_y=True)
    X = X[::3]
    return scale(X[:, X.std(axis=0) > 0]), y[::3]


def iris() -> Data:
    X, y = load_iris(return_X_y=True)
    return scale(X), np.array(["setosa", "versicolor", "virginica"])[y]


def vehicle() -> Data:
    if not os.environ.get("TACIT_DATA"):
        pytest.skip("needs the public data sets: set TACIT_DATA to their folder")
    files = [Path(os.environ["TACIT_DATA"]) / f"vehicle_scale_hetero_{party}.csv.gz" for party in ("guest", "host")]
    if not all(file.exists() for file in files):
        pytest.skip("needs the public data set vehicle")
    guest, host = (pd.read_csv(file).set_index("id") for file in files)
    return scale(np.hstack([guest.drop(columns="y"), host.loc[guest.index]])), guest["y"].to_numpy()


def theirs(X: np.ndarray, y: np.ndarray, weights: Any = None, alpha: float = ALPHA, **more: Any) -> LogisticRegression:
    total = len(y) if weights is None else weights.sum()
    model = LogisticRegression(C=1 / (alpha * total), tol=1e-9, max_iter=20_000, solver="newton-cg", **more)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rounding ends its line search
        return model.fit(X, y, weights)


def objective(model: Any, X: np.ndarray, y: np.ndarray, alpha: float = ALPHA) -> float:
    codes = np.searchsorted(model.classes_, y)
    loss = -model.predict_log_proba(X)[np.arange(len(y)), codes].mean()
    return float(loss + alpha / 2 * np.sum(model.coef_**2))


@pytest.mark.parametrize("parties", [2, 5])
@pytest.mark.parametrize("data", [iris, digits, vehicle])
def test_columns_split_reach_the_optimum_of_scikit_learn(data: Any, parties: int) -> None:
    X, y = data()
    ours = VerticalClassifier(alpha=ALPHA, parties=min(parties, X.shape[1]), tol=1e-12).fit(X, y)
    wanted = theirs(X, y)
    np.testing.assert_allclose(ours.coef_, wanted.coef_, atol=1e-5)
    np.testing.assert_allclose(ours.intercept_, wanted.intercept_ - wanted.intercept_.mean(), atol=1e-5)
    np.testing.assert_allclose(ours.decision_function(X), X @ ours.coef_.T + ours.intercept_, atol=1e-9)
    assert ours.coef_.shape == (len(ours.classes_), X.shape[1])
    assert objective(ours, X, y) == pytest.approx(objective(wanted, X, y), rel=1e-9)
    assert ours.trace_[-1].objective == pytest.approx(objective(ours, X, y), rel=1e-9)
    assert ours.converged_
    np.testing.assert_array_equal(ours.predict(X), wanted.predict(X))
    quick = VerticalClassifier(alpha=ALPHA, parties=min(parties, X.shape[1])).fit(X, y)
    print(f"{data.__name__}, {parties} parties: {quick.n_rounds_} rounds to 1e-4, {ours.n_rounds_} to 1e-12")
    left = quick.trace_[-1].objective - ours.trace_[-1].objective
    assert -1e-9 <= left <= quick.trace_[-1].gap <= 1e-4 * quick.trace_[-1].objective
    assert quick.n_rounds_ <= 20  # two classes of the same sets take 3 to 9


@pytest.mark.parametrize("parties", [2, 5])
@pytest.mark.parametrize("data", [iris, digits, vehicle])
def test_rows_split_reach_the_optimum_of_scikit_learn(data: Any, parties: int) -> None:
    X, y = data()
    graph = "ring" if parties > 2 else "complete"
    ours = HorizontalClassifier(alpha=ALPHA, parties=parties, graph=graph, random_state=0, tol=1e-13).fit(X, y)
    wanted = theirs(X, y)
    np.testing.assert_allclose(ours.coef_, wanted.coef_, atol=1e-5)
    np.testing.assert_allclose(ours.intercept_, wanted.intercept_ - wanted.intercept_.mean(), atol=1e-4)
    assert objective(ours, X, y) == pytest.approx(objective(wanted, X, y), rel=1e-9)
    np.testing.assert_allclose(ours.predict_proba(X).sum(axis=1), 1.0)
    print(f"{data.__name__}, {parties} nodes: {ours.n_rounds_} rounds")


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("kind", [VerticalClassifier, HorizontalClassifier])
def test_weights_and_no_intercept(kind: Any, fit_intercept: bool) -> None:
    X, y = iris()
    weights = np.random.default_rng(0).choice([0.0, 1.0, 2.5], len(y))
    ours = kind(alpha=ALPHA, parties=3, tol=1e-13, fit_intercept=fit_intercept, random_state=0).fit(X, y, weights)
    wanted = theirs(X, y, weights, fit_intercept=fit_intercept)
    np.testing.assert_allclose(ours.coef_, wanted.coef_, atol=1e-5)
    np.testing.assert_allclose(ours.intercept_, wanted.intercept_ - wanted.intercept_.mean(), atol=1e-5)


@pytest.mark.parametrize("asked", ["balanced", {"setosa": 3.0, "virginica": 0.5}])
@pytest.mark.parametrize("kind", [VerticalClassifier, HorizontalClassifier])
def test_class_weights(kind: Any, asked: Any) -> None:
    X, y = (part[30:] for part in iris())
    ours = kind(alpha=ALPHA, parties=3, tol=1e-13, class_weight=asked, random_state=0).fit(X, y)
    wanted = theirs(X, y, compute_sample_weight(asked, y))
    np.testing.assert_allclose(ours.coef_, wanted.coef_, atol=1e-5)
    np.testing.assert_allclose(ours.intercept_, wanted.intercept_ - wanted.intercept_.mean(), atol=1e-5)


@pytest.mark.parametrize("kind", [VerticalClassifier, HorizontalClassifier])
def test_offsets_and_costs_are_for_two_classes(kind: Any) -> None:
    X, y = iris()
    with pytest.raises(InputError, match="offset is for two classes or numbers, and the labels have 3 classes"):
        kind(parties=2).fit(X, y, offset=np.zeros(len(y)))
    with pytest.raises(InputError, match="exposure does not fit loss="):
        kind(parties=2).fit(X, y, exposure=np.ones(len(y)))
    with pytest.raises(InputError, match="costs is for two classes, and there are 3"):
        kind(parties=2, costs={"false_positive": 1, "false_negative": 5}).fit(X, y)
    model = kind(parties=2, alpha=ALPHA).fit(X, y)
    with pytest.raises(InputError, match="offset is for two classes or numbers, and the labels have 3 classes"):
        model.predict_proba(X, offset=np.zeros(len(y)))


def test_no_penalty_at_all() -> None:
    """Overlapping classes: the optimum is finite, and the scores sum to zero in each row."""
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(200, 3)), rng.integers(0, 3, 200)
    ours = VerticalClassifier(penalty="none", tol=1e-12).fit(X, y)
    wanted = theirs(X, y, alpha=1e-12)
    np.testing.assert_allclose(ours.coef_, wanted.coef_, atol=1e-4)
    np.testing.assert_allclose(ours.decision_function(X).sum(axis=1), 0.0, atol=1e-9)


def test_secure_aggregation_changes_nothing() -> None:
    X, y = iris()
    plain, masked = (
        VerticalClassifier(parties=3, alpha=ALPHA, tol=1e-9, secure_aggregation=secure).fit(X, y)
        for secure in (False, True)
    )
    np.testing.assert_allclose(masked.coef_, plain.coef_, atol=1e-4)
    assert "each of 3 classes" in str(plain.certificate_)


def test_a_warm_start_takes_fewer_rounds() -> None:
    X, y = digits()
    model = VerticalClassifier(alpha=ALPHA, parties=3, tol=1e-8, warm_start=True).fit(X, y)
    first, coef = model.n_rounds_, model.coef_
    model.fit(X, y)
    assert model.n_rounds_ < first / 3
    np.testing.assert_allclose(model.coef_, coef, atol=1e-3)
    model.set_params(parties=[[0, 2, 4], list(range(5, X.shape[1])), [1, 3]]).fit(X, y)
    assert model.n_rounds_ < first / 3
    with pytest.raises(InputError, match="with the classes of the last fit"):
        model.fit(X, y % 3)


def test_the_search_of_alpha_is_that_of_plain_fits() -> None:
    X, y = iris()
    model = VerticalClassifierCV(alphas=[1.0, 0.1, 0.01], cv=3, random_state=0).fit(X, y)
    assert model.alpha_ in model.alphas_
    assert model.loss_path_.shape == (3, 3)
    assert np.all(model.loss_path_ > 0)
    plain = VerticalClassifier(alpha=model.alpha_, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.coef_, plain.coef_)
    folds = [(np.arange(len(y)) % 2 == 0, np.arange(len(y)) % 2 == 1)]
    model = VerticalClassifierCV(alphas=[0.1], cv=[(np.flatnonzero(a), np.flatnonzero(b)) for a, b in folds], tol=1e-9)
    model.fit(X, y)
    seen, left = folds[0]
    wanted = theirs(X[seen], y[seen], alpha=0.1)
    loss = -wanted.predict_log_proba(X[left])[np.arange(left.sum()), np.searchsorted(wanted.classes_, y[left])].mean()
    assert model.loss_path_[0, 0] == pytest.approx(loss, abs=1e-4)


@pytest.mark.parametrize("kind", [VerticalClassifier, HorizontalClassifier])
def test_curves_text_and_blanks(kind: Any) -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"age": rng.uniform(18, 90, 240), "town": rng.choice(["Bern", "Chur"], 240)})
    frame["calls"] = rng.normal(size=240)
    frame.loc[::9, "calls"] = np.nan
    score = np.column_stack([np.cos(frame["age"] / 12), (frame["town"] == "Bern") * 1.0, np.zeros(240)])
    y = np.array(["red", "green", "blue"])[(2 * score + rng.gumbel(size=(240, 3))).argmax(axis=1)]
    model = kind(alpha=1e-3, parties=2, terms="spline", random_state=0).fit(frame, y)
    curves = model.curves()
    cells, values = (curves["party 1"] if kind is VerticalClassifier else curves)["age"]
    assert values.shape == (len(cells), 3)
    np.testing.assert_allclose(values.sum(axis=1), 0.0, atol=1e-6)
    assert list(model.classes_) == ["blue", "green", "red"]
    lines = kind(alpha=1e-3, parties=2, random_state=0).fit(frame, y)
    codes = np.searchsorted(model.classes_, y)
    bent, straight = (-one.predict_log_proba(frame)[np.arange(240), codes].mean() for one in (model, lines))
    assert bent < straight - 0.01


def test_tables_of_parties_and_baselines() -> None:
    X, y = iris()
    tables = PartyTables({"petal": X[:, 2:], "sepal": X[:, :2]})
    model = VerticalClassifier(alpha=ALPHA).fit(tables, y)
    assert model.coef_by_party_["petal"].shape == (3, 2)
    assert set(model.coef_by_party_.to_frame()["class"]) == {"setosa", "versicolor", "virginica"}
    own, joint = alone(VerticalClassifier(alpha=ALPHA), 1), pooled(VerticalClassifier(alpha=ALPHA))
    blocks = [X[:, 2:], X[:, :2]]
    assert own.fit(blocks, y).score(blocks, y) < joint.fit(blocks, y).score(blocks, y) <= model.score(tables, y) + 0.02


def test_a_node_may_lack_a_class() -> None:
    X, y = iris()
    order = np.argsort(y)  # each node has one class, or two
    parts = np.array_split(order, 4)
    ours = HorizontalClassifier(alpha=ALPHA, tol=1e-13, graph="ring").fit([X[p] for p in parts], [y[p] for p in parts])
    np.testing.assert_allclose(ours.coef_, theirs(X, y).coef_, atol=1e-5)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"loss": "hinge"}, "Only binary classification is supported with loss='hinge'"),
    ({"loss": "squared_hinge"}, "Only binary classification"),
    ({"penalty": "l1"}, "penalty='l1' is for two classes and the labels have 3"),
    ({"penalty": "elastic_net"}, "penalty='elastic_net' is for two classes"),
    ({"method": "averaged"}, "method='averaged' does not fit: it is for two classes"),
    ({"privacy": Privacy(epsilon=1.0, label_epsilon=1.0)}, "label_epsilon with more than two classes"),
    ({"privacy": Privacy(epsilon=1.0, protect="everyone")}, "proven for loss='logistic'"),
    ({"privacy": Privacy(epsilon=1.0, mechanism="shares")}, "privacy of rows is for two classes"),
]


@pytest.mark.parametrize(
    ("asked", "message"), REFUSED, ids=lambda one: next(iter(one)) if isinstance(one, dict) else ""
)
def test_what_is_for_two_classes_is_refused_in_one_line(asked: dict[str, Any], message: str) -> None:
    X, y = iris()
    with pytest.raises(InputError, match=message) as caught:
        VerticalClassifier(**asked).fit(X, y)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("mechanism", ["dual", "primal", "pdml"])
def test_private_rows_of_nodes_are_refused_in_one_line(mechanism: str) -> None:
    X, y = iris()
    with pytest.raises(InputError, match="privacy of rows is for two classes"):
        HorizontalClassifier(privacy=Privacy(epsilon=1.0, mechanism=mechanism)).fit(X, y)


def test_labels_that_are_no_classes_are_refused() -> None:
    X, y = iris()
    rng = np.random.default_rng(0)
    for labels, message in [
        (rng.normal(size=len(y)), "Unknown label type: continuous"),
        (np.arange(len(y)), "all 150 labels are different"),
        (np.zeros(len(y)), "one class only"),
    ]:
        for kind in (VerticalClassifier, HorizontalClassifier):
            with pytest.raises(InputError, match=message):
                kind().fit(X, labels)
    with pytest.raises(InputError, match="200 classes and 40 columns of one party are too many together"):
        VerticalClassifier(parties=1).fit(np.ones((400, 40)), np.arange(400) // 2)


def test_hard_numbers_end_in_an_optimum_or_one_line() -> None:
    X, y = iris()
    for wild in (X * 1e6, X * 1e-6, np.column_stack([X, np.ones(len(y)), X[:, 0]])):
        model = VerticalClassifier(alpha=1e-3, tol=1e-6, max_rounds=400).fit(wild, y)
        wanted = theirs(wild, y, alpha=1e-3)
        assert objective(model, wild, y, 1e-3) <= objective(wanted, wild, y, 1e-3) * (1 + 1e-4)


def test_private_columns_help_the_label_holder() -> None:
    """Ten digits, the lower half of the picture protected: better than the label holder alone, and the sums hold."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y, train = X[order] / 16, y[order], slice(0, 1300)
    privacy = Privacy(epsilon=4.0, row_norm=3.5, noise_seed=1)
    joint = VerticalClassifier(parties=[32, 32], alpha=1e-3, privacy=privacy).fit(X[train], y[train])
    alone = VerticalClassifier(parties=[32], alpha=1e-3).fit(X[train, :32], y[train])
    assert joint.score(X[1300:], y[1300:]) > alone.score(X[1300:, :32], y[1300:]) + 0.02
    assert joint.coef_.shape == (10, 64)
    np.testing.assert_allclose(joint.coef_.sum(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(joint.predict_proba(X[:5]).sum(axis=1), 1)
    assert joint.certificate_.epsilon(1e-5) <= 4.0
