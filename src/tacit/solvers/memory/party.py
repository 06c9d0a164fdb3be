"""The party's side: the window of the last steps, what it computes from broadcasts, and its block Newton step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack

from tacit.blocks import OneScore, SeveralBlock, SeveralCurvature
from tacit.blocks.dense import Block, CurvatureSolver, solve_scaled
from tacit.problem.losses.base import Loss
from tacit.solvers.base import Problem
from tacit.types import Arrays, Vector

# --- The last steps of z, and every small matrix that belongs to them


TOO_SMALL = 1e-4  # of the largest step: the rounding of a difference of z so small would be blown up by a large step,
DEPENDENT = 1e-6  # and so would that of a step of which the others leave less than this part (of its square)


class Window:
    """S with its Gram matrices: T = S' W_f S, G = sum_m X_m' X_m, sum_m E_m' E_m (`cross_gram`), and S' w_f.

    A step sits in a slot; when all are used the oldest is overwritten. With `project` the products are taken
    after removing the weighted mean, because an intercept has been minimised out. Where a row has several `scores`,
    steps have as many numbers for each row, W_f is a matrix for each row (`tacit.blocks`), and b a vector.
    """

    def __init__(self, rows: int, slots: int, *, project: bool, scores: OneScore | None = None) -> None:
        self.project, self.scores = project, scores or OneScore()
        self.steps = np.zeros((rows * self.scores.outputs, slots), order="F")
        self.intercepts = self.scores.zeros(slots)
        self.noise = np.zeros(slots)  # about the norm of the rounding of each step, of several scores
        self.gram, self.curvature_gram, self.cross_gram = (np.zeros((0, 0)) for _ in range(3))
        self.sums: Vector = self.scores.zeros(0)
        self.metric: Vector = np.zeros(0)
        self.slot, self.next_slot = -1, 0

    @property
    def used(self) -> int:
        """How many slots hold a step."""
        return len(self.gram)

    @property
    def columns(self) -> Vector:
        """The steps, one column each."""
        return self.steps[:, : self.used]

    @property
    def newest(self) -> Vector:
        """The step added last."""
        return self.steps[:, self.slot]

    def refresh(self, metric: Vector) -> None:
        """Take another metric."""
        self.metric, self.metric_sum = metric, self.scores.total(metric)
        self.curvature_gram = self._weighted_gram()
        self.sums = self.scores.columns_sums(metric, self.columns)

    def _weighted_gram(self) -> Vector:
        gram = np.zeros((self.used,) * 2)
        for rows in row_slices(len(self.metric), self.scores.outputs):
            part = np.sqrt(self.metric[rows, None]) * self.scores.away(self.metric[rows], self.columns[rows])
            gram += part.T @ part
        return gram

    def add(
        self, step: Vector | Combination, intercept: Any, gram_row: Vector, gram_own: float, noise: float = 0.0
    ) -> None:
        """Keep a step, with its part that moved b and its products in the parties' coefficients."""
        self.slot = self.next_slot
        self.next_slot = (self.slot + 1) % len(self.intercepts)
        for rows in row_slices(len(self.steps)):
            self.steps[rows, self.slot] = step[rows]
        self.intercepts[self.slot], self.noise[self.slot] = intercept, noise
        self.gram = with_row(self.gram, gram_row, gram_own, self.slot)
        products, own, total = self.products(self.newest)
        self.curvature_gram = with_row(self.curvature_gram, products, own, self.slot)
        if self.slot == len(self.sums):
            self.sums = np.concatenate([self.sums, self.scores.zeros(1)])
        self.sums[self.slot] = total

    def products(self, column: Vector) -> tuple[Vector, float, Any]:
        """S' W_f column, column' W_f column and the sum of W_f column, some rows at a time."""
        products, own, total = np.zeros(self.used), 0.0, self.scores.zeros(1)[0]
        for rows in row_slices(column.size, self.scores.outputs):
            weighted = self.metric[rows] * self.scores.away(self.metric[rows], column[rows])
            products += self.columns[rows].T @ weighted
            own += float(column[rows] @ weighted)
            total = total + self.scores.sums(weighted)
        return products, own, total

    def thin(self) -> Vector:
        """Forget the newest step, and those that are nearly rounding; return the slots of the others, oldest first."""
        slots = len(self.intercepts)
        size = np.sqrt(np.diag(self.curvature_gram))
        large = np.flatnonzero((size > TOO_SMALL * size.max(initial=0.0)) & (np.arange(self.used) != self.slot))
        scaled = self.curvature_gram[np.ix_(large, large)] / np.outer(size[large], size[large])
        kept = sorted(large[_independent(scaled)], key=lambda j: (j - self.next_slot) % slots)
        self.steps[:, : len(kept)] = self.columns[:, kept]
        self.intercepts[: len(kept)] = self.intercepts[kept]
        self.noise[: len(kept)] = self.noise[kept]
        grams = (self.gram, self.curvature_gram, self.cross_gram)
        self.gram, self.curvature_gram, self.cross_gram = (a[np.ix_(kept, kept)] for a in grams)
        self.sums = self.sums[kept]
        self.slot, self.next_slot = -1, len(kept) % slots
        return np.array(kept, dtype=np.float64)

    def correct(self, products: Vector) -> None:
        """Replace the newest row of G by what the parties measured, so that no rounding builds up."""
        if self.slot >= 0:
            self.gram[self.slot, :] = self.gram[:, self.slot] = products

    def take_cross(self, products: Vector) -> None:
        """Take in E' E from the parties: all of it after a refresh, otherwise its newest row, if there is one."""
        if products.ndim == 2:
            self.cross_gram = products
        elif products.size:
            self.cross_gram = with_row(self.cross_gram, products, float(products[self.slot]), self.slot)

    def projected(self, gram: Vector, sums: Vector) -> Vector:
        """A Gram matrix in the metric that is left once b is minimised out."""
        return gram - self.scores.removed(self.metric_sum, sums) if self.project else gram

    def state(self) -> Arrays:
        """Arrays from which `restore` goes on."""
        names = _ARRAYS if self.scores.outputs == 1 else (*_ARRAYS, "noise")
        return {name: getattr(self, name) for name in names} | {
            "slots": np.array([self.slot, self.next_slot], dtype=np.float64)
        }

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        for name in _ARRAYS if self.scores.outputs == 1 else (*_ARRAYS, "noise"):
            setattr(self, name, state[name])
        self.steps = np.asfortranarray(self.steps)
        self.metric_sum = self.scores.total(self.metric) if self.metric.size else 0.0
        self.slot, self.next_slot = (int(value) for value in state["slots"])


_ARRAYS = ("steps", "intercepts", "gram", "curvature_gram", "cross_gram", "sums", "metric")


def bordered(gram: Vector, row: Vector, corner: float) -> Vector:
    """A symmetric matrix with one more row and column."""
    return np.block([[gram, row[:, None]], [row[None, :], np.array([[corner]])]])


def with_row(gram: Vector, row: Vector, own: float, slot: int) -> Vector:
    """Put a row and its column into place `slot`, growing the matrix where the slot is new."""
    grown = bordered(gram, np.zeros(len(gram)), 0.0) if slot == len(gram) else gram.copy()
    full = np.zeros(len(grown))
    full[: row.size] = row[: len(grown)]
    full[slot] = own
    grown[slot, :] = full
    grown[:, slot] = full
    return grown


def _independent(gram: Vector) -> npt.NDArray[np.intp]:
    """Columns that span the others, by their Gram matrix of unit diagonal: a Cholesky factorisation with pivots."""
    if not len(gram):
        return np.zeros(0, dtype=np.intp)
    _, pivots, rank, _ = lapack.dpstrf(gram, tol=DEPENDENT)
    return np.asarray(pivots[:rank] - 1, dtype=np.intp)


# --- What keeps vectors of one number per row few: steps formed some rows at a time, and one window for all sides


ROWS_AT_ONCE = 65536


def row_slices(size: int, outputs: int = 1) -> Iterator[slice]:
    """Slices that cover a vector, none of which cuts a row of so many numbers."""
    step = max(1, ROWS_AT_ONCE // outputs) * outputs
    return (slice(start, start + step) for start in range(0, size, step))


@dataclass(frozen=True)
class Combination:
    """The vector [columns, share] weights + shift, of which some rows are formed where they are asked for."""

    columns: Vector
    share: Vector
    weights: Vector
    shift: Any
    scores: OneScore

    def __getitem__(self, rows: slice) -> Vector:
        moved = self.columns[rows] @ self.weights[:-1] + self.weights[-1] * self.share[rows]
        return np.asarray(moved + self.scores.repeat(self.shift, moved.size // self.scores.outputs))


class WindowView:
    """Stands for `Outlook` where the coordinator is in the same process: its own steps and metric, kept once.

    A party could compute all of it from the broadcasts, up to rounding, and sees nothing else.
    """

    def __init__(self) -> None:
        self.window: Window | None = None

    def watch(self, window: Window) -> None:
        """Look at the coordinator's window from now on."""
        self.window = window

    def read(self, round_: int, inbox: Arrays) -> None:
        """Nothing: the coordinator has what the broadcast says."""

    @property
    def _window(self) -> Window:
        assert self.window is not None, "nobody told the view which window to watch"
        return self.window

    @property
    def steps(self) -> Vector:
        """The past steps of z, one column each."""
        return self._window.steps

    @property
    def used(self) -> int:
        """How many of the columns hold a step."""
        return self._window.used

    @property
    def metric(self) -> Vector:
        """The frozen weights."""
        return self._window.metric

    @property
    def step(self) -> Vector | None:
        """The newest step."""
        return self._window.newest if self._window.slot >= 0 else None

    def state(self) -> Arrays:
        """Nothing: the coordinator saves it."""
        return {}

    def restore(self, state: Arrays) -> None:
        """Nothing: the coordinator restores it."""


# --- What every party can compute from the broadcasts alone


MOST_STEPS = 32  # with 16, long runs take up to half as many rounds more; with 64 the small problems lose digits


def window_size(problem: Problem) -> int:
    """How many past steps to keep: as many as help, and as memory allows."""
    return max(1, min(MOST_STEPS, problem.max_window))


def frozen_weights(loss: Loss, curvature: Vector) -> Vector:
    """The weights of the metric: the curvature, kept off zero where a loss has flat pieces."""
    top = float(curvature.max(initial=0.0))
    floor = 1e-3 if loss.outputs == 1 and loss.recover(np.zeros(1)) is None else 1e-12
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
        self.steps = np.zeros((problem.rows * problem.loss.outputs, window_size(problem)), order="F")
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
        derivative, weights = residual, self.weights
        if weights is not None:
            weights = np.repeat(weights, self.loss.outputs)
            derivative = np.divide(residual, weights, out=np.zeros_like(residual), where=weights > 0)
        recovered = self.loss.recover(derivative)
        assert recovered is not None, "this loss needs its step in the broadcast"
        predictions, curvature = recovered
        step = None if self._predictions is None else predictions - self._predictions
        self._predictions = predictions
        return step, curvature if weights is None else curvature * weights

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
    return WindowView() if problem.low_memory else Outlook(problem)


class MemoryParty:
    """The party's side: its own block, its part of the window, and the coupled block Newton step."""

    def __init__(self, problem: Problem, block: Block, outlook: Outlook | WindowView) -> None:
        self.problem, self.outlook, self.outputs = problem, outlook, problem.loss.outputs
        self.block: Any = block if self.outputs == 1 else SeveralBlock(block, self.outputs)
        self.ridge = problem.alpha * problem.regularizer.l2 * problem.total
        is_dual = self.outputs == 1 and block.d > block.n and self.ridge > 0
        self.outer = block.outer() if is_dual else None
        d, h = self.block.d, window_size(problem)
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
        if self.outputs > 1:
            self.direction = self.block.balanced(self.direction)
        return self._release(gradient, newton, used, slot) | self._cross_products(gradient, used, slot, refresh)

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
            make: Any = CurvatureSolver if self.outputs == 1 else SeveralCurvature
            self.solver = make(self.block, outlook.metric, self.ridge, project=project, swept=swept)
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
            swept = self.block.sweep(residual, self.outlook.metric, step, gram=False, project=False)
            cross, gradient = self.solver.projected_cross(swept.cross, step)[:, 0], swept.gradient
        self.cross[:, slot] = cross
        self.other[:, slot] = cross - self.solver.times(self.moves[:, slot])
        self.solved[:, slot] = self.solver.solve(self.other[:, slot])
        return np.asarray(gradient)

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

    def _cross_products(self, gradient: Vector, used: int, slot: int, refresh: int) -> Arrays:
        """What the certificate needs of E: E' g, and of E' E what the coordinator does not know yet."""
        cross = self.cross[:, :used]
        newest = cross.T @ self.cross[:, slot] if slot >= 0 else np.zeros(0)
        return {"cross_dot_gradient": cross.T @ gradient, "cross_dots": cross.T @ cross if refresh else newest}

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
