"""A party's columns whose rows are on a Dask cluster: the operations of `Block`, each one pass over all workers.

Every worker works on the blocks it holds as a machine with rows on disk does; the sums are then added in an order that
does not depend on who was ready when.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tacit.blocks.dense import Block
from tacit.blocks.streamed import Products, StreamedBlock, products, sums
from tacit.data.rows_on_disk import ROWS_AT_ONCE, Numbers, pieces_of
from tacit.errors import InputError
from tacit.types import Vector


class ClusterBlock(StreamedBlock):
    """D - 1 m' with D on a cluster; `sweep` makes several products in one pass."""

    def take(self, rows: npt.NDArray[np.intp] | slice) -> Block:
        """Refused: rows on a cluster are used all together."""
        raise InputError("this method picks single rows, which --dask does not allow: train without --dask")

    def mean_square(self) -> float:
        """Mean squared norm of a row of D (without centring)."""
        (total,) = self.matrix.total(block_squares, ())
        return float(total[0]) / int(self.n)

    def _sum_rows(self, r: Vector) -> Vector:
        (product,) = self.matrix.total(block_sums, (r.reshape(self.n, -1),))
        return np.asarray(product.T.reshape(self.d, *r.shape[1:]))

    def _pass(self, residual: Vector | None, weights: Vector, steps: Vector, near: Vector | None) -> Products:
        gradient, cross, pull, square = self.matrix.total(block_products, (residual, weights, steps), near)
        return gradient, cross, pull, square

    def outer(self) -> Vector:
        """Refused: it has a number for every two rows."""
        raise InputError(
            f"a party has more columns ({self.d}) than rows ({self.n}), for which --dask is not made: "
            "train without --dask"
        )


def block_products(
    block: Numbers, residual: Vector | None, weights: Vector, steps: Vector, near: Vector | None
) -> Products:
    """`products` of the rows of one block."""
    largest = min(ROWS_AT_ONCE, len(block)), block.shape[1]
    return products(pieces_of(block), largest, residual, weights, steps, near)


def block_sums(block: Numbers, columns: Vector) -> tuple[Vector]:
    """`sums` of the rows of one block."""
    return (sums(pieces_of(block), block.shape[1], columns),)


def block_squares(block: Numbers) -> tuple[Vector]:
    """Sum of all squares of one block."""
    wide = (part.astype(np.float64).ravel() for _, part in pieces_of(block))
    return (np.array([sum(float(values @ values) for values in wide)]),)
