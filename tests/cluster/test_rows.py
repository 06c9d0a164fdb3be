"""A block on a cluster does what the same block in memory does, to the same bits each time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tacit.blocks import make_block
from tacit.blocks.cluster import ClusterBlock
from tacit.blocks.dense import Block
from tacit.data import cluster as cluster_rows
from tacit.data.cluster import Cluster, ClusterAddress, ClusterDataError, ClusterFile, ClusterRows, connect
from tacit.data.load import PartySpec
from tacit.errors import InputError
from tests.cluster.local import pids

ROWS, WIDTH = 700, 5


@pytest.fixture
def cluster(address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setattr(cluster_rows, "BLOCK_ROWS", 128)  # six blocks, or ten: more than one sum adds
    with connect(ClusterAddress(address)) as found:
        yield found


def matrix(kind: Any = np.float64) -> Any:
    rng = np.random.RandomState(1)
    return (rng.normal(size=(ROWS, WIDTH)) * [1, 10, 0.1, 1, 0] + [0, 100, 0, -5, 3]).astype(kind)


def write(path: Path, values: Any, group: int = 150) -> Path:
    pq.write_table(pa.table({f"x{j}": column for j, column in enumerate(values.T)}), path, row_group_size=group)
    return path


def file_of(path: Path) -> ClusterFile:
    return ClusterFile(PartySpec("bank", str(path)), ".", "")


def close(a: Any, b: Any) -> None:
    np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11 * (1 + np.abs(b).max()))


@pytest.mark.parametrize("group", [10, 150, 700])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("centring", ["none", "weighted"])
def test_every_operation(cluster: Cluster, tmp_path: Path, kind: Any, group: int, centring: str) -> None:
    rng, values = np.random.RandomState(2), matrix(kind)
    chosen = rng.permutation(ROWS)[:600]
    rows = ClusterRows(cluster, file_of(write(tmp_path / "a.parquet", values, group)), chosen)
    assert rows.dtype == kind
    assert len(rows._blocks) > 5
    there, here = make_block(rows), Block(values[chosen].astype(np.float64))
    assert isinstance(there, ClusterBlock)
    weights, r, S, x = rng.rand(600), rng.normal(size=600), rng.normal(size=(600, 3)), rng.normal(size=WIDTH)
    if centring == "none":
        close(there.gram(), here.gram())
    else:
        close(there.set_centre(weights), here.set_centre(weights))
        close(there.set_centre(None), here.set_centre(None))
    close(there.predict(x), here.predict(x))
    close(there.correlate(r), here.correlate(r))
    close(there.correlate(S), here.correlate(S))
    close(there.correlate_columns(weights, S), here.correlate_columns(weights, S))
    close(there.mean_square(), here.mean_square())
    for project in (False, True):
        one, other = (b.sweep(r, weights, S, gram=True, project=project) for b in (there, here))
        close(one.gradient, other.gradient)
        close(one.cross, other.cross)
        close(one.gram, other.gram)
        if project:
            close(one.pull, other.pull)


def test_the_same_bits_whoever_does_the_work(cluster: Cluster, workers: Any, tmp_path: Path) -> None:
    """Blocks move to one worker alone, and are read again: what is computed stays the same to the last bit."""
    file = file_of(write(tmp_path / "a.parquet", matrix()))
    weights, x = np.random.RandomState(0).rand(ROWS), np.arange(WIDTH) / 3
    first, second = ClusterRows(cluster, file), ClusterRows(cluster, file)
    only = next(iter(pids(workers)))
    cluster._client.replicate(second._blocks, workers=[only])
    found = [(make_block(rows).gram(weights), rows @ x, rows.sha256, rows.sums) for rows in (first, second, first)]
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_folder_of_files_is_one_table(cluster: Cluster, tmp_path: Path) -> None:
    values = matrix()
    (tmp_path / "parts").mkdir()
    for number, part in enumerate(np.array_split(values, 3)):
        write(tmp_path / "parts" / f"part-{number}.parquet", part)
    file = file_of(tmp_path / "parts")
    assert file.rows == ROWS
    rows = ClusterRows(cluster, file)
    np.testing.assert_array_equal(rows @ np.eye(WIDTH)[1], values[:, 1])
    write(tmp_path / "parts" / "part-3.parquet", values[:, :3])
    with pytest.raises(InputError, match=r"part-3\.parquet.* has other columns"):
        file_of(tmp_path / "parts")


def test_rows_that_are_not_common_are_not_used(cluster: Cluster, tmp_path: Path) -> None:
    chosen = np.arange(ROWS - 1, 300, -1)  # whole blocks are left out
    rows = ClusterRows(cluster, file_of(write(tmp_path / "a.parquet", matrix())), chosen)
    np.testing.assert_array_equal(rows @ np.eye(WIDTH)[1], matrix()[chosen, 1])
    np.testing.assert_allclose(rows.sums, matrix()[chosen].sum(axis=0))


def test_no_row_is_here(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.parquet", matrix())
    monkeypatch.setattr("tacit.data.cluster.Piece._batches", None)  # the workers have their own
    rows = ClusterRows(cluster, file_of(path))
    assert rows.shape == (ROWS, WIDTH)
    assert rows.nbytes == 0
    assert not any(isinstance(value, np.ndarray) and value.ndim == 2 for value in vars(rows).values())


def test_the_fingerprint_sees_values_and_order(cluster: Cluster, tmp_path: Path) -> None:
    values = matrix()
    plain = ClusterRows(cluster, file_of(write(tmp_path / "a.parquet", values))).sha256
    assert plain == ClusterRows(cluster, file_of(write(tmp_path / "b.parquet", values)), np.arange(ROWS)).sha256
    turned = ClusterRows(cluster, file_of(tmp_path / "a.parquet"), np.arange(ROWS)[::-1].copy()).sha256
    values[400, 2] += 1e-12
    assert len({plain, turned, ClusterRows(cluster, file_of(write(tmp_path / "c.parquet", values))).sha256}) == 3


def test_a_bad_value_is_named(cluster: Cluster, tmp_path: Path) -> None:
    values = matrix()
    values[456, 3] = np.inf
    with pytest.raises(InputError, match='party "bank": column "x3" is infinite in row 457'):
        ClusterRows(cluster, file_of(write(tmp_path / "a.parquet", values)))


def test_a_file_that_changed_is_not_read(cluster: Cluster, tmp_path: Path) -> None:
    file = file_of(write(tmp_path / "a.parquet", matrix()))
    pieces = list(file.pieces())
    write(tmp_path / "a.parquet", matrix()[:-1])
    with pytest.raises(ClusterDataError, match="not as it was"):
        cluster.result(cluster.submit(cluster_rows.Piece.read, pieces[0], None))
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(ClusterDataError, match="a worker of the Dask cluster has no file"):
        cluster.result(cluster.submit(cluster_rows.Piece.read, pieces[0], None))


def test_a_look_at_the_cluster_disturbs_no_transfer(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it is looked at while an outcome is on its way, as on a machine that is busy."""
    for count in range(60):
        monkeypatch.setattr(cluster_rows, "LOOK_SECONDS", 0.0003 + 0.0005 * (count % 23))
        assert cluster.result(cluster.submit(len, [0] * count)) == count


def test_single_rows_are_refused(cluster: Cluster, tmp_path: Path) -> None:
    block = make_block(ClusterRows(cluster, file_of(write(tmp_path / "a.parquet", matrix()))))
    with pytest.raises(InputError, match="without --dask"):
        block.take(np.arange(3))
    with pytest.raises(InputError, match="more columns"):
        block.outer()
