"""The coordinator's side: exact predictions z, and the small problem over everything tried so far."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import blas

from tacit.blocks import scores_of
from tacit.blocks.dense import solve_scaled
from tacit.problem.losses.base import Loss
from tacit.problem.regularizers import Regularizer
from tacit.solvers.base import Problem, Progress, best_constant, constant_scores, negligible_objective
from tacit.solvers.memory.party import Combination, Window, bordered, frozen_weights, row_slices, window_size
from tacit.types import Arrays, Vector

# --- The joint predictions z, their loss, its derivatives, and the intercept


UNSEEN = 1e-12  # of the loss: what a step gains below this, rounding may hide, and the step is taken unseen,
SURE = 1e-3  # where it is this small beside the intercept


class JointPredictions:
    """z with everything the coordinator knows about it; moved only to where the objective is known."""

    def __init__(self, problem: Problem, labels: Vector) -> None:
        self.problem, self.labels, self.weights = problem, labels, problem.row_weights
        self.scores = scores_of(problem.loss.outputs)
        self.by_score = self.weights  # the weight of each number of z
        if self.weights is not None and self.scores.outputs > 1:
            self.by_score = np.repeat(self.weights, self.scores.outputs)
        self.total = problem.total
        self.scale = 0.0
        start = best_constant(problem, labels)
        self.place(constant_scores(problem, labels, start), start)
        self.scale = negligible_objective(problem, labels, self.intercept)

    def place(self, z: Vector, intercept: Any) -> None:
        """Put z somewhere, and b to its minimiser."""
        self.z, self.intercept = z, intercept
        self._evaluate(self.loss_at(z))
        if self.problem.fit_intercept:
            self.settle_intercept()

    def combine(self, step: Combination) -> Any:
        """A step in the form that the next three take."""
        return step[:]

    def curvature_along(self, step: Any) -> float:
        """Second derivative of the sum of losses along a step."""
        return float(self.curvature @ np.square(self.scores.away(self.curvature, step)))

    def loss_along(self, step: Any, length: float) -> float:
        """Mean loss at the end of so much of a step."""
        return self.loss_at(self.z + length * step)

    def move(self, step: Any, length: float, loss: float) -> None:
        """Go so far along a step, at whose end the loss is known."""
        self.z = self.z + length * step
        self._evaluate(loss)

    def mark(self) -> Any:
        """Where z is, for `moved_since`."""
        return self.z

    def moved_since(self, mark: Any, step: Combination) -> Vector | Combination:
        """How far z has moved; `step` says it up to rounding."""
        return np.asarray(self.z - mark) if self.scores.outputs == 1 else step

    def loss_at(self, z: Vector) -> float:
        """Mean loss of other predictions."""
        return self.problem.loss.total(z, self.labels, self.weights) / self.total

    def _evaluate(self, loss: float) -> None:
        self.loss = loss
        self.residual, self._curvature = self.problem.loss.slopes(self.z, self.labels)
        if self.by_score is not None:
            self.residual, self._curvature = self.by_score * self.residual, self.by_score * self._curvature

    @property
    def curvature(self) -> Vector:
        """Second derivatives at z."""
        return self._curvature

    def settle_intercept(self) -> None:
        """Move b to the minimiser over b alone, so that the residual sums to zero."""
        for _ in range(50):
            slope = self.scores.sums(self.residual)
            if np.max(np.abs(slope)) <= 1e-12 * float(blas.dasum(self.residual)):
                return
            move, loss = self._intercept_step(slope)
            gain = self.loss - loss
            if not np.any(move):
                return
            self._shift(move)
            self.intercept = self.intercept + move
            self._evaluate(loss)
            if gain < 1e-14 * max(loss, self.scale):
                return

    def _curvature_sum(self) -> Any:
        return self.scores.total(self.curvature)

    def _shift(self, move: Any) -> None:
        self.z = self.z + self.scores.repeat(move, self.labels.size)

    def _loss_shifted(self, move: Any) -> float:
        return self.loss_at(self.z + self.scores.repeat(move, self.labels.size))

    def _intercept_step(self, slope: Any) -> tuple[Any, float]:
        """Newton's step for b, shortened until the loss falls; 0 where it does not."""
        move = -self.scores.solve(self._curvature_sum(), slope, 1e-12 * self.total)
        along = float(np.dot(move, slope)) / self.total
        sure = np.max(np.abs(move)) <= SURE * (1 + np.max(np.abs(self.intercept)))
        if -0.5 * along <= UNSEEN * max(self.loss, self.scale) and sure:
            return move, self._loss_shifted(move)
        for _ in range(40):
            loss = self._loss_shifted(move)
            if loss <= self.loss + 1e-4 * along:
                return move, loss
            move, along = move / 4, along / 4
        return 0.0 * move, self.loss

    def restore(self, z: Vector, intercept: Any, scale: float) -> None:
        """Go on from a saved place."""
        self.z, self.intercept, self.scale = z, intercept, scale
        self._evaluate(self.loss_at(z))


class LowMemoryPredictions(JointPredictions):
    """The same, with three vectors: labels, z and residual, moved in place some rows at a time."""

    def place(self, z: Vector, intercept: float) -> None:
        """Put z, which is kept and changed, somewhere, and b to its minimiser."""
        self.residual = np.empty_like(z)
        super().place(z, intercept)

    def loss_at(self, z: Vector | Combination) -> float:
        """Mean loss of other predictions."""
        parts = (self._total(z[rows], rows) for rows in row_slices(self.labels.size))
        return sum(parts) / self.total

    def combine(self, step: Combination) -> Combination:
        """A step as it is: its rows are formed when they are needed."""
        return step

    def curvature_along(self, step: Combination) -> float:
        """Second derivative of the sum of losses along a step."""
        return sum(float(self._slopes(rows)[1] @ np.square(step[rows])) for rows in row_slices(self.labels.size))

    def loss_along(self, step: Combination, length: float) -> float:
        """Mean loss at the end of so much of a step."""
        slices = row_slices(self.labels.size)
        return sum(self._total(self.z[rows] + length * step[rows], rows) for rows in slices) / self.total

    def move(self, step: Combination, length: float, loss: float) -> None:
        """Go so far along a step, at whose end the loss is known."""
        for rows in row_slices(self.labels.size):
            self.z[rows] += length * step[rows]
        self._evaluate(loss)

    def mark(self) -> None:
        """Nothing: z changes in place."""

    def moved_since(self, mark: None, step: Combination) -> Combination:
        """How far z has moved: the step itself."""
        return step

    @property
    def curvature(self) -> Vector:
        """Second derivatives, made anew each time."""
        curvature = np.empty(self.labels.size)
        for rows in row_slices(self.labels.size):
            curvature[rows] = self._slopes(rows)[1]
        return curvature

    def _total(self, z: Vector, rows: slice) -> float:
        weights = None if self.weights is None else self.weights[rows]
        return self.problem.loss.total(z, self.labels[rows], weights)

    def _slopes(self, rows: slice) -> tuple[Vector, Vector]:
        residual, curvature = self.problem.loss.slopes(self.z[rows], self.labels[rows])
        if self.weights is None:
            return residual, curvature
        return self.weights[rows] * residual, self.weights[rows] * curvature

    def _evaluate(self, loss: float) -> None:
        self.loss, self._summed_curvature = loss, 0.0
        for rows in row_slices(self.labels.size):
            self.residual[rows], curvature = self._slopes(rows)
            self._summed_curvature += float(curvature.sum())

    def _curvature_sum(self) -> float:
        return self._summed_curvature

    def _shift(self, move: float) -> None:
        self.z += move

    def _loss_shifted(self, move: float) -> float:
        slices = row_slices(self.labels.size)
        return sum(self._total(self.z[rows] + move, rows) for rows in slices) / self.total


# --- The small problem at the coordinator: the objective over every direction known so far


SUBSPACE_CUTOFF = 1e-12
INNER_STEPS = 5  # with 2 the next round works on what this one could have done without a message
NEEDLESS = 1e-12  # of z
ROUNDED, ALLOWED = (
    1e-15,
    1e-10,
)  # rounding of a new direction, and what a step may bring into z, relative to their norms
SLOPE_LEFT = 1e-5  # the search ends when the slope has fallen to this part of the first


class StepSubspace:
    """Objective over cf in z + [S, share] cf + b, and its chord Newton model in the frozen metric.

    The penalty along cf is known exactly from the parties' inner products, so no message is needed.
    """

    def __init__(self, predictions: JointPredictions, window: Window, alpha: float, total: Arrays) -> None:
        self.predictions, self.window, self.alpha = predictions, window, alpha
        heard = _is_more_than_rounding(total["share"], predictions.z)
        self.share = total["share"] if heard else 0.0 * total["share"]  # not copied: it has a number for every row
        pp, px = (heard * float(value) for value in total["direction_dots"][:2])
        self.start_norm2 = float(total["coef_norm2"][0])
        self.linear = np.append(total["move_dot_coef"], px)
        self.penalty_gram = bordered(window.gram, heard * total["move_dot_direction"], pp)
        products, own, total_weighted = window.products(self.share)
        gram = bordered(window.curvature_gram, products, own)
        self.sums = np.concatenate([window.sums, [total_weighted]])
        self.model = window.projected(gram, self.sums) / predictions.total + alpha * self.penalty_gram
        self.noise = np.append(window.noise[: window.used], ROUNDED * float(np.linalg.norm(self.share)))
        self.cf = np.zeros(window.used + 1)
        self.shift: Any = 0.0

    def minimise(self) -> None:
        """A few Newton steps with an exact line search on the true objective: it never rises."""
        first = 0.0
        for inner in range(INNER_STEPS):
            direction, shift, slope = self._newton()
            first = first or -slope
            small = SLOPE_LEFT * first if inner else 1e-16 * max(self.objective(), self.predictions.scale)
            if -slope <= small or not self._advance(direction, shift, slope):
                return

    def objective(self) -> float:
        """Objective at the current predictions."""
        return self.predictions.loss + 0.5 * self.alpha * self.norm2(self.cf)

    def norm2(self, cf: Vector) -> float:
        """||x||^2 after the step cf."""
        return self.start_norm2 + 2 * float(cf @ self.linear) + float(cf @ self.penalty_gram @ cf)

    def intercept_move(self) -> Any:
        """How far b has moved: its own shift, and the part inside the steps that are used again."""
        return self.shift + self.cf[:-1] @ self.window.intercepts[: self.window.used]

    def step(self, more: Any) -> Combination:
        """How far z has moved, with so much `more` of b."""
        return self._combination(self.cf, self.shift + more)

    def _combination(self, cf: Vector, shift: Any) -> Combination:
        return Combination(self.window.columns, self.share, cf, shift, self.window.scores)

    def _newton(self) -> tuple[Vector, Any, float]:
        """Direction over cf, the move of b that goes with it, and the slope of the objective along both."""
        residual, total = self.predictions.residual, self.predictions.total
        slopes = np.append(self.window.columns.T @ residual, self.share @ residual) / total
        gradient = slopes + self.alpha * (self.linear + self.penalty_gram @ self.cf)
        if not self.window.project:
            direction = self._solve(gradient)
            return direction, self.window.scores.zeros(1)[0], float(gradient @ direction)
        scores, metric_sum = self.window.scores, self.window.metric_sum
        pull = scores.sums(residual)  # the slope in b, times total
        reduced = gradient - np.dot(self.sums, scores.solve(metric_sum, pull)) / total
        direction = self._solve(reduced)
        shift = -scores.solve(metric_sum, direction @ self.sums + pull)
        return direction, shift, float(gradient @ direction + np.dot(pull / total, shift))

    def _solve(self, gradient: Vector) -> Vector:
        """Newton's direction; of several scores without what would bring more rounding into z than it may.

        There are more steps than dimensions sooner, and the last of them are nearly combinations of the others.
        """
        scale, cutoff = np.diag(self.model), SUBSPACE_CUTOFF
        direction = -solve_scaled(self.model, gradient, scale, cutoff)
        if self.window.scores.outputs > 1:
            most = ALLOWED * (1.0 + float(np.linalg.norm(self.predictions.z)))
            while np.abs(self.cf + direction) @ self.noise > most and cutoff < 1:
                cutoff *= 10
                direction = -solve_scaled(self.model, gradient, scale, cutoff)
        return direction

    def _advance(self, direction: Vector, shift: Any, slope: float) -> bool:
        """Go along the direction as far as the true curvature says, less where that is too far."""
        predictions = self.predictions
        step = predictions.combine(self._combination(direction, shift))
        curvature = predictions.curvature_along(step) / predictions.total
        curvature += self.alpha * float(direction @ self.penalty_gram @ direction)
        length = -slope / curvature if curvature > 0 else 1.0
        before = self.objective()
        for _ in range(40):
            cf = self.cf + length * direction
            loss = predictions.loss_along(step, length)
            if loss + 0.5 * self.alpha * self.norm2(cf) <= before + 1e-4 * length * slope:
                self.cf = cf
                self.shift = self.shift + length * shift
                predictions.move(step, length, loss)
                return True
            length /= 2
        return False


def _is_more_than_rounding(share: Vector, z: Vector) -> bool:
    """False for a direction that the window has made needless: using what is left of it would multiply its rounding."""
    return float(np.linalg.norm(share)) > NEEDLESS * float(np.linalg.norm(z))


# --- How far the objective can still fall: a bound from the best dual point among those the window knows
#
# Weak duality bounds the gap at a point x by any theta that sums to zero, where there is an intercept:
#
#     gap <= (1/total) sum_i s_i [l(z_i) + l*(theta_i) - theta_i z_i]
#            + |g + D' S (theta - l'(z))|^2 / (2 alpha total^2).
#
# At theta = l'(z) the sum is zero, and the plain bound |g|^2 / (2 alpha total^2) is left. It is loose: every part of g
# is divided by alpha, those of large curvature too. With S theta = r + W_f S cf the parties know the second term for
# every cf, from inner products of E = D' W_f S and g (`cross_gram`, `pull`), and the first is cf' T cf / 2 up to the
# frozen metric. The minimum of both over cf is the model; where it would end a run, the bound itself is evaluated.


CUTOFF = 1e-9  # of the scaled small matrix: below it coefficients are rounding
CARE = 1e-14  # of the terms of the small norm: added for their rounding
SHORTENINGS = 4  # how often the way to the better dual point is halved before the plain bound is kept


class DualPoint(NamedTuple):
    """A dual point S theta = r + W_f S cf, what the model says of the gap there, and |g + E cf|^2."""

    cf: Vector
    model: float
    norm2: float


def best_dual_point(window: Window, ridge: float, gradient2: float, pull: Vector) -> DualPoint:
    """The minimiser of the model; gap and norm are in the unit of a sum over rows."""
    curvature = window.projected(window.curvature_gram, window.sums)
    matrix = curvature + window.cross_gram / ridge
    cf = -solve_scaled(matrix, pull / ridge, np.diag(matrix), CUTOFF)
    return _at(window, ridge, gradient2, pull, cf)


def _at(window: Window, ridge: float, gradient2: float, pull: Vector, cf: Vector) -> DualPoint:
    products = np.append(2 * pull * cf, window.cross_gram * np.outer(cf, cf))
    norm2 = max(gradient2 + float(products.sum()), 0.0) + CARE * float(np.abs(products).sum())
    curvature = float(cf @ window.projected(window.curvature_gram, window.sums) @ cf)
    return DualPoint(cf, curvature / 2 + norm2 / (2 * ridge), norm2)


class DualPlace(NamedTuple):
    """Where the bound is taken: the problem, and labels, predictions and residual of all rows."""

    problem: Problem
    labels: Vector
    z: Vector
    residual: Vector


def evaluated_gap(window: Window, place: DualPlace, ridge: float, gradient2: float, pull: Vector) -> float:
    """The bound at the best dual point, nearer to the residual where that point is outside the loss's domain."""
    plain = gradient2 / (2 * ridge)
    cf = best_dual_point(window, ridge, gradient2, pull).cf
    for _ in range(SHORTENINGS):
        point = _at(window, ridge, gradient2, pull, cf)
        gap = _distance(window, place, cf) + point.norm2 / (2 * ridge)
        if gap < plain:
            return gap
        cf = cf / 2
    return plain


def _distance(window: Window, place: DualPlace, cf: Vector) -> float:
    """Sum over rows of s (l(z) + l*(theta) - theta z), some rows at a time."""
    problem, weights, scores = place.problem, place.problem.row_weights, window.scores
    shift = scores.solve(window.metric_sum, cf @ window.sums) if window.project else scores.zeros(1)[0]
    total = 0.0
    for at in row_slices(place.z.size, scores.outputs):
        rows = slice(at.start // scores.outputs, at.stop // scores.outputs)
        z, labels, metric = place.z[at], place.labels[rows], window.metric[at]
        away = scores.away(metric, window.columns[at] @ cf - scores.repeat(shift, labels.size))
        dual = place.residual[at] + metric * away
        if weights is None:
            conjugate = float(problem.loss.conjugate(dual, labels).sum())
        else:
            conjugate = _weighted_conjugate(problem, dual, labels, weights[rows])
        own = problem.loss.total(z, labels, None if weights is None else weights[rows])
        total += own + conjugate - float(dual @ z)
    return max(total, 0.0) if not np.isnan(total) else np.inf


def _weighted_conjugate(problem: Problem, dual: Vector, labels: Vector, weights: Vector) -> float:
    """Sum of s l*(dual / s) over rows that weigh something."""
    used, outputs = weights > 0, problem.loss.outputs
    kept, by_score = weights[used], np.repeat(used, outputs)
    return float(kept @ problem.loss.conjugate(dual[by_score] / np.repeat(kept, outputs), labels[used]))


# --- The coordinator's side: exact predictions z, and the small problem over everything tried so far


REFRESH_ROUNDS = frozenset({1, 2, 5, 12, 30, 75, 190, 475})
SOON = 2  # the refresh that only a start from nothing needs: after another alpha it costs a Gram matrix for no round
UNCERTIFIED = 5.0  # without a penalty the gap is only estimated: this many times half the block Newton decrement,
ROUNDING = 1e-14  # of the objective: beyond it steps are rounding, and following them leads away again
CANCELLED = 1e-15  # of the objective: what its difference from a lower bound may miss by rounding
STILL, STILL_ROUNDS = 0.1, 5  # and the objective must not have fallen by this part of the bar in so many rounds


class MemoryCoordinator:
    """Keeps z = sum_m D_m x_m + b exactly, so that the objective can never rise."""

    def __init__(self, problem: Problem, labels: Vector) -> None:
        self.problem = problem
        self.alpha = problem.alpha * problem.regularizer.l2
        self.sends_step = problem.loss.recover(np.zeros(problem.loss.outputs)) is None
        self.predictions = (LowMemoryPredictions if problem.low_memory else JointPredictions)(problem, labels)
        scores = self.predictions.scores
        self.window = Window(labels.size, window_size(problem), project=problem.fit_intercept, scores=scores)
        self.coefficients: Vector = np.zeros(0)
        self.round, self.plain = 0, False
        self.kept: Vector | None = None  # slots that the parties are still to be told to keep
        self.tuned = 0  # the last round before this alpha; 0 for the first alpha
        self.past: Vector = np.full(STILL_ROUNDS, np.inf)  # the last objectives
        self.bound = -math.inf  # the best lower bound on the optimum so far

    @property
    def intercept(self) -> Any:
        """B, exact for the coefficients the parties hold after the closing broadcast."""
        return self.predictions.intercept

    def start_at(self, total: Arrays, intercept: Any) -> None:
        """Begin from coefficients the parties already hold."""
        predictions = self.predictions
        constants = predictions.scores.repeat(intercept, predictions.labels.size)
        predictions.place(total["share"] + constants, intercept)

    def retune(self, problem: Problem) -> None:
        """Go on with another alpha, after the closing broadcast; the window knows nothing of alpha and stays.

        Only steps that are large enough do: the last ones before an optimum are nearly rounding.
        """
        self.problem, self.alpha = problem, problem.alpha * problem.regularizer.l2
        self.coefficients = np.zeros(0)  # the parties have taken this step
        self.kept = self.window.thin()
        self.past, self.bound = np.full(STILL_ROUNDS, np.inf), -math.inf
        self.tuned = self.round

    @property
    def scores(self) -> Vector:
        """Joint score of each row, those that weigh nothing included; of several classes a column for each."""
        outputs = self.predictions.scores.outputs
        return self.predictions.z if outputs == 1 else self.predictions.z.reshape(-1, outputs)

    def broadcast(self) -> Arrays:
        """The residual, the step just taken, and the small matrices of the window."""
        self.round += 1
        metric = self._metric_due()
        refresh = metric is not None
        if metric is not None:
            self.window.refresh(metric)
        message = {"residual": self.predictions.residual, **self._common(refresh)}
        if self.sends_step and self.window.slot >= 0:
            message["step"] = self.window.newest
        if self.sends_step and refresh:
            message["curvature"] = self.predictions.curvature
        if self.kept is not None:
            message["kept"], self.kept = self.kept, None
        return message

    def _metric_due(self) -> Vector | None:
        """The metric to take now; None to stay with the last one, which is near enough early after another alpha."""
        known = bool(self.window.metric.size)
        since = self.round - self.tuned
        if known and (since not in REFRESH_ROUNDS or (self.tuned and since == SOON)):
            return None
        metric = frozen_weights(self.problem.loss, self.predictions.curvature)
        if self.tuned and not self.sends_step and np.array_equal(metric, self.window.metric):
            return None
        return metric

    def closing(self) -> Arrays:
        """The last step's coefficients."""
        return self._common(False)

    def _common(self, refresh: bool) -> Arrays:
        window = self.window
        return {
            "control": np.array([window.slot, refresh, self.plain], dtype=np.float64),
            "coefficients": self.coefficients,
            "gram": window.gram,
            "curvature_gram": window.projected(window.curvature_gram, window.sums),
        }

    def combine(self, total: Arrays) -> Progress:
        """Minimise over every direction known so far, the new sum of shares included."""
        gradient2, decrement = (float(value) for value in total["gradient_dots"])
        self.plain = float(total["direction_dots"][2]) > -0.5 * decrement  # the coupling led astray: leave it out once
        self.window.correct(total["move_dot_newest"])
        self.window.take_cross(total["cross_dots"])
        predictions = self.predictions
        gap = self._gap_at_broadcast(total, gradient2)
        start, intercept = predictions.mark(), predictions.intercept
        subspace = StepSubspace(predictions, self.window, self.alpha, total)
        subspace.minimise()
        predictions.intercept = predictions.intercept + subspace.intercept_move()
        objective = subspace.objective()
        if self.problem.fit_intercept:
            before = predictions.loss
            predictions.settle_intercept()
            objective += predictions.loss - before
        self._remember(subspace, start, intercept)
        return self._progress(objective, gap, gradient2 / predictions.total**2, decrement / predictions.total)

    def _gap_at_broadcast(self, total: Arrays, gradient2: float) -> float:
        """A bound on the gap at the point that was broadcast; a better dual point is tried where it may end the run."""
        if self.alpha <= 0:
            return math.inf
        predictions, size = self.predictions, self.predictions.total
        ridge, pull = self.alpha * size, total["cross_dot_gradient"]
        objective = predictions.loss + 0.5 * self.alpha * float(total["coef_norm2"][0])
        gap, bar = gradient2 / (2 * ridge), self._bar(objective) * size
        if gap > bar and pull.size and best_dual_point(self.window, ridge, gradient2, pull).model <= bar:
            place = DualPlace(self.problem, predictions.labels, predictions.z, predictions.residual)
            gap = evaluated_gap(self.window, place, ridge, gradient2, pull)
        self.bound = max(self.bound, objective - gap / size)
        return gap / size

    def _bar(self, objective: float) -> float:
        """The gap at which the run may end."""
        return max(self.problem.tol, ROUNDING) * max(objective, self.predictions.scale)

    def _remember(self, subspace: StepSubspace, start: Any, intercept: Any) -> None:
        row = subspace.penalty_gram @ subspace.cf
        self.coefficients = subspace.cf
        moved = self.predictions.intercept - intercept
        settled = moved - subspace.intercept_move()  # what b moved by itself, after the step
        step = self.predictions.moved_since(start, subspace.step(settled))
        self.window.add(step, moved, row[:-1], float(subspace.cf @ row), float(np.abs(subspace.cf) @ subspace.noise))

    def _progress(self, objective: float, gap: float, gradient2: float, decrement: float) -> Progress:
        """The gap at the broadcast point bounds the gap now, as the objective fell; so does the best bound so far."""
        bar = self._bar(objective)
        gap = min(gap, objective - self.bound + CANCELLED * max(abs(objective), self.predictions.scale))
        done = gap <= bar
        if self.alpha <= 0:
            done = UNCERTIFIED * decrement / 2 <= bar and self.past[0] - objective <= STILL * bar
        self.past = np.append(self.past[1:], objective)
        return Progress(objective=objective, gap=gap, dual=math.sqrt(gradient2), done=bool(done))

    def state(self) -> Arrays:
        """Everything needed to go on after a restart."""
        numbers = [self.round, self.plain, self.predictions.scale, self.bound, *np.ravel(self.predictions.intercept)]
        return self.window.state() | {
            "z": self.predictions.z,
            "coefficients": self.coefficients,
            "past": self.past,
            "numbers": np.array(numbers, dtype=np.float64),
        }

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        round_, plain, scale, self.bound, *own = (float(value) for value in state["numbers"])
        self.round, self.plain = int(round_), bool(plain)
        intercept: Any = own[0] if self.predictions.scores.outputs == 1 else np.array(own)
        self.coefficients, self.past = state["coefficients"], state["past"]
        self.window.restore(state)
        self.predictions.restore(state["z"], intercept, scale)


def newton_refusal(loss: Loss, regularizer: Regularizer) -> str:
    """Why block Newton steps do not fit this pair; empty where they do."""
    if not (loss.smooth and loss.convex):
        return f"loss={loss.name!r} is not smooth and convex"
    return "" if regularizer.form == "quadratic" else f"penalty={regularizer.name!r} is not l2"
