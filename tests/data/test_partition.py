from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from tacit.data.partition import split_columns, take_columns
from tacit.errors import InputError


def test_a_number_of_parties() -> None:
    blocks = split_columns(7, 3)
    assert [block.tolist() for block in blocks] == [[0, 1, 2], [3, 4], [5, 6]]


def test_sizes() -> None:
    assert [block.tolist() for block in split_columns(4, [1, 3])] == [[0], [1, 2, 3]]
    assert [block.tolist() for block in split_columns(4, np.array([1, 3]))] == [[0], [1, 2, 3]]  # type: ignore[arg-type]


def test_lists_of_columns_keep_their_order() -> None:
    assert [block.tolist() for block in split_columns(3, [[2, 0], np.array([1])])] == [[2, 0], [1]]  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("n_columns", "parties", "expected"),
    [
        (1, 2, "X has 1 feature(s), too few for parties=2: give parties=1 or more columns"),
        (3, 0, "parties=0 is not allowed: it must be at least 1"),
        (3, [1, 1], "sum to 2: make them sum to 3"),
        (3, [3, 0], "party 2 would hold 0 columns"),
        (3, [4, -1], "party 2 would hold -1 columns"),
        (3, [[0, 1, 2], []], "party 2 has no columns"),
        (3, [[0], [2]], "no party holds column 1 of X"),
        (3, [[0, 1], [1, 2]], "column 1 is given to party 1 and to party 2"),
        (3, [[0, 0], [1, 2]], "column 0 is given to party 1 and to party 1"),
        (3, [[0, 1], [2, 3]], "party 2: column 3 is not in X, whose columns are 0 to 2"),
        (3, [[0, 1], [-1]], "party 2: column -1 is not in X"),
        (3, [[0, 1.5], [2]], "party 1: column 1.5 is not allowed"),
        (3, [["a"], [2]], 'party 1: column "a" is not allowed'),
        (3, [], "names no party"),
        (3, [1, [2]], "parties=1 is not allowed"),
        (3, ["01", "2"], 'parties="01" is not allowed'),
        (3, "two", 'parties="two" is not allowed'),
        (3, 2.0, "parties=2.0 is not allowed"),
        (3, True, "parties=True is not allowed"),
        (3, None, "parties=None is not allowed"),
    ],
)
def test_refusals(n_columns: int, parties: Any, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        split_columns(n_columns, parties)
    assert expected in str(caught.value)


def test_contiguous_dense_columns_are_views() -> None:
    X = np.arange(12.0).reshape(3, 4)
    view = take_columns(X, np.array([1, 2]))
    assert np.shares_memory(view, X)
    np.testing.assert_array_equal(view, X[:, 1:3])
    for columns in ([2, 1], [0, 2]):
        picked = take_columns(X, columns)
        assert not np.shares_memory(picked, X)
        np.testing.assert_array_equal(picked, X[:, columns])


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_array, sp.csr_matrix, sp.coo_array])
def test_sparse_columns_are_csr(kind: Any) -> None:
    X = np.arange(12.0).reshape(3, 4)
    picked = take_columns(kind(X), [3, 1])
    assert picked.format == "csr"
    np.testing.assert_array_equal(picked.toarray(), X[:, [3, 1]])


@given(st.integers(1, 40), st.data())
def test_every_column_has_one_holder(n_columns: int, data: st.DataObject) -> None:
    parties = data.draw(st.integers(1, n_columns))
    blocks = split_columns(n_columns, parties)
    assert len(blocks) == parties
    np.testing.assert_array_equal(np.concatenate(blocks), np.arange(n_columns))
    again = split_columns(n_columns, [block.size for block in blocks])
    lists = split_columns(n_columns, [block.tolist() for block in blocks])
    for one, two, three in zip(blocks, again, lists, strict=True):
        np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(one, three)
