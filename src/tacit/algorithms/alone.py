"""One party's own fit, and scores of each row by a fit that did not see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tacit.algorithms.base import Algorithm, Problem
from tacit.algorithms.block import Block
from tacit.algorithms.folds import corrected_scores
from tacit.errors import RunError
from tacit.types import Arrays, Vector

MOST_ROUNDS = 300
TOL = 1e-6


@dataclass(frozen=True)
class OwnFit:
    """A linear model of one party's columns: its score of a row is row . coef + intercept."""

    coef: Vector
    intercept: float

    def predict(self, block: Block) -> Vector:
        """Score of each row of a block without a centre."""
        return block.predict(self.coef) + self.intercept


Methods = tuple[Algorithm, ...]


def fit_alone(
    problem: Problem, block: Block, labels: Vector, methods: Methods, weights: Vector | None = None
) -> OwnFit:
    """The model of one party alone, by the first of `methods` that fits the problem."""
    own = replace(problem, parties=1, rows=block.n, tol=TOL, rho=None, row_weights=weights)
    method = next(method for method in methods if not method.refusal(own.loss, own.regularizer))
    centred = Block(block.matrix)
    if own.fit_intercept:
        centred.set_centre(weights)
    shared = method.shared(own) if method.shared else None
    party, coordinator = method.party(own, centred, shared), method.coordinator(own, labels)
    for exchange in range(1, MOST_ROUNDS + 1):
        progress = coordinator.combine(_own_sums(party.step, exchange, coordinator.broadcast()))
        if progress is not None and (progress.done or progress.note):
            break
    party.finish(coordinator.closing())
    if not np.all(np.isfinite(party.coef)):
        raise RunError("the label holder's own fit is not finite: scale its columns to moderate size, or raise alpha")
    offset = 0.0 if centred.centre is None else float(centred.centre @ party.coef)
    return OwnFit(party.coef, float(coordinator.intercept) - offset)


def _own_sums(step: Callable[[int, Arrays], Arrays], exchange: int, message: Arrays) -> Arrays:
    """The sum over a single party is a copy of its answer."""
    return {name: np.array(array) for name, array in step(exchange, message).items()}


def out_of_fold(
    problem: Problem,
    block: Block,
    labels: Vector,
    methods: Methods,
    folds: int,
    weights: Vector | None = None,
    *,
    whole: OwnFit,
) -> Vector:
    """Score of each row by a fit to the other folds (row i is in fold i modulo `folds`); `whole` is the fit to all."""
    own = replace(problem, parties=1, rows=block.n, tol=TOL, row_weights=weights)
    if own.fit_intercept:
        centred = Block(block.matrix)
        centre = centred.set_centre(weights)
        constant = whole.intercept + float(centre @ whole.coef)
        scores = corrected_scores(own, centred, labels, folds, np.append(whole.coef, constant))
        if scores is not None:
            return scores
    if block.n < 2 * folds:
        return whole.predict(block)
    return _fold_by_fold(problem, block, labels, methods, folds, weights)


def _fold_by_fold(
    problem: Problem, block: Block, labels: Vector, methods: Methods, folds: int, weights: Vector | None
) -> Vector:
    """The same by a fit for each fold, which copies the rows of the others."""
    scores, fold = np.empty(block.n), np.arange(block.n) % folds
    for one in range(folds):
        seen, rest = np.flatnonzero(fold != one), np.flatnonzero(fold == one)
        part = None if weights is None else weights[seen]
        fit = fit_alone(problem, block.take(seen), labels[seen], methods, part)
        scores[rest] = fit.predict(block.take(rest))
    return scores
