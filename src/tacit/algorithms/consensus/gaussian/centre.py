"""The centre: mean row, spread and largest curvature, from sums over the rows of all nodes with noise.

A node's sums are one vector: sum x, then either the trace of sum x x' over sqrt(2), or its upper triangle with the
diagonal over sqrt(2). Noise of one deviation on all entries then costs what noise on the mean row alone would cost
(docs/proofs/graph.md, theorem 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tacit.algorithms.consensus.gaussian.rows import UnitRows
from tacit.algorithms.consensus.gaussian.settings import CONSTANT, LEAST_SPREAD, MOST_SPREAD, GaussianSettings
from tacit.types import Vector


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
    """

    mean: Vector
    spread: float = 1.0
    curvature: float = 1.0


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
    return Centre(mean, spread, 1.0 if gram is None else _curvature(gram, mean, spread, 2 * s * math.sqrt(d)))


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
