"""The label holder's trees on its own columns alone, and scores of each row by trees that did not see it.

Trees are grown in small blocks, in all folds side by side. The number of trees is the one with the least loss of all
rows, each by the trees of the other folds; the trees of the model are then as many, grown on all rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.columns.raw import RawTable
from tacit.errors import RunError
from tacit.solvers.boosting.learner import TreeLearner
from tacit.solvers.boosting.model import TreeModel, packed, unpacked
from tacit.solvers.boosting.settings import TreeSettings
from tacit.types import Arrays, Vector

BLOCK = 10  # trees between two looks at the loss
MOST_TREES = 1000
PATIENCE = 3  # blocks without a new least loss


@dataclass(frozen=True)
class OwnTrees:
    """Trees of one party's columns: their score of a row is what they add to a constant."""

    model: TreeModel
    constant: float

    def predict(self, table: RawTable) -> Vector:
        """Score of each row."""
        return self.model.score(table.values) + self.constant

    def state(self) -> Arrays:
        """As arrays."""
        return {"trees": packed(self.model.text), "constant": np.array([self.constant])}

    @classmethod
    def restored(cls, state: Arrays, features: int) -> OwnTrees:
        """From arrays."""
        return cls(TreeModel.read(unpacked(state["trees"]), features), float(state["constant"][0]))


def trees_alone(
    settings: TreeSettings, table: RawTable, labels: Vector, folds: int, seed: int
) -> tuple[OwnTrees, Vector]:
    """The trees of all rows, and the score of each row by those of the other folds (row i is in fold i modulo folds).

    Parameters
    ----------
    settings : TreeSettings
        With the loss of these labels.
    table : RawTable
    labels : Vector
        Nothing else is known of labels here: where they were randomized, so were those that choose the number of trees.
    folds : int
    seed : int
        Of the sample of rows from which LightGBM takes bins, where there are very many.
    """
    if table.n < 2 * folds:
        own = _grown(settings, table, labels, seed, BLOCK)
        return own, own.predict(table)
    scores, trees = _out_of_fold(settings, table, labels, seed, folds)
    return _grown(settings, table, labels, seed, trees), scores


class _FoldTrees:
    """Trees of the rows outside a fold, and their scores of all rows."""

    def __init__(self, settings: TreeSettings, table: RawTable, labels: Vector, seed: int, held: Vector) -> None:
        self.learner = TreeLearner(table, held, settings, seed, None)
        self.labels = labels[self.learner.fitted]
        self.constant = float(settings.loss.constant(self.labels)[0])
        self.scores = np.full(table.n, self.constant)

    def grow(self, trees: int, step: float) -> None:
        """More trees; `step` 0 keeps their scores alone."""
        self.scores += self.learner.grow(self.scores[self.learner.fitted], self.labels, trees)
        self.learner.settle(step)


def _grown(settings: TreeSettings, table: RawTable, labels: Vector, seed: int, trees: int) -> OwnTrees:
    """So many trees of all rows."""
    whole = _FoldTrees(settings, table, labels, seed, np.zeros(table.n, dtype=np.bool_))
    for _ in range(trees // BLOCK):
        whole.grow(BLOCK, 1.0)
    if not np.isfinite(whole.scores).all():
        raise RunError("the scores of the label holder's own trees are not finite: scale the labels to moderate size")
    return OwnTrees(whole.learner.model, whole.constant)


def _out_of_fold(settings: TreeSettings, table: RawTable, labels: Vector, seed: int, folds: int) -> tuple[Vector, int]:
    """The scores by the number of trees that does best, and that number."""
    fold = np.arange(table.n) % folds
    parts = [_FoldTrees(settings, table, labels, seed, fold == one) for one in range(folds)]

    def joined() -> Vector:
        return np.choose(fold, [part.scores for part in parts])

    best, chosen, waited = joined(), 0, 0
    least = settings.loss.mean(best, labels)
    for trees in range(BLOCK, MOST_TREES + 1, BLOCK):
        for part in parts:
            part.grow(BLOCK, 0.0)
        scores = joined()
        loss = settings.loss.mean(scores, labels)
        if loss < least:
            best, chosen, least, waited = scores, trees, loss, 0
        else:
            waited += 1
        if waited == PATIENCE:
            break
    return best, chosen
