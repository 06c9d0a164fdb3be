"""Parquet files brought to rows on disk: the same rows and labels as in memory, in little memory, or one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tacit.data import rows_on_disk
from tacit.data.load import PartySpec, load_training_data
from tacit.data.rows_on_disk import write_rows
from tacit.data.streamed import open_files, stream_training_data
from tacit.errors import InputError

ROWS = 1000


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a thousand rows are many blocks."""
    monkeypatch.setattr(rows_on_disk, "BLOCK_BYTES", 4000)
    monkeypatch.setattr("tacit.data.streamed.BLOCK_BYTES", 600)
    monkeypatch.setattr("tacit.data.streamed_files.BATCH_ROWS", 130)
    monkeypatch.setattr(rows_on_disk, "ROWS_AT_ONCE", 32)


class Pair:
    """Two parties' columns; a test changes what it is about."""

    def __init__(self, folder: Path) -> None:
        rng = np.random.RandomState(3)
        self.folder = folder
        self.bank: dict[str, Any] = {
            "id": np.arange(ROWS) * 7,
            "a": rng.normal(size=ROWS),
            "b": rng.randint(9, size=ROWS),
        }
        self.bank["y"] = rng.randint(2, size=ROWS)
        self.shop: dict[str, Any] = {"id": self.bank["id"], **{name: rng.normal(size=ROWS) for name in "cde"}}
        self.specs = [PartySpec("bank", "bank.parquet", "id", "y"), PartySpec("shop", "shop.parquet", "id")]

    def write(self) -> None:
        for name in ("bank", "shop"):
            pq.write_table(pa.table(getattr(self, name)), self.folder / f"{name}.parquet", row_group_size=300)

    def both(self) -> tuple[Any, Any]:
        """As streamed, and as in memory."""
        self.write()
        return stream_training_data(open_files(self.specs, self.folder)), load_training_data(self.specs, self.folder)

    def refusal(self) -> str:
        self.write()
        with pytest.raises(InputError) as caught:
            stream_training_data(open_files(self.specs, self.folder))
        assert "\n" not in str(caught.value)
        return str(caught.value)

    def pick(self, name: str, rows: Any) -> None:
        setattr(self, name, {key: np.asarray(values)[rows] for key, values in getattr(self, name).items()})


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


def dense(rows: Any) -> Any:
    return np.concatenate([block.copy() for _, block in rows.blocks()])


def assert_same(streamed: Any, loaded: Any, *, in_order: bool = False) -> None:
    """The same set of rows, each with its label and the same columns beside each other."""
    tables = [
        np.column_stack([*(as_array(shard.features) for shard in data.shards), data.labels])
        for data in (streamed, loaded)
    ]
    if not in_order:
        tables = [table[np.lexsort(table.T)] for table in tables]
    np.testing.assert_array_equal(*tables)
    assert streamed.counts == loaded.counts
    assert [shard.columns for shard in streamed.shards] == [shard.columns for shard in loaded.shards]


def as_array(features: Any) -> Any:
    return features if isinstance(features, np.ndarray) else dense(features)


def test_files_in_the_same_order(pair: Pair) -> None:
    streamed, loaded = pair.both()
    assert_same(streamed, loaded, in_order=True)
    np.testing.assert_allclose(streamed.shards[1].features.sums, loaded.shards[1].features.sum(axis=0), rtol=1e-12)


@pytest.mark.parametrize("holder_last", [False, True])
def test_another_order_with_rows_that_others_lack(pair: Pair, holder_last: bool) -> None:
    rng = np.random.RandomState(0)
    pair.pick("bank", rng.permutation(ROWS)[:900])
    pair.pick("shop", rng.permutation(ROWS)[:800])
    pair.specs = pair.specs[::-1] if holder_last else pair.specs
    streamed, loaded = pair.both()
    assert 0 < streamed.counts.kept < 800
    assert_same(streamed, loaded)


def test_three_parties_of_which_two_lack_other_rows(pair: Pair) -> None:
    pair.pick("shop", np.arange(100, ROWS))
    club = {"key": np.arange(0, 7 * ROWS, 14)[::-1], "f": np.arange(500.0)}
    pq.write_table(pa.table(club), pair.folder / "c.parquet")
    for order in ([0, 1, 2], [0, 2, 1]):
        specs = [*pair.specs[:2], PartySpec("club", "c.parquet", "key")]
        pair.specs = [specs[k] for k in order]
        streamed, loaded = pair.both()
        assert streamed.counts.dropped == {"bank": 550, "shop": 450, "club": 50}
        assert_same(streamed, loaded)
        pair.specs = specs[:2]


def test_by_position(pair: Pair) -> None:
    pair.specs = [PartySpec("bank", "bank.parquet", None, "y", ("a", "b")), PartySpec("shop", "shop.parquet", None)]
    streamed, loaded = pair.both()
    assert streamed.ids is None
    assert_same(streamed, loaded, in_order=True)
    pair.pick("shop", np.arange(999))
    assert '"bank" has 1000 rows, "shop" has 999 rows' in pair.refusal()


def test_float32_stays_so_on_disk(pair: Pair) -> None:
    for name in "cde":
        pair.shop[name] = pair.shop[name].astype(np.float32)
    streamed, loaded = pair.both()
    assert [shard.features.dtype for shard in streamed.shards] == [np.float64, np.float32]
    assert streamed.shards[1].features.nbytes == 4 * 3 * ROWS
    assert_same(streamed, loaded, in_order=True)


@pytest.mark.parametrize(("value", "word"), [(np.nan, "blank or NaN"), (np.inf, "infinite")])
def test_a_bad_value_in_a_later_block_is_named(pair: Pair, value: float, word: str) -> None:
    pair.shop["d"][787] = value
    assert f'party "shop": column "d" is {word} in row 788' in pair.refusal()


def test_a_blank_in_a_later_block_is_named(pair: Pair) -> None:
    pair.bank["b"] = pa.array([None if row == 900 else row for row in range(ROWS)])
    assert 'party "bank": column "b" is blank or NaN in row 901' in pair.refusal()


@pytest.mark.parametrize(("column", "role"), [("y", "label"), ("id", "id")])
def test_a_blank_label_or_id_is_named(pair: Pair, column: str, role: str) -> None:
    pair.bank[column] = pa.array([None if row == 600 else row % 2 if column == "y" else row for row in range(ROWS)])
    assert f'party "bank": {role} column "{column}" is blank, NaN or infinite in row 601' in pair.refusal()


def test_what_is_refused(pair: Pair) -> None:
    pair.shop["c"] = np.array(["x"] * ROWS)
    assert 'column "c" holds string, and with --memory a feature must be a number' in pair.refusal()
    del pair.shop["c"]
    pair.shop["id"] = [str(number) for number in pair.shop["id"]]
    assert "--memory matches ids that are whole numbers" in pair.refusal()
    pair.shop["id"] = np.zeros(ROWS, dtype=np.int64)
    assert 'party "shop": its id column has 1 repeated id: 0' in pair.refusal()
    pair.shop["id"] = np.arange(ROWS) + 10**6
    assert "no id is held by every party" in pair.refusal()
    pair.specs[1] = PartySpec("shop", "shop.parquet", None, None, ("d",))
    assert 'given for party "bank" but not for party "shop"' in pair.refusal()
    pair.specs[1] = PartySpec("shop", "shop.csv", "id")
    assert "--memory reads Parquet and LIBSVM files" in pair.refusal()


def test_a_full_disk_is_refused_before_anything_is_written(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"free": 2 * 10**6})
    monkeypatch.setattr(rows_on_disk.shutil, "disk_usage", lambda folder: usage)
    monkeypatch.setattr(rows_on_disk, "SPARE_BYTES", 2 * 10**6)
    assert "set TMPDIR to a folder with more room" in pair.refusal()


def test_the_file_has_no_name_and_goes_with_its_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_on_disk.tempfile, "tempdir", str(tmp_path))
    rows = write_rows([np.ones((5, 2))] * 3, (15, 2), np.float64, "bank")
    assert list(tmp_path.iterdir()) == []
    np.testing.assert_array_equal(rows @ np.array([1.0, 2.0]), np.full(15, 3.0))
    rows.close()
    with pytest.raises(ValueError, match="closed"):
        dense(rows)
