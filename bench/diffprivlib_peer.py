"""diffprivlib's logistic regression, by a Python of its own where it does not import here.

diffprivlib 0.6.6 does not import beside newer releases of scikit-learn. `python -m bench --diffprivlib PYTHON` names
the Python of an environment of its own, made with `pip install diffprivlib "scikit-learn<1.6"`; arrays go by files.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from bench.data import ALPHA
from tacit.errors import RunError
from tacit.types import Matrix, Vector

SCRIPT = """
import sys, warnings
import numpy as np
from diffprivlib.models import LogisticRegression
warnings.simplefilter("ignore")
with np.load(sys.argv[1]) as data:
    X, y, seed, found = data["X"], data["y"], int(data["seed"]), []
    for epsilon, alpha in data["asked"]:
        model = LogisticRegression(epsilon=float(epsilon), data_norm=1.0 + 1e-9, C=1.0 / (alpha * len(y)),
                                   fit_intercept=False, random_state=seed, max_iter=1000)
        found.append(model.fit(X, y).coef_[0])
np.save(sys.argv[2], found)
"""
_python = [sys.executable]


def use(python: str) -> None:
    """Run diffprivlib by this Python from now on."""
    _python[:] = [python]
    missing.cache_clear()


@cache
def missing() -> str:
    """Why diffprivlib cannot be run; empty where it can."""
    try:
        done = subprocess.run([_python[0], "-c", "import diffprivlib.models"], capture_output=True, text=True)
    except OSError as error:
        return f"{_python[0]} cannot be run ({error.strerror}): give --diffprivlib the path of a Python"
    if done.returncode == 0:
        return ""
    reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1].split(" from ")[0]
    return f"diffprivlib does not import here ({reason}): give --diffprivlib the Python of an environment that has it"


def fit(X: Matrix, y: Vector, epsilon: float, seed: int) -> tuple[Vector, float]:
    """Coefficients; no intercept. Its privacy is (epsilon, 0), with one trusted server."""
    return fit_many(X, y, [(epsilon, ALPHA)], seed)[0], 0.0


def fit_many(X: Matrix, y: Vector, asked: Sequence[tuple[float, float]], seed: int) -> Vector:
    """A row of coefficients for each pair of an epsilon and a weight of the penalty."""
    dense = X.toarray() if hasattr(X, "toarray") else X
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder, "given.npz"), Path(folder, "coef.npy")
        np.savez(given, X=dense, y=y, asked=np.array(asked), seed=seed)
        done = subprocess.run([_python[0], "-c", SCRIPT, given, found], capture_output=True, text=True)
        if done.returncode:
            raise RunError(f"diffprivlib failed: {done.stderr.strip().splitlines()[-1]}")
        return np.asarray(np.load(found))
