"""Folds: every row tested on once, of each class an even share, by the seed alone."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.data.holdout import deal_folds
from tacit.errors import InputError


@pytest.mark.parametrize("rows", [5, 11, 100])
@pytest.mark.parametrize("count", [2, 5])
def test_every_row_is_left_out_once(rows, count):
    splits = deal_folds(count, rows, 0)
    assert len(splits) == count
    np.testing.assert_array_equal(np.sort(np.concatenate([left_out for _, left_out in splits])), np.arange(rows))
    for seen, left_out in splits:
        np.testing.assert_array_equal(np.sort(np.concatenate([seen, left_out])), np.arange(rows))
        assert rows // count <= len(left_out) <= -(-rows // count)


def test_classes_are_shared_out_evenly():
    kinds = np.random.default_rng(0).choice([-1.0, 1.0], 503, p=[0.97, 0.03])
    counts = [int((kinds[left_out] > 0).sum()) for _, left_out in deal_folds(5, 503, 7, kinds)]
    assert max(counts) - min(counts) <= 1
    assert sum(counts) == int((kinds > 0).sum())


def test_the_seed_decides():
    one, same, other = (deal_folds(3, 50, seed)[0][1].tolist() for seed in (0, 0, 1))
    assert one == same != other


@pytest.mark.parametrize("count", [0, 1, -2, True, 2.0, "5", None])
def test_refuses_what_is_no_number_of_folds(count):
    with pytest.raises(InputError, match="must be a whole number of at least 2"):
        deal_folds(count, 50, 0)
