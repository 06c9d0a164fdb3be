"""Certified gaps beside the optimum that scikit-learn finds with all columns in one place.

A run that ends says how far its objective can be from the optimum. Here the optimum is known: Newton's method of
scikit-learn (squared loss: a Cholesky factorisation) on the encoded columns of both parties, and the objective of both
models is computed by the formulas below, from coefficients alone. The true gap must not be above the certified one.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.special import xlogy
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from threadpoolctl import threadpool_limits

from bench.curve_sets import SETS, missing
from bench.progress import say
from bench.row import Row
from bench.terms import LOSSES, write_job
from tacit.columns.spec import LINEAR, SPLINE
from tacit.run.folder import PreparedRun
from tacit.run.prepare import prepare_codes
from tacit.run.star import Run
from tacit.types import Vector

TITLE = "certified gaps at tol 1e-6 beside scikit-learn's optimum, lines and curves, alpha 1e-4"
CHOSEN = ("adult", "heloc", "housing", "bike")
ROWS, QUICK_ROWS, ALPHA, TOL, MOST_ROUNDS = 5000, 400, 1e-4, 1e-6, 1000
ROUNDING = 1e-12  # of the objective


@dataclass(frozen=True)
class Beside:
    """One run: its certified gap, and how far its objective and the one it tells are above scikit-learn's."""

    certified: float
    true: float
    told: float
    objective: float
    rounds: int

    @property
    def ratio(self) -> float:
        """True gap over certified gap, the rounding of the objective taken off; negative where the run went further."""
        return (self.true - ROUNDING * abs(self.objective)) / self.certified


def run(quick: bool = False) -> list[Row]:
    """Every set; the short form has generated rows."""
    with threadpool_limits(1):
        return list(_quick_rows() if quick else _rows())


def _rows() -> Iterator[Row]:
    for name in CHOSEN:
        absent = missing(SETS[name])
        if absent:
            yield Row(name, f"skipped: {absent}")
            continue
        cut, loss = SETS[name].cut(0), LOSSES[SETS[name].task]
        say(name)
        for terms, beside in compare(cut.train.head(ROWS), cut.y[:ROWS], loss).items():
            yield _row(f"{name}, {loss}, {terms}", beside, judged=True)


def _quick_rows() -> Iterator[Row]:
    for loss in LOSSES.values():
        for terms, beside in compare(*drawn(loss), loss).items():
            yield _row(f"generated, {loss}, {terms}", beside, judged=False)


def _row(name: str, one: Beside, *, judged: bool) -> Row:
    shown = f"certified {one.certified:.1e}, true {one.true:.1e}, {one.rounds} rounds, objective {one.objective:.6f}"
    return Row(f"{name}: true gap / certified gap", shown, one.ratio, *((1.0, "at most 1") if judged else (None, "")))


def drawn(loss: str) -> tuple[pd.DataFrame, Vector]:
    """Columns that bend, of which two parties hold some that nearly tell the same."""
    rng = np.random.default_rng(0)
    own = rng.normal(size=(QUICK_ROWS, 3))
    frame = pd.DataFrame(np.hstack([own, own + 0.2 * rng.normal(size=own.shape)])[:, [0, 3, 1, 4, 2, 5]])
    frame.columns = [f"x{j}" for j in range(6)]
    score = np.sin(2 * own[:, 0]) + own[:, 1] ** 2 / 3 - own[:, 2] / 2
    if loss == "poisson":
        return frame, rng.poisson(np.exp(score)).astype(np.float64)
    noise = rng.logistic(size=QUICK_ROWS)
    return frame, np.where(score + noise > 0, 1.0, -1.0) if loss == "logistic" else score + noise


def compare(frame: pd.DataFrame, labels: Vector, loss: str) -> dict[str, Beside]:
    """Lines and curves, by a run of two parties and by scikit-learn."""
    with tempfile.TemporaryDirectory() as folder:
        codes = prepare_codes(write_job(frame, labels, loss, 0, Path(folder)))
    return {terms: beside(code, loss) for terms, code in zip((LINEAR, SPLINE), codes, strict=True)}


def beside(code: PreparedRun, loss: str) -> Beside:
    """A run beside scikit-learn, on the same encoded rows."""
    problem = replace(code.plan.problem, alpha=ALPHA, tol=TOL)
    plan = replace(code.plan, problem=problem, max_rounds=MOST_ROUNDS)
    result, labels = Run(plan, code.shards, code.labels.values).go(), code.labels.values
    last, scores = result.trace[-1], result.model.scores(code.shards)
    own = _objective(loss, scores, labels, np.concatenate([part.coef for part in result.model.parts]))
    best = optimum(loss, _dense(code), labels)
    return Beside(last.gap, own - best, last.objective - best, best, len(result.trace))


def _dense(code: PreparedRun) -> Vector:
    parts = [shard.features for shard in code.shards]
    return np.hstack([part.toarray() if sparse.issparse(part) else np.asarray(part) for part in parts])


def optimum(loss: str, columns: Vector, labels: Vector) -> float:
    """The least objective, by scikit-learn."""
    strength = ALPHA * len(labels)
    if loss == "logistic":
        model = LogisticRegression(C=1 / strength, solver="newton-cholesky", tol=1e-10, max_iter=200)
    elif loss == "poisson":
        model = PoissonRegressor(alpha=ALPHA, solver="newton-cholesky", tol=1e-10, max_iter=200)
    else:
        model = Ridge(alpha=strength, solver="cholesky")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # steps that are rounding end it too
        model.fit(columns, labels)
    coef = np.ravel(model.coef_)
    return _objective(loss, columns @ coef + model.intercept_, labels, coef)


def _objective(loss: str, scores: Vector, labels: Vector, coef: Vector) -> float:
    """Mean loss and penalty."""
    rows = {
        "logistic": lambda: np.logaddexp(0.0, -labels * scores),
        "poisson": lambda: np.exp(scores) - labels * scores + xlogy(labels, labels) - labels,
        "squared": lambda: np.square(scores - labels) / 2,
    }[loss]()
    return float(rows.mean() + ALPHA / 2 * coef @ coef)
