"""What a protected party fits: derivative and weight of each row, given what the label holder sent.

Weights depend on what was sent alone, never on the protected row: only then are they fixed when a row is replaced.

| target | derivative in the score | bound L1 | weight | bound L2 |
|---|---|---|---|---|
| half | -y exp(-max(0, y t)): the loss exp(-m) - 1/2 for m > 0, 1/2 - m below | 1 | min(p, 1 - p) | 1/2 |
| logistic | u (sigma(t) - unbiased estimate of the label) | e^eps/(e^eps - 1) | u p (1 - p) | 1/4 |
| margin | that of the loss | the loss's | L1 min(p, 1 - p) | L1/2 |
| residual | t - y, clipped | 2 (1/2 for the absolute loss) | 1 | 1 |
| symbols | unbiased residual from one randomized symbol of each row | (see the class) | by symbol | 1/4 |

p = sigma(offset), u = `label_weight` <= 1; every derivative but that of "residual" has a sign that the label, or the
symbol, fixes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import expit, ndtri

from tacit.algorithms.gram.settings import Response
from tacit.problem.losses.base import Loss
from tacit.types import Vector

RESIDUAL_CLIP = 2.0  # of a residual, in root mean squares of the label holder's own
ABSOLUTE_CLIP = 0.5  # for the absolute loss: nearly its sign


class Target(Protocol):
    """Derivative and weight of each row."""

    offset: Vector
    weight: Vector

    def slope(self, score: Vector) -> Vector:
        """Derivative of each row's loss where the party's own score (side columns included) is added to the offset."""

    def relative_curvature(self, moved: Vector, spread: float) -> float:
        """Mean curvature at offsets moved so far, with a further spread, relative to that of the weights."""


class Half:
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
        self.offset, self.told = offset, label_weight(offset, flip)
        self.estimate = (0.5 * (labels + 1) - flip) / (1 - 2 * flip)
        self.weight = self.told * _variance(expit(offset))

    def slope(self, score: Vector) -> Vector:
        """Weight times (sigma(t) - estimate)."""
        return np.asarray(self.told * (expit(self.offset + score) - self.estimate))

    def relative_curvature(self, moved: Vector, spread: float) -> float:
        """Of p (1 - p)."""
        return _relative(lambda p: self.told * _variance(p), self, moved, spread)


class Margin:
    """Any loss of the margin that falls and whose derivative is bounded."""

    def __init__(self, offset: Vector, labels: Vector, loss: Loss) -> None:
        self.offset, self.labels, self.loss = offset, labels, loss
        self.weight = loss.lipschitz * _tails(expit(offset))

    def slope(self, score: Vector) -> Vector:
        """The derivative of the loss."""
        return self.loss.grad(self.offset + score, self.labels)

    def relative_curvature(self, moved: Vector, spread: float) -> float:
        """Taken as it was."""
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
        """Constant."""
        return 1.0


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
        """Constant."""
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


def _relative(curvature: object, target: Target, moved: Vector, spread: float) -> float:
    """Mean curvature over rows whose scores have moved, and spread like a normal law (its probit approximation)."""
    assert callable(curvature)
    scale = math.sqrt(1 + math.pi * spread / 8)
    now = float(curvature(expit((target.offset + moved) / scale)).sum()) / scale
    return float(np.clip(now / max(float(target.weight.sum()), 1e-300), 0.3, 1.2))
