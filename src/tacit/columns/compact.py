"""Encoded rows of many curves, kept in about the bytes of the raw cells: the encoded numbers are never all written out.

Two kinds of columns:

| kind | kept of a cell | its encoded numbers |
|---|---|---|
| `TabledCells` | the slot s and the part p of the way to the next slot | (1 - p) table[s] + p table[s + 1] |
| `WaveCells` | its place in the range | pairs of frequencies, computed where they are needed |

Tables hold splines (a slot for each knot, each spike, and blanks), categories (a slot for each) and linear numbers (two
slots). The weights 1 - p and p of a cell's two slots sum to 1, so that a row is subtracted from all rows by subtracting
it from the tables.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from numba import njit

from tacit.columns.curves import FourierColumn, SplineColumn
from tacit.types import Matrix, Vector

Whole = npt.NDArray[Any]  # of an unsigned integer type
Picked = slice | npt.NDArray[Any] | list[int]

ROWS_AT_ONCE = 8192  # rows of which slots, parts or encoded numbers are written out together
STEPS = np.float64(2**32 - 1)  # parts from 0 to 1 are kept in so many steps: to 1.2e-10, in 4 bytes


# --- One raw column ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TabledCells:
    """Cells between two rows of a table.

    Attributes
    ----------
    slots : array of whole numbers
        For each cell, a row of the table that is not the last.
    parts : array or None
        How far the cell is on its way to the next row: uint32 in `STEPS`, or float64. None for 0.
    table : array or CSR array
        Encoded numbers of every slot; the last row is zeros.
    """

    slots: Whole
    parts: npt.NDArray[Any] | None
    table: Matrix

    def __len__(self) -> int:
        return len(self.slots)

    @property
    def width(self) -> int:
        """Encoded columns."""
        return int(self.table.shape[1])

    @property
    def arrays(self) -> list[npt.NDArray[Any]]:
        """All numbers that the encoded rows follow from."""
        table = [self.table.data, self.table.indices, self.table.indptr] if sp.issparse(self.table) else [self.table]
        return [self.slots, *([] if self.parts is None else [self.parts]), *table]

    @property
    def filled(self) -> int:
        """Slots that a cell is between."""
        return 1 if self.parts is None else 2

    def stacked(self, others: Sequence[TabledCells]) -> TabledCells:
        """These cells and others of the same column."""
        own = [self, *others]
        parts = [cells.parts for cells in own if cells.parts is not None]
        slots = np.concatenate([cells.slots for cells in own])
        return replace(self, slots=slots, parts=np.concatenate(parts) if parts else None)

    def take(self, rows: Picked) -> TabledCells:
        """Some of the cells."""
        return replace(self, slots=self.slots[rows], parts=None if self.parts is None else self.parts[rows])

    def write_parts(self, rows: slice, out: Vector) -> None:
        """Parts as numbers."""
        out[:] = 0.0 if self.parts is None else self.parts[rows]
        if self.parts is not None and self.parts.dtype == np.uint32:
            out *= 1 / STEPS

    def write(self, rows: slice, out: Vector) -> None:
        """The encoded numbers."""
        slots, parts = self.slots[rows].astype(np.intp), np.empty(len(out))
        out[:] = dense_rows(self.table, slots)
        if self.parts is not None:
            self.write_parts(rows, parts)
            out += parts[:, None] * (self.table[slots + 1] - out)

    def add_scores(self, rows: slice, coef: Vector, out: Vector) -> None:
        """Add the products of the encoded numbers with coefficients."""
        out += self._written(rows, len(out)) @ coef

    def add_sums(self, rows: slice, r: Vector, out: Vector) -> None:
        """Add the sums over rows of the encoded numbers times r; of written rows, as private sums need them."""
        out += self._written(rows, len(r)).T @ r

    def _written(self, rows: slice, count: int) -> Vector:
        out = np.empty((count, self.width))
        self.write(rows, out)
        return out


@dataclass(frozen=True, eq=False)
class WaveCells:
    """Cells as pairs of frequencies.

    Attributes
    ----------
    places : array
        From 0 to 1; NaN for a blank that has a column of its own.
    column : FourierColumn
        With at least one pair.
    """

    places: Vector
    column: FourierColumn

    def __len__(self) -> int:
        return len(self.places)

    @property
    def width(self) -> int:
        """Encoded columns."""
        return 2 * self.column.used_pairs + int(self.column.missing)

    @cached_property
    def heights(self) -> Vector:
        """Of the waves; kept, as they are asked for with every few rows."""
        return self.column.heights

    @property
    def arrays(self) -> list[npt.NDArray[Any]]:
        """All numbers that the encoded rows follow from."""
        return [self.places, self.heights]

    @property
    def filled(self) -> int:
        """Encoded numbers of a cell."""
        return self.width

    def stacked(self, others: Sequence[WaveCells]) -> WaveCells:
        """These cells and others of the same column."""
        return replace(self, places=np.concatenate([self.places, *(cells.places for cells in others)]))

    def take(self, rows: Picked) -> WaveCells:
        """Some of the cells."""
        return replace(self, places=self.places[rows])

    def write(self, rows: slice, out: Vector) -> None:
        """The encoded numbers."""
        _write_waves(self.places[rows], self.heights, out.T)

    def add_scores(self, rows: slice, coef: Vector, out: Vector) -> None:
        """Add the products of the encoded numbers with coefficients; no more than a few are ever written out."""
        _add_wave_scores(self.places[rows], self.heights, np.ascontiguousarray(coef), out)

    def add_sums(self, rows: slice, r: Vector, out: Vector) -> None:
        """Add the sums over rows of the encoded numbers times r."""
        _add_wave_sums(self.places[rows], self.heights, np.ascontiguousarray(r), out)


Cells = TabledCells | WaveCells


def dense_rows(table: Matrix, slots: Any) -> Vector:
    """Rows of a table."""
    rows = table[slots]
    return np.asarray(rows.toarray() if sp.issparse(rows) else rows)


def spline_cells(column: SplineColumn, cells: Vector) -> TabledCells:
    """A slot for each knot, each spike, and blanks."""
    knots, spikes = len(column.knots), np.array(column.spikes)
    blank = np.isnan(cells)
    below, part = column.between(np.where(blank, column.low, cells))
    slots = below.astype(np.uint8)
    inside = np.clip(cells, column.low, column.high)
    for number, spike in enumerate(spikes):
        slots[inside == spike] = knots + number
    slots[blank] = knots + len(spikes)
    part[slots >= knots] = 0.0
    own = column.unit * column.shapes
    at_knots = np.hstack([own, np.zeros((knots, len(column.names) - own.shape[1]))])
    apart = column.encode(np.append(spikes, np.nan))
    return TabledCells(slots, np.rint(part * STEPS).astype(np.uint32), _ended(np.vstack([at_knots, apart])))


def wave_cells(column: FourierColumn, cells: Vector) -> Cells:
    """Places; two slots, for the ends of the range, where the number stays linear."""
    blank = np.isnan(cells)
    places = column.place(np.where(blank, column.fill, cells))
    if column.used_pairs:
        return WaveCells(np.where(blank, np.nan, places) if column.missing else places, column)
    return _two_slots(places, blank, (-1.0, 1.0), 0.0, missing=column.missing)


def exact_cells(column: FourierColumn, cells: Vector) -> list[Cells]:
    """The buckets of exact values, where the column has them; a blank with a column of its own is in none."""
    if not column.used_exact:
        return []
    blank = np.isnan(cells)
    buckets = column.bucket(np.where(blank, column.fill, cells))
    return [category_cells(np.where(blank & column.missing, -1, buckets), column.exact, column.exact_height)]


def linear_cells(values: Vector, blank: npt.NDArray[np.bool_], fill: float, *, missing: bool) -> TabledCells:
    """A linear number, as its distance from what stands for a blank."""
    return _two_slots(values - fill, blank, (fill, fill + 1.0), fill, missing=missing)


def _two_slots(
    parts: Vector, blank: npt.NDArray[np.bool_], ends: tuple[float, float], at_blank: float, *, missing: bool
) -> TabledCells:
    """A number between two ends, and a third slot for blanks where they have a column."""
    if not missing:
        return TabledCells(np.zeros(len(parts), np.uint8), parts, _ended(np.array(ends)[:, None]))
    table = np.array([[ends[0], 0.0], [ends[1], 0.0], [at_blank, 1.0]])
    return TabledCells((2 * blank).astype(np.uint8), np.where(blank, 0.0, parts), _ended(table))


def category_cells(places: npt.NDArray[np.int64], width: int, height: float) -> TabledCells:
    """A slot for each category; one more for a cell of none, whose place is -1."""
    slots = np.where(places < 0, width, places).astype(np.min_scalar_type(width + 1))
    table = sp.csr_array((np.full(width, height), (np.arange(width), np.arange(width))), shape=(width + 2, width))
    return TabledCells(slots, None, table)


def _ended(table: Vector) -> Vector:
    return np.vstack([table, np.zeros((1, table.shape[1]))])


# All loops over waves go over cells, one after the other in memory, so that a processor does several at once. Every
# step is an operation of its own, rounded as such: a cell has the same encoded numbers in all three functions, and
# wherever it stands. (Private sums need that: docs/proofs/gram.md, section 7.)


TILE = 512  # cells whose waves are turned on together, in the nearest cache


@njit(cache=True, nogil=True)  # pragma: no cover - compiled
def _write_waves(places, heights, out):  # type: ignore[no-untyped-def]
    """Pairs of all frequencies, a line of `out` for each wave; a blank is 1 in the last line, 0 elsewhere."""
    pairs = heights.size
    c, s, x, y = _space(places)
    for start in range(0, places.size, TILE):
        own = places[start : start + TILE]
        _begin(own, c, s, x, y)
        for k in range(pairs):
            cosines, sines = out[k, start : start + TILE], out[pairs + k, start : start + TILE]
            for i in range(own.size):
                cosines[i] = heights[k] * x[i]
            for i in range(own.size):
                sines[i] = heights[k] * y[i]
            _turn(own.size, c, s, x, y)
    for k in range(2 * pairs, out.shape[0]):
        out[k, :] = 0.0
    for i in range(places.size):
        if np.isnan(places[i]):
            out[:, i] = 0.0
            out[2 * pairs, i] = 1.0


@njit(cache=True, nogil=True)  # pragma: no cover - compiled
def _add_wave_scores(places, heights, coef, out):  # type: ignore[no-untyped-def]
    """Add the product of each cell's encoded numbers with `coef`."""
    pairs, at_blank = heights.size, coef[-1]
    c, s, x, y = _space(places)
    score = np.empty(c.size)
    for start in range(0, places.size, TILE):
        own, line = places[start : start + TILE], out[start : start + TILE]
        _begin(own, c, s, x, y)
        score[:] = 0.0
        for k in range(pairs):
            height, of_cosine, of_sine = heights[k], coef[k], coef[pairs + k]
            for i in range(own.size):
                score[i] = score[i] + of_cosine * (height * x[i]) + of_sine * (height * y[i])
            _turn(own.size, c, s, x, y)
        for i in range(own.size):
            line[i] += at_blank if np.isnan(own[i]) else score[i]


@njit(cache=True, nogil=True)  # pragma: no cover - compiled
def _add_wave_sums(places, heights, r, out):  # type: ignore[no-untyped-def]
    """Add the sums of all cells' encoded numbers times r."""
    pairs = heights.size
    c, s, x, y = _space(places)
    wave, weight = np.empty(c.size), np.empty(c.size)
    for start in range(0, places.size, TILE):
        own, whole = places[start : start + TILE], r[start : start + TILE]
        _begin(own, c, s, x, y)
        for i in range(own.size):
            weight[i] = 0.0 if np.isnan(own[i]) else whole[i]
        for k in range(pairs):
            for i in range(own.size):
                wave[i] = heights[k] * x[i]
            out[k] += _dot(own.size, wave, weight)
            for i in range(own.size):
                wave[i] = heights[k] * y[i]
            out[pairs + k] += _dot(own.size, wave, weight)
            _turn(own.size, c, s, x, y)
        for i in range(own.size):
            if np.isnan(own[i]):
                out[2 * pairs] += whole[i]


@njit(cache=True, nogil=True)  # pragma: no cover - compiled
def _space(places):  # type: ignore[no-untyped-def]
    """For cosine and sine of the first frequency, and of another."""
    size = min(TILE, places.size)
    return np.empty(size), np.empty(size), np.empty(size), np.empty(size)


@njit(cache=True, nogil=True)  # pragma: no cover - compiled
def _begin(places, c, s, x, y):  # type: ignore[no-untyped-def]
    """The first frequency; of a blank, that of place 0."""
    for i in range(places.size):
        x[i] = 0.0 if np.isnan(places[i]) else places[i]
    _turns(x[: places.size], c, s)
    x[:], y[:] = c, s


@njit(cache=True, nogil=True)  # pragma: no cover - compiled
def _turn(size, c, s, x, y):  # type: ignore[no-untyped-def]
    """Go on to the next frequency."""
    for i in range(size):
        cosine, sine = x[i], y[i]
        x[i] = cosine * c[i] - sine * s[i]
        y[i] = sine * c[i] + cosine * s[i]


@njit(cache=True, nogil=True, fastmath={"reassoc", "nsz"})  # pragma: no cover - compiled
def _dot(size, a, b):  # type: ignore[no-untyped-def]
    """Sum of products, in the order that is fastest."""
    total = 0.0
    for i in range(size):
        total += a[i] * b[i]
    return total


@njit(cache=True, nogil=True)  # pragma: no cover - compiled
def _turns(places, cosines, sines):  # type: ignore[no-untyped-def]
    """Cosine and sine of pi times each place from 0 to 1, to within two roundings: their series about 0, 1/2 and 1."""
    for i in range(places.size):
        place = places[i]
        away = place - (0.0 if place < 0.25 else 0.5 if place < 0.75 else 1.0)  # exact
        angle = math.pi * away
        z = angle * angle
        p = -7.647163731819816e-13
        for b in (1.6059043836821613e-10, -2.505210838544172e-08, 2.7557319223985893e-06, -0.0001984126984126984):
            p = p * z + b
        p = (p * z + 0.008333333333333333) * z - 0.16666666666666666
        sine = angle + angle * z * p
        p = 4.779477332387385e-14
        for b in (-1.1470745597729725e-11, 2.08767569878681e-09, -2.755731922398589e-07, 2.48015873015873e-05):
            p = p * z + b
        p = ((p * z - 0.001388888888888889) * z + 0.041666666666666664) * z - 0.5
        cosine = 1.0 + z * p
        cosines[i] = cosine if place < 0.25 else -sine if place < 0.75 else -cosine
        sines[i] = sine if place < 0.25 else cosine if place < 0.75 else -sine


# --- All columns of a party -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CurveMatrix:
    """Encoded rows by their cells: takes rows, multiplies vectors, and is written out some rows at a time.

    Attributes
    ----------
    cells : tuple of TabledCells or WaveCells
        For each raw column, one beside the other where exact values have buckets.
    scale : array or None
        What each row is multiplied by; None for 1.
    """

    cells: tuple[Cells, ...]
    scale: Vector | None = None

    dtype = np.dtype(np.float64)
    ndim = 2
    __array_ufunc__ = None  # so that an array times this comes to `__rmatmul__`

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and encoded columns."""
        return len(self.cells[0]), int(self.starts[-1])

    @property
    def nbytes(self) -> int:
        """Bytes of the cells."""
        return sum(array.nbytes for array in self.arrays)

    @property
    def nnz(self) -> int:
        """Numbers that a product with a vector multiplies."""
        return self.shape[0] * sum(cells.filled for cells in self.cells)

    @property
    def arrays(self) -> list[npt.NDArray[Any]]:
        """All numbers that the encoded rows follow from."""
        own = [array for cells in self.cells for array in cells.arrays]
        return own if self.scale is None else [*own, self.scale]

    @cached_property
    def starts(self) -> npt.NDArray[np.intp]:
        """Where the encoded columns of each raw column begin, and the end of the last."""
        return np.cumsum([0, *(cells.width for cells in self.cells)])

    def __getitem__(self, picked: Picked | tuple[Picked, slice]) -> CurveMatrix:
        """Some rows; with a second slice, of the encoded columns of whole raw columns."""
        rows, columns = picked if isinstance(picked, tuple) else (picked, slice(None))
        first, last = (self._raw_column(end) for end in columns.indices(self.shape[1])[:2])
        scale = None if self.scale is None else self.scale[rows]
        return CurveMatrix(tuple(cells.take(rows) for cells in self.cells[first:last]), scale)

    def _raw_column(self, start: int) -> int:
        """The raw column whose encoded columns begin here."""
        number = int(np.searchsorted(self.starts, start))
        if self.starts[number] != start:
            raise ValueError(f"no raw column begins at the encoded column {start}")
        return number

    @classmethod
    def beside(cls, matrices: Sequence[CurveMatrix]) -> CurveMatrix:
        """All columns of the same rows."""
        assert all(matrix.scale is None for matrix in matrices)
        return cls(tuple(cells for matrix in matrices for cells in matrix.cells))

    @classmethod
    def below(cls, matrices: Sequence[CurveMatrix]) -> CurveMatrix:
        """All rows, encoded by the same constants."""
        assert all(matrix.scale is None for matrix in matrices)
        lines: Any = zip(*(matrix.cells for matrix in matrices), strict=True)
        return cls(tuple(first.stacked(others) for first, *others in lines))

    def pieces(self) -> Iterator[slice]:
        """Slices that cover all rows."""
        return (slice(start, start + ROWS_AT_ONCE) for start in range(0, self.shape[0], ROWS_AT_ONCE))

    def dense(self, rows: slice) -> Vector:
        """Some rows, written out."""
        out = np.empty((self.shape[1], len(range(*rows.indices(self.shape[0]))))).T  # a column after the other
        for cells, start in zip(self.cells, self.starts, strict=False):
            cells.write(rows, out[:, start : start + cells.width])
        if self.scale is not None:
            out *= self.scale[rows, None]
        return out

    def toarray(self) -> Vector:
        """All rows, written out."""
        out = np.empty(self.shape)
        for rows in self.pieces():
            out[rows] = self.dense(rows)
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return self.toarray().astype(dtype or np.float64, copy=False)

    def __matmul__(self, x: Vector) -> Vector:
        if not self.is_tabled:
            return self.by_rows(x)
        out = np.empty((self.shape[0], *x.shape[1:]))
        lines = [np.ascontiguousarray(line) for line in np.atleast_2d(self.slot_values(x).T)]
        for rows, slots, parts in self.hats():
            sums = np.zeros((len(lines), slots.shape[1]))
            for line, own in zip(lines, sums, strict=True):
                _add_scores(slots, parts, line, own)
            out[rows] = sums.T.reshape(out[rows].shape)
        return out

    def __rmatmul__(self, r: Vector) -> Vector:
        lines = np.atleast_2d(r)
        total = np.zeros((self.slot_starts[-1] if self.is_tabled else self.shape[1], len(lines)))
        if self.is_tabled:
            for rows, slots, parts in self.hats():
                total += slot_sums(slots, parts, np.ascontiguousarray(lines[:, rows].T), len(total))
            total = self.column_sums(total)
        else:
            for line, own in zip(lines, total.T, strict=True):
                own += self.sums_of_rows(line)
        return np.asarray(total.T.reshape(*r.shape[:-1], -1))

    def by_rows(self, x: Vector) -> Vector:
        """The encoded rows times x, row by row."""
        out = np.zeros((self.shape[0], *x.shape[1:]))
        for rows in self.pieces():
            if x.ndim > 1:
                out[rows] = self.dense(rows) @ x
                continue
            for cells, (a, b) in zip(self.cells, pairwise(self.starts), strict=True):
                cells.add_scores(rows, x[a:b], out[rows])
            if self.scale is not None:
                out[rows] *= self.scale[rows]
        return out

    def sums_of_rows(self, r: Vector) -> Vector:
        """The transposed encoded rows times r, sums of written rows: some thousand rows at a time."""
        total = np.zeros(self.shape[1])
        for rows in self.pieces():
            part, taken = np.zeros(self.shape[1]), r[rows] if self.scale is None else r[rows] * self.scale[rows]
            for cells, (a, b) in zip(self.cells, pairwise(self.starts), strict=True):
                cells.add_sums(rows, taken, part[a:b])
            total += part
        return total

    def with_heights(self, heights: Vector) -> CurveMatrix:
        """Each encoded column of tables times a number."""
        cells = [
            replace(own, table=own.table @ sp.diags_array(heights[a:b]).tocsr())
            for own, (a, b) in zip(self.cells, pairwise(self.starts), strict=True)
            if isinstance(own, TabledCells)
        ]
        return CurveMatrix(tuple(cells), self.scale)

    # Where all cells are between two rows of a table: D = H S, with two entries of H for each cell

    @property
    def is_tabled(self) -> bool:
        """Whether all cells are between two rows of a table, and no row is scaled."""
        return self.scale is None and all(isinstance(cells, TabledCells) for cells in self.cells)

    @property
    def tables(self) -> list[Matrix]:
        """S, for each raw column."""
        return [cells.table for cells in self.cells if isinstance(cells, TabledCells)]

    @cached_property
    def slot_starts(self) -> npt.NDArray[np.intp]:
        """Where the slots of each raw column begin, and the end of the last."""
        return np.cumsum([0, *(table.shape[0] for table in self.tables)])

    def slot_values(self, x: Vector) -> Vector:
        """S x."""
        return np.concatenate(
            [table @ x[a:b] for table, (a, b) in zip(self.tables, pairwise(self.starts), strict=True)]
        )

    def column_sums(self, sums: Vector) -> Vector:
        """S' times sums over slots."""
        ends = zip(self.tables, pairwise(self.slot_starts), strict=True)
        return np.concatenate([table.T @ sums[a:b] for table, (a, b) in ends])

    def hats(self) -> Iterator[tuple[slice, npt.NDArray[np.int32], Vector]]:
        """Some rows, their slots (numbered through all columns) and parts, by raw column; valid until the next."""
        shape = len(self.cells), min(ROWS_AT_ONCE, self.shape[0])
        slots, parts = np.empty(shape, np.int32), np.empty(shape)
        for rows in self.pieces():
            count = min(rows.stop, self.shape[0]) - rows.start
            for cells, start, slot, part in zip(self.cells, self.slot_starts, slots, parts, strict=False):
                assert isinstance(cells, TabledCells)
                slot[:count] = cells.slots[rows]
                slot[:count] += start
                cells.write_parts(rows, part[:count])
            yield rows, slots[:, :count], parts[:, :count]


@njit(cache=True, nogil=True)  # pragma: no cover - compiled
def _add_scores(slots, parts, line, out):  # type: ignore[no-untyped-def]
    """Add the value of a line through the slots, at each cell of a row."""
    for j in range(slots.shape[0]):
        for i in range(slots.shape[1]):
            low = line[slots[j, i]]
            out[i] += low + parts[j, i] * (line[slots[j, i] + 1] - low)


@njit(cache=True, nogil=True)  # pragma: no cover - compiled
def slot_sums(slots, parts, columns, count):  # type: ignore[no-untyped-def]
    """H' columns of some rows."""
    sums = np.zeros((count, columns.shape[1]))
    for j in range(slots.shape[0]):
        for i in range(slots.shape[1]):
            low, high, part = sums[slots[j, i]], sums[slots[j, i] + 1], parts[j, i]
            for k in range(columns.shape[1]):
                moved = part * columns[i, k]
                low[k] += columns[i, k] - moved
                high[k] += moved
    return sums
