"""Polars frames are taken as pandas frames are; skipped where polars is not installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tacit import HorizontalClassifier, VerticalClassifier
from tacit.errors import InputError

pl = pytest.importorskip("polars")
NAMES = ["a", "b", "c", "d"]


@pytest.fixture
def rows() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4))
    return X, X.sum(axis=1) > 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: VerticalClassifier(parties=[["d", "a"], ["c", "b"]]),
        lambda: HorizontalClassifier(parties=3, graph="ring", random_state=0),
    ],
)
def test_one_table(rows: tuple[Any, Any], make: Any) -> None:
    X, y = rows
    here, there = pl.DataFrame(dict(zip(NAMES, X.T, strict=True))), pd.DataFrame(X, columns=NAMES)
    one, two = make().fit(here, pl.Series(y)), make().fit(there, y)
    np.testing.assert_array_equal(one.coef_, two.coef_)
    np.testing.assert_array_equal(one.predict(here), two.predict(there))
    assert list(one.feature_names_in_) == NAMES


def test_one_table_for_each_party(rows: tuple[Any, Any]) -> None:
    X, y = rows
    frame = pl.DataFrame(dict(zip(NAMES, X.T, strict=True)))
    blocks = [frame[["a", "b"]], frame[["c", "d"]]]
    model = VerticalClassifier().fit(blocks, pl.Series(y))
    expected = VerticalClassifier().fit([X[:, :2], X[:, 2:]], y)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-9)
    with pytest.raises(InputError, match="column 0 is 'b', it was 'a'"):
        model.predict([frame[["b", "a"]], blocks[1]])


def test_text_categories_and_blanks_are_those_of_pandas(rows: tuple[Any, Any]) -> None:
    X, y = rows
    town = [["Bern", "Genf", None][k % 3] for k in range(120)]
    blank = [None if k % 7 == 0 else float(v) for k, v in enumerate(X[:, 0])]
    there = pd.DataFrame(X, columns=NAMES).assign(a=blank, b=town, d=pd.Categorical(np.arange(120) % 3))
    here = pl.DataFrame(dict(zip(NAMES, X.T, strict=True))).with_columns(
        pl.Series("a", blank),
        pl.Series("b", town),
        pl.Series("d", [str(k % 3) for k in range(120)], dtype=pl.Categorical),
    )
    one, two = (VerticalClassifier(terms="spline", parties=2).fit(table, y) for table in (here, there))
    np.testing.assert_array_equal(one.coef_, two.coef_)
    np.testing.assert_array_equal(one.decision_function(here), two.decision_function(there))
    assert one.coef_by_party_.columns == two.coef_by_party_.columns


def test_refusals_name_the_column(rows: tuple[Any, Any]) -> None:
    X, y = rows
    frame = pl.DataFrame(dict(zip(NAMES, X.T, strict=True))).with_columns(pl.Series("a", [[1.0]] * 120))
    for table in (frame, [frame[["a", "b"]], frame[["c"]]]):
        with pytest.raises(InputError, match='column "a" holds values of type large_list'):
            VerticalClassifier(parties=2).fit(table, y)
