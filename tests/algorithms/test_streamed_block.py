"""A block on disk does what the same block in memory does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from tacit.blocks import make_block
from tacit.blocks.dense import Block
from tacit.blocks.streamed import SparseStreamedBlock, StreamedBlock
from tacit.data import rows_on_disk
from tacit.data.rows_on_disk import write_rows, write_sparse
from tacit.errors import InputError

ROWS, WIDTH = 700, 5


@pytest.fixture(params=[np.float32, np.float64, "sparse"])
def blocks(request: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Block, Block]:
    monkeypatch.setattr(rows_on_disk, "BLOCK_BYTES", 3000)
    monkeypatch.setattr(rows_on_disk, "ROWS_AT_ONCE", 64)
    rng = np.random.RandomState(1)
    matrix = rng.normal(size=(ROWS, WIDTH)) * [1, 10, 0.1, 1, 0] + [0, 100, 0, -5, 3]
    if request.param == "sparse":
        matrix[:, :4] *= rng.rand(ROWS, 4) < 0.3
        matrix[100:200, :4] = 0.0
        parts = [sparse.csr_array(part) for part in np.array_split(matrix, 7)]
        on_disk = make_block(write_sparse(parts, matrix.shape, 0, "bank"))
        assert isinstance(on_disk, SparseStreamedBlock)
        return on_disk, Block(sparse.csr_array(matrix))
    matrix = matrix.astype(request.param)
    on_disk = make_block(write_rows(np.array_split(matrix, 7), matrix.shape, matrix.dtype, "bank"))
    assert type(on_disk) is StreamedBlock
    return on_disk, Block(matrix.astype(np.float64))


def close(a: Any, b: Any) -> None:
    np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11 * (1 + np.abs(b).max()))


@pytest.mark.parametrize("centring", ["none", "plain", "weighted"])
def test_every_operation(blocks: tuple[Block, Block], centring: str) -> None:
    on_disk, in_memory = blocks
    rng = np.random.RandomState(2)
    weights, r, S, x = rng.rand(ROWS), rng.normal(size=ROWS), rng.normal(size=(ROWS, 3)), rng.normal(size=WIDTH)
    if centring != "none":
        given = None if centring == "plain" else weights
        close(on_disk.set_centre(given), in_memory.set_centre(given))
    close(on_disk.predict(x), in_memory.predict(x))
    close(on_disk.correlate(r), in_memory.correlate(r))
    close(on_disk.correlate(S), in_memory.correlate(S))
    close(on_disk.correlate_columns(weights, S), in_memory.correlate_columns(weights, S))
    close(on_disk.mean_square(), in_memory.mean_square())
    for project in (False, True):
        close(on_disk.gram(weights, project=project), in_memory.gram(weights, project=project))
        one, other = (b.sweep(r, weights, S, gram=True, project=project) for b in blocks)
        close(one.gradient, other.gradient)
        close(one.cross, other.cross)
        close(one.gram, other.gram)
        if project:
            close(one.pull, other.pull)
    if centring == "none":
        close(on_disk.gram(), in_memory.gram())


def test_a_constant_column_leaves_nothing_in_the_gram_matrix(blocks: tuple[Block, Block]) -> None:
    gram = blocks[0].gram(np.random.RandomState(0).rand(ROWS), project=True)
    assert not gram[4].any()
    assert gram[0, 0] > 0


def test_single_rows_are_refused(blocks: tuple[Block, Block]) -> None:
    with pytest.raises(InputError, match="without --memory"):
        blocks[0].take(np.arange(3))
    with pytest.raises(InputError, match="more columns"):
        blocks[0].outer()


def test_an_error_of_the_reader_reaches_the_caller(blocks: tuple[Block, Block]) -> None:
    blocks[0].matrix._file.truncate(1000)
    with pytest.raises(Exception, match="ends too early"):
        blocks[0].predict(np.ones(WIDTH))
