"""Rows of a piecewise-exponential survival model, against statsmodels on the same expansion and by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm

from tacit import VerticalRegressor, survival_rows
from tacit.errors import InputError


def test_rows_by_hand() -> None:
    rows = survival_rows([0.5, 1.0, 2.5, 9.0], [1, 0, True, 0], [1.0, 3.0])
    assert rows.row.tolist() == [0, 1, 2, 2, 3, 3, 3]
    assert rows.interval.tolist() == [0, 0, 0, 1, 0, 1, 2]
    assert rows.exposure.tolist() == [0.5, 1.0, 1.0, 1.5, 1.0, 2.0, 6.0]
    assert rows.event.tolist() == [1, 0, 0, 1, 0, 0, 0]


def test_the_model_equals_statsmodels() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 4))
    times = rng.exponential(np.exp(-X @ [0.5, -0.3, 0.0, 0.2])) + 1e-3
    ends = rng.exponential(2.0, 150)
    rows = survival_rows(np.minimum(times, ends), times <= ends, [0.3, 0.8, 1.5])
    assert rows.exposure.sum() == pytest.approx(np.minimum(times, ends).sum())
    assert rows.event.sum() == np.sum(times <= ends)
    steps = (rows.interval[:, None] == [1, 2, 3]).astype(float)
    table = np.hstack([X[rows.row], steps])
    peer = sm.GLM(rows.event, sm.add_constant(table), sm.families.Poisson(), exposure=rows.exposure).fit(tol=1e-13)
    for parties in (2, 5):
        model = VerticalRegressor("poisson", "none", parties=parties, tol=1e-13, max_rounds=500)
        model.fit(table, rows.event, exposure=rows.exposure)
        np.testing.assert_allclose(model.coef_, peer.params[1:], atol=1e-6)
        np.testing.assert_allclose(model.intercept_, peer.params[0], atol=1e-6)


@pytest.mark.parametrize(
    ("times", "events", "cuts", "match"),
    [
        ([1.0, 0.0], [1, 0], [1.0], "0 in row 1 is not allowed"),
        ([1.0, np.nan], [1, 0], [1.0], "nan in row 1 is not allowed"),
        ([1.0, 2.0], [1, 2], [1.0], "events must be 0 or 1"),
        ([1.0, 2.0], [1], [1.0], "give one of each for each sample"),
        ([1.0, 2.0], [1, 0], [2.0, 1.0], "cuts must be numbers above 0 that rise"),
        ([1.0, 2.0], [1, 0], [0.0, 1.0], "cuts must be numbers above 0 that rise"),
    ],
)
def test_bad_times_are_one_line(times: Any, events: Any, cuts: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        survival_rows(times, events, cuts)
