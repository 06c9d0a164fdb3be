"""The fits of `curves`: the joint model without and with privacy, and its loss on test rows.

Noise comes from seeds, so that the table can be repeated: such noise protects nobody.
"""

from __future__ import annotations

import math
import resource
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss, mean_poisson_deviance, mean_squared_error

import tacit
from bench import curve_peers as peers
from bench import curve_sets
from bench.curve_sets import CurveSet, Cut
from bench.kept import Kept, code_of
from bench.outlook import SILENT, Told, told_by
from tacit import (
    HorizontalClassifier,
    HorizontalRegressor,
    Privacy,
    VerticalClassifier,
    VerticalClassifierCV,
    VerticalRegressor,
    VerticalRegressorCV,
)
from tacit.types import Vector

NODES = 10
LOSSES = {"classification": "logistic", "regression": "squared", "counts": "poisson"}
NONE = "no privacy"


@dataclass(frozen=True)
class Cell:
    """What is protected, and how: rows split over nodes, or columns split between two parties."""

    key: str
    name: str
    asked: Mapping[str, Any] = field(default_factory=dict)
    graph: str | None = None  # rows are split
    secure: bool = False


CELLS = {
    one.key: one
    for one in (
        Cell("none", NONE),
        Cell("A", "the other party's rows"),
        Cell("C", "everyone, the label holder predicts", {"protect": "everyone", "predictions": "label-holder"}),
        Cell("nodes", "ten nodes, no server", graph="random"),
        Cell("star", "star with masks", graph="star", secure=True),
    )
}


@dataclass(frozen=True)
class Fitted:
    """One fit: its loss on test rows, what it said about itself, and what it cost."""

    loss: float
    verdict: str = SILENT
    sizes_against: bool = False
    doubtful: bool = False
    rounds: int = 0
    converged: bool = True
    cpu_seconds: float = 0.0

    @property
    def told(self) -> Told:
        return Told(self.verdict, self.sizes_against, self.doubtful)


Fit = Callable[[Cut], tuple[Vector, Any]]  # predictions of the test rows; the estimator, or None for a peer


def fitted(kept: Kept, one: CurveSet, cut: Cut, name: Mapping[str, Any], fit: Fit, *, own: bool = True) -> Fitted:
    """One fit, unless it was measured before with the same code: of the software, or (not `own`) of its peers."""
    code = _own_code() if own else _peer_code()
    name = {"set": one.name, "rows": len(cut.y), **name}
    return Fitted(**kept.result(name, code, lambda: asdict(_measured(one, cut, fit))))


def _measured(one: CurveSet, cut: Cut, fit: Fit) -> Fitted:
    start = _cpu_seconds()
    predictions, model = fit(cut)
    spent, loss = round(_cpu_seconds() - start, 2), loss_of(one, cut, predictions)
    if model is None:
        return Fitted(loss, cpu_seconds=spent)
    told = told_by(model.outlook_)
    ended = int(model.n_rounds_), bool(model.converged_)
    return Fitted(loss, told.verdict, told.sizes_against, told.doubtful, *ended, spent)


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


@cache
def _own_code() -> str:
    """Of the whole package, this file and the sets."""
    files = [*Path(tacit.__file__).parent.rglob("*.py"), Path(__file__), Path(curve_sets.__file__)]
    return code_of(files, version("numpy"), version("scipy"))


@cache
def _peer_code() -> str:
    """Of the peers and the sets: nothing of the package."""
    libraries = ["numpy", "scikit-learn", *([] if peers.ebm_absent() else ["interpret-core"])]
    files = [Path(peers.__file__), Path(curve_sets.__file__)]
    return code_of(files, *(version(name) for name in libraries))


def loss_of(one: CurveSet, cut: Cut, predictions: Vector) -> float:
    """Log loss, mean Poisson deviance or root mean squared error on the test rows."""
    if one.task == "classification":
        return float(log_loss(cut.y_test, np.column_stack([1 - predictions, predictions]), labels=[-1.0, 1.0]))
    if one.task == "counts":
        return float(mean_poisson_deviance(cut.y_test, np.maximum(predictions, 1e-9)))
    return math.sqrt(mean_squared_error(cut.y_test, predictions))


# --- the estimators --------------------------------------------------------------------------------------


def fit_open(one: CurveSet, cut: Cut, terms: str, search: bool) -> tuple[Vector, Any]:
    """The joint model of two parties that protect nothing: codes from their own rows, standardised ones for lines."""
    classifier = one.task == "classification"
    single = VerticalClassifier if classifier else VerticalRegressor
    searching = VerticalClassifierCV if classifier else VerticalRegressorCV
    model: Any = (searching if search else single)(loss=LOSSES[one.task], terms=terms, random_state=0)
    cut = _standardised(one, cut) if terms == "linear" else cut  # frames of numbers are used as they are
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the row says it
        model.fit(cut.parties(cut.train), cut.y)
    return _predict(one, model, cut.parties(cut.test)), model


def _standardised(one: CurveSet, cut: Cut) -> Cut:
    """Numbers with mean 0 and deviation 1 in the training rows, as each party does it for itself."""
    names = list(one.ranges)
    mean, deviation = cut.train[names].mean(), cut.train[names].std().replace(0.0, 1.0)
    scaled = {name: (frame[names] - mean) / deviation for name, frame in (("train", cut.train), ("test", cut.test))}
    frames = {name: getattr(cut, name).assign(**own) for name, own in scaled.items()}
    return replace(cut, **frames)


def _predict(one: CurveSet, model: Any, X: Any) -> Vector:
    return np.asarray(model.predict_proba(X)[:, 1] if one.task == "classification" else model.predict(X))


def fit_private(one: CurveSet, cut: Cut, cell: Cell, terms: str, epsilon: float, seed: int) -> tuple[Vector, Any]:
    """A private model from public ranges and lists; lines get the row norms that their ranges allow."""
    asked: dict[str, Any] = {"loss": LOSSES[one.task], "terms": terms, "random_state": seed, **one.public()}
    privacy = {"epsilon": epsilon, "delta": peers.DELTA, "noise_seed": seed, **cell.asked}
    classifier = one.task == "classification"
    if cell.graph is None:
        parties, test = cut.parties(cut.train), cut.parties(cut.test)
        privacy |= _norms({name: frame.shape[1] for name, frame in parties.items()}, terms)
        asked |= _own_part(one, cell, terms)
        model: Any = (VerticalClassifier if classifier else VerticalRegressor)(privacy=Privacy(**privacy), **asked)
        return _predict(one, model.fit(parties, cut.y), test), model
    privacy |= _norms(cut.train.shape[1], terms)
    kind: Any = HorizontalClassifier if classifier else HorizontalRegressor
    model = kind(
        parties=NODES, graph=cell.graph, secure_aggregation=cell.secure, privacy=Privacy(**privacy), **asked
    ).fit(cut.train, cut.y)
    return _predict(one, model, cut.test), model


def _own_part(one: CurveSet, cell: Cell, terms: str) -> dict[str, str]:
    """Trees of the label holder's own columns where they do better out of fold; LightGBM makes them."""
    may = cell.key == "A" and terms == "spline" and one.task != "counts" and find_spec("lightgbm") is not None
    return {"own_part": "auto"} if may else {}


def _norms(columns: int | Mapping[str, int], terms: str) -> dict[str, Any]:
    """Row norms for lines: each number is in [-1, 1], each list has one 1. For curves they follow from the code."""
    if terms != "linear":
        return {}
    if isinstance(columns, int):
        return {"row_norm": math.sqrt(columns)}
    return {"row_norm": {name: math.sqrt(count) for name, count in columns.items()}}
