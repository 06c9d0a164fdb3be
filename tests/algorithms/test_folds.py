"""Scores by fits that did not see the row: the corrected ones agree with fits fold by fold, and never see the fold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from tacit.blocks.dense import Block
from tacit.problem.losses.modified import modified
from tacit.problem.registry import get_loss, get_regularizer
from tacit.solvers import alone
from tacit.solvers.alone import corrected_scores, fit_alone, out_of_fold
from tacit.solvers.base import Problem
from tacit.solvers.memory import MEMORY
from tacit.solvers.multipliers import MULTIPLIERS
from tacit.solvers.sharing import AVERAGED

METHODS = (MEMORY, MULTIPLIERS, AVERAGED)
FOLDS = 5
ROWS, COLUMNS = 3003, 6  # not a multiple of the folds


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def matrix(rng):
    return rng.normal(size=(ROWS, COLUMNS)) + 3.0


@pytest.fixture
def labels(rng, matrix):
    scores = (matrix - 3.0) @ np.linspace(-1, 1, COLUMNS)
    return np.where(rng.random(ROWS) < 1 / (1 + np.exp(-scores)), 1.0, -1.0)


def problem(loss="logistic", alpha=1e-3, penalty="l2"):
    loss = get_loss(loss) if isinstance(loss, str) else loss
    return Problem(loss, get_regularizer(penalty), alpha, True, 1, ROWS, 1e-4)


def corrected(task, matrix, labels, weights=None):
    """Only the corrections, without anything to fall back on."""
    whole = fit_alone(task, Block(matrix), labels, METHODS, weights)
    block = Block(matrix)
    centre = block.set_centre(weights)
    start = np.append(whole.coef, whole.intercept + centre @ whole.coef)
    return corrected_scores(replace(task, tol=1e-8, row_weights=weights), block, labels, FOLDS, start)


def fitted_fold_by_fold(task, matrix, labels, monkeypatch, weights=None):
    monkeypatch.setattr(alone, "TOL", 1e-10)
    return alone._fold_by_fold(task, Block(matrix), labels, METHODS, FOLDS, weights)


@pytest.mark.parametrize("loss", ["logistic", "squared", "huber", modified(get_loss("logistic"), 1.0)])
@pytest.mark.parametrize("weighted", [False, True])
def test_corrections_reach_the_fits_of_each_fold(loss, weighted, rng, matrix, labels, monkeypatch):
    weights = rng.random(ROWS) if weighted else None
    task = problem(loss, alpha=1e-2)
    found = corrected(task, matrix, labels, weights)
    wanted = fitted_fold_by_fold(task, matrix, labels, monkeypatch, weights)
    np.testing.assert_allclose(found, wanted, atol=1e-3)
    assert np.abs(found - fit_alone(task, Block(matrix), labels, METHODS, weights).predict(Block(matrix))).max() > 5e-3


@pytest.mark.parametrize("form", [lambda m: m.astype(np.float32), sparse.csr_array, np.asfortranarray])
def test_the_form_of_the_rows_does_not_matter(form, matrix, labels):
    given = form(matrix * (matrix > 3))
    same = given.toarray() if sparse.issparse(given) else given.astype(np.float64)
    np.testing.assert_allclose(corrected(problem(), given, labels), corrected(problem(), same, labels), atol=1e-6)


def test_scores_of_a_fold_do_not_depend_on_its_labels(matrix, labels):
    held_out = np.arange(ROWS) % FOLDS == 2
    other = np.where(held_out & (matrix[:, 0] > 3.5), 1.0, labels)
    before, after = corrected(problem(), matrix, labels), corrected(problem(), matrix, other)
    np.testing.assert_allclose(after[held_out], before[held_out], atol=5e-4)
    assert np.abs(after - before)[~held_out].max() > 0.1


def test_what_cannot_be_corrected_is_fitted_fold_by_fold(matrix, labels):
    twice = np.hstack([matrix, matrix])
    for task, rows in ((problem("hinge"), matrix), (problem(penalty="none"), twice)):
        assert task.loss.name == "hinge" or corrected(task, rows, labels) is None
        whole = fit_alone(task, Block(rows), labels, METHODS)
        scores = out_of_fold(task, Block(rows), labels, METHODS, FOLDS, whole=whole)
        wanted = alone._fold_by_fold(task, Block(rows), labels, METHODS, FOLDS, None)
        np.testing.assert_array_equal(scores, wanted)


def test_too_few_rows_for_folds_are_scored_by_the_whole_fit(matrix, labels):
    few, some = matrix[:8], np.where(np.arange(8) % 2, 1.0, -1.0)
    whole = fit_alone(problem(), Block(few), some, METHODS)
    scores = out_of_fold(problem(), Block(few), some, METHODS, FOLDS, whole=whole)
    np.testing.assert_array_equal(scores, whole.predict(Block(few)))
