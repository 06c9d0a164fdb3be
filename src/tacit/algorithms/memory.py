"""Sharing with memory: block Newton steps that share every earlier step as a free search direction.

Solves  (1/total) sum_i s_i l(z_i; y_i) + alpha/2 sum_m ||x_m||^2,  z = sum_m D_m x_m + b,  for a smooth convex loss.
One vector of n numbers goes down and one comes up per round, and only the sum over the parties is used.
The coordinator keeps z = sum_m D_m x_m exactly, so the objective can never rise.

| symbol | meaning | held by |
|---|---|---|
| r, w | s l'(z), s l''(z); w_f is w frozen at the last refresh | coordinator; parties from the broadcast |
| S | the last h steps of z, n x h, one slot each | coordinator; parties from the broadcast |
| X | the party's own part of these steps, d x h | party |
| A, E, H, Y | D'W_f D, D'W_f S, E - A X, (A + c I)^-1 H, with c = alpha * total | party |
| T, G | S'W_f S, sum_m X_m'X_m | everybody |
| p, share | the party's new direction and D p | party; only the sum of shares travels on |
| cf | coefficients of the step over [S, sum of shares] | coordinator, broadcast |

With an intercept every weighted product is taken after projecting out the constant (weights w_f), and the
coordinator keeps b at its exact minimiser: the parties never see it.
"""

from __future__ import annotations

import numpy as np

from tacit.algorithms.base import Algorithm, Problem, Progress
from tacit.algorithms.block import Block
from tacit.algorithms.linear import CurvatureSolver, solve_scaled
from tacit.problem.losses.base import Loss
from tacit.problem.regularizers.base import Regularizer
from tacit.types import Arrays, Vector

REFRESH_ROUNDS = frozenset({1, 2, 5, 12, 30, 75, 190, 475})
COUPLING_CUTOFF = 1e-6  # eigenvalues of the scaled coupling matrix below this carry no information
SUBSPACE_CUTOFF = 1e-12
INNER_STEPS = 2


def window_size(problem: Problem) -> int:
    """How many past steps to keep: what more parties need, and what memory allows."""
    return max(1, min(16 if problem.parties <= 2 else 32, problem.max_window))


def frozen_weights(loss: Loss, curvature: Vector) -> Vector:
    """The weights of the metric: the curvature, kept off zero where a loss has flat pieces."""
    top = float(curvature.max(initial=0.0))
    floor = 1e-3 if loss.recover(np.zeros(1)) is None else 1e-12
    return np.maximum(curvature, floor * (top or 1.0))


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


class MemoryParty:
    """The party's side: its own block, its part of the window, and the coupled block Newton step."""

    def __init__(self, problem: Problem, block: Block, outlook: Outlook) -> None:
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
        return {"share": self.block.predict(coef), "norms": np.array([coef @ coef])}

    def step(self, round_: int, inbox: Arrays) -> Arrays:
        """One round: take the agreed step, then propose a direction."""
        slot, refresh, plain = (int(value) for value in inbox["control"])
        self.outlook.read(round_, inbox)
        self._move(inbox, slot)
        if refresh or self.solver is None:
            self._refresh()
        elif slot >= 0 and self.outlook.step is not None:
            self._add_column(slot)
        gradient = self.block.correlate(inbox["residual"]) + self.ridge * self.coef
        newton = self.solver.solve(gradient)  # type: ignore[union-attr]
        self.direction = -newton
        used = int(inbox["gram"].shape[0])
        if used and not plain:
            self.direction -= self.solved[:, :used] @ self._coupling(gradient, inbox, used)
        return self._release(gradient, newton, used)

    def finish(self, inbox: Arrays) -> None:
        """Take the last agreed step."""
        self._move(inbox, int(inbox["control"][0]))

    def _move(self, inbox: Arrays, slot: int) -> None:
        coefficients = inbox["coefficients"]
        if slot < 0 or not coefficients.size:
            return
        used = coefficients.size - 1
        move = self.moves[:, :used] @ coefficients[:-1] + self.direction * coefficients[-1]
        self.coef = self.coef + move
        self.moves[:, slot] = move

    def _refresh(self) -> None:
        self.solver = CurvatureSolver(
            self.block,
            self.outlook.metric,
            self.ridge,
            project=self.problem.fit_intercept,
            outer=self.outer,
        )
        used = self.outlook.used
        if used:
            self.cross[:, :used] = self.solver.cross_columns(self.outlook.steps[:, :used])
        self.other = self.cross - self.solver.times(self.moves)
        self.solved = self.solver.solve(self.other)

    def _add_column(self, slot: int) -> None:
        assert self.solver is not None
        assert self.outlook.step is not None
        self.cross[:, slot] = self.solver.cross(self.outlook.step)
        self.other[:, slot] = self.cross[:, slot] - self.solver.times(self.moves[:, slot])
        self.solved[:, slot] = self.solver.solve(self.other[:, slot])

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

    def _release(self, gradient: Vector, newton: Vector, used: int) -> Arrays:
        p, moves = self.direction, self.moves[:, :used]
        return {
            "share": self.block.predict(p),
            "move_dot_direction": moves.T @ p,
            "move_dot_coef": moves.T @ self.coef,
            "norms": np.array(
                [
                    self.coef @ self.coef,
                    p @ p,
                    p @ self.coef,
                    gradient @ gradient,
                    gradient @ newton,
                    gradient @ p,
                ]
            ),
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


class MemoryCoordinator:
    """The coordinator's side: exact predictions z, and the small problem over everything tried so far."""

    def __init__(self, problem: Problem, labels: Vector) -> None:
        self.problem, self.labels, self.weights = problem, labels, problem.row_weights
        self.alpha = problem.alpha * problem.regularizer.l2
        self.total = problem.total
        self.sends_step = problem.loss.recover(np.zeros(1)) is None
        n = labels.size
        self.steps = np.zeros((n, window_size(problem)), order="F")
        self.step_intercepts = np.zeros(window_size(problem))
        self._step_sums, self._metric_sum = np.zeros(0), 1.0
        self.gram = np.zeros((0, 0))
        self.curvature_gram = np.zeros((0, 0))
        self.metric: Vector = np.zeros(0)
        self.z = np.zeros(n)
        self.intercept = 0.0
        self.norm2 = 0.0
        self.coefficients: Vector = np.zeros(0)
        self.slot, self.next_slot, self.round, self.plain = -1, 0, 0, False
        self._evaluate()
        self.scale = 1e-3 * self.data_term
        if problem.fit_intercept:
            self._settle_intercept()

    # --- the state of the predictions -----------------------------------------------------------------

    def _evaluate(self, data_term: float | None = None) -> None:
        """Loss (where it is not yet known), residual r and curvature w at z."""
        self.data_term = self._data_value(self.z) if data_term is None else data_term
        self.residual, self.curvature = self.problem.loss.slopes(self.z, self.labels)
        if self.weights is not None:
            self.residual, self.curvature = self.weights * self.residual, self.weights * self.curvature

    def _data_value(self, z: Vector) -> float:
        return self.problem.loss.total(z, self.labels, self.weights) / self.total

    @property
    def objective(self) -> float:
        """Objective at the current predictions."""
        return self.data_term + 0.5 * self.alpha * self.norm2

    def _settle_intercept(self) -> None:
        """Move b to the minimiser over b alone, so that the residual sums to zero."""
        for _ in range(50):
            slope = float(self.residual.sum())
            if abs(slope) <= 1e-12 * max(float(np.abs(self.residual).sum()), 1e-300):
                return
            curvature = max(float(self.curvature.sum()), 1e-12 * self.total)
            move, before = -slope / curvature, self.data_term
            while self._data_value(self.z + move) > before + 1e-4 * move * slope / self.total + 1e-15 * before:
                move /= 4
                if abs(move) < 1e-15 * (1 + abs(self.intercept)):
                    return
            self.z += move
            self.intercept += move
            self._evaluate()
            if abs(move * slope) / self.total < 1e-14 * max(before, self.scale):
                return

    # --- the protocol ---------------------------------------------------------------------------------

    def start_at(self, total: Arrays, intercept: float) -> None:
        """Begin from coefficients the parties already hold."""
        self.z = total["share"] + intercept
        self.norm2 = float(total["norms"][0])
        self.intercept = intercept
        self._evaluate()
        if self.problem.fit_intercept:
            self._settle_intercept()

    def broadcast(self) -> Arrays:
        """The residual, the step just taken, and the small matrices of the window."""
        self.round += 1
        refresh = self.round in REFRESH_ROUNDS or not self.metric.size
        if refresh:
            self._refresh()
        message = {"residual": self.residual, **self._common(refresh)}
        if self.sends_step:
            if self.slot >= 0:
                message["step"] = self.steps[:, self.slot]
            if refresh:
                message["curvature"] = self.curvature
        return message

    def closing(self) -> Arrays:
        """The last step's coefficients."""
        return self._common(False)

    def _common(self, refresh: bool) -> Arrays:
        return {
            "control": np.array([self.slot, refresh, self.plain], dtype=np.float64),
            "coefficients": self.coefficients,
            "gram": self.gram,
            "curvature_gram": self._projected(self.curvature_gram, self._step_sums, self._metric_sum),
        }

    def _refresh(self) -> None:
        self.metric = frozen_weights(self.problem.loss, self.curvature)
        used = len(self.gram)
        self.curvature_gram = weighted_gram(self.steps[:, :used], self.metric)
        self._step_sums = self.steps[:, :used].T @ self.metric
        self._metric_sum = float(self.metric.sum())

    def _projected(self, gram: Vector, sums: Vector, total: float) -> Vector:
        return gram - np.outer(sums, sums) / total if self.problem.fit_intercept else gram

    def combine(self, total: Arrays) -> Progress:
        """Minimise over every direction known so far, the new sum of shares included."""
        share = total["share"]
        norm2, pp, px, gg, decrement, _slope = total["norms"]
        self.norm2 = float(norm2)
        gap = self._certified_gap(float(gg))
        start, intercept = self.z.copy(), self.intercept
        self._minimise(share, total["move_dot_direction"], float(pp), total["move_dot_coef"], float(px))
        self._remember(self.z - start, self.intercept - intercept)
        objective = self.objective
        bar = self.problem.tol * max(abs(objective), self.scale)
        return Progress(
            objective=objective,
            gap=gap,
            dual=float(np.sqrt(gg)) / self.total,
            done=gap <= bar if np.isfinite(gap) else 5 * float(decrement) / self.total <= bar,
        )

    def _certified_gap(self, gg: float) -> float:
        """The duality gap ||grad||^2 / (2 alpha) at the broadcast point: the objective has not risen since."""
        if self.alpha <= 0:
            return float("inf")
        return gg / (2 * self.alpha * self.total**2)

    def _minimise(self, share: Vector, xp: Vector, pp: float, xx: Vector, px: float) -> None:
        """Chord Newton over cf in z + [S, share] cf (+ b), with an exact line search on the true objective."""
        used = len(self.gram)
        subspace = _Subspace(self, share, xp, pp, xx, px)
        cf = np.zeros(used + 1)
        moved_intercept = 0.0
        first = 0.0
        for inner in range(INNER_STEPS):
            direction, shift, slope = subspace.newton(cf, self.residual)
            if inner == 0:
                first = -slope
            if -slope <= 1e-3 * first * (inner > 0) or -slope <= 1e-16 * max(self.objective, self.scale):
                break
            step = subspace.move(direction) + shift
            curvature = float(self.curvature @ (step * step)) / self.total + self.alpha * subspace.quadratic(direction)
            first_length = -slope / curvature if curvature > 0 else 1.0
            length, value = self._search(step, slope, first_length, subspace, cf, direction)
            if length == 0.0:
                break
            self.z = self.z + length * step
            cf = cf + length * direction
            moved_intercept += length * shift
            self.norm2 = subspace.norm2(cf)
            self._evaluate(value)
        self.intercept += moved_intercept + float(self.step_intercepts[:used] @ cf[:-1])
        self.coefficients = cf
        self._gram_after(subspace, cf)
        if self.problem.fit_intercept:
            self._settle_intercept()

    def _search(
        self, step: Vector, slope: float, length: float, subspace: _Subspace, cf: Vector, direction: Vector
    ) -> tuple[float, float]:
        """Step length that lowers the true objective enough, and the loss there; 0 where there is none."""
        before = self.objective
        for _ in range(40):
            penalty = 0.5 * self.alpha * subspace.norm2(cf + length * direction)
            value = self._data_value(self.z + length * step)
            if value + penalty <= before + 1e-4 * length * slope:
                return length, value
            length /= 2
        return 0.0, self.data_term

    def _gram_after(self, subspace: _Subspace, cf: Vector) -> None:
        """Grow G by the step just taken (slot by slot), from small matrices alone."""
        row = subspace.penalty_gram @ cf
        own = float(cf @ row)
        self.slot = self.next_slot
        self.gram = _with_row(self.gram, row[:-1], own, self.slot)
        self.next_slot = (self.slot + 1) % self.steps.shape[1]

    def _remember(self, step: Vector, intercept: float) -> None:
        """Put the step, with its part that moved b, into its slot; and its products with the others into T."""
        self.steps[:, self.slot] = step
        self.step_intercepts[self.slot] = intercept
        used = len(self.gram)
        weighted = self.metric * step
        products = self.steps[:, :used].T @ weighted
        self.curvature_gram = _with_row(self.curvature_gram, products, float(products[self.slot]), self.slot)
        if self.slot == self._step_sums.size:
            self._step_sums = np.append(self._step_sums, 0.0)
        self._step_sums[self.slot] = weighted.sum()

    # --- pausing --------------------------------------------------------------------------------------

    def state(self) -> Arrays:
        """Everything needed to go on after a restart."""
        numbers = [self.slot, self.next_slot, self.round, self.plain, self.intercept, self.norm2]
        return {
            "steps": self.steps,
            "gram": self.gram,
            "curvature_gram": self.curvature_gram,
            "step_sums": self._step_sums,
            "step_intercepts": self.step_intercepts,
            "metric": self.metric,
            "z": self.z,
            "coefficients": self.coefficients,
            "numbers": np.array(numbers, dtype=np.float64),
        }

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        self.steps = np.asfortranarray(state["steps"])
        self.gram, self.curvature_gram = state["gram"], state["curvature_gram"]
        self._step_sums, self.metric = state["step_sums"], state["metric"]
        self.step_intercepts = state["step_intercepts"]
        self._metric_sum = float(self.metric.sum())
        self.z, self.coefficients = state["z"], state["coefficients"]
        slot, next_slot, round_, plain, self.intercept, self.norm2 = (float(v) for v in state["numbers"])
        self.slot, self.next_slot, self.round, self.plain = (
            int(slot),
            int(next_slot),
            int(round_),
            bool(plain),
        )
        self._evaluate()


class _Subspace:
    """The quadratic model over cf: Gram matrices of [S, share], with b minimised out where there is one."""

    def __init__(self, owner: MemoryCoordinator, share: Vector, xp: Vector, pp: float, xx: Vector, px: float) -> None:
        self.owner, self.share = owner, share
        used = len(owner.gram)
        self.window = owner.steps[:, :used]
        self.alpha, self.total = owner.alpha, owner.total
        self.start_norm2 = owner.norm2
        self.linear = np.append(xx, px)
        self.penalty_gram = _bordered(owner.gram, xp, pp)
        weighted = owner.metric * share
        gram = _bordered(owner.curvature_gram, self.window.T @ weighted, float(share @ weighted))
        self.sums = np.append(owner._step_sums, weighted.sum())
        gram = owner._projected(gram, self.sums, owner._metric_sum)
        self.model = gram / self.total + self.alpha * self.penalty_gram

    def newton(self, cf: Vector, residual: Vector) -> tuple[Vector, float, float]:
        """Direction over cf, the move of b that goes with it, and the slope of the objective along both."""
        slopes = np.append(self.window.T @ residual, self.share @ residual) / self.total
        gradient = slopes + self.alpha * (self.linear + self.penalty_gram @ cf)
        shift, sum_ = 0.0, 0.0
        if self.owner.problem.fit_intercept:
            sum_ = float(residual.sum()) / self.total
            gradient_profile = gradient - self.sums * (sum_ * self.total / self.owner._metric_sum) / self.total
        else:
            gradient_profile = gradient
        direction = -solve_scaled(self.model, gradient_profile, np.diag(self.model), SUBSPACE_CUTOFF)
        if self.owner.problem.fit_intercept:
            shift = -(float(self.sums @ direction) + sum_ * self.total) / self.owner._metric_sum
        return direction, shift, float(gradient @ direction) + sum_ * shift

    def move(self, cf: Vector) -> Vector:
        """[S, share] cf."""
        return np.asarray(self.window @ cf[:-1] + cf[-1] * self.share)

    def quadratic(self, cf: Vector) -> float:
        """Cf' (penalty Gram) cf."""
        return float(cf @ self.penalty_gram @ cf)

    def norm2(self, cf: Vector) -> float:
        """||x||^2 after the step cf."""
        return self.start_norm2 + 2 * float(cf @ self.linear) + self.quadratic(cf)


def weighted_gram(columns: Vector, weights: Vector) -> Vector:
    """Columns' diag(weights) columns, in chunks of rows."""
    gram = np.zeros((columns.shape[1],) * 2)
    for start in range(0, len(weights), 65536):
        rows = np.sqrt(weights[start : start + 65536, None]) * columns[start : start + 65536]
        gram += rows.T @ rows
    return gram


def _bordered(gram: Vector, row: Vector, corner: float) -> Vector:
    return np.block([[gram, row[:, None]], [row[None, :], np.array([[corner]])]])


def _with_row(gram: Vector, row: Vector, own: float, slot: int) -> Vector:
    """Put a row and its column into place `slot`, growing the matrix where the slot is new."""
    grown = _bordered(gram, np.zeros(len(gram)), 0.0) if slot == len(gram) else gram.copy()
    size = len(grown)
    full = np.zeros(size)
    full[: row.size] = row[:size]
    full[slot] = own
    grown[slot, :] = full
    grown[:, slot] = full
    return grown


def _refusal(loss: Loss, regularizer: Regularizer) -> str:
    if not (loss.smooth and loss.convex):
        return f"loss={loss.name!r} is not smooth and convex"
    return "" if regularizer.form == "quadratic" else f"penalty={regularizer.name!r} is not l2"


MEMORY = Algorithm("memory", refusal=_refusal, party=MemoryParty, coordinator=MemoryCoordinator, shared=Outlook)
