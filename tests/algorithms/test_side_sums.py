"""Sums over the rows beside a private fit are pairwise, which the proof of their rounding takes for granted."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit.mechanisms.gram.fit import _sums, side_columns

UNIT = 2.0**-53


@pytest.mark.parametrize("score_column", [False, True])
def test_sums_of_many_rows_keep_their_digits(score_column):
    slopes = np.full(1_000_000, 0.1)
    side = side_columns(np.linspace(0.5, 4.0, slopes.size), score_column=score_column)
    exact = [math.fsum(column * slopes) for column in side.T]
    np.testing.assert_allclose(_sums(side, slopes), exact, rtol=64 * UNIT)
