"""Rows that are held out: how many, which ones, and that neighbours stay neighbours."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from tacit.data.holdout import held_count, held_rows, set_aside
from tacit.errors import InputError
from tacit.types import Shard

IDS = st.lists(st.integers(0, 10**6), min_size=2, max_size=60, unique=True)
PARTS = st.floats(0.01, 0.5)


def trained(ids: list[int], part: float, seed: int = 0) -> set[int]:
    mask = held_rows(len(ids), part, seed, np.array(ids))
    return {id_ for id_, held in zip(ids, mask, strict=True) if not held}


@given(ids=IDS, part=PARTS, order=st.randoms())
def test_the_order_of_rows_does_not_matter(ids: list[int], part: float, order: object) -> None:
    shuffled = list(ids)
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    assert trained(ids, part) == trained(shuffled, part)


@given(ids=IDS, part=PARTS, number=st.integers(0, 59), other=st.integers(10**6 + 1, 10**7))
def test_replacing_one_record_replaces_at_most_one_that_is_trained_on(
    ids: list[int], part: float, number: int, other: int
) -> None:
    neighbour = list(ids)
    neighbour[number % len(ids)] = other
    before, after = trained(ids, part), trained(neighbour, part)
    assert len(before) == len(after)
    assert len(before - after) <= 1


@given(rows=st.integers(2, 500), part=PARTS)
def test_how_many_depends_on_the_number_of_rows_alone(rows: int, part: float) -> None:
    count = held_count(rows, part)
    assert 1 <= count <= rows - 1
    assert abs(count - part * rows) <= max(0.5, 1 - part * rows)
    assert held_rows(rows, part, 3).sum() == count
    assert held_rows(rows, part, 3, np.arange(rows)).sum() == count


def test_zero_holds_nothing_out_and_one_row_is_trained_on() -> None:
    assert held_count(1000, 0.0) == 0
    assert not held_rows(1000, 0.0, 0).any()
    assert held_count(1, 0.5) == 0


def test_ids_and_seed_decide() -> None:
    ids = np.arange(400)
    first = held_rows(400, 0.25, 0, ids)
    assert np.array_equal(first, held_rows(400, 0.25, 0, ids.astype(str).astype(object)))  # 7 is "7"
    assert not np.array_equal(first, held_rows(400, 0.25, 1, ids))
    assert np.array_equal(held_rows(400, 0.25, 0), held_rows(400, 0.25, 0))
    assert not np.array_equal(held_rows(400, 0.25, 0), held_rows(400, 0.25, 1))


@pytest.mark.parametrize("kind", [np.array, sparse.csr_array])
def test_shards_and_labels_are_cut_alike(kind: type) -> None:
    rows = np.arange(20.0)
    shards = [Shard("a", kind(rows[:, None]), ("x",)), Shard("b", kind(np.c_[rows, -rows]), ("y", "z"))]
    mask = held_rows(20, 0.3, 0)
    left, labels, held = set_aside(shards, rows, [mask, mask])
    assert [shard.name for shard in left] == [shard.name for shard in held.shards] == ["a", "b"]
    for parts, own in ((left, labels), (held.shards, held.labels)):
        for shard in parts:
            dense = shard.features.toarray() if sparse.issparse(shard.features) else shard.features
            np.testing.assert_array_equal(dense[:, 0], own)
    assert held.rows == 6
    assert sorted([*labels, *held.labels]) == rows.tolist()


def test_nodes_are_cut_each_by_its_own_mask() -> None:
    shards = [Shard(name, np.full((count, 1), float(count)), ("x",)) for name, count in (("a", 4), ("b", 6))]
    labels = np.r_[np.full(4, 4.0), np.full(6, 6.0)]
    masks = [held_rows(4, 0.5, 0), held_rows(6, 0.5, 0)]
    left, own, held = set_aside(shards, labels, masks)
    assert [len(shard.features) for shard in left] == [2, 3]
    assert own.tolist() == held.labels.tolist() == [4.0] * 2 + [6.0] * 3


def test_one_class_left_is_refused() -> None:
    labels = np.array([1.0] + [-1.0] * 9)
    mask = labels > 0
    with pytest.raises(InputError, match="lower holdout, or change seed"):
        set_aside([Shard("a", np.zeros((10, 1)), ("x",))], labels, [mask])
