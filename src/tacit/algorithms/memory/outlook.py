"""What every party can compute from the broadcasts alone."""

from __future__ import annotations

import numpy as np

from tacit.algorithms.base import Problem
from tacit.problem.losses.base import Loss
from tacit.types import Arrays, Vector


def window_size(problem: Problem) -> int:
    """How many past steps to keep: what more parties need, and what memory allows."""
    return max(1, min(16 if problem.parties <= 2 else 32, problem.max_window))


def frozen_weights(loss: Loss, curvature: Vector) -> Vector:
    """The weights of the metric: the curvature, kept off zero where a loss has flat pieces."""
    top = float(curvature.max(initial=0.0))
    floor = 1e-3 if loss.recover(np.zeros(1)) is None else 1e-12
    return np.maximum(curvature, floor * (top or 1.0))


def compact(columns: Vector, kept: Vector) -> None:
    """Move the columns that are kept to the front, in their order, and set the others to zero; in place."""
    columns[:, : kept.size] = columns[:, kept.astype(np.intp)]
    columns[:, kept.size :] = 0.0


class Outlook:
    """What every party can compute from the broadcasts alone: the steps of z and the metric.

    Parties in one process share one, so that the window is kept once.
    """

    def __init__(self, problem: Problem) -> None:
        self.loss, self.weights = problem.loss, problem.row_weights
        self.steps = np.zeros((problem.rows, window_size(problem)), order="F")
        self.metric: Vector = np.zeros(0)
        self.step: Vector | None = None
        self._predictions: Vector | None = None
        self.round = -1
        self.used = 0

    def read(self, round_: int, inbox: Arrays) -> None:
        """Take in one broadcast; a second call for the same round does nothing."""
        if round_ == self.round:
            return
        slot, refresh = int(inbox["control"][0]), bool(inbox["control"][1])
        if "kept" in inbox:
            compact(self.steps, inbox["kept"])
            self.used = inbox["kept"].size
        if "step" in inbox or "curvature" in inbox:
            self.step, curvature = inbox.get("step"), inbox.get("curvature")
        else:
            self.step, curvature = self._recover(inbox["residual"])
        if self.step is not None and slot >= 0:
            self.steps[:, slot] = self.step
            self.used = max(self.used, slot + 1)
        if refresh and curvature is not None:
            self.metric = frozen_weights(self.loss, curvature)
        self.round = round_

    def _recover(self, residual: Vector) -> tuple[Vector | None, Vector]:
        derivative = residual
        if self.weights is not None:
            derivative = np.divide(residual, self.weights, out=np.zeros_like(residual), where=self.weights > 0)
        recovered = self.loss.recover(derivative)
        assert recovered is not None, "this loss needs its step in the broadcast"
        predictions, curvature = recovered
        step = None if self._predictions is None else predictions - self._predictions
        self._predictions = predictions
        return step, curvature if self.weights is None else curvature * self.weights

    def state(self) -> Arrays:
        """Everything needed to go on after a restart."""
        state = {"steps": self.steps, "metric": self.metric, "numbers": np.array([self.round, self.used], dtype=float)}
        if self._predictions is not None:
            state["predictions"] = self._predictions
        return state

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        self.steps = np.asfortranarray(state["steps"])
        self.metric = state["metric"]
        self.round, self.used = (int(value) for value in state["numbers"])
        self._predictions = state.get("predictions")
        self.step = None
