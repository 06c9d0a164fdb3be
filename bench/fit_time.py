"""Seconds of a whole fit against scikit-learn's solvers at the same objective gap."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from bench.clock import blas_threads, interleave
from bench.data import ALPHA, Task, a9a, sklearn_fit
from bench.progress import say
from bench.row import Row, seconds
from tacit import VerticalClassifier
from tacit.types import Vector

TITLE = "a9a, two parties: seconds of fit to relative gap 1e-4"
GAP = 1e-4
LADDER = tuple(factor * 10.0**power for power in range(1, -9, -1) for factor in (1.0, 0.3))
RIVALS = ("lbfgs", "newton-cg", "liblinear")
SHOWN = (*RIVALS, "newton-cholesky")
OURS = "tacit"
DEFAULT_TOL = 1e-4

Fit = Callable[[Task, float], Vector]

FIRST_CALL = """
import time, warnings
import numpy as np
from scipy import sparse
from tacit import VerticalClassifier
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = sparse.csr_matrix((rng.random((2000, 40)) < 0.2).astype(float))
y = np.where(rng.random(2000) < 0.5, 1, -1)
start = time.perf_counter()
VerticalClassifier(fit_intercept=False).fit(X, y)
print(time.perf_counter() - start)
"""


def run(quick: bool = False) -> list[Row]:
    """Compare with the threads that are there, then with one thread for everybody."""
    task = a9a()
    repeats = 3 if quick else 15
    tols = _ladder(task)
    judged = task.is_real and not quick
    rows = [*task.remark(), *_comparison(task, tols, repeats, judged, f"{blas_threads()} BLAS threads")]
    with threadpool_limits(1, user_api="blas"):
        rows += _comparison(task, tols, repeats, False, "1 BLAS thread")
    return rows if quick else [*rows, *_first_calls()]


def fit_ours(task: Task, tol: float, **settings: Any) -> Any:
    """Fit this package's classifier."""
    model = VerticalClassifier(parties=[66, 57], alpha=ALPHA, fit_intercept=False, tol=tol, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(task.X, task.y)


def _solvers() -> dict[str, Fit]:
    solvers: dict[str, Fit] = {OURS: lambda task, tol: fit_ours(task, tol).coef_[0]}
    for name in SHOWN:
        solvers[name] = lambda task, tol, solver=name: sklearn_fit(task, solver, tol).coef_[0]
    return solvers


def _ladder(task: Task) -> dict[str, tuple[float, float]]:
    """Loosest tol of each solver that reaches the gap, and the gap it reaches."""
    found = {}
    for name, fit in _solvers().items():
        say(f"loosest tol of {name}")
        gaps = ((tol, task.gap(fit(task, tol))) for tol in LADDER)
        found[name] = next(((tol, gap) for tol, gap in gaps if gap <= GAP), (LADDER[-1], float("nan")))
    return found


def _comparison(
    task: Task, tols: dict[str, tuple[float, float]], repeats: int, judged: bool, threads: str
) -> list[Row]:
    say(f"{repeats} fits of each solver in turns, {threads}")
    actions = {name: partial(fit, task, tols[name][0]) for name, fit in _solvers().items()}
    default = f"{OURS} at its default tol"
    actions[default] = partial(_solvers()[OURS], task, DEFAULT_TOL)
    times = interleave(actions, repeats)
    medians = {name: float(np.median(values)) for name, values in times.items()}
    best = min(RIVALS, key=medians.__getitem__)
    rows = [Row(f"{threads}: {name}", _shown(times[name], tols[name]), medians[name]) for name in (OURS, *SHOWN)]
    gap = task.gap(_solvers()[OURS](task, DEFAULT_TOL))
    rows.append(Row(f"{threads}: {default}", _shown(times[default], (DEFAULT_TOL, gap)), medians[default]))
    ratio = medians[OURS] / medians[best]
    least = float(times[OURS].min() / times[best].min())
    measured = f"{ratio:.2f} (of the fastest times: {least:.2f})"
    limits = {"limit": 1.0, "target": "at most 1"} if judged else {}
    return [*rows, Row(f"{threads}: {OURS} / {best}, the fastest rival", measured, ratio, **limits)]


def _shown(times: Vector, tol_and_gap: tuple[float, float]) -> str:
    tol, gap = tol_and_gap
    return f"median {seconds(float(np.median(times)))}, least {seconds(times.min())}, tol {tol:g}, gap {gap:.1e}"


def _first_calls() -> list[Row]:
    """First fit of a process, with and without compiled code kept from an earlier one."""
    say("first call of a process")
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        compiled, kept = (_first_call(environment) for _ in range(2))
    return [
        Row("first fit ever, compiling (not counted above)", seconds(compiled), compiled),
        Row("first fit of a process, compiled code kept", seconds(kept), kept),
    ]


def _first_call(environment: dict[str, str]) -> float:
    command = [sys.executable, "-c", FIRST_CALL]
    return float(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)
