"""From coefficients back to the curve of a column: the same numbers as the encoded matrix times the coefficients."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tacit.columns.constants import Part, make_encoding
from tacit.columns.curves import curve_values
from tacit.columns.spec import ColumnSpec, EncodeRules
from tacit.data.read import frame_table


def table(rows=300):
    rng = np.random.default_rng(0)
    return frame_table(
        pa.table(
            {
                "age": pa.array([None if k % 11 == 0 else float(v) for k, v in enumerate(rng.normal(40, 9, rows))]),
                "bill": rng.lognormal(5, 2, rows),
                "town": pa.array([[None, "Bern", "Genf", "Zug"][k] for k in rng.integers(0, 4, rows)]),
                "shop": pa.array(rng.choice(list("abcdefgh"), rows)),
            }
        ),
        "bank",
    )


SPECS = {
    "fitted": [ColumnSpec("shop", buckets=3)],
    "public": [
        ColumnSpec("age", low=10, high=80, missing=True),
        ColumnSpec("bill", low=0, high=5000),
        ColumnSpec("town", values=("Bern", "Genf"), missing=True),
        ColumnSpec("shop", buckets=3),
    ],
}


@pytest.mark.parametrize("terms", ["linear", "spline"])
@pytest.mark.parametrize("which", ["fitted", "public"])
def test_the_curves_of_a_row_add_up_to_its_score(terms, which):
    rows = table()
    rules = EncodeRules(terms=terms)
    encoder = make_encoding([Part(rows)], rows.columns, SPECS[which], rules, protected=which == "public").encoder
    coef = np.random.default_rng(1).normal(size=len(encoder.names))
    total = np.zeros(rows.n_rows)
    for column, place in zip(encoder.columns, encoder.slices, strict=True):
        total += curve_values(column, coef[place], rows.column(column.name))[1]
    np.testing.assert_allclose(total, encoder.matrix(rows) @ coef, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("terms", ["linear", "spline"])
def test_a_curve_against_the_average_row_has_mean_zero_over_the_rows(terms):
    rows = table()
    encoder = make_encoding([Part(rows)], rows.columns, [], EncodeRules(terms=terms), protected=False).encoder
    coef, matrix = np.random.default_rng(1).normal(size=len(encoder.names)), encoder.matrix(rows)
    mean = np.asarray(matrix.mean(axis=0)).ravel()
    for column, place in zip(encoder.columns, encoder.slices, strict=True):
        _, values = curve_values(column, coef[place], rows.column(column.name), centre=mean[place])
        assert abs(values.mean()) < 1e-12
        assert values.std() > 0


def test_without_cells_the_grid_is_drawn():
    rows = table()
    encoder = make_encoding([Part(rows)], rows.columns, SPECS["public"], EncodeRules(terms="spline"), protected=True)
    age, bill, town, shop = encoder.encoder.columns
    cells, values = curve_values(age, np.ones(len(age.names)))
    assert (cells[0], cells[-1], cells.shape) == (10, 80, values.shape)
    assert curve_values(bill, np.zeros(len(bill.names)))[1].max() == 0.0
    cells, values = curve_values(town, np.arange(4.0))
    assert cells.tolist() == ["Bern", "Genf", "other", "missing"]
    assert values.tolist() == [0, 1, 2, 3]
    cells, values = curve_values(shop, np.arange(3.0))
    assert values.tolist() == cells.tolist() == [0, 1, 2]


def test_the_line_of_a_number_without_a_range_is_drawn_where_the_encoded_number_is_from_minus_2_to_2():
    rows = table()
    encoder = make_encoding([Part(rows)], rows.columns, [], EncodeRules(), protected=False).encoder
    _, values = curve_values(encoder.columns[1], np.array([3.0]))
    np.testing.assert_allclose(values, [-6, 6])
