"""A party's columns whose rows stay on disk, dense or sparse: the operations of `Block`, some rows at a time.

| symbol | meaning |
|---|---|
| D | the party's n x d matrix, on disk |
| m | the centre |
| w, S | row weights, and columns of n numbers that are taken along |

Of sparse rows, zeros cost nothing as long as nothing is subtracted from them: sums are taken without a centre, and
moved after.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from numba import njit

from tacit.blocks.dense import Block, OnePassBlock, Sweep, add_sparse_gram, without_constants
from tacit.data.rows_on_disk import Numbers
from tacit.errors import InputError
from tacit.types import Vector

# --- A party's columns whose rows stay on disk: the operations of `Block`, some rows at a time


NONE = np.zeros(0)  # for weights that are all 1

Products = tuple[Vector, Vector, Vector, Vector]  # gradient, cross (one row for each step), pull, square
Pieces = Iterable[tuple[slice, Numbers]]


class StreamedBlock(OnePassBlock):
    """D - 1 m' with D on disk; every product is one pass over the rows, and `sweep` makes several in one."""

    def set_centre(self, weights: Vector | None) -> Vector:
        """As `Block.set_centre`; the plain mean was taken when the rows were written."""
        if weights is not None:
            return super().set_centre(weights)
        self.centre = centre = np.asarray(self.matrix.sums / self.n)
        return centre

    def take(self, rows: npt.NDArray[np.intp] | slice) -> Block:
        """Refused: rows on disk are read in order."""
        raise InputError("this method picks single rows, which --memory does not allow: train without --memory")

    def mean_square(self) -> float:
        """Mean squared norm of a row of D (without centring)."""
        wide = (part.astype(np.float64).ravel() for _, part in self.matrix.pieces())
        return sum(float(values @ values) for values in wide) / int(self.n)

    def predict(self, x: Vector) -> Vector:
        """(D - 1 m') x."""
        product: Vector = self.matrix @ x
        if self.centre is not None:
            product -= self.centre @ x
        return product

    def _sum_rows(self, r: Vector) -> Vector:
        product = sums(self.matrix.pieces(), self.d, r.reshape(self.n, -1))
        return product.T.reshape(self.d, *r.shape[1:])

    def sweep(
        self, residual: Vector | None, weights: Vector, steps: Vector, *, gram: bool, project: bool = False
    ) -> Sweep:
        """As `Block.sweep`, in one pass: products are taken about a centre near the mean, and moved after."""
        gradient, cross, pull, square = self._pass(residual, weights, steps, self._near(project) if gram else None)
        found = Sweep(gradient, np.ascontiguousarray(cross.T))
        if self.centre is not None:
            if residual is not None:
                found.gradient[:] -= self.centre * residual.sum()
            found.cross[:] -= np.outer(self.centre, steps.T @ weights)
        return self._with_gram(found, pull, square, float(weights.sum()), project) if gram else found

    def _pass(self, residual: Vector | None, weights: Vector, steps: Vector, near: Vector | None) -> Products:
        """The one pass of `sweep`."""
        largest = self.matrix.piece_rows, self.d
        return products(self.matrix.pieces(), largest, residual, weights, steps, near)

    def _near(self, project: bool) -> Vector:
        """A centre about which the products lose no digits."""
        if self.centre is not None:
            return self.centre
        return np.asarray(self.matrix.sums / self.n) if project else np.zeros(self.d)

    def _with_gram(self, found: Sweep, pull: Vector, square: Vector, total: float, project: bool) -> Sweep:
        """Move the Gram matrix to the centre that is asked for, from one near it."""
        near, about = self._near(project), self.centre
        if project:
            shift = pull / total  # of the weighted mean from `near`
            square = square - total * np.outer(shift, shift)
            about = near + shift
        if about is not None:
            square = without_constants(square, total * about**2)
        return Sweep(found.gradient, found.cross, pull if self.centre is not None else pull + total * near, square)

    def outer(self) -> Vector:
        """Refused: it has a number for every two rows."""
        raise InputError(
            f"a party has more columns ({self.d}) than rows ({self.n}), for which --memory is not made: "
            "train without --memory"
        )


def products(
    pieces: Pieces,
    largest: tuple[int, int],
    residual: Vector | None,
    weights: Vector,
    steps: Vector,
    near: Vector | None,
) -> Products:
    """D' r, S' diag(w) D and, about the row `near` where it is given, D' w and D' diag(w) D, in one pass.

    `largest` is the shape of the largest piece.
    """
    most, d = largest
    gradient, cross = np.zeros((1, d)), np.zeros((steps.shape[1], d))
    pull, square = np.zeros(d), np.zeros((0 if near is None else d, d))
    room = np.empty((0 if near is None else most, d))
    for rows, part in pieces:
        if residual is not None:
            _add_products(part, NONE, residual[rows, None], gradient)
        if len(cross):
            _add_products(part, weights[rows], steps[rows], cross)
        if near is not None:
            away = room[: len(part)]
            _move_and_weigh(part, near, weights[rows], away, pull)
            square += away.T @ away
    return gradient[0], cross, pull, square


def sums(pieces: Pieces, d: int, columns: Vector) -> Vector:
    """(columns)' D, in one pass."""
    product = np.zeros((columns.shape[1], d))
    for rows, part in pieces:
        _add_products(part, NONE, columns[rows], product)
    return product


@njit(cache=True, nogil=True, fastmath={"contract"})  # pragma: no cover - compiled
def _add_products(part, weights, columns, product):  # type: ignore[no-untyped-def]
    """Add (weights columns)' part to `product`; no weights count as ones. Sums of sums: the rows are a few."""
    d = part.shape[1]
    sums = np.zeros((columns.shape[1], d))
    for i in range(part.shape[0]):
        for k in range(columns.shape[1]):
            factor = columns[i, k] * weights[i] if weights.size else columns[i, k]
            for j in range(d):
                sums[k, j] += factor * np.float64(part[i, j])
    product += sums


@njit(cache=True, nogil=True, fastmath={"contract"})  # pragma: no cover - compiled
def _move_and_weigh(part, near, weights, away, pull):  # type: ignore[no-untyped-def]
    """Write sqrt(weights) (part - near) to `away`, and add (part - near)' weights to `pull`."""
    sums = np.zeros(part.shape[1])
    for i in range(part.shape[0]):
        weight, root = weights[i], np.sqrt(weights[i])
        for j in range(part.shape[1]):
            value = np.float64(part[i, j]) - near[j]
            sums[j] += weight * value
            away[i, j] = root * value
    pull += sums


# --- A party's sparse columns whose rows stay on disk: the operations of `Block`, a block of CSR rows at a time


class SparseStreamedBlock(StreamedBlock):
    """D - 1 m' with a sparse D on disk; products are one pass each, and `sweep` makes several in one."""

    def mean_square(self) -> float:
        """Mean squared norm of a row of D (without centring)."""
        return sum(float(part.data @ part.data) for _, part in self.matrix.blocks()) / int(self.n)

    def _sum_rows(self, r: Vector) -> Vector:
        columns = r.reshape(self.n, -1)
        product = np.zeros((self.d, columns.shape[1]))
        for rows, part in self.matrix.blocks():
            product += _products(part.indptr, part.indices, part.data, NONE, columns[rows], self.d)
        return product.reshape(self.d, *r.shape[1:])

    def sweep(
        self, residual: Vector | None, weights: Vector, steps: Vector, *, gram: bool, project: bool = False
    ) -> Sweep:
        """As `Block.sweep`, in one pass."""
        gradient, cross = np.zeros((self.d, 1)), np.zeros((self.d, steps.shape[1]))
        pull, square = np.zeros((self.d, 1)), np.zeros((self.d, self.d) if gram else (0, 0))
        for rows, part in self.matrix.blocks():
            arrays = part.indptr, part.indices, part.data
            if residual is not None:
                gradient += _products(*arrays, NONE, residual[rows, None], self.d)
            if steps.shape[1]:
                cross += _products(*arrays, weights[rows], steps[rows], self.d)
            if gram:
                pull += _products(*arrays, NONE, weights[rows, None], self.d)
                add_sparse_gram(*arrays, weights[rows], square)
        found = Sweep(gradient[:, 0], cross)
        if self.centre is not None:
            if residual is not None:
                found.gradient[:] -= self.centre * residual.sum()
            found.cross[:] -= np.outer(self.centre, steps.T @ weights)
        return self._centred(found, pull[:, 0], square, float(weights.sum()), project) if gram else found

    def _centred(self, found: Sweep, pull: Vector, square: Vector, total: float, project: bool) -> Sweep:
        """Complete the lower triangle of D' diag(weights) D, and move it to the centre that is asked for."""
        about = pull / total if project else self.centre
        if about is not None:
            lower = np.outer(about, pull)
            square -= lower
            square -= lower.T
            np.outer(total * about, about, out=lower)
            square += lower
        _mirror(square)
        if about is not None:
            square = without_constants(square, total * about**2)
        moved = pull if self.centre is None else pull - total * self.centre
        return Sweep(found.gradient, found.cross, moved, square)


@njit(cache=True, nogil=True)  # pragma: no cover - compiled
def _products(indptr, indices, data, weights, columns, d):  # type: ignore[no-untyped-def]
    """D' (weights columns) of some CSR rows, d x k; no weights count as ones."""
    sums = np.zeros((d, columns.shape[1]))
    for i in range(indptr.size - 1):
        weight = weights[i] if weights.size else 1.0
        for place in range(indptr[i], indptr[i + 1]):
            value, line = weight * data[place], sums[indices[place]]
            for k in range(columns.shape[1]):
                line[k] += value * columns[i, k]
    return sums


@njit(cache=True, nogil=True)  # pragma: no cover - compiled
def _mirror(square):  # type: ignore[no-untyped-def]
    """Write the lower triangle to the upper one."""
    for i in range(square.shape[0]):
        for j in range(i):
            square[j, i] = square[i, j]
