"""Protected rows: no constant of an encoding comes from them, and what would need one is refused in one line."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.columns.constants import Encoding, Part, make_encoding, public_encoder
from tacit.columns.spec import ColumnSpec, EncodeRules
from tacit.columns.table import ArrowTable
from tacit.columns.words import column_lines, constants, describe, record
from tacit.errors import InputError

SPECS = (
    ColumnSpec("age", low=18, high=90),
    ColumnSpec("city", values=("Basel", "Bern")),
    ColumnSpec("code", buckets=4, missing=True),
    ColumnSpec("pay", missing=True),
)
NAMES = ("age", "city", "code", "pay", "raw")
TYPES = {"age": pa.float64(), "city": pa.string(), "code": pa.string(), "pay": pa.float64(), "raw": pa.float64()}
NUMBERS = st.floats(-1e6, 1e6)
ROW = st.fixed_dictionaries(
    {
        "age": st.none() | NUMBERS,
        "city": st.none() | st.sampled_from(["Basel", "Bern", "Lugano", ""]),
        "code": st.none() | st.text(max_size=3),
        "pay": st.none() | NUMBERS,
        "raw": NUMBERS,
    }
)


def table(rows: list[dict[str, Any]]) -> ArrowTable:
    data = pa.table({name: pa.array([row[name] for row in rows], TYPES[name]) for name in NAMES})
    return ArrowTable(party="shop", columns=NAMES, n_rows=len(rows), data=data)


def protected(rows: list[dict[str, Any]], rules: EncodeRules | None = None) -> Encoding:
    return make_encoding([Part(table(rows))], NAMES, SPECS, rules or EncodeRules(), protected=True)


@settings(max_examples=60, deadline=None)
@given(st.lists(ROW, min_size=2, max_size=6), ROW, st.integers(0, 100))
def test_replacing_a_row_changes_that_row_alone(rows: list[dict[str, Any]], other: dict[str, Any], at: int) -> None:
    at %= len(rows)
    neighbours = [*rows[:at], other, *rows[at + 1 :]]
    one, two = protected(rows), protected(neighbours)
    assert one == two
    left, right = one.encoder.matrix(table(rows)), two.encoder.matrix(table(neighbours))
    keep = np.arange(len(rows)) != at
    np.testing.assert_array_equal(left[keep], right[keep])
    np.testing.assert_array_equal(left[at], one.encoder.matrix(table([rows[at]]))[0])


def test_the_encoder_is_that_of_the_job_alone() -> None:
    rows = [{"age": 30.0, "city": "Bern", "code": "x", "pay": None, "raw": 1.0}]
    assert protected(rows).encoder == public_encoder(NAMES, SPECS)
    assert protected(rows).facts == {}


def one_column(values: Any, *specs: ColumnSpec, scale: str | None = None) -> str:
    data = pa.table({"x": values})
    part = Part(ArrowTable(party="shop", columns=("x",), n_rows=data.num_rows, data=data))
    with pytest.raises(InputError) as caught:
        make_encoding([part], ["x"], specs, EncodeRules(scale=scale), protected=True)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("scale", ["standard", "range"])
def test_scales_from_rows_are_refused(scale: str) -> None:
    line = one_column([1.0, 2.0], scale=scale)
    assert line.startswith(f'party "shop": column "x" would be scaled by its rows (scale = "{scale}")')
    assert 'give it low and high in [party.columns], or write scale = "none"' in line


@pytest.mark.parametrize("specs", [(), (ColumnSpec("x", kind="category"),)])
def test_lists_of_categories_from_rows_are_refused(specs: tuple[ColumnSpec, ...]) -> None:
    line = one_column(["a", "b"], *specs)
    assert 'party "shop": column "x" holds categories, and a list taken from its rows would not be private' in line
    assert "give it values = [...] or buckets = 32" in line


def test_blanks_without_something_public_to_stand_for_them_are_refused() -> None:
    line = one_column([1.0, None])
    assert 'column "x" has blanks, and to fill them with the mean of its rows would not be private' in line
    assert "give it low and high (blanks become their middle), or missing = true" in line


def test_all_columns_are_refused_at_once() -> None:
    cells = {"city": ["a", "b"], "plan": ["c", "d"], "calls": [1.0, None], "texts": [None, 2.0], "age": [1.0, 2.0]}
    part = Part(ArrowTable(party="shop", columns=tuple(cells), n_rows=2, data=pa.table(cells)))
    with pytest.raises(InputError) as caught:
        make_encoding([part], list(cells), (), EncodeRules(), protected=True)
    line = str(caught.value)
    assert line.startswith('party "shop": columns "city", "plan" hold categories, and lists taken from their rows')
    assert "give each values = [...] or buckets = 32 in [party.columns], or leave them out of features; " in line
    assert '; columns "calls", "texts" have blanks, and to fill them with the mean of their rows' in line
    assert "age" not in line
    with pytest.raises(InputError, match=r'columns "calls", "texts", "age" would be scaled by their rows .* give each'):
        make_encoding([part], list(cells), (), EncodeRules(scale="standard"), protected=True)


@pytest.mark.parametrize("protected", [True, False])
def test_numbers_without_a_range_are_pointed_out_where_rows_are_clipped(protected: bool) -> None:
    data = pa.table({"x": [1.0, 2000.0], "y": [0.0, 1.0]})
    part = Part(ArrowTable(party="shop", columns=("x", "y"), n_rows=2, data=data))
    known = ColumnSpec("y", low=0, high=1)
    for specs, pointed in (((known,), protected), ((known, ColumnSpec("x", low=0, high=3000)), False)):
        encoding = make_encoding([part], ["x", "y"], specs, EncodeRules(), protected=protected)
        said = [line for line in column_lines("shop", encoding) if "drown" in line]
        assert len(said) == pointed
        assert all(line.endswith('give low and high to "x"') for line in said)


def test_dates_need_a_range_and_not_only_a_kind() -> None:
    days = [datetime.date(2020, 5, 28), datetime.date(2010, 10, 12)]
    cells = {"since": days, "last call": days, "x": [1.0, 2.0], "city": ["a", "b"]}
    part = Part(ArrowTable(party="shop", columns=tuple(cells), n_rows=2, data=pa.table(cells)))
    with pytest.raises(InputError) as caught:
        make_encoding([part], list(cells), (), EncodeRules(), protected=True)
    line = str(caught.value)
    assert line.startswith('party "shop": columns "since", "last call" hold dates: give each low and high in [party.')
    assert "such as since = { low = 2000-01-01, high = 2030-01-01 }" in line
    assert 'column "city" holds categories' in line
    assert "kind" not in line
    with pytest.raises(InputError, match=r'column "last call" holds dates: give it .* "last call" = \{ low = 2000-'):
        make_encoding([part], ["last call"], (), EncodeRules(), protected=True)
    kind = make_encoding([part], ["since", "x"], (ColumnSpec("since", "date"),), EncodeRules(), protected=True)
    assert column_lines("shop", kind)[-1].endswith('give low and high to "since", "x"')


def test_a_cell_that_does_not_fit_is_refused() -> None:
    assert 'holds "red" in row 2, but its kind is "number"' in one_column(["1", "red"], ColumnSpec("x", low=0, high=1))
    assert "write every date" in one_column([1.0], ColumnSpec("x", low=0, high=9, kind="date"))


def test_what_is_said_shows_no_row() -> None:
    rows = [{"age": 30.0, "city": "Bern", "code": "x", "pay": None, "raw": 1.0}] * 7
    encoding = protected(rows)
    words = {column.name: describe(column, None) for column in encoding.encoder.columns}
    assert words == {
        "age": "number from 18 to 90, blanks become 54",
        "city": "category, 2 categories, blanks are other",
        "code": "category in 4 buckets, blanks apart",
        "pay": "number as it is, blanks become 0 and are marked",
        "raw": "number as it is",
    }
    assert all(set(item) == {"column", "kind", "encoded", "from"} for item in record(encoding))


def test_what_certificates_say_of_the_constants() -> None:
    rows = [{"age": 30.0, "city": "Bern", "code": "x", "pay": 2.0, "raw": 1.0}] * 20
    learnt = make_encoding([Part(table(rows))], NAMES, (), EncodeRules(), protected=False)
    uncovered, assumed = constants({"bank": learnt, "shop": protected(rows)}, shared=False)
    assert len(uncovered) == len(assumed) == 1
    assert uncovered[0].startswith("the constants of the encoding of bank (means")
    assert assumed[0].startswith("the constants of the encoding of shop (columns")
    uncovered, assumed = constants({"a": learnt, "b": learnt}, shared=True)
    assert "shared between them" in uncovered[0]
    assert assumed == []
    stated = (ColumnSpec("age", low=0, high=1, missing=True),)
    known = make_encoding([Part(table(rows))], ["age"], stated, EncodeRules(), protected=False)
    assert constants({"bank": known}, shared=False) == ([], [])  # nothing was taken from rows
    blanks = make_encoding([Part(table(rows))], ["age"], SPECS[:1], EncodeRules(), protected=False)
    assert len(constants({"bank": blanks}, shared=False)[0]) == 1  # whether blanks occur was
