"""Moments of blocks are those of all rows at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tacit.columns.constants import RunningMoments, moments

RNG = np.random.RandomState(0)
COLUMNS = {
    "usual": RNG.normal(size=1000),
    "large and near each other": 1e9 + RNG.normal(size=1000),
    "an outlier first": np.append(1e7, RNG.normal(size=999)),
    "near overflow": 1.7e308 * RNG.uniform(-1, 1, size=1000),
    "tiny": 1e-300 * RNG.normal(size=1000),
    "zeros, then tiny": np.append(np.zeros(500), 1e-300 * RNG.normal(size=500)),
    "growing": np.exp(np.linspace(-300, 300, 1000)),
    "float32": RNG.normal(size=1000).astype(np.float32),
    "constant": np.full(1000, 0.1),
    "zero": np.zeros(1000),
}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("size", [1, 37, 1000])
def test_as_all_at_once(name: str, size: int) -> None:
    values: Any = COLUMNS[name]
    running = RunningMoments(1)
    for start in range(0, 1000, size):
        running.add(values[start : start + size, None])
    running.add(values[:0, None])
    mean, deviation = running.found()
    expected = moments(values.astype(np.float64))
    np.testing.assert_allclose([mean[0], deviation[0]], expected, rtol=1e-12, atol=1e-13 * expected[1])
    assert (running.low[0], running.high[0]) == (values.min(), values.max())
    if name in ("constant", "zero"):
        assert (mean[0], deviation[0]) == expected
