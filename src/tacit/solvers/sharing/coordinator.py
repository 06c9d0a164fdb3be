"""The coordinator's side of sharing ADMM: z-update, dual update, acceleration, certificates.

Anderson acceleration chooses which mixture of the last results the next round starts from. The state of the coordinator
is (w, a, b); the parties hold the rest and send only inner products of their residuals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tacit.problem.losses.base import Loss, bare_labels
from tacit.solvers.base import Problem, Progress, best_constant, constant_loss, label_spread, negligible_objective
from tacit.solvers.duality import balanced, is_certifiable, lower_bound, weighted_mean
from tacit.types import Arrays, Vector

# --- Which form of sharing ADMM is run, and where its penalty starts


WINDOW = 15


@dataclass(frozen=True)
class Form:
    """Which of the two forms is run."""

    copies: int  # into how many parts the residual is divided
    window: int  # results kept for acceleration; 1: none
    published: bool = False


def averaged_form(problem: Problem) -> Form:
    """The averaged form, accelerated where the fixed point is smooth enough for it."""
    helps = problem.loss.convex and (problem.loss.smooth or problem.regularizer.strong_convexity > 0)
    room = 2 * problem.max_window // 3  # three vectors per result here, two per step where max_window was counted
    return Form(copies=problem.parties, window=max(1, min(WINDOW, room)) if helps else 1)


def published_form(problem: Problem) -> Form:
    """The paper's form: every party corrects the whole residual, nothing is accelerated."""
    return Form(copies=1, window=1, published=True)


def default_rho(loss: Loss, labels: Vector, copies: int) -> float:
    """Start for rho from the curvature of the loss, or from slope over spread of the labels where it has none."""
    spread = label_spread(labels)
    if loss.concavity > 0:
        return 2.0 * copies * loss.concavity  # the z-update must have one minimiser
    if math.isfinite(loss.curvature):
        return 0.4 * loss.curvature
    if math.isfinite(loss.lipschitz):
        return 0.4 * loss.lipschitz / (1.0 if loss.task == "classification" else spread)
    return 0.4 * max(float(np.mean(bare_labels(labels))), 1e-3)


# --- Anderson acceleration of the fixed point: which mixture of the last results the next round starts from


GROWTH_ALLOWED = 2.0  # an accelerated step whose residual grows by more is taken back
RIDGE = 1e-10


class Acceleration:
    """The last results and residuals, one per slot, with the Gram matrix of the residuals."""

    def __init__(self, rows: int, slots: int) -> None:
        self.slots = slots
        self.result_w, self.result_a, self.residual_w = (np.zeros((rows, slots), order="F") for _ in range(3))
        self.result_b, self.residual_b = np.zeros(slots), np.zeros(slots)
        self.gram = np.zeros((slots, slots))
        self.mixture: Vector = np.zeros(0)
        self.slot = self.filled = self.last_slot = 0
        self.last_norm = math.inf

    def store(self, w: Vector, a: Vector, b: float, residual_w: Vector, residual_b: float) -> None:
        """Put a round's result and residual into the current slot."""
        slot = self.slot
        self.result_w[:, slot], self.result_a[:, slot], self.result_b[slot] = w, a, b
        self.residual_w[:, slot], self.residual_b[slot] = residual_w, residual_b
        self.filled = max(self.filled, slot + 1)

    def choose(self, row: Vector, *, accelerate: bool) -> None:
        """Choose the mixture, given the inner products of the new residual with all that are kept.

        Plain step, accelerated step, or back to the last good result where acceleration did harm.
        """
        self.gram[self.slot, : self.filled] = self.gram[: self.filled, self.slot] = row
        norm = math.sqrt(max(float(row[self.slot]), 0.0))
        if accelerate and not norm <= GROWTH_ALLOWED * self.last_norm:
            self.mixture = _one_hot(self.last_slot, self.slots)
            self.forget()
            return
        self.last_norm, self.last_slot = norm, self.slot
        if accelerate and self.filled > 1:
            self.mixture = _least_residual(self.gram[: self.filled, : self.filled])
        else:
            self.mixture = _one_hot(self.slot, self.filled)
        self.slot = (self.slot + 1) % self.slots

    def start(self) -> tuple[Vector, Vector, float]:
        """(w, a, b) of the mixture."""
        used = self.mixture.size
        w, a = self.result_w[:, :used] @ self.mixture, self.result_a[:, :used] @ self.mixture
        return w, a, float(self.result_b[:used] @ self.mixture)

    def forget(self) -> None:
        """Empty the window (the mixture already chosen still refers to what the parties hold)."""
        self.slot = self.filled = 0
        self.last_norm = math.inf

    def state(self) -> Arrays:
        """Arrays from which `restore` goes on."""
        numbers = [self.slot, self.filled, self.last_slot, self.last_norm]
        return {name: getattr(self, name) for name in _ARRAYS} | {"slots": np.array(numbers, dtype=np.float64)}

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        for name in _ARRAYS:
            setattr(self, name, state[name])
        slot, filled, last_slot, self.last_norm = (float(value) for value in state["slots"])
        self.slot, self.filled, self.last_slot = int(slot), int(filled), int(last_slot)


_ARRAYS = ("result_w", "result_a", "residual_w", "result_b", "residual_b", "gram", "mixture")


def _one_hot(slot: int, size: int) -> Vector:
    mixture = np.zeros(size)
    mixture[slot] = 1.0
    return mixture


def _least_residual(gram: Vector) -> Vector:
    """Weights that sum to 1 and make the mixed residual smallest, a little ridge keeping them bounded."""
    unit = 1.0 / np.sqrt(np.maximum(np.diag(gram), 1e-300))
    scaled = unit[:, None] * gram * unit
    scaled[np.diag_indices_from(scaled)] += RIDGE
    weights = unit * np.linalg.solve(scaled, unit / unit.max())
    return np.asarray(weights / weights.sum())


# --- The coordinator's side: z-update, dual update, acceleration, certificates


RELAXATION = 1.7  # of the first rounds; acceleration takes over after them
PLAIN_ROUNDS = 5
STILL, STILL_ROUNDS = 0.1, 20  # without a certificate the best objective must not have fallen by this part of the bar
CHECK_EVERY = 5  # rounds between two certificates, which need a second vector in the broadcast
RHO_SLACK, RHO_CHANGE = 5.0, 10.0
DIVERGED, GROWING_ROUNDS = 1e3, 25  # the published form is stopped when its residual grows so far or so long


class SharingCoordinator:
    """Holds the labels and the state (w, a, b); hears only sums over the parties."""

    def __init__(self, problem: Problem, labels: Vector, form: Form) -> None:
        self.problem, self.form, self.labels = problem, form, labels
        self.total, self.tol, self.copies = problem.total, problem.tol, form.copies
        self.rho = problem.rho or default_rho(problem.loss, labels, form.copies)
        if form.published and problem.rho is None:
            self.rho *= 2.5 * problem.parties  # it diverges once the parties' corrections add up past the residual
        n, start = labels.size, best_constant(problem, labels)
        self.z = np.full(n, start)
        self.w, self.a = self.z.copy(), self.z / form.copies
        self.last_z = self.z
        self.acceleration = Acceleration(n, form.window)
        self.base_intercept = self.intercept = self.best_intercept = start
        self.best_objective = self.best_residual = self.last_residual = math.inf
        self.first_stationarity = 0.0
        self.past: Vector = np.full(STILL_ROUNDS, np.inf)  # the last best objectives
        self.keep = False
        self.round, self.growing, self.next_rho_check = 0, 0, 10
        self.scale = negligible_objective(problem, labels, start)
        self.constant_loss = constant_loss(problem, labels, start) + self.scale
        self._theta: Vector | None = None

    # --- the protocol ---------------------------------------------------------------------------------

    def start_at(self, total: Arrays, intercept: float) -> None:
        """Begin from coefficients the parties already hold, with the dual that belongs to their predictions."""
        z = total["share"] + intercept
        self.a = z / self.copies
        self.base_intercept = self.intercept = self.best_intercept = intercept
        self.w = z + self.problem.loss.grad(z, self.labels) * self.copies / self.rho
        self._judge(z, float(total["numbers"][0]))

    def broadcast(self) -> Arrays:
        """The z-update at w, then q."""
        self.round += 1
        self.z = self.problem.loss.prox(self.w, self.labels, self.copies / self.rho)
        self._zbar = self.z / self.copies
        self._u = self.w / self.copies - self._zbar
        self._q = self.a - self._zbar + self._u
        control = np.array([self.rho, self._relaxation(), self.acceleration.slot, self.keep], dtype=np.float64)
        message = {"q": self._q, "mixture": self.acceleration.mixture, "control": control}
        checks = self.round % CHECK_EVERY == 0 and is_certifiable(self.problem)
        self._theta = balanced(self.problem, self.rho * self._u) if checks else None  # rho u: loss derivatives at z
        return message if self._theta is None else {**message, "dual": self._theta}

    def combine(self, total: Arrays) -> Progress:
        """Take in the new shares: intercept, dual, acceleration, certificates."""
        relaxation = self._relaxation()
        mean_q = weighted_mean(self.problem, self._q) if self.problem.fit_intercept else 0.0
        self.intercept = self.base_intercept - mean_q
        predictions = total["share"] + self.intercept
        progress = self._measure(total, predictions)
        a = predictions / self.copies
        w = self.copies * (self._u + relaxation * a + (1 - relaxation) * self._zbar)
        self._advance(
            total["products"],
            w,
            relaxation * a + (1 - relaxation) * self.a,
            relaxation * self.intercept + (1 - relaxation) * self.base_intercept,
        )
        self._adapt_rho(progress)
        return progress

    def closing(self) -> Arrays:
        """Tell the parties to end on the best coefficients (the last ones may be slightly worse)."""
        back = not self.keep and math.isfinite(self.best_objective)
        if back:
            self.intercept = self.best_intercept
        return {"control": np.array([float(back)])}

    # --- from one round to the next -------------------------------------------------------------------

    def _relaxation(self) -> float:
        if self.form.published or not self.problem.loss.convex:
            return 1.0
        return RELAXATION if self.round <= PLAIN_ROUNDS or self.form.window == 1 else 1.0

    def _advance(self, products: Vector, w: Vector, a: Vector, b: float) -> None:
        """Choose where the next round starts; `products` are the parties' part of the residuals' inner products."""
        kept = self.acceleration
        residual_w, residual_b = w - self.w, b - self.base_intercept
        kept.store(w, a, b, residual_w, residual_b)
        used = kept.filled
        row = products[:used] + self._inner(kept.residual_w[:, :used], residual_w) / self.copies
        row += self.total * kept.residual_b[:used] * residual_b
        kept.choose(row, accelerate=self.form.window > 1 and self.round >= PLAIN_ROUNDS)
        self.w, self.a, self.base_intercept = kept.start()

    def _adapt_rho(self, progress: Progress) -> None:
        """Balance the residuals at rounds 10, 20, 40, ... where they are far apart, keeping z and the dual."""
        if self.problem.rho is not None or self.form.published or self.round < self.next_rho_check:
            return
        self.next_rho_check *= 2
        ratio = math.sqrt(progress.primal / progress.dual) if progress.primal > 0 < progress.dual else 1.0
        if 1 / RHO_SLACK < ratio < RHO_SLACK:
            return
        new = self.rho * min(max(ratio, 1 / RHO_CHANGE), RHO_CHANGE)
        new = max(new, 2 * self.copies * self.problem.loss.concavity)
        z = self.problem.loss.prox(self.w, self.labels, self.copies / self.rho)
        self.w = z + (self.w - z) * (self.rho / new)
        self.rho = new
        self.acceleration.forget()

    # --- measuring ------------------------------------------------------------------------------------

    def _measure(self, total: Arrays, predictions: Vector) -> Progress:
        penalty, stationarity = (float(v) for v in total["numbers"])
        objective = self._judge(predictions, penalty)
        primal, dual, violation = self._residuals(predictions)
        gap = math.inf
        if self._theta is not None:
            gap = max(0.0, self.best_objective - lower_bound(self.problem, self.labels, self._theta, total))
        grew = max(primal, dual) > self.last_residual
        self.last_residual = max(primal, dual)
        stationarity += violation * (1 + (self.rho / self.total) ** 2)
        self.first_stationarity = self.first_stationarity or stationarity
        return Progress(
            objective=self.best_objective,
            gap=gap,
            primal=primal,
            dual=dual,
            rho=self.rho / self.total,
            stationarity=stationarity,
            done=self._done(gap, stationarity),
            note=self._divergence(objective, grew) if self.form.published else "",
        )

    def _judge(self, predictions: Vector, penalty: float) -> float:
        """Objective of the model with these predictions; the best one is what the run would end on."""
        loss = self.problem.loss.total(predictions, self.labels, self.problem.row_weights) / self.total
        objective = loss + penalty
        self.keep = objective < self.best_objective
        if self.keep:
            self.best_objective, self.best_intercept = objective, self.intercept
        return objective

    def _done(self, gap: float, stationarity: float) -> bool:
        """The certified gap decides; where there is none, the residuals; for a loss that is not convex, V."""
        if not self.problem.loss.convex:
            return stationarity <= self.tol**2 * max(self.first_stationarity, self.constant_loss**2)
        bar = self.tol * max(self.best_objective, self.scale)
        if is_certifiable(self.problem):
            return gap <= bar
        fallen, self.past = float(self.past[0]) - self.best_objective, np.append(self.past[1:], self.best_objective)
        return self.last_residual <= 0.1 * self.tol and fallen <= STILL * bar

    def _residuals(self, predictions: Vector) -> tuple[float, float, float]:
        """Relative primal and dual residual, and the squared violation of z = sum of shares at the round's start."""
        size = max(self._size(self.z), self._size(predictions), 1e-15)
        primal = self._size(predictions - self.z) / size
        dual = self._size(self.z - self.last_z) / self.copies / max(self._size(self._u), 1e-15)
        self.last_z = self.z
        return primal, dual, self.total * self._size(self.copies * self.a - self.z) ** 2

    def _divergence(self, objective: float, grew: bool) -> str:
        """Why a diverging run must stop; empty while there is hope."""
        self.best_residual = min(self.best_residual, self.last_residual)
        self.growing = self.growing + 1 if grew else 0
        grown = self.last_residual >= DIVERGED * self.best_residual or self.growing >= GROWING_ROUNDS
        if objective < DIVERGED * self.constant_loss and not grown:
            return ""
        return (
            f"the published form diverges at rho={self.rho / self.total:.3g}: every party corrects the whole residual "
            f'at once; use method="averaged", or a larger rho'
        )

    def _inner(self, a: Vector, b: Vector) -> Vector:
        weights = self.problem.row_weights
        return np.asarray(a.T @ (b if weights is None else weights * b))

    def _size(self, values: Vector) -> float:
        """Weighted root mean square."""
        return math.sqrt(float(self._inner(values, values)) / self.total)

    # --- pausing --------------------------------------------------------------------------------------

    def state(self) -> Arrays:
        """Everything needed to go on after a restart."""
        numbers = np.array([float(getattr(self, name)) for name in _NUMBERS])
        own = {"numbers": numbers, "w": self.w, "a": self.a, "last_z": self.last_z, "past": self.past}
        return self.acceleration.state() | own

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        self.acceleration.restore(state)
        self.w, self.a, self.last_z, self.past = (state[name] for name in ("w", "a", "last_z", "past"))
        for name, value in zip(_NUMBERS, state["numbers"], strict=True):
            setattr(self, name, type(getattr(self, name))(value))


_NUMBERS = (
    "rho",
    "base_intercept",
    "intercept",
    "best_intercept",
    "best_objective",
    "best_residual",
    "last_residual",
    "first_stationarity",
    "keep",
    "round",
    "growing",
    "next_rho_check",
)
