"""The coordinator's side of noisy shares: it sees their sum alone, and all that it does is post-processing of that."""

from __future__ import annotations

import numpy as np

from tacit.algorithms.base import Problem, Progress, private_progress
from tacit.algorithms.constant import best_constant
from tacit.algorithms.shares.settings import SharesSettings
from tacit.algorithms.shares.surrogate import Surrogate
from tacit.algorithms.sharing.form import default_rho
from tacit.errors import RunError
from tacit.types import Arrays, Vector


class SharesCoordinator:
    """Averaged sharing ADMM (see algorithms/sharing); the intercept is one more block, which the coordinator holds."""

    def __init__(self, problem: Problem, labels: Vector, settings: SharesSettings) -> None:
        self.problem, self.labels = problem, labels
        self.copies = problem.parties + int(problem.fit_intercept)
        self.rho = problem.rho or default_rho(problem.loss, labels, self.copies)
        start = best_constant(problem, labels)
        self.surrogate = Surrogate(problem, labels, start) if settings.quadratic else None
        self.steps, self.sum = settings.steps, np.zeros(labels.size)
        self.w = np.full(labels.size, start)
        self.a = self.w / self.copies
        self.base_intercept = self.intercept = start

    def start_at(self, total: Arrays, intercept: float) -> None:
        """Refuse: a start that depends on the data has no bound."""
        raise RunError("mechanism='shares' starts from zero: leave warm_start out")

    def broadcast(self) -> Arrays:
        """The z-update at w, then q."""
        step = self.copies / self.rho
        if self.surrogate is None:
            self.z = self.problem.loss.prox(self.w, self.labels, step)
        else:
            self.z = self.surrogate.prox(self.w, step)
        self._u = (self.w - self.z) / self.copies
        self._q = self.a - self.z / self.copies + self._u
        self._next_intercept = self.base_intercept - (float(self._q.mean()) if self.problem.fit_intercept else 0.0)
        return {"q": self._q, "control": np.array([self.rho])}

    def combine(self, total: Arrays) -> Progress:
        """Take in the sum of the noisy shares, or of the steps towards them."""
        self.sum = self.sum + total["share"] if self.steps else total["share"]
        self.base_intercept = self.intercept = self._next_intercept
        scores = self.sum + self.base_intercept
        self.a = scores / self.copies
        self.w = self.copies * (self._u + self.a)
        return private_progress(rho=self.rho / self.problem.total)

    def closing(self) -> Arrays:
        """One more q, for the fits that stay with the parties, and the intercept beside them."""
        message = self.broadcast()
        self.intercept = self._next_intercept
        if self.surrogate is not None:
            self.intercept = self.surrogate.intercept(self.z, self._next_intercept)
        return message

    def state(self) -> Arrays:
        """Everything needed to go on after a restart."""
        numbers = np.array([self.rho, self.base_intercept, self.intercept])
        return {"w": self.w, "a": self.a, "sum": self.sum, "numbers": numbers}

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        self.w, self.a, self.sum = state["w"], state["a"], state["sum"]
        self.rho, self.base_intercept, self.intercept = (float(v) for v in state["numbers"])
