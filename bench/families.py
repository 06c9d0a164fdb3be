"""Private classes and counts on real sets: the joint private model, beside all data in one place and one party alone.

Nothing is chosen by looking at test rows: alpha is the same number everywhere, and row_norm follows from the ranges of
the columns alone: a number counts with half its largest size, a category with 1.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.metrics import accuracy_score, log_loss, mean_poisson_deviance

from bench.progress import say
from bench.row import Row
from tacit import HorizontalClassifier, HorizontalRegressor, Privacy, VerticalClassifier, VerticalRegressor
from tacit.data.datasets import load_bike
from tacit.errors import InputError
from tacit.types import Matrix, Vector

TITLE = "Private classes and counts: joint, in one place without privacy, and one party alone"
EPSILONS = (1.0, 4.0)
SEEDS, QUICK_SEEDS = 5, 1
TEST_SHARE = 0.3
NODES = 4
ALPHA = 1e-3
MOST_COUNT = 1000.0  # public: what the station network can count in an hour


@dataclass(frozen=True, eq=False)
class FamilySet:
    """A set cut between the label holder and another party.

    Attributes
    ----------
    name, loss : str
    X, y : array
    own : int
        Columns of the label holder, the first ones.
    norms : pair of float
        Public norm of the other party's rows, and of whole rows.
    alpha : float
    """

    name: str
    loss: str
    X: Matrix
    y: Vector
    own: int
    norms: tuple[float, float]
    alpha: float = ALPHA

    def measure(self, model: Any, X: Matrix, y: Vector) -> tuple[float, float]:
        """Loss on rows, and the share of right classes (of counts nothing)."""
        if self.loss == "poisson":
            return float(mean_poisson_deviance(y, np.maximum(model.predict(X), 1e-300))), math.nan
        return float(log_loss(y, model.predict_proba(X), labels=model.classes_)), accuracy_score(y, model.predict(X))


def half_norm(numbers: int, categories: int = 0) -> float:
    """Norm of a row whose numbers, at most 1 in size, are 1/2, beside so many columns of categories."""
    return math.sqrt(numbers / 4 + categories)


def digits() -> FamilySet:
    """Ten digits: the label holder has the upper half of each picture."""
    X, y = load_digits(return_X_y=True)
    return FamilySet("digits, 10 classes", "logistic", X / 16, y, 32, (half_norm(32), half_norm(64)))


def vehicle() -> FamilySet | None:
    """Four kinds of vehicles, cut by FATE, columns from -1 to 1; None where the files are not at hand."""
    folder = Path(os.environ.get("TACIT_DATA") or ".")
    files = [folder / f"vehicle_scale_hetero_{side}.csv.gz" for side in ("guest", "host")]
    if not all(file.exists() for file in files):
        return None
    guest, host = (pd.read_csv(file, index_col="id") for file in files)
    y = guest.pop("y").to_numpy()
    X = guest.join(host, rsuffix="_host").to_numpy(dtype=float)
    return FamilySet("vehicle, 4 classes", "logistic", X, y, guest.shape[1], (half_norm(9), half_norm(18)))


@cache
def bike() -> FamilySet | None:
    """Bikes by the hour: the label holder knows weather and kind of day, the other party the hour."""
    try:
        frame = load_bike().to_pandas()
    except InputError:
        return None
    numbers = frame[["temp", "hum", "windspeed", "workingday", "yr"]].fillna(0.0).to_numpy(dtype=float)
    hours = np.eye(24)[frame["hr"].to_numpy(dtype=int)]
    y, norms = frame["cnt"].to_numpy(dtype=float), (half_norm(0, 1), half_norm(5, 1))
    return FamilySet("bike, counts", "poisson", np.hstack([numbers, hours]), y, 5, norms, 1e-6)


LOADERS: tuple[Callable[[], FamilySet | None], ...] = (vehicle, digits, bike)


# --- one fit -----------------------------------------------------------------------------------------


def vertical(one: FamilySet, parties: list[int], **more: Any) -> Any:
    """A model of columns that are split."""
    if one.loss == "poisson":
        return VerticalRegressor("poisson", parties=parties, alpha=one.alpha, **more)
    return VerticalClassifier(parties=parties, alpha=one.alpha, **more)


def horizontal(one: FamilySet, nodes: int, seed: int, **more: Any) -> Any:
    """A model of rows that are split."""
    if one.loss == "poisson":
        return HorizontalRegressor("poisson", parties=nodes, alpha=one.alpha, random_state=seed, **more)
    return HorizontalClassifier(parties=nodes, alpha=one.alpha, random_state=seed, **more)


def figures(one: FamilySet, seed: int) -> dict[str, tuple[float, float]]:
    """What every model measures on the test rows of one split."""
    order = np.random.default_rng(seed).permutation(len(one.y))
    test, train = np.split(order, [round(TEST_SHARE * len(order))])
    (X, y), (Z, w) = ((one.X[rows], one.y[rows]) for rows in (train, test))
    cut, node = [one.own, X.shape[1] - one.own], slice(0, len(train) // NODES)
    found = {
        "all data": one.measure(vertical(one, cut).fit(X, y), Z, w),
        "label holder alone": one.measure(vertical(one, [one.own]).fit(X[:, : one.own], y), Z[:, : one.own], w),
        "one node alone": one.measure(vertical(one, [X.shape[1]]).fit(X[node], y[node]), Z, w),
    }
    for epsilon in EPSILONS:
        asked = Privacy(epsilon=epsilon, row_norm=one.norms[0], noise_seed=seed)
        found[f"columns, epsilon {epsilon:g}"] = one.measure(vertical(one, cut, privacy=asked).fit(X, y), Z, w)
        for masked, words in ((False, "rows"), (True, "rows under masks")):
            asked = Privacy(epsilon=epsilon, row_norm=one.norms[1], label_norm=MOST_COUNT, noise_seed=seed)
            model = horizontal(one, NODES, seed, privacy=asked, secure_aggregation=masked).fit(X, y)
            found[f"{words}, epsilon {epsilon:g}"] = one.measure(model, Z, w)
    return found


def run(quick: bool = False) -> list[Row]:
    """Mean figures over random splits, for each set and model; in short one split of the digits."""
    return list(_rows((digits,), QUICK_SEEDS) if quick else _rows(LOADERS, SEEDS))


def _rows(loaders: Sequence[Callable[[], FamilySet | None]], seeds: int) -> Iterator[Row]:
    for load in loaders:
        one = load()
        if one is None:
            yield Row(load.__name__, "skipped: its files are in no folder named by the variable TACIT_DATA")
            continue
        found = []
        for seed in range(seeds):
            say(f"{one.name}, split {seed + 1} of {seeds}")
            found.append(figures(one, seed))
        for name in found[0]:
            yield _row(f"{one.name}: {name}", np.array([split[name] for split in found]))


def _row(name: str, values: Vector) -> Row:
    loss, right = values[:, 0], values[:, 1]
    spread = f" ± {loss.std(ddof=1):.3f}" if len(loss) > 1 else ""
    shown = f"loss {loss.mean():.3f}{spread}"
    if not np.isnan(right).any():
        shown += f", {100 * right.mean():.1f} % right"
    return Row(name, shown, float(loss.mean()))
