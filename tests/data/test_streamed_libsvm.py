"""LIBSVM files brought to rows on disk: the rows and labels of the reader that reads them whole, or one line."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

from tacit.data import rows_on_disk
from tacit.data.load import PartySpec, load_training_data
from tacit.data.rows_on_disk import SparseRows
from tacit.data.streamed import open_files, stream_training_data
from tacit.errors import InputError

ROWS, WIDTH = 400, 9


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a file is many pieces, some shorter than a line."""
    monkeypatch.setattr("tacit.data.streamed_files.TEXT_BYTES", 101)
    monkeypatch.setattr(rows_on_disk, "BLOCK_BYTES", 500)


def written(seed: int, share: float) -> list[str]:
    """Lines of a file with about this share of its entries."""
    rng = np.random.RandomState(seed)
    lines = []
    for _ in range(ROWS):
        held = np.flatnonzero(rng.rand(WIDTH) < share) + 1
        lines.append(" ".join([str(rng.choice([-1, 1])), *(f"{j}:{rng.normal():.17g}" for j in held)]))
    return lines


class Pair:
    """The lines of two parties; a test changes what it is about."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bank, self.shop = folder, written(1, 0.2), written(2, 0.95)
        self.specs = [PartySpec("bank", "bank.svm", None, "label"), PartySpec("shop", "shop.libsvm")]

    def write(self) -> None:
        for name, lines in (("bank.svm", self.bank), ("shop.libsvm", self.shop)):
            (self.folder / name).write_text("\n".join(lines) + "\n")
            (self.folder / f"{name}.gz").write_bytes(gzip.compress("\n".join(lines).encode()))

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


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


def dense(rows: Any) -> Any:
    """What lies on disk, as one array."""
    if isinstance(rows, SparseRows):
        return np.column_stack([rows @ column for column in np.eye(rows.shape[1])])
    return np.concatenate([block.copy() for _, block in rows.blocks()])


def assert_same(streamed: Any, loaded: Any) -> None:
    np.testing.assert_array_equal(streamed.labels, loaded.labels)
    assert streamed.labels.dtype == loaded.labels.dtype
    assert streamed.counts == loaded.counts
    for one, other in zip(streamed.shards, loaded.shards, strict=True):
        assert one.columns == other.columns
        np.testing.assert_array_equal(dense(one.features), other.features.toarray())
        np.testing.assert_allclose(one.features.sums, other.features.toarray().sum(axis=0), rtol=1e-12)


def test_rows_and_labels_are_those_of_the_whole_file(pair: Pair) -> None:
    streamed, loaded = pair.both()
    assert [isinstance(shard.features, SparseRows) for shard in streamed.shards] == [True, False]
    assert_same(streamed, loaded)
    entries = loaded.shards[0].features.nnz
    assert 12 * entries + 8 * ROWS <= streamed.shards[0].features.nbytes < 8 * ROWS * WIDTH


def test_compressed_files(pair: Pair) -> None:
    pair.specs = [PartySpec("bank", "bank.svm.gz", None, "label"), PartySpec("shop", "shop.libsvm.gz")]
    assert_same(*pair.both())


def test_comments_query_ids_blank_lines_and_rows_of_zeros(pair: Pair) -> None:
    pair.bank[:5] = ["1", "# 77:1 99", "", "-1 qid:500 2:3 # 88:1", "+1\t3:0 +9:1e-3\r"]
    pair.shop[:2] = ["", "  "]
    assert_same(*pair.both())


def test_columns_in_another_order(pair: Pair) -> None:
    pair.specs[0] = PartySpec("bank", "bank.svm", None, "label", ("7", "2", "5"))
    streamed, loaded = pair.both()
    assert_same(streamed, loaded)
    for _, block in streamed.shards[0].features.blocks():  # Gram matrices are made of rows whose columns rise
        assert sparse.csr_array((block.data, block.indices, block.indptr), shape=(len(block), 3)).has_sorted_indices


def test_beside_a_parquet_file(pair: Pair) -> None:
    pq.write_table(pa.table({"a": np.arange(ROWS), "b": np.ones(ROWS)}), pair.folder / "c.parquet")
    pair.specs[1] = PartySpec("shop", "c.parquet")
    streamed, loaded = pair.both()
    np.testing.assert_array_equal(dense(streamed.shards[0].features), loaded.shards[0].features.toarray())
    np.testing.assert_array_equal(dense(streamed.shards[1].features), loaded.shards[1].features)


def test_a_change_shows_in_the_digest(pair: Pair) -> None:
    before = [shard.features.sha256 for shard in pair.both()[0].shards]
    pair.bank[300] += " 10:1e-9"
    after = [shard.features.sha256 for shard in pair.both()[0].shards]
    assert before[0] != after[0]
    assert before[1] == after[1]


BAD = {
    "2:nan": 'party "bank": column "2" is NaN in row 301',
    "2:inf": 'party "bank": column "2" is infinite in row 301',
    "2:x": "could not convert string to float",
    "0:1": "Invalid index 0",
    "3:1 2:1": "should be sorted and unique",
    "1_0:5": "line 301 has an underscore",
    "99999999:1": "uses column number 99999999, above the largest allowed",
}


@pytest.mark.parametrize("entry", BAD)
def test_bad_entries_are_refused_in_one_line(pair: Pair, entry: str) -> None:
    pair.bank[300] = f"1 {entry}"
    assert BAD[entry] in pair.refusal()


@pytest.mark.parametrize(("label", "said"), [("nan", "NaN or infinite in row 301"), ("yes", "could not convert")])
def test_bad_labels_are_refused(pair: Pair, label: str, said: str) -> None:
    pair.bank[300] = f"{label} 2:1"
    assert said in pair.refusal()


def test_what_else_is_refused(pair: Pair) -> None:
    pair.specs[1] = PartySpec("shop", "shop.libsvm", "3")
    assert 'matches the rows of a LIBSVM file by position, and id is "3"' in pair.refusal()
    pair.specs[1] = PartySpec("shop", "shop.libsvm", None, None, ("1", "label"))
    assert '"label" is the label of a LIBSVM file' in pair.refusal()
    pair.specs[1] = PartySpec("shop", "shop.libsvm")
    del pair.shop[-1]
    assert '"bank" has 400 rows, "shop" has 399 rows' in pair.refusal()
    pair.shop[:] = ["# nothing"]
    assert "has no rows" in pair.refusal()


def test_a_damaged_archive_is_refused(pair: Pair) -> None:
    pair.write()
    path = pair.folder / "bank.svm.gz"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match="cannot read"):
        open_files([PartySpec("bank", path.name, None, "label")], pair.folder)
