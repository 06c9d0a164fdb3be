"""What the joint model is worth: test log loss and accuracy beside each party alone, all data pooled, and SGD."""

from __future__ import annotations

import warnings
from typing import Any

from sklearn.metrics import accuracy_score, log_loss

from bench.clock import timed
from bench.data import ALPHA, Task, a9a
from bench.progress import say
from bench.row import Row, seconds
from tacit import VerticalClassifier
from tacit.estimators.baselines import alone, pooled

TITLE = "a9a, parties of 66 and 57 columns: log loss and accuracy on the test part"
SIZES = (66, 57)
EPOCHS = 10


def run(quick: bool = False) -> list[Row]:
    """Fit every model once and score it."""
    task = a9a()
    joint = _model()
    epochs = 2 if quick else EPOCHS
    models = {
        "joint": joint,
        **{f"party {k + 1} alone ({size} columns)": alone(joint, k) for k, size in enumerate(SIZES)},
        "pooled": pooled(joint),
        f"sgd, {epochs} epochs": _model(method="sgd", max_rounds=epochs + 1, tol=0.0, random_state=0),
    }
    rows = [_row(task, name, model) for name, model in models.items()]
    return [*task.remark(), *rows]


def _model(**settings: Any) -> VerticalClassifier:
    return VerticalClassifier(parties=list(SIZES), alpha=ALPHA, **settings)


def _row(task: Task, name: str, model: Any) -> Row:
    say(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # sgd is cut off, not converged
        spent = timed(lambda: model.fit(task.X, task.y))
    loss = log_loss(task.y_test, model.predict_proba(task.X_test)[:, 1])
    accuracy = accuracy_score(task.y_test, model.predict(task.X_test))
    exchanges = f"{len(model.trace_)} rounds"
    return Row(name, f"log loss {loss:.4f}, accuracy {accuracy:.4f}, {seconds(spent)}, {exchanges}", float(loss))
