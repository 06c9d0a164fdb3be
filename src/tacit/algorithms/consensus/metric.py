"""The metric in which nodes measure how far they are from each other: the joint curvature, or its largest part.

Each node makes a vector from its own curvature H_i; the sum of these vectors over all nodes tells everybody the metric.
Up to `FULL` coordinates it is the joint curvature H itself. Beyond, it is a Nystroem approximation from H O, O a public
random matrix of `RANK` columns:  M = (H O) (O' H O)^-1 (H O)' + floor I, which agrees with H in its largest directions.
"""

from __future__ import annotations

from functools import cached_property, lru_cache

import numpy as np
from scipy import linalg

from tacit.algorithms.consensus.local import LocalProblem
from tacit.algorithms.linear import cholesky
from tacit.types import Vector

FULL = 300  # coordinates up to which the whole curvature travels: then about 0.4 MB from each node, a few times
RANK = 60
FLAT = 1e-10  # curvature added in every direction, relative to the mean one: a penalty must be positive definite


class DenseMetric:
    """M as a matrix."""

    def __init__(self, matrix: Vector) -> None:
        size = len(matrix)
        self.matrix = matrix.copy()
        self.matrix[np.diag_indices(size)] += FLAT * max(float(np.trace(matrix)) / size, 1e-300)

    def times(self, v: Vector) -> Vector:
        """M v."""
        return np.asarray(self.matrix @ v)

    def pull(self, factor: float) -> Vector:
        """The matrix factor M, for a local problem."""
        return factor * self.matrix


class LowRankMetric:
    """M = U U' + floor I."""

    ndim = 2

    def __init__(self, columns: Vector, floor: float) -> None:
        self.columns, self.floor = columns, floor

    def times(self, v: Vector) -> Vector:
        """M v."""
        return np.asarray(self.columns @ (self.columns.T @ v) + self.floor * v)

    def pull(self, factor: float) -> LowRankMetric:
        """The operator factor M, for a local problem."""
        return LowRankMetric(factor**0.5 * self.columns, factor * self.floor)

    def __matmul__(self, v: Vector) -> Vector:
        return self.times(v)

    def dense(self) -> Vector:
        """M as a matrix."""
        matrix = self.columns @ self.columns.T
        matrix[np.diag_indices(len(matrix))] += self.floor
        return np.asarray(matrix)

    @cached_property
    def _small(self) -> tuple[Vector, bool]:
        return cholesky(self.columns.T @ self.columns, self.floor)

    def solve(self, v: Vector) -> Vector:
        """M^-1 v."""
        inner = linalg.cho_solve(self._small, self.columns.T @ v, check_finite=False)
        return np.asarray((v - self.columns @ inner) / self.floor)


Metric = DenseMetric | LowRankMetric


def own_part(local: LocalProblem, w: Vector, seed: int) -> Vector:
    """What a node adds to the sum from which the metric is made."""
    if local.size <= FULL:
        return local.hessian(w)[np.tril_indices(local.size)]
    probes = _probes(local.size, seed)
    return np.asarray(local.hessian_times(w, probes)).ravel()


def joint_metric(total: Vector, size: int, alpha: float, seed: int) -> Metric:
    """The metric from the sum of all nodes' parts."""
    if size <= FULL:
        matrix = np.zeros((size, size))
        matrix[np.tril_indices(size)] = total
        return DenseMetric(matrix + np.tril(matrix, -1).T)
    probes = _probes(size, seed)
    seen = total.reshape(size, RANK)
    inner = probes.T @ seen
    values, vectors = linalg.eigh(0.5 * (inner + inner.T), check_finite=False)
    keep = values > 1e-10 * max(float(values[-1]), 1e-300)
    columns = seen @ (vectors[:, keep] / np.sqrt(values[keep]))
    rest = max(float(np.trace(inner)) - float(np.sum(columns**2)), 0.0) / size  # trace of what was not seen
    mean = float(np.sum(columns**2)) / size
    return LowRankMetric(columns, max(alpha, rest, 1e-6 * mean, 1e-300))


def typical_curvature(local: LocalProblem, share: float, seed: int) -> float:
    """Geometric mean of the curvature in all directions at zero, as if every node's rows were like these."""
    zero = np.zeros(local.size)
    if local.size <= FULL:
        values = linalg.eigvalsh(local.hessian(zero), check_finite=False) / share
    else:
        metric = joint_metric(own_part(local, zero, seed) / share, local.size, float(local.ridge[0]) / share, seed)
        assert isinstance(metric, LowRankMetric)
        seen = linalg.eigvalsh(metric.columns.T @ metric.columns, check_finite=False)
        values = np.full(local.size, metric.floor)
        values[: len(seen)] += seen
    floor = 1e-6 * max(float(np.mean(values)), 1e-300)
    return float(np.exp(np.mean(np.log(np.maximum(values, floor)))))


@lru_cache(maxsize=2)
def _probes(size: int, seed: int) -> Vector:
    """The public random matrix, with columns of squared length `size` / RANK, so that its square has mean one."""
    return np.asarray(np.random.default_rng(seed).standard_normal((size, RANK)) / RANK**0.5)
