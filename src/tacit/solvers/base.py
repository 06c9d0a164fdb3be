"""What every solver of the feature split looks like: a coordinator's side and a party's side."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import scipy

from tacit.blocks.dense import Block
from tacit.errors import InputError
from tacit.problem.losses.base import Loss, bare_labels, offset_range
from tacit.problem.losses.logistic import Softmax
from tacit.problem.regularizers import Regularizer
from tacit.types import Arrays, Vector


@dataclass(frozen=True)
class Problem:
    """What is minimised, and the public numbers that every side of a solver may use.

    Attributes
    ----------
    loss, regularizer, alpha, fit_intercept
        The objective: (1/total) sum_i s_i loss_i + alpha sum_m R(x_m), the intercept free.
    parties, rows : int
    tol : float
        Relative objective gap at which a run may stop.
    rho : float or None
        Penalty times total row weight where the solver has one; None lets the solver choose and adapt it.
    max_window : int
        Most past steps that memory allows to keep.
    row_weights : array or None
        s, known to every side; None where all are 1.
    seed : int
        For solvers that draw samples of rows.
    sums_only : bool
        True where parties may send nothing but what the coordinator adds up: no least or largest values.
    low_memory : bool
        True where numbers per row are what memory is short of: the sides, all in one process, keep them once.
    trees : TreeSettings or None
        How trees are grown, where the model is a sum of trees.
    """

    loss: Loss
    regularizer: Regularizer
    alpha: float
    fit_intercept: bool
    parties: int
    rows: int
    tol: float
    rho: float | None = None
    max_window: int = 32
    row_weights: Vector | None = None
    seed: int = 0
    sums_only: bool = False
    low_memory: bool = False
    trees: Any = None  # TreeSettings, which build on this module

    @property
    def total(self) -> float:
        """Sum of the row weights."""
        return float(self.rows if self.row_weights is None else self.row_weights.sum())


@dataclass(frozen=True)
class Progress:
    """What the coordinator knows after a round.

    Attributes
    ----------
    objective : float
        Objective of the model that the parties would have if the run ended now.
    gap : float
        Certified upper bound on objective minus optimum, or infinity where none can be stated.
    primal, dual : float
        Residuals: how far z is from the sum of the shares; how far the optimality condition is from holding.
    rho : float
        Penalty in force, in the unit of the parameter `rho` (0 for a solver that has none).
    stationarity : float
        The Lyapunov function V of the sharing paper, eq. (13), at the round's start (NaN where it does not apply).
    done : bool
        True where the stopping rule holds.
    note : str
        Why a run that is not done must stop now; empty otherwise.
    """

    objective: float
    gap: float = math.inf
    primal: float = 0.0
    dual: float = 0.0
    rho: float = 0.0
    stationarity: float = math.nan
    done: bool = False
    note: str = ""


def private_progress(*, rho: float = 0.0, done: bool = False, note: str = "") -> Progress:
    """What the trace may hold of a round of a private solver: nothing that is computed from rows or labels as such."""
    return Progress(objective=math.nan, primal=math.nan, dual=math.nan, rho=rho, done=done, note=note)


class PartySide(Protocol):
    """State in, arrays out: everything a party does in a round except deciding what may leave."""

    @property
    def coef(self) -> Vector:
        """The party's coefficients."""

    def start_at(self, coef: Vector) -> Arrays:
        """Begin from given coefficients; return what the coordinator needs to know of them."""

    def step(self, round_: int, inbox: Arrays) -> Arrays:
        """Answer one broadcast."""

    def finish(self, inbox: Arrays) -> None:
        """Take in the closing broadcast."""

    def state(self) -> Arrays:
        """Arrays from which `restore` goes on."""

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""


class CoordinatorSide(Protocol):
    """The side that holds the labels and sees only sums over the parties."""

    @property
    def intercept(self) -> float:
        """The constant of the joint scores (with centred blocks, where there is an intercept)."""

    def start_at(self, total: Arrays, intercept: float) -> None:
        """Begin from the summed answers of the parties' `start_at`."""

    def broadcast(self) -> Arrays:
        """What goes to every party next."""

    def combine(self, total: Arrays) -> Progress | None:
        """Take in the sum of the parties' answers; None where this exchange ends no round worth recording."""

    def closing(self) -> Arrays:
        """The last broadcast, after which every party holds the final coefficients."""

    def state(self) -> Arrays:
        """Arrays from which `restore` goes on."""

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""


@dataclass(frozen=True)
class Solver:
    """A solver by name: what it refuses, and how its two sides are made.

    Attributes
    ----------
    name : str
    refusal : callable
        (loss, regularizer) -> why this pair cannot be solved by it; empty where it can.
    party, coordinator : callable
        Make the sides of a problem.
    shared : callable or None
        Makes what parties of one process may keep once between them.
    supports_path : bool
        True where both sides have `retune`, which goes on with another alpha, and the coordinator `scores`.
    vectors : (float, float)
        Vectors of one number per row in a round, to a party and back, as measured; besides them a few sums travel.
    on_cluster : bool
        Whether it uses all rows together, so that they may be on a cluster.
    reads_each_answer : bool
        True where the coordinator takes the answers by party, or their sum under masks, and holds the rows of the
        party with the labels itself; False where it takes their sum.
    singles : tuple of str
        Names of arrays whose numbers its sides have rounded to single precision: these travel as float32.
    several_scores : bool
        Whether it takes losses with several scores for each row; vectors then have as many numbers for each.
    """

    name: str
    refusal: Callable[[Loss, Regularizer], str]
    party: Callable[[Problem, Any, Any], PartySide]
    coordinator: Callable[..., Any]
    shared: Callable[[Problem], Any] | None = None
    supports_path: bool = False
    vectors: tuple[float, float] = (1.0, 1.0)
    on_cluster: bool = True
    reads_each_answer: bool = False
    singles: tuple[str, ...] = ()
    several_scores: bool = False
    noisy: ClassVar[bool] = False  # what its sides send is computed from the rows as they are

    def make_shared(self, problem: Problem) -> Any:
        """What parties of one process keep once between them; None where there is nothing of the kind."""
        return None if self.shared is None else self.shared(problem)

    def make_party(
        self, problem: Problem, block: Block, shared: Any, settings: Any, release: Release | None
    ) -> PartySide:
        """A party's side, which has no use for settings and releases."""
        return self.party(problem, block, shared)

    def make_coordinator(
        self, problem: Problem, labels: Vector, settings: Any, own: Block | None, release: Release | None
    ) -> Any:
        """The coordinator's side, with rows of its own where it reads each answer."""
        return self.coordinator(problem, labels, own) if self.reads_each_answer else self.coordinator(problem, labels)


class Release(Protocol):
    """How a private value becomes a released one; a solver knows the names of its releases, not their noise."""

    owner: str

    def add(self, name: str, value: npt.ArrayLike) -> Vector:
        """The value with noise."""

    def respond(self, name: str, symbols: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Each symbol, or one drawn anew."""

    def draw(self, name: str, size: int) -> Vector:
        """Noise as such, for an objective: its density falls with its norm alone."""

    def uniform(self, size: int) -> Vector:
        """Uniform numbers in (0, 1), for rounding at random."""


@dataclass(frozen=True)
class PrivateSolver:
    """A solver whose sides release noisy values only.

    Attributes
    ----------
    name : str
    party : callable
        (problem, block, settings, release) -> the party's side; what it returns may leave as it is.
    coordinator : callable
        (problem, labels, settings, own block or None, release) -> the coordinator's side.
    reads_each_answer : bool
        True where the coordinator is a `GatheringSide`: it takes the answers by party, and holds the rows of the party
        with the labels itself. False where it takes their sum.
    """

    name: str
    party: Callable[[Problem, Block, Any, Release], PartySide]
    coordinator: Callable[[Problem, Vector, Any, Block | None, Release], Any]
    reads_each_answer: bool = False
    noisy: ClassVar[bool] = True
    supports_path: ClassVar[bool] = False
    singles: ClassVar[tuple[str, ...]] = ()  # bounds are proven for float64

    def make_shared(self, problem: Problem) -> Any:
        """Nothing: parties keep apart what they release."""
        return None

    def make_party(
        self, problem: Problem, block: Block, shared: Any, settings: Any, release: Release | None
    ) -> PartySide:
        """A party's side."""
        assert release is not None, "a noisy party has releases"
        return self.party(problem, block, settings, release)

    def make_coordinator(
        self, problem: Problem, labels: Vector, settings: Any, own: Block | None, release: Release | None
    ) -> Any:
        """The coordinator's side; `own` are the rows of the party with the labels, where it answers for them."""
        assert release is not None, "a noisy coordinator has releases"
        return self.coordinator(problem, labels, settings, own, release)


class GatheringSide(Protocol):
    """A coordinator's side that takes in the answers one by one, and is itself the party that holds the labels."""

    def broadcast(self) -> Arrays:
        """What goes to every party next."""

    def gather(self, answers: Mapping[str, Arrays]) -> Progress:
        """Take in the parties' answers."""

    def closing(self) -> Arrays:
        """The last broadcast."""

    def state(self) -> Arrays:
        """Arrays from which `restore` goes on."""

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""


# --- The best prediction that looks at no feature: where an intercept starts, and what objectives are compared with


WIDEST_SCORE = 40.0  # of a classifier: beyond it the loss of a right answer is rounding


def best_constant(problem: Problem, labels: Vector) -> Any:
    """Minimiser of the loss over one constant prediction; 0 without an intercept or where the loss is not convex.

    Of a loss with several scores it is an array.

    Raises
    ------
    InputError
        Where the loss falls for ever in a constant that these labels do not hold back: no intercept is best.
    """
    if isinstance(problem.loss, Softmax):
        best = problem.loss.best_constant(labels, problem.row_weights, WIDEST_SCORE)
        return best if problem.fit_intercept else 0.0 * best
    if not problem.fit_intercept or not problem.loss.convex:
        return 0.0
    _check_held_back(problem, labels)
    low, high = _bracket(problem, labels)
    if not low < high:
        return low

    def loss(constant: float) -> float:
        return problem.loss.total(np.full(labels.size, constant), labels, problem.row_weights)

    found = scipy.optimize.minimize_scalar(
        loss, bounds=(low, high), method="bounded", options={"xatol": 1e-9 * (high - low)}
    )
    return min((low, float(found.x), high, min(max(0.0, low), high)), key=loss)


def constant_scores(problem: Problem, labels: Vector, constant: Any) -> Vector:
    """The scores of all rows where each has that prediction."""
    return np.tile(np.atleast_1d(constant), labels.size)


def constant_loss(problem: Problem, labels: Vector, constant: Any) -> float:
    """Mean loss of that prediction."""
    return problem.loss.total(constant_scores(problem, labels, constant), labels, problem.row_weights) / problem.total


def negligible_objective(problem: Problem, labels: Vector, constant: Any) -> float:
    """Below this an objective counts as zero: a thousandth of that of the best constant, or rounding of the labels.

    A loss without a lower bound passes through zero by chance, so that nothing is relative to its value there: its
    unit is the loss of the prediction 0.
    """
    if problem.loss.least_slope > 0:
        return constant_loss(problem, labels, 0.0 * constant)
    rounding = 1e-10 * float(np.abs(bare_labels(labels)).max(initial=0.0))
    at_best = constant_loss(problem, labels, constant)
    return max(1e-3 * at_best, constant_loss(problem, labels, constant + rounding) - at_best, 1e-300)


def label_spread(labels: Vector) -> float:
    """Standard deviation of the labels; 1 where they differ by rounding only."""
    labels = bare_labels(labels)
    spread = float(np.std(labels))
    return spread if spread > 1e-12 * float(np.abs(labels).max(initial=0.0)) else 1.0


def _check_held_back(problem: Problem, labels: Vector) -> None:
    """Refuse labels of which one kind is so frequent that the mean loss falls for ever in the intercept.

    In a constant prediction that grows, every row of its own sign pulls on with the least slope, and every other row
    pulls back with at most the largest one.
    """
    least, most = problem.loss.least_slope, problem.loss.lipschitz
    if least == 0.0:
        return
    weights = np.ones(labels.size) if problem.row_weights is None else problem.row_weights
    share = float(weights[labels > 0].sum()) / problem.total
    low, high = least / (least + most), most / (least + most)
    if not low < share < high:
        raise InputError(
            f"the randomized labels are {share:.4g} positive, outside {low:.4g} to {high:.4g}, so that no intercept is "
            "best: use more rows or a larger label_epsilon (randomizing again costs it again)"
        )


def _bracket(problem: Problem, labels: Vector) -> tuple[float, float]:
    if problem.loss.task == "classification":
        least, most = offset_range(labels)
        return -WIDEST_SCORE - most, WIDEST_SCORE - least
    known, (least, most) = bare_labels(labels), offset_range(labels)
    low, high = float(known.min()), float(known.max())
    if problem.loss.task == "counts":
        low, high = -WIDEST_SCORE, float(np.log(max(high, 1e-12))) + 1.0
    return low - most, high - least
