"""Solving (A + ridge I) x = b for the Gram matrix A of one party, through whichever of D'D and D D' is smaller."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from scipy import linalg

from tacit.algorithms.block import Block, Sweep
from tacit.types import Vector


class CurvatureSolver:
    """D' W D and (D' W D + ridge I)^-1 by one Cholesky factorisation, for a metric W that stays for several rounds.

    W = diag(weights), or with `project` diag(weights) after removing the weighted mean, which is the curvature
    that is left once an intercept has been minimised out. What a sweep found is not computed again.
    """

    def __init__(
        self,
        block: Block,
        weights: Vector,
        ridge: float,
        *,
        project: bool,
        outer: Vector | None = None,
        swept: Sweep | None = None,
    ) -> None:
        self.block, self.weights, self.ridge, self.project = block, weights, ridge, project
        self.is_dual = outer is not None
        self.swept = swept
        if outer is not None:
            self.root = np.sqrt(weights)
            self.gram = self.root[:, None] * self._project_outer(outer) * self.root
        else:
            found = None if swept is None else swept.gram
            self.gram = block.gram(weights, project=project) if found is None else found

    @cached_property
    def mean_weights(self) -> Vector:
        """The weights, summing to 1; made when they are first needed."""
        return np.asarray(self.weights / self.weights.sum())

    @cached_property
    def factor(self) -> tuple[Vector, bool]:
        """Of the smaller Gram matrix plus the ridge; made when it is first needed."""
        return cholesky(self.gram, self.ridge)

    def set_ridge(self, ridge: float) -> None:
        """Take another ridge; the Gram matrix stays."""
        self.ridge = ridge
        self.__dict__.pop("factor", None)

    def _project_outer(self, outer: Vector) -> Vector:
        if not self.project:
            return outer
        row = outer @ self.mean_weights
        return np.asarray(outer - np.add.outer(row, row) + float(row @ self.mean_weights))

    def _predict(self, x: Vector) -> Vector:
        y = self.block.predict(x)
        return y - self.mean_weights @ y if self.project else y

    def _correlate(self, r: Vector) -> Vector:
        return self.block.correlate(r - self.mean_weights * float(r.sum()) if self.project else r)

    def cross(self, step: Vector) -> Vector:
        """D' W step."""
        return self._correlate(self.weights * step)

    def cross_columns(self, steps: Vector) -> Vector:
        """D' W steps, for all columns of a window at once."""
        product = self.block.correlate_columns(self.weights, steps)
        if self.project:
            product -= np.outer(self.block.correlate(self.weights), self.mean_weights @ steps)
        return product

    def projected_cross(self, cross: Vector, steps: Vector) -> Vector:
        """D' W steps from what a sweep found for them."""
        if not self.project:
            return cross
        assert self.swept is not None
        assert self.swept.pull is not None
        return np.asarray(cross - np.outer(self.swept.pull, self.weights @ steps / self.weights.sum()))

    def times(self, x: Vector) -> Vector:
        """D' W D x for one vector or for columns."""
        if not self.is_dual:
            return self.gram @ x
        if x.ndim == 2:
            return _by_column(self.times, x)
        return self._correlate(self.weights * self._predict(x))

    def solve(self, b: Vector) -> Vector:
        """(D' W D + ridge I)^-1 b for one vector or for columns."""
        if not self.is_dual:
            return np.asarray(linalg.cho_solve(self.factor, b, check_finite=False))
        if b.ndim == 2:
            return _by_column(self.solve, b)
        inner = linalg.cho_solve(self.factor, self.root * self._predict(b), check_finite=False)
        return (b - self._correlate(self.root * inner)) / self.ridge


def _by_column(function: Callable[[Vector], Vector], columns: Vector) -> Vector:
    """Apply to each column that is not zero (an unused slot of a window costs nothing)."""
    result = np.zeros_like(columns)
    for j, column in enumerate(columns.T):
        if column.any():
            result[:, j] = function(column)
    return result


def cholesky(gram: Vector, ridge: float) -> tuple[Vector, bool]:
    """Cholesky factor of gram + ridge I, with just enough more ridge where rounding makes it singular."""
    diagonal = np.arange(len(gram))
    jitter = 0.0
    scale = float(np.trace(gram)) / max(len(gram), 1) or 1.0
    for _ in range(40):
        shifted = gram.copy()
        shifted[diagonal, diagonal] += ridge + jitter
        try:
            factor, lower = linalg.cho_factor(shifted, lower=True, overwrite_a=True, check_finite=False)
            return np.asarray(factor), bool(lower)
        except linalg.LinAlgError:
            jitter = max(10 * jitter, 1e-13 * scale)
    return np.full_like(
        gram, np.nan
    ), True  # values beyond all bounds: what is solved with it is refused on its way out


def eigen(matrix: Vector, *, relatively_robust: bool = False) -> tuple[Vector, Vector]:
    """Eigenvalues and eigenvectors of a symmetric matrix; its diagonal and the axes where the library finds none.

    A private round must not stop there: what is made of the values is judged by other means, or private already.
    """
    try:
        values, vectors = linalg.eigh(matrix, check_finite=False) if relatively_robust else np.linalg.eigh(matrix)
    except (linalg.LinAlgError, ValueError):
        return np.array(np.diag(matrix)), np.eye(len(matrix))
    return np.asarray(values), np.asarray(vectors)


def solve_scaled(matrix: Vector, b: Vector, scale: Vector, cutoff: float) -> Vector:
    """Pseudo-inverse solve of a small symmetric system after scaling its diagonal; tiny eigenvalues dropped."""
    unit = 1.0 / np.sqrt(np.where(scale > 0, scale, 1.0))
    values, vectors = linalg.eigh(unit[:, None] * matrix * unit, check_finite=False)
    keep = values > cutoff
    part = vectors[:, keep]
    return np.asarray(unit * (part @ ((part.T @ (unit * b)) / values[keep])))
