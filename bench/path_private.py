"""Whether a search for alpha could pay in a private run: what the best alpha gains, and what paying for it costs.

The best alpha is found on the test rows, for nothing: no search that pays can gain more. What a search pays is told by
the loss at a part of epsilon, again at the best alpha for that part.
"""

from __future__ import annotations

import numpy as np

from bench.data import Task
from bench.progress import say
from bench.rounds import cut
from bench.row import Row
from tacit import Privacy, VerticalClassifier

ALPHAS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
DEFAULT = 1e-4
ROW_NORM = float(np.sqrt(14))  # 14 attributes of which each has one column that is 1
EPSILON, PART = 1.0, 0.3


def rows(task: Task, quick: bool) -> list[Row]:
    """One row for each number of rows trained on."""
    sizes = (500,) if quick else (2000, len(task.y))
    return [_row(task, size, repeats=2 if quick else 5) for size in sizes]


def _row(task: Task, size: int, repeats: int) -> Row:
    say(f"private, {size} rows")
    whole = {alpha: _loss(task, size, alpha, EPSILON, repeats) for alpha in ALPHAS}
    part = {alpha: _loss(task, size, alpha, PART, repeats) for alpha in ALPHAS}
    best, cheaper = min(whole, key=whole.__getitem__), min(part, key=part.__getitem__)
    shown = (
        f"{whole[DEFAULT]:.4f} at the default alpha, {whole[best]:.4f} at the best ({best:g}); with epsilon {PART:g} "
        f"left for the last fit {part[cheaper]:.4f} at its best ({cheaper:g})"
    )
    return Row(f"{task.name}, epsilon {EPSILON:g}, {size} rows: test loss", shown, part[cheaper] / whole[DEFAULT])


def _loss(task: Task, size: int, alpha: float, epsilon: float, repeats: int) -> float:
    """Mean test loss of private models of some rows, drawn anew each time."""
    losses = []
    for seed in range(repeats):
        some = np.random.RandomState(seed).permutation(len(task.y))[:size]
        privacy = Privacy(epsilon=epsilon, row_norm=ROW_NORM, noise_seed=seed)
        model = VerticalClassifier(parties=cut(task, 2), alpha=alpha, privacy=privacy)
        margins = task.y_test * model.fit(task.X[some], task.y[some]).decision_function(task.X_test)
        losses.append(float(np.logaddexp(0.0, -margins).mean()))
    return float(np.mean(losses))
