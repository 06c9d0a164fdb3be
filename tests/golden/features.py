"""Estimators of the feature split, with each solver and each form of privacy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tacit import Privacy, VerticalBoostingClassifier, VerticalClassifier
from tests.golden.fitting import Record, fitted

Data = tuple[Any, np.ndarray]
ROWS, COLUMNS = 60, 7


def table(*, rows: int = ROWS, columns: int = COLUMNS) -> Data:
    """Rows and labels; the same each time."""
    rng = np.random.RandomState(3)
    X = rng.normal(size=(rows, columns)) @ (np.eye(columns) + 0.3 * rng.normal(size=(columns, columns))) / 3
    score = X @ rng.normal(size=columns) + 0.2
    return X, np.where(score + 0.5 * rng.normal(size=rows) > 0, "yes", "no")


def plain(**options: Any) -> Callable[[Path], Record]:
    """A fit without privacy."""
    return partial(_fit, {"parties": [3, 4], "random_state": 0, **options})


def private(*, top: Any = None, **asked: Any) -> Callable[[Path], Record]:
    """A fit with privacy, by a seed."""
    options = {"parties": [2, 3, 2], "random_state": 0, **(top or {})}
    return partial(_fit, {**options, "privacy": Privacy(**{"epsilon": 4.0, **asked, "noise_seed": 5})})


def _fit(options: dict[str, Any], folder: Path) -> Record:
    X, y = table()
    return fitted(VerticalClassifier(**options), X, y, X[:5])


def _trees(folder: Path) -> Record:
    X, y = table()
    return fitted(VerticalBoostingClassifier(parties=[3, 4], max_rounds=3, random_state=0), X, y, X[:5])


CONFIGURATIONS: dict[str, Callable[[Path], Record]] = {
    "features-memory-logistic": plain(alpha=0.01),
    "features-multipliers-hinge": plain(loss="hinge", alpha=0.05, max_rounds=25),
    "features-averaged-l1": plain(method="averaged", penalty="l1", alpha=0.01, max_rounds=20),
    "features-published": plain(method="published", alpha=0.05, rho=1.0, max_rounds=15),
    "features-sgd": plain(method="sgd", alpha=0.01, max_rounds=6),
    "features-trees": _trees,
    "features-gram": private(),
    "features-gram-everyone": private(protect="everyone"),
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
