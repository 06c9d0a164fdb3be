"""Public numbers of private sharing in Gram space, and what a protected party fits; proofs: gram.md.

All numbers follow from sizes and from what was asked.

| symbol | meaning |
|---|---|
| K, J | noisy gradients, and the step J / (k + J) of the k-th |
| L1, L2 | bounds on the loss derivative and on the weight of a row |
| mu | what the whole fit may spend (Gaussian differential privacy) |

A party fits with a derivative and a weight for each row, given what the label holder sent. Weights depend on what was
sent alone, never on the protected row: only then are they fixed when a row is replaced.

| target | derivative in the score | bound L1 | weight | bound L2 |
|---|---|---|---|---|
| half | -y exp(-max(0, y t)): the loss exp(-m) - 1/2 for m > 0, 1/2 - m below | 1 | min(p, 1 - p) | 1/2 |
| logistic | u (sigma(t) - unbiased estimate of the label) | e^eps/(e^eps - 1) | u p (1 - p) | 1/4 |
| margin | that of the loss | the loss's | L1 min(p, 1 - p) | L1/2 |
| softmax | p - t, C numbers for each row | sqrt 2 | (1 - sum of p^2)/(C - 1), p at the offset | 1/C |
| residual | t - y, clipped | 2 (1/2 for the absolute loss) | 1 | 1 |
| counts | (exp(t) - y)/s, clipped, s the root mean square at the offsets | 2 | exp(offset) over its 95 % quantile | 1 |
| symbols | unbiased residual from one randomized symbol of each row | (see the class) | by symbol | 1/4 |

p = sigma(offset), u = `label_weight` <= 1; every derivative but that of "residual" has a sign that the label, or the
symbol, fixes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import expit, ndtri, softmax

from tacit.blocks import balanced_basis
from tacit.blocks.dense import eigen
from tacit.problem.losses.base import Loss
from tacit.problem.losses.modified import flip_of
from tacit.topologies import FeatureSplit
from tacit.types import Vector

# --- Public numbers of private sharing in Gram space, all of them from sizes and from what was asked; proofs: gram.md


LOSS_CHANGE_SHARE = 0.05  # of mu^2 for the change of the loss
PRIOR = 1.0  # variance of a coefficient, for rows of norm about 1
CONSTANT = 0.3  # the constant column beside rows whose derivative may have both signs
CLASS_CONSTANT = math.sqrt(0.75)  # that of several classes: it costs nothing up to here (gram.md, theorem 2a)
LARGEST_SCORE = 50.0  # of the logarithm of a mean count: exp of it is a moderate number
USUAL_MEANS = 0.95  # quantile of mean counts from which a row weighs no more
LEAST_CURVATURE = 1e-3  # of a direction of classes, relative to the mean: scores may leave nothing to learn in it
RADIUS = 1.25  # centred rows are clipped at this many times their root mean square norm
LEAST_SPREAD = 0.05  # mean squared norm of centred rows: at least this part of the largest
NOISE_FACTOR = 2.0  # on the variance of the gradient noise in the ridge: decreasing steps do not average perfectly
FOLDS = 5
MOST_SHOWN = 500  # columns up to which it is computed what noise does to the coefficients


@dataclass(frozen=True)
class FitSettings:
    """One private fit.

    Attributes
    ----------
    steps, decay : int, float
        K and J.
    slope, weight : float
        L1 and L2.
    score_column : bool
        Whether the side columns are (1, clip(score)/4), with the label holder's score, free of charge; False for one
        small constant column.
    row_norm : float
        Public bound on the norm of a row.
    mean_sd, trace_sd, gram_sd, gradient_sd : float
        Noise of the four releases, for rows of norm 1.
    label_noise : float
        Variance that randomized labels add to each derivative.
    loss_change_clip, loss_change_sd : float
        Clip of a row's change of loss, and the noise of their sum; 0 where it is not released.
    """

    steps: int
    decay: float
    slope: float
    weight: float
    score_column: bool
    row_norm: float
    mean_sd: float
    trace_sd: float
    gram_sd: float
    gradient_sd: float
    label_noise: float = 0.0
    loss_change_clip: float = 0.0
    loss_change_sd: float = 0.0


@dataclass(frozen=True)
class Response:
    """One randomized symbol for each row: its epsilon, how many levels of the score, and the clip of a residual."""

    epsilon: float
    levels: int
    clip: float

    @property
    def symbols(self) -> int:
        """How many symbols there are: (level, label), or the sign of the residual."""
        return 2 * self.levels


@dataclass(frozen=True)
class EvaluationSettings:
    """How a protected party says how good the joint model is on rows that were held out.

    Attributes
    ----------
    bins : int
        Of the joint score, for each of the two labels.
    clip : float
        Of a row's difference of losses between the joint model and the label holder alone.
    histogram_sd, difference_sd : float
        Noise of each count, and of the sums of the clipped differences and of their squares, in units of the clip.
    """

    bins: int
    clip: float
    histogram_sd: float
    difference_sd: float


@dataclass(frozen=True)
class GramSettings:
    """A whole run: the fit of each party, and what the label holder does.

    Attributes
    ----------
    holder : str
        The party that holds the labels.
    target : str
        "half", "logistic", "margin", "softmax", "residual", "counts" (see `FitTarget`), or "symbols" where the label
        holder is protected too.
    fits : mapping of party to FitSettings
        The protected parties.
    damping : float
        Weight of each protected party's score: fits beside each other explain some of the same.
    label_epsilon : float or None
    holder_is_exact : bool
        The label holder's part of the model is its own exact fit: predictions must stay with it.
    holder_fit : FitSettings or None
        The label holder's private fit, where its rows are protected too.
    response : Response or None
        What then leaves it for each row.
    refit : Response or None
        One randomized bit for each row from each protected party, for a refit of the label holder.
    alpha : float
        Weight of the l2 penalty in the objective.
    seen_loss : Loss
        The loss of the label holder's own fit: for randomized labels their unbiased one.
    evaluation : EvaluationSettings or None
        The release about rows that were held out; None where there is none.
    """

    holder: str
    target: str
    fits: dict[str, FitSettings]
    damping: float
    alpha: float
    seen_loss: Loss
    label_epsilon: float | None = None
    holder_is_exact: bool = False
    holder_fit: FitSettings | None = None
    response: Response | None = None
    refit: Response | None = None
    evaluation: EvaluationSettings | None = None

    @property
    def flip(self) -> float:
        """Probability with which a label was flipped."""
        return 0.0 if self.label_epsilon is None else flip_of(self.label_epsilon)

    @property
    def releases_loss_change(self) -> bool:
        """Whether the parties say how their fit changes the loss."""
        return any(fit.loss_change_sd > 0 for fit in self.fits.values())


def steps_for(rows: int) -> tuple[int, float]:
    """K and J by the number of rows: fewer, bolder steps where there is little to average."""
    return (30, 3.0) if rows >= 2000 else (12, 2.0)


def damping_for(protected: int) -> float:
    """Weight of each protected party's score."""
    return float(protected ** (-1 / 3))


@dataclass(frozen=True)
class Bounds:
    """L2 sensitivities of the four releases in units of which mu is 1; each pair is released under one budget.

    The mean and the trace together cost mu1^2 where their deviations are `mean` / mu1 and `trace` / mu1; the Gram
    matrix and all gradients together cost mu2^2 where theirs are `gram` / mu2 and `gradient` / mu2.
    """

    mean: float
    trace: float
    gram: float
    gradient: float


def bounds(slope: float, weight: float, steps: int, *, one_signed: bool, neighbours: str) -> Bounds:
    """Sensitivities of a fit; theorems 1 to 4 of gram.md.

    `one_signed`: the label, which does not belong to the protected row, fixes the sign of the derivative. Then side
    columns of squared norm up to 2 cost nothing; otherwise there is one constant column, which costs its square.
    """
    side = 1.0 if one_signed else math.sqrt(1 + CONSTANT**2)
    fit = (math.sqrt(8) * weight * side, 2 * slope * math.sqrt(steps) * side)
    # zero-out changes less about rows that are not centred yet; a centred row of zeros is one like any other
    first = math.sqrt(3 / 8) if neighbours == "zero-out" else 1.0
    return Bounds(2 * weight * first, math.sqrt(8) * weight * first, *fit)


def rounding(rows: int, row_at_once: int) -> float:
    """Relative growth of every sensitivity by rounding in sums of sums over the rows (gram.md, section 7)."""
    unit = 2.0**-53
    return 40 * (row_at_once + rows / row_at_once + 32) * unit * rows


# --- What a protected party fits: derivative and weight of each row, given what the label holder sent


RESIDUAL_CLIP = 2.0  # of a residual, in root mean squares of the label holder's own
ABSOLUTE_CLIP = 0.5  # for the absolute loss: nearly its sign


class FitTarget(Protocol):
    """Derivative and weight of each row."""

    offset: Vector
    weight: Vector

    def slope(self, score: Vector) -> Vector:
        """Derivative of each row's loss where the party's own score (side columns included) is added to the offset."""

    def relative_curvature(self, moved: Vector, spread: float) -> float:
        """Mean curvature at offsets moved so far, with a further spread, relative to that of the weights."""


class HalfTarget:
    """The calibrated loss with the largest curvature at its sensitivity; labels are -1 and +1."""

    def __init__(self, offset: Vector, labels: Vector) -> None:
        self.offset, self.labels = offset, labels
        self.weight = _tails(expit(offset))

    def slope(self, score: Vector) -> Vector:
        """-y exp(-max(0, y t))."""
        margin = self.labels * (self.offset + score)
        return np.asarray(-self.labels * np.exp(-np.maximum(0.0, margin)))

    def relative_curvature(self, moved: Vector, spread: float) -> float:
        """Of min(p, 1 - p)."""
        return _relative(_tails, self, moved, spread)


def label_weight(scores: Vector, flip: float) -> Vector:
    """How much a randomized label tells of a row with this score: p (1 - p) over the variance of the seen label.

    At most 1, at p = 1/2. With these weights the estimate of a linear score from randomized labels varies least.
    """
    p, other = expit(scores), expit(-scores)
    seen, unseen = flip + (1 - 2 * flip) * p, flip + (1 - 2 * flip) * other
    return np.asarray(p * other / (seen * unseen))


class Randomized:
    """The logistic loss against an unbiased estimate of each label, with `label_weight`; labels are -1 and +1."""

    def __init__(self, offset: Vector, labels: Vector, flip: float) -> None:
        self.offset, self.label_weight = offset, label_weight(offset, flip)
        self.estimate = (0.5 * (labels + 1) - flip) / (1 - 2 * flip)
        self.weight = self.label_weight * _variance(expit(offset))

    def slope(self, score: Vector) -> Vector:
        """Weight times (sigma(t) - estimate)."""
        return np.asarray(self.label_weight * (expit(self.offset + score) - self.estimate))

    def relative_curvature(self, moved: Vector, spread: float) -> float:
        """Of p (1 - p)."""
        return _relative(lambda p: self.label_weight * _variance(p), self, moved, spread)


class Margin:
    """Any loss of the margin that falls and whose derivative is bounded."""

    def __init__(self, offset: Vector, labels: Vector, loss: Loss) -> None:
        self.offset, self.labels, self.loss = offset, labels, loss
        self.weight = loss.lipschitz * _tails(expit(offset))

    def slope(self, score: Vector) -> Vector:
        """The derivative of the loss."""
        return self.loss.grad(self.offset + score, self.labels)

    def relative_curvature(self, moved: Vector, spread: float) -> float:
        """1: the curvature is taken as at the start."""
        return 1.0


class Residual:
    """Numbers as labels, in units of the label holder's own residual: t - y, clipped."""

    def __init__(self, offset: Vector, labels: Vector, clip: float) -> None:
        self.offset, self.labels, self.clip = offset, labels, clip
        self.weight = np.ones(offset.size)

    def slope(self, score: Vector) -> Vector:
        """T - y, clipped."""
        return np.clip(self.offset + score - self.labels, -self.clip, self.clip)

    def relative_curvature(self, moved: Vector, spread: float) -> float:
        """1: the curvature is the same everywhere."""
        return 1.0


class ClassTarget:
    """Softmax of several classes, in an orthonormal basis of the scores that sum to zero: a column for each direction.

    The basis turns the mean curvature of a row at the offsets into a diagonal matrix. A derivative p - t sums to zero,
    so that its norm is the same in this basis.
    """

    def __init__(self, offset: Vector, labels: Vector, count: int) -> None:
        self.offset, self.at = offset.reshape(-1, count), (np.arange(labels.size), labels.astype(np.intp))
        p = softmax(self.offset, axis=1)
        self.weight = np.minimum(_scatter(p), 1 / count)
        basis = balanced_basis(count)
        bent = np.diag(p.sum(axis=0)) - p.T @ p
        values, vectors = eigen(basis.T @ bent @ basis)
        self.directions = basis @ vectors
        self.curvatures = np.maximum(values / max(float(self.weight.sum()), 1e-300), LEAST_CURVATURE)
        self.short = 1 - 2.0**-48 * count**1.5  # so that rounding makes no derivative longer than sqrt 2

    def slope(self, score: Vector) -> Vector:
        """P - t, in the basis."""
        r = softmax(self.offset + score @ self.directions.T, axis=1)
        r[self.at] -= 1.0
        return np.asarray(self.short * (r @ self.directions))

    def relative_curvature(self, moved: Vector, spread: float) -> float:
        """Of (1 - sum of p^2) / (C - 1); `spread` is that of all directions together."""
        scale = math.sqrt(1 + math.pi * spread / max(1, self.curvatures.size) / 8)
        p = softmax((self.offset + moved @ self.directions.T) / scale, axis=1)
        return _held(float(_scatter(p).sum()) / scale, self)


class CountTarget:
    """Counts with mean exp(t), in units of the root mean square residual at the offsets: exp(t) - y, clipped."""

    def __init__(self, offset: Vector, labels: Vector, clip: float) -> None:
        self.offset, self.labels, self.clip = np.clip(offset, -LARGEST_SCORE, LARGEST_SCORE), labels, clip
        mean = np.exp(self.offset)
        self.unit = max(math.sqrt(float(np.mean(np.square(mean - labels)))), 1e-100)
        self.usual = float(np.quantile(mean, USUAL_MEANS))
        self.weight = np.minimum(mean / self.usual, 1.0)
        self.directions: Vector | None = None
        self.curvatures = np.array([self.usual / self.unit])

    def slope(self, score: Vector) -> Vector:
        """exp(t) - y in units of the residual, clipped."""
        mean = np.exp(np.clip(self.offset[:, None] + score, -LARGEST_SCORE, LARGEST_SCORE))
        return np.clip((mean - self.labels[:, None]) / self.unit, -self.clip, self.clip)

    def relative_curvature(self, moved: Vector, spread: float) -> float:
        """Of the mean, which a spread of the score raises."""
        now = np.exp(np.clip(self.offset + moved[:, 0] + spread / 2, -LARGEST_SCORE, LARGEST_SCORE))
        return _held(float(np.minimum(now / self.usual, 1.0).sum()), self)


DirectedTarget = ClassTarget | CountTarget  # a derivative in each of some directions, and the curvature of each


def _scatter(p: Vector) -> Vector:
    """Mean curvature of a row over the directions of classes: (1 - sum of p^2) / (C - 1), at most 1/C."""
    return np.asarray(np.maximum(0.0, 1 - np.square(p).sum(axis=1)) / (p.shape[1] - 1))


def _held(now: float, target: DirectedTarget) -> float:
    """A curvature relative to that of the weights, within what a few steps bear."""
    return float(np.clip(now / max(float(target.weight.sum()), 1e-300), 0.3, 1.2))


@dataclass(frozen=True)
class Levels:
    """The label holder's released score in levels: cuts between them, and their middles."""

    cuts: Vector
    middles: Vector


def levels_of(mean: float, spread: float, count: int) -> Levels:
    """Levels of equal probability for scores of this mean and deviation, both of them released values."""
    cuts = ndtri(np.arange(1, count) / count) if count > 1 else np.zeros(0)
    return Levels(mean + spread * cuts, mean + spread * ndtri((np.arange(count) + 0.5) / count))


def bit_factor(epsilon: float) -> float:
    """What a randomized sign is multiplied with to be unbiased."""
    return 1.0 / math.tanh(epsilon / 2)


class Bits:
    """One randomized sign of the label holder's residual for each row: a fixed derivative."""

    def __init__(self, signs: Vector, response: Response, levels: Levels) -> None:
        self.slopes = response.clip * bit_factor(response.epsilon) * signs
        self.offset = np.zeros(signs.size)
        points, mass = np.polynomial.hermite_e.hermegauss(15)
        middle, spread = float(levels.middles[0]), float(levels.middles[1] - levels.middles[0])
        curvature = float((mass / mass.sum()) @ _variance(expit(middle + spread * points)))
        self.weight = np.full(signs.size, curvature)

    def slope(self, score: Vector) -> Vector:
        """The same at every score."""
        return self.slopes

    def relative_curvature(self, moved: Vector, spread: float) -> float:
        """1: the curvature is the same everywhere."""
        return 1.0


class Symbols:
    """One randomized symbol (level, label) for each row.

    The derivative is the unbiased estimate [r_s(t) - q sum_j r_j(t)] / (keep - q) of the derivative at the true
    symbol, clipped to the sign of the reported label: |derivative| <= (1 - q levels) / (keep - q).
    """

    def __init__(self, symbols: Vector, response: Response, levels: Levels) -> None:
        count, self.middles = response.symbols, levels.middles
        grown = math.exp(response.epsilon)
        self.q = 1 / (grown + count - 1)
        keep = grown * self.q
        self.level, self.label = symbols.astype(np.intp) // 2, symbols % 2
        self.apart, self.most = keep - self.q, 1 - self.q * response.levels
        likely = (keep + self.q) / (keep + self.q + (response.levels - 1) * 2 * self.q)
        own = self.middles[self.level]
        self.offset = likely * own + (1 - likely) * (self.middles.sum() - own) / max(1, response.levels - 1)
        self.weight = _variance(expit(self.offset))

    def slope(self, score: Vector) -> Vector:
        """The unbiased residual, clipped to its sign; `score` is beside the levels, not beside `offset`."""
        others = sum(expit(middle + score) for middle in self.middles)
        raw = expit(self.middles[self.level] + score) - self.label - self.q * (2 * others - self.middles.size)
        clipped = np.where(self.label > 0.5, np.clip(raw, -self.most, 0.0), np.clip(raw, 0.0, self.most))
        return np.asarray(clipped / self.apart)

    def relative_curvature(self, moved: Vector, spread: float) -> float:
        """Of p (1 - p)."""
        return _relative(_variance, self, moved, spread)


def symbol_slope(response: Response) -> float:
    """Bound on the derivative that a symbol of this response gives."""
    if response.levels == 1:
        return response.clip * bit_factor(response.epsilon)
    q = 1 / (math.exp(response.epsilon) + response.symbols - 1)
    return (1 - q * response.levels) / (math.exp(response.epsilon) * q - q)


def _tails(p: Vector) -> Vector:
    return np.minimum(p, 1 - p)


def _variance(p: Vector) -> Vector:
    return p * (1 - p)


def _relative(curvature: object, target: FitTarget, moved: Vector, spread: float) -> float:
    """Mean curvature over rows whose scores have moved, and spread like a normal law (its probit approximation)."""
    assert callable(curvature)
    scale = math.sqrt(1 + math.pi * spread / 8)
    now = float(curvature(expit((target.offset + moved) / scale)).sum()) / scale
    return float(np.clip(now / max(float(target.weight.sum()), 1e-300), 0.3, 1.2))


# --- What private sharing in Gram space sends, and how long it takes, from public sizes


NUMBER = 8  # bytes
FIT_NUMBERS = 3  # radius, spread and freedom
BIT_MIDDLES = 2  # where one bit is sent for each row, two scores describe the label holder's own
# Seconds, as measured on one core of about 3 GHz with 2,000 to 200,000 rows and 20 to 400 columns: a run took between
# half and twice as long.
START, PER_ROW, PER_VALUE, PER_PRODUCT, PER_CUBE = 0.3, 6e-6, 2.8e-7, 2e-10, 1e-8
RANDOMIZED_LABELS, HOLDER_WITH_NOISE = 1.4, 0.4  # against the label holder's own exact fits


def payload(settings: GramSettings, layout: FeatureSplit) -> dict[str, tuple[int, int]]:
    """Bytes to each protected party and back, over the whole run."""
    return {name: _of_party(settings, layout, name) for name in settings.fits}


def _of_party(settings: GramSettings, layout: FeatureSplit, name: str) -> tuple[int, int]:
    side = 2 if settings.fits[name].score_column else 1
    response, outputs = settings.response, settings.seen_loss.outputs
    if response is None:
        down = (outputs + 1) * layout.rows  # a score, or one for each class, and a label for each row
    else:
        levels = response.levels
        down = layout.rows + (BIT_MIDDLES if levels == 1 else 2 * levels - 1)
    up = (outputs + 1) * layout.columns_of(name) + outputs * side + FIT_NUMBERS
    if settings.refit is not None:
        up += layout.rows
    elif settings.releases_loss_change:
        down, up = down + side, up + 1
    if settings.evaluation is not None:
        bins = settings.evaluation.bins
        down, up = down + 3 * layout.held + bins - 1, up + 2 * bins + 2
    return NUMBER * down, NUMBER * up


def seconds(settings: GramSettings, layout: FeatureSplit) -> float:
    """Rough guess of the time of a run in one process."""
    factor = RANDOMIZED_LABELS if settings.label_epsilon is not None else 1.0
    factor = HOLDER_WITH_NOISE if settings.response is not None else factor
    values = layout.rows * sum(layout.columns)
    squares = sum(layout.columns_of(name) ** 2 for name in settings.fits)
    cubes = sum(layout.columns_of(name) ** 3 for name in settings.fits)
    by_rows = factor * (PER_ROW * layout.rows + PER_VALUE * values)
    return START + by_rows + PER_PRODUCT * layout.rows * squares + PER_CUBE * cubes
