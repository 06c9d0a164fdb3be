"""The search for alpha against fits anew for each alpha and fold, and against scikit-learn's on pooled rows; with
privacy, where it is refused, whether it could pay.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegressionCV

from bench import path_private
from bench.data import a9a
from bench.progress import say
from bench.rounds import cut
from bench.row import Row, seconds
from tacit import VerticalClassifier, VerticalClassifierCV
from tacit.data.holdout import Splits, deal_folds
from tacit.problem.alphas import alpha_grid
from tacit.types import Vector

TITLE = "a9a, two and ten parties: rounds and seconds of the search for alpha, 10 alphas and 5 folds"
QUICK_ROWS = 2000
SEED = 0


@dataclass(frozen=True)
class Searched:
    """One way to search: the alpha taken, the mean losses of rows left out, rounds by fit, seconds."""

    alpha: float
    losses: Vector
    rounds: Vector
    seconds: float


def run(quick: bool = False) -> list[Row]:
    """Search each way; the short form has fewer rows, alphas and folds."""
    task = a9a()
    X, y = (task.X[:QUICK_ROWS], task.y[:QUICK_ROWS]) if quick else (task.X, task.y)
    alphas = alpha_grid(4 if quick else 10, len(y))
    splits = deal_folds(3 if quick else 5, len(y), SEED, y)
    judged = task.is_real and not quick
    rows = list(task.remark())
    for parties in (2,) if quick else (2, 10):
        rows += _compared(f"{task.name}, {parties} parties", cut(task, parties), X, y, alphas, splits, judged)
    say("scikit-learn")
    theirs = pooled(X, y, alphas, splits)
    rows.append(Row("LogisticRegressionCV (lbfgs), pooled rows", _shown(theirs), theirs.seconds))
    return [*rows, *path_private.rows(task, quick)]


def _compared(
    name: str, columns: Any, X: Any, y: Vector, alphas: tuple[float, ...], splits: Splits, judged: bool
) -> list[Row]:
    """Both ways, and what the search needs of the rounds of fits anew."""
    say(name)
    followed(columns, X[:500], y[:500], alphas[:2], deal_folds(2, 500, SEED, y[:500]))  # compile
    ours, anew = followed(columns, X, y, alphas, splits), each_anew(columns, X, y, alphas, splits)
    share = ours.rounds.sum() / anew.rounds.sum()
    off = float(np.max(np.abs(ours.losses / anew.losses - 1)))
    return [
        Row(f"{name}, one run follows the alphas", _shown(ours), ours.seconds),
        Row(f"{name}, each fit anew", _shown(anew), anew.seconds),
        Row(
            f"{name}, rounds of the one over the other",
            f"{share:.2f}; mean losses differ by at most {off:.1e} of themselves",
            share,
            0.75 if judged else None,
            "at most 0.75" if judged else "",
        ),
    ]


def followed(columns: Any, X: Any, y: Vector, alphas: tuple[float, ...], splits: Splits) -> Searched:
    """`VerticalClassifierCV`, its last fit to all rows included."""
    model = VerticalClassifierCV(alphas=alphas, cv=splits, parties=columns)
    took, _ = _clocked(lambda: model.fit(X, y))
    return Searched(model.alpha_, model.search_.mean_losses, model.rounds_path_, took)


def each_anew(columns: Any, X: Any, y: Vector, alphas: tuple[float, ...], splits: Splits) -> Searched:
    """A fit from zero for each alpha and fold, and the last one."""
    rounds, losses = np.zeros((len(alphas), len(splits))), np.zeros(len(alphas))

    def search() -> float:
        for i, alpha in enumerate(alphas):
            for k, (seen, left_out) in enumerate(splits):
                model = VerticalClassifier(alpha=alpha, parties=columns).fit(X[seen], y[seen])
                margins = y[left_out] * model.decision_function(X[left_out])
                losses[i] += float(np.logaddexp(0.0, -margins).sum()) / len(y)
                rounds[i, k] = model.n_rounds_
        taken = alphas[int(np.argmin(losses))]
        VerticalClassifier(alpha=taken, parties=columns).fit(X, y)
        return taken

    took, alpha = _clocked(search)
    return Searched(alpha, losses, rounds, took)


def pooled(X: Any, y: Vector, alphas: tuple[float, ...], splits: Splits) -> Searched:
    """scikit-learn with all rows in one place; its C is 1 over alpha times the rows trained on."""
    trained = len(splits[0][0])
    inverse = [1.0 / (alpha * trained) for alpha in alphas]
    newer = {"l1_ratios": (0,), "use_legacy_attributes": True}  # what newer releases want to be told
    known = {key: value for key, value in newer.items() if key in LogisticRegressionCV().get_params()}
    model = LogisticRegressionCV(Cs=inverse, cv=splits, scoring="neg_log_loss", max_iter=1000, **known)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a solver that cannot reach the last digits says so
        took, _ = _clocked(lambda: model.fit(X, y))
    losses = -np.ravel(model.scores_[1.0]).reshape(len(splits), -1).mean(axis=0)
    return Searched(alphas[int(np.argmin(losses))], losses, np.zeros(0), took)


def _clocked(action: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = action()
    return time.perf_counter() - start, result


def _shown(one: Searched) -> str:
    rounds = ""
    if one.rounds.size:
        longest = int(one.rounds.sum(axis=0).max())
        rounds = f"{int(one.rounds.sum())} rounds, {longest} where the folds' messages travel together; "
    return f"{rounds}{seconds(one.seconds)}; alpha {one.alpha:.3g}, loss {one.losses.min():.6f}"
