"""The data of the sharing paper, cut into the columns of its parties, and the objective that all methods minimise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from tacit.data.datasets import Dataset, load_a9a, load_basehock, load_gisette, load_mnist49
from tacit.data.partition import take_columns
from tacit.errors import InputError
from tacit.types import Matrix, Shard, Vector

A9A_COLUMNS = (66, 57)
GISETTE_COLUMNS = (2000, 2000, 1000)
PROPORTION = (2, 2, 1)  # of the stand-ins' columns, as gisette's
TEST_PART = 0.2  # of a set that has no test part of its own
SPLIT_SEED = 0
_LOADERS: dict[str, Callable[[], Dataset]] = {
    "a9a": load_a9a,
    "gisette": load_gisette,
    "mnist49": load_mnist49,
    "basehock": load_basehock,
}


@dataclass(frozen=True, eq=False)
class Task:
    """Train and test rows by party, labels -1 and +1; no intercept, as in the paper's objective."""

    name: str
    blocks: tuple[Matrix, ...]
    y: Vector
    test_blocks: tuple[Matrix, ...]
    y_test: Vector

    @property
    def columns(self) -> tuple[int, ...]:
        """How many columns each party holds."""
        return tuple(block.shape[1] for block in self.blocks)

    def shards(self) -> list[Shard]:
        """What each party brings to a run."""
        return [
            Shard(f"party {k + 1}", block, tuple(f"x{j}" for j in range(block.shape[1])))
            for k, block in enumerate(self.blocks)
        ]

    def objective(self, coefs: Sequence[Vector], alpha: float) -> float:
        """Mean logistic loss plus alpha/2 ||x||^2."""
        return log_loss(self.blocks, coefs, self.y) + 0.5 * alpha * sum(float(coef @ coef) for coef in coefs)

    def test_loss(self, coefs: Sequence[Vector]) -> float:
        """Mean logistic loss of the test rows."""
        return log_loss(self.test_blocks, coefs, self.y_test)


def log_loss(blocks: Sequence[Matrix], coefs: Sequence[Vector], labels: Vector) -> float:
    """Mean logistic loss of the joint scores."""
    scores = sum((np.asarray(block @ coef) for block, coef in zip(blocks, coefs, strict=True)), np.zeros(labels.size))
    return float(np.logaddexp(0.0, -labels * scores).mean())


def load_task(name: str, rows: int | None = None, sizes: Sequence[int] | None = None) -> Task:
    """Load a data set and deal its columns to the parties in order.

    Parameters
    ----------
    name : {"a9a", "gisette", "mnist49", "basehock"}
    rows : int, optional
        Train on the first ones only, as the quick version does.
    sizes : sequence of int, optional
        Columns of each party, other than the paper's.

    Raises
    ------
    InputError
        Where the data are not at hand; gisette is large, and left out of the quick version.
    """
    if rows and name == "gisette":
        raise InputError("gisette is left to the full version: its files are large")
    data = _loaded(name)
    X_test, y_test = data.X_test, data.y_test
    X, y = data.X_train, data.y_train
    if X_test is None or y_test is None:
        order = np.random.default_rng(SPLIT_SEED).permutation(y.size)
        test, train = np.split(order, [round(TEST_PART * y.size)])
        X, y, X_test, y_test = X[train], y[train], X[test], y[test]
    cuts = sizes or _sizes(name, X.shape[1])
    return Task(name, _dealt(X[:rows], cuts), y[:rows], _dealt(X_test, cuts), y_test)


@cache
def _loaded(name: str) -> Dataset:
    return _LOADERS[name]()


def _sizes(name: str, columns: int) -> tuple[int, ...]:
    """The paper's cut, or one in proportion for a stand-in."""
    if name == "a9a":
        return A9A_COLUMNS
    if name == "gisette":
        return GISETTE_COLUMNS
    first = round(columns * PROPORTION[0] / sum(PROPORTION))
    return first, first, columns - 2 * first


def _dealt(X: Matrix, sizes: Sequence[int]) -> tuple[Matrix, ...]:
    ends = np.cumsum(sizes)
    return tuple(take_columns(X, list(range(end - size, end))) for end, size in zip(ends, sizes, strict=True))
