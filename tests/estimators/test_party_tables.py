"""Tables of several parties as one X: scikit-learn's splits cut the rows of all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score, train_test_split
from sklearn.utils import _safe_indexing, shuffle

from tacit import InputError, PartyTables, VerticalClassifier, VerticalClassifierCV, VerticalRegressor, alone, pooled

ROWS = 240
RNG = np.random.default_rng(5)
AGE, TOWN = RNG.integers(18, 90, ROWS).astype(float), RNG.choice(["Basel", "Bern"], ROWS)
BANK = pd.DataFrame({"age": AGE, "town": TOWN})
PHONE = pd.DataFrame({"bill": RNG.lognormal(4, 1, ROWS), "plan": RNG.choice(["flat", "prepaid"], ROWS)})
Y = 2 * np.sin(AGE / 9) + (TOWN == "Bern") + 0.5 * RNG.normal(size=ROWS) > 0.5
BANK.loc[::11, "age"] = np.nan
PHONE.loc[::7, "plan"] = None
TABLES = {"bank": BANK, "phone": PHONE}


def test_a_grid_search_over_alpha_and_terms_on_two_frames() -> None:
    grid = {"alpha": [1e-1, 1e-3], "terms": ["linear", "spline"]}
    search = GridSearchCV(VerticalClassifier(), grid, cv=3, error_score="raise").fit(PartyTables(TABLES), Y)
    assert search.best_params_["terms"] == "spline"
    scores = search.cv_results_["mean_test_score"]
    assert scores.max() > scores[[p["terms"] == "linear" for p in search.cv_results_["params"]]].max() + 0.05
    best = VerticalClassifier(**search.best_params_).fit(TABLES, Y)
    np.testing.assert_array_equal(search.predict(PartyTables(TABLES)), best.predict(TABLES))
    np.testing.assert_array_equal(search.predict_proba(PartyTables(TABLES)), best.predict_proba(TABLES))


def test_cross_validation_is_that_of_folds_cut_by_hand() -> None:
    model = VerticalClassifier(terms="spline", alpha=1e-3)
    folds = KFold(4, shuffle=True, random_state=0)
    found = cross_val_score(model, PartyTables(TABLES), Y, cv=folds)
    by_hand = []
    for seen, left in folds.split(np.zeros((ROWS, 1))):
        cut = [{name: table.iloc[rows] for name, table in TABLES.items()} for rows in (seen, left)]
        by_hand.append(model.fit(cut[0], Y[seen]).score(cut[1], Y[left]))
    assert found.tolist() == by_hand
    predicted = cross_val_predict(model, PartyTables(TABLES), Y, cv=folds)
    assert np.mean(predicted == Y) == pytest.approx(np.mean(found))


@pytest.mark.parametrize(
    "form",
    [
        lambda frame: frame,
        lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
        lambda frame: frame.select_dtypes("number").fillna(0).to_numpy(),
        lambda frame: sparse.csr_array(frame.select_dtypes("number").fillna(0).to_numpy()),
    ],
    ids=["pandas", "arrow", "array", "sparse"],
)
@pytest.mark.parametrize("by_name", [True, False])
def test_rows_of_every_form_of_table(form: Any, by_name: bool) -> None:
    tables = [form(BANK), form(PHONE)]
    X = PartyTables(dict(zip(TABLES, tables, strict=True)) if by_name else tables)
    assert len(X) == X.shape[0] == ROWS
    assert X.shape[1] == sum(table.shape[1] for table in tables)
    rows = np.array([3, 1, 200])
    mask = np.isin(np.arange(ROWS), rows)
    for key, size in ((rows, 3), (mask, 3), (slice(5), 5), (rows.tolist(), 3)):
        part = _safe_indexing(X, key)
        assert isinstance(part, PartyTables)
        assert part.shape == (size, X.shape[1])
        assert isinstance(part.tables, dict if by_name else list)
    train, test, y_train, y_test = train_test_split(X, Y, random_state=0)
    model = VerticalRegressor(alpha=0.1).fit(train, y_train)
    assert model.predict(test).shape == y_test.shape
    again = _safe_indexing(X, np.arange(ROWS)[::-1])
    np.testing.assert_allclose(model.predict(again), model.predict(X)[::-1], atol=1e-12)
    assert len(shuffle(X, random_state=0)) == ROWS


def test_polars_frames() -> None:
    pl = pytest.importorskip("polars")
    frames = {name: pl.from_pandas(table) for name, table in TABLES.items()}
    found = cross_val_score(VerticalClassifier(), PartyTables(frames), Y, cv=3)
    np.testing.assert_array_equal(found, cross_val_score(VerticalClassifier(), PartyTables(TABLES), Y, cv=3))


def test_a_search_inside_takes_it_too() -> None:
    model = VerticalClassifierCV(terms="auto", cv=3, random_state=0).fit(PartyTables(TABLES), Y)
    assert model.terms_ == "spline"
    assert model.score(PartyTables(TABLES), Y) == model.score(TABLES, Y)


def test_all_columns_together_are_a_baseline() -> None:
    view = pooled(VerticalClassifier(terms="spline")).fit(TABLES, Y)
    assert view.score(TABLES, Y) > 0.8
    assert view.predict(PartyTables(TABLES)).shape == Y.shape


def test_one_party_alone_knows_what_was_said_of_its_own_columns() -> None:
    X = RNG.uniform(size=(ROWS, 5))
    model = VerticalClassifier(terms="spline", parties=[2, 3], ranges={0: (0, 1), "x3": (0, 0.5)})
    view = alone(model, 1).fit(X, Y)
    own = VerticalClassifier(terms="spline", parties=1, ranges={1: (0, 0.5)}).fit(X[:, 2:], Y)
    np.testing.assert_array_equal(view.decision_function(X), own.decision_function(X[:, 2:]))
    np.testing.assert_array_equal(alone(model, 1).fit([X[:, :2], X[:, 2:]], Y).coef_, own.coef_)
    named = alone(VerticalClassifier(categories={"town": ["Bern"], "plan": ["flat"]}), 0).fit(TABLES, Y)
    assert named.estimator_.categories == {"town": ["Bern"]}


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({}, "PartyTables needs a mapping of party to table"),
        (BANK, "PartyTables needs a mapping of party to table"),
        ({"bank": BANK, "phone": PHONE[:9]}, "different numbers of rows .bank has 240, phone has 9."),
        ([BANK, [1, 2]], "the table of party 2 has no rows and columns"),
    ],
)
def test_what_is_no_set_of_tables_is_refused(tables: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        PartyTables(tables)
    with pytest.raises(InputError, match="index it by numbers"):
        PartyTables(TABLES)[3]


def test_it_says_what_it_holds() -> None:
    assert repr(PartyTables(TABLES)) == "PartyTables(240 rows, bank: 2 columns, phone: 2 columns)"
