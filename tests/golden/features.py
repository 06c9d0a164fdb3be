"""Estimators of the feature split, with each solver and each form of privacy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from tacit import Privacy, VerticalClassifier, VerticalClassifierCV, VerticalRegressor, VerticalRegressorCV
from tests.golden.fitting import Record, fitted, refitted

Data = tuple[Any, np.ndarray]
ROWS, COLUMNS = 60, 7
C, R = VerticalClassifier, VerticalRegressor


def table(kind: str = "classes", *, rows: int = ROWS, columns: int = COLUMNS) -> Data:
    """Rows and labels of a kind; the same each time."""
    rng = np.random.RandomState(3)
    X = rng.normal(size=(rows, columns)) @ (np.eye(columns) + 0.3 * rng.normal(size=(columns, columns))) / 3
    score = X @ rng.normal(size=columns) + 0.2
    noise = 0.5 * rng.normal(size=rows)
    if kind == "classes":
        return X, np.where(score + noise > 0, "yes", "no")
    return X, rng.poisson(np.exp(np.clip(score, -2, 2))).astype(float) if kind == "counts" else score + noise


def thin(data: Data) -> Data:
    """The same with most entries zero, as a sparse matrix."""
    return sparse.csr_matrix(np.where(np.abs(data[0]) > 0.4, data[0], 0.0)), data[1]


def plain(make: Any, kind: str = "classes", **options: Any) -> Callable[[Path], Record]:
    """A fit without privacy."""
    return partial(_fit, make, kind, {"parties": [3, 4], "random_state": 0, **options})


def private(make: Any = C, kind: str = "classes", *, top: Any = None, **asked: Any) -> Callable[[Path], Record]:
    """A fit with privacy, by a seed."""
    options = {"parties": [2, 3, 2], "random_state": 0, **(top or {})}
    return partial(_fit, make, kind, {**options, "privacy": Privacy(**{"epsilon": 4.0, **asked, "noise_seed": 5})})


def _fit(make: Any, kind: str, options: dict[str, Any], folder: Path) -> Record:
    X, y = table(kind)
    return fitted(make(**options), X, y, X[:5])


def fit_sparse(folder: Path) -> Record:
    """A sparse table, by the method that takes every penalty."""
    X, y = thin(table("numbers"))
    return fitted(R(penalty="elastic_net", alpha=0.01, parties=[3, 4], max_rounds=25), X, y, X[:5])


def fit_float32(folder: Path) -> Record:
    """A table in single precision."""
    X, y = table()
    X = X.astype(np.float32)
    return fitted(C(loss="squared_hinge", alpha=0.01, parties=3), X, y, X[:5])


def fit_weighted(folder: Path) -> Record:
    """Rows that weigh differently, some nothing, in tables by name."""
    X, y = table("numbers")
    blocks, weights = {"bank": X[:, :3], "shop": X[:, 3:]}, np.arange(ROWS) % 4.0
    new = {"bank": X[:5, :3], "shop": X[:5, 3:]}
    return fitted(R(loss="huber", alpha=0.01), blocks, y, new, sample_weight=weights)


def fit_again(folder: Path) -> Record:
    """A warm start on other labels."""
    X, y = table()
    model = C(alpha=0.01, parties=[3, 4], warm_start=True)
    first = fitted(model, X, y, X[:5])
    return {"first": first, "again": refitted(model, X, np.roll(y, 3), X[:5], alpha=0.02)}


def fit_cv(folder: Path) -> Record:
    """Alpha by cross-validation, both kinds of estimator."""
    X, y = table()
    numbers = table("numbers")[1]
    classes = fitted(VerticalClassifierCV(alphas=[0.1, 0.01], cv=2, random_state=0, parties=[3, 4]), X, y, X[:5])
    one = VerticalRegressorCV(
        loss="squared", alphas=2, cv=2, rule="one-standard-error", random_state=0, parties=[3, 4], tol=1e-2
    )
    return {"classes": classes, "numbers": fitted(one, X, numbers, X[:5])}


MASKS = {"secure_aggregation": True, "parties": [2, 2, 3]}
CONFIGURATIONS: dict[str, Callable[[Path], Record]] = {
    "features-memory-logistic": plain(C, alpha=0.01),
    "features-memory-squared-no-penalty": plain(R, "numbers", penalty="none", fit_intercept=False),
    "features-memory-poisson": plain(R, "counts", loss="poisson", alpha=0.01),
    "features-memory-masks": plain(C, alpha=0.01, **MASKS),
    "features-multipliers-hinge": plain(C, loss="hinge", alpha=0.05, max_rounds=25),
    "features-multipliers-absolute-l1": plain(R, "numbers", loss="absolute", penalty="l1", alpha=0.02, max_rounds=20),
    "features-multipliers-masks": plain(C, loss="hinge", alpha=0.05, max_rounds=8, **MASKS),
    "features-averaged-l1": plain(C, method="averaged", penalty="l1", alpha=0.01, max_rounds=20),
    "features-averaged-box": plain(R, "numbers", method="averaged", penalty="box", max_rounds=12),
    "features-averaged-nonnegative": plain(C, method="averaged", penalty="nonnegative", rho=0.5, max_rounds=12),
    "features-averaged-ball-masks": plain(R, "numbers", penalty="ball", max_rounds=10, **MASKS),
    "features-averaged-sigmoid": plain(C, loss="sigmoid", alpha=0.01, max_rounds=15),
    "features-published": plain(C, method="published", alpha=0.05, rho=1.0, max_rounds=15),
    "features-sgd": plain(C, method="sgd", alpha=0.01, max_rounds=6),
    "features-sparse": fit_sparse,
    "features-float32": fit_float32,
    "features-weighted": fit_weighted,
    "features-warm-start": fit_again,
    "features-cv": fit_cv,
    "features-gram": private(),
    "features-gram-regression-pld": private(R, "numbers", accountant="pld", row_norm=2.0, neighbours="zero-out"),
    "features-gram-labels": private(label_epsilon=2.0, row_norm={"party 1": 1.0, "party 2": 2.0, "party 3": 0.5}),
    "features-gram-refit": private(refit=True),
    "features-gram-person": private(unit="person"),
    "features-gram-everyone": private(protect="everyone"),
    "features-gram-everyone-label-holder": private(protect="everyone", predictions="label-holder"),
    "features-gram-label-holder": private(label_epsilon=2.0, predictions="label-holder"),
    "features-shares": private(mechanism="shares", epsilon=8.0),
    "features-shares-masks": private(mechanism="shares", epsilon=8.0, honest=2, top={"secure_aggregation": True}),
    "features-labels": private(epsilon=None, label_epsilon=2.0),
    "features-published-noise": private(mechanism="published", epsilon=8.0, top={"max_rounds": 8}),
    "features-published-inverse": private(mechanism="published-inverse", epsilon=8.0, top={"max_rounds": 8}),
}
NOISY = {
    name
    for name in CONFIGURATIONS
    if name.startswith(("features-gram", "features-shares", "features-labels", "features-published-"))
}
