"""Estimators of the sample split, without privacy and with each mechanism."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tacit import HorizontalClassifier, Privacy
from tests.golden.features import table
from tests.golden.fitting import Record, fitted

ROWS, COLUMNS = 90, 4


def plain(**options: Any) -> Callable[[Path], Record]:
    """A fit without privacy, stopped early."""
    return partial(_fit, {"parties": 4, "alpha": 0.01, "random_state": 1, "max_rounds": 8, **options})


def private(**options: Any) -> Callable[[Path], Record]:
    """A fit with privacy, by a seed."""
    asked = {"epsilon": 4.0, **options.pop("asked", {}), "noise_seed": 7}
    given = {"parties": 3, "graph": "ring", "alpha": 0.05, "random_state": 1, "max_rounds": 5, **options}
    return partial(_fit, {**given, "privacy": Privacy(**asked)})


def _fit(options: dict[str, Any], folder: Path) -> Record:
    X, y = table(rows=ROWS, columns=COLUMNS)
    return fitted(HorizontalClassifier(**options), X, y, X[:5])


CONFIGURATIONS: dict[str, Callable[[Path], Record]] = {
    "samples-ring": plain(graph="ring"),
    "samples-gaussian": private(),
    "samples-dual": private(method="dual"),
    "samples-primal": private(method="primal"),
    "samples-pdml": private(method="pdml", asked={"label_epsilon": 2.0}, max_rounds=4),
}
NOISY = {name for name in CONFIGURATIONS if name.split("-")[1] in {"gaussian", "dual", "primal", "pdml"}}
