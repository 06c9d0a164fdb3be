"""A second fit of the label holder, beside what its own columns can tell of the others' noisy scores."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from tacit.algorithms.block import Block
from tacit.algorithms.gram.fit import PrivateFit
from tacit.algorithms.gram.party import share_clip
from tacit.algorithms.gram.settings import GramSettings
from tacit.algorithms.gram.targets import bit_factor
from tacit.problem.losses.base import Loss
from tacit.types import Vector


def loss_beside(
    block: Block, loss: Loss, fits: Mapping[str, PrivateFit], bits: Mapping[str, Vector], settings: GramSettings
) -> Loss:
    """The loss of the label holder's scores beside the others'; a noisy score itself never enters a loss.

    What the own columns explain of the noisy scores is added to the own score; the rest of the others' score acts as
    a normal spread, which flattens the loss (probit approximation).
    """
    assert settings.refit is not None
    total, noise, spread = np.zeros(block.n), 0.0, 0.0
    for name, fit in fits.items():
        size = settings.damping * share_clip(fit) * bit_factor(settings.refit.epsilon)
        total += size * np.where(bits[name] > 0.5, 1.0, -1.0)
        noise, spread = noise + size**2, spread + settings.damping**2 * max(fit.spread, 1e-4)
    told = _explained(block, total, noise, spread)
    left = max(0.3 * spread, spread - float(np.var(told)))
    return Beside(loss, told, 1 / math.sqrt(1 + math.pi * left / 8))


def _explained(block: Block, total: Vector, noise: float, spread: float) -> Vector:
    """Ridge regression of the noisy scores on the own columns; prior: what they explain varies by `spread`."""
    n, columns = block.n, block.d + 1
    gram = np.empty((columns, columns))
    gram[:-1, :-1] = block.gram()
    gram[-1, :-1] = gram[:-1, -1] = block.correlate(np.ones(n))
    gram[-1, -1] = n
    values, vectors = np.linalg.eigh(gram / n)
    right = np.append(block.correlate(total), total.sum()) / n
    ridge = noise / n * columns / spread * float(values.mean())
    coef = vectors @ ((vectors.T @ right) / (np.maximum(values, 0.0) + ridge))
    return np.asarray(block.predict(coef[:-1]) + coef[-1])


class Beside(Loss):
    """A loss of scores that are added to a fixed offset and shrunk: value(factor (offset + z))."""

    def __init__(self, inner: Loss, offset: Vector, factor: float) -> None:
        self.inner, self.offset, self.factor = inner, offset, factor
        self.name, self.task, self.convex, self.smooth = (
            inner.name,
            inner.task,
            inner.convex,
            inner.smooth,
        )
        self.lipschitz, self.curvature = factor * inner.lipschitz, factor**2 * inner.curvature

    def value(self, z: Vector, y: Vector) -> Vector:
        """Of the shifted, shrunk score."""
        return self.inner.value(self.factor * (self.offset + z), y)

    def grad(self, z: Vector, y: Vector) -> Vector:
        """Of the shifted, shrunk score."""
        return self.factor * self.inner.grad(self.factor * (self.offset + z), y)

    def hess(self, z: Vector, y: Vector) -> Vector:
        """Of the shifted, shrunk score."""
        return self.factor**2 * self.inner.hess(self.factor * (self.offset + z), y)

    def prox(self, v: Vector, y: Vector, step: float | Vector) -> Vector:
        """By the substitution w = factor (offset + z)."""
        inner = self.inner.prox(self.factor * (self.offset + v), y, self.factor**2 * step)
        return inner / self.factor - self.offset

    def conjugate(self, t: Vector, y: Vector) -> Vector:
        """By the same substitution."""
        return self.inner.conjugate(t / self.factor, y) - t * self.offset
