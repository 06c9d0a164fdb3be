"""The rows of the experiments: Adult dealt out to ten servers, and the seven benchmarks in readings of the paper."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from tacit.data.adult import load_adult
from tacit.data.raetsch import GENERATED, generate, load_raetsch
from tacit.errors import InputError
from tacit.papers.reproduction.pdml.chosen import NODES
from tacit.types import Vector

Array = npt.NDArray[np.float64]
SIZES = {"twonorm": 7400, "ringnorm": 7400, "waveform": 5000}
DRAWN = 20
CHOSEN = "norm at most 1"
READINGS = (CHOSEN, "over the largest norm", "as in the files", "standardised")
NOT_AT_HAND = "data not at hand"
TRAIN = 0.7


@dataclass(frozen=True, eq=False)
class Split:
    """Rows dealt out to the servers, equally many each, and the rows kept for testing."""

    tables: list[Array]
    labels: list[Vector]
    test: Array
    test_labels: Vector

    @property
    def columns(self) -> int:
        """Of every server."""
        return int(self.test.shape[1])


def shorten(X: Array) -> Array:
    """Every row longer than 1 scaled to norm 1."""
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    return np.asarray(X / np.maximum(lengths, 1.0))


@cache
def adult() -> tuple[Array, Vector]:
    """The 45,222 complete rows in 105 columns, of norm at most 1."""
    found = load_adult()
    keep = found.complete()
    return shorten(found.unary()[keep]), found.y[keep]


def adult_split(rows: int, seed: int) -> Split:
    """`rows` rows drawn without replacement, dealt out to ten servers."""
    X, y = adult()
    order = np.random.default_rng(seed).permutation(len(y))
    return _deal(X, y, order[:rows], order[rows:])


@cache
def benchmark(name: str) -> tuple[Array, Vector, bool]:
    """Distinct rows of a set as in its file, and whether they had to be drawn from its definition instead.

    Raises
    ------
    InputError
        Where the file is not at hand and the set has no definition.
    """
    try:
        found = load_raetsch(name)
    except InputError as error:
        if name not in GENERATED:
            raise InputError(f"{NOT_AT_HAND}: {error}") from error
        X, y = generate(name, SIZES[name], DRAWN)
        return X, y, True
    # the paper counts 2,086 rows of image and 2,991 of splice: those that differ
    if name == "image":
        _, first = np.unique(found.X, axis=0, return_index=True)
    else:
        _, first = np.unique(np.column_stack([found.X, found.y]), axis=0, return_index=True)
    keep = np.sort(first)
    return found.X[keep], found.y[keep], False


def prepare(X: Array, reading: str = CHOSEN, constant: bool = False) -> Array:
    """The rows in one of READINGS; with a column of ones, which is scaled like the others, as an intercept."""
    if reading == "standardised":
        X = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    if constant:
        X = np.column_stack([X, np.ones(len(X))])
    if reading == CHOSEN:
        return shorten(X)
    return X / np.linalg.norm(X, axis=1).max() if reading == "over the largest norm" else X


def one_hot(X: Array) -> Array:
    """A column for each value of each column: for the codes of splice."""
    return np.hstack([(column[:, None] == np.unique(column)).astype(float) for column in X.T])


def benchmark_split(X: Array, y: Vector, seed: int) -> Split:
    """70 : 30 at random; the servers get equally many rows, so that up to nine are left out."""
    order = np.random.default_rng(seed).permutation(len(y))
    count = round(TRAIN * len(y))
    return _deal(X, y, order[:count], order[count:])


def _deal(X: Array, y: Vector, train: npt.NDArray[np.int64], test: npt.NDArray[np.int64]) -> Split:
    parts = np.split(train[: len(train) // NODES * NODES], NODES)
    return Split([X[part] for part in parts], [y[part] for part in parts], X[test], y[test])
