"""The party's side: its block, its part of the window, what it computes from broadcasts, and its block Newton step."""

from __future__ import annotations

import numpy as np

from tacit.blocks.dense import Block, CurvatureSolver, solve_scaled
from tacit.problem.losses.base import Loss
from tacit.solvers.base import Problem
from tacit.solvers.memory.window import WindowView
from tacit.types import Arrays, Vector

# --- What every party can compute from the broadcasts alone


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


# --- The party's side: its own block, its part of the window, and the coupled block Newton step


COUPLING_CUTOFF = 1e-6  # eigenvalues of the scaled coupling matrix below this carry no information


def shared_window(problem: Problem) -> Outlook | WindowView:
    """What parties of one process keep once between them; where memory is short, the coordinator's own window."""
    return WindowView() if problem.lean else Outlook(problem)


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
