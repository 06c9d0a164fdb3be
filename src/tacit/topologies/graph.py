"""Graph: named nodes and undirected edges, checked once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import coo_array, csgraph

from tacit.errors import InputError
from tacit.types import Vector

SHOWN = 6  # names of one component that a refusal lists


@dataclass(frozen=True)
class Graph:
    """A connected undirected graph; every node talks to its neighbours only.

    Attributes
    ----------
    names : tuple of str
        One name for each node, none twice.
    edges : tuple of pairs of int
        Numbers of the two ends, the smaller first; each edge once.

    Raises
    ------
    InputError
        For a self loop, a duplicate edge, an isolated node, or a graph in several parts.
    """

    names: tuple[str, ...]
    edges: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        _check(self.names, self.edges)

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return len(self.names)

    @cached_property
    def adjacent(self) -> tuple[tuple[int, ...], ...]:
        """For each node the numbers of its neighbours, rising."""
        lists: list[list[int]] = [[] for _ in self.names]
        for a, b in self.edges:
            lists[a].append(b)
            lists[b].append(a)
        return tuple(tuple(sorted(own)) for own in lists)

    @cached_property
    def _number(self) -> dict[str, int]:
        return {name: k for k, name in enumerate(self.names)}

    def number(self, name: str) -> int:
        """The number of a node."""
        return self._number[name]

    def neighbours(self, name: str) -> tuple[str, ...]:
        """Names of a node's neighbours."""
        return tuple(self.names[k] for k in self.adjacent[self._number[name]])

    @cached_property
    def degrees(self) -> tuple[int, ...]:
        """Number of neighbours of each node."""
        return tuple(len(own) for own in self.adjacent)

    @cached_property
    def diameter(self) -> int:
        """Edges between the two nodes that are furthest apart."""
        return int(self._eccentricities.max())

    @cached_property
    def centre(self) -> int:
        """A node from which every other one is reached in the fewest steps."""
        return int(self._eccentricities.argmin())

    @cached_property
    def _eccentricities(self) -> Vector:
        """For each node the steps to the one furthest from it."""
        steps = csgraph.shortest_path(_matrix(self.nodes, self.edges), unweighted=True)
        return np.asarray(np.max(steps, axis=1))

    def parents_from(self, root: int) -> tuple[int, ...]:
        """For each node the neighbour that is next on a shortest way to the root; -1 for the root."""
        _, before = csgraph.breadth_first_order(_matrix(self.nodes, self.edges), root, directed=False)
        return tuple(-1 if k == root else int(before[k]) for k in range(self.nodes))

    @cached_property
    def spectrum(self) -> Vector:
        """Eigenvalues of the Laplacian L- = degrees - adjacency, rising; the first is 0."""
        return self._spectrum(-1.0)

    @cached_property
    def signless_spectrum(self) -> Vector:
        """Eigenvalues of the signless Laplacian L+ = degrees + adjacency, rising."""
        return self._spectrum(1.0)

    def _spectrum(self, sign: float) -> Vector:
        matrix = sign * _matrix(self.nodes, self.edges).toarray()
        matrix[np.diag_indices(self.nodes)] = self.degrees
        values = np.linalg.eigvalsh(matrix)
        return np.asarray(np.maximum(values, 0.0))

    @cached_property
    def connectivity(self) -> float:
        """Second smallest eigenvalue of the Laplacian: how fast neighbours' averages agree; infinite for one node."""
        return float(self.spectrum[1]) if self.nodes > 1 else float("inf")

    def record(self) -> dict[str, object]:
        """As plain values."""
        return {"nodes": list(self.names), "edges": [list(edge) for edge in self.edges]}


def _matrix(nodes: int, edges: Sequence[tuple[int, int]]) -> coo_array:
    """The adjacency matrix."""
    pairs = np.array(edges, dtype=np.int64).reshape(-1, 2)
    ends = np.concatenate([pairs, pairs[:, ::-1]])
    return coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(nodes, nodes)).tocsr()


def _check(names: tuple[str, ...], edges: tuple[tuple[int, int], ...]) -> None:
    if not names:
        raise InputError("a graph needs at least 1 node: give the names of its nodes")
    if len(set(names)) < len(names):
        twice = next(name for k, name in enumerate(names) if name in names[:k])
        raise InputError(f"two nodes have the name {twice!r}: rename one")
    seen = set()
    for a, b in edges:
        if not (0 <= a < len(names) and 0 <= b < len(names)):
            raise InputError(f"edge ({a}, {b}) is not allowed: nodes have the numbers 0 to {len(names) - 1}")
        if a == b:
            raise InputError(f"the edge from {names[a]!r} to itself is not allowed: leave it out")
        pair = (min(a, b), max(a, b))
        if pair in seen:
            raise InputError(f"the edge between {names[a]!r} and {names[b]!r} is given twice: give it once")
        if (a, b) != pair:
            raise InputError(f"edge ({a}, {b}) is not allowed: give the smaller number first")
        seen.add(pair)
    _check_connected(names, edges)


def _check_connected(names: tuple[str, ...], edges: tuple[tuple[int, int], ...]) -> None:
    count, part = csgraph.connected_components(_matrix(len(names), edges), directed=False)
    if count == 1:
        return
    members = [[names[k] for k in np.flatnonzero(part == one)] for one in range(count)]
    lonely = next((group[0] for group in members if len(group) == 1), None)
    if lonely is not None:
        raise InputError(f"node {lonely!r} has no neighbour: give it an edge, or leave it out")
    shown = "; ".join(_some(group) for group in members[:SHOWN])
    more = f"; and {count - SHOWN} more" if count > SHOWN else ""
    raise InputError(f"the graph falls into {count} parts ({shown}{more}): add edges between them")


def _some(group: Sequence[str]) -> str:
    more = f" and {len(group) - SHOWN} more" if len(group) > SHOWN else ""
    return ", ".join(group[:SHOWN]) + more
