"""One column at a time: what its constants make of numbers, texts and blanks, and what cannot be read."""

from __future__ import annotations

import datetime
import hashlib
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

from tacit.columns.constants import Encoding, Part, make_encoding, moments
from tacit.columns.encoder import BucketColumn, CategoryColumn, Encoder, NumberColumn
from tacit.columns.spec import ColumnSpec, EncodeRules, common_specs
from tacit.columns.table import ArrowTable, Texts, number_cells, text_cells
from tacit.errors import InputError

DAYS = [datetime.date(1970, 1, 2), None, datetime.date(1971, 1, 1)]


def table(party: str = "bank", **columns: Any) -> ArrowTable:
    data = pa.table(columns)
    return ArrowTable(party=party, columns=tuple(data.column_names), n_rows=data.num_rows, data=data)


def fitted(
    columns: dict[str, Any],
    *specs: ColumnSpec,
    rules: EncodeRules | None = None,
    protected: bool = False,
) -> Encoding:
    names = sorted(columns)
    rules = rules or EncodeRules(rare=1)
    return make_encoding([Part(table(**columns))], names, specs, rules, protected=protected)


def matrix(columns: dict[str, Any], *specs: ColumnSpec, **how: Any) -> dict[str, list[float]]:
    encoder = fitted(columns, *specs, **how).encoder
    encoded = encoder.matrix(table(**columns))
    return {name: encoded[:, j].tolist() for j, name in enumerate(encoder.names)}


def refusal(columns: dict[str, Any], *specs: ColumnSpec, **how: Any) -> str:
    with pytest.raises(InputError) as caught:
        fitted(columns, *specs, **how)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- numbers -----------------------------------------------------------------------------------------


def test_standard_numbers_with_a_blank() -> None:
    found = matrix({"age": [1.0, None, 3.0]})
    assert found == {"age": [-1.0, 0.0, 1.0], "age missing": [0.0, 1.0, 0.0]}


@pytest.mark.parametrize(
    ("scale", "expected"),
    [("standard", [-1.0, 1.0, 0.0]), ("range", [-1.0, 1.0, 0.0]), ("none", [10.0, 30.0, 20.0])],
)
def test_scales_fill_with_the_mean(scale: str, expected: list[float]) -> None:
    found = matrix({"x": [10, 30, None]}, rules=EncodeRules(scale=scale))
    assert found["x"] == expected


def test_a_public_range_clips_and_fills_with_its_middle() -> None:
    found = matrix({"age": [0.0, 18.0, 54.0, 90.0, 1000.0, None]}, ColumnSpec("age", low=18, high=90))
    assert found == {"age": [-1.0, -1.0, 0.0, 1.0, 1.0, 0.0], "age missing": [0.0] * 5 + [1.0]}
    plain = matrix({"age": [18.0, None]}, ColumnSpec("age", low=18, high=90, missing=False))
    assert plain == {"age": [-1.0, 0.0]}


def test_flags_are_numbers() -> None:
    assert matrix({"x": [True, False]}, rules=EncodeRules(scale="none")) == {"x": [1.0, 0.0]}


def test_constant_and_blank_columns_are_zeros_and_said() -> None:
    for values in ([7.0, 7.0, 7.0], [0.1, 0.1, 0.1], pa.nulls(3), [None, None, float("nan")]):
        encoding = fitted({"x": values})
        encoded = encoding.encoder.matrix(table(x=values))
        assert encoded.tolist() == [[0.0]] * 3
        assert encoding.facts["x"].constant


def test_dates_need_a_kind() -> None:
    assert 'holds dates: give it kind = "date"' in refusal({"since": DAYS})
    found = matrix({"since": DAYS}, ColumnSpec("since", kind="date"), rules=EncodeRules(scale="none"))
    assert found["since"] == [1.0, 183.0, 365.0]
    moments_of_day = pa.array([datetime.datetime(1970, 1, 1, 12), datetime.datetime(1970, 1, 3)])
    half = matrix({"x": moments_of_day}, ColumnSpec("x", kind="date"), rules=EncodeRules(scale="none"))
    assert half == {"x": [0.5, 2.0]}
    assert "write every date as 2026-01-31" in refusal({"x": ["1.2.2020"]}, ColumnSpec("x", kind="date"))
    assert matrix({"since": DAYS}, ColumnSpec("since", kind="category"))["since=1970-01-02"] == [1.0, 0.0, 0.0]


def test_numbers_as_text() -> None:
    texts = [f"{i}.5" for i in range(60)]
    assert 'holds numbers as text: fix the file, or give it kind = "number"' in refusal({"x": texts})
    assert 'holds numbers and "red" as text' in refusal({"x": [*texts, "red"]})
    found = matrix({"x": [" 1", "2.5", "", None]}, ColumnSpec("x", kind="number"), rules=EncodeRules(scale="none"))
    assert found["x"][:2] == [1.0, 2.5]
    assert found["x missing"] == [0.0, 0.0, 1.0, 1.0]
    line = refusal({"x": ["1", "red"]}, ColumnSpec("x", kind="number"))
    assert 'column "x" holds "red" in row 2, but its kind is "number"' in line
    assert 'holds "inf" in row 1' in refusal({"x": ["inf"]}, ColumnSpec("x", kind="number"))
    few = matrix({"x": ["1", "2", "1"]})  # few different ones are categories, as the file says
    assert few["x=1"] == [1.0, 0.0, 1.0]


def test_infinite_numbers_and_nested_values_are_refused() -> None:
    assert 'column "x" has 1 infinite value, the first in row 2' in refusal({"x": [1.0, float("inf")]})
    assert "cannot be encoded: leave it out of features" in refusal({"x": [[1], [2]]})


@pytest.mark.parametrize(
    "values", [[1e308, -1e308, 1e308], [5e-324, 0.0, 5e-324], [1e9, 1e9 + 1, 1e9], [1e-300, 2e-300, 0]]
)
@pytest.mark.parametrize("scale", ["standard", "range"])
def test_extreme_numbers_stay_finite_and_have_the_scale(values: list[float], scale: str) -> None:
    encoded = np.array(matrix({"x": values}, rules=EncodeRules(scale=scale))["x"])
    assert np.isfinite(encoded).all()
    if scale == "standard" and max(values) > 1e-310:
        np.testing.assert_allclose([encoded.mean(), encoded.std()], [0, 1], atol=1e-6)
    elif max(values) > 1e-310:
        assert (encoded.min(), encoded.max()) == (-1.0, 1.0)


def test_moments_are_those_of_numpy() -> None:
    values = np.random.RandomState(0).normal(5, 3, 1000)
    np.testing.assert_allclose(moments(values), [values.mean(), values.std()], rtol=1e-12)


# --- categories --------------------------------------------------------------------------------------


def test_one_column_for_each_category() -> None:
    found = matrix({"city": ["Bern", "Basel ", "", None, "Bern"]})
    assert list(found) == ["city=Basel", "city=Bern", "city=other", "city=missing"]
    assert found["city=Bern"] == [1, 0, 0, 0, 1]
    assert found["city=Basel"] == [0, 1, 0, 0, 0]
    assert found["city=other"] == [0] * 5
    assert found["city=missing"] == [0, 0, 1, 1, 0]


def test_rare_ones_are_other_and_the_most_frequent_are_kept() -> None:
    values = ["a"] * 3 + ["b"] * 2 + ["c"] * 2 + ["d"]
    encoding = fitted({"x": values}, rules=EncodeRules(rare=2, most=2))
    assert encoding.encoder.names == ("x=a", "x=b", "x=other")
    fact = encoding.facts["x"]
    assert (fact.different, fact.other, fact.blanks, fact.constant) == (4, 3, 0, False)


def test_one_category_only_and_all_rare() -> None:
    assert fitted({"x": ["a"] * 20}, rules=EncodeRules()).facts["x"].constant
    rare = fitted({"x": list("abcdefgh")}, ColumnSpec("x", kind="category"), rules=EncodeRules())
    assert rare.encoder.names == ("x=other",)
    assert rare.facts["x"].constant


def test_the_words_other_and_missing() -> None:
    found = matrix({"x": ["other", "missing", "a", None]})
    assert list(found) == ["x=a", "x=other", "x=missing"]
    assert found["x=other"] == [1, 0, 0, 0]
    assert found["x=missing"] == [0, 1, 0, 1]


def test_a_public_list() -> None:
    spec = ColumnSpec("city", values=("Bern", "Basel"))
    found = matrix({"city": ["Bern", "Lugano", None]}, spec)
    assert list(found) == ["city=Basel", "city=Bern", "city=other", "city=missing"]
    assert found["city=other"] == [0, 1, 0]
    public = matrix({"city": ["Bern", "Lugano", None]}, spec, protected=True)
    assert list(public) == ["city=Basel", "city=Bern", "city=other"]
    assert public["city=other"] == [0, 1, 1]


def test_numbers_as_categories_are_their_text() -> None:
    for values in ([7, 8, None], [7.0, 8.0, float("nan")], ["7", " 8", " "]):
        found = matrix({"x": values}, ColumnSpec("x", kind="category"))
        assert list(found) == ["x=7", "x=8", "x=other", "x=missing"]


def test_composed_letters_are_one_category() -> None:
    assert list(matrix({"x": ["Zu\u0308rich", "Z\u00fcrich"]})) == ["x=Z\u00fcrich", "x=other"]


def test_buckets_are_a_fixed_hash() -> None:
    column = BucketColumn("code", 32)
    digest = hashlib.sha256(b"code=A7").digest()
    assert column.bucket("A7") == int.from_bytes(digest[:8], "big") % 32 == 12
    found = matrix({"code": ["A7", None]}, ColumnSpec("code", buckets=32, missing=False))
    assert len(found) == 32
    assert found["code=bucket 12"] == [1.0, 0.0]
    assert sum(column[1] for column in found.values()) == 0.0
    marked = matrix({"code": ["A7", None]}, ColumnSpec("code", buckets=32))
    assert marked["code=missing"] == [0.0, 1.0]


def test_very_many_categories_stay_few_columns() -> None:
    values = [f"v{i}" for i in range(100_000)] + ["often"] * 20
    encoding = fitted({"x": values}, rules=EncodeRules())
    assert encoding.encoder.names == ("x=often", "x=other")
    assert encoding.facts["x"].different == 100_001
    wide = fitted({"x": values}, rules=EncodeRules(rare=1, most=1000))
    encoded = wide.encoder.matrix(table(x=values))
    assert encoded.shape == (100_020, 1001)
    assert encoded.nnz == 100_020  # most of it is 0, so it is sparse
    np.testing.assert_array_equal(encoded.sum(axis=1), 1.0)


# --- all columns -------------------------------------------------------------------------------------


def test_names_that_collide_are_refused() -> None:
    line = refusal({"a": ["b=c", "d"], "a=b": ["c", "e"]})
    assert 'two columns would both be encoded as "a=b=c": rename one' in line
    assert '"age missing"' in refusal({"age": [1.0, None], "age missing": [1.0, 2.0]})


def test_unknown_columns_of_the_job_are_named() -> None:
    line = refusal({"age": [1.0]}, ColumnSpec("aeg", low=0, high=1))
    assert 'columns names "aeg" (did you mean "age"?), which is none of its features' in line


def test_new_rows_and_what_is_said_of_them() -> None:
    encoder = fitted({"age": [1.0, 3.0], "city": ["a", "b"], "code": ["x", "y"]}, ColumnSpec("code", buckets=2)).encoder
    new = table(extra=[0, 0, 0], city=["b", "z", None], age=[3.0, None, 1.0], code=["x", None, "q"])
    encoded, said = encoder.predicting(new)
    assert encoded[:, :4].tolist() == [[1, 0, 1, 0], [0, 0, 0, 1], [-1, 0, 0, 1]]
    assert said == (
        'bank: column "extra" not used by the model, so not looked at',
        'bank: column "age" has 1 blank, for which the model has no column: filled with 2',
        'bank: column "city" has 1 blank, for which the model has no column: counted as "other"',
        'bank: column "city": 1 row holds none of the model\'s 2 categories (such as "z"): counted as other',
        'bank: column "code" has 1 blank, for which the model has no column: counted as "no bucket"',
    )


def test_retyped_columns() -> None:
    encoder = fitted({"age": [1.0, 3.0], "city": ["1", "2"]}).encoder
    same, said = encoder.predicting(table(city=[1, 2], age=["1", "3"]))  # numbers as text and the other way round
    assert (same.tolist(), said) == ([[-1, 1, 0, 0], [1, 0, 1, 0]], ())
    with pytest.raises(InputError, match='"age" holds "old" in row 2, but the model was trained on numbers'):
        encoder.predicting(table(city=["1", "2"], age=["1", "old"]))
    with pytest.raises(InputError, match=r"of type date32.*but the model was trained on numbers"):
        encoder.predicting(table(city=["1", "2"], age=DAYS[:2]))
    with pytest.raises(InputError, match='party "bank" has no column "age"'):
        encoder.predicting(table(city=["1", "2"]))


def test_parties_with_the_same_columns_unite_their_constants() -> None:
    north, east = table("north", x=[1.0, 2.0], city=["a", "b"]), table("east", x=[3.0, None], city=["b", None])
    rules = EncodeRules(rare=2)
    encoding = make_encoding([Part(north), Part(east)], ["city", "x"], (), rules, protected=False)
    assert encoding.encoder.names == ("city=b", "city=other", "city=missing", "x", "x missing")
    column = encoding.encoder.columns[1]
    assert isinstance(column, NumberColumn)
    np.testing.assert_allclose([column.centre, column.divisor], [2.0, np.sqrt(2 / 3)])
    blank = table("blank", x=pa.nulls(2), city=pa.nulls(2))
    also = make_encoding([Part(north), Part(east), Part(blank)], ["city", "x"], (), rules, protected=False)
    assert also.encoder == encoding.encoder
    text = table("text", x=["many", "few"], city=["a", "b"])
    with pytest.raises(InputError, match='"x" is a number at party "north" and a category at party "text"'):
        make_encoding([Part(north), Part(text)], ["city", "x"], (), rules, protected=False)


def test_parties_that_say_different_things() -> None:
    one, two = ColumnSpec("age", low=0, high=1), ColumnSpec("age", low=0, high=2)
    assert common_specs([("a", [one]), ("b", [one]), ("c", [])]) == (one,)
    with pytest.raises(InputError, match='parties "a" and "b" say different things about column "age"'):
        common_specs([("a", [one]), ("b", [two])])


def test_cells_count_only_the_chosen_rows() -> None:
    part = Part(table(x=["a", "b", "b", None]), np.array([1, 2]))
    encoding = make_encoding([part], ["x"], (), EncodeRules(rare=1), protected=False)
    assert encoding.encoder.columns == (CategoryColumn("x", ("b",), False, "rows"),)
    assert encoding.facts["x"].different == 1


def test_chunked_and_dictionary_columns() -> None:
    chunks = pa.chunked_array([["a", None], [], ["b", "a"]])
    texts = text_cells(table(x=chunks), "x")
    assert [texts.values[code] if code >= 0 else None for code in texts.codes] == ["a", None, "b", "a"]
    coded = text_cells(table(x=pa.array(["u", "v"]).dictionary_encode()), "x")
    assert coded.values == ("u", "v")
    assert isinstance(text_cells(table(x=pa.nulls(2)), "x"), Texts)
    np.testing.assert_array_equal(number_cells(table(x=pa.chunked_array([[1], [2]])), "x", days=False), [1.0, 2.0])


def test_encoders_are_compared_by_value() -> None:
    assert Encoder((NumberColumn("x"),)) == Encoder((NumberColumn("x"),))
    assert Encoder((NumberColumn("x"),)) != Encoder((NumberColumn("x", 1.0),))


def test_sparse_and_dense_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.RandomState(0)
    columns = {
        "city": [None if i % 11 == 0 else f"c{rng.randint(90)}" for i in range(300)],
        "age": [None if i % 7 == 0 else rng.normal() for i in range(300)],
    }
    encoder = fitted(columns, rules=EncodeRules(rare=1, most=80)).encoder
    rows = rng.permutation(300)[:200]
    sparse = encoder.matrix(table(**columns), rows)
    assert sp.issparse(sparse)
    monkeypatch.setattr("tacit.columns.encoder.SPARSE_FROM", 10**9)
    dense = encoder.matrix(table(**columns), rows)
    assert isinstance(dense, np.ndarray)
    np.testing.assert_array_equal(sparse.toarray(), dense)
    kept = {name.removeprefix("city=") for name in encoder.names}
    for row, at in zip(dense, rows, strict=True):
        city = columns["city"][at] or "missing"
        assert row[encoder.names.index(f"city={city if city in kept else 'other'}")] == 1.0
