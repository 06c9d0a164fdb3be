"""Estimators of the sample split, on several graphs, with each method of privacy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tacit import HorizontalClassifier, HorizontalRegressor, PaperOptions, Privacy
from tests.golden.features import table, thin
from tests.golden.fitting import Record, fitted

C, R = HorizontalClassifier, HorizontalRegressor
ROWS, COLUMNS = 90, 4


def plain(make: Any, kind: str = "classes", **options: Any) -> Callable[[Path], Record]:
    """A fit without privacy, stopped early."""
    return partial(_fit, make, kind, {"parties": 4, "alpha": 0.01, "random_state": 1, "max_rounds": 8, **options})


def private(make: Any = C, kind: str = "classes", **options: Any) -> Callable[[Path], Record]:
    """A fit with privacy, by a seed."""
    asked = {"epsilon": 4.0, **options.pop("asked", {}), "noise_seed": 7}
    given = {"parties": 3, "graph": "ring", "alpha": 0.05, "random_state": 1, "max_rounds": 5, **options}
    return partial(_fit, make, kind, {**given, "privacy": Privacy(**asked)})


def _fit(make: Any, kind: str, options: dict[str, Any], folder: Path) -> Record:
    X, y = table(kind, rows=ROWS, columns=COLUMNS)
    return fitted(make(**options), X, y, X[:5])


def fit_to_the_end(folder: Path) -> Record:
    """Until the nodes agree that it is over."""
    X, y = table(rows=ROWS, columns=COLUMNS)
    return fitted(C(parties=3, graph="complete", alpha=0.05, tol=1e-6, random_state=1), X, y, X[:5])


def fit_by_name(folder: Path) -> Record:
    """Tables by name, rows that weigh differently, and edges by name."""
    X, y = table("numbers", rows=ROWS, columns=COLUMNS)
    cuts = {"north": slice(0, 20), "east": slice(20, 55), "south": slice(55, 90)}
    weights = 1.0 + np.arange(ROWS) % 3
    model = R(alpha=0.02, graph=[("north", "east"), ("east", "south")], max_rounds=6, random_state=0)
    tables, labels = ({name: whole[cut] for name, cut in cuts.items()} for whole in (X, y))
    return fitted(model, tables, labels, X[:5], sample_weight={name: weights[cut] for name, cut in cuts.items()})


def fit_sparse(folder: Path) -> Record:
    """A sparse table."""
    X, y = thin(table(rows=ROWS, columns=COLUMNS))
    return fitted(
        C(parties=3, graph="ring", loss="squared_hinge", alpha=0.05, max_rounds=6, random_state=2), X, y, X[:5]
    )


PAPER = {"fit_intercept": False}
ALPHAS = {"party 1": [0.1, 0.2], "party 2": 0.3, "party 3": [0.4, 0.1]}
CONFIGURATIONS: dict[str, Callable[[Path], Record]] = {
    "samples-ring": plain(C, graph="ring"),
    "samples-random-squared": plain(R, "numbers", graph="random", parties=5, max_rounds=6),
    "samples-grid-huber": plain(R, "numbers", graph="grid", loss="huber", rho=1.5, max_rounds=6),
    "samples-star-poisson": plain(R, "counts", graph="star", loss="poisson", max_rounds=6),
    "samples-complete-to-the-end": fit_to_the_end,
    "samples-by-name": fit_by_name,
    "samples-sparse": fit_sparse,
    "samples-gaussian": private(),
    "samples-gaussian-regression": private(R, "numbers", asked={"label_norm": 2.0, "row_norm": 1.5}),
    "samples-gaussian-by-party": private(asked={"epsilon_by_party": {"party 2": 1.0}}, graph="complete"),
    "samples-gaussian-masked-star": private(graph="star", parties=4, secure_aggregation=True),
    "samples-gaussian-masked-honest": private(
        graph="star", parties=4, secure_aggregation=True, asked={"honest": 2, "accountant": "pld"}
    ),
    "samples-dual": private(method="dual"),
    "samples-dual-options": private(method="dual", options=PaperOptions(alphas=ALPHAS), **PAPER),
    "samples-dual-published": private(
        method="dual", published=True, options=PaperOptions(alphas=[0.2, 0.3, 0.4], loss_weight=1.5), **PAPER
    ),
    "samples-primal": private(method="primal"),
    "samples-primal-options": private(
        method="primal", options=PaperOptions(noise="norm", last_round="primal", rounds=4), **PAPER
    ),
    "samples-primal-published": private(method="primal", published=True, max_rounds=3, **PAPER),
    "samples-pdml": private(method="pdml", asked={"label_epsilon": 2.0}, max_rounds=4),
    "samples-pdml-options": private(
        method="pdml",
        asked={"label_epsilon": 2.0},
        options=PaperOptions(decay=0.8, objective_noise=0.1, rounds=4),
        **PAPER,
    ),
    "samples-pdml-published": private(
        method="pdml",
        published=True,
        asked={"epsilon": 500.0, "label_epsilon": 2.0},
        options=PaperOptions(first_sd=0.5, rounds=3),
        **PAPER,
    ),
}
NOISY = {name for name in CONFIGURATIONS if name.split("-")[1] in {"gaussian", "dual", "primal", "pdml"}}
