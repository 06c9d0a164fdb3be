"""A node's side of the private method of the sample split, in both forms: its rows, the centre, and its answers.

Rows are scaled down to norm 1, centred, and get a constant beside them:

| symbol | meaning |
|---|---|
| R | public unit of the rows |
| x | a row over R, scaled down to norm 1 where it is longer |
| m, C | released centre and spread |
| u | ((x - m)/C, b) |

The centre (mean row, spread and largest curvature) comes from noisy sums over the rows of all nodes. A node's sums are
one vector: sum x, then either the trace of sum x x' over sqrt(2), or its upper triangle with the diagonal over sqrt(2).
Noise of one deviation on all entries then costs what noise on the mean row alone would cost (docs/proofs/graph.md,
theorem 1).

The rounds, in both forms:

| symbol | meaning |
|---|---|
| m, C, u | centre, spread, and a row in these coordinates |
| z | the common model, the same at all nodes |
| v_i, g_i | what node i released last, and the sum of its distances from z so far |

First a sum over all nodes of noisy sums over the rows gives m and C. Then, T times,

    exact:     v_i = argmin_w (n/N) sum_rows l(u.w)/||u|| + q/2 ||w - (z - g_i)||^2  + noise
               z = mean_j (v_j + g_j),   g_i <- g_i + v_i - z
    gradient:  z <- z - step/N A sum_i (sum_rows l'(u.z) u/||u|| + noise),   A = I + k z z'/||z||^2

and the model is the mean of z over the second half of the rounds. k, from 0 to 3, lets the size of the model settle
sooner than its direction: along z the noise is that of one number. Sums go along a tree of the graph
(solvers/consensus/base.py). Nothing that depends on the rows is kept between rounds: what enters a round are rows,
labels and released values.

What the noise of all gradients does to the common model: about its covariance, from released values
alone (`model_noise`).

| symbol | meaning |
|---|---|
| H | curvature of the mean loss at the model, from the noisy Gram matrix |
| A | I + k z z'/||z||^2, by which a gradient is multiplied |
| e | the error that noise makes in z |

A round makes e - step A (H e + noise) of an error e, shrunk by the ridge, and the model is the mean over the second
half of the rounds. In the eigenvectors of A^1/2 H A^1/2 every direction goes its own way. Nobody's guarantee depends
on it: it is drawn as the band of a curve, and tests/algorithms/test_gaussian_noise.py compares it with the spread of
runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from tacit.blocks import SeveralBlock, coef_of_classes
from tacit.blocks.dense import Block, RowClip, eigen, without_noise
from tacit.mechanisms.gaussian.settings import (
    ALONG,
    CONSTANT,
    LARGEST_ROW,
    LEAST_SPREAD,
    MOST_SPREAD,
    GaussianSettings,
    farthest,
)
from tacit.mechanisms.gram.settings import MOST_SHOWN
from tacit.solvers.base import Problem, Release
from tacit.solvers.consensus.base import NodeData, Place, Sent, TreeSum, private_progress
from tacit.solvers.consensus.local import LocalProblem, descend, steps_for, within
from tacit.types import Arrays, Vector

# --- A node's rows in the coordinates of the private method: scaled down to norm 1, centred


class UnitRows:
    """The matrix with rows x, by its products."""

    def __init__(self, block: Block, norm: float) -> None:
        self.clipped, self.norm = RowClip(norm).apply(block), norm

    @property
    def n(self) -> int:
        """Rows."""
        return self.clipped.n

    @property
    def d(self) -> int:
        """Columns."""
        return self.clipped.d

    def predict(self, x: Vector) -> Vector:
        """The rows times x."""
        return self.clipped.predict(x / self.norm)

    def correlate(self, r: Vector) -> Vector:
        """The transposed rows times r."""
        return self.clipped.correlate(r) / self.norm

    def gram(self, weights: Vector) -> Vector:
        """The transposed rows times diag(weights) times the rows."""
        return self.clipped.gram(weights) / self.norm**2

    def squares(self) -> Vector:
        """Squared norm of each row."""
        return self.clipped.squares() / self.norm**2


class CentredRows:
    """The matrix with rows u, by its products."""

    def __init__(self, rows: UnitRows, mean: Vector, spread: float) -> None:
        self.rows, self.mean, self.spread = rows, mean, spread
        away = rows.squares() - 2 * rows.predict(mean) + float(mean @ mean)
        # what rounding may have taken off a difference of large numbers is put back
        away = np.maximum(away, 0.0) + 1e-14 * (rows.squares() + float(mean @ mean))
        self.norms = np.sqrt(away / spread**2 + CONSTANT**2) * (1 + 1e-12)

    @property
    def n(self) -> int:
        """Rows."""
        return self.rows.n

    @property
    def d(self) -> int:
        """Columns and the constant."""
        return self.rows.d + 1

    def predict(self, x: Vector) -> Vector:
        """The rows times x."""
        own = x[:-1] / self.spread
        return np.asarray(self.rows.predict(own) + (CONSTANT * x[-1] - float(self.mean @ own)))

    def correlate(self, r: Vector) -> Vector:
        """The transposed rows times r."""
        total = r.sum()
        return np.append((self.rows.correlate(r) - total * self.mean) / self.spread, CONSTANT * total)

    def correlate_columns(self, weights: Vector, columns: Vector) -> Vector:
        """The transposed rows times diag(weights) times columns."""
        return np.column_stack([self.correlate(weights * column) for column in columns.T])

    def gram(self, weights: Vector) -> Vector:
        """The transposed rows times diag(weights) times the rows."""
        total, cross = float(weights.sum()), self.rows.correlate(weights)
        whole = np.empty((self.d, self.d))
        both = np.outer(self.mean, cross)
        inner = self.rows.gram(weights) - both - both.T + total * np.outer(self.mean, self.mean)
        whole[:-1, :-1] = inner / self.spread**2
        whole[:-1, -1] = whole[-1, :-1] = CONSTANT / self.spread * (cross - total * self.mean)
        whole[-1, -1] = CONSTANT**2 * total
        return whole


# --- The centre: mean row, spread and largest curvature, from sums over the rows of all nodes with noise


@dataclass(frozen=True, eq=False)
class Centre:
    """What is known of all rows together.

    Attributes
    ----------
    mean : Vector
        m, of norm 1 at most.
    spread : float
        C.
    curvature : float
        lam, an estimate of the largest eigenvalue of the mean of u u'; 1 where nothing is known.
    gram : Vector or None
        The mean of x x' with its noise, where it is known.
    """

    mean: Vector
    spread: float = 1.0
    curvature: float = 1.0
    gram: Vector | None = None


def own_sums(rows: UnitRows, *, with_gram: bool) -> Vector:
    """A node's part of the sums from which the centre is made."""
    ones = np.ones(rows.n)
    total = rows.correlate(ones)
    if not with_gram:
        return np.append(total, rows.squares().sum() / math.sqrt(2))
    gram = rows.gram(ones)
    gram[np.diag_indices(rows.d)] /= math.sqrt(2)
    return np.concatenate([total, gram[np.triu_indices(rows.d)]])


def centre_from(sums: Vector, settings: GaussianSettings) -> Centre:
    """The centre from the noisy sums over all nodes."""
    d, s = settings.columns, settings.centre_noise
    noisy = sums[:d] / settings.total
    square, spoilt = float(noisy @ noisy), d * s**2
    mean = noisy * (max(0.0, 1 - spoilt / square) if square > 0 else 0.0)
    mean /= max(1.0, float(np.linalg.norm(mean)))
    gram = _gram(sums[d:], settings) if settings.with_gram else None
    trace = float(np.trace(gram)) if gram is not None else math.sqrt(2) * float(sums[d]) / settings.total
    spread = math.sqrt(min(MOST_SPREAD, max(LEAST_SPREAD, trace - square + spoilt)))
    curvature = 1.0 if gram is None else _curvature(gram, mean, spread, 2 * s * math.sqrt(d))
    return Centre(mean, spread, curvature, gram)


def _gram(packed: Vector, settings: GaussianSettings) -> Vector:
    """The mean of x x' with its noise."""
    gram = np.zeros((settings.columns, settings.columns))
    gram[np.triu_indices(settings.columns)] = packed / settings.total
    gram = gram + np.triu(gram, 1).T
    gram[np.diag_indices(settings.columns)] *= math.sqrt(2)
    return gram


def _curvature(gram: Vector, mean: Vector, spread: float, edge: float) -> float:
    """Largest eigenvalue without what noise adds to it: noise alone has its largest near `edge`."""
    top = float(np.linalg.eigvalsh(gram - np.outer(mean, mean))[-1])
    bare = (top + math.sqrt(top**2 - edge**2)) / 2 if top > edge else edge / 2
    return min(1.0, max(bare / spread**2, CONSTANT**2))


# --- A node's side of the private method of the sample split, in both forms


START = 0.25  # of label_norm: the mean count at which a model of counts starts
CENTRE, MODEL, GRADIENT = "centre", "model", "gradient"
MOST_SOLVES = 5
AIM = 0.5  # of the tolerance: what a solve aims at, so that the check after it holds
LARGEST = 1e100  # of a number in a sum that arrives: nothing that is computed from it overflows


def in_unit(labels: Vector, settings: GaussianSettings) -> Vector:
    """Labels as the loss takes them: numbers and counts in their public unit, counts of one unit at most."""
    own = labels / settings.label_norm
    return np.clip(own, 0.0, 1.0) if settings.loss.task == "counts" else np.asarray(own)


def first_model(settings: GaussianSettings) -> Vector:
    """Where all nodes start: a score of 0, or for counts that of a mean of `START`."""
    found = np.zeros(settings.size)
    found[-1] = math.log(START) / CONSTANT if settings.loss.task == "counts" else 0.0
    return found


class GaussianNode:
    """What both forms have in common: the centre, the tree sums, and the mean over the second half."""

    def __init__(
        self, problem: Problem, place: Place, data: NodeData, settings: GaussianSettings, release: Release
    ) -> None:
        self.place, self.settings, self.release = place, settings, release
        rows = data.rows.block if isinstance(data.rows, SeveralBlock) else data.rows
        assert isinstance(rows, Block)
        self.rows = UnitRows(rows, settings.row_norm)
        self.labels = in_unit(data.labels, settings)
        self.tree = TreeSum(place.graph, place.name, place.cover)
        self.done = 0 if settings.centred else 1  # sums that have reached this node, that of the centre among them
        self.z, self.mean_z = first_model(settings), np.zeros(settings.size)
        self.own, self.shift = np.zeros(settings.size), np.zeros(settings.size)  # v and g
        self.local: LocalProblem | None = None
        self._set_centre(Centre(np.zeros(settings.columns)))
        self.progress = private_progress(settings.pull)  # the same in every round

    # --- the model ---------------------------------------------------------------------------------------

    @property
    def coef(self) -> Vector:
        """Coefficients for rows as they are given; of several classes a row each, which sum to zero."""
        given, outputs = self.settings, self.settings.outputs
        coef = self.mean_z[:-outputs] * (given.score_unit / (given.row_norm * self.centre.spread))
        return coef_of_classes(coef, outputs)

    @property
    def intercept(self) -> Any:
        """The constant of the model; of several classes one for each."""
        given, outputs = self.settings, self.settings.outputs
        if outputs > 1:
            last = CONSTANT * self.mean_z[-outputs:]
            found = last - self.centre.mean @ self.mean_z[:-outputs].reshape(-1, outputs) / self.centre.spread
            return np.asarray(found - found.mean())
        shift = float(self.mean_z[:-1] @ self.centre.mean) / self.centre.spread
        return given.score_unit * (CONSTANT * float(self.mean_z[-1]) - shift) + given.score_shift

    @property
    def centre_row(self) -> Vector | None:
        """The released mean row, as rows are given; None where none was released."""
        return self.settings.row_norm * self.centre.mean if self.settings.centred else None

    @property
    def noise(self) -> Vector | None:
        """About the covariance that noise gives `coef`; None where it is not known."""
        return None

    def _set_centre(self, centre: Centre) -> None:
        """From now on in the coordinates of this centre."""
        self.centre, self.local = centre, None

    def _problem(self) -> LocalProblem:
        """Losses of the rows, each over the norm of its row: no gradient is longer than 1."""
        if self.local is None:
            given, rows = self.settings, CentredRows(self.rows, self.centre.mean, self.centre.spread)
            scored: Any = rows if given.outputs == 1 else SeveralBlock(rows, given.outputs)  # type: ignore[arg-type]
            data = NodeData(scored, self.labels, 1.0 / (given.slope * rows.norms))
            scale = given.scale if given.form == "exact" else 1.0
            self.local = LocalProblem(data, given.loss, scale, 0.0, fit_intercept=False)
            self.local.ridge = self._ridge() if given.form == "exact" else np.zeros(given.size)
        return self.local

    def _ridge(self) -> Vector:
        """Weights of the squared coordinates; constants are free."""
        given = self.settings
        ridge = np.full(given.size, given.ridge / (given.row_norm * self.centre.spread) ** 2)
        ridge[-given.outputs :] = 0.0
        return ridge

    # --- a round -----------------------------------------------------------------------------------------

    def step(self, round_: int, inbox: Mapping[str, Arrays]) -> Sent:
        """Relay sums; where one has arrived, go on to the next."""
        to_one: dict[str, Arrays] = {}
        if round_ == 1:
            self.tree.begin(1, self._release())
        while True:
            for name, arrays in self.tree.step(round_, inbox).items():
                to_one.setdefault(name, {}).update(arrays)
            total = self.tree.result(round_)
            if total is None:
                return Sent({}, to_one)
            self._take(total)
            if self.done > self.settings.rounds:
                return Sent({}, to_one)
            self.tree.begin(round_, self._release())

    def again(self, round_: int, inbox: Mapping[str, Arrays]) -> Sent:
        """What a round of the sum that is going up sends once more, under new masks: the same own value, no release."""
        return Sent({}, self.tree.step(round_, inbox))

    def finish(self, inbox: Mapping[str, Arrays]) -> None:
        """Nothing is left to do."""

    def _release(self) -> Vector:
        """Own part of the next sum, which is made of released values only."""
        if self.done == 0:
            return self.release.add(CENTRE, own_sums(self.rows, with_gram=self.settings.with_gram))
        return self._released_part()

    def _take(self, total: Vector) -> None:
        """The sum over all nodes, as it arrived: of numbers, and of no larger ones than all that follows can bear."""
        total = np.clip(np.where(np.isnan(total), 0.0, total), -LARGEST, LARGEST)
        if self.done == 0:
            self._set_centre(centre_from(total, self.settings))
        else:
            self._update(self._balanced(total))
            first = self.settings.rounds // 2
            if self.done > first:
                self.mean_z = self.mean_z + (self.z - self.mean_z) / (self.done - first)
        self.done += 1

    def _balanced(self, total: Vector) -> Vector:
        """A sum without what is the same for all classes: noise alone, which no prediction depends on."""
        outputs = self.settings.outputs
        return total if outputs == 1 else coef_of_classes(total, outputs).T.ravel()

    def _released_part(self) -> Vector:
        raise NotImplementedError

    def _update(self, total: Vector) -> None:
        raise NotImplementedError

    def _within_reach(self, v: Vector) -> Vector:
        """Scaled down to the public bound behind the rounding errors; a model never comes near it."""
        return within(v, self.settings.reach)

    # --- going on later ----------------------------------------------------------------------------------

    def state(self) -> Arrays:
        """Arrays from which `restore` goes on."""
        numbers = np.array([self.done, self.centre.spread, self.centre.curvature], dtype=np.float64)
        own = {"z": self.z, "mean_z": self.mean_z, "own": self.own, "shift": self.shift, "mean": self.centre.mean}
        gram = {} if self.centre.gram is None else {"gram": self.centre.gram}
        return {**own, **gram, "numbers": numbers, **self.tree.state()}

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        self.z, self.mean_z, self.own, self.shift = (state[name] for name in ("z", "mean_z", "own", "shift"))
        done, spread, curvature = state["numbers"]
        self.done = int(done)
        self._set_centre(Centre(state["mean"], float(spread), float(curvature), state.get("gram")))
        self.tree.restore(state)


class ExactNode(GaussianNode):
    """Releases the minimiser of its own problem, held near the others."""

    def _released_part(self) -> Vector:
        self.own = self.release.add(MODEL, self._solve(self._within_reach(self.z - self.shift)))
        return self.own + self.shift

    def _update(self, total: Vector) -> None:
        self.z = total / self.settings.nodes
        self.shift = self.shift + self.own - self.z

    def _solve(self, centre: Vector) -> Vector:
        """The minimiser to the public tolerance, judged by a gradient that is computed anew; this never fails."""
        try:
            with np.errstate(all="ignore"):
                found = self._newton(centre)
        except (ArithmeticError, ValueError):  # a singular matrix among them
            found = None
        return self._descend(centre) if found is None else found

    def _newton(self, centre: Vector) -> Vector | None:
        """By Newton steps; None where their gradient norm does not show that it is the minimiser."""
        local, zero, given = self._problem(), np.zeros(centre.size), self.settings
        point = centre
        for _ in range(MOST_SOLVES):
            local.curvature = None  # of another round: nothing of it may be needed to go on later
            point = local.solve(zero, given.pull, centre, AIM * given.tolerance, point).point
            left = float(np.linalg.norm(local.gradient(point) + given.pull * (point - centre)))
            if left <= given.tolerance and np.linalg.norm(point) <= farthest(given, self.rows.n):
                return point
        return None

    def _descend(self, centre: Vector) -> Vector:
        """By steps along the gradient, from the minimiser of everything but the rows."""
        local, given = self._problem(), self.settings
        push = given.scale * self.rows.n
        steepest = (push * LARGEST_ROW * given.loss.curvature / given.slope + float(local.ridge.max()) + given.pull) * (
            1 + 1e-9
        )
        steps = steps_for(given.pull, steepest, 2 * push, given.tolerance)
        start = given.pull * centre / (given.pull + local.ridge)
        return descend(lambda w: local.gradient(w) + given.pull * (w - centre), start, steepest, steps)


class GradientNode(GaussianNode):
    """Releases its gradient at the common model; only the sum over all nodes is used."""

    def _released_part(self) -> Vector:
        self.own = self.release.add(GRADIENT, self._problem().gradient(self.z))
        return self.own

    @property
    def noise(self) -> Vector | None:
        """About the covariance that noise gives `coef`, from the Gram matrix that came with the centre."""
        given, centre = self.settings, self.centre
        if centre.gram is None or given.columns > MOST_SHOWN or given.outputs > 1 or given.score_shift:
            return None
        gram = centred_gram(centre.gram, centre.mean, centre.spread, given.centre_noise)
        ridge, more = float(self._ridge()[0]), self._more(self.mean_z)
        noise = model_noise(gram, self.mean_z, given, self._size, ridge, more)
        return noise * (given.label_norm / (given.row_norm * centre.spread)) ** 2

    def _update(self, total: Vector) -> None:
        slope, step = total / self.settings.total, self._size
        moved = (self.z - step * (slope + self._along(slope))) / (1.0 + step * self._ridge())
        self.z = self._within_reach(moved)

    @property
    def _size(self) -> float:
        """Of a step."""
        return min(
            1.0 / (self.settings.noise * self.settings.rounds), self.settings.longest_step / self.centre.curvature
        )

    def _along(self, slope: Vector) -> Vector:
        """What is added to the slope along z."""
        square = float(self.z @ self.z)
        return np.zeros(slope.size) if square == 0.0 else self._more(self.z) * float(slope @ self.z) / square * self.z

    def _more(self, z: Vector) -> float:
        """K: more where z is more than the noise in it, and never beyond stability."""
        given, square, step = self.settings, float(z @ z), self._size
        if square == 0.0:
            return 0.0
        spoilt = (step * given.noise) ** 2 * given.rounds * (self.done - 1) * given.free
        sure = max(0.0, 1.0 - spoilt / square)
        return max(0.0, min(ALONG * sure, given.longest_step / (self.centre.curvature * step) - 1.0))


# --- What the noise of all gradients does to the common model


UNSURE = 1.15  # on the covariance, as it is computed from a noisy Gram matrix: measured by bench/coverage.py
POINTS, MASS = np.polynomial.hermite_e.hermegauss(15)


def model_noise(
    gram: Vector, model: Vector, settings: GaussianSettings, step: float, ridge: float, more: float
) -> Vector:
    """About the covariance of the model, without its constant.

    Parameters
    ----------
    gram : array
        Noisy covariance of the rows in the coordinates of the method, see `centred_gram`.
    model : array
        z, with its constant.
    settings : GaussianSettings
    step, ridge, more : float
        Size of a step, weight of the squared coordinates, and k.
    """
    along = model / max(float(np.linalg.norm(model)), 1e-300)
    root = np.eye(model.size) + (math.sqrt(1 + more) - 1) * np.outer(along, along)
    pull, turn = eigen(root @ (_mean_curvature(gram, model) * gram) @ root)
    kept = (1 - step * pull) / (1 + step * ridge)
    moved = step / (1 + step * ridge) * _averaged(kept, settings.rounds)
    sent = settings.noise**2 * settings.rounds  # variance of the noise in an entry of one mean gradient
    noise = sent * (turn.T @ root @ root @ turn) * (moved.T @ moved)
    back = root @ turn
    return np.asarray(UNSURE * back @ noise @ back.T)[:-1, :-1]


def centred_gram(gram: Vector, mean: Vector, spread: float, sd: float) -> Vector:
    """The covariance of the rows u from the noisy mean of x x', with the square of the constant beside it."""
    whole = np.zeros((len(mean) + 1,) * 2)
    whole[:-1, :-1] = without_noise(gram - np.outer(mean, mean), sd) / spread**2
    whole[-1, -1] = CONSTANT**2
    return whole


def _averaged(kept: Vector, rounds: int) -> Vector:
    """What is left of a unit of noise of each round in the mean over the second half, where `kept` of it stays."""
    first = rounds // 2
    powers = kept[None, :] ** np.arange(rounds)[:, None]
    sums = np.vstack([np.zeros(kept.size), np.cumsum(powers, axis=0)])  # over the next rounds, as many as that
    begun = np.arange(1, rounds + 1)  # the noise of a round is in the model of that round and of later ones
    return np.asarray((sums[rounds - begun + 1] - sums[np.maximum(first - begun + 1, 0)]) / (rounds - first))


def _mean_curvature(gram: Vector, model: Vector) -> float:
    """Mean curvature of the calibrated loss over the length of a row, for scores spread like a normal law."""
    own = model[:-1]
    spread = math.sqrt(max(float(own @ gram[:-1, :-1] @ own), 0.0))
    p = expit(CONSTANT * float(model[-1]) + spread * POINTS)
    length = math.sqrt(float(np.trace(gram)))
    return float((MASS / MASS.sum()) @ np.minimum(p, 1 - p)) / max(length, CONSTANT)
