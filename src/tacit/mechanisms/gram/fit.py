"""The private fit of one party: a noisy mean, a noisy Gram matrix and a few noisy gradients, and nothing else.

Every value that meets the party's rows passes `release`; all other lines compute with released values, with what the
label holder sent, or with public numbers. Theorem: docs/proofs/gram.md.

| symbol | meaning |
|---|---|
| a | a row, clipped to norm 1, centred and clipped again |
| c | its side columns |
| G, g | Gram matrix and gradient, with noise |
| e, V | eigenvalues and eigenvectors |

Is the collaboration worth it? One noisy number of each party says how the joint model changes the loss.

After the fits, a protected party releases the sum over its rows of the clipped change in log loss that its score
makes, with noise of its own (gram.md, section 6). The estimate of the joint model's loss on new rows below is
computed from such sums and from what the label holder knows; it is an estimate, and no theorem.

| symbol | meaning |
|---|---|
| b | scores of the label holder, moved by the side columns |
| z | a party's damped score |
| q | probability with which a label was flipped |

How good is it on rows that were held out? A noisy histogram and two noisy sums of them say so (evaluation.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tacit.blocks.dense import Block, ClippedRows, RowClip, eigen, without_noise
from tacit.errors import RunError
from tacit.mechanisms.base import ESTIMATED, MEASURES, UNMEASURED, Inbox
from tacit.mechanisms.gram.settings import (
    CLASS_CONSTANT,
    CONSTANT,
    LEAST_SPREAD,
    MOST_SHOWN,
    NOISE_FACTOR,
    PRIOR,
    RADIUS,
    DirectedTarget,
    EvaluationSettings,
    FitSettings,
    FitTarget,
    GramSettings,
)
from tacit.solvers.base import Release
from tacit.topologies import FeatureSplit
from tacit.types import SCORE_CLIP, Arrays, Vector

# --- The private fit of one party: a noisy mean, a noisy Gram matrix and a few noisy gradients, and nothing else


SIDE_PRIOR = 4.0  # variance of a side coefficient
LEAST_WEIGHT = 1e-9  # mean weight of a row: scores that leave nothing to learn must not make anything overflow
TOGETHER, MOST_TOGETHER = 0.35, 0.9  # of the score that was sent: what the own columns explain, likely and at most
DRAWS = 16  # of what is not known
BESIDE_SYMBOLS = 1.25  # on the covariance, as the label holder's levels have noise of their own: measured
LARGEST = 1e30  # of a coefficient in units of the rows: far beyond what noise can make of it
MEAN, TRACE, GRAM, GRADIENT, LOSS_CHANGE = "mean", "trace", "gram", "gradient", "check"


@dataclass(frozen=True)
class PrivateFit:
    """What a private fit gives out; all of it may be published.

    Attributes
    ----------
    clip : RowClip
        How a row is clipped before it is scored.
    coef : Vector
        Coefficients of the clipped row, in units of its columns; of several classes a row for each.
    side : Vector
        Coefficients of the side columns; of several classes that of the constant for each.
    spread : float
        Estimated variance of the score over the rows.
    freedom : float
        Effective number of coefficients.
    noise : Vector or None
        About the covariance that the noise gives `coef`, computed from releases; it stays with the party. None where a
        fit came from elsewhere.
    """

    clip: RowClip
    coef: Vector
    side: Vector
    spread: float
    freedom: float
    noise: Vector | None = None


def side_columns(offset: Vector, *, score_column: bool) -> Vector:
    """(1, clip(offset)/4), whose squared norm is at most 2; or one small constant."""
    if not score_column:
        return np.full((offset.size, 1), CONSTANT)
    return np.vstack([np.ones(offset.size), np.clip(offset, -SCORE_CLIP, SCORE_CLIP) / SCORE_CLIP]).T


def directed_fit(
    block: Block, target: DirectedTarget, settings: FitSettings, release: Release, *, ridge: float = 0.0
) -> PrivateFit:
    """The same of a target with several directions of scores, or with a unit of its own: each has its own metric.

    All directions share the Gram matrix; the curvature in each is a multiple of it, which what was sent fixes. What
    noise does to these coefficients is not computed: curves have no band.
    """
    total = max(float(target.weight.sum()), LEAST_WEIGHT * block.n)
    clip = _private_clip(block, target.weight, total, settings, release)
    rows, unit = clip.apply(block), clip.radius
    gram = _private_gram(rows, target.weight, unit, settings, release)
    side = np.full((block.n, 1), CONSTANT if target.directions is None else CLASS_CONSTANT)
    metrics = []
    for curvature in target.curvatures:
        scaled = replace(settings, gram_sd=curvature * settings.gram_sd)
        metrics.append(_Metric(curvature * gram, side, curvature * target.weight, scaled, curvature * total))
        metrics[-1].set_ridge(max(1.0 / PRIOR, ridge / unit**2), 1.0)
    x, spread = np.zeros((rows.d + 1, len(metrics))), 0.0
    for k in range(settings.steps):
        moved = side @ x[rows.d :]
        own = np.column_stack([rows.predict(column / unit) for column in x[: rows.d].T])
        slopes = [np.ascontiguousarray(column) for column in target.slope(own + moved).T]
        sums = [np.concatenate([rows.correlate(column) / unit, _sums(side, column)]) for column in slopes]
        gradient = release.add(GRADIENT, np.concatenate(sums)).reshape(len(metrics), -1)
        scale = target.relative_curvature(moved, spread) if k else 1.0
        steps = [one.newton(g, column, scale) for one, g, column in zip(metrics, gradient, x.T, strict=True)]
        x = _bounded(x - settings.decay / (k + settings.decay) * np.column_stack(steps))
        parts = [one.spread(column) / bend for one, column, bend in zip(metrics, x.T, target.curvatures, strict=True)]
        spread = sum(parts) / total
    freedom = sum(one.freedom for one in metrics)
    if target.directions is not None:
        turned = target.directions @ x.T
        return PrivateFit(clip, turned[:, : rows.d] / unit, turned[:, rows.d], spread, freedom)
    return PrivateFit(clip, x[: rows.d, 0] / unit, x[rows.d :, 0], spread, freedom)


def private_fit(
    block: Block, target: FitTarget, settings: FitSettings, release: Release, *, ridge: float = 0.0, excess: float = 1.0
) -> PrivateFit:
    """Fit a party's rows to a target.

    Parameters
    ----------
    ridge : float
        N alpha: the penalty of the objective on coefficients in units of the columns.
    excess : float
        Variance of a derivative relative to its curvature: 1 for exact labels, more for randomized ones.
    """
    total = max(float(target.weight.sum()), LEAST_WEIGHT * block.n)
    clip = _private_clip(block, target.weight, total, settings, release)
    rows, unit = clip.apply(block), clip.radius
    side = side_columns(target.offset, score_column=settings.score_column)
    metric = _Metric(_private_gram(rows, target.weight, unit, settings, release), side, target.weight, settings, total)
    metric.set_ridge(max(excess / PRIOR, ridge / unit**2), excess)
    x, spread, walk = np.zeros(rows.d + side.shape[1]), 0.0, []
    for k in range(settings.steps):
        moved = side @ x[rows.d :]
        slopes = target.slope(rows.predict(x[: rows.d] / unit) + moved)
        gradient = release.add(GRADIENT, np.concatenate([rows.correlate(slopes) / unit, _sums(side, slopes)]))
        scale = target.relative_curvature(moved, spread) if k else 1.0
        walk.append(_Step(x, gradient, scale))
        x = _bounded(x - settings.decay / (k + settings.decay) * metric.newton(gradient, x, scale))
        spread = metric.spread(x) / total
    noise = metric.covariance(walk, excess) / unit**2 if rows.d <= MOST_SHOWN else None
    return PrivateFit(clip, x[: rows.d] / unit, x[rows.d :], spread, metric.freedom, noise)


def _bounded(x: Vector) -> Vector:
    """What was computed from releases, so that scores of rows stay finite numbers whatever the rows are."""
    return np.clip(np.where(np.isnan(x), 0.0, x), -LARGEST, LARGEST)


def _sums(side: Vector, slopes: Vector) -> Vector:
    """Sums over the rows, each by pairwise summation, which numpy does along contiguous entries only."""
    return np.array([(np.ascontiguousarray(column) * slopes).sum() for column in side.T])


def _private_clip(block: Block, weight: Vector, total: float, settings: FitSettings, release: Release) -> RowClip:
    """Centre and radius from a noisy mean and a noisy trace, in units of the public norm."""
    norm = settings.row_norm
    rows = RowClip(norm).apply(block)
    mean = release.add(MEAN, rows.correlate(weight) / norm)
    trace = float(release.add(TRACE, [float((weight * rows.squares()).sum()) / norm**2])[0])
    noise = rows.d * settings.mean_sd**2 / total
    signal = float(mean @ mean) / total
    centre = mean / total * max(0.0, 1 - noise / max(signal, 1e-12))
    centre /= max(1.0, float(np.linalg.norm(centre)))  # no mean of rows is longer; rounding is bounded by it
    inside = min(max((trace - signal + noise) / total, LEAST_SPREAD), 1.0)
    return RowClip(norm, centre * norm, RADIUS * math.sqrt(inside) * norm)


def _private_gram(rows: ClippedRows, weight: Vector, unit: float, settings: FitSettings, release: Release) -> Vector:
    """The Gram matrix as one vector (diagonal, and sqrt(2) times what is above it), so that norms are kept."""
    gram = rows.gram(weight) / unit**2
    above = np.triu_indices(rows.d, 1)
    noisy = release.add(GRAM, np.concatenate([np.diag(gram), math.sqrt(2) * gram[above]]))
    result = np.diag(noisy[: rows.d])
    result[above] = noisy[rows.d :] / math.sqrt(2)
    return np.asarray(result + np.triu(result, 1).T)


@dataclass(frozen=True, eq=False)
class _Step:
    """Where a step began, its noisy gradient, and the curvature there relative to that of the weights."""

    x: Vector
    gradient: Vector
    scale: float


class _Metric:
    """The noisy Gram matrix, and that of the side columns, in their eigenvectors."""

    def __init__(self, gram: Vector, side: Vector, weight: Vector, settings: FitSettings, total: float) -> None:
        values, vectors = eigen(gram)
        self.side = (side * weight[:, None]).T @ side
        own_values, own_vectors = eigen(self.side)
        self.d, self.settings, self.gram = gram.shape[0], settings, gram
        floor = settings.gram_sd * math.sqrt(self.d)
        self.values = np.concatenate([np.maximum(values, floor), np.maximum(own_values, 1e-3 * total)])
        low = values <= math.sqrt(2) * floor  # noise alone reaches as far: of these, only the sum tells anything
        left = max(0.0, float(values[low].mean())) if low.any() else 0.0
        self.likely = np.concatenate([np.where(low, left, values), own_values])
        self.vectors, self.side_vectors = vectors, own_vectors
        self.ridge = np.zeros(self.values.size)

    def set_ridge(self, prior: float, excess: float) -> None:
        """Weight of the prior, and of the noise that all gradients together leave in a direction."""
        noise = NOISE_FACTOR * self.settings.gradient_sd**2 / self.settings.steps / self.values
        priors = np.full(self.values.size, prior)
        priors[self.d :] = excess / SIDE_PRIOR
        noise[: self.d] /= PRIOR
        noise[self.d :] /= SIDE_PRIOR
        self.ridge = priors + noise

    def _turn(self, x: Vector) -> Vector:
        return np.concatenate([self.vectors.T @ x[: self.d], self.side_vectors.T @ x[self.d :]])

    def newton(self, gradient: Vector, x: Vector, scale: float) -> Vector:
        """The step (scale G + ridge)^-1 (gradient + ridge x)."""
        step = (self._turn(gradient) + self.ridge * self._turn(x)) / (scale * self.values + self.ridge)
        return np.concatenate([self.vectors @ step[: self.d], self.side_vectors @ step[self.d :]])

    @property
    def freedom(self) -> float:
        """How much the steps bend to the rows' own labels: the part gone of the way to (G + ridge)^-1 G, its trace."""
        pull, counts = self.likely + self.ridge, np.arange(self.settings.steps)[:, None]
        sizes = self.settings.decay / (counts + self.settings.decay)
        gone = 1 - np.prod(1 - sizes * pull / (self.values + self.ridge), axis=0)
        return float((self.likely / pull * gone).sum())

    def covariance(self, walk: Sequence[_Step], excess: float) -> Vector:
        """About the covariance of the coefficients by the noise of all gradients, and by randomized labels.

        Over what gradients tell of how the own columns go with the score that was sent. How often bands held that were
        made of it: bench/coverage.py and tests/algorithms/gram/test_noise.py.
        """
        own = without_noise(self.gram, self.settings.gram_sd / math.sqrt(2))
        crosses = self._crosses(own, walk)
        spread = sum(self._spread_by(own, cross, walk[-1].scale, excess) for cross in crosses) / len(crosses)
        return np.asarray((BESIDE_SYMBOLS if len(self.side) == 1 and excess > 1 else 1.0) * spread)

    def _spread_by(self, own: Vector, cross: Vector, scale: float, excess: float) -> Vector:
        """The same where the Gram matrix, and that of the own columns with the score, are these.

        With M = scale G + ridge of a step, and H what this likely is without noise, an error e of the coefficients
        becomes e - size M^-1 (H e + noise). The noise of a gradient is new in each step; what randomized labels add to
        it, (excess - 1) G in variance, is the same in all of them.
        """
        d, whole, vectors = self.d, np.zeros((self.values.size,) * 2), np.zeros((self.values.size,) * 2)
        whole[:d, :d], whole[d:, d:], whole[-1, :d], whole[:d, -1] = own, self.side, cross, cross
        vectors[:d, :d], vectors[d:, d:] = self.vectors, self.side_vectors
        root = 1 / np.sqrt(scale * self.values + self.ridge)
        clear = root * (vectors.T @ (scale * whole) @ vectors) * root[:, None]
        pull, turn = eigen(clear + np.diag(root**2 * self.ridge))
        moved = self._moved(pull)
        noise = self.settings.gradient_sd**2 * (turn.T * root**2) @ turn * (moved.T @ moved)
        noise += (excess - 1) * (turn.T @ clear @ turn) * np.outer(moved.sum(axis=0), moved.sum(axis=0))
        back = (vectors @ (root[:, None] * turn))[:d]
        return np.asarray(back @ noise @ back.T)

    def _crosses(self, own: Vector, walk: Sequence[_Step]) -> Vector:
        """Draws of the Gram matrix of the own columns with the score that was sent, which is not released.

        It is seen in how gradients change where the coefficient of the score did: a regression over the steps for each
        eigenvector of `own`, with a prior by which all of them together explain about TOGETHER of the score.
        """
        if len(self.side) == 1:
            return np.zeros((1, self.d))
        values, vectors = eigen(own)
        values = np.maximum(values, 1e-12 * max(1.0, float(values.max())))
        points, scales = np.array([step.x for step in walk]), np.array([step.scale for step in walk])
        moved = scales * points[:, -1] - np.mean(scales * points[:, -1])
        gradients = np.array([step.gradient[: self.d] for step in walk])
        seen = moved @ (gradients - scales[:, None] * (points[:, : self.d] @ own)) @ vectors
        score = max(float(self.side[1, 1] - self.side[0, 1] ** 2 / max(self.side[0, 0], 1e-12)), 1e-12)
        prior, sd = TOGETHER * score * values / self.d, self.settings.gradient_sd
        part = prior / np.maximum(sd**2 + prior * float(moved @ moved), 1e-300)
        draws = np.random.default_rng(0).normal(size=(DRAWS, self.d)) * sd * np.sqrt(part) + part * seen
        explained = (draws**2 / values).sum(axis=1) / score
        return np.asarray((draws * np.sqrt(MOST_TOGETHER / np.maximum(MOST_TOGETHER, explained))[:, None]) @ vectors.T)

    def _moved(self, pull: Vector) -> Vector:
        """What is left in the end of a unit of noise in each step, in directions of these curvatures."""
        sizes = self.settings.decay / (np.arange(self.settings.steps) + self.settings.decay)
        left = 1 - np.outer(sizes, pull)
        later = np.cumprod(np.vstack([np.ones(pull.size), left[:0:-1]]), axis=0)[::-1]
        return np.asarray(sizes[:, None] * later)

    def spread(self, x: Vector) -> float:
        """X' G x over the party's own columns."""
        return float(self.values[: self.d] @ np.square(self.vectors.T @ x[: self.d]))


# --- Is the collaboration worth it? One noisy number of each party says how the joint model changes the loss


DOUBTFUL_NOISE = 0.012  # of the same, where the label holder's rows are protected too: measured, see `outlook`
LARGE_NOISE = 0.05  # of the mean gradient, in units of a row
TARGET_SD = 0.005  # the clip is widened as long as the noise of the mean stays below this
CLIPS = (0.5, 2.0)  # least and largest clip of one row's change
OVERLAP, OVERLAP_SD = 0.4, 0.2  # of the most that several parties' scores can share, as seen on real data
SURE = 2.5  # standard deviations from zero before anything is said
SURE_TRACE = 5e-4  # noise of the trace over the rows, up to which the radius tells how long the rows are


@dataclass(frozen=True)
class Gain:
    """What the label holder gets alone, and by how much the joint model changes it, on new rows.

    Attributes
    ----------
    alone : float
        Log loss of the label holder's own model, by fits that did not see the row.
    change, sd : float
        Estimated change by the joint private model (negative is better), and its standard deviation.
    """

    alone: float
    change: float
    sd: float

    @property
    def verdict(self) -> str:
        """One of "worth it", "not worth it", "cannot be told"."""
        if abs(self.change) <= SURE * self.sd:
            return "cannot be told"
        return "worth it" if self.change < 0 else "not worth it"

    def sentence(self, holder: str, *, randomized: bool = False) -> str:
        """For people: an estimate, told as one; no verdict where both models were trained on randomized labels."""
        joint, either = self.alone + self.change, SURE * self.sd
        if randomized:
            return (
                f"{ESTIMATED}, log loss on new rows with randomized labels: {holder} alone on these {self.alone:.4f}, "
                f"joint private model {joint:.4f} +/- {either:.4f}; whether it beats {holder} alone with its true "
                "labels cannot be told from this"
            )
        said = f"{ESTIMATED}, log loss on new rows: {holder} alone {self.alone:.4f}"
        if either >= self.alone and self.verdict == "cannot be told":
            return f"{said}; that of the joint private model is lost in noise, so whether it helps cannot be told"
        said = f"{said}, joint private model {joint:.4f} +/- {either:.4f}"
        if self.verdict == "not worth it":
            return f"{said}: NOT worth it at this epsilon: {holder} alone is better"
        if self.verdict == "cannot be told":
            return f"{said}: the difference cannot be told from noise; more rows or a larger epsilon may tell"
        return f"{said}: worth it"


def loss_change_clip(rows: int, mu: float, flip: float) -> float:
    """Clip of one row's change, from public numbers."""
    return min(max(TARGET_SD * (1 - 2 * flip) * mu * rows / 2, CLIPS[0]), CLIPS[1])


def row_changes(base: Vector, score: Vector, labels: Vector, clip: float, flip: float) -> Vector:
    """Clipped change of each row's log loss from b to b + z; unbiased over flips of the labels -1 and +1."""
    changes = _change(base, score, labels, clip)
    if flip == 0.0:
        return changes
    return np.asarray(((1 - flip) * changes - flip * _change(base, score, -labels, clip)) / (1 - 2 * flip))


def _change(base: Vector, score: Vector, labels: Vector, clip: float) -> Vector:
    after, before = np.logaddexp(0, -labels * (base + score)), np.logaddexp(0, -labels * base)
    return np.asarray(np.clip(after - before, -clip, clip))


@dataclass(frozen=True)
class PartyChange:
    """One party's part: its noisy mean change and that noise, the freedom of its fit, and its mean squared score."""

    change: float
    sd: float
    freedom: float
    spread: float


def estimate(alone: Vector, moved: Vector, parties: list[PartyChange], *, excess: float, damping: float) -> Gain:
    """The gain of the joint model.

    Parameters
    ----------
    alone, moved : Vector
        The label holder's loss of each row, by its own out-of-fold score, and by that score and the side columns.
    excess : float
        How much more a derivative varies than its curvature says (randomized labels).
    """
    rows, exact = alone.size, moved - alone
    overlap = 0.5 * (sum(math.sqrt(party.spread) for party in parties) ** 2 - sum(party.spread for party in parties))
    change = float(exact.mean()) + sum(party.change for party in parties) + OVERLAP * overlap
    change += damping * excess * sum(party.freedom for party in parties) / rows  # what a fit learns of its own rows
    variance = sum(party.sd**2 for party in parties) + (OVERLAP_SD * overlap) ** 2
    variance += (float(exact.var()) + excess * sum(party.spread for party in parties)) / rows
    return Gain(float(alone.mean()), change, math.sqrt(variance))


# --- row_norm ----------------------------------------------------------------------------------------


def is_short(radius: float, settings: FitSettings, rows: int) -> bool:
    """Whether the released radius is the least that a fit takes, and the noise was too small to make it so."""
    least = RADIUS * math.sqrt(LEAST_SPREAD) * settings.row_norm
    return radius <= least * (1 + 1e-9) and settings.trace_sd <= SURE_TRACE * rows


def large_norm(name: str, row_norm: float) -> str:
    """The remark that a row_norm is far larger than the rows."""
    return (
        f"row_norm = {row_norm:g} is more than 4 times as long as rows of {name} typically are around their mean, as "
        "its released radius tells: the noise is made for rows of that length; a smaller row_norm would need less "
        "(every run costs its own epsilon)"
    )


# --- what the sizes alone say, before a run


def noise_level(fit: FitSettings, rows: int, columns: int) -> float:
    """Norm of the noise in a mean gradient, that of randomized labels included, for rows of norm 1."""
    return math.sqrt((fit.gradient_sd**2 / fit.steps * columns / rows + fit.label_noise) / rows)


def outlook(settings: GramSettings, layout: FeatureSplit) -> tuple[str, ...]:
    """What the sizes alone say about the noise. They do not tell who wins: that is measured, or not said.

    In trial runs on five public data sets with 500 to 24,000 rows, a level of at most 0.05 went with a joint model
    better than the label holder alone in 48 of 52 runs where row_norm was near the length of the rows, and in 34 of 52
    where it was 100 times as long; with protect="everyone" in 33 of 44 and in 2 of 44, and above 0.05 in none of 108.
    With curves, protect="everyone" and predictions with the label holder, beside its boosting alone (13 sets, epsilon 1
    and 4): up to 0.012 in 14 of 15, from there to 0.05 in 4 of 8, above in none of 3.
    """
    directions = max(1, settings.seen_loss.outputs - 1)
    levels = {
        name: noise_level(fit, layout.rows, directions * layout.columns_of(name)) for name, fit in settings.fits.items()
    }
    bad = [name for name, level in levels.items() if level > LARGE_NOISE]
    said = f"noise level {max(levels.values()):.2g}, for rows as long as row_norm (for shorter rows it is larger)"
    if bad:
        said += (
            f"; above {LARGE_NOISE:g}, as at {listed(bad)}, this is large noise: raise epsilon, or use more rows or "
            "fewer columns"
        )
    elif settings.holder_fit is not None and max(levels.values()) > DOUBTFUL_NOISE:
        said += (
            f"; above {DOUBTFUL_NOISE:g} where everyone is protected, this is doubtful: in trials at such levels "
            f"boosting by {layout.holder} alone was better in 4 of 8, at lower levels in 1 of 15"
        )
    return (said, unmeasured(settings, layout))


def unmeasured(settings: GramSettings, layout: FeatureSplit) -> str:
    """That nobody knows yet who wins, and how to find out."""
    tells = (
        "training estimates it from one more noisy sum of each protected party" if settings.releases_loss_change else ""
    )
    how = f"{tells}; {MEASURES}" if tells else f"nothing that this form of the run releases tells it; {MEASURES}"
    return f"{UNMEASURED}whether the joint model beats {layout.holder} alone; {how}"


def listed(names: Sequence[str]) -> str:
    """Names as in a sentence: a, b and c."""
    return ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1]


# --- How good the joint model is on rows that were held out: a planned release of these rows alone (evaluation.md)


HISTOGRAM, DIFFERENCE = "histogram", "difference"
BASE, ALONE, LABELS, CUTS = "base", "alone", "labels", "cuts"  # what the label holder sends of rows held out
SQUARE = math.sqrt(2)  # weight of the sum of squares: with it, that sum is free beside the sum (evaluation.md, lemma 2)


def held_question(base: Vector, alone: Vector, labels: Vector, bins: int) -> Arrays:
    """What the label holder sends: of each row its part of the score, its score alone and the label; and public cuts.

    The cuts are quantiles of its own part, the one nearest to 0 moved there: where a class begins.
    """
    cuts = np.quantile(base, np.arange(1, bins) / bins)
    cuts[np.argmin(np.abs(cuts))] = 0.0
    return {BASE: base, ALONE: alone, LABELS: labels, CUTS: np.sort(cuts)}


def held_answer(scores: Vector, inbox: Inbox, settings: EvaluationSettings, release: Release) -> Arrays:
    """What a protected party says of rows that were held out, `scores` being its own part of their scores."""
    rows, bins = scores.size, settings.bins
    base, alone = inbox.numbers(BASE, rows), inbox.numbers(ALONE, rows)
    labels, cuts = inbox.choices(LABELS, rows, (-1.0, 1.0)), np.sort(inbox.numbers(CUTS, bins - 1))
    joint = base + scores
    after, before = np.logaddexp(0, -labels * joint), np.logaddexp(0, -labels * alone)
    change = np.clip(after - before, -settings.clip, settings.clip) / settings.clip
    place = 2 * np.searchsorted(cuts, joint, side="right") + (labels > 0)
    counts = np.bincount(place, minlength=2 * bins).astype(np.float64)
    sums = [float(change.sum()), SQUARE * float((change**2).sum())]
    return {
        DIFFERENCE: release.add(DIFFERENCE, sums),
        HISTOGRAM: release.add(HISTOGRAM, counts),
    }


@dataclass(frozen=True, eq=False)
class HeldOutRelease:
    """What was released of rows held out, with what the label holder knows of them.

    Attributes
    ----------
    sums : array
        Of the clipped differences of losses in units of the clip, and sqrt(2) times that of their squares.
    counts : array of shape (bins, 2)
        Rows by joint score and label (negative, positive), with noise.
    cuts, alone, labels : array
        Between the bins; and of each row the label holder's score alone, and its label.
    settings : EvaluationSettings
    """

    sums: Vector
    counts: Vector
    cuts: Vector
    alone: Vector
    labels: Vector
    settings: EvaluationSettings

    @classmethod
    def of(cls, answer: Arrays, asked: Arrays, settings: EvaluationSettings, party: str) -> HeldOutRelease:
        """What a party answered to a question; refused where it is none."""
        wanted = {DIFFERENCE: (2,), HISTOGRAM: (2 * settings.bins,)}
        if {name: np.shape(array) for name, array in answer.items()} != wanted:
            raise RunError(f"party {party!r} sent something else than what was asked of the rows held out")
        counts = answer[HISTOGRAM].reshape(settings.bins, 2)
        return cls(answer[DIFFERENCE], counts, asked[CUTS], asked[ALONE], asked[LABELS], settings)
