"""Sharing ADMM: the averaged form (default for every loss and penalty) and the published Jacobi form.

Solves  (1/total) sum_i s_i l(z_i; y_i) + alpha sum_m R(x_m),  z = sum_m D_m x_m + b.
One vector of n numbers goes down and one comes up per round; only the sum over the parties is used.

| symbol | meaning | held by |
|---|---|---|
| s, total | row weights and their sum; norms below are weighted by s | everybody |
| copies | M in the averaged form; 1 gives the published form, in which every party corrects the whole residual | - |
| rho | penalty times total, so that its size does not depend on n | everybody |
| a | (sum of shares + b) / copies | coordinator |
| w | the single state vector: z = prox_l(w), zbar = z / copies, u = w / copies - zbar | coordinator |
| q | a - zbar + u, the only vector that is broadcast | everybody |
| base, x | coefficients the round starts from; argmin (alpha total/rho) R(x) + 1/2 ||D x - (D base - q)||^2 | party |

After a round the next start (base, w, a, b) is a mixture of the last results: the newest alone (plain ADMM), or the
mixture whose residuals cancel best (Anderson acceleration). Parties mix their own part; only inner products travel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tacit.algorithms.base import Algorithm, Problem, Progress
from tacit.algorithms.block import Block
from tacit.algorithms.inner import ShareSolver
from tacit.problem.losses.base import Loss
from tacit.problem.regularizers.base import Regularizer
from tacit.types import Arrays, Vector

RELAXATION = 1.7  # of the first rounds; acceleration takes over after them
PLAIN_ROUNDS, WINDOW = 5, 15
GROWTH_ALLOWED = 2.0  # an accelerated step whose residual grows by more is taken back
ANDERSON_RIDGE = 1e-10
RHO_SLACK, RHO_CHANGE = 5.0, 10.0
DIVERGED, GROWING_ROUNDS = 1e3, 25  # the published form is stopped when its residual grows so far or so long


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
    spread = float(np.std(labels)) or 1.0
    if loss.concavity > 0:
        return 2.0 * copies * loss.concavity  # the z-update must have one minimiser
    if math.isfinite(loss.curvature):
        return 0.4 * loss.curvature
    if math.isfinite(loss.lipschitz):
        return 0.4 * loss.lipschitz / (1.0 if loss.task == "classification" else spread)
    return 0.4 * max(float(np.mean(labels)), 1e-3)


class SharingParty:
    """The party's side: one regularised least-squares problem per round."""

    def __init__(self, problem: Problem, block: Block, form: Form) -> None:
        self.problem, self.block, self.total = problem, block, problem.total
        self.solver = ShareSolver(block, problem.row_weights, problem.regularizer)
        self.coef = np.zeros(block.d)
        self.best = np.zeros(block.d)
        self.results, self.residuals = (np.zeros((block.d, form.window)) for _ in range(2))
        self.start = np.zeros(block.d)

    def start_at(self, coef: Vector) -> Arrays:
        """Begin from given coefficients."""
        self.coef, self.start, self.best = coef.copy(), coef.copy(), coef.copy()
        return {"share": self.block.predict(coef)}

    def step(self, round_: int, inbox: Arrays) -> Arrays:
        """Answer q with the share of the new coefficients."""
        rho, relaxation, slot, keep = (float(v) for v in inbox["control"])
        mixture = inbox["mixture"]
        if keep:
            self.best = self.coef
        base = self.results[:, : mixture.size] @ mixture if mixture.size else self.start
        pull = self.solver.correlate(inbox["q"])
        weight = self.problem.alpha * self.total / rho
        self.coef, certificate = self.solver.solve(base, inbox["q"], pull, weight)
        result = relaxation * self.coef + (1 - relaxation) * base
        products = self._store(int(slot), result, result - base)
        return {
            "share": self.block.predict(self.coef),
            "products": products,
            "numbers": np.array([self._penalty(), self._stationarity(base, rho * pull) ** 2]),
            **self._dual(inbox.get("dual")),
            "max_certificate": np.array([certificate]),
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

    def _dual(self, theta: Vector | None) -> Arrays:
        """Alpha R*(v) at v = -D'theta / (alpha total), after the shrinking that makes it finite."""
        if theta is None:
            return {}
        alpha = 1.0 if self.problem.regularizer.constraint else self.problem.alpha
        v = -self.solver.correlate(theta) / (alpha * self.total)
        shrink = self.problem.regularizer.shrink(v)
        value = alpha * self.problem.regularizer.conjugate(shrink * v) if shrink > 0 else 0.0
        return {"conjugate": np.array([value]), "min_shrink": np.array([shrink])}

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


class SharingCoordinator:
    """The coordinator's side: z-update, dual update, acceleration, certificates."""

    def __init__(self, problem: Problem, labels: Vector, form: Form) -> None:
        self.problem, self.form, self.labels, self.weights = problem, form, labels, problem.row_weights
        n, h = labels.size, form.window
        self.total, self.tol, self.copies = problem.total, problem.tol, form.copies
        self.rho = problem.rho or default_rho(problem.loss, labels, form.copies)
        if form.published and problem.rho is None:
            self.rho *= 2.5 * problem.parties  # it diverges once the parties' corrections add up past the residual
        self.w, self.a = np.zeros(n), np.zeros(n)
        self.z = np.zeros(n)
        self.base_intercept = self.intercept = 0.0
        self.result_w, self.result_a, self.residual_w = (np.zeros((n, h), order="F") for _ in range(3))
        self.result_b, self.residual_b = np.zeros(h), np.zeros(h)
        self.gram = np.zeros((h, h))
        self.mixture: Vector = np.zeros(0)
        self.slot = self.filled = self.round = self.last_slot = self.growing = 0
        self.best_objective = self.best_residual = self.last_residual = math.inf
        self.last_norm = self.before_residual = math.inf
        self.first_stationarity = 0.0
        self.last_z = self.z
        self.best_intercept = 0.0
        self.keep = False
        self.scale = 1e-3 * problem.loss.total(self.z, labels, self.weights) / self.total
        self._theta: Vector | None = None
        self.next_rho_check = 10

    def _mean(self, values: Vector) -> float:
        return float(values.sum() if self.weights is None else self.weights @ values) / self.total

    def _inner(self, a: Vector, b: Vector) -> Vector:
        return np.asarray(a.T @ (b if self.weights is None else self.weights * b))

    # --- the protocol ---------------------------------------------------------------------------------

    def start_at(self, total: Arrays, intercept: float) -> None:
        """Begin from coefficients the parties already hold, with the dual that belongs to their predictions."""
        z = total["share"] + intercept
        self.a = z / self.copies
        self.base_intercept = self.intercept = self.best_intercept = intercept
        self.w = z + self.problem.loss.grad(z, self.labels) * self.copies / self.rho

    def broadcast(self) -> Arrays:
        """z-update at w, then q."""
        self.round += 1
        step = self.copies / self.rho
        self.z = self.problem.loss.prox(self.w, self.labels, step)
        zbar = self.z / self.copies
        self._zbar = zbar
        self._u = self.w / self.copies - zbar
        self._q = self.a - zbar + self._u
        control = [self.rho, self._relaxation(), self.slot, self.keep]
        message = {"q": self._q, "mixture": self.mixture, "control": np.array(control, dtype=np.float64)}
        self._theta = self._dual_point() if self._checks_gap() else None
        return message if self._theta is None else {**message, "dual": self._theta}

    def _relaxation(self) -> float:
        if self.form.published or not self.problem.loss.convex:
            return 1.0
        return RELAXATION if self.round <= PLAIN_ROUNDS or not self.form.window > 1 else 1.0

    def _checks_gap(self) -> bool:
        """The dual point is a second vector in the broadcast, so it is sent in every fifth round only."""
        return self.round % 5 == 0 and not self._uncertifiable()

    def combine(self, total: Arrays) -> Progress:
        """Take in the new shares: intercept, dual, acceleration, certificates."""
        relaxation = self._relaxation()
        mean_q = self._mean(self._q) if self.problem.fit_intercept else 0.0
        self.intercept = self.base_intercept - mean_q
        predictions = total["share"] + self.intercept
        a_new = predictions / self.copies
        progress = self._measure(total, predictions)
        result_w = self.copies * (self._u + relaxation * a_new + (1 - relaxation) * self._zbar)
        result_a = relaxation * a_new + (1 - relaxation) * self.a
        result_b = relaxation * self.intercept + (1 - relaxation) * self.base_intercept
        norm = self._store(total["products"], result_w, result_a, result_b)
        self._choose_mixture(norm)
        self._adapt_rho(progress)
        return progress

    def closing(self) -> Arrays:
        """Tell the parties to end on the best coefficients (the last ones may be slightly worse)."""
        back = not self.keep and math.isfinite(self.best_objective)
        if back:
            self.intercept = self.best_intercept
        return {"control": np.array([float(back)])}

    # --- acceleration ---------------------------------------------------------------------------------

    def _store(self, products: Vector, result_w: Vector, result_a: Vector, result_b: float) -> float:
        """Put the round's result into its slot, and its inner products with the earlier ones into the Gram matrix."""
        slot = self.slot
        self.result_w[:, slot], self.result_a[:, slot], self.result_b[slot] = result_w, result_a, result_b
        self.residual_w[:, slot] = result_w - self.w
        self.residual_b[slot] = result_b - self.base_intercept
        self.filled = max(self.filled, slot + 1)
        used = self.filled
        row = products[:used] + self._inner(self.residual_w[:, :used], self.residual_w[:, slot]) / self.copies
        row += self.total * self.residual_b[:used] * self.residual_b[slot]
        self.gram[slot, :used] = self.gram[:used, slot] = row
        return math.sqrt(max(float(row[slot]), 0.0))

    def _choose_mixture(self, norm: float) -> None:
        """Plain step, accelerated step, or back to the last good result where acceleration did harm."""
        accelerate = self.form.window > 1 and self.round >= PLAIN_ROUNDS
        if accelerate and not norm <= GROWTH_ALLOWED * self.last_norm:
            self.mixture = _one_hot(self.last_slot, self.form.window)
            self._start_from(self.mixture)
            self._forget()
            return
        self.last_norm, self.last_slot = norm, self.slot
        if accelerate and self.filled > 1:
            self.mixture = _least_residual(self.gram[: self.filled, : self.filled])
        else:
            self.mixture = _one_hot(self.slot, self.filled)
        self._start_from(self.mixture)
        self.slot = (self.slot + 1) % self.form.window

    def _forget(self) -> None:
        """Empty the window (the mixture already chosen still refers to what the parties hold)."""
        self.slot = self.filled = 0
        self.last_norm = math.inf

    def _start_from(self, mixture: Vector) -> None:
        used = mixture.size
        self.w = self.result_w[:, :used] @ mixture
        self.a = self.result_a[:, :used] @ mixture
        self.base_intercept = float(self.result_b[:used] @ mixture)

    # --- the penalty ----------------------------------------------------------------------------------

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
        self._forget()

    # --- measuring ------------------------------------------------------------------------------------

    def _measure(self, total: Arrays, predictions: Vector) -> Progress:
        penalty, stationarity = (float(v) for v in total["numbers"])
        objective = self.problem.loss.total(predictions, self.labels, self.weights) / self.total + penalty
        self.keep = objective < self.best_objective
        if self.keep:
            self.best_objective, self.best_intercept = objective, self.intercept
        primal, dual, violation = self._residuals(predictions)
        gap = math.inf if self._theta is None else self._certified_gap(self._theta, total)
        self.last_residual = max(primal, dual)
        stationarity += violation * (1 + (self.rho / self.total) ** 2)
        self.first_stationarity = self.first_stationarity or stationarity
        return Progress(
            objective=objective,
            gap=gap,
            primal=primal,
            dual=dual,
            rho=self.rho,
            stationarity=stationarity,
            done=self._done(gap, stationarity),
            note=self._divergence(objective),
        )

    def _done(self, gap: float, stationarity: float) -> bool:
        """The certified gap decides; where there is none, the residuals; for a loss that is not convex, V."""
        if not self.problem.loss.convex:
            return stationarity <= self.tol**2 * self.first_stationarity
        if self._uncertifiable():
            return self.last_residual <= 0.1 * self.tol
        return gap <= self.tol * max(abs(self.best_objective), self.scale)

    def _residuals(self, predictions: Vector) -> tuple[float, float, float]:
        """Relative primal and dual residual, and the squared violation of z = sum of shares at the round's start."""
        size = max(self._size(self.z), self._size(predictions), 1e-15)
        primal = self._size(predictions - self.z) / size
        force = max(self._size(self._u), 1e-15)
        dual = self._size(self.z - self.last_z) / self.copies / force
        self.last_z = self.z
        return primal, dual, self.total * self._size(self.copies * self.a - self.z) ** 2

    def _size(self, values: Vector) -> float:
        """Weighted root mean square."""
        return math.sqrt(float(self._inner(values, values)) / self.total)

    def _uncertifiable(self) -> bool:
        """True where the dual has no finite point to offer, so that the residuals decide."""
        regularizer = self.problem.regularizer
        no_bound = regularizer.name in ("none", "nonnegative") or (
            self.problem.alpha <= 0 and not regularizer.constraint
        )
        return no_bound or not self.problem.loss.convex

    def _dual_point(self) -> Vector:
        """Loss derivatives at z, which lie in the domain of the conjugate; balanced where an intercept asks for it."""
        theta = self.rho * self._u
        if not self.problem.fit_intercept:
            return theta
        up, down = self._mean(np.maximum(theta, 0.0)), self._mean(np.maximum(-theta, 0.0))
        if up == 0.0 or down == 0.0:
            return np.zeros_like(theta)
        return theta * np.where(theta > 0, min(1.0, down / up), min(1.0, up / down))  # towards 0: stays in the domain

    def _certified_gap(self, theta: Vector, total: Arrays) -> float:
        """Best objective so far minus the dual value at theta: a true bound by weak duality."""
        theta = float(total["min_shrink"][0]) * theta
        dual = -self._mean(self.problem.loss.conjugate(theta, self.labels)) - float(total["conjugate"][0])
        return self.best_objective - dual

    def _divergence(self, objective: float) -> str:
        if not self.form.published:
            return ""
        norm = self.last_residual
        self.best_residual = min(self.best_residual, norm)
        self.growing = self.growing + 1 if norm > self.before_residual else 0
        self.before_residual = norm
        grown = norm >= DIVERGED * self.best_residual or self.growing >= GROWING_ROUNDS
        if objective < DIVERGED * (1e3 * self.scale) and not grown:  # 1e3 * scale: the loss of predicting nothing
            return ""
        return (
            f"the published form diverges at rho={self.rho / self.total:.3g}: every party corrects the whole residual "
            f'at once; use method="averaged", or a larger rho'
        )

    # --- pausing --------------------------------------------------------------------------------------

    def state(self) -> Arrays:
        """Everything needed to go on after a restart."""
        numbers = np.array([float(getattr(self, name)) for name in _NUMBERS])
        return {"numbers": numbers, **{name: getattr(self, name) for name in _ARRAYS}}

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        for name in _ARRAYS:
            setattr(self, name, state[name])
        for name, value in zip(_NUMBERS, state["numbers"], strict=True):
            kind = type(getattr(self, name))
            setattr(self, name, kind(value))


_ARRAYS = (
    "w",
    "a",
    "last_z",
    "result_w",
    "result_a",
    "residual_w",
    "result_b",
    "residual_b",
    "gram",
    "mixture",
)
_NUMBERS = (
    *(
        "rho",
        "base_intercept",
        "intercept",
        "best_intercept",
        "best_objective",
        "best_residual",
        "last_residual",
    ),
    *(
        "before_residual",
        "last_norm",
        "last_slot",
        "slot",
        "filled",
        "round",
        "keep",
        "next_rho_check",
        "growing",
    ),
)


def _one_hot(slot: int, size: int) -> Vector:
    mixture = np.zeros(size)
    mixture[slot] = 1.0
    return mixture


def _least_residual(gram: Vector) -> Vector:
    """Weights that sum to 1 and make the mixed residual smallest, a little ridge keeping them bounded."""
    unit = 1.0 / np.sqrt(np.maximum(np.diag(gram), 1e-300))
    scaled = unit[:, None] * gram * unit
    scaled[np.diag_indices_from(scaled)] += ANDERSON_RIDGE
    weights = unit * np.linalg.solve(scaled, unit / unit.max())
    return np.asarray(weights / weights.sum())


def _nothing_refused(loss: Loss, regularizer: Regularizer) -> str:
    return ""


AVERAGED = Algorithm(
    "averaged",
    refusal=_nothing_refused,
    party=lambda problem, block, _: SharingParty(problem, block, averaged_form(problem)),
    coordinator=lambda problem, labels: SharingCoordinator(problem, labels, averaged_form(problem)),
)
PUBLISHED = Algorithm(
    "published",
    refusal=_nothing_refused,
    party=lambda problem, block, _: SharingParty(problem, block, published_form(problem)),
    coordinator=lambda problem, labels: SharingCoordinator(problem, labels, published_form(problem)),
)
