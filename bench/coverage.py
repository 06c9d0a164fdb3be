"""How often 95 % intervals hold what they are said to cover, over generated data sets.

Measures: a fixed score is evaluated on fresh rows, and the truth is its value on 400,000 others. Coefficients: a model
is trained on fresh rows; the truth is the coefficient that made the labels, or with a penalty what training on 200,000
rows gives. Bands of private models: the noise is drawn again on the same rows, and the truth is the mean over all runs,
for coefficients of a few columns and for curves of the sets of `curves`, with columns split and with rows split.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bench.curve_fits import CELLS, Cell, fit_private
from bench.curve_sets import SETS as CURVE_SETS
from bench.curve_sets import CurveSet, Cut, missing
from bench.progress import tell
from bench.row import Row
from tacit import HorizontalClassifier, HorizontalRegressor, Privacy, VerticalClassifier, VerticalRegressor
from tacit.run.curves import party_curves
from tacit.run.measures import TITLES, intervals, measure
from tacit.types import Vector

TITLE = "how often 95 % intervals hold, over generated sets"
ONLY_WHEN_NAMED = True
SETS, QUICK = 500, 40
LOW, HIGH = 93.0, 97.0  # percent
POPULATION, LARGE = 400_000, 200_000
ROWS = 400
BETA = np.array([0.5, -0.25, 0.3, 0.0, 0.15])
CONSTANT = 0.2


def run(quick: bool = False) -> list[Row]:
    """All rows of the table."""
    sets = QUICK if quick else SETS
    return [*_measures(sets), *_coefficients(sets), *_private(sets // 2), *_curves(quick)]


def _row(name: str, held: Any) -> Row:
    """The part of intervals that held, with the error of counting so few."""
    share = 100 * float(np.mean(held))
    text = f"{share:.1f} % of {np.size(held):,}"
    return Row(name, text, max(LOW - share, share - HIGH), 0.0, f"{LOW:g} to {HIGH:g} %")


# --- measures ----------------------------------------------------------------------------------------------


def _drawn(kind: str, rows: int, rng: np.random.Generator) -> tuple[Vector, Vector]:
    """Scores of a model that is a little wrong, and labels."""
    truth = rng.normal(size=rows) * (1.0 if kind == "logistic" else 0.5)
    scores = 0.8 * truth + 0.3 * rng.normal(size=rows)
    if kind == "logistic":
        return scores - 1.0, np.where(truth - 1.2 + rng.logistic(size=rows) > 0, 1.0, -1.0)
    if kind == "poisson":
        return scores, rng.poisson(np.exp(truth)).astype(np.float64)
    return scores, truth + rng.normal(size=rows)


def _measures(sets: int) -> Iterator[Row]:
    for kind in ("logistic", "squared", "poisson"):
        truth = measure(*_drawn(kind, POPULATION, np.random.default_rng(1)), kind)
        for rows in (200, 1000):
            tell(f"measures of {kind} on {rows} rows")
            held: dict[str, list[bool]] = {name: [] for name in truth}
            for number in range(sets):
                pairs = intervals(*_drawn(kind, rows, np.random.default_rng(100 + number)), kind)
                for name, (low, high) in pairs.items():
                    held[name].append(low <= truth[name] <= high)
            for name, own in held.items():
                yield _row(f"{TITLES[name]}, {kind}, {rows} rows", own)


# --- coefficients --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A model to train, and how its labels are drawn from scores."""

    name: str
    model: Callable[[], Any]
    draw: Callable[[Vector, np.random.Generator], Vector]
    penalised: bool = False


def _classes(scores: Vector, rng: np.random.Generator) -> Vector:
    return np.asarray((scores + rng.logistic(size=len(scores)) > 0).astype(np.float64))


def _numbers(scores: Vector, rng: np.random.Generator) -> Vector:
    return np.asarray(scores + rng.normal(size=len(scores)))


def _counts(scores: Vector, rng: np.random.Generator) -> Vector:
    return rng.poisson(np.exp(scores)).astype(np.float64)


NONE: dict[str, Any] = {"penalty": "none", "alpha": 0.0, "tol": 1e-10}
CASES = (
    Case("logistic, features split, no penalty", lambda: VerticalClassifier(**NONE), _classes),
    Case(
        "logistic, samples split, no penalty", lambda: HorizontalClassifier(parties=3, graph="ring", **NONE), _classes
    ),
    Case("squared, features split, no penalty", lambda: VerticalRegressor(**NONE), _numbers),
    Case("squared, samples split, no penalty", lambda: HorizontalRegressor(parties=3, graph="ring", **NONE), _numbers),
    Case("Poisson, features split, no penalty", lambda: VerticalRegressor(loss="poisson", **NONE), _counts),
    Case("logistic, features split, alpha = 0.05", lambda: VerticalClassifier(alpha=0.05, tol=1e-10), _classes, True),
    Case("squared, features split, alpha = 0.2", lambda: VerticalRegressor(alpha=0.2, tol=1e-10), _numbers, True),
)


def _table(rows: int, rng: np.random.Generator) -> Vector:
    """Rows of five columns, some of which go together."""
    X = rng.normal(size=(rows, BETA.size))
    X[:, 3] += 0.7 * X[:, 0]
    return X


def _fitted(case: Case, rows: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    X = _table(rows, rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return case.model().fit(X, case.draw(X @ BETA + CONSTANT, rng))


def _truth(case: Case) -> Vector:
    if not case.penalised:
        return np.append(BETA, CONSTANT)
    model = _fitted(case, LARGE, 7)
    return np.append(np.ravel(model.coef_), np.ravel(model.intercept_))


def _coefficients(sets: int) -> Iterator[Row]:
    for case in CASES:
        tell(f"coefficients: {case.name}")
        truth, held = _truth(case), []
        for number in range(sets):
            low, high = _fitted(case, ROWS, 1000 + number).summary().intervals().T
            held.append((low <= truth) & (truth <= high))
        yield _row(f"coefficients, {case.name}, {ROWS} rows", held)


# --- private models: no standard errors, as these figures say why ----------------------------------------------


def _private(sets: int) -> Iterator[Row]:
    """How often the band of a private model's noise holds what it gives on average: with the same rows, with new ones.

    The first is what a band is for. The second is what a standard error would have to do, and is only shown.
    """
    for epsilon in (1.0, 4.0):
        for split, part in (("features", _private_party), ("samples", _private_nodes)):
            for fresh in (False, True):
                tell(f"noise at epsilon {epsilon:g}, {split}")
                found = [part(epsilon, 5000 + number if fresh else 5000) for number in range(sets)]
                coef, error = np.array([one for one, _ in found]), np.array([one for _, one in found])
                held = np.abs(coef - coef.mean(axis=0)) < 1.959964 * error
                which = "new rows and new noise" if fresh else "the same rows, new noise"
                row = _row(f"band of noise, epsilon {epsilon:g}, {split} split, {which}", held)
                yield Row(row.name, row.measured) if fresh else row


def _private_party(epsilon: float, seed: int) -> tuple[Vector, Vector]:
    """Coefficients of a protected party by the mechanism gram, and the deviation of its noise."""
    X, y = _private_rows(seed)
    asked = Privacy(epsilon=epsilon, delta=1e-5, row_norm=3.0)
    part: Any = VerticalClassifier(parties=[2, 3], privacy=asked).fit(X, y)._parts[1]
    return part.linear_coef, (1 + part.bend) * np.sqrt(np.diag(part.noise))


def _private_nodes(epsilon: float, seed: int) -> tuple[Vector, Vector]:
    """Coefficients of the nodes' common model by the mechanism gaussian, and the deviation of their noise."""
    X, y = _private_rows(seed)
    asked = Privacy(epsilon=epsilon, delta=1e-5, row_norm=3.0)
    model: Any = HorizontalClassifier(parties=3, graph="ring", alpha=0.01, privacy=asked, random_state=0).fit(X, y)
    return model._model.mean.coef, np.sqrt(np.diag(model._model.mean.noise))


def _private_rows(seed: int) -> tuple[Vector, Vector]:
    rng = np.random.default_rng(seed)
    X = _table(5 * ROWS, rng)
    return X, _classes(X @ BETA + CONSTANT, rng)


# --- bands of private curves -----------------------------------------------------------------------------------

NOISES, QUICK_NOISES = 24, 6
DRAWN, QUICK_DRAWN = ("telco", "heloc", "german", "mixed", "linear"), ("mixed",)
EPSILONS, QUICK_EPSILONS = (0.5, 1.0, 4.0), (1.0,)


def _curves(quick: bool) -> Iterator[Row]:
    """How often the band of a curve holds, at each point, the mean of the curves that other noise gives."""
    for name in QUICK_DRAWN if quick else DRAWN:
        one = CURVE_SETS[name]
        absent = missing(one)
        if absent:
            yield Row(f"band of noise, curves of {name}", f"skipped: {absent}")
            continue
        for cell in (cell for key, cell in CELLS.items() if key != "none"):
            for epsilon in QUICK_EPSILONS if quick else EPSILONS:
                title = f"band of noise, curves of {name}, {cell.name}, epsilon {epsilon:g}"
                tell(title)
                yield _band_row(title, one, cell, epsilon, QUICK_NOISES if quick else NOISES)


def _band_row(title: str, one: CurveSet, cell: Cell, epsilon: float, noises: int) -> Row:
    cut = one.cut(0)
    few = Cut(cut.train, cut.y, cut.test[:10], cut.y_test[:10], cut.held)
    found = [_drawn_curves(fit_private(one, few, cell, "spline", epsilon, seed)[1]) for seed in range(noises)]
    value, wide = np.array([one for one, _ in found]), np.array([one for _, one in found])
    if not value.size:
        return Row(title, "no band is drawn")
    again = np.mean([np.abs(own - value) <= w for own, w in zip(value, wide, strict=True)])
    row = _row(title, np.abs(value - value.mean(axis=0)) * np.sqrt(noises / (noises - 1)) <= wide)
    other = 100 * (noises * again - 1) / (noises - 1)
    return Row(row.name, f"{row.measured}; another run's curve in {other:.0f} %", row.value, row.limit, row.target)


def _drawn_curves(model: Any) -> tuple[Vector, Vector]:
    """All values that are drawn with a band, and half the width of that."""
    split = getattr(model, "graph_", None) is not None
    parts = [model._model.mean] if split else list(model._parts)
    encoders = dict(model._encodings.encoders)
    shared = next(iter(encoders.values()))
    pairs = [(part, encoders.get(part.name, shared)) for part in parts if getattr(part, "noise", None) is not None]
    curves = [curve for part, encoder in pairs for curve in party_curves(part.name, part, encoder)]
    value = np.concatenate([curve.value for curve in curves] or [np.zeros(0)])
    return value, np.concatenate([curve.high for curve in curves] or [np.zeros(0)]) - value
