"""One party's own fit, and scores of each row by a fit that did not see it.

Such scores come from the fit that saw all rows, by a few corrections: no row is copied. Leaving a fold out moves a
smooth fit little. So its optimum is found from the full one by Newton's steps with one Hessian (at the full fit,
without the fold), for all folds at once: a few passes over the rows instead of many fits.

| symbol | meaning |
|---|---|
| k | a fold: the rows k, k + folds, k + 2 folds, ... |
| s | row weights |
| x | coefficients of centred rows and, last, the constant; one column for each fold that is left out |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from tacit.blocks import coef_of_classes
from tacit.blocks.curves import CurveBlock, TableBlock
from tacit.blocks.dense import Block
from tacit.columns.compact import CurveMatrix
from tacit.columns.curves import bends_of
from tacit.errors import RunError
from tacit.solvers.base import Problem, Solver
from tacit.types import Arrays, Matrix, Vector

# --- Scores of each row by a fit that did not see it, from the fit that saw all: a few corrections, no rows copied


MOST_STEPS = 12
MOST_COLUMNS = 1000  # beyond it, a Hessian for each fold costs more than it saves


def corrected_scores(problem: Problem, block: Block, labels: Vector, folds: int, start: Vector) -> Vector | None:
    """Out-of-fold scores; None where the corrections do not apply, or do not come to the optimum.

    Parameters
    ----------
    problem : Problem
        With the row weights, and the relative gap to the optimum that is wanted as `tol`.
    block : Block
        All rows, centred.
    start : Vector
        The fit to all rows: coefficients of centred rows and, last, the constant.
    """
    loss, smooth = problem.loss, problem.loss.smooth and problem.loss.convex
    if not smooth or problem.regularizer.form != "quadratic" or block.d > MOST_COLUMNS or block.n < 2 * folds:
        return None
    if loss.outputs > 1:
        return None
    parts = [_LeftOut(problem, block, labels, slice(k, None, folds)) for k in range(folds)]
    unit = abs(loss.total(block.predict(start[:-1]) + start[-1], labels, problem.row_weights)) / problem.total
    try:
        x = _without_each(problem, parts, start, problem.tol * unit)
    except LinAlgError:  # columns that depend on each other, without a penalty
        return None
    if x is None:
        return None
    scores = np.empty(block.n)
    for k, part in enumerate(parts):
        scores[k::folds] = part.scores(x[:, k : k + 1])[0]
    return scores


def _without_each(problem: Problem, parts: list[_LeftOut], start: Vector, gap: float) -> Vector | None:
    """The optimum without each fold, to within this gap; None where the steps do not shrink."""
    pull = np.append(np.full(start.size - 1, problem.alpha * problem.regularizer.l2), 0.0)
    slopes, hessians = zip(*(part.expanded(start) for part in parts), strict=True)
    sizes = sum(part.total for part in parts) - np.array([part.total for part in parts])
    factors = [
        cho_factor((sum(hessians) - own) / size + np.diag(pull)) for own, size in zip(hessians, sizes, strict=True)
    ]
    x: Vector = np.repeat(start[:, None], len(parts), axis=1)
    before = np.inf
    gradient = sum(slopes)[:, None] - np.column_stack(slopes)
    for _ in range(MOST_STEPS):
        gradient = gradient / sizes + pull[:, None] * x
        step = np.column_stack([cho_solve(factor, g) for factor, g in zip(factors, gradient.T, strict=True)])
        x = x - step
        left = float(0.5 * np.max(np.sum(gradient * step, axis=0)))
        if left <= gap:
            return x
        if not left < before:
            return None
        before = left
        gradient = sum(part.gradient(x, but=k) for k, part in enumerate(parts))
    return None


class _LeftOut:
    """The rows of one fold: a view where they are dense."""

    def __init__(self, problem: Problem, block: Block, labels: Vector, rows: slice) -> None:
        self.loss, self.block, self.labels = problem.loss, block.take(rows), np.ascontiguousarray(labels[rows])
        self.weights = None if problem.row_weights is None else problem.row_weights[rows]
        self.total = float(self.labels.size if self.weights is None else self.weights.sum())

    def scores(self, x: Vector) -> Vector:
        """Scores of the rows, one line for each column of x."""
        return np.ascontiguousarray((self.block.predict(x[:-1]) + x[-1]).T)

    def expanded(self, x: Vector) -> tuple[Vector, Vector]:
        """Gradient and Hessian: sums of s l' (row, 1) and of s l'' (row, 1)(row, 1)'."""
        slopes, curvature = (self._weighted(one) for one in self.loss.slopes(self.scores(x[:, None])[0], self.labels))
        cross = self.block.correlate(curvature)
        hessian = np.block([[self.block.gram(curvature), cross[:, None]], [cross, curvature.sum()]])
        return np.append(self.block.correlate(slopes), slopes.sum()), hessian

    def gradient(self, x: Vector, but: int) -> Vector:
        """Sum of s l' (row, 1) for each column of x; 0 for the one that must not see these rows."""
        scores = self.scores(x)
        slopes = np.zeros_like(scores)
        for k in range(len(scores)):
            if k != but:
                slopes[k] = self._weighted(self.loss.grad(scores[k], self.labels))
        return np.vstack([self.block.correlate(slopes.T), slopes.sum(axis=1)])

    def _weighted(self, values: Vector) -> Vector:
        return values if self.weights is None else self.weights * values


# --- One party's own fit, and scores of each row by a fit that did not see it


MOST_ROUNDS = 300
TOL = 1e-6


@dataclass(frozen=True)
class OwnFit:
    """A linear model of one party's columns: its score of a row is row . coef + intercept.

    Of more than two classes `coef` has a row for each, and `intercept` a number, as have the scores of a row.
    """

    coef: Vector
    intercept: Any

    def predict(self, block: Block) -> Vector:
        """Score of each row of a block without a centre."""
        if self.coef.ndim == 1:
            return np.asarray(block.predict(self.coef) + self.intercept)
        return np.asarray(np.column_stack([block.predict(own) for own in self.coef]) + self.intercept)


Solvers = tuple[Solver, ...]


def fit_alone(
    problem: Problem, block: Block, labels: Vector, solvers: Solvers, weights: Vector | None = None
) -> OwnFit:
    """The model of one party alone, by the first of `solvers` that fits the problem."""
    own = replace(problem, parties=1, rows=block.n, tol=TOL, rho=None, row_weights=weights)
    solver = next(solver for solver in solvers if not solver.refusal(own.loss, own.regularizer))
    centred = block.without_centre()
    if own.fit_intercept:
        centred.set_centre(weights)
    shared = solver.shared(own) if solver.shared else None
    party, coordinator = solver.party(own, centred, shared), solver.coordinator(own, labels)
    for exchange in range(1, MOST_ROUNDS + 1):
        progress = coordinator.combine(_own_sums(party.step, exchange, coordinator.broadcast()))
        if progress is not None and (progress.done or progress.note):
            break
    party.finish(coordinator.closing())
    if not np.isfinite(party.coef).all():
        raise RunError("the label holder's own fit is not finite: scale its columns to moderate size, or raise alpha")
    coef = coef_of_classes(party.coef, own.loss.outputs)
    offset = 0.0 if centred.centre is None else coef @ centred.centre
    constant = coordinator.intercept - offset
    return OwnFit(coef, constant if own.loss.outputs > 1 else float(constant))


def _own_sums(step: Callable[[int, Arrays], Arrays], exchange: int, message: Arrays) -> Arrays:
    """The sum over a single party is a copy of its answer."""
    return {name: np.array(array) for name, array in step(exchange, message).items()}


def out_of_fold(
    problem: Problem,
    block: Block,
    labels: Vector,
    solvers: Solvers,
    folds: int,
    weights: Vector | None = None,
    *,
    whole: OwnFit,
) -> Vector:
    """Score of each row by a fit to the other folds (row i is in fold i modulo `folds`); `whole` is the fit to all."""
    own = replace(problem, parties=1, rows=block.n, tol=TOL, row_weights=weights)
    if own.fit_intercept:
        centred = block.without_centre()
        centre = centred.set_centre(weights)
        start = np.append(whole.coef, whole.intercept + whole.coef @ centre)
        scores = corrected_scores(own, centred, labels, folds, start)
        if scores is not None:
            return scores
    if block.n < 2 * folds:
        return whole.predict(block)
    return _fold_by_fold(problem, block, labels, solvers, folds, weights)


def _fold_by_fold(
    problem: Problem, block: Block, labels: Vector, solvers: Solvers, folds: int, weights: Vector | None
) -> Vector:
    """The same by a fit for each fold, which copies the rows of the others."""
    scores, fold = np.empty((block.n, problem.loss.outputs)), np.arange(block.n) % folds
    for one in range(folds):
        seen, rest = np.flatnonzero(fold != one), np.flatnonzero(fold == one)
        part = None if weights is None else weights[seen]
        fit = fit_alone(problem, block.take(seen), labels[seen], solvers, part)
        scores[rest] = fit.predict(block.take(rest)).reshape(rest.size, -1)
    return scores if problem.loss.outputs > 1 else scores[:, 0]


# --- Curves as stiff as does best on rows left out


BENT = (1.0, 0.3, 0.1, 0.03)  # what bends, in units of the code: all of it, and less and less
MOST_TURNED = 2 * 10**7  # numbers of a matrix that is copied for it


def fit_and_scores(
    problem: Problem, block: Block, labels: Vector, solvers: Solvers, folds: int, weights: Vector | None = None
) -> tuple[OwnFit, Vector]:
    """The own fit, and its out-of-fold scores; curves are stiffer than their code where these scores do clearly better.

    Scaling what bends down makes the same penalty stiffer for it, and leaves lines as they are.
    """
    found: list[tuple[OwnFit, Vector]] = []
    for to in _stiffened(block):
        part = block if to is None else _times(block, to)
        whole = fit_alone(problem, part, labels, solvers, weights)
        scores = out_of_fold(problem, part, labels, solvers, folds, weights, whole=whole)
        whole = whole if to is None else OwnFit((to @ whole.coef.T).T, whole.intercept)
        found.append((whole, scores))
    losses = [problem.loss.value(scores, labels) for _, scores in found]
    return found[clearly_best(losses, weights)]


def clearly_best(losses: Sequence[Vector], weights: Vector | None = None) -> int:
    """Which of several losses of the same rows is least; the first, unless one is lower by more than a standard error.

    The standard error is that of the mean difference from the first, row by row.
    """
    own = np.ones(losses[0].size) if weights is None else weights
    best = min(range(len(losses)), key=lambda one: float(own @ losses[one]))
    change = losses[best] - losses[0]
    mean = float(own @ change) / float(own.sum())
    error = math.sqrt(float(np.square(own) @ np.square(change - mean))) / float(own.sum())
    return best if mean < -error else 0


def _stiffened(block: Block) -> list[Matrix | None]:
    """What the columns are multiplied by, for each way to be stiff; None leaves them as they are."""
    waves = any(pairs for *_, pairs in block.curves)
    copied = type(block) is Block or isinstance(block, CurveBlock)
    if not block.curves or not copied or (waves and block.n * block.d > MOST_TURNED):
        return [None]
    bends = bends_of(block.curves, block.d)
    scales = [bends.scales(1.0, bend, 0.0) for bend in BENT[1:]]
    return [None, *(bends.turn * scale if waves else sparse.diags_array(scale).tocsr() for scale in scales)]


def _times(block: Block, to: Matrix) -> Block:
    """The block of the rows times a matrix: dense, or a diagonal one."""
    rows = block.matrix
    if isinstance(rows, CurveMatrix):
        tabled = rows.is_tabled and sparse.issparse(to)
        return TableBlock(rows.with_heights(to.diagonal())) if tabled else Block(rows.toarray() @ to)
    product = rows @ to
    return Block(product if sparse.issparse(rows) and sparse.issparse(product) else np.asarray(product))
