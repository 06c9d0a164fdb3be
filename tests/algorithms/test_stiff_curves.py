"""The label holder's own curves: as stiff as does clearly better on rows left out, in every form of its rows."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.blocks import block_of
from tacit.blocks.dense import Block
from tacit.columns.compact import CurveMatrix, spline_cells
from tacit.columns.curves import FourierColumn, bends_of, fit_spline
from tacit.problem.registry import get_loss, get_regularizer
from tacit.solvers.alone import clearly_best, fit_alone, fit_and_scores
from tacit.solvers.base import Problem
from tacit.solvers.memory import MEMORY
from tacit.types import Curves, Shard, Vector

ROWS, FOLDS, SOLVERS = 2000, 5, (MEMORY,)
SPACE = np.linspace(0.0, 1.0, 301)
TASK = Problem(get_loss("logistic"), get_regularizer("l2"), 1e-4, True, 1, ROWS, 1e-4)


@pytest.mark.parametrize("pairs", [1, 2, 5, 8])
def test_the_first_direction_of_a_curve_is_nearly_a_line(pairs: int) -> None:
    bends = bends_of(((1, 2 * pairs, pairs),), 2 * pairs + 2)
    assert np.allclose(bends.turn.T @ bends.turn, np.eye(2 * pairs + 2), atol=1e-12)
    drawn = FourierColumn("x", 0.0, 1.0, pairs).encode(SPACE) @ bends.turn[1:-1, 1]
    off = drawn - np.polyval(np.polyfit(SPACE, drawn, 1), SPACE)
    assert np.std(off) < (0.2 if pairs == 1 else 0.05) * np.std(drawn)
    assert np.sign(drawn[-1] - drawn[0]) == 1
    assert bends.frequency.tolist() == [-1, 0, *np.repeat(np.arange(1, pairs + 1), 2)[1:], -1]
    assert bends.scales(2.0, 1.0, 1.0)[[0, 1, 2, -1]].tolist() == [1.0, 2.0, 1.0, 1.0]


def coded(kind: str, cells: Vector) -> tuple[Block, Curves]:
    """Two columns of numbers as waves, as tents written out, or as tents by their cells."""
    if kind == "waves":
        columns = [FourierColumn("x", 0.0, 1.0, 6) for _ in cells.T]
        curves = tuple((12 * j, 12, 6) for j in range(cells.shape[1]))
        return Block(np.hstack([c.encode(x) for c, x in zip(columns, cells.T, strict=True)])), curves
    tents = [fit_spline("x", x, (x.mean(), x.std()), 0.01 * ROWS**0.5) for x in cells.T]
    width = [len(column.names) for column in tents]
    curves = tuple((sum(width[:j]), width[j], 0) for j in range(len(width)))
    matrix = CurveMatrix(tuple(spline_cells(c, x) for c, x in zip(tents, cells.T, strict=True)))
    return block_of(Shard("a", matrix if kind == "cells" else matrix.toarray(), (), curves)), curves


@pytest.mark.parametrize("kind", ["waves", "tents", "cells"])
@pytest.mark.parametrize("bent", [False, True])
def test_straight_effects_get_stiff_curves_and_bent_ones_keep_theirs(kind: str, bent: bool) -> None:
    rng = np.random.default_rng(5)
    cells = rng.uniform(size=(ROWS, 2))
    truth = 3 * (np.cos(7 * cells[:, 0]) + np.sin(9 * cells[:, 1])) if bent else 4 * (cells[:, 0] - cells[:, 1])
    labels = np.where(rng.random(ROWS) < 1 / (1 + np.exp(-truth)), 1.0, -1.0)
    block, curves = coded(kind, cells)
    block.curves = curves
    own, scores = fit_and_scores(TASK, block, labels, SOLVERS, FOLDS)
    plain = fit_alone(TASK, block, labels, SOLVERS)
    far = np.sqrt(np.mean((own.predict(block) - truth) ** 2))
    if bent:
        assert np.allclose(own.coef, plain.coef)
    else:
        assert far < 0.8 * np.sqrt(np.mean((plain.predict(block) - truth) ** 2))
    assert np.corrcoef(scores, own.predict(block))[0, 1] > 0.99


def test_tents_by_their_cells_give_the_fit_of_those_written_out() -> None:
    rng = np.random.default_rng(6)
    cells = rng.normal(size=(ROWS, 2))
    labels = np.where(rng.random(ROWS) < 1 / (1 + np.exp(-cells.sum(axis=1))), 1.0, -1.0)
    found = [fit_and_scores(TASK, coded(kind, cells)[0], labels, SOLVERS, FOLDS) for kind in ("tents", "cells")]
    assert np.allclose(found[0][1], found[1][1], atol=1e-3)
    assert np.allclose(found[0][0].coef, found[1][0].coef, atol=1e-3)


def test_the_first_stays_unless_another_is_better_by_more_than_a_standard_error() -> None:
    rng = np.random.default_rng(0)
    first, noise = rng.random(1000), rng.normal(size=1000)
    noise -= noise.mean()
    error = np.sqrt(noise @ noise) / 1000
    assert clearly_best([first, first + noise - 0.9 * error]) == 0
    assert clearly_best([first, first + noise - 1.1 * error]) == 1
    assert clearly_best([first, first + noise + 1.1 * error]) == 0
    weights = np.where(np.arange(1000) < 500, 1.0, 0.0)  # rows that do not count
    assert clearly_best([first, np.where(weights > 0, first + 1, first - 9)], weights) == 0
