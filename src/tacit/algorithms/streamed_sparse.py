"""A party's sparse columns whose rows stay on disk: the operations of `Block`, a block of CSR rows at a time.

Zeros cost nothing as long as nothing is subtracted from them: sums are taken without a centre, and moved after.

| symbol | meaning |
|---|---|
| D | the party's n x d matrix, on disk |
| m | the centre |
"""

from __future__ import annotations

import numpy as np
from numba import njit

from tacit.algorithms.block import Sweep, add_sparse_gram, without_constants
from tacit.algorithms.streamed import NONE, StreamedBlock
from tacit.types import Vector


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
