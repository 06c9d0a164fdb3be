"""The estimators of trees: scikit-learn's rules, frames as they are, explanations, and one line for bad input."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.estimator_checks import check_estimator

from tacit import PartyTables, VerticalBoostingClassifier, VerticalBoostingRegressor
from tacit.columns.raw import RawEncoder
from tacit.errors import InputError

# as with scikit-learn's own HistGradientBoosting: which rows are held out, and how many a leaf must have, depends on
# the number of rows
WEIGHTS = {"check_sample_weight_equivalence_on_dense_data": "rows are held out by their place"}


@pytest.mark.parametrize("kind", [VerticalBoostingClassifier, VerticalBoostingRegressor])
def test_check_estimator(kind: Any) -> None:
    results = check_estimator(kind(max_rounds=3), expected_failed_checks=WEIGHTS, on_skip=None)
    assert sum(one["status"] == "passed" for one in results) > 45


def people(rows: int = 1200, seed: int = 0) -> tuple[dict[str, pd.DataFrame], np.ndarray]:
    """Two parties with text, categories, dates and blanks."""
    rng = np.random.default_rng(seed)
    town = rng.choice(["Basel", "Bern", "Genf", "Zug"], rows)
    bank = pd.DataFrame({"age": rng.normal(45, 12, rows), "town": town, "income": np.exp(rng.normal(10, 1, rows))})
    bank.loc[rng.random(rows) < 0.1, "income"] = np.nan
    bank.loc[rng.random(rows) < 0.05, "town"] = None
    plan = pd.Categorical(rng.choice(["gold", "basic", "none"], rows))
    since = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, rows), unit="D")
    shop = pd.DataFrame({"plan": plan, "since": since, "calls": rng.poisson(4, rows), "loyal": rng.random(rows) < 0.5})
    score = (bank["town"] == "Bern") * 2.0 - (bank["age"] > 50) + (plan == "gold") * 1.5 + bank["income"].isna()
    score = score + (shop["calls"] > 5) - 1
    return {"bank": bank, "shop": shop}, np.where(rng.random(rows) < 1 / (1 + np.exp(-2 * score)), "yes", "no")


def test_frames_as_they_are() -> None:
    tables, y = people()
    model = VerticalBoostingClassifier(random_state=0).fit(tables, y)
    assert model.score(tables, y) > 0.75
    assert model.n_trees_["bank"] > 10
    assert model.n_trees_["shop"] > 10
    assert [column.kind for column in model.encoders_["bank"].columns] == ["number", "category", "number"]
    assert [column.kind for column in model.encoders_["shop"].columns] == ["category", "date", "number", "number"]
    again = RawEncoder.from_record(model.encoders_["shop"].record())
    assert again == model.encoders_["shop"]


def test_an_unknown_category_counts_as_a_blank() -> None:
    tables, y = people()
    model = VerticalBoostingClassifier(random_state=0).fit(tables, y)
    new, blank = (tables["bank"][:20].copy() for _ in range(2))
    new["town"], blank["town"] = "Chur", None
    others = tables["shop"][:20]
    np.testing.assert_array_equal(
        model.decision_function({"bank": new, "shop": others}), model.decision_function({"bank": blank, "shop": others})
    )


def test_polars_frames_give_the_same_model() -> None:
    pl = pytest.importorskip("polars")
    tables, y = people()
    own = {name: pl.from_pandas(frame) for name, frame in tables.items()}
    one = VerticalBoostingClassifier(random_state=0).fit(tables, y)
    two = VerticalBoostingClassifier(random_state=0).fit(own, y)
    np.testing.assert_array_equal(one.decision_function(tables), two.decision_function(own))


def test_one_table_and_a_list_are_the_same() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    one = VerticalBoostingClassifier(parties=[10, 20], random_state=0).fit(X, y)
    two = VerticalBoostingClassifier(random_state=0).fit([X[:, :10], X[:, 10:]], y)
    np.testing.assert_array_equal(one.decision_function(X), two.decision_function([X[:, :10], X[:, 10:]]))
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(30)])
    three = VerticalBoostingClassifier(parties=[10, 20], random_state=0).fit(frame, y)
    np.testing.assert_array_equal(one.decision_function(X), three.decision_function(frame))


def test_search_over_party_tables() -> None:
    tables, y = people(600)
    X = PartyTables(tables)
    search = GridSearchCV(VerticalBoostingClassifier(max_rounds=3, random_state=0), {"max_leaf_nodes": [4, 15]}, cv=3)
    search.fit(X, y)
    assert search.best_score_ > 0.7
    assert cross_val_score(VerticalBoostingClassifier(max_rounds=3, random_state=0), X, y, cv=3).mean() > 0.7


def test_more_than_two_classes() -> None:
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = VerticalBoostingClassifier(random_state=0).fit(X, names)
    assert model.score(X, names) > 0.95
    assert model.predict_proba(X).shape == (150, 3)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    assert model.decision_function(X).shape == (150, 3)


@pytest.mark.parametrize("classes", [2, 3])
def test_explanations_sum_to_the_score(classes: int) -> None:
    X, y = load_iris(return_X_y=True)
    X, y = (X, y) if classes == 3 else (X[50:], y[50:])
    model = VerticalBoostingClassifier(random_state=0).fit({"leaf": X[:, :2], "flower": X[:, 2:]}, y)
    found = model.explain({"leaf": X[:, :2], "flower": X[:, 2:]})
    assert set(found) == {"leaf", "flower", ""}
    assert list(found["leaf"]) == ["x0", "x1"]
    total = sum(values for own in found.values() for values in own.values())
    np.testing.assert_allclose(total, model.decision_function([X[:, :2], X[:, 2:]]), atol=1e-9)


@pytest.mark.parametrize(
    ("loss", "draw"),
    [
        ("squared_error", lambda rng, m: m + rng.normal(size=m.size)),
        ("poisson", lambda rng, m: rng.poisson(np.exp(m / 2)).astype(float)),
        ("gamma", lambda rng, m: np.exp(m / 2) * rng.gamma(3.0, size=m.size) / 3),
        ("absolute_error", lambda rng, m: m + rng.standard_t(2, size=m.size)),
        ("quantile", lambda rng, m: m + rng.normal(size=m.size)),
    ],
)
def test_regressions_beat_a_constant(loss: str, draw: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(3000, 4))
    mean = 2 * X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2])
    model = VerticalBoostingRegressor(loss=loss, quantile=0.9, random_state=0).fit(X, draw(rng, mean))
    predicted = np.log(model.predict(X)) * 2 if loss in ("poisson", "gamma") else model.predict(X)
    assert np.corrcoef(predicted, mean)[0, 1] > 0.9
    if loss == "quantile":
        assert 0.8 < np.mean(draw(np.random.default_rng(1), mean) <= predicted) < 0.95


def test_a_monotone_column() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(1000, 2))
    y = X[:, 0] + np.sin(12 * X[:, 0]) + X[:, 1]
    grid = np.column_stack([np.linspace(0, 1, 200), np.full(200, 0.5)])
    free = VerticalBoostingRegressor(random_state=0).fit(X, y).predict(grid)
    held = VerticalBoostingRegressor(random_state=0, monotonic_cst={"x0": 1}).fit(X, y).predict(grid)
    assert np.diff(free).min() < -1e-3
    assert np.diff(held).min() >= -1e-12
    np.testing.assert_array_equal(
        VerticalBoostingRegressor(random_state=0, monotonic_cst=[1, 0]).fit(X, y).predict(grid), held
    )


def test_categories_of_numbers() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 8, 2000), rng.normal(size=2000)]).astype(float)
    y = np.isin(X[:, 0], (1, 4, 6)) + 0.1 * rng.normal(size=2000)
    coded = {"max_rounds": 2, "max_leaf_nodes": 2, "random_state": 0, "trees_per_round": (5,)}
    by_size = VerticalBoostingRegressor(**coded).fit(X, y).score(X, y)
    for named in ([0], ["x0"], [True, False]):
        model = VerticalBoostingRegressor(categorical_features=named, **coded).fit(X, y)
        assert model.score(X, y) > by_size + 0.2


def test_weights_of_zero_are_rows_that_are_not_there() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    weights = (np.arange(len(y)) % 3 > 0).astype(float)
    one = VerticalBoostingClassifier(random_state=0).fit(X, y, sample_weight=weights)
    two = VerticalBoostingClassifier(random_state=0).fit(X[weights > 0], y[weights > 0])
    np.testing.assert_array_equal(one.decision_function(X), two.decision_function(X))
    three = VerticalBoostingClassifier(random_state=0).fit(X, y, sample_weight=np.where(y > 0, 5.0, 1.0))
    assert (
        three.decision_function(X).mean()
        > VerticalBoostingClassifier(random_state=0).fit(X, y).decision_function(X).mean()
    )


def test_a_party_of_noise_adds_nothing_where_gains_must_be_sure() -> None:
    rng = np.random.default_rng(0)
    X, noise = rng.normal(size=(3000, 4)), rng.normal(size=(3000, 6))
    y = rng.random(3000) < 1 / (1 + np.exp(-2 * X[:, 0] - X[:, 2]))
    tables = {"bank": X[:, :2], "shop": X[:, 2:], "noise": noise}
    model = VerticalBoostingClassifier(random_state=0, min_gain_se=2.5).fit(tables, y)
    assert model.party_weights_["noise"] == 0
    assert model.n_trees_["noise"] == 0
    assert model.party_weights_["bank"] > 0
    assert model.party_weights_["shop"] > 0


def test_interactions_across_parties_are_told() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(4000, 4))
    y = 4 * np.sin(np.pi * X[:, 0] * X[:, 1]) + X[:, 2] + X[:, 3] + 0.3 * rng.normal(size=4000)
    inside = VerticalBoostingRegressor(parties=[[0, 1], [2, 3]], random_state=0).fit(X, y).interaction_
    across = VerticalBoostingRegressor(parties=[[0, 2], [1, 3]], random_state=0).fit(X, y).interaction_
    assert across.found
    assert across.gain > 4 * across.standard_error
    assert "cannot learn" in across.sentence
    assert not inside.found
    assert "would not show" in inside.sentence
    alone = VerticalBoostingRegressor(parties=1, random_state=0).fit(X, y)
    assert "not tested" in alone.interaction_.sentence


def test_false_alarms_of_the_test_for_interactions() -> None:
    """Where there is none, it tells of one in about one run of a hundred."""
    alarms = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(800, 4))
        y = X[:, 0] + np.abs(X[:, 2]) + rng.normal(size=800)
        alarms += VerticalBoostingRegressor(max_rounds=4, random_state=seed).fit(X, y).interaction_.found
    assert alarms <= 2


def test_the_same_seed_is_the_same_model() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    model = VerticalBoostingClassifier(random_state=3)
    one, two = clone(model).fit(X, y), clone(model).fit(X, y)
    np.testing.assert_array_equal(one.decision_function(X), two.decision_function(X))
    assert one.trace_[-1].objective == two.trace_[-1].objective
    assert len(one.validation_loss_) == one.n_rounds_ + 1


def test_what_is_told() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    model = VerticalBoostingClassifier(random_state=0).fit(X, y)
    assert "epsilon is infinite" in str(model.certificate_)
    assert "AUC of 0.99 to 1.00" in str(model.certificate_)
    assert "lightgbm" in model.certificate_.versions
    assert model.traffic_["rounds"] == model.n_rounds_
    assert model.traffic_["bytes_up"] == 4 * len(y) * model.n_rounds_


# --- bad input ----------------------------------------------------------------------------------------

X, Y = load_breast_cancer(return_X_y=True)
CASES = [
    (
        "every column of a party is constant",
        {},
        np.hstack([X[:, :15], np.ones((569, 15))]),
        Y,
        "every column is constant",
    ),
    ("all columns are blank", {}, np.hstack([X[:, :15], np.full((569, 15), np.nan)]), Y, "every column is constant"),
    ("one class", {}, X, np.ones(569), "y has one class only, 1.0"),
    ("one row", {}, X[:1], Y[:1], "1 sample"),
    ("blank labels", {}, X, np.where(np.arange(569) == 7, np.nan, Y), "NaN"),
    ("infinite cells", {}, np.where(np.arange(30) == 3, np.inf, X), Y, "infinite value in row 0, column 3"),
    ("labels that are too few", {}, X, Y[:-1], "inconsistent numbers of samples"),
    ("a rate of zero", {"learning_rate": 0.0}, X, Y, "learning_rate=0.0 is not allowed"),
    ("no leaves", {"max_leaf_nodes": 1}, X, Y, "max_leaf_nodes=1 is not allowed"),
    ("no trees", {"trees_per_round": ()}, X, Y, "trees=.. is not allowed"),
    ("all rows held out", {"validation_fraction": 1.0}, X, Y, "validation_fraction=1.0 is not allowed"),
    ("no rounds", {"max_rounds": 0}, X, Y, "max_rounds=0 is not allowed"),
    ("unknown categories", {"categorical_features": ["salary"]}, X, Y, 'categorical_features names "salary"'),
    ("unknown direction", {"monotonic_cst": {"x0": 2}}, X, Y, "monotonic_cst has 2"),
    ("unknown loss", {"loss": "hinge"}, X, Y, "loss='hinge' is unknown"),
]


@pytest.mark.parametrize(
    ("options", "table", "labels", "message"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_bad_input_is_one_line(options: dict[str, Any], table: Any, labels: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        VerticalBoostingClassifier(**options).fit(table, labels)
    assert "\n" not in str(caught.value).strip()


def test_lists_of_tables_are_checked_too() -> None:
    with pytest.raises(InputError, match="y has NaN or infinity, first in row 7"):
        VerticalBoostingClassifier().fit([X[:, :5], X[:, 5:]], np.where(np.arange(569) == 7, np.nan, Y))
    with pytest.raises(InputError, match="different numbers of rows"):
        VerticalBoostingClassifier().fit([X[:, :5], X[:-1, 5:]], Y)
    with pytest.raises(InputError, match="y is a mapping"):
        VerticalBoostingClassifier().fit([X[:, :5], X[:, 5:]], {"bank": Y})


def test_ten_rows_give_a_model() -> None:
    """Too few for a split that is worth it, but no error: what comes out is about the constant."""
    model = VerticalBoostingClassifier(random_state=0).fit(X[:10], np.arange(10) % 2)
    assert model.predict_proba(X).shape == (569, 2)
    assert np.isfinite(model.decision_function(X)).all()


def test_huge_values() -> None:
    model = VerticalBoostingClassifier(random_state=0).fit(1e150 * X, Y)
    assert model.score(1e150 * X, Y) > 0.95
    shifted = VerticalBoostingRegressor(random_state=0).fit(X, 1e9 + X[:, 0])
    assert np.corrcoef(shifted.predict(X), X[:, 0])[0, 1] > 0.95
    with pytest.raises(InputError, match="y has values that are too large"):
        VerticalBoostingRegressor().fit(X, 1e20 * X[:, 0])


def test_text_that_is_not_named_as_a_category() -> None:
    tables, y = people(100)
    with pytest.raises(InputError, match='column "town" holds text, but is not among categorical_features'):
        VerticalBoostingClassifier(categorical_features=["plan"]).fit(tables, y)


def test_a_missing_package_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(InputError, match=r"need the package lightgbm: install it with pip install 'tacit\[trees\]'"):
        VerticalBoostingClassifier().fit(X, Y)


def test_importing_tacit_does_not_import_lightgbm() -> None:
    code = "import sys, tacit; tacit.VerticalBoostingClassifier(); assert 'lightgbm' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
