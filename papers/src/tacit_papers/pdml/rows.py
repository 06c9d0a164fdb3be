"""Settings of the paper's experiments, what was chosen where it gives none, and the rows that they are made on.

| symbol | here | meaning |
|---|---|---|
| n, E | NODES, EDGES | servers and links, as printed |
| a, beta, V, t | WEIGHT, PENALTY, FIRST_SD, ROUNDS | not printed: chosen here, not fitted to the printed results |
| rho, R, eps | DECAY, BOUND, EPSILON | decay of the variance, bound of the noise in the objective, label epsilon |

The paper refers to "experiments under the synthetic dataset" for what it does not print; it has none.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.errors import InputError
from tacit.types import Vector
from tacit_papers.public_sets import GENERATED, generate, load_adult, load_raetsch

# --- settings of the paper's experiments, and what was chosen where it gives none --------------------

NODES, EDGES = 10, 13
ADULT_ROWS = 45_000
DELTA = 1e-5

WEIGHT = 1.0  # the plainest number for the weight of a regularizer
PENALTY = 0.1  # as large as a/n, the curvature that the regularizer gives a node
FIRST_SD = 0.1  # then the first noise on 105 coefficients has a norm of about 1, like the rows
ROUNDS = 100
DECAY, BOUND, EPSILON = 0.8, 1.0, 1.0  # printed for Fig. 4(a), 3 and 4(b), and one of the two epsilons of Table I

BOUNDS = (1.0, 3.0, 9.0)  # Fig. 4(a); Table I has 1 and 9
DECAYS = (0.7, 0.8, 0.9, 0.95)  # Fig. 4(b)
EPSILONS = (0.2, 0.4, 0.6, 0.8, 1.0)  # Fig. 4(c)

SETS = ("german", "image", "ringnorm", "banana", "splice", "twonorm", "waveform")  # in the order of Table I
COLUMNS: dict[str, tuple[float | None, float]] = {  # Table I: label epsilon and R of each column
    "none": (None, 0.0),
    "eps=0.4": (0.4, 0.0),
    "eps=1": (1.0, 0.0),
    "eps=0.4,R=1": (0.4, 1.0),
    "eps=0.4,R=9": (0.4, 9.0),
    "eps=1,R=1": (1.0, 1.0),
    "eps=1,R=9": (1.0, 9.0),
}


@dataclass(frozen=True)
class Setup:
    """One setting of pdml.

    Attributes
    ----------
    epsilon : float or None
        Of each label; None: true labels.
    bound : float
        R.
    decay : float or None
        rho; None: models leave without noise.
    first_sd, penalty, weight : float
        V, beta and a.
    rounds : int
    """

    epsilon: float | None = EPSILON
    bound: float = BOUND
    decay: float | None = DECAY
    first_sd: float = FIRST_SD
    penalty: float = PENALTY
    weight: float = WEIGHT
    rounds: int = ROUNDS

    def with_(self, **changes: Any) -> Setup:
        """The same with some changes."""
        return replace(self, **changes)

    def record(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


USUAL = Setup()
LABELS_ONLY = Setup(bound=0.0, decay=None)


def of_column(name: str) -> Setup:
    """The setting of a column of Table I; noise on models goes with noise in the objective."""
    epsilon, bound = COLUMNS[name]
    return Setup(epsilon=epsilon, bound=bound, decay=DECAY if bound else None)


# --- the rows of the experiments: Adult dealt out to ten servers, and the seven benchmarks in readings of the paper --

Array = npt.NDArray[np.float64]
SIZES = {"twonorm": 7400, "ringnorm": 7400, "waveform": 5000}
DRAWN = 20
SHORTENED = "norm at most 1"
CHOSEN = "as in the files"
READINGS = (CHOSEN, SHORTENED, "over the largest norm", "standardised")
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
    if reading == SHORTENED:
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
