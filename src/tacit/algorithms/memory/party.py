"""The party's side: its own block, its part of the window, and the coupled block Newton step."""

from __future__ import annotations

import numpy as np

from tacit.algorithms.base import Problem
from tacit.algorithms.block import Block
from tacit.algorithms.linear import CurvatureSolver, solve_scaled
from tacit.algorithms.memory.lean import WindowView
from tacit.algorithms.memory.outlook import Outlook, compact, window_size
from tacit.types import Arrays, Vector

COUPLING_CUTOFF = 1e-6  # eigenvalues of the scaled coupling matrix below this carry no information


class MemoryParty:
    """The party's side: its own block, its part of the window, and the coupled block Newton step."""

    def __init__(self, problem: Problem, block: Block, outlook: Outlook | WindowView) -> None:
        self.problem, self.block, self.outlook = problem, block, outlook
        self.ridge = problem.alpha * problem.regularizer.l2 * problem.total
        self.outer = block.outer() if block.d > block.n and self.ridge > 0 else None
        d, h = block.d, window_size(problem)
        self.coef = np.zeros(d)
        self.direction = np.zeros(d)
        self.moves, self.cross, self.other, self.solved = (np.zeros((d, h)) for _ in range(4))
        self.solver: CurvatureSolver | None = None

    def start_at(self, coef: Vector) -> Arrays:
        """Begin from given coefficients; the share of them is what the coordinator starts from."""
        self.coef = coef.copy()
        return {"share": self.block.predict(coef)}

    def step(self, round_: int, inbox: Arrays) -> Arrays:
        """One round: take the agreed step, then propose a direction."""
        slot, refresh, plain = (int(value) for value in inbox["control"])
        self.outlook.read(round_, inbox)
        if "kept" in inbox:
            for columns in (self.moves, self.cross, self.other, self.solved):
                compact(columns, inbox["kept"])
        self._move(inbox, slot)
        residual = inbox["residual"]
        if refresh or self.solver is None:
            gradient = self._refresh(residual)
        elif slot >= 0 and self.outlook.step is not None:
            gradient = self._add_column(slot, residual)
        else:
            gradient = self.block.correlate(residual)
        gradient = gradient + self.ridge * self.coef
        newton = self.solver.solve(gradient)  # type: ignore[union-attr]
        self.direction = -newton
        used = int(inbox["gram"].shape[0])
        if used and not plain:
            self.direction -= self.solved[:, :used] @ self._coupling(gradient, inbox, used)
        return self._release(gradient, newton, used, slot)

    def finish(self, inbox: Arrays) -> None:
        """Take the last agreed step."""
        self._move(inbox, int(inbox["control"][0]))

    def retune(self, problem: Problem) -> None:
        """Go on with another alpha: the Gram matrix stays, and is factorised anew with the other ridge."""
        self.problem = problem
        self.ridge = problem.alpha * problem.regularizer.l2 * problem.total
        if self.solver is not None:
            self.solver.set_ridge(self.ridge)
            self.solved = self.solver.solve(self.other)

    def _move(self, inbox: Arrays, slot: int) -> None:
        coefficients = inbox["coefficients"]
        if slot < 0 or not coefficients.size:
            return
        used = coefficients.size - 1
        move = self.moves[:, :used] @ coefficients[:-1] + self.direction * coefficients[-1]
        self.coef = self.coef + move
        self.moves[:, slot] = move

    def _refresh(self, residual: Vector | None = None) -> Vector:
        """Take another metric; returns D' residual, found in the same pass over the rows."""
        outlook, project = self.outlook, self.problem.fit_intercept
        used = outlook.used
        steps = outlook.steps[:, :used]
        if self.outer is not None:
            self.solver = CurvatureSolver(self.block, outlook.metric, self.ridge, project=project, outer=self.outer)
            cross = self.solver.cross_columns(steps)
            gradient = np.zeros(self.block.d) if residual is None else self.block.correlate(residual)
        else:
            swept = self.block.sweep(residual, outlook.metric, steps, gram=True, project=project)
            self.solver = CurvatureSolver(self.block, outlook.metric, self.ridge, project=project, swept=swept)
            cross, gradient = self.solver.projected_cross(swept.cross, steps), swept.gradient
        self.cross[:, :used] = cross
        self.other = self.cross - self.solver.times(self.moves)
        self.solved = self.solver.solve(self.other)
        return gradient

    def _add_column(self, slot: int, residual: Vector) -> Vector:
        """Take in the newest step; returns D' residual, found in the same pass over the rows."""
        assert self.solver is not None
        assert self.outlook.step is not None
        step = self.outlook.step[:, None]
        if self.solver.is_dual:
            cross, gradient = self.solver.cross(step[:, 0]), self.block.correlate(residual)
        else:
            swept = self.block.sweep(residual, self.outlook.metric, step, gram=False)
            cross, gradient = self.solver.projected_cross(swept.cross, step)[:, 0], swept.gradient
        self.cross[:, slot] = cross
        self.other[:, slot] = cross - self.solver.times(self.moves[:, slot])
        self.solved[:, slot] = self.solver.solve(self.other[:, slot])
        return gradient

    def _coupling(self, gradient: Vector, inbox: Arrays, used: int) -> Vector:
        """How far the others' past moves are wanted again, given that this party moves too (a Schur complement)."""
        moves, cross, other = (a[:, :used] for a in (self.moves, self.cross, self.other))
        solved = self.solved[:, :used]
        own = moves.T @ (cross - other)  # X' A X
        mixed = moves.T @ cross
        others = inbox["curvature_gram"] - mixed - mixed.T + own
        others = others + self.ridge * (inbox["gram"] - moves.T @ moves)
        reduced = others - other.T @ solved
        pull = moves.T @ gradient + solved.T @ gradient
        scale = np.diag(inbox["curvature_gram"] + self.ridge * inbox["gram"])
        return solve_scaled((reduced + reduced.T) / 2, pull, scale, COUPLING_CUTOFF)

    def _release(self, gradient: Vector, newton: Vector, used: int, slot: int) -> Arrays:
        p, moves = self.direction, self.moves[:, :used]
        return {
            "share": self.block.predict(p),
            "move_dot_newest": moves.T @ self.moves[:, slot] if used else np.zeros(0),
            "move_dot_direction": moves.T @ p,
            "move_dot_coef": moves.T @ self.coef,
            "coef_norm2": np.array([self.coef @ self.coef]),
            "direction_dots": np.array([p @ p, p @ self.coef, p @ gradient]),
            "gradient_dots": np.array([gradient @ gradient, gradient @ newton]),
        }

    def state(self) -> Arrays:
        """Everything needed to go on after a restart, except what the data give again."""
        return {
            "coef": self.coef,
            "direction": self.direction,
            "moves": self.moves,
            "cross": self.cross,
            "other": self.other,
            "solved": self.solved,
        }

    def restore(self, state: Arrays) -> None:
        """Go on from `state`; the factorisation is made again from the metric."""
        if self.outlook.metric.size:
            self._refresh()
        for name, value in state.items():
            setattr(self, name, value)
