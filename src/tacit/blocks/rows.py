"""Rows made fit for private sums: scaled down to a public norm, centred, scaled down again; never copied.

| symbol | meaning |
|---|---|
| D | a party's rows, dense or CSR |
| b | the public bound on the norm of a row |
| m, c | centre and radius, in units of the columns |
| p | min(1, b / |row|), one for each row |
| f | min(1, c / |p row - m|), one for each row |

What is done to a row depends on that row, the centre and the radius alone, and never fails: a row that is too long for
products with it, or that holds what is no finite number, counts as a row of zeros. Norms are rounded up, so that no
row comes out longer than its bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from tacit.blocks.dense import ROWS_AT_ONCE, Block
from tacit.types import Matrix, Vector

LONGEST = 1e60  # a row longer than this many times the public norm counts as zeros: no product with it may overflow


@dataclass(frozen=True)
class RowClip:
    """How a row is clipped: to a norm, then, where there is a centre, to a radius around it."""

    norm: float
    centre: Vector | None = None
    radius: float = np.inf

    def apply(self, features: Matrix | Block) -> ClippedRows:
        """The rows after clipping."""
        return ClippedRows(features if isinstance(features, Block) else Block(features), self)


class ClippedRows:
    """The matrix with rows f (p row - m), by its products."""

    def __init__(self, block: Block, clip: RowClip) -> None:
        assert block.centre is None, "rows are centred by their clip alone"
        squares = _squared_norms(block)
        if not np.isfinite(squares).all():
            block = _without_endless(block)
        self.block, self.clip = block, clip
        self.kept = squares < (LONGEST * clip.norm) ** 2
        squares = self._squares = np.where(self.kept, squares, 0.0)
        unsure = (block.d + 16) * 2.0**-52  # relative rounding of a norm, at most
        long = (1 + unsure) * np.sqrt(squares)
        self.shrink = np.where(self.kept, clip.norm / np.maximum(clip.norm, long), 0.0)
        self.factor = np.ones(block.n)
        if clip.centre is not None:
            centre, size = clip.centre, float(clip.centre @ clip.centre)
            away = self.shrink**2 * squares - 2 * self._shrunk(centre) + size
            # what rounding may have taken off a difference of large numbers is put back
            away = np.sqrt(np.maximum(away, 0.0) + unsure * (self.shrink**2 * squares + size))
            self.factor = clip.radius / np.maximum(clip.radius, (1 + unsure) * away)

    @property
    def n(self) -> int:
        """Rows."""
        return int(self.block.n)

    @property
    def d(self) -> int:
        """Columns."""
        return int(self.block.d)

    def predict(self, x: Vector) -> Vector:
        """The rows times x."""
        product = self._shrunk(x)
        if self.clip.centre is not None:
            product -= self.clip.centre @ x
        return np.asarray(self.factor * product)

    def _shrunk(self, x: Vector) -> Vector:
        """The rows, scaled down to the public norm, times x."""
        with np.errstate(over="ignore", invalid="ignore"):  # of rows that count as zeros
            return np.where(self.kept, self.shrink * self.block.predict(x), 0.0)

    def matrix(self) -> Matrix:
        """The clipped rows themselves, a copy; sparse rows stay sparse where there is no centre."""
        factor = self.factor * self.shrink
        if self.block.is_sparse and self.clip.centre is None:
            kept = sparse.diags_array(self.kept.astype(np.float64)) @ self.block.matrix
            kept.eliminate_zeros()
            return sparse.csr_array(sparse.diags_array(factor) @ kept)
        whole = self.block.matrix.toarray() if self.block.is_sparse else self.block.matrix
        rows = factor[:, None] * np.where(self.kept[:, None], whole, 0.0)
        return rows if self.clip.centre is None else rows - np.multiply.outer(self.factor, self.clip.centre)

    def correlate(self, r: Vector) -> Vector:
        """The transposed rows times r."""
        weighted = self.factor * r
        product = np.zeros(self.d)
        for rows, part in self._chunks():
            product += part.correlate(self.shrink[rows] * weighted[rows])
        if self.clip.centre is not None:
            product -= self.clip.centre * weighted.sum()
        return product

    def gram(self, weights: Vector) -> Vector:
        """The transposed rows times diag(weights) times the rows."""
        inner = weights * self.factor**2
        gram, cross = np.zeros((self.d, self.d)), np.zeros(self.d)
        for rows, part in self._chunks():
            gram += part.gram(inner[rows] * self.shrink[rows] ** 2)
            cross += part.correlate(inner[rows] * self.shrink[rows])
        if self.clip.centre is not None:
            both = np.outer(self.clip.centre, cross)
            gram += inner.sum() * np.outer(self.clip.centre, self.clip.centre) - both - both.T
        return gram

    def squares(self) -> Vector:
        """Squared norm of each row before it is centred."""
        return np.asarray(self.shrink**2 * self._squares)

    def _chunks(self) -> Iterator[tuple[slice, Block]]:
        """Some rows at a time: sums of sums, whose rounding the proof bounds (docs/proofs/gram.md, section 7)."""
        if self.n <= ROWS_AT_ONCE:
            yield slice(None), self.block
            return
        for start in range(0, self.n, ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            yield rows, Block(self.block.matrix[rows])


def _without_endless(block: Block) -> Block:
    """The rows with zeros in place of each one that holds NaN or infinity: 0 times these would not be 0."""
    matrix = block.matrix
    if block.is_sparse:
        bad = ~np.isfinite(matrix.data)
        if not bad.any():
            return block
        lost = np.repeat(np.arange(block.n), np.diff(matrix.indptr))[bad]
        keep = ~np.isin(np.repeat(np.arange(block.n), np.diff(matrix.indptr)), lost)
        data = np.where(keep, matrix.data, 0.0).astype(matrix.dtype)
        return Block(sparse.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape))
    bad = ~np.isfinite(matrix).all(axis=1)
    return Block(np.where(bad[:, None], 0.0, matrix).astype(matrix.dtype)) if bad.any() else block


def _squared_norms(block: Block) -> Vector:
    """In float64, whatever the data are; infinite where it overflows."""
    matrix = block.matrix
    with np.errstate(over="ignore"):
        if block.is_sparse:
            squares = np.square(matrix.data, dtype=np.float64)
            return np.asarray(
                sparse.csr_array((squares, matrix.indices, matrix.indptr), shape=matrix.shape) @ np.ones(block.d)
            )
        norms: Vector = np.einsum("ij,ij->i", matrix, matrix, dtype=np.float64)
    return norms
