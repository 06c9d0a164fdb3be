"""Private methods on a graph at the same whole-run epsilon: test log loss and accuracy on a9a, ten nodes.

Every run spends (epsilon, 1e-5) on a row over all that it releases; diffprivlib's is (epsilon, 0). Rows are divided by
sqrt(14), which no row of 14 one-hot attributes exceeds: public, and the same for all. No setting was chosen on a9a: the
methods' own come from public sizes, those of gradient descent from generated rows. The noise comes from seeds, so that
the table can be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import log_loss

from bench import diffprivlib_peer
from bench.data import ALPHA, Task, a9a, sklearn_fit
from bench.noisy_gradient import LENGTH, tuned
from bench.progress import say
from bench.row import Row
from tacit import HorizontalClassifier, InputError, Privacy
from tacit.types import Matrix, Vector

TITLE = "ten nodes on a9a: test log loss and accuracy at the same epsilon of the whole run, delta 1e-5, mean over seeds"
EPSILONS, QUICK_EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0), (2.0,)
SEEDS, QUICK_SEEDS = 3, 1
DELTA, NODES = 1e-5, 10
LABELS = 8.0  # label epsilon of the pdml run whose labels are hardly randomized
Fit = Callable[[Matrix, Vector, float, int], tuple[Vector, float]]  # coefficients and intercept


@dataclass(frozen=True)
class Method:
    """A way to train, by name; those with "server" in it trust one with all rows."""

    name: str
    fit: Fit


@dataclass(frozen=True)
class Scored(Row):
    """A row of the table with what the picture needs."""

    method: str = ""
    epsilon: float = 0.0
    losses: tuple[float, ...] = ()
    accuracies: tuple[float, ...] = ()

    def record(self) -> dict[str, Any]:
        """As plain values."""
        own = {"method": self.method, "epsilon": self.epsilon, "losses": self.losses, "accuracies": self.accuracies}
        return {**super().record(), **own}


def _on_graph(mechanism: str, *, intercept: bool = False, **asked: Any) -> Fit:
    """Tacit's mechanism; label_epsilon="run" takes the epsilon of the run. "gaussian" needs an intercept."""

    def fit(X: Matrix, y: Vector, epsilon: float, seed: int) -> tuple[Vector, float]:
        own = {name: epsilon if value == "run" else value for name, value in asked.items()}
        privacy = Privacy(epsilon=epsilon, delta=DELTA, mechanism=mechanism, noise_seed=seed, **own)
        model = HorizontalClassifier(
            parties=NODES, alpha=ALPHA, fit_intercept=intercept, privacy=privacy, random_state=0
        )
        model.fit(X, y)
        return np.asarray(model.coef_[0]), float(model.intercept_[0])

    return fit


def _descent(noises: int) -> Fit:
    return lambda X, y, epsilon, seed: (tuned(epsilon, DELTA, noises).fit(X, y, seed), 0.0)


METHODS = (
    Method("dual (DVP)", _on_graph("dual")),
    Method("primal (PVP)", _on_graph("primal")),
    Method("pdml, labels at epsilon", _on_graph("pdml", label_epsilon="run")),
    Method(f"pdml, labels at {LABELS:g}", _on_graph("pdml", label_epsilon=LABELS)),
    Method("gaussian", _on_graph("gaussian", intercept=True)),
    Method("noisy gradients, nodes", _descent(NODES)),
    Method("noisy gradients, server", _descent(1)),
    Method("diffprivlib, server", diffprivlib_peer.fit),
)


def run(quick: bool = False) -> list[Row]:
    """Fit every method at every epsilon with every seed."""
    task = a9a()
    epsilons, seeds = (QUICK_EPSILONS, QUICK_SEEDS) if quick else (EPSILONS, SEEDS)
    rows: list[Row] = [*task.remark(), _not_private(task), _constant(task)]
    for method in METHODS:
        reason = _missing(method)
        if reason:
            rows.append(Row(method.name, f"skipped: {reason}"))
        else:
            rows += _rows(task, method, epsilons, seeds)
    return rows


def _missing(method: Method) -> str:
    """Why a method cannot be run here; empty where it can."""
    return diffprivlib_peer.missing() if method.fit is diffprivlib_peer.fit else ""


def _rows(task: Task, method: Method, epsilons: tuple[float, ...], seeds: int) -> Iterator[Row]:
    for epsilon in epsilons:
        say(f"{method.name}, epsilon {epsilon:g}")
        try:
            found = [_scores(task, *method.fit(task.X / LENGTH, task.y, epsilon, seed)) for seed in range(seeds)]
        except InputError as error:
            yield Row(f"{method.name}, epsilon {epsilon:g}", f"refused: {error}")
            continue
        losses, accuracies = (tuple(one) for one in zip(*found, strict=True))
        yield Scored(
            f"{method.name}, epsilon {epsilon:g}",
            f"log loss {_mean(losses)}, accuracy {_mean(accuracies)}",
            float(np.mean(losses)),
            method=method.name,
            epsilon=epsilon,
            losses=losses,
            accuracies=accuracies,
        )


def _mean(values: tuple[float, ...]) -> str:
    spread = f" +/- {np.std(values, ddof=1):.4f}" if len(values) > 1 else ""
    return f"{np.mean(values):.4f}{spread}"


def _scores(task: Task, coef: Vector, intercept: float = 0.0) -> tuple[float, float]:
    """Log loss and accuracy on the test rows."""
    scores = task.X_test @ coef / LENGTH + intercept
    loss = float(np.logaddexp(0.0, -task.y_test * scores).mean())
    return loss, float(np.mean((scores > 0) == (task.y_test > 0)))


def _not_private(task: Task) -> Row:
    """The pooled optimum of the same objective, on rows as they are divided."""
    scaled = Task(task.name, task.X / LENGTH, task.y, task.X_test, task.y_test, task.missing)
    loss, accuracy = _scores(task, sklearn_fit(scaled, "newton-cholesky", tol=1e-8).coef_[0])
    return Scored(
        "not private, pooled", f"log loss {loss:.4f}, accuracy {accuracy:.4f}", loss,
        method="not private", losses=(loss,), accuracies=(accuracy,),
    )  # fmt: skip


def _constant(task: Task) -> Row:
    """The share of each label and nothing else: what a model must beat to be of use."""
    share = float(np.mean(task.y > 0))
    loss = float(log_loss(task.y_test > 0, np.full(task.y_test.size, share)))
    accuracy = float(np.mean((task.y_test > 0) == (share > 0.5)))
    return Scored(
        "shares of the labels alone", f"log loss {loss:.4f}, accuracy {accuracy:.4f}", loss,
        method="shares of the labels", losses=(loss,), accuracies=(accuracy,),
    )  # fmt: skip


def draw(rows: list[Row], path: Path) -> str:
    """Draw log loss and accuracy against epsilon."""
    from bench.graph_picture import draw_curves

    return draw_curves([row for row in rows if isinstance(row, Scored)], path)
