"""Consensus ADMM over the edges of a graph (dynamic, eq. 10-11; pdml, eq. 9-10).

    f_p <- argmin  (its part of the objective) + 2 lambda_p . f + eta sum_{i in N_p} || f - (f_p + f_i)/2 ||^2
    lambda_p <- lambda_p + eta/2 sum_{i in N_p} (f_p - f_i)
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tacit.algorithms.base import Problem
from tacit.algorithms.consensus.base import Consensus, NodeData, NodeProgress, Place, split_model
from tacit.algorithms.consensus.local import LocalProblem
from tacit.problem.losses.base import Loss
from tacit.problem.regularizers.base import Regularizer
from tacit.types import Arrays, Vector

MODEL = "model"


class AdmmNode:
    """One node's side."""

    def __init__(self, problem: Problem, place: Place, data: NodeData) -> None:
        self.problem, self.place = problem, place
        ridge = place.share * problem.alpha * problem.regularizer.l2
        self.local = LocalProblem(data, problem.loss, 1.0 / place.total, ridge, problem.fit_intercept)
        self.model = np.zeros(self.local.size)
        self.multiplier = np.zeros(self.local.size)
        self.eta = problem.rho or 1e-4
        self.progress = NodeProgress()

    @property
    def coef(self) -> Vector:
        """The node's coefficients."""
        return split_model(self.model, self.place.columns)[0]

    @property
    def intercept(self) -> float:
        """The node's intercept."""
        return split_model(self.model, self.place.columns)[1]

    def step(self, round_: int, inbox: Mapping[str, Arrays]) -> Arrays:
        """One update."""
        models = [arrays[MODEL] for arrays in inbox.values()] or [self.model] * len(self.place.neighbours)
        apart = len(models) * self.model - np.sum(models, axis=0)
        self.multiplier += 0.5 * self.eta * apart
        pull = 2 * self.eta * len(models)
        centre = self.model - 0.5 * apart / max(len(models), 1)
        old = self.model
        self.model = self.local.solve(2 * self.multiplier, pull, centre, 1e-9, old).point
        self.progress = NodeProgress(float(np.linalg.norm(apart)), float(np.linalg.norm(self.model - old)), self.eta)
        return {MODEL: self.model}

    def finish(self, inbox: Mapping[str, Arrays]) -> None:
        """Nothing is left to do."""

    def state(self) -> Arrays:
        """Arrays from which `restore` goes on."""
        return {"model": self.model, "multiplier": self.multiplier}

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        self.model, self.multiplier = state["model"], state["multiplier"]


def refusal(loss: Loss, regularizer: Regularizer) -> str:
    """Why a pair cannot be solved; empty where it can."""
    if not loss.smooth:
        return f"loss={loss.name!r} has a kink, which the sample split does not solve: use a smooth one"
    if not loss.convex:
        return f"loss={loss.name!r} is not convex, which the sample split does not solve: use a convex one"
    if regularizer.form != "quadratic":
        return f'penalty={regularizer.name!r} is not available in the sample split: use "l2" or "none"'
    return ""


ADMM = Consensus("admm", refusal, AdmmNode)
