"""The coordinator's side: exact predictions z, and the small problem over everything tried so far."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tacit.algorithms.base import Problem, Progress
from tacit.algorithms.memory.outlook import frozen_weights, window_size
from tacit.algorithms.memory.predictions import LeanPredictions, Predictions
from tacit.algorithms.memory.subspace import Subspace
from tacit.algorithms.memory.window import Window
from tacit.types import Arrays, Vector

REFRESH_ROUNDS = frozenset({1, 2, 5, 12, 30, 75, 190, 475})
SOON = 2  # the refresh that only a start from nothing needs: after another alpha it costs a Gram matrix for no round
UNCERTIFIED = 5.0  # without a penalty the gap is only estimated: this many times half the block Newton decrement,
ROUNDING = 1e-14  # of the objective: beyond it steps are rounding, and following them leads away again
STILL, STILL_ROUNDS = 0.1, 5  # and the objective must not have fallen by this part of the bar in so many rounds


class MemoryCoordinator:
    """Keeps z = sum_m D_m x_m + b exactly, so that the objective can never rise."""

    def __init__(self, problem: Problem, labels: Vector) -> None:
        self.problem = problem
        self.alpha = problem.alpha * problem.regularizer.l2
        self.sends_step = problem.loss.recover(np.zeros(1)) is None
        self.predictions = (LeanPredictions if problem.lean else Predictions)(problem, labels)
        self.window = Window(labels.size, window_size(problem), project=problem.fit_intercept)
        self.coefficients: Vector = np.zeros(0)
        self.round, self.plain = 0, False
        self.kept: Vector | None = None  # slots that the parties are still to be told to keep
        self.tuned = 0  # the last round before this alpha; 0 for the first alpha
        self.past: Vector = np.full(STILL_ROUNDS, np.inf)  # the last objectives

    @property
    def intercept(self) -> float:
        """B, exact for the coefficients the parties hold after the closing broadcast."""
        return self.predictions.intercept

    def start_at(self, total: Arrays, intercept: float) -> None:
        """Begin from coefficients the parties already hold."""
        self.predictions.place(total["share"] + intercept, intercept)

    def retune(self, problem: Problem) -> None:
        """Go on with another alpha, after the closing broadcast; the window knows nothing of alpha and stays.

        Only steps that are large enough do: the last ones before an optimum are nearly rounding.
        """
        self.problem, self.alpha = problem, problem.alpha * problem.regularizer.l2
        self.coefficients = np.zeros(0)  # the parties have taken this step
        self.kept = self.window.thin()
        self.past = np.full(STILL_ROUNDS, np.inf)
        self.tuned = self.round

    @property
    def scores(self) -> Vector:
        """Joint score of each row, those that weigh nothing included."""
        return self.predictions.z

    def broadcast(self) -> Arrays:
        """The residual, the step just taken, and the small matrices of the window."""
        self.round += 1
        metric = self._metric_due()
        refresh = metric is not None
        if metric is not None:
            self.window.refresh(metric)
        message = {"residual": self.predictions.residual, **self._common(refresh)}
        if self.sends_step and self.window.slot >= 0:
            message["step"] = self.window.newest
        if self.sends_step and refresh:
            message["curvature"] = self.predictions.curvature
        if self.kept is not None:
            message["kept"], self.kept = self.kept, None
        return message

    def _metric_due(self) -> Vector | None:
        """The metric to take now; None to stay with the last one, which is near enough early after another alpha."""
        known = bool(self.window.metric.size)
        since = self.round - self.tuned
        if known and (since not in REFRESH_ROUNDS or (self.tuned and since == SOON)):
            return None
        metric = frozen_weights(self.problem.loss, self.predictions.curvature)
        if self.tuned and not self.sends_step and np.array_equal(metric, self.window.metric):
            return None
        return metric

    def closing(self) -> Arrays:
        """The last step's coefficients."""
        return self._common(False)

    def _common(self, refresh: bool) -> Arrays:
        window = self.window
        return {
            "control": np.array([window.slot, refresh, self.plain], dtype=np.float64),
            "coefficients": self.coefficients,
            "gram": window.gram,
            "curvature_gram": window.projected(window.curvature_gram, window.sums),
        }

    def combine(self, total: Arrays) -> Progress:
        """Minimise over every direction known so far, the new sum of shares included."""
        gradient2, decrement = (float(value) for value in total["gradient_dots"])
        self.plain = float(total["direction_dots"][2]) > -0.5 * decrement  # the coupling led astray: leave it out once
        self.window.correct(total["move_dot_newest"])
        predictions = self.predictions
        start, intercept = predictions.mark(), predictions.intercept
        subspace = Subspace(predictions, self.window, self.alpha, total)
        subspace.minimise()
        predictions.intercept += subspace.intercept_move()
        objective = subspace.objective()
        if self.problem.fit_intercept:
            before = predictions.loss
            predictions.settle_intercept()
            objective += predictions.loss - before
        self._remember(subspace, start, intercept)
        return self._progress(objective, gradient2 / predictions.total**2, decrement / predictions.total)

    def _remember(self, subspace: Subspace, start: Any, intercept: float) -> None:
        row = subspace.penalty_gram @ subspace.cf
        self.coefficients = subspace.cf
        moved = self.predictions.intercept - intercept
        settled = moved - subspace.intercept_move()  # what b moved by itself, after the step
        step = self.predictions.moved_since(start, subspace.step(settled))
        self.window.add(step, moved, row[:-1], float(subspace.cf @ row))

    def _progress(self, objective: float, gradient2: float, decrement: float) -> Progress:
        """The duality gap ||grad||^2 / (2 alpha) at the broadcast point bounds the gap now: the objective fell."""
        gap = gradient2 / (2 * self.alpha) if self.alpha > 0 else math.inf
        bar = max(self.problem.tol, ROUNDING) * max(objective, self.predictions.scale)
        done = gap <= bar
        if self.alpha <= 0:
            done = UNCERTIFIED * decrement / 2 <= bar and self.past[0] - objective <= STILL * bar
        self.past = np.append(self.past[1:], objective)
        return Progress(objective=objective, gap=gap, dual=math.sqrt(gradient2), done=bool(done))

    def state(self) -> Arrays:
        """Everything needed to go on after a restart."""
        numbers = [self.round, self.plain, self.predictions.intercept, self.predictions.scale]
        return self.window.state() | {
            "z": self.predictions.z,
            "coefficients": self.coefficients,
            "past": self.past,
            "numbers": np.array(numbers, dtype=np.float64),
        }

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        round_, plain, intercept, scale = (float(value) for value in state["numbers"])
        self.round, self.plain = int(round_), bool(plain)
        self.coefficients, self.past = state["coefficients"], state["past"]
        self.window.restore(state)
        self.predictions.restore(state["z"], intercept, scale)
