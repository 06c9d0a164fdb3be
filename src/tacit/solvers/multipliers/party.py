"""The party's side: its block, its envelope, its part of the window, and the coupled block Newton step."""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass
from enum import IntEnum

import numpy as np

from tacit.blocks.dense import Block, CurvatureSolver, cholesky, solve_cholesky, solve_scaled
from tacit.solvers.base import Problem
from tacit.solvers.duality import conjugate_terms, is_certifiable, shrunk
from tacit.solvers.memory.party import Outlook
from tacit.solvers.multipliers.envelopes import PenaltyEnvelope, SmoothPenalty
from tacit.types import Arrays, Vector

# --- The few numbers of every broadcast


class StepKind(IntEnum):
    """What an exchange is for."""

    EVALUATE = 0  # the objective of the model k at the point just reached
    STEP = 1  # a Newton step on the smoothed problem
    MULTIPLY = 2  # the same, after both sides have moved their multipliers


@dataclass(frozen=True)
class Control:
    """One broadcast's numbers.

    Attributes
    ----------
    kind : Kind
    slot : int
        Where the step just taken belongs; -1 before the first.
    refresh : bool
        True where the metric is sent along.
    keep : bool
        True where the coefficients evaluated last are the best so far.
    plain : bool
        True where the others' past moves are to be left out, because the last directions they gave went astray.
    stiffness : float
        sigma of the loss's envelope.
    growth : float
        By how much the penalty's stiffness grows with its multiplier.
    up, down : float
        Factors of the positive and the negative part of r that give the dual point.
    damping : float
        Least curvature of the penalty's envelope, as a part of its stiffness.
    """

    kind: StepKind
    slot: int
    refresh: bool
    keep: bool
    plain: bool
    stiffness: float
    growth: float
    up: float
    down: float
    damping: float

    def pack(self) -> Vector:
        """The numbers as they travel."""
        return np.array(astuple(self), dtype=np.float64)

    @classmethod
    def unpack(cls, numbers: Vector) -> Control:
        """The numbers as they are used."""
        kind, slot, refresh, keep, plain, *rest = (float(number) for number in numbers)
        return cls(StepKind(int(kind)), int(slot), bool(refresh), bool(keep), bool(plain), *rest)


# --- What every party can compute from the broadcasts alone, where steps and metric are always sent


WINDOW = 32


def window_size(problem: Problem) -> int:
    """How many past steps to keep: kinks need many even for two parties."""
    return max(1, min(WINDOW, problem.max_window))


class SentOutlook(Outlook):
    """The steps of z and the metric, as they were sent: a slope with kinks does not give them away."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.steps = np.zeros((problem.rows, window_size(problem)), order="F")

    def read(self, round_: int, inbox: Arrays) -> None:
        """Take in one broadcast; a second call for the same round does nothing."""
        if round_ == self.round:
            return
        slot = Control.unpack(inbox["control"]).slot
        self.step = inbox.get("step")
        if self.step is not None:
            self.steps[:, slot] = self.step
            self.used = max(self.used, slot + 1)
        self.metric = inbox.get("metric", self.metric)
        self.round = round_


# --- How much curvature to add where the penalty's model promised too much


FIRST = 1 / 64


class Damping:
    """Least curvature of the penalty's envelope as a part of its stiffness: 0 is Newton's, 1 never promises too much.

    The loss is followed exactly, so only the penalty can miss.
    """

    def __init__(self) -> None:
        self.level = 0.0
        self.expected, self.gain = math.nan, math.nan

    def expect(self, value: float, gain: float) -> None:
        """Note the penalty that the step should arrive at, and by how much the whole should fall."""
        self.expected, self.gain = value, gain

    def judge(self, arrived: float) -> None:
        """Compare with the penalty at which the step arrived (once: later calls do nothing)."""
        miss = arrived - self.expected
        self.expected = math.nan
        if miss > 0.5 * self.gain:
            self.level = min(1.0, max(4 * self.level, FIRST))
        elif miss < 0.25 * self.gain:
            self.level = self.level / 2 if self.level > FIRST else 0.0

    def state(self) -> Vector:
        """Numbers from which `restore` goes on."""
        return np.array([self.level, self.expected, self.gain])

    def restore(self, state: Vector) -> None:
        """Go on from `state`."""
        self.level, self.expected, self.gain = (float(number) for number in state)


# --- The party's side: its own block, its envelope, its part of the window, and the coupled block Newton step


COUPLING_CUTOFF = 1e-6  # eigenvalues of the scaled coupling matrix below this carry no information
FLAT, JITTER = 1e-12, 1e-9  # of the diagonal: below the first a column stays put; the second is added to the others


class MultipliersParty:
    """The party's side: x, its envelope, and directions proposed for it."""

    def __init__(self, problem: Problem, block: Block, outlook: SentOutlook) -> None:
        self.problem, self.block, self.outlook = problem, block, outlook
        self.penalty = PenaltyEnvelope(problem, block)
        d, h = block.d, window_size(problem)
        self.coef, self.best, self.x, self.direction = (np.zeros(d) for _ in range(4))
        self.moves, self.cross, self.curved = (np.zeros((d, h)) for _ in range(3))
        self.metric: CurvatureSolver | None = None

    def start_at(self, coef: Vector) -> Arrays:
        """Begin from given coefficients, or the nearest that keep to the bounds."""
        regularizer = self.problem.regularizer
        self.x = regularizer.prox(coef, 1.0) if regularizer.constraint else coef.copy()
        self.coef = self.best = self.x
        return {"share": self.block.predict(self.x), "numbers": np.array([self.penalty.objective(self.x)])}

    def step(self, round_: int, inbox: Arrays) -> Arrays:
        """Take the agreed step, then say what the model is worth there or propose a direction."""
        control = Control.unpack(inbox["control"])
        self.outlook.read(round_, inbox)
        if control.keep:
            self.best = self.coef
        if inbox["coefficients"].size:
            self._move(inbox["coefficients"], control.slot)
        if control.refresh:
            self._refresh()
        if not self.penalty.stiffness.size and not self.penalty.quadratic:
            self.penalty.set_stiffness(control.stiffness)
        here = self.penalty.at(self.x)
        arrived = here.value
        if control.kind == StepKind.EVALUATE:
            return self._evaluate(here)
        if control.kind == StepKind.MULTIPLY:
            self.penalty.move_multiplier(here, control.growth)
            here = self.penalty.at(self.x)
        return self._propose(inbox, control, here, arrived)

    def finish(self, inbox: Arrays) -> None:
        """End on the best coefficients found."""
        if not inbox["control"][0]:
            self.coef = self.best

    # --- the window -----------------------------------------------------------------------------------

    def _move(self, coefficients: Vector, slot: int) -> None:
        move = self.moves[:, : coefficients.size - 1] @ coefficients[:-1] + coefficients[-1] * self.direction
        self.x = self.x + move
        self.moves[:, slot] = move
        assert self.metric is not None
        assert self.outlook.step is not None
        self.cross[:, slot] = self.metric.cross(self.outlook.step)
        self.curved[:, slot] = self.metric.times(move)

    def _refresh(self) -> None:
        self._take_metric()
        assert self.metric is not None
        used = self.outlook.used
        self.cross[:, :used] = self.metric.cross_columns(self.outlook.steps[:, :used])
        self.curved[:, :used] = self.metric.times(self.moves[:, :used])

    def _take_metric(self) -> None:
        self.metric = CurvatureSolver(self.block, self.outlook.metric, 0.0, project=self.problem.fit_intercept)

    # --- answers --------------------------------------------------------------------------------------

    def _evaluate(self, here: SmoothPenalty) -> Arrays:
        """The model itself: its share, its penalty, and the envelope reached."""
        self.coef = here.model
        numbers = np.array([self.penalty.objective(self.coef), here.value])
        return {"share": self.block.predict(self.coef), "numbers": numbers}

    def _propose(self, inbox: Arrays, control: Control, here: SmoothPenalty, arrived: float) -> Arrays:
        """A Newton direction with the products that let the coordinator judge it."""
        worth = 0.0
        if self.penalty.quadratic:
            self.coef, worth = self.x, self.penalty.objective(self.x)
        else:
            here = here.damped(control.damping * self.penalty.stiffness)
        residual = inbox["residual"]
        theta = shrunk(self.problem, residual, control.up, control.down, self.problem.row_weights)
        both = self.block.correlate(np.column_stack([residual, theta]))
        gradient = both[:, 0] + here.slope
        factor = self._factor(here, control.stiffness)
        newton = -solve_cholesky(factor, gradient)
        self.direction = newton
        if inbox["gram"].size and not control.plain:
            self.direction = newton - self._coupling(gradient, here, inbox, control.stiffness, factor)
        tried = np.column_stack([self.moves[:, : len(inbox["gram"])], self.direction])
        slopes = [float(gradient @ gradient), -float(gradient @ newton), -float(gradient @ self.direction)]
        certifies = is_certifiable(self.problem)
        return {
            "share": self.block.predict(self.direction),
            "linear": tried.T @ here.slope,
            "gram": here.products(tried),
            "numbers": np.array([worth, arrived, here.value, here.infeasibility, *slopes]),
            **(conjugate_terms(self.problem, both[:, 1]) if certifies else {}),
        }

    def _factor(self, here: SmoothPenalty, stiffness: float) -> Vector:
        """Cholesky factor of sigma A + C."""
        assert self.metric is not None
        curvature = stiffness * self.metric.gram + np.outer(here.edge, here.edge)
        diagonal = np.diag(curvature) + here.diagonal
        top = float(diagonal.max(initial=0.0)) or 1.0
        jitter = np.where(diagonal <= FLAT * top, top, JITTER * diagonal)
        curvature[np.diag_indices_from(curvature)] = diagonal + jitter
        return cholesky(curvature, 0.0)

    def _coupling(
        self, gradient: Vector, here: SmoothPenalty, inbox: Arrays, stiffness: float, factor: Vector
    ) -> Vector:
        """What this party does about the others repeating their past moves (through a Schur complement)."""
        moves, cross, curved = (a[:, : len(inbox["gram"])] for a in (self.moves, self.cross, self.curved))
        other = stiffness * (cross - curved)
        solved = solve_cholesky(factor, other)
        mixed = moves.T @ cross
        others = inbox["curvature_gram"] - stiffness * (mixed + mixed.T - moves.T @ curved)
        reduced = others + inbox["gram"] - here.products(moves) - other.T @ solved
        pull = moves.T @ gradient + solved.T @ gradient
        scale = np.diag(inbox["curvature_gram"]) + np.maximum(np.diag(inbox["gram"]), 0.0)
        return solved @ solve_scaled((reduced + reduced.T) / 2, pull, scale, COUPLING_CUTOFF)

    # --- pausing --------------------------------------------------------------------------------------

    def state(self) -> Arrays:
        """Everything needed to go on after a restart, except what the data give again."""
        own = {name: getattr(self, name) for name in _ARRAYS}
        return own | {"multiplier": self.penalty.multiplier, "stiffness": self.penalty.stiffness}

    def restore(self, state: Arrays) -> None:
        """Go on from `state`; the Gram matrix is made again from the metric."""
        for name in _ARRAYS:
            setattr(self, name, state[name])
        self.penalty.multiplier, self.penalty.stiffness = state["multiplier"], state["stiffness"]
        if self.outlook.metric.size:
            self._take_metric()


_ARRAYS = ("coef", "best", "x", "direction", "moves", "cross", "curved")
