"""Numbers read off the outcomes: ends of curves, epochs until a level, the best rho and step, means over seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tacit.papers.reproduction.sharing.pieces import INVERSE, RHO, STAND_INS
from tacit.papers.reproduction.work import Results

MISSING = "missing"  # the key under which a piece without its data says why
CLOSE = 0.002  # test log loss this near to scikit-learn's counts as there
LAST = 5  # SGD's last epochs, whose mean is its end: single ones jump
ADMM_EPOCHS = 20  # after which ADMM is judged
NEAR = 10  # epochs after which speed is compared

Curve = Mapping[str, Any]


def why_missing(results: Results, *names: str) -> str:
    """The reason why one of these pieces has no outcome; empty where all have."""
    return next((str(results[name][MISSING]) for name in names if MISSING in results[name]), "")


def wide_sets(results: Results) -> list[str]:
    """Gisette where it is at hand, else the stand-ins that are."""
    return at_hand(results, ["gisette"]) or at_hand(results, STAND_INS)


def at_hand(results: Results, names: Sequence[str]) -> list[str]:
    """Those sets whose pieces all have outcomes."""
    parts = ("reference", "admm", "sgd", "noise", "sound")
    return [name for name in names if not why_missing(results, *(f"{name}/{part}" for part in parts))]


def label(name: str) -> str:
    """The name of a set, which says where it stands in for another."""
    return f"{name} (stand-in for gisette)" if name in STAND_INS else name


def numbers(values: Sequence[float | None]) -> list[float]:
    """With infinity where a number has left the floats."""
    return [math.inf if value is None else value for value in values]


def at_epoch(curve: Curve, epoch: int, what: str = "test") -> float:
    """Value after an epoch, or the last one where the run is shorter."""
    values = numbers(curve[what])
    return values[min(epoch, len(values)) - 1]


def end(curve: Curve, what: str = "test") -> float:
    """Value of the last epoch."""
    return numbers(curve[what])[-1]


def settled(curve: Curve, what: str = "test") -> float:
    """Mean of the last epochs."""
    return float(np.mean(numbers(curve[what])[-LAST:]))


def first_below(values: Sequence[float], level: float) -> int | None:
    """First epoch (from 1) from which on all values are at most the level; None where the end is above it."""
    above = np.flatnonzero(np.asarray(values) > level)
    start = int(above[-1]) + 1 if above.size else 0
    return start + 1 if start < len(values) else None


def sgd_curve(curve: Curve) -> dict[str, Any]:
    """A curve of SGD without its random start, so that the first entry is after epoch 1."""
    return {**curve, "objective": curve["objective"][1:], "test": curve["test"][1:]}


def best_rho(results: Results, name: str, epoch: int = ADMM_EPOCHS) -> tuple[str, Curve]:
    """The rho of the grid with the least training objective after `epoch` epochs, and its curve."""
    published: dict[str, Curve] = results[f"{name}/admm"]["published"]
    return min(published.items(), key=lambda item: at_epoch(item[1], epoch, "objective"))


def chosen_rho(results: Results, name: str) -> tuple[str, Curve]:
    """The rho that was chosen beforehand, and its curve."""
    key = f"{RHO[name]:g}"
    return key, results[f"{name}/admm"]["published"][key]


def best_step(results: Results, name: str, epoch: int | None = None) -> tuple[str, Curve]:
    """SGD at the size of steps with the least training objective after `epoch` epochs, or in the last ones."""
    curves = {step: sgd_curve(curve) for step, curve in results[f"{name}/sgd"]["steps"].items()}

    def reached(step: str) -> float:
        return settled(curves[step], "objective") if epoch is None else at_epoch(curves[step], epoch, "objective")

    key = min(curves, key=reached)
    return key, curves[key]


def default_step(results: Results, name: str) -> Curve:
    """SGD at the default size of steps."""
    return sgd_curve(results[f"{name}/sgd"]["steps"]["1"])


def noisy_ends(results: Results, name: str, law: str = INVERSE) -> dict[float, list[float]]:
    """Test losses at the end by level, one for each seed."""
    return {float(level): [end(run) for run in runs] for level, runs in results[f"{name}/noise"][law].items()}


def published_epsilon(results: Results, name: str) -> str:
    """Epsilon of the published noise: infinite where a party has fewer columns than rows, else unproven."""
    reference = results[f"{name}/reference"]
    narrow = [k + 1 for k, columns in enumerate(reference["columns"]) if columns < reference["rows"]]
    if len(narrow) == len(reference["columns"]):
        return "infinite"
    said = f"infinite for party {', '.join(map(str, narrow))}; " if narrow else ""
    return said + ("none proven for the others" if narrow else "none proven")


def edge(key: str, grid: Mapping[str, Any]) -> str:
    """A remark where the best of a grid is its smallest or largest value, so that a better one may lie beyond."""
    places = sorted(map(float, grid))
    return ", edge of the grid" if float(key) in (places[0], places[-1]) else ""


def mean(values: Sequence[float]) -> float:
    """Mean, infinite where one is."""
    return float(np.mean(values))
