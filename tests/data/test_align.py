from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.columns.table import ArrowTable
from tacit.data.align import align
from tacit.errors import InputError


def table(party: str, ids: Any) -> ArrowTable:
    data = pa.table({"id": ids, "x": np.arange(len(ids), dtype=float)})
    return ArrowTable(party=party, columns=("id", "x"), n_rows=data.num_rows, data=data)


def refusal(*tables: ArrowTable, ids: list[str | None] | None = None) -> str:
    with pytest.raises(InputError) as caught:
        align(tables, ids or ["id"] * len(tables))
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_common_ids_in_sorted_order() -> None:
    result = align([table("bank", [10, 9, 2, 5]), table("phone", [5, 10, 7, 9])], ["id", "id"])
    assert result.ids is not None
    assert result.ids.tolist() == [5, 9, 10]
    assert [rows.tolist() for rows in result.rows] == [[3, 1, 0], [0, 3, 1]]
    assert result.counts.kept == 3
    assert result.counts.dropped == {"bank": 1, "phone": 1}


def test_three_parties_of_text() -> None:
    result = align([table("a", ["x", "y", "z"]), table("b", ["z", "y"]), table("c", ["y", "q"])], ["id"] * 3)
    assert result.ids is not None
    assert result.ids.tolist() == ["y"]
    assert result.counts.dropped == {"a": 2, "b": 1, "c": 1}


def test_numbers_meet_text_by_their_text_form() -> None:
    result = align([table("bank", [7, 10, 9]), table("phone", ["9", "x", "7", "010"])], ["id", "id"])
    assert result.ids is not None
    assert result.ids.tolist() == ["7", "9"]
    assert [rows.tolist() for rows in result.rows] == [[0, 2], [2, 0]]


def test_leading_zeros_are_part_of_an_id() -> None:
    assert "no id is held by every party" in refusal(table("bank", ["007"]), table("phone", ["7"]))
    both = align([table("bank", ["007", "7"]), table("phone", ["7", "007"])], ["id", "id"])
    assert both.counts.kept == 2


def test_blanks_around_text_ids_are_ignored() -> None:
    assert align([table("bank", [" 7", "8 "]), table("phone", [8, 7])], ["id", "id"]).counts.kept == 2


@pytest.mark.parametrize(
    "other",
    [
        pa.array([1, 2], pa.uint8()),
        pa.array([1.0, 2.0]),
        pa.array(["1", "2"]).dictionary_encode(),
        pa.array(["1", "2"], pa.large_string()),
    ],
)
def test_kinds_of_ids_that_meet(other: Any) -> None:
    assert align([table("bank", [1, 2]), table("phone", other)], ["id", "id"]).counts.kept == 2


def test_huge_ids_keep_all_their_digits() -> None:
    ids = [str(10**30), str(10**30 + 1)]
    assert align([table("bank", ids), table("phone", ids[::-1])], ["id", "id"]).counts.kept == 2
    near = pa.array([2**63, 2**63 + 1], pa.uint64())
    assert align([table("bank", near), table("phone", [str(2**63)])], ["id", "id"]).counts.kept == 1


def test_blank_ids_are_refused() -> None:
    good = table("phone", [1])
    message = refusal(table("bank", [1, None, 3, None, None, None]), good)
    assert 'party "bank": id column "id" has 4 blank ids, in row 2, 4, 5 and 1 more' in message
    assert "has 2 blank ids, in row 1, 2" in refusal(table("bank", ["", "  ", "a"]), good)
    assert "has 1 blank id, in row 2" in refusal(table("bank", [1.0, float("nan")]), good)


def test_repeated_ids_are_refused() -> None:
    message = refusal(table("phone", [1]), table("bank", [3, 1, 3, 1, 4, 4, 5, 5, 6]))
    assert 'party "bank": id column "id" has 4 repeated ids: 3, 1, 4 and 1 more: keep one row' in message
    assert 'has 1 repeated id: "b"' in refusal(table("phone", ["b"]), table("bank", ["b", "b", "c"]))


def test_ids_of_other_kinds_are_refused() -> None:
    for ids in ([0.5, 1.5], [[1], [2]], [1e16, 2.0], [1e300, 2.0]):
        message = refusal(table("bank", ids), table("phone", [1]))
        assert "must be whole numbers or text" in message


def test_no_common_id_is_refused_with_examples() -> None:
    message = refusal(table("bank", [1, 2]), table("phone", ["A1"]))
    assert '"bank" has "1", "phone" has "A1"' in message


def test_without_ids_lengths_must_agree() -> None:
    result = align([table("bank", [1, 2]), table("phone", [1, 2])], [None, None])
    assert result.ids is None
    assert [rows.tolist() for rows in result.rows] == [[0, 1], [0, 1]]
    assert result.counts.dropped == {"bank": 0, "phone": 0}
    message = refusal(table("bank", [1, 2]), table("phone", [1]), ids=[None, None])
    assert '"bank" has 2 rows, "phone" has 1 row' in message


def test_ids_for_some_parties_only_are_refused() -> None:
    message = refusal(table("bank", [1]), table("phone", [1]), table("shop", [1]), ids=["id", None, None])
    assert 'given for party "bank" but not for parties "phone", "shop"' in message


def test_one_id_column_per_table() -> None:
    with pytest.raises(InputError, match="1 table and 2 id columns"):
        align([table("bank", [1])], ["id", "id"])
    with pytest.raises(InputError, match='party "bank" has no column "key"'):
        align([table("bank", [1])], ["key"])


ids = st.lists(st.integers(-50, 50), unique=True, min_size=1, max_size=40)


@settings(max_examples=100, deadline=None)
@given(ids, ids, st.booleans(), st.randoms(use_true_random=False))
def test_row_order_does_not_matter(left: list[int], right: list[int], text: bool, random: Any) -> None:
    common = set(left) & set(right)
    shuffled = random.sample(left, len(left))
    sides = [left, shuffled]
    other: Any = [str(i) for i in right] if text else right
    if not common:
        assert "no id is held" in refusal(table("a", left), table("b", other))
        return
    results = [align([table("a", side), table("b", other)], ["id", "id"]) for side in sides]
    picked = [np.array(side)[result.rows[0]] for side, result in zip(sides, results, strict=True)]
    np.testing.assert_array_equal(picked[0], picked[1])
    np.testing.assert_array_equal(results[0].rows[1], results[1].rows[1])
    np.testing.assert_array_equal(picked[0], np.array(right)[results[0].rows[1]])
    assert set(picked[0].tolist()) == common
    assert results[0].counts.dropped["a"] == len(left) - len(common)
