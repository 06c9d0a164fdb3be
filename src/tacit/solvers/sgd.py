"""FDML-style stochastic gradient descent: the baseline of the sharing paper.

In every exchange the parties send their local predictions for one mini-batch of rows and get the loss derivative
of these rows back, each then takes a gradient step on its own coefficients. An epoch sends as many numbers as one
round of sharing ADMM; after each epoch one exchange over all rows evaluates the objective.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tacit.blocks.dense import Block
from tacit.problem.losses.base import Loss
from tacit.problem.regularizers import Regularizer
from tacit.solvers.base import Problem, Progress, Solver, best_constant
from tacit.types import Arrays, Vector

Order = npt.NDArray[np.int64]
BATCH = 64
STEP = 2.0  # of the first epoch, over the loss curvature times the mean squared row norm


class SgdParty:
    """The party's side: local predictions up, derivative down, one gradient step."""

    def __init__(self, problem: Problem, block: Block) -> None:
        self.problem, self.block = problem, block
        self.coef = self._lawful(np.random.default_rng(problem.seed).normal(scale=1e-2, size=block.d))
        self.rows: Vector = np.zeros(0)
        self._chosen: Block | None = None  # the rows of the last batch

    def start_at(self, coef: Vector) -> Arrays:
        """Begin from given coefficients."""
        self.coef = self._lawful(coef)
        return {"share": self.block.predict(coef)}

    def _lawful(self, coef: Vector) -> Vector:
        regularizer = self.problem.regularizer
        return regularizer.prox(coef, 1.0) if regularizer.constraint else coef.copy()

    def step(self, round_: int, inbox: Arrays) -> Arrays:
        """Take the step of the last batch, predict the next one (no rows: all of them)."""
        self._descend(inbox)
        regularizer = self.problem.regularizer
        rows = inbox["rows"].astype(np.intp)
        chosen = self.block.take(rows) if rows.size else self.block
        self.rows, self._chosen = inbox["rows"], chosen
        return {
            "share": chosen.predict(self.coef),
            "penalty": np.array([self.problem.alpha * regularizer.value(self.coef)]),
            "row_norm": np.array([chosen.mean_square()]),
        }

    def _descend(self, inbox: Arrays) -> None:
        derivative, step = inbox["derivative"], float(inbox["step"][0])
        if not derivative.size:
            return
        chosen = self._chosen if self._chosen is not None else self.block.take(self.rows.astype(np.intp))
        gradient = chosen.correlate(derivative)
        regularizer, alpha = self.problem.regularizer, self.problem.alpha
        if regularizer.form == "quadratic":
            self.coef = self.coef - step * (gradient + alpha * regularizer.l2 * self.coef)
        else:
            self.coef = regularizer.prox(self.coef - step * gradient, step * alpha)

    def finish(self, inbox: Arrays) -> None:
        """Nothing is left to do."""

    def state(self) -> Arrays:
        """Everything needed to go on after a restart."""
        return {"coef": self.coef, "rows": self.rows}

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        self.coef, self.rows, self._chosen = state["coef"], state["rows"], None


class SgdCoordinator:
    """The coordinator's side: draws the batches, returns the loss derivative."""

    def __init__(self, problem: Problem, labels: Vector) -> None:
        self.problem, self.labels = problem, labels
        self.weights = np.ones(labels.size) if problem.row_weights is None else problem.row_weights
        self.intercept = best_constant(problem, labels)
        self.epoch, self.batch = 0, 0
        self.step = 0.0
        self.derivative: Vector = np.zeros(0)
        self.rows: Vector = np.zeros(0)
        self.last_objective = math.inf
        self._drawn: tuple[int, Order] = (-1, np.zeros(0, np.int64))

    @property
    def _batches(self) -> int:
        return -(-self.problem.rows // BATCH)

    def start_at(self, total: Arrays, intercept: float) -> None:
        """Begin from coefficients the parties already hold."""
        self.intercept = intercept

    def broadcast(self) -> Arrays:
        """The derivative of the last batch and the rows of the next; all rows at the end of an epoch."""
        if self.batch == 0:
            self.rows = np.zeros(0)
        else:
            self.rows = self._order()[(self.batch - 1) * BATCH : self.batch * BATCH].astype(np.float64)
        size = self.step / math.sqrt(max(self.epoch, 1))
        return {"rows": self.rows, "derivative": self.derivative, "step": np.array([size])}

    def _order(self) -> Order:
        """The rows as this epoch visits them, drawn once for all its batches."""
        epoch, order = self._drawn
        if epoch != self.epoch:
            order = np.random.default_rng((self.problem.seed, self.epoch)).permutation(self.problem.rows)
            self._drawn = (self.epoch, order)
        return order

    def combine(self, total: Arrays) -> Progress | None:
        """Measure at the end of an epoch; otherwise answer the batch with its derivative."""
        rows = self.rows.astype(np.intp)
        predictions = total["share"] + self.intercept
        if self.batch == 0:
            return self._measure(predictions, total)
        weights = self.weights[rows]
        share = weights / max(float(weights.sum()), 1e-300)
        self.derivative = share * self.problem.loss.grad(predictions, self.labels[rows])
        if self.problem.fit_intercept:
            self.intercept -= self.step / math.sqrt(self.epoch) * float(self.derivative.sum())
        self.batch = (self.batch + 1) % (self._batches + 1)
        return None

    def _measure(self, predictions: Vector, total: Arrays) -> Progress:
        value = self.problem.loss.value(predictions, self.labels)
        objective = float(self.weights @ value) / self.problem.total + float(total["penalty"][0])
        if self.epoch == 0:
            curvature = min(self.problem.loss.curvature, 1.0)
            row_norm = float(total["row_norm"][0]) + float(
                self.problem.fit_intercept
            )  # the intercept is a column of ones
            self.step = STEP / (curvature * row_norm) if row_norm > 0 else 0.0
        change = abs(self.last_objective - objective)
        self.last_objective = objective
        self.epoch, self.batch, self.derivative = self.epoch + 1, 1, np.zeros(0)
        return Progress(objective=objective, dual=change, done=change <= 0.1 * self.problem.tol * abs(objective))

    def closing(self) -> Arrays:
        """Nothing is left to say."""
        return {}

    def state(self) -> Arrays:
        """Everything needed to go on after a restart."""
        numbers = [self.epoch, self.batch, self.step, self.intercept, self.last_objective]
        return {
            "numbers": np.array(numbers, dtype=np.float64),
            "derivative": self.derivative,
            "rows": self.rows,
        }

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        epoch, batch, self.step, self.intercept, self.last_objective = (float(v) for v in state["numbers"])
        self.epoch, self.batch = int(epoch), int(batch)
        self.derivative, self.rows = state["derivative"], state["rows"]


def _refusal(loss: Loss, regularizer: Regularizer) -> str:
    if math.isinf(loss.curvature) and math.isinf(loss.lipschitz):
        return f"loss={loss.name!r} has no bounded slope or curvature, so that no step size is safe"
    return ""


SGD = Solver(
    "sgd",
    refusal=_refusal,
    party=lambda problem, block, _: SgdParty(problem, block),
    coordinator=SgdCoordinator,
    vectors=(2.0, 2.0),
    on_cluster=False,
)
