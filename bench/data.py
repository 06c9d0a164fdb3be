"""The data of the benches: public sets where they are at hand, generated ones of the same shape elsewhere."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from bench.row import Row
from tacit.data.datasets import Dataset, load_a9a, load_basehock, load_mnist49
from tacit.errors import InputError
from tacit.types import Matrix, Vector

ALPHA = 1e-4
CHUNK = 50_000


@dataclass(frozen=True, eq=False)
class Task:
    """A data set with the objective mean logistic loss + ALPHA/2 ||x||^2, no intercept."""

    name: str
    X: Matrix
    y: Vector
    X_test: Matrix
    y_test: Vector
    missing: str = ""  # why the real data are not at hand; empty where they are

    @property
    def is_real(self) -> bool:
        """False where the data are generated."""
        return not self.missing

    def remark(self) -> list[Row]:
        """A row that says what was skipped, where the real data are not at hand."""
        if self.is_real:
            return []
        text = f"skipped ({self.missing}); generated data of the same shape instead, not held to targets"
        return [Row(f"{self.name} itself", text)]

    def objective(self, coef: Vector) -> float:
        """Value of the objective."""
        return float(np.logaddexp(0.0, -self.y * (self.X @ coef)).mean() + 0.5 * ALPHA * coef @ coef)

    def optimum(self) -> float:
        """Objective of scikit-learn's most exact solution."""
        return _optimum(self)

    def gap(self, coef: Vector) -> float:
        """Relative distance to the optimum."""
        return self.objective(coef) / self.optimum() - 1.0


@cache
def _optimum(task: Task) -> float:
    solver = "newton-cholesky" if task.X.shape[1] <= 1000 else "newton-cg"
    return task.objective(sklearn_fit(task, solver, tol=1e-10).coef_[0])


def sklearn_fit(task: Task, solver: str, tol: float) -> Any:
    """Fit scikit-learn's logistic regression to the same objective."""
    C = 1.0 / (ALPHA * len(task.y))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a solver that cannot reach the last digits says so
        model = LogisticRegression(C=C, solver=solver, tol=tol, fit_intercept=False, max_iter=1000)
        return model.fit(task.X, task.y)


@cache
def a9a() -> Task:
    """Census income: 32561 x 123, binary and sparse."""
    return _task("a9a", load_a9a, generated_a9a)


@cache
def generated_a9a() -> Dataset:
    """Generated rows with the sizes of a9a; nothing of a9a itself is in them."""
    return _like_a9a(32561, 16281)


@cache
def mnist49() -> Task:
    """Digits 4 and 9: 11791 x 784, dense."""
    return _task("mnist49", load_mnist49, lambda: _like_mnist49(11791, 1991))


@cache
def basehock() -> Task:
    """Two newsgroups: 1993 x 4862, sparse, more columns than rows."""
    return _task("basehock", load_basehock, lambda: _like_basehock(1993))


def _task(name: str, load: Callable[[], Dataset], generate: Callable[[], Dataset]) -> Task:
    try:
        data, missing = load(), ""
    except InputError as error:
        data, missing = generate(), _first_clause(str(error))
    X, X_test = _narrow(data.X_train), _narrow(data.X_test)
    return Task(name, X, data.y_train, X_test, data.y_test, missing)


def _first_clause(message: str) -> str:
    return message.split(": ")[0]


def _narrow(X: Matrix) -> Matrix:
    """32-bit indices, which scikit-learn asks for."""
    if sparse.issparse(X):
        X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return X


def _like_a9a(rows: int, test_rows: int) -> Dataset:
    """One-hot groups of columns, one entry of each group per row."""
    rng = np.random.default_rng(0)
    groups = np.array_split(np.arange(123), 14)
    columns = np.column_stack([_skewed(rng, group, rows + test_rows) for group in groups])
    indptr = np.arange(0, columns.size + 1, len(groups))
    X = sparse.csr_array((np.ones(columns.size), columns.ravel(), indptr), shape=(rows + test_rows, 123))
    return _with_labels(rng, X, rows, scale=1.0)


def _skewed(rng: np.random.Generator, group: npt.NDArray[np.int_], rows: int) -> npt.NDArray[np.int_]:
    share = 0.6 ** np.arange(len(group))
    return rng.choice(group, size=rows, p=share / share.sum())


def _like_mnist49(rows: int, test_rows: int) -> Dataset:
    """Pixels from 0 to 1 that a few dozen smooth factors explain."""
    rng = np.random.default_rng(1)
    factors = rng.normal(size=(rows + test_rows, 40)) @ rng.normal(size=(40, 784)) / 6
    X = np.clip(factors + 0.1 * rng.normal(size=factors.shape), 0.0, 1.0)
    return _with_labels(rng, X, rows, scale=1.0)


def _like_basehock(rows: int) -> Dataset:
    """Logarithms of counts, 65 words per row."""
    rng = np.random.default_rng(2)
    X = sparse.random_array((rows, 4862), density=65 / 4862, format="csr", random_state=rng)
    X.data = np.log1p(rng.geometric(0.6, size=X.data.size))
    return _with_labels(rng, X, rows, scale=1.0)


def _with_labels(rng: np.random.Generator, X: Matrix, rows: int, scale: float) -> Dataset:
    """Labels of a logistic model; the rows after the first `rows` are the test part."""
    scores = X @ (scale * rng.normal(size=X.shape[1]))
    y = _draw_labels(rng, scores - np.median(scores))
    return Dataset(X[:rows], y[:rows], X[rows:], y[rows:])


def _draw_labels(rng: np.random.Generator, scores: Vector) -> Vector:
    return np.where(rng.random(scores.size) < expit(scores), 1.0, -1.0)


def dense_blocks(rows: int, parties: int = 2, columns: int = 50) -> tuple[list[Vector], Vector]:
    """Correlated normal features, one array per party, made in chunks of rows; labels of a logistic model."""
    rng = np.random.default_rng(0)
    blocks = [np.empty((rows, columns)) for _ in range(parties)]
    coef = rng.normal(size=(parties, columns)) / 5
    scores = np.zeros(rows)
    for start in range(0, rows, CHUNK):
        part = slice(start, min(start + CHUNK, rows))
        common = 0.7 * rng.standard_normal((part.stop - start, 1))
        for block, own in zip(blocks, coef, strict=True):
            rng.standard_normal(out=block[part])
            block[part] += common
            scores[part] += block[part] @ own
    return blocks, _draw_labels(rng, scores)
