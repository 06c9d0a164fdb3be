"""The two sides of noisy shares, and the certified solve of a party.

Ridge regression within a ball, with a certificate of how far the answer is from the exact one.

| symbol | meaning |
|---|---|
| D | the clipped rows in units of their norm |
| c | D' v |
| e, V | eigenvalues and eigenvectors of D'D, or of DD' where D has more columns than rows |
| s | the multiplier of the ball: (D'D + mu + s) x = c, s = 0 or ||x|| = b |

A quadratic in place of the loss, for shares whose noise is larger than they are.

A derivative of the loss at a noisy score is biased, since the loss bends; one that is linear in the score is not, and
its noise averages out over the rows in every party's regression.

| symbol | meaning |
|---|---|
| m | the best constant score |
| h | how far scores are expected to reach from it: 2 for classes, the spread of numbers, 1 on a log scale |
| g, k | slope at m for each row and curvature: those of the chord of the derivative from m - h to m + h |
| z | the coordinator's scores; their covariance with g tells how much of the labels is explained |
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.polynomial.hermite_e import hermegauss

from tacit.blocks.dense import ROWS_AT_ONCE, Block, ClippedRows, RowClip, eigen
from tacit.errors import RunError
from tacit.solvers.base import WIDEST_SCORE, Problem, Progress, Release, best_constant, label_spread, private_progress
from tacit.solvers.sharing.coordinator import default_rho
from tacit.types import Arrays, Vector

# --- Public numbers of noisy shares, and how far one row can move a party's share (docs/proofs/shares.md)


SHARE = "share"  # the one name under which a party releases
SOLVE_SLACK = 1e-4  # certified distance of a computed share from the exact one, in units of b
ROUNDING_SLACK = 1e-6  # what rounding may add to that, in units of b
LEAST_RIDGE, MOST_RIDGE = 1e-6, 1e6  # of the number of rows: beyond these rounding could not be certified
UNIT = 2.0**-53


@dataclass(frozen=True)
class SharesSettings:
    """What every side of a run with noisy shares knows.

    Attributes
    ----------
    row_norm : float
        Rows are scaled down to this norm.
    bound : float
        Largest share of one row: row_norm times the largest norm of the coefficients (of one step, with `steps`).
    quadratic : bool
        Whether noise is so large that the coordinator puts a quadratic in place of the loss.
    steps : bool
        Whether a party answers with the share of a step, which it fits to the broadcast alone. Its own past answers
        enter nothing then, so that they may stay hidden in sums (theorem 5).
    """

    row_norm: float
    bound: float
    quadratic: bool = True
    steps: bool = False


def exact_sensitivity(neighbours: str, bound: float) -> float:
    """Largest L2 distance of the exact shares of neighbouring data, for one inbox and one past (theorems 1 and 2)."""
    return bound if neighbours == "zero-out" else 2.0 * bound


def sensitivity(neighbours: str, bound: float) -> float:
    """The same for shares as they are computed: certified solves and rounding included (theorem 3)."""
    return exact_sensitivity(neighbours, bound) + 2.0 * (SOLVE_SLACK + ROUNDING_SLACK) * bound


def certifiable(rows: int, columns: int) -> bool:
    """Whether what rounding hides takes at most half of the slack, for every ridge that is taken (shares.md, 3)."""
    least, most = LEAST_RIDGE * rows, (MOST_RIDGE + 1) * rows
    worst = max(slope_rounding(rows, columns, ridge) / math.sqrt(ridge) for ridge in (least, most))
    return share_rounding(rows, columns) <= ROUNDING_SLACK and worst <= SOLVE_SLACK / 2


def share_rounding(rows: int, columns: int) -> float:
    """How far rounding can move a computed share, in units of b."""
    return 4.0 * math.sqrt(rows) * (columns + 32) * UNIT


def slope_rounding(rows: int, columns: int, ridge: float) -> float:
    """How far rounding can move the computed slope of the objective, in units of b; `ridge` with its multiplier."""
    terms = ROWS_AT_ONCE + rows / ROWS_AT_ONCE + columns + 32
    return 4.0 * UNIT * (rows * terms + (columns + 32) * ridge)


# --- A quadratic in place of the loss, for shares whose noise is larger than they are


CLASS_REACH, COUNT_REACH = 2.0, 1.0
NODES, _WEIGHTS = hermegauss(31)
WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


class Surrogate:
    """sum_i g_i (z_i - m) + k/2 (z_i - m)^2."""

    def __init__(self, problem: Problem, labels: Vector, centre: float) -> None:
        self.problem, self.labels, self.centre = problem, labels, centre
        reach = {"classification": CLASS_REACH, "counts": COUNT_REACH}.get(problem.loss.task) or label_spread(labels)
        low = problem.loss.grad(np.full(labels.size, centre - reach), labels)
        high = problem.loss.grad(np.full(labels.size, centre + reach), labels)
        self.slope = (low + high) / 2
        self.curvature = max(float(np.mean(high - low)) / (2 * reach), 1e-9)

    def prox(self, w: Vector, step: float) -> Vector:
        """The argmin over z of the quadratic + ||z - w||^2 / (2 step)."""
        drop = self.slope - self.curvature * self.centre
        return np.asarray((w - step * drop) / (1 + step * self.curvature))

    def intercept(self, z: Vector, linear: float) -> float:
        """The constant that fits the loss beside scores spread as widely as least squares say; `linear` is their own.

        Of least-squares scores, curvature times variance is minus the covariance with the slope: linear in the noise.
        """
        loss = self.problem.loss
        if not self.problem.fit_intercept or loss.task == "regression":
            return linear
        spread = np.sqrt(max(-float(np.mean(z * (self.slope - self.slope.mean()))) / self.curvature, 0.0))
        scores = float(z.mean()) - linear + spread * NODES
        kinds, counts = np.unique(self.labels, return_counts=True)
        weights = np.multiply.outer(counts / self.labels.size, WEIGHTS)

        def mean_loss(constant: float) -> float:
            return float(np.sum(weights * loss.value(constant + scores[None, :], kinds[:, None])))

        return float(
            scipy.optimize.minimize_scalar(mean_loss, bounds=(-WIDEST_SCORE, WIDEST_SCORE), method="bounded").x
        )


# --- Ridge regression within a ball, with a certificate of how far the answer is from the exact one


MOST_STEPS = 500
REFINEMENTS = 4
EDGE = 1e-12  # of the radius: a point nearer to the edge of the ball is moved there
LOOK = 50  # steps after which it is seen whether they were enough


@dataclass(frozen=True)
class BallSolution:
    """Coefficients in units of the row norm, their share, and what is certified about it.

    Attributes
    ----------
    x, share : Vector
    distance : float
        The share is at most this far from that of the exact minimiser: sqrt(2 gap). By weak duality the gap of the
        objective is at most ||slope||^2 / (2 (mu + s)), slope that of the objective with the multiplier, at x.
    """

    x: Vector
    share: Vector
    distance: float


class BallRidge:
    """Minimises mu/2 ||x||^2 + 1/2 ||D x - v||^2 over ||x|| <= radius; one eigendecomposition for all v, mu, radius."""

    def __init__(self, rows: ClippedRows) -> None:
        self.rows, self.unit = rows, rows.clip.norm
        self.is_dual = rows.d > rows.n
        self.gram = _outer(rows) if self.is_dual else rows.gram(np.ones(rows.n))
        self.gram /= self.unit**2
        self.values, self.vectors = eigen(self.gram, relatively_robust=True)
        self.values = np.maximum(self.values, 0.0)

    def predict(self, x: Vector) -> Vector:
        """D x."""
        return self.rows.predict(x / self.unit)

    def correlate(self, v: Vector) -> Vector:
        """D' v."""
        return self.rows.correlate(v) / self.unit

    def solve(self, v: Vector, ridge: float, radius: float = math.inf) -> BallSolution:
        """The minimiser, its share and its certificate; without a radius nothing is certified.

        A solution that is not certified at first is refined, and then found by other means: nothing is refused here,
        since that it was would tell of the rows.
        """
        c = None if self.is_dual else self.correlate(v)
        rotated = self.vectors.T @ (v if c is None else c)
        shift = self._multiplier(rotated, ridge, radius)
        inner = self.vectors @ (rotated / (self.values + ridge + shift))
        x = self.correlate(inner) if self.is_dual else inner
        size = float(np.linalg.norm(x))
        if shift > 0 or size > radius:
            x *= radius / size
        if math.isinf(radius):
            return BallSolution(x, self.predict(x), math.inf)
        for _ in range(REFINEMENTS):
            found, slope = self._judge(x, v, c, ridge, shift, radius)
            if found.distance <= SOLVE_SLACK * radius:
                return found
            x = self._inside(x - self._inverse(slope, ridge + shift), radius)
            shift = self._best_multiplier(x, v, c, ridge, radius)
        return self._descend(v, c, ridge, radius)

    def _judge(
        self, x: Vector, v: Vector, c: Vector | None, ridge: float, shift: float, radius: float
    ) -> tuple[BallSolution, Vector]:
        """A point with its certificate, and the slope that this was made from; the shift is 0 or x has the radius."""
        share = self.predict(x)
        slope = self.correlate(share - v) if c is None else self.gram @ x - c
        slope += (ridge + shift) * x
        rounding = slope_rounding(self.rows.n, self.rows.d, ridge + shift) * radius
        distance = (float(np.linalg.norm(slope)) + rounding) / math.sqrt(ridge + shift)
        return BallSolution(x, share, distance), slope

    def _inside(self, x: Vector, radius: float) -> Vector:
        """The nearest point of the ball, on its edge where it is that near to it; zero for what is no vector."""
        size = float(np.linalg.norm(x))
        if not math.isfinite(size):
            return np.zeros(x.size)
        return x if size < radius * (1 - EDGE) else np.asarray(x * (radius / size))

    def _inverse(self, slope: Vector, ridge: float) -> Vector:
        """(D'D + ridge)^-1 slope."""
        if not self.is_dual:
            return np.asarray(self.vectors @ ((self.vectors.T @ slope) / (self.values + ridge)))
        inner = self.vectors @ ((self.vectors.T @ self.predict(slope)) / (self.values + ridge))
        return np.asarray((slope - self.correlate(inner)) / ridge)

    def _best_multiplier(self, x: Vector, v: Vector, c: Vector | None, ridge: float, radius: float) -> float:
        """The multiplier that leaves the shortest slope at x; 0 where x is inside the ball."""
        size = float(x @ x)
        if size < (radius * (1 - 0.5 * EDGE)) ** 2:
            return 0.0
        slope = (self.correlate(self.predict(x) - v) if c is None else self.gram @ x - c) + ridge * x
        return max(0.0, -float(x @ slope) / size)

    def _descend(self, v: Vector, c: Vector | None, ridge: float, radius: float) -> BallSolution:
        """By accelerated steps along the slope, back to the ball: as many as end near enough from anywhere."""
        rows, top = self.rows.n, (ridge + self.rows.n) * (1 + 1e-9)
        root = math.sqrt(top / ridge)
        keep, steps = (root - 1) / (root + 1), math.ceil(root * math.log(4 * max(rows, 1) / SOLVE_SLACK**2)) + 1
        x = before = np.zeros(self.rows.d)
        for step in range(steps):
            ahead = x + keep * (x - before)
            slope = (self.correlate(self.predict(ahead) - v) if c is None else self.gram @ ahead - c) + ridge * ahead
            before, x = x, self._inside(ahead - slope / top, radius)
            if step % LOOK == LOOK - 1:
                found, _ = self._judge(x, v, c, ridge, self._best_multiplier(x, v, c, ridge, radius), radius)
                if found.distance <= SOLVE_SLACK * radius:
                    return found
        return self._judge(x, v, c, ridge, self._best_multiplier(x, v, c, ridge, radius), radius)[0]

    def _multiplier(self, rotated: Vector, ridge: float, radius: float) -> float:
        """The root of ||x(s)|| = radius, or 0 where x(0) is within it."""
        squares = rotated**2 * (self.values if self.is_dual else 1.0)

        def size(shift: float) -> float:
            return math.sqrt(float(np.sum(squares / (self.values + ridge + shift) ** 2)))

        if size(0.0) <= radius:
            return 0.0
        top = math.sqrt(float(np.sum(squares))) / radius  # there the norm is at most the radius

        def excess(shift: float) -> float:
            # the reciprocal of the norm is nearly linear in the shift, so the root is found in a few steps
            return 1 / radius - 1 / size(shift)

        try:
            found = scipy.optimize.brentq(excess, 0.0, top * (1 + 1e-12), xtol=1e-300, rtol=1e-14, maxiter=MOST_STEPS)
        except (ArithmeticError, ValueError, RuntimeError):  # rounding turned a sign: what follows judges and refines
            return top
        return float(found)


def _outer(rows: ClippedRows) -> Vector:
    """The rows times their transpose, in float64 whatever the data are."""
    with np.errstate(over="ignore", invalid="ignore"):  # of rows that count as zeros
        outer = rows.block.outer()
        outer = rows.shrink[:, None] * outer * rows.shrink
    return np.where(np.logical_and.outer(rows.kept, rows.kept), outer, 0.0)


# --- The party's side of noisy shares: what it releases depends on its rows, the inbox and its own releases alone


class SharesParty:
    """One ridge regression within a ball per round; its share leaves with noise."""

    def __init__(self, problem: Problem, block: Block, settings: SharesSettings, release: Release) -> None:
        self.problem, self.settings, self.release = problem, settings, release
        if not certifiable(block.n, block.d):
            raise RunError(
                f"{block.n} rows of {block.d} columns are too many for mechanism='shares': rounding is not bounded"
            )
        self.clip = RowClip(settings.row_norm)
        self.solver = BallRidge(self.clip.apply(block))
        self.coef = np.zeros(block.d)
        self.trained = np.zeros(block.d)  # of the last release, or of all steps; never part of the next release
        self.released = np.zeros(block.n)

    def start_at(self, coef: Vector) -> Arrays:
        """Refuse: a start that depends on the data has no bound."""
        raise RunError("mechanism='shares' starts from zero: leave warm_start out")

    def step(self, round_: int, inbox: Arrays) -> Arrays:
        """Answer q with the noisy share of new coefficients."""
        ridge, bound = self._ridge(inbox), self.settings.bound
        past = 0.0 if self.settings.steps else self.released  # a past that masks hide must not enter
        target = np.clip(past - inbox["q"], -bound, bound)
        solution = self.solver.solve(target, ridge, bound)
        self.released = self.release.add(SHARE, solution.share)
        self.trained = self.trained + solution.x if self.settings.steps else solution.x
        self.coef = self.trained / self.settings.row_norm
        return {"share": self.released}

    def finish(self, inbox: Arrays) -> None:
        """Solve once more for the model that stays here: own exact share, no ball, no clipping."""
        target = self.solver.predict(self.trained) - inbox["q"]
        found = self.solver.solve(target, self._ridge(inbox)).x / self.settings.row_norm
        self.coef = found if np.isfinite(found).all() else self.coef

    def _ridge(self, inbox: Arrays) -> float:
        """The penalty in units of the row norm; what arrives is checked, since the bound holds for finite vectors."""
        rho, q = float(inbox["control"][0]), inbox["q"]
        fits = q.dtype == np.float64 and q.shape == self.released.shape
        if not 0 < rho < np.inf or not fits or not np.isfinite(q).all():
            raise RunError("the broadcast to a party is not one finite number for each row: the run cannot go on")
        wanted = self.problem.alpha * self.problem.regularizer.l2 * self.problem.total / rho
        rows = self.released.size
        return min(max(wanted / self.settings.row_norm**2, LEAST_RIDGE * rows), MOST_RIDGE * rows)

    def state(self) -> Arrays:
        """Everything needed to go on after a restart, except what the data give again."""
        return {name: getattr(self, name) for name in ("coef", "trained", "released")}

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        self.coef, self.trained, self.released = (state[name] for name in ("coef", "trained", "released"))


# --- The coordinator's side of noisy shares: it sees their sum alone, and all that it does is post-processing of that


class SharesCoordinator:
    """Averaged sharing ADMM (see solvers/sharing); the intercept is one more block, which the coordinator holds."""

    def __init__(self, problem: Problem, labels: Vector, settings: SharesSettings) -> None:
        self.problem, self.labels = problem, labels
        self.copies = problem.parties + int(problem.fit_intercept)
        self.rho = problem.rho or default_rho(problem.loss, labels, self.copies)
        start = best_constant(problem, labels)
        self.surrogate = Surrogate(problem, labels, start) if settings.quadratic else None
        self.steps, self.sum = settings.steps, np.zeros(labels.size)
        self.w = np.full(labels.size, start)
        self.a = self.w / self.copies
        self.base_intercept = self.intercept = start

    def start_at(self, total: Arrays, intercept: float) -> None:
        """Refuse: a start that depends on the data has no bound."""
        raise RunError("mechanism='shares' starts from zero: leave warm_start out")

    def broadcast(self) -> Arrays:
        """The z-update at w, then q."""
        step = self.copies / self.rho
        if self.surrogate is None:
            self.z = self.problem.loss.prox(self.w, self.labels, step)
        else:
            self.z = self.surrogate.prox(self.w, step)
        self._u = (self.w - self.z) / self.copies
        self._q = self.a - self.z / self.copies + self._u
        self._next_intercept = self.base_intercept - (float(self._q.mean()) if self.problem.fit_intercept else 0.0)
        return {"q": self._q, "control": np.array([self.rho])}

    def combine(self, total: Arrays) -> Progress:
        """Take in the sum of the noisy shares, or of the steps towards them."""
        self.sum = self.sum + total["share"] if self.steps else total["share"]
        self.base_intercept = self.intercept = self._next_intercept
        scores = self.sum + self.base_intercept
        self.a = scores / self.copies
        self.w = self.copies * (self._u + self.a)
        return private_progress(rho=self.rho / self.problem.total)

    def closing(self) -> Arrays:
        """One more q, for the fits that stay with the parties, and the intercept beside them."""
        message = self.broadcast()
        self.intercept = self._next_intercept
        if self.surrogate is not None:
            self.intercept = self.surrogate.intercept(self.z, self._next_intercept)
        return message

    def state(self) -> Arrays:
        """Everything needed to go on after a restart."""
        numbers = np.array([self.rho, self.base_intercept, self.intercept])
        return {"w": self.w, "a": self.a, "sum": self.sum, "numbers": numbers}

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        self.w, self.a, self.sum = state["w"], state["a"], state["sum"]
        self.rho, self.base_intercept, self.intercept = (float(v) for v in state["numbers"])
