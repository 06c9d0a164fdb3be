"""What privacy costs in accuracy: test log loss of private runs beside the label holder alone and the joint model.

Every setting is the software's own, chosen from public sizes; no test row has been used to choose one. The noise of a
run comes from a seed here, so that the table can be repeated: such noise protects nobody.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, log_loss

from bench.data import ALPHA, Task, a9a
from bench.outlook import Told, counted, told_by
from bench.private_small import small_rows
from bench.progress import say
from bench.row import Row
from tacit import Privacy, VerticalClassifier, alone

TITLE = "test log loss and accuracy of private runs, delta 1e-5, mean and standard deviation over the noise"
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
QUICK_EPSILONS = (1.0,)
SEEDS, QUICK_SEEDS = 10, 1
DELTA = 1e-5
HALVES, WEAK, FOUR, EVEN = (66, 57), (20, 103), (66, 14, 16, 27), (31, 31, 31, 30)


@dataclass(frozen=True)
class Setting:
    """What is asked for, on which columns, and the most log loss that is wanted by epsilon."""

    name: str
    asked: Mapping[str, Any] = field(default_factory=dict)
    sizes: tuple[int, ...] = HALVES
    labels_too: bool = False  # label_epsilon is the epsilon of the rows
    limits: Mapping[float, float] = field(default_factory=dict)

    def privacy(self, epsilon: float, seed: int) -> Privacy:
        """The request."""
        label = epsilon if self.labels_too else None
        return Privacy(epsilon=epsilon, delta=DELTA, label_epsilon=label, noise_seed=seed, **self.asked)


HOLDER_ONLY = {"predictions": "label-holder"}
EVERYONE = {"protect": "everyone"}
SETTINGS = (
    Setting("A: the others' rows", limits={1.0: 0.3275, 4.0: 0.3255}),
    Setting("A and labels, predictions for anyone", labels_too=True, limits={1.0: 0.331, 4.0: 0.327}),
    Setting("A and labels, predictions stay", HOLDER_ONLY, labels_too=True, limits={1.0: 0.331, 4.0: 0.327}),
    Setting("B: the others' rows, refit", {"refit": True}),
    Setting("C: all rows and labels, predictions stay", {**EVERYONE, **HOLDER_ONLY}, limits={1.0: 0.334, 4.0: 0.328}),
    Setting("C: all rows and labels, predictions for anyone", EVERYONE),
    Setting("noisy shares", {"mechanism": "shares"}),
    Setting("A, 20 | 103 columns", sizes=WEAK, limits={1.0: 0.345}),
    Setting("A, 66 | 14 | 16 | 27 columns", sizes=FOUR, limits={1.0: 0.3255}),
    Setting("A, 31 | 31 | 31 | 30 columns", sizes=EVEN, limits={1.0: 0.329}),
)


def run(quick: bool = False) -> list[Row]:
    """Fit every setting with every seed; then the small sets."""
    task = a9a()
    seeds, epsilons = (QUICK_SEEDS, QUICK_EPSILONS) if quick else (SEEDS, EPSILONS)
    judged = task.is_real and not quick
    rows = [*task.remark(), _scale_row(task), *_baseline_rows(task)]
    told: list[Told] = []
    for setting in SETTINGS:
        if setting.asked.get("mechanism") == "shares" and find_spec("tacit.mechanisms.shares.plan") is None:
            rows.append(Row(setting.name, "skipped: this mechanism is not installed"))
            continue
        rows += [_cell(task, setting, epsilon, seeds, judged, told) for epsilon in epsilons]
    rows.append(Row(f"{task.name}: what the runs said themselves", counted(told)))
    return [*rows, *small_rows(epsilons, 2 if quick else None)]


def _model(sizes: tuple[int, ...], privacy: Privacy | None = None) -> VerticalClassifier:
    return VerticalClassifier(parties=list(sizes), alpha=ALPHA, privacy=privacy)


def _scale_row(task: Task) -> Row:
    """The public norm that the others' rows are scaled down to, and how long they are."""
    squares = task.X[:, HALVES[0] :].power(2).sum(axis=1)
    norm = Privacy().norm_of("party 2")
    longer = float(np.mean(np.sqrt(squares) > norm))
    return Row(
        "row_norm of party 2 (66 | 57)",
        f"{norm:g}; its rows have root mean square norm {math.sqrt(squares.mean()):.2f}, {longer:.1%} are scaled down",
    )


def _baseline_rows(task: Task) -> list[Row]:
    """The label holder alone, for each number of columns it may hold, and the joint model without privacy."""
    rows = []
    for sizes in (HALVES, WEAK, EVEN):
        say(f"alone, {sizes[0]} columns")
        model = alone(_model(sizes), 0).fit(task.X, task.y)
        rows.append(_shown(f"label holder alone ({sizes[0]} columns)", np.array([_scores(task, model)])))
    say("joint, not private")
    return [*rows, _shown("joint, not private", np.array([_scores(task, _model(HALVES).fit(task.X, task.y))]))]


def _cell(task: Task, setting: Setting, epsilon: float, seeds: int, judged: bool, told: list[Told]) -> Row:
    """One setting at one epsilon."""
    say(f"{setting.name}, epsilon {epsilon:g}")
    found = []
    for seed in range(seeds):
        model = _model(setting.sizes, setting.privacy(epsilon, seed)).fit(task.X, task.y)
        found.append(_scores(task, model))
        told.append(told_by(model.outlook_))
    limit = setting.limits.get(epsilon) if judged else None
    return _shown(f"{setting.name}, epsilon {epsilon:g}", np.array(found), limit)


def _scores(task: Task, model: Any) -> tuple[float, float]:
    """Log loss and accuracy on the test rows."""
    loss = float(log_loss(task.y_test, model.predict_proba(task.X_test)[:, 1]))
    return loss, float(accuracy_score(task.y_test, model.predict(task.X_test)))


def _shown(name: str, found: Any, limit: float | None = None) -> Row:
    """Mean over the seeds, and the standard deviation where there are several."""
    mean = found.mean(axis=0)
    spread = [f" +/- {sd:.4f}" for sd in found.std(axis=0, ddof=1)] if len(found) > 1 else ["", ""]
    measured = f"log loss {mean[0]:.4f}{spread[0]}, accuracy {mean[1]:.4f}{spread[1]}"
    return Row(name, measured, float(mean[0]), limit, "" if limit is None else f"at most {limit:g}")
