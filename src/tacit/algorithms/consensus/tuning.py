"""Penalty and relaxation of consensus ADMM from public numbers: the graph, and how much each node holds.

In the metric of the joint curvature a node that holds the part h of all rows has about the curvature h, in every
direction. For such quadratics a round is a linear map of the nodes' states

    w = (2 eta s - 2 lambda) / (h + 2 eta D),   s <- a S w + (1 - a) s,   lambda <- lambda + (a eta / 2) L w,

D the degrees, A the adjacency matrix, S = (D + A)/2, L = D - A, a the relaxation. The second largest modulus of its
eigenvalues (the largest, 1, belongs to the sum of the multipliers, which stays 0) is the factor by which the error
falls in each round: eta and a are chosen to make it small.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.linalg import eigsh

from tacit.topologies import Graph
from tacit.types import Vector

EXACT = 60  # nodes up to which the map itself is looked at; beyond, as if all nodes had equal degrees and sizes
DENSE = 2000  # nodes up to which all eigenvalues of the adjacency matrix are computed
RELAXATIONS = (1.0, 1.2, 1.4, 1.6, 1.8)
ETAS = np.geomspace(0.02, 20.0, 11)


@dataclass(frozen=True)
class Tuning:
    """Penalty (in units of the joint curvature), relaxation, and the factor by which the error falls in a round."""

    eta: float
    relaxation: float
    rate: float


@lru_cache(maxsize=8)
def tune(graph: Graph, sizes: tuple[float, ...]) -> Tuning:
    """The best penalty and relaxation of a grid, refined."""
    if graph.nodes == 1:
        return Tuning(1.0, 1.0, 0.0)
    parts = np.array(sizes) * graph.nodes / sum(sizes)
    rate = _exact_rate(graph, parts) if graph.nodes <= EXACT else _regular_rate(graph)
    best = min((rate(eta, 1.4), eta) for eta in ETAS)[1]
    step = ETAS[1] / ETAS[0]
    near = best * step ** np.array([-0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75])
    least, eta, relaxation = min((rate(eta, a), eta, a) for eta in near for a in RELAXATIONS)
    return Tuning(float(eta) / graph.nodes, relaxation, least)


class _exact_rate:  # noqa: N801 - a function with data
    """Rate of the map itself."""

    def __init__(self, graph: Graph, parts: Vector) -> None:
        adjacency = _adjacency(graph).toarray()
        self.parts, self.degrees = parts, np.array(graph.degrees, dtype=np.float64)
        self.mean = 0.5 * (np.diag(self.degrees) + adjacency)
        self.apart = np.diag(self.degrees) - adjacency

    def __call__(self, eta: float, relaxation: float) -> float:
        inverse = 1.0 / (self.parts + 2 * eta * self.degrees)
        count, a = len(self.parts), relaxation
        from_s, from_dual = 2 * eta * inverse, -2 * inverse
        top = np.hstack([a * self.mean * from_s + (1 - a) * np.eye(count), a * self.mean * from_dual])
        bottom = 0.5 * a * eta * np.hstack([self.apart * from_s, self.apart * from_dual])
        bottom[:, count:] += np.eye(count)
        return float(np.sort(np.abs(np.linalg.eigvals(np.vstack([top, bottom]))))[-2])


class _regular_rate:  # noqa: N801 - a function with data
    """Rate for equal degrees and sizes: then the map falls into one of 2 x 2 for each eigenvalue of the adjacency."""

    def __init__(self, graph: Graph) -> None:
        root = 1.0 / np.sqrt(np.array(graph.degrees, dtype=np.float64))
        adjacency = _adjacency(graph).multiply(root[:, None]).multiply(root[None, :]).tocsr()
        if graph.nodes <= DENSE:
            values = np.linalg.eigvalsh(adjacency.toarray())[:-1]
        else:
            start = np.cos(np.arange(graph.nodes))  # the same at every node
            ends = eigsh(adjacency, k=2, which="LA", return_eigenvectors=False, v0=start, tol=1e-4)
            low = eigsh(adjacency, k=1, which="SA", return_eigenvectors=False, v0=start, tol=1e-4)
            values = np.linspace(low[0], ends.min(), 200)
        self.degree = float(np.mean(graph.degrees))
        self.mean, self.apart = 0.5 * self.degree * (1 + values), self.degree * (1 - values)

    def __call__(self, eta: float, relaxation: float) -> float:
        a, inverse = relaxation, 1.0 / (1.0 + 2 * eta * self.degree)
        maps = np.empty((len(self.mean), 2, 2))
        maps[:, 0, 0] = a * self.mean * 2 * eta * inverse + 1 - a
        maps[:, 0, 1] = -a * self.mean * 2 * inverse
        maps[:, 1, 0] = 0.5 * a * eta * self.apart * 2 * eta * inverse
        maps[:, 1, 1] = 1 - 0.5 * a * eta * self.apart * 2 * inverse
        return float(np.abs(np.linalg.eigvals(maps)).max())


def _adjacency(graph: Graph) -> coo_array:
    pairs = np.array(graph.edges, dtype=np.int64)
    ends = np.concatenate([pairs, pairs[:, ::-1]])
    return coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(graph.nodes, graph.nodes)).tocsr()
