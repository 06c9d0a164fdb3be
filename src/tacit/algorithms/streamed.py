"""A party's columns whose rows stay on disk: the operations of `Block`, some rows at a time.

| symbol | meaning |
|---|---|
| D | the party's n x d matrix, on disk |
| m | the centre |
| w, S | row weights, and columns of n numbers that are taken along |
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from tacit.algorithms.block import Block, Sweep, without_constants
from tacit.data.rows_on_disk import StreamedRows
from tacit.errors import InputError
from tacit.types import Matrix, Vector


def make_block(features: Matrix) -> Block:
    """The block of these features, wherever they are."""
    return StreamedBlock(features) if isinstance(features, StreamedRows) else Block(features)


class StreamedBlock(Block):
    """D - 1 m' with D on disk; every product is one pass over the rows, and `sweep` makes several in one."""

    def _pieces(self) -> Iterator[tuple[slice, Vector]]:
        pieces: Iterator[tuple[slice, Vector]] = self.matrix.pieces()
        return pieces

    def set_centre(self, weights: Vector | None) -> Vector:
        """As `Block.set_centre`; the plain mean was taken when the rows were written."""
        if weights is not None:
            return super().set_centre(weights)
        self.centre = centre = np.asarray(self.matrix.sums / self.n)
        return centre

    def take(self, rows: npt.NDArray[np.intp]) -> Block:
        """Refused: rows on disk are read in order."""
        raise InputError("this method picks single rows, which --memory does not allow: train without --memory")

    def mean_square(self) -> float:
        """Mean squared norm of a row of D (without centring)."""
        return sum(float(np.vdot(part, part)) for _, part in self._pieces()) / int(self.n)

    def predict(self, x: Vector) -> Vector:
        """(D - 1 m') x."""
        product: Vector = self.matrix @ x
        if self.centre is not None:
            product -= self.centre @ x
        return product

    def _sum_rows(self, r: Vector) -> Vector:
        total = np.zeros((self.d, *r.shape[1:]))
        for rows, part in self._pieces():
            total += part.T @ r[rows]
        return total

    def correlate_columns(self, weights: Vector, columns: Vector) -> Vector:
        """(D - 1 m')' diag(weights) columns."""
        product = np.zeros((self.d, columns.shape[1]))
        for rows, part in self._pieces():
            product += part.T @ (weights[rows, None] * columns[rows])
        if self.centre is not None:
            product -= np.outer(self.centre, columns.T @ weights)
        return product

    def gram(self, weights: Vector | None = None, *, project: bool = False) -> Vector:
        """As `Block.gram`, in one pass."""
        weights = np.ones(self.n) if weights is None else weights
        gram = self.sweep(None, weights, np.zeros((self.n, 0)), gram=True, project=project).gram
        assert gram is not None
        return gram

    def sweep(
        self, residual: Vector | None, weights: Vector, steps: Vector, *, gram: bool, project: bool = False
    ) -> Sweep:
        """As `Block.sweep`, in one pass: products are taken about a centre near the mean, and moved after."""
        near = self.centre if self.centre is not None else np.zeros(self.d)
        if project and self.centre is None:
            near = self.matrix.sums / self.n
        columns = steps.shape[1]
        gradient, cross, pull = np.zeros(self.d), np.zeros((self.d, columns)), np.zeros(self.d)
        square = np.zeros((self.d, self.d))
        for rows, part in self._pieces():
            weight = weights[rows]
            if residual is not None:
                gradient += part.T @ residual[rows]
            if columns:
                cross += part.T @ (weight[:, None] * steps[rows])
            if gram:
                away = part - near
                pull += away.T @ weight
                away *= np.sqrt(weight)[:, None]
                square += away.T @ away
        if self.centre is not None:
            gradient -= self.centre * (0.0 if residual is None else residual.sum())
            cross -= np.outer(self.centre, steps.T @ weights)
        if not gram:
            return Sweep(gradient, cross)
        return self._moved(gradient, cross, pull, square, near, float(weights.sum()), project)

    def _moved(
        self, gradient: Vector, cross: Vector, pull: Vector, square: Vector, near: Vector, total: float, project: bool
    ) -> Sweep:
        """The products about the centre that is asked for, from those about one near it."""
        shift = pull / total  # of the weighted mean from `near`
        about = self.centre
        if project:
            square = square - total * np.outer(shift, shift)
            about = near + shift
        if about is not None:
            square = without_constants(square, total * about**2)
        pull = pull if self.centre is not None else pull + total * near
        return Sweep(gradient, cross, pull, square)

    def outer(self) -> Vector:
        """Refused: it has a number for every two rows."""
        raise InputError(
            f"a party has more columns ({self.d}) than rows ({self.n}), for which --memory is not made: "
            "train without --memory"
        )
