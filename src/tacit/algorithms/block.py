"""One party's columns as a linear map: the only operations the algorithms need of the data.

| symbol | meaning |
|---|---|
| D | the party's n x d matrix, dense or CSR, never copied |
| m | the centre: None, or a row subtracted from every row of D without forming D - 1 m' |
| s | row weights, n numbers >= 0 |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit
from scipy import sparse

from tacit.types import Matrix, Vector

ROWS_AT_ONCE = 8192  # a chunk of dense rows that stays in cache while its Gram matrix is formed
CONSTANT = 1e-13  # a centred column whose squares are this small beside those of its mean was constant


@dataclass(frozen=True)
class Sweep:
    """What `Block.sweep` returns, all of it about the block's centre, the Gram matrix as `Block.gram` has it.

    Attributes
    ----------
    gradient : array
        (D - 1 m')' residual.
    cross : array
        (D - 1 m')' diag(weights) steps.
    pull, gram : array or None
        (D - 1 m')' weights (with `project`), and the Gram matrix, where it was asked for.
    """

    gradient: Vector
    cross: Vector
    pull: Vector | None = None
    gram: Vector | None = None


class Block:
    """D - 1 m' for one party, with its two products and its Gram matrices."""

    def __init__(self, features: Matrix) -> None:
        self.matrix = _canonical_csr(features) if sparse.issparse(features) else features
        self.n, self.d = self.matrix.shape
        self.centre: Vector | None = None

    @property
    def is_sparse(self) -> bool:
        """True where D is kept in CSR form."""
        return bool(sparse.issparse(self.matrix))

    def set_centre(self, weights: Vector | None) -> Vector:
        """Take the weighted mean row as the centre (plain mean where weights is None), and return it."""
        self.centre = centre = self._mean_row(np.ones(self.n) if weights is None else weights)
        return centre

    def _mean_row(self, weights: Vector) -> Vector:
        return np.asarray(self._sum_rows(weights) / weights.sum())

    def take(self, rows: npt.NDArray[np.intp]) -> Block:
        """The same columns of some rows, with the same centre."""
        part = Block(self.matrix[rows])
        part.centre = self.centre
        return part

    def mean_square(self) -> float:
        """Mean squared norm of a row of D (without centring)."""
        values = self.matrix.data if self.is_sparse else self.matrix
        return float(np.vdot(values, values)) / int(self.n)

    def predict(self, x: Vector) -> Vector:
        """(D - 1 m') x; float32 data are multiplied in float64, so that sums over many rounds do not drift."""
        if self._is_narrow:
            product = np.concatenate([rows.astype(np.float64) @ x for rows in self._chunks()])
        else:
            product = np.asarray(self.matrix @ x, dtype=np.float64)
        if self.centre is not None:
            product -= self.centre @ x
        return product

    def correlate(self, r: Vector) -> Vector:
        """(D - 1 m')' r for one vector or the columns of a matrix, in float64."""
        product = self._sum_rows(r)
        if self.centre is not None:
            product -= np.multiply.outer(self.centre, r.sum(axis=0))
        return product

    @property
    def _is_narrow(self) -> bool:
        return self.matrix.dtype != np.float64 and not self.is_sparse

    def _chunks(self) -> Iterator[Matrix]:
        return (self.matrix[start : start + ROWS_AT_ONCE] for start in range(0, self.n, ROWS_AT_ONCE))

    def _sum_rows(self, r: Vector) -> Vector:
        """D' r."""
        if not self._is_narrow:
            return np.asarray(self.matrix.T @ r, dtype=np.float64)
        total = np.zeros((self.d, *r.shape[1:]))
        for i, rows in enumerate(self._chunks()):
            total += rows.T.astype(np.float64) @ r[i * ROWS_AT_ONCE : (i + 1) * ROWS_AT_ONCE]
        return total

    def correlate_columns(self, weights: Vector, columns: Vector) -> Vector:
        """(D - 1 m')' diag(weights) columns, in one pass over dense data."""
        product = np.zeros((self.d, columns.shape[1]))
        if self.is_sparse:
            for j, column in enumerate(columns.T):
                product[:, j] = self.matrix.T @ (weights * column)
        else:
            for start in range(0, self.n, ROWS_AT_ONCE):
                rows = slice(start, start + ROWS_AT_ONCE)
                product += self.matrix[rows].T.astype(np.float64, copy=False) @ (weights[rows, None] * columns[rows])
        if self.centre is not None:
            product -= np.outer(self.centre, columns.T @ weights)
        return product

    def gram(self, weights: Vector | None = None, *, project: bool = False) -> Vector:
        """(D - 1 m')' diag(weights) (D - 1 m'), d x d; with `project`, m is the weighted mean row instead."""
        weights = np.ones(self.n) if weights is None else weights
        centre = self._mean_row(weights) if project else self.centre
        gram = self._gram_sparse(weights, centre) if self.is_sparse else self._gram_dense(weights, centre)
        return gram if centre is None else without_constants(gram, weights.sum() * centre**2)

    def sweep(
        self, residual: Vector | None, weights: Vector, steps: Vector, *, gram: bool, project: bool = False
    ) -> Sweep:
        """All products of a round that come before its direction; rows on disk are read once for them."""
        gradient = np.zeros(self.d) if residual is None else self.correlate(residual)
        cross = self.correlate_columns(weights, steps)
        if not gram:
            return Sweep(gradient, cross)
        pull = self.correlate(weights) if project else None
        return Sweep(gradient, cross, pull, self.gram(weights, project=project))

    def _gram_dense(self, weights: Vector, centre: Vector | None) -> Vector:
        gram = np.zeros((self.d, self.d))
        for start in range(0, self.n, ROWS_AT_ONCE):
            rows = self.matrix[start : start + ROWS_AT_ONCE].astype(np.float64)
            if centre is not None:
                rows -= centre
            rows *= np.sqrt(weights[start : start + ROWS_AT_ONCE, None])
            gram += rows.T @ rows
        return gram

    def _gram_sparse(self, weights: Vector, centre: Vector | None) -> Vector:
        matrix = self.matrix
        if matrix.nnz * matrix.nnz / max(self.n, 1) < 4e9:
            gram = np.zeros((self.d, self.d))
            add_sparse_gram(matrix.indptr, matrix.indices, matrix.data, weights, gram)
            gram = gram + np.tril(gram, -1).T
        else:  # nearly dense rows: the library's sparse product is no slower
            gram = (matrix.T @ sparse.diags_array(weights) @ matrix).toarray()
        if centre is not None:
            cross = np.outer(centre, np.asarray(matrix.T @ weights, dtype=np.float64))
            gram += weights.sum() * np.outer(centre, centre) - cross - cross.T
        return gram

    def outer(self) -> Vector:
        """(D - 1 m')(D - 1 m')', n x n: the smaller Gram matrix where d > n."""
        product = self.matrix @ self.matrix.T
        outer = product.toarray() if sparse.issparse(product) else np.asarray(product)
        outer = outer.astype(np.float64)
        if self.centre is not None:
            shift = np.asarray(self.matrix @ self.centre, dtype=np.float64)
            outer += float(self.centre @ self.centre) - np.add.outer(shift, shift)
        return outer


def without_constants(gram: Vector, removed: Vector) -> Vector:
    """Zero the rows of columns that were constant: what centring left of them is rounding."""
    constant = np.diag(gram) <= CONSTANT * removed
    gram[constant, :] = 0.0
    gram[:, constant] = 0.0
    return gram


def _canonical_csr(features: Matrix) -> Matrix:
    """CSR with entries in order and stored once, as the Gram kernel needs it; the caller's matrix stays as it is."""
    matrix = features.tocsr()
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix


@njit(cache=True, nogil=True)  # pragma: no cover - compiled
def add_sparse_gram(indptr, indices, data, weights, gram):  # type: ignore[no-untyped-def]
    """Add the lower triangle of D' diag(weights) D; indices rise within a row."""
    for row in range(indptr.size - 1):
        weight = weights[row]
        if weight == 0.0:
            continue
        for a in range(indptr[row], indptr[row + 1]):
            line = gram[indices[a]]
            scaled = weight * data[a]
            for b in range(indptr[row], a + 1):
                line[indices[b]] += scaled * data[b]
