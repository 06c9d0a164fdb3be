"""The contract of every term: norms reached and never exceeded, one cell alone, constant beyond its range, saved whole.

The formulas of codes are written here a second time, from their definition (docs/proofs/curves.md), with Python's own
floats and no array: what the package encodes is held to them.
"""

from __future__ import annotations

import datetime
import json
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tacit.columns import curves, encoder
from tacit.columns.constants import Part, make_encoding, public_encoder
from tacit.columns.curves import CurveNoise, FourierColumn, SplineColumn, fit_spline, unit_height
from tacit.columns.encoder import BucketColumn, CategoryColumn, Encoder, NumberColumn, from_record, to_record
from tacit.columns.spec import ColumnSpec, EncodeRules
from tacit.columns.table import ArrowTable, Texts

ULP = 2.0**-52
NAN = math.nan
PAIRS = (0, 1, 2, 3, 5, 8, 64)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
MODERATE = st.floats(-1e6, 1e6)


@st.composite
def ranges(draw: st.DrawFn) -> tuple[float, float]:
    """Ranges of every width, from a few units in the last place to nearly all numbers."""
    low = draw(FINITE)
    kind = draw(st.sampled_from(["any", "near", "tiny", "all"]))
    if kind == "all":
        return -1.7e308, 1.7e308
    if kind == "tiny":
        return 0.0, draw(st.integers(2, 50)) * 5e-324
    high = draw(FINITE) if kind == "any" else low
    for _ in range(draw(st.integers(2, 40)) if kind == "near" else 0):
        high = math.nextafter(high, math.inf)
    low, high = min(low, high), max(low, high)
    assume(low / 2 < high / 2 and math.isfinite(high))
    return low, high


FOURIER = st.builds(
    lambda ends, pairs, exact, log, whole, missing, days: FourierColumn(
        "x", ends[0], ends[1], pairs, log=log, whole=whole, missing=missing, days=days, exact=exact
    ),
    ranges(),
    st.sampled_from(PAIRS),
    st.sampled_from([0, 1, 3, 32]),
    *[st.booleans()] * 4,
)


# --- The code of protected rows, from its definition --------------------------------------------------------


def place(x: float, low: float, high: float, log: bool) -> float:
    """u: from 0 at low to 1 at high."""
    x = min(max(x, low), high)
    u = (x / 2 - low / 2) / (high / 2 - low / 2)
    return math.asinh(1000 * u) / math.asinh(1000) if log else u


def code(x: float, low: float, high: float, m: int, *, log: bool, missing: bool) -> list[float]:
    """All cosines, all sines, and whether the cell is blank."""
    blank = math.isnan(x)
    u = place((low / 2 + high / 2) if blank else x, low, high, log)
    total = math.fsum(1 / k for k in range(1, m + 1))
    heights = [math.sqrt(1 / k / total) for k in range(1, m + 1)]
    waves = [s * math.cos(k * math.pi * u) for k, s in enumerate(heights, 1)]
    waves += [s * math.sin(k * math.pi * u) for k, s in enumerate(heights, 1)]
    own = waves or [2 * u - 1]
    return [*([0.0] * len(own) if blank else own), float(blank)] if missing else own


def pairs_in_use(m: int, low: float, high: float, whole: bool) -> int:
    """v values have a use for (v - 1) / 2 pairs, rounded up; two values are one number."""
    v = high - low + 1
    if not whole or m == 0 or v > 200:
        return m
    return 0 if v <= 2 else min(m, math.ceil((v - 1) / 2))


@settings(max_examples=200, deadline=None)
@given(
    st.tuples(MODERATE, MODERATE).filter(lambda ends: ends[1] - ends[0] > 1e-3),
    st.sampled_from(PAIRS),
    st.booleans(),
    st.booleans(),
    st.lists(st.just(NAN) | MODERATE | FINITE, min_size=1, max_size=5),
)
def test_protected_numbers_are_the_functions_of_the_definition(
    ends: tuple[float, float], m: int, log: bool, missing: bool, cells: list[float]
) -> None:
    column = FourierColumn("x", *ends, m, log=log, missing=missing)
    expected = np.array([code(x, *ends, m, log=log, missing=missing) for x in cells])
    np.testing.assert_allclose(column.encode(np.array(cells)), expected, rtol=0, atol=1e-10)
    assert len(column.names) == expected.shape[1]
    assert len(set(column.names)) == len(column.names)


def mixed(value: float) -> int:
    """The bits of a float, mixed as splitmix64 does at its end."""
    bits = int.from_bytes(struct.pack(">d", value + 0.0))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ (bits >> shift)) * factor % 2**64
    return bits ^ (bits >> 31)


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from([0, 1, 3, 8]),
    st.integers(1, 40),
    st.booleans(),
    st.lists(st.just(NAN) | st.sampled_from([-0.0, 0.0, 7.0, 1e9]) | MODERATE, min_size=1, max_size=5),
)
def test_exact_values_are_in_the_buckets_of_the_definition(
    m: int, exact: int, missing: bool, cells: list[float]
) -> None:
    """A third of the squared norm is theirs; beside a line there are none."""
    low, high = 0.0, 5000.0
    column = FourierColumn("x", low, high, m, missing=missing, exact=exact)
    expected = []
    for x in cells:
        waves, blank = code(x, low, high, m, log=False, missing=missing), math.isnan(x)
        own = [0.0] * exact
        if not (blank and missing):
            own[mixed(2500.0 if blank else min(max(x, low), high)) % exact] = math.sqrt(1 / 3)
        scale = 1.0 if blank and missing else math.sqrt(2 / 3)
        expected.append([*own, *(scale * wave for wave in waves)] if m else waves)
    np.testing.assert_allclose(column.encode(np.array(cells)), np.array(expected), rtol=0, atol=1e-10)
    assert len(set(column.names)) == len(column.names) == len(expected[0])
    assert Encoder((column,)).curves == (((exact, 2 * m, m),) if m else ())


@settings(max_examples=100, deadline=None)
@given(st.integers(-50, 50), st.integers(1, 60), st.sampled_from(PAIRS), st.booleans())
def test_whole_numbers_use_no_more_pairs_than_they_have_values(low: int, steps: int, m: int, log: bool) -> None:
    column = FourierColumn("x", low, low + steps, m, log=log, whole=True)
    used = pairs_in_use(m, low, low + steps, whole=True)
    assert column.used_pairs == used
    values = np.arange(low, low + steps + 1, dtype=float)
    expected = np.array([code(x, low, low + steps, used, log=log, missing=False) for x in values])
    np.testing.assert_allclose(column.encode(values), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("values", [2, 3, 4, 5, 9])
@pytest.mark.parametrize("log", [False, True])
def test_few_whole_numbers_have_full_rank(values: int, log: bool) -> None:
    """Beside an intercept, v values are told apart by v - 1 directions: every function of them is in reach."""
    cells = np.arange(values, dtype=float)
    found = FourierColumn("x", 0, values - 1, 8, log=log, whole=True).encode(cells)
    assert np.linalg.matrix_rank(found - found.mean(axis=0)) == values - 1
    assert found.shape[1] <= max(1, values)
    assert found.shape[1] == {2: 1, 3: 2, 4: 4, 5: 4, 9: 8}[values]


def test_a_whole_range_as_wide_as_all_numbers_keeps_all_pairs() -> None:
    assert FourierColumn("x", -1.7e308, 1.7e308, 8, whole=True).used_pairs == 8


# --- Norms -------------------------------------------------------------------------------------------------


def norms(column: Any, cells: Sequence[float]) -> np.ndarray:
    found = np.asarray(column.encode(np.array(cells, dtype=float)))
    return np.sqrt(np.sum(found.reshape(len(cells), -1) ** 2, axis=1))


@settings(max_examples=400, deadline=None)
@given(FOURIER, st.lists(FINITE | st.sampled_from([1e308, -1e308, 5e-324, 0.0]), min_size=1, max_size=6))
def test_every_protected_cell_has_norm_1(column: FourierColumn, cells: list[float]) -> None:
    own = [*cells, column.low, column.high, *([NAN] if column.missing else [])]
    found = norms(column, own)
    assert np.all(found <= 1 + 4 * ULP)
    if column.used_pairs:
        assert np.all(found >= 1 - 4 * ULP)
        assert np.all(np.isclose(norms(column, [NAN]), 1, rtol=0, atol=4 * ULP))
    else:  # a line reaches 1 at the ends of its range
        assert np.all(found[len(cells) : len(cells) + 2] == 1)


@settings(max_examples=300, deadline=None)
@given(ranges(), st.booleans(), st.lists(FINITE, min_size=1, max_size=6))
def test_a_line_in_a_range_has_norm_1_at_most(ends: tuple[float, float], missing: bool, cells: list[float]) -> None:
    spec = ColumnSpec("x", low=ends[0], high=ends[1], missing=missing)
    (column,) = public_encoder(["x"], [spec]).columns
    assert isinstance(column, NumberColumn)
    found = np.abs(column.encode(np.array([*cells, *ends])))
    assert np.all(found <= 1)
    assert found[-2:].max() == 1


def row_of(columns: Sequence[Any], cells: dict[str, Any]) -> np.ndarray:
    """The encoded row of one record."""
    types = {name: pa.string() if isinstance(value, str) else pa.float64() for name, value in cells.items()}
    data = pa.table({name: pa.array([value], types[name]) for name, value in cells.items()})
    table = ArrowTable(party="shop", columns=tuple(cells), n_rows=1, data=data)
    matrix = Encoder(tuple(columns)).matrix(table)
    return np.asarray(matrix.todense() if hasattr(matrix, "todense") else matrix)[0]


KINDS: dict[str, Callable[[str, bool], Any]] = {
    "fourier": lambda name, missing: FourierColumn(name, 0.0, 10.0, 5, missing=missing),
    "asinh": lambda name, missing: FourierColumn(name, 0.0, 1e5, 8, log=True, missing=missing),
    "line": lambda name, missing: FourierColumn(name, -1.0, 3.0, 0, missing=missing),
    "range": lambda name, missing: NumberColumn(name, 5.0, 5.0, 5.0, 0.0, 10.0, missing),
    "category": lambda name, missing: CategoryColumn(name, ("a", "b"), missing),
    "bucket": lambda name, missing: BucketColumn(name, 3, missing),
}
CELLS = {name: st.sampled_from(["a", "b", "new", "missing"]) for name in ("category", "bucket")}


@settings(max_examples=150, deadline=None)
@given(st.data(), st.lists(st.tuples(st.sampled_from(list(KINDS)), st.booleans()), min_size=1, max_size=40))
def test_a_row_of_p_bounded_columns_has_norm_root_p_at_most(data: st.DataObject, kinds: list[tuple[str, bool]]) -> None:
    columns = [KINDS[kind](f"c{j}", missing) for j, (kind, missing) in enumerate(kinds)]
    cells: dict[str, Any] = {}
    for j, (kind, _) in enumerate(kinds):
        cells[f"c{j}"] = data.draw(CELLS.get(kind, st.none() | FINITE))
    made = Encoder(tuple(columns))
    assert made.unbounded == ()
    found = float(np.linalg.norm(row_of(columns, cells)))
    assert found <= math.sqrt(len(columns)) * (1 + 4 * ULP)
    if all(kind in ("fourier", "asinh", "category") for kind, _ in kinds):
        assert found == pytest.approx(math.sqrt(len(columns)), rel=4 * ULP)


@pytest.mark.parametrize(
    "column",
    [
        NumberColumn("x"),
        NumberColumn("x", 1.0, 2.0, 1.0, source="rows"),
        CategoryColumn("x", ("a",), height=1.5),
        BucketColumn("x", 3, height=2.0),
        SplineColumn("x", (0.0, 1.0)),
    ],
)
def test_what_may_be_longer_is_called_unbounded(column: Any) -> None:
    assert Encoder((column,)).unbounded == ("x",)


WAVES = FourierColumn._waves


def too_long(column: FourierColumn, places: Any) -> Any:
    """A mistake: all heights as high as the first would be alone, instead of squares that sum to 1."""
    return np.sqrt(column.used_pairs) * WAVES(column, places)


def too_short(column: FourierColumn, places: Any) -> Any:
    """A mistake: cosines alone, so that most cells pay for noise that is not theirs."""
    return WAVES(column, places)[:, : column.used_pairs]


@pytest.mark.parametrize("mistake", [too_long, too_short])
def test_a_code_of_another_norm_is_caught(mistake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    one, row = test_every_protected_cell_has_norm_1, test_a_row_of_p_bounded_columns_has_norm_root_p_at_most
    right = FourierColumn("x", 0.0, 1.0, 3), [0.3]
    one.hypothesis.inner_test(*right)
    row.hypothesis.inner_test(_Drawn(0.3), [("fourier", False)] * 3)
    monkeypatch.setattr(curves.FourierColumn, "_waves", mistake)
    with pytest.raises(AssertionError):
        one.hypothesis.inner_test(*right)
    with pytest.raises(AssertionError):
        row.hypothesis.inner_test(_Drawn(0.3), [("fourier", False)] * 3)


class _Drawn:
    """What stands for drawn cells: one number."""

    def __init__(self, value: float) -> None:
        self.value = value

    def draw(self, _: Any) -> float:
        return self.value


# --- One cell alone, and beyond the range ---------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(FOURIER, st.lists(st.just(NAN) | FINITE, min_size=1, max_size=6), st.randoms())
def test_a_protected_cell_is_encoded_the_same_beside_any_others(
    column: FourierColumn, cells: list[float], order: Any
) -> None:
    alone = np.vstack([column.encode(np.array([x])) for x in cells])
    np.testing.assert_array_equal(column.encode(np.array(cells)), alone)
    turn = list(range(len(cells)))
    order.shuffle(turn)
    np.testing.assert_array_equal(column.encode(np.array(cells)[turn]), alone[turn])


@settings(max_examples=150, deadline=None)
@given(FOURIER, FINITE)
def test_beyond_the_range_a_cell_counts_as_its_end(column: FourierColumn, x: float) -> None:
    end = min(max(x, column.low), column.high)
    np.testing.assert_array_equal(column.encode(np.array([x])), column.encode(np.array([end])))
    assert np.all(np.isfinite(column.encode(np.array([x, 1.7e308, -1.7e308, 5e-324]))))


def test_blanks() -> None:
    plain, apart = (FourierColumn("x", 0.0, 4.0, 2, missing=missing) for missing in (False, True))
    np.testing.assert_array_equal(plain.encode(np.array([NAN])), plain.encode(np.array([2.0])))
    np.testing.assert_array_equal(apart.encode(np.array([NAN])), [[0, 0, 0, 0, 1]])
    np.testing.assert_array_equal(apart.encode(np.array([1.0]))[:, :4], plain.encode(np.array([1.0])))


def table_of(cells: Sequence[Any], kind: Any = None) -> ArrowTable:
    data = pa.table({"x": pa.array(cells, kind)})
    return ArrowTable(party="shop", columns=("x",), n_rows=len(cells), data=data)


def test_dates_are_numbers_of_days() -> None:
    """Also by the rule for long ranges, which is not for them."""
    days = [datetime.date(2000, 1, 1), datetime.date(2010, 6, 1), datetime.date(2020, 1, 1), None]
    low, high = 10957, 18262
    spec = ColumnSpec("x", kind="date", low=low, high=high)
    rules = EncodeRules(terms="spline", pairs=3)
    made = make_encoding([Part(table_of(days, pa.date32()))], ["x"], [spec], rules, protected=True).encoder
    expected = [code(x, low, high, 3, log=False, missing=False) for x in (low, 14761, high, NAN)]
    np.testing.assert_allclose(made.matrix(table_of(days, pa.date32())), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("spec", "log"),
    [
        ({"low": 0, "high": 1000}, True),
        ({"low": 0, "high": 999}, False),
        ({"low": -1, "high": 1e6}, False),
        ({"low": 0, "high": 1e6, "log": False}, False),
        ({"low": -5, "high": 5, "log": True}, True),
    ],
)
def test_long_ranges_from_0_have_fine_places_near_it(spec: dict[str, Any], log: bool) -> None:
    (column,) = public_encoder(["x"], [ColumnSpec("x", **spec)], rules=EncodeRules(terms="spline", pairs=2)).columns
    expected = code(7.5, spec["low"], spec["high"], 2, log=log, missing=False)
    np.testing.assert_allclose(column.encode(np.array([7.5]))[0], expected, rtol=0, atol=1e-12)


# --- The code of rows that nobody protects, from its definition ---------------------------------------------------


def spline_reference(
    x: float, knots: list[float], spikes: list[float], mean: float, sd: float, u: float
) -> list[float]:
    """Line, place, tents from coarse to fine, and spikes."""
    count = len(knots)
    x = min(max(x, knots[0]), knots[-1])
    width = knots[-1] - knots[0]
    t = [(i / (count - 1) + (knot - knots[0]) / width) / 2 for i, knot in enumerate(knots)] if count > 1 else [0.0]
    below = max(i for i, knot in enumerate(knots) if knot <= x)
    above = min(below + 1, count - 1)
    part = 0.0 if above == below else (x - knots[below]) / (knots[above] - knots[below])
    tx = t[below] + part * (t[above] - t[below])

    def at_order(a: int, c: int, b: int) -> float:
        """A tent that is linear in places, between knots as its values there."""

        def height(i: int) -> float:
            return max(0.0, (t[i] - t[a]) / (t[c] - t[a]) if i <= c else (t[b] - t[i]) / (t[b] - t[c]))

        return (1 - part) * height(below) + part * height(above)

    found = [u * 2 * (x - mean) / sd]
    if count > 2:
        found.append(u * 4 * (tx - 0.5))
        queue = [(0, count - 1)]
        while queue:
            a, b = queue.pop(0)
            if b - a < 2:
                continue
            c = (a + b) // 2
            found.append(u * 2 * 4 * (t[c] - t[a]) * (t[b] - t[c]) / (t[b] - t[a]) * at_order(a, c, b))
            queue += [(a, c), (c, b)]
    return found + [u * float(x == value) for value in spikes]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(-500, 500), min_size=1, max_size=33, unique=True).map(sorted),
    st.lists(st.floats(-600, 600) | st.integers(-500, 500).map(float), min_size=1, max_size=6),
    st.floats(-10, 10),
    st.floats(0.1, 10),
    st.floats(0.01, 5),
)
def test_unprotected_numbers_are_the_shapes_of_the_definition(
    knots: list[int], cells: list[float], mean: float, sd: float, unit: float
) -> None:
    own = [float(knot) for knot in knots]
    spikes = [own[0], own[-1] + 0.0]
    column = SplineColumn("x", tuple(own), tuple(dict.fromkeys(spikes)), mean, sd, unit)
    expected = [spline_reference(x, own, list(column.spikes), mean, sd, unit) for x in cells]
    np.testing.assert_allclose(column.encode(np.array(cells)), expected, rtol=1e-9, atol=1e-9)


def rows_of_knots(values: list[float]) -> list[float]:
    """Knots from the definition: all values where they are few, else even in the sum of roots of counts."""
    distinct = sorted(set(values))
    levels = min(max(math.ceil(math.log2(len(values)) / 3), 3), 5)
    if len(distinct) <= 2**levels + 1:
        return distinct
    sums, total = [], 0.0
    for value in distinct:
        total += math.sqrt(values.count(value))
        sums.append(total)
    wanted = [sums[0] + (sums[-1] - sums[0]) * i / 2**levels for i in range(2**levels + 1)]
    at = {min((k for k, s in enumerate(sums) if s >= w - 1e-9), default=len(sums) - 1) for w in wanted}
    return [distinct[k] for k in sorted(at)]


@pytest.mark.parametrize("rows", [5, 60, 500, 513, 3000])
def test_knots_and_spikes_of_rows(rows: int) -> None:
    rng = np.random.default_rng(rows)
    values = rng.normal(size=rows).round(2)
    values[: rows // 5] = 0.77  # stands out
    column = fit_spline("x", values, (float(values.mean()), float(values.std())), 1.0)
    assert list(column.knots) == rows_of_knots(values.tolist())
    assert {column.low, column.high} == {values.min(), values.max()}
    each_is_a_knot = len(column.knots) == len(set(values.tolist()))
    assert column.spikes == (() if each_is_a_knot or rows < 50 else (0.77,))


def test_at_most_16_spikes_and_none_among_equals() -> None:
    """Each of 11 neighbours as frequent as the others: nobody stands out."""
    even = np.repeat(np.arange(100.0), 20)
    assert fit_spline("x", even, (0.0, 1.0), 1.0).spikes == ()
    often = np.concatenate([np.arange(2000) / 100, np.repeat(np.arange(20.0), 40 + np.arange(20))])
    found = fit_spline("x", often, (0.0, 1.0), 1.0).spikes
    assert len(found) == 16
    assert found == tuple(float(k) for k in range(4, 20))  # the most frequent ones


@pytest.mark.parametrize(
    ("rows", "columns", "height"), [(10_000, 8, 1.0), (10_000, 2, 1.0), (10_000, 32, 0.5), (100, 8, 0.1)]
)
def test_the_unit_of_heights(rows: int, columns: int, height: float) -> None:
    assert unit_height(rows, columns) == pytest.approx(height, rel=1e-14)


def test_a_column_of_one_value_or_of_blanks() -> None:
    single = fit_spline("x", np.full(50, 3.0), (3.0, 0.0), 2.0)
    np.testing.assert_array_equal(single.encode(np.array([3.0, 99.0, -99.0])), np.zeros((3, 1)))
    none = fit_spline("x", np.zeros(0), (0.0, 0.0), 2.0, missing=True)
    np.testing.assert_array_equal(none.encode(np.array([NAN, 5.0])), [[0, 2], [0, 0]])


@settings(max_examples=150, deadline=None)
@given(st.lists(FINITE | st.integers(0, 6).map(lambda k: k * 5e-324), min_size=1, max_size=40), FINITE)
def test_any_rows_give_finite_numbers_and_a_constant_continuation(values: list[float], x: float) -> None:
    from tacit.columns.constants import moments

    cells = np.array(values)
    column = fit_spline("x", cells, moments(cells), unit_height(len(values), 3), missing=True)
    found = column.encode(np.array([*values, x, 1.7e308, -1.7e308, NAN]))
    assert np.all(np.isfinite(found))
    end = min(max(x, column.low), column.high)
    np.testing.assert_array_equal(found[len(values)], column.encode(np.array([end]))[0])
    assert np.count_nonzero(found[-1]) == 1
    assert from_record(json.loads(json.dumps(to_record(Encoder((column,)))))) == Encoder((column,))


def test_a_value_between_two_ends_of_all_numbers() -> None:
    column = SplineColumn("x", (-1.7e308, 1.7e308), deviation=1.7e308)
    np.testing.assert_allclose(column.encode(np.array([-1.7e308, 0.0, 1.7e308])), [[-2], [0], [2]], atol=1e-12)


# --- Saved, read back, and used for new rows ------------------------------------------------------------------


SAVED = Encoder(
    (
        FourierColumn("age", 17.0, 90.0, 5, whole=True),
        FourierColumn("gain", 0.0, 1e5, 8, log=True, missing=True, exact=32),
        FourierColumn("since", 10957.0, 18262.0, 0, days=True),
        SplineColumn("hours", (1.0, 38.5, 40.0, 99.0), (40.0,), 39.2, 11.5, 1.3, missing=True),
        SplineColumn("day", (3.0,), days=True),
        CategoryColumn("city", ("Basel",), True, "rows", 0.7),
        BucketColumn("code", 3, False, "rows", 2.0),
    ),
    ("id",),
)


def test_round_trip_by_json() -> None:
    assert from_record(json.loads(json.dumps(to_record(SAVED)))) == SAVED


@settings(max_examples=100, deadline=None)
@given(FOURIER)
def test_round_trip_of_any_curve(column: FourierColumn) -> None:
    assert from_record(json.loads(json.dumps(to_record(Encoder((column,)))))) == Encoder((column,))


def damaged(at: int, key: str, value: Any) -> Any:
    record = json.loads(json.dumps(to_record(SAVED)))
    record["columns"][at][key] = value
    return record


@pytest.mark.parametrize(
    "record",
    [
        damaged(0, "pairs", -1),
        damaged(0, "pairs", 65),
        damaged(0, "pairs", 2.0),
        damaged(0, "pairs", True),
        damaged(1, "exact", -1),
        damaged(1, "exact", 2**16 + 1),
        damaged(1, "exact", 2.5),
        damaged(1, "exact", None),
        damaged(0, "low", 90.0),
        damaged(0, "low", None),
        damaged(0, "high", "90"),
        damaged(0, "high", 10**400),
        damaged(0, "log", 1),
        damaged(0, "whole", None),
        damaged(0, "days", "no"),
        damaged(0, "missing", None),
        damaged(0, "source", "heaven"),
        damaged(0, "kind", "wave"),
        damaged(3, "knots", []),
        damaged(3, "knots", [1.0, 1.0]),
        damaged(3, "knots", [2.0, 1.0]),
        damaged(3, "knots", [1.0, None]),
        damaged(3, "knots", list(range(65))),
        damaged(3, "knots", "12"),
        damaged(3, "spikes", None),
        damaged(3, "spikes", ["a"]),
        damaged(3, "unit", 0.0),
        damaged(3, "unit", -1),
        damaged(3, "deviation", 0),
        damaged(3, "mean", None),
        damaged(3, "days", 0),
        damaged(5, "height", 0),
        damaged(5, "height", "1"),
        damaged(6, "height", -2),
    ],
)
def test_damaged_records(record: Any) -> None:
    with pytest.raises(ValueError, match="schema"):
        from_record(record)


ROW = st.fixed_dictionaries(
    {
        "age": st.none() | FINITE,
        "gain": st.none() | FINITE,
        "city": st.none() | st.sampled_from(["Basel", "Bern", "Rome"]),
    }
)
SPECS = (
    ColumnSpec("age", low=17, high=90, whole=True),
    ColumnSpec("gain", low=0, high=1e5, missing=True, repeats=True),
    ColumnSpec("city", values=("Basel", "Bern")),
)
NAMES = ("age", "gain", "city")
TYPES = {"age": pa.float64(), "gain": pa.float64(), "city": pa.string()}
RULES = EncodeRules(terms="spline", noise=CurveNoise(50.0))
QUIET = EncodeRules(terms="spline", noise=CurveNoise(1e-4))  # room for buckets of exact values with any rows


def table(rows: Sequence[dict[str, Any]]) -> ArrowTable:
    data = pa.table({name: pa.array([row[name] for row in rows], TYPES[name]) for name in NAMES})
    return ArrowTable(party="shop", columns=NAMES, n_rows=len(rows), data=data)


@pytest.mark.parametrize("protected", [True, False])
def test_new_rows_are_encoded_as_rows_of_training(protected: bool) -> None:
    rng = np.random.default_rng(0)
    rows = [{"age": float(rng.integers(15, 95)), "gain": None, "city": "Bern"} for _ in range(60)]
    rows += [{"age": None, "gain": float(g), "city": "Rome"} for g in rng.exponential(500, 60)]
    made = make_encoding([Part(table(rows))], NAMES, SPECS, RULES, protected=protected).encoder
    read = from_record(json.loads(json.dumps(to_record(made))))
    left = made.matrix(table(rows))
    right, _ = read.predicting(table(rows))
    left, right = (np.asarray(m.todense()) if hasattr(m, "todense") else m for m in (left, right))
    np.testing.assert_array_equal(left, right)
    one, _ = read.predicting(table(rows[70:71]))
    np.testing.assert_array_equal(one[0] if not hasattr(one, "todense") else np.asarray(one.todense())[0], left[70])


@settings(max_examples=100, deadline=None)
@given(st.lists(ROW, min_size=2, max_size=6), ROW, st.integers(0, 100), st.sampled_from([RULES, QUIET]))
def test_replacing_a_protected_row_changes_that_row_alone(
    rows: list[dict[str, Any]], other: dict[str, Any], at: int, rules: EncodeRules
) -> None:
    at %= len(rows)
    neighbours = [*rows[:at], other, *rows[at + 1 :]]
    one, two = (make_encoding([Part(table(own))], NAMES, SPECS, rules, protected=True) for own in (rows, neighbours))
    assert one == two
    assert one.encoder == public_encoder(NAMES, SPECS, rules=rules, rows=len(rows))
    assert (one.encoder.columns[1].used_exact > 0) == (rules is QUIET)
    left, right = one.encoder.matrix(table(rows)), two.encoder.matrix(table(neighbours))
    keep = np.arange(len(rows)) != at
    np.testing.assert_array_equal(left[keep], right[keep])
    np.testing.assert_array_equal(left[at], one.encoder.matrix(table([rows[at]]))[0])


def test_every_kind_of_column_is_here() -> None:
    """A kind that is added needs its contract."""
    known = {FourierColumn, SplineColumn, NumberColumn, CategoryColumn, BucketColumn}
    assert set(encoder._KINDS.values()) == known


@settings(max_examples=50, deadline=None)
@given(st.lists(st.none() | st.text(max_size=3), min_size=1, max_size=5), st.booleans())
def test_a_category_is_one_column(values: list[str | None], missing: bool) -> None:
    for column in (CategoryColumn("x", ("a", "b"), missing), BucketColumn("x", 3, missing)):
        known = sorted({value for value in values if value is not None})
        codes = np.array([-1 if value is None else known.index(value) for value in values])
        places = column.places(Texts(known, codes))
        alone = [
            int(column.places(Texts([v] if v is not None else [], np.array([-1 if v is None else 0])))[0])
            for v in values
        ]
        assert places.tolist() == alone
        assert all(-1 <= at < len(column.names) for at in alone)


# --- The rule for the number of pairs ----------------------------------------------------------------------------


def rule(mu: float, rows: int, numbers: int, lists: list[int], nodes: int, *, graph: bool) -> int:
    """The rule from its definition."""
    nu = 2 * math.sqrt(nodes) / (mu * math.sqrt(0.95) * rows)
    m = min(max(round(((numbers + len(lists)) * nu) ** (-1 / 3)), 2), 8)
    while graph and m and nu * math.sqrt(19 * (2 * m * numbers + sum(lists))) >= 0.3:
        m -= 1
    return m


@settings(max_examples=200, deadline=None)
@given(
    st.floats(0.01, 50),
    st.integers(1, 10**6),
    st.integers(1, 50),
    st.lists(st.integers(1, 50), max_size=10),
    st.integers(1, 20),
    st.booleans(),
)
def test_the_number_of_pairs_is_that_of_the_definition(
    mu: float, rows: int, numbers: int, lists: list[int], nodes: int, graph: bool
) -> None:
    noise = CurveNoise(2 * math.sqrt(nodes / 0.95) / mu, graph)
    assert noise.pairs(rows, numbers, lists) == rule(mu, rows, numbers, lists, nodes, graph=graph)


ADULT = {"rows": 32_561, "numbers": 6, "lists": [8, 16, 7, 14, 6, 5, 2, 41]}  # columns of categories, by their lists


@pytest.mark.parametrize(
    ("nodes", "secure", "expected"), [(1, False, (5, 7, 8, 8)), (10, True, (5, 7, 8, 8)), (10, False, (4, 5, 6, 7))]
)
def test_pairs_of_a_public_data_set(nodes: int, secure: bool, expected: tuple[int, ...]) -> None:
    """14 columns, at epsilon 0.5, 1, 2 and 4: on a star under masks, and on ten nodes that each add their noise."""
    from tacit.plan.terms import curve_noise
    from tacit.privacy.request import Privacy
    from tacit.problem.registry import get_loss

    names = [f"node{k}" for k in range(nodes)]
    found = []
    for epsilon in (0.5, 1.0, 2.0, 4.0):
        noise = curve_noise(Privacy(epsilon=epsilon), get_loss("logistic"), "samples", names, secure=secure)
        assert noise is not None
        found.append(noise.pairs(**ADULT))
    assert tuple(found) == expected


@pytest.mark.parametrize(("epsilon", "buckets"), [(0.5, 0), (1.0, 0), (4.0, 32)])
def test_exact_values_have_buckets_where_the_noise_leaves_room(epsilon: float, buckets: int) -> None:
    """Columns split, 8 columns at a party; only what is said to repeat has them, and no rows on a graph."""
    from tacit.plan.terms import curve_noise
    from tacit.privacy.request import Privacy
    from tacit.problem.registry import get_loss

    noise = curve_noise(Privacy(epsilon=epsilon), get_loss("logistic"), "features", ["bank", "shop"], secure=False)
    assert noise is not None
    assert noise.exact(32_561, 8) == buckets
    assert replace(noise, graph=True).exact(32_561, 8) == 0
    rules = EncodeRules(terms="spline", noise=noise)
    made = public_encoder(NAMES, SPECS, rules=rules, rows=100_000)
    age, gain = (column for column in made.columns if isinstance(column, FourierColumn))
    assert age.exact == 0
    assert gain.exact == noise.exact(100_000, 3)
    assert public_encoder(NAMES, SPECS, rules=replace(rules, pairs=8), rows=10**6).columns[1] == FourierColumn(
        "gain", 0.0, 1e5, 8, log=True, missing=True
    )


def test_few_rows_on_a_graph_keep_numbers_linear() -> None:
    """Where the private mean row would be lost; columns that are split have no such limit."""
    assert CurveNoise(2 / (0.2 * math.sqrt(0.95)), graph=True).pairs(150, 20, []) == 0
    assert CurveNoise(2 / (0.2 * math.sqrt(0.95)), graph=False).pairs(150, 20, []) == 2
    line = FourierColumn("x", 0.0, 10.0, 0)
    np.testing.assert_allclose(line.encode(np.array([0.0, 2.5, 10.0])), [[-1], [-0.5], [1]])


def test_a_stated_number_of_pairs_is_taken() -> None:
    made = public_encoder(NAMES, SPECS, rules=replace(RULES, pairs=3), rows=10**6)
    assert [column.pairs for column in made.columns if isinstance(column, FourierColumn)] == [3, 3]
    assert len(made.names) == 6 + 7 + 3
