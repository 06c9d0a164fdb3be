"""The party's side: one regularised least-squares problem per round."""

from __future__ import annotations

import numpy as np

from tacit.algorithms.base import Problem
from tacit.algorithms.block import Block
from tacit.algorithms.duality import conjugate_terms
from tacit.algorithms.inner import ShareSolver
from tacit.algorithms.sharing.form import Form
from tacit.types import Arrays, Vector


class SharingParty:
    """The party's side: one regularised least-squares problem per round."""

    def __init__(self, problem: Problem, block: Block, form: Form) -> None:
        self.problem, self.block, self.total = problem, block, problem.total
        self.solver = ShareSolver(block, problem.row_weights, problem.regularizer)
        self.coef = np.zeros(block.d)
        self.best = np.zeros(block.d)
        self.results, self.residuals = (np.zeros((block.d, form.window)) for _ in range(2))
        self.start = np.zeros(block.d)
        self.certificate = 0.0  # of the last x-update: how far its optimality condition is from holding

    def start_at(self, coef: Vector) -> Arrays:
        """Begin from given coefficients."""
        if self.problem.regularizer.constraint:
            coef = self.problem.regularizer.prox(coef, 1.0)
        self.coef, self.start, self.best = coef.copy(), coef.copy(), coef.copy()
        return {"share": self.block.predict(coef), "numbers": np.array([self._penalty()])}

    def step(self, round_: int, inbox: Arrays) -> Arrays:
        """Answer q with the share of the new coefficients."""
        rho, relaxation, slot, keep = (float(v) for v in inbox["control"])
        mixture = inbox["mixture"]
        if keep:
            self.best = self.coef
        base = self.results[:, : mixture.size] @ mixture if mixture.size else self.start
        pull = self.solver.correlate(inbox["q"])
        weight = self.problem.alpha * self.total / rho
        self.coef, self.certificate = self.solver.solve(base, inbox["q"], pull, weight)
        result = relaxation * self.coef + (1 - relaxation) * base
        products = self._store(int(slot), result, result - base)
        return {
            "share": self.block.predict(self.coef),
            "products": products,
            "numbers": np.array([self._penalty(), self._stationarity(base, rho * pull) ** 2]),
            **(conjugate_terms(self.problem, self.solver.correlate(inbox["dual"])) if "dual" in inbox else {}),
        }

    def _store(self, slot: int, result: Vector, residual: Vector) -> Vector:
        self.results[:, slot], self.residuals[:, slot] = result, residual
        return self.residuals.T @ self.solver.times(residual)

    def _penalty(self) -> float:
        return self.problem.alpha * self.problem.regularizer.value(self.coef)

    def _stationarity(self, x: Vector, pull: Vector) -> float:
        """||x - prox(x - gradient)||, the x-part of the Lyapunov function of the convergence analysis, eq. (13)."""
        regularizer, gradient = self.problem.regularizer, pull / self.total
        if regularizer.form == "quadratic":
            return float(np.linalg.norm(gradient + self.problem.alpha * regularizer.l2 * x))
        return float(np.linalg.norm(x - regularizer.prox(x - gradient, self.problem.alpha or 1.0)))

    def finish(self, inbox: Arrays) -> None:
        """End on the best coefficients found."""
        if inbox["control"][0]:
            self.coef = self.best

    def state(self) -> Arrays:
        """Everything needed to go on after a restart, except what the data give again."""
        names = ("coef", "best", "start", "results", "residuals")
        return {name: getattr(self, name) for name in names}

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        for name, value in state.items():
            setattr(self, name, value)
