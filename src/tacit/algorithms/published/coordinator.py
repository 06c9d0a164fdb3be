"""The central node as published: z-update, dual update, and both sent to every party."""

from __future__ import annotations

import math

import numpy as np

from tacit.algorithms.base import Problem, Progress, private_progress
from tacit.algorithms.constant import best_constant, constant_loss
from tacit.algorithms.published.settings import PublishedSettings
from tacit.algorithms.sharing.coordinator import DIVERGED, GROWING_ROUNDS
from tacit.types import Arrays, Vector


class PublishedCoordinator:
    """Holds the labels, s, z and y; hears only the sum of the noisy shares."""

    def __init__(self, problem: Problem, labels: Vector, settings: PublishedSettings) -> None:
        self.problem, self.labels, self.rho = problem, labels, settings.rho
        self.s, self.z, self.y = (np.zeros(labels.size) for _ in range(3))
        self.intercept = 0.0
        self.level = constant_loss(problem, labels, best_constant(problem, labels))
        self.last_residual, self.growing, self.round = math.inf, 0, 0

    def start_at(self, total: Arrays, intercept: float) -> None:
        """Never reached: the parties refuse."""

    def broadcast(self) -> Arrays:
        """What the paper distributes: s - z and y."""
        self.round += 1
        return {"residual": self.s - self.z, "dual": self.y}

    def combine(self, total: Arrays) -> Progress:
        """Take in the noisy shares: intercept, z and y."""
        if self.problem.fit_intercept:  # the x-update of a column of ones, from the same broadcast as the others
            self.intercept -= float(np.mean(self.s - self.z + self.y / self.rho))
        old, self.s = self.z, total["share"] + self.intercept
        self.z = self.problem.loss.prox(self.s + self.y / self.rho, self.labels, 1.0 / self.rho)
        self.y = self.y + self.rho * (self.s - self.z)
        size = max(_size(self.z), _size(self.s), 1e-15)
        primal, dual = _size(self.s - self.z) / size, self.rho * _size(self.z - old) / max(_size(self.y), 1e-15)
        return private_progress(rho=self.rho / self.problem.total, note=self._divergence(max(primal, dual)))

    def _divergence(self, residual: float) -> str:
        """Why a diverging run must stop; the loss of round 1, whose shares are noise alone, is not divergence."""
        loss = self.problem.loss.total(self.s, self.labels) / self.problem.total
        if self.round == 1:
            self.level = max(self.level, loss)
        self.growing = self.growing + 1 if residual > self.last_residual else 0
        self.last_residual = residual
        if loss < DIVERGED * self.level and self.growing < GROWING_ROUNDS:
            return ""
        return (
            f"the published mechanism diverges at rho={self.rho / self.problem.total:.3g}: every party corrects the "
            'whole residual at once; use mechanism="gram", or a larger rho'
        )

    def closing(self) -> Arrays:
        """Nothing: every party keeps its last noisy coefficients."""
        return {}

    def state(self) -> Arrays:
        """Everything needed to go on after a restart."""
        numbers = np.array([float(getattr(self, name)) for name in _NUMBERS])
        return {"s": self.s, "z": self.z, "y": self.y, "numbers": numbers}

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        self.s, self.z, self.y = state["s"], state["z"], state["y"]
        for name, value in zip(_NUMBERS, state["numbers"], strict=True):
            setattr(self, name, type(getattr(self, name))(value))


_NUMBERS = ("intercept", "level", "last_residual", "growing", "round")


def _size(values: Vector) -> float:
    """Root mean square."""
    return math.sqrt(float(values @ values) / values.size)
