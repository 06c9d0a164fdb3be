"""Sparse rows in a scratch file: blocks of CSR arrays, written once and read in turn as dense rows are.

A block is one piece of the file: its values (float64), where each of its rows begins (int64, counted in the block), and
the columns of its values (int32). Only the sizes of the blocks are kept in memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from numba import njit

from tacit.data.rows_on_disk import RowsOnDisk, put, scratch_file
from tacit.types import Vector

ENTRY_BYTES, ROW_BYTES = 12, 8


@dataclass(frozen=True)
class Sparse:
    """Some rows as CSR arrays; the columns rise within a row."""

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    data: Vector

    def __len__(self) -> int:
        return int(self.indptr.size - 1)


class SparseRows(RowsOnDisk):
    """A sparse matrix on disk, as `RowsOnDisk`; `sizes` has the rows and the entries of every block."""

    def __init__(
        self, file: IO[bytes], shape: tuple[int, int], sizes: Sequence[tuple[int, int]], sha256: str, sums: Vector
    ):
        super().__init__(file, shape, np.float64, sha256, sums)
        self._sizes = sizes

    @property
    def nbytes(self) -> int:
        """Size on disk."""
        return sum(_block_bytes(*size) for size in self._sizes)

    def blocks(self) -> Iterator[tuple[slice, Sparse]]:
        """The rows in order, a block at a time with where they are; valid until the next block."""
        start = 0
        read = self._read_ahead([_block_bytes(*size) for size in self._sizes])
        for (rows, entries), buffer in zip(self._sizes, read, strict=True):
            begun, listed = 8 * entries, 8 * entries + 8 * (rows + 1)
            parts = buffer[begun:listed].view(np.int64), buffer[listed:].view(np.int32), buffer[:begun].view(np.float64)
            yield slice(start, start + rows), Sparse(*parts)
            start += rows

    def __matmul__(self, x: Vector) -> Vector:
        """The product with a vector."""
        product, x = np.empty(self.shape[0]), np.ascontiguousarray(x, dtype=np.float64)
        for rows, block in self.blocks():
            _multiply(block.indptr, block.indices, block.data, x, product[rows])
        return product


def write_sparse(blocks: Iterable[Any], shape: tuple[int, int], nbytes: int, party: str) -> SparseRows:
    """Write blocks of rows (CSR, sorted), which come in order, to a scratch file; about `nbytes` are needed.

    Raises
    ------
    InputError
        Where the disk has too little room.
    """
    file = scratch_file(nbytes, party)
    digest, sums, sizes = hashlib.sha256(), np.zeros(shape[1]), list[tuple[int, int]]()
    try:
        for block in blocks:
            arrays = (block.data, block.indptr.astype(np.int64), block.indices.astype(np.int32))
            for array in arrays:
                put(file, array, party)
                digest.update(array.data.cast("B"))
            sums += np.bincount(arrays[2], weights=block.data, minlength=shape[1])
            sizes.append((block.shape[0], block.nnz))
    except BaseException:
        file.close()
        raise
    return SparseRows(file, shape, sizes, digest.hexdigest(), sums)


def sparse_bytes(rows: int, entries: int) -> int:
    """About how much so many rows take on disk."""
    return ROW_BYTES * rows + ENTRY_BYTES * entries


def _block_bytes(rows: int, entries: int) -> int:
    return ROW_BYTES * (rows + 1) + ENTRY_BYTES * entries


@njit(cache=True, nogil=True)  # pragma: no cover - compiled
def _multiply(indptr, indices, data, x, out):  # type: ignore[no-untyped-def]
    """Write the product of a CSR matrix with x."""
    for i in range(indptr.size - 1):
        total = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            total += data[k] * x[indices[k]]
        out[i] = total
