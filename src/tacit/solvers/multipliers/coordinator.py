"""The small problem at the coordinator: the smoothed objective over every direction known so far."""

from __future__ import annotations

import math

import numpy as np

from tacit.blocks.dense import solve_scaled
from tacit.solvers.base import Problem, Progress, best_constant, constant_loss, negligible_objective
from tacit.solvers.duality import balance, is_certifiable, lower_bound, shrunk
from tacit.solvers.memory.party import ROWS_AT_ONCE, Window
from tacit.solvers.multipliers.envelopes import LossEnvelope, SmoothLoss
from tacit.solvers.multipliers.party import Control, Damping, StepKind, window_size
from tacit.types import Arrays, Vector

# --- The small problem at the coordinator: the smoothed objective over every direction known so far


CUTOFF = 1e-9
INNER_STEPS = 8
SLOPE_LEFT = 1e-3  # the search ends when the slope has fallen to this part of the first
MOST_HALVINGS = 30


class SmoothedSubspace:
    """Smoothed objective over cf in z + [S, share, 1] cf: exact for the loss, a quadratic model for the penalty.

    Without an intercept there is no column of ones.
    """

    def __init__(self, envelope: LossEnvelope, window: Window, z: Vector, here: SmoothLoss, total: Arrays) -> None:
        self.envelope, self.columns, self.share = envelope, window.columns, total["share"]
        self.with_intercept = window.project
        extra = int(self.with_intercept)
        self.linear = np.append(total["linear"], np.zeros(extra))
        self.quadratic = np.pad(total["gram"], (0, extra))
        self.cf = np.zeros(self.linear.size)
        self.z, self.here = z, here

    @property
    def coefficients(self) -> Vector:
        """The part of cf that concerns the parties."""
        return self.cf[:-1] if self.with_intercept else self.cf

    @property
    def shift(self) -> float:
        """How far b has moved."""
        return float(self.cf[-1]) if self.with_intercept else 0.0

    def penalty_change(self, cf: Vector) -> float:
        """What the model of the penalty says that cf changes."""
        return float(self.linear @ cf + 0.5 * cf @ self.quadratic @ cf)

    def minimise(self, small: float) -> None:
        """Newton steps with halving, until the slope is small beside the first, or below `small`."""
        first = 0.0
        for _ in range(INNER_STEPS):
            direction, slope = self._newton()
            first = max(first, -slope)
            if -slope <= max(SLOPE_LEFT * first, small) or not self._advance(direction, slope):
                return

    def _newton(self) -> tuple[Vector, float]:
        gradient = self._correlate(self.envelope.weigh(self.here.slope)) + self.linear + self.quadratic @ self.cf
        model = self._gram(self.envelope.metric(self.here.curvature)) + self.quadratic
        direction = -solve_scaled(model, gradient, np.diag(model), CUTOFF)
        return direction, float(gradient @ direction)

    def _advance(self, direction: Vector, slope: float) -> bool:
        step, length = self.predict(direction), 1.0
        before = self.here.value + self.penalty_change(self.cf)
        for _ in range(MOST_HALVINGS):
            cf, z = self.cf + length * direction, self.z + length * step
            here = self.envelope.at(z)
            if here.value + self.penalty_change(cf) <= before + 1e-4 * length * slope:
                self.cf, self.z, self.here = cf, z, here
                return True
            length /= 2
        return False

    def predict(self, cf: Vector) -> Vector:
        """[S, share, 1] cf; without its last entry, [S, share] cf."""
        used = self.columns.shape[1]
        step = self.columns @ cf[:used] + cf[used] * self.share
        return step + cf[-1] if cf.size > used + 1 else step

    def _correlate(self, residual: Vector) -> Vector:
        ones = [float(residual.sum())] if self.with_intercept else []
        return np.array([*(self.columns.T @ residual), float(self.share @ residual), *ones])

    def _gram(self, metric: Vector) -> Vector:
        gram = np.zeros_like(self.quadratic)
        for start in range(0, len(metric), ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            ones = [np.ones(len(metric[rows]))] if self.with_intercept else []
            part = np.column_stack([self.columns[rows], self.share[rows], *ones])
            gram += part.T @ (metric[rows, None] * part)
        return gram


# --- The coordinator's side: exact predictions z, the loss's envelope, and when the multipliers move


REFRESH_ROUNDS = frozenset({1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987})
LEAST_STEPS, MOST_STEPS = 2, 20  # between two moves of the multipliers
PRECISE = 0.1  # multipliers move once the Newton decrement is below this part of the infeasibility
NEGLIGIBLE = 1e-2  # ... or below this part of what the tolerance allows
GROWTH, MOST_GROWTH = 1.5, 1e3  # of the stiffnesses: at a move, and over the run
ESTIMATED = 10.0  # times the estimated gap must be within tol where no bound is useful


class MultipliersCoordinator:
    """Keeps z = sum_m D_m x_m + b exactly, and the best model evaluated so far."""

    def __init__(self, problem: Problem, labels: Vector) -> None:
        self.problem, self.labels, self.total = problem, labels, problem.total
        self.loss = LossEnvelope(problem, labels)
        self.window = Window(labels.size, window_size(problem), project=problem.fit_intercept)
        self.damping = Damping()
        start = best_constant(problem, labels)
        self.z, self.intercept, self.coefficients = np.full(labels.size, start), start, np.zeros(0)
        self.here = self.loss.at(self.z)
        self.quadratic = problem.regularizer.form == "quadratic"
        self.round, self.steps, self.growth, self.grown = 0, 0, 1.0, 1.0
        self.precise, self.plain, self.primal, self.dual = False, False, 1.0, math.inf
        nothing = constant_loss(problem, labels, start)
        self.scale = negligible_objective(problem, labels, start)
        feasible = math.isfinite(problem.regularizer.value(np.zeros(1)))
        self.kind = StepKind.STEP if feasible else StepKind.EVALUATE
        self.best_objective, self.best_intercept, self.keep = nothing if feasible else math.inf, start, False

    def start_at(self, total: Arrays, intercept: float) -> None:
        """Begin from coefficients the parties already hold."""
        self.z, self.intercept, self.kind = total["share"] + intercept, intercept, StepKind.STEP
        self.here = self.loss.at(self.z)
        self.best_objective = math.inf
        self._judge(self.z, float(total["numbers"][0]))

    # --- the protocol ---------------------------------------------------------------------------------

    def broadcast(self) -> Arrays:
        """The last step, and unless it is only to be evaluated the slopes and the small matrices of the window."""
        message = {"coefficients": self.coefficients}
        if self.coefficients.size:
            message["step"] = self.window.newest
        if self.kind == StepKind.EVALUATE:
            return message | {"control": self._control(refresh=False)}
        self.round += 1
        if self.kind == StepKind.MULTIPLY:
            self._move_multipliers()
        refresh = self.round in REFRESH_ROUNDS or not self.window.metric.size
        if refresh:
            self.window.refresh(self.loss.metric(self.here.curvature) / self.loss.stiffness)
            message["metric"] = self.window.metric
        window = self.window
        return message | {
            "control": self._control(refresh),
            "residual": self.loss.weigh(self.here.slope),
            "gram": window.gram,
            "curvature_gram": self.loss.stiffness * window.projected(window.curvature_gram, window.sums),
        }

    def _control(self, refresh: bool) -> Vector:
        up, down = balance(self.problem, self.here.slope)
        self._theta = shrunk(self.problem, self.here.slope, up, down)
        keep, self.keep = self.keep, False
        control = Control(
            kind=self.kind,
            slot=self.window.slot,
            refresh=refresh,
            keep=keep,
            plain=self.plain,
            stiffness=self.loss.stiffness,
            growth=self.growth,
            up=up,
            down=down,
            damping=self.damping.level,
        )
        return control.pack()

    def _move_multipliers(self) -> None:
        self.growth = GROWTH if self.precise and self.grown < MOST_GROWTH else 1.0
        self.grown *= self.growth
        self.loss.move_multiplier(self.here, self.growth)
        self.here = self.loss.at(self.z)
        self.steps = 0

    def combine(self, total: Arrays) -> Progress:
        """Judge the model at the point reached, or step on."""
        self.damping.judge(float(total["numbers"][1]))
        if self.kind == StepKind.EVALUATE:
            self._judge(total["share"] + self.intercept, float(total["numbers"][0]))
            self.coefficients, self.kind = np.zeros(0), StepKind.MULTIPLY
            return self._progress(math.inf, math.inf)
        worth, _, penalty, infeasible, gradient2, newton, decrement = (float(number) for number in total["numbers"])
        self.plain = decrement < 0.5 * newton  # the coupling led astray: leave it out once
        if self.quadratic:
            self._judge(self.z, worth)
        infeasible += self.loss.infeasibility(self.here)
        small = max(PRECISE * infeasible, NEGLIGIBLE * self._bar() * self.total)
        self.precise = abs(decrement) <= small
        self._measure(infeasible, gradient2)
        bound = (penalty + self.here.value - 2 * abs(decrement)) / self.total
        progress = self._progress(self._certified_gap(total), self.best_objective - bound)
        self._advance(total, penalty)
        self._choose_kind()
        return progress

    def _choose_kind(self) -> None:
        self.steps += 1
        moving = (self.steps >= LEAST_STEPS and self.precise) or self.steps >= MOST_STEPS
        last = StepKind.MULTIPLY if self.quadratic else StepKind.EVALUATE  # x is the model there: known already
        self.kind = last if moving else StepKind.STEP

    def _advance(self, total: Arrays, penalty: float) -> None:
        """Minimise over every direction known so far, and keep the step."""
        subspace = SmoothedSubspace(self.loss, self.window, self.z, self.here, total)
        subspace.minimise(1e-12 * self.total * self.scale)
        change = subspace.penalty_change(subspace.cf)
        self.damping.expect(penalty + change, self.here.value - subspace.here.value - change)
        self.coefficients = subspace.coefficients
        step = subspace.predict(self.coefficients)
        self.z, self.here = subspace.z, subspace.here
        self.intercept += subspace.shift
        used, row = self.window.used, total["gram"] @ self.coefficients
        self.window.gram = total["gram"][:used, :used]  # the penalty's curvature is another in every round
        self.window.add(step, 0.0, row[:-1], float(self.coefficients @ row))

    def closing(self) -> Arrays:
        """Tell the parties to end on the best coefficients."""
        self.intercept = self.best_intercept
        return {"control": np.array([float(self.keep)])}

    # --- measuring ------------------------------------------------------------------------------------

    def _judge(self, predictions: Vector, penalty: float) -> None:
        loss = self.problem.loss.total(predictions, self.labels, self.problem.row_weights)
        objective = loss / self.total + penalty
        self.keep = objective < self.best_objective
        if self.keep:
            self.best_objective, self.best_intercept = objective, self.intercept

    def _measure(self, infeasible: float, gradient2: float) -> None:
        """How far t and k are from z and x, in the unit of z and beside its size; norm of the smoothed gradient."""
        distance = math.sqrt(infeasible / self.loss.stiffness)
        size = math.sqrt(self.loss.sum(self.z**2))
        self.primal = distance / max(size, distance, 1e-300)
        self.dual = math.sqrt(gradient2) / self.total

    def _certified_gap(self, total: Arrays) -> float:
        """Best objective so far minus the dual value: a true bound by weak duality."""
        if not is_certifiable(self.problem):
            return math.inf
        return max(0.0, self.best_objective - lower_bound(self.problem, self.labels, self._theta, total))

    def _progress(self, gap: float, estimate: float) -> Progress:
        """The certified gap decides; where it is missing or lags (none, x >= 0, l1 alone) also an estimate of it."""
        regularizer = self.problem.regularizer
        lags = not is_certifiable(self.problem) or (regularizer.l1 > 0 and regularizer.l2 == 0)
        bar = self._bar()
        return Progress(
            objective=self.best_objective,
            gap=gap,
            primal=self.primal,
            dual=self.dual,
            rho=self.loss.stiffness / self.total,
            done=gap <= bar or (lags and self.precise and ESTIMATED * abs(estimate) <= bar),
        )

    def _bar(self) -> float:
        """The gap at which a run may stop."""
        return self.problem.tol * max(abs(self.best_objective), self.scale)

    # --- pausing --------------------------------------------------------------------------------------

    def state(self) -> Arrays:
        """Everything needed to go on after a restart."""
        numbers = [float(getattr(self, name)) for name in _NUMBERS]
        return self.window.state() | {
            "z": self.z,
            "coefficients": self.coefficients,
            "multiplier": self.loss.multiplier,
            "numbers": np.array([self.loss.stiffness, *numbers]),
            "damping": self.damping.state(),
        }

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        self.loss.multiplier, self.loss.stiffness = state["multiplier"], float(state["numbers"][0])
        for name, value in zip(_NUMBERS, state["numbers"][1:], strict=True):
            setattr(self, name, type(getattr(self, name))(value))
        self.z, self.coefficients = state["z"], state["coefficients"]
        self.window.restore(state)
        self.damping.restore(state["damping"])
        self.here = self.loss.at(self.z)


_NUMBERS = (
    *("kind", "round", "steps", "growth", "grown", "precise", "plain", "primal", "dual"),
    *("intercept", "best_intercept", "best_objective", "scale", "keep"),
)
