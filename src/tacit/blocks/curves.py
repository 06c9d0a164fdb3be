"""A party's columns of curves: the operations of `Block`, on rows whose encoded numbers are never all written out.

| symbol | meaning |
|---|---|
| D = H S | encoded rows; H has two entries for each raw cell, S is the tables of the columns (`columns/compact.py`) |
| A | S - 1 m', each table without its part of the centre; D - 1 m' = H A, as the two entries of a cell sum to 1 |

D' r = S' (H' r) and (D - 1 m')' diag(w) (D - 1 m') = A' (H' diag(w) H) A: all that is done for each row is done in H,
which is why a round takes time in proportion to raw cells (and a Gram matrix, to their pairs).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from tacit.blocks.dense import Block, OnePassBlock, Sweep, without_constants
from tacit.columns.compact import CurveMatrix, dense_rows, slot_sums
from tacit.types import Matrix, Vector

# --- Any curves: rows are written out some at a time, and used as dense rows


class CurveBlock(Block):
    """D - 1 m' of curves."""

    matrix: CurveMatrix
    sums_chunks = True

    @property
    def _is_narrow(self) -> bool:
        return True

    @property
    def is_compact(self) -> bool:
        """D takes about the memory of the raw cells."""
        return True

    def _numbers(self, rows: slice) -> Vector:
        return self.matrix.dense(rows)

    def predict(self, x: Vector) -> Vector:
        """(D - 1 m') x."""
        product = self.matrix.by_rows(x)
        return product if self.centre is None else product - self.centre @ x

    def _sum_rows(self, r: Vector) -> Vector:
        if r.ndim > 1:
            return super()._sum_rows(r)
        return self.matrix.sums_of_rows(r)

    def _gram_dense(self, weights: Vector, centre: Vector | None) -> Vector:
        gram = np.zeros((self.d, self.d))
        for rows in self._chunks():
            numbers = self.matrix.dense(rows)  # its own copy
            if centre is not None:
                numbers -= centre
            numbers *= np.sqrt(weights[rows, None])
            gram += numbers.T @ numbers
        return gram

    def mean_square(self) -> float:
        """Mean squared norm of a row of D (without centring)."""
        return float(self.row_squares().sum()) / int(self.n)

    def row_squares(self) -> Vector:
        """Squared norm of each row of D; infinite where it overflows."""
        squares = np.empty(self.n)
        with np.errstate(over="ignore"):
            for rows in self._chunks():
                numbers = self.matrix.dense(rows)
                np.einsum("ij,ij->i", numbers, numbers, out=squares[rows])
        return squares

    def without_endless(self) -> Block:
        """D with zeros in place of each row that holds NaN or infinity, written out."""
        return Block(self.matrix.toarray()).without_endless()

    def scaled(self, factor: Vector, kept: npt.NDArray[np.bool_]) -> Matrix:
        """The rows times a factor each, zeros where a row is not kept."""
        own = np.where(kept, factor, 0.0)
        return CurveMatrix(self.matrix.cells, own if self.matrix.scale is None else own * self.matrix.scale)

    def outer(self) -> Vector:
        """(D - 1 m')(D - 1 m')', n x n: made where d > n, so that the rows are few."""
        whole = Block(self.matrix.toarray())
        whole.centre = self.centre
        return whole.outer()


# --- Curves that are all given by tables: sums over rows are sums over slots


class TableBlock(OnePassBlock, CurveBlock):
    """D - 1 m' = H A."""

    def as_rows(self) -> Block:
        """The same, with the products of rows that are written out."""
        return CurveBlock(self.matrix)

    def predict(self, x: Vector) -> Vector:
        """(D - 1 m') x."""
        product = self.matrix @ x
        return product if self.centre is None else product - self.centre @ x

    def _sum_rows(self, r: Vector) -> Vector:
        return (r.T @ self.matrix).T

    def sweep(
        self, residual: Vector | None, weights: Vector, steps: Vector, *, gram: bool, project: bool = False
    ) -> Sweep:
        """As `Block.sweep`, in one pass over the cells."""
        taken = np.zeros((self.n, 0)) if residual is None else residual[:, None]
        sums = np.zeros((self._slots, taken.shape[1] + steps.shape[1] + 1))
        square = np.zeros((self._slots, self._slots) if gram else (0, 0))
        for rows, slots, parts in self.matrix.hats():
            weight = weights[rows, None]
            sums += slot_sums(slots, parts, np.hstack([taken[rows], weight * steps[rows], weight]), self._slots)
            if gram:
                _add_slot_gram(slots, parts, weights[rows], self.matrix.slot_starts, square)
        total = float(weights.sum())
        about = self._by_column(sums[:, -1:])[:, 0] / total if project else self.centre
        found = self._by_column(sums, self.centre)
        gradient = np.zeros(self.d) if residual is None else found[:, 0]
        cross = found[:, taken.shape[1] : -1]
        if not gram:
            return Sweep(gradient, cross)
        return Sweep(gradient, cross, found[:, -1] if project else None, self._square(square, about, total))

    @property
    def _slots(self) -> int:
        return int(self.matrix.slot_starts[-1])

    def _by_column(self, sums: Vector, centre: Vector | None = None) -> Vector:
        """A' times sums over slots."""
        product = self.matrix.column_sums(sums)
        if centre is not None:
            for _, own, (a, b) in self._lines():
                product[a:b] -= np.outer(centre[a:b], sums[own].sum(axis=0))
        return product

    def _square(self, square: Vector, about: Vector | None, total: float) -> Vector:
        """A' square A, from the lower triangle of blocks of `square`."""
        gram = np.empty((self.d, self.d))
        tables = [
            (dense_rows(table, slice(None)) - (0.0 if about is None else about[a:b]), own, slice(a, b))
            for table, own, (a, b) in self._lines()
        ]
        for i, (high, its, down) in enumerate(tables):
            for low, own, across in tables[: i + 1]:
                gram[down, across] = high.T @ square[its, own] @ low
                gram[across, down] = gram[down, across].T
        return gram if about is None else without_constants(gram, total * about**2)

    def _lines(self) -> list[tuple[Matrix, slice, tuple[int, int]]]:
        """For each raw column its table, its slots and its encoded columns."""
        slots, starts = self.matrix.slot_starts, self.matrix.starts
        return [
            (table, slice(slots[j], slots[j + 1]), (int(starts[j]), int(starts[j + 1])))
            for j, table in enumerate(self.matrix.tables)
        ]


@njit(cache=True, nogil=True)  # pragma: no cover - compiled
def _add_slot_gram(slots, parts, weights, starts, square):  # type: ignore[no-untyped-def]
    """Add the lower triangle of blocks of H' diag(weights) H of some rows; blocks on the diagonal are whole."""
    for a in range(slots.shape[0]):
        for b in range(a + 1):
            block = square[starts[a] : starts[a + 1], starts[b] : starts[b + 1]]
            if block.size > weights.size:  # a block of its own would take longer to add than the rows
                _add_pair(slots[a], parts[a], starts[a], slots[b], parts[b], starts[b], weights, block)
            else:
                own = np.zeros(block.shape)
                _add_pair(slots[a], parts[a], starts[a], slots[b], parts[b], starts[b], weights, own)
                block += own


@njit(cache=True, nogil=True)  # pragma: no cover - compiled
def _add_pair(slots, parts, start, others, other_parts, other_start, weights, block):  # type: ignore[no-untyped-def]
    """Add the products of two raw columns."""
    for i in range(weights.size):
        low, left = slots[i] - start, others[i] - other_start
        above, right = weights[i] * parts[i], other_parts[i]
        below = weights[i] - above
        block[low, left] += below * (1.0 - right)
        block[low, left + 1] += below * right
        block[low + 1, left] += above * (1.0 - right)
        block[low + 1, left + 1] += above * right
