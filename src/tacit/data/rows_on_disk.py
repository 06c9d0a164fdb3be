"""Rows in a scratch file, dense or sparse: written once, then read block by block, whatever their size.

The file has no name where the system allows that, so that it is gone when the process ends, however it ends. Reading
fills two buffers in turn: while one is worked on, a thread fills the other.

Sparse rows are blocks of CSR arrays. A block is one piece of the file: its values (float64), where each of its rows
begins (int64, counted in the block), and the columns of its values (int32). Only the sizes of the blocks are kept in
memory.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from numba import njit

from tacit.errors import InputError, RunError
from tacit.text import one_line, show, size
from tacit.types import Vector

# --- Rows of numbers in a scratch file: written once, then read block by block, whatever their size


BLOCK_BYTES = 8 << 20  # of one buffer
ROWS_AT_ONCE = 4096  # rows that stay in cache while they are multiplied
SPARE_BYTES = 64 << 20  # left free on the disk

Numbers = npt.NDArray[Any]


class RowsOnDisk:
    """An n x d matrix in a scratch file, of which only some rows are ever in memory.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy dtype
    sha256 : str
        Of the content, row by row.
    sums : array
        Sum of each column.
    """

    def __init__(self, file: IO[bytes], shape: tuple[int, int], dtype: npt.DTypeLike, sha256: str, sums: Vector):
        self.shape, self.dtype, self.sha256, self.sums = shape, np.dtype(dtype), sha256, sums
        self._file = file
        weakref.finalize(self, file.close)  # whoever forgets the rows gives their room back

    def close(self) -> None:
        """Give the room on the disk back."""
        self._file.close()

    def _read_ahead(self, sizes: Sequence[int]) -> Iterator[Numbers]:
        """The bytes of the file in order, so many at a time; each is valid until the next."""
        buffers = [np.empty(max(sizes), np.uint8) for _ in range(2)]
        self._file.seek(0)
        with ThreadPoolExecutor(1) as reader:
            coming = reader.submit(self._fill, buffers[0][: sizes[0]])
            for number in range(1, len(sizes) + 1):
                read = coming.result()
                if number < len(sizes):
                    coming = reader.submit(self._fill, buffers[number % 2][: sizes[number]])
                yield read

    def _fill(self, buffer: Numbers) -> Numbers:
        view = buffer.data
        done = 0
        while done < len(view):
            got = self._file.readinto(view[done:])  # type: ignore[attr-defined]
            if not got:
                raise RunError("the scratch file of rows ends too early: train again")
            done += got
        return buffer


class StreamedRows(RowsOnDisk):
    """A dense matrix on disk, float32 or float64, as `RowsOnDisk`."""

    @property
    def nbytes(self) -> int:
        """Size on disk."""
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    @property
    def piece_rows(self) -> int:
        """Most rows of a piece."""
        return min(ROWS_AT_ONCE, self._block_rows)

    @property
    def _block_rows(self) -> int:
        n, d = self.shape
        return max(1, min(n, BLOCK_BYTES // (d * self.dtype.itemsize)))

    def blocks(self) -> Iterator[tuple[int, Numbers]]:
        """The rows in order, a block at a time with the number of its first row; valid until the next block."""
        n, d = self.shape
        starts = range(0, n, self._block_rows)
        counts = [min(self._block_rows, n - start) for start in starts]
        read = self._read_ahead([count * d * self.dtype.itemsize for count in counts])
        for start, count, buffer in zip(starts, counts, read, strict=True):
            yield start, buffer.view(self.dtype).reshape(count, d)

    def pieces(self) -> Iterator[tuple[slice, Numbers]]:
        """The rows in order, few enough at a time for the cache; valid until the next ones."""
        for first, block in self.blocks():
            yield from pieces_of(block, first)

    def __matmul__(self, x: Vector) -> Vector:
        """The product with a vector, in float64."""
        product, x = np.empty(self.shape[0]), np.ascontiguousarray(x, dtype=np.float64)
        for first, block in self.blocks():
            multiply(block, x, product[first : first + len(block)])
        return product


def pieces_of(block: Numbers, first: int = 0) -> Iterator[tuple[slice, Numbers]]:
    """A block in pieces that are few rows enough for the cache; its first row has the number `first`."""
    for start in range(0, len(block), ROWS_AT_ONCE):
        part = block[start : start + ROWS_AT_ONCE]
        yield slice(first + start, first + start + len(part)), part


def write_rows(blocks: Iterable[Numbers], shape: tuple[int, int], dtype: npt.DTypeLike, party: str) -> StreamedRows:
    """Write blocks of rows, which come in order, to a scratch file.

    Raises
    ------
    InputError
        Where the disk has too little room.
    """
    file = scratch_file(shape[0] * shape[1] * np.dtype(dtype).itemsize, party)
    digest, sums = hashlib.sha256(), np.zeros(shape[1])
    try:
        for block in blocks:
            put(file, block, party)
            digest.update(block.data.cast("B"))
            sums += block.sum(axis=0, dtype=np.float64)
    except BaseException:
        file.close()
        raise
    return StreamedRows(file, shape, dtype, digest.hexdigest(), sums)


def scratch_file(nbytes: int, party: str) -> IO[bytes]:
    """An open file without a name, for so many bytes; refused where they do not fit."""
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if nbytes + SPARE_BYTES > free:
        raise InputError(
            f"party {show(party)}: its rows take {size(nbytes)} of scratch space, and {show(folder)} has "
            f"{size(free)} free: set TMPDIR to a folder with more room"
        )
    return tempfile.TemporaryFile(buffering=0, prefix="tacit-rows-")


def put(file: IO[bytes], block: Numbers, party: str) -> None:
    """Write a contiguous block where the file stands."""
    view = block.data.cast("B")
    try:
        while len(view):
            view = view[file.write(view) :]
    except OSError as error:
        raise InputError(
            f"party {show(party)}: cannot write its rows to scratch space in {show(tempfile.gettempdir())} "
            f"({one_line(error)}): set TMPDIR to a folder with more room"
        ) from error


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})  # pragma: no cover - compiled
def multiply(block, x, out):  # type: ignore[no-untyped-def]
    """Write block @ x, with sums in float64."""
    for i in range(block.shape[0]):
        total = 0.0
        for j in range(block.shape[1]):
            total += np.float64(block[i, j]) * x[j]
        out[i] = total


# --- Sparse rows in a scratch file: blocks of CSR arrays, written once and read in turn as dense rows are


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
