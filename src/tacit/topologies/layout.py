"""Who takes part, who holds what and how much, and who talks to whom: layouts of both splits, and graphs.

All of it is public.

| layout | what is split | who talks to whom |
|---|---|---|
| FeatureSplit | the columns of the same rows | every party with the one that holds the labels |
| SampleSplit | the rows of the same columns | neighbours in a graph |
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral
from typing import Any, ClassVar, Protocol

import numpy as np
from scipy.sparse import coo_array, csgraph

from tacit.errors import InputError
from tacit.types import Vector

# --- Graphs: named nodes and undirected edges, checked once; by name, by their edges, or from a networkx graph


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

    def __hash__(self) -> int:
        """That of names and edges, made once: every node looks up what all have in common."""
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.names, self.edges))

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
        """For each node the steps to the one furthest from it.

        One that is d steps from a node whose number is e has a number of max(e - d, d) to e + d, so that a few nodes
        tell those of all others on most graphs (Takes and Kosters, 2013); on a ring all are looked at.
        """
        matrix = _matrix(self.nodes, self.edges).tocsr()
        least, most = np.zeros(self.nodes), np.full(self.nodes, np.inf)
        for turn in itertools.count():
            left = np.flatnonzero(least < most)
            if not left.size:
                return least
            node = left[np.argmin(least[left]) if turn % 2 else np.argmax(most[left])]
            steps = csgraph.dijkstra(matrix, indices=node, unweighted=True)
            furthest = steps.max()
            least = np.maximum(least, np.maximum(furthest - steps, steps))
            most = np.minimum(most, furthest + steps)
        raise AssertionError

    @cached_property
    def tree(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """A tree from the centre: for each node its parent (-1 for the root), and the edges to its furthest leaf."""
        parents = self.parents_from(self.centre)
        heights = [0] * self.nodes
        for leaf in range(self.nodes):
            node, steps = leaf, 0
            while parents[node] >= 0:
                node, steps = parents[node], steps + 1
                heights[node] = max(heights[node], steps)
        return parents, tuple(heights)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """For each node those whose parent it is in the tree, rising."""
        lists: list[list[int]] = [[] for _ in self.names]
        for node, parent in enumerate(self.tree[0]):
            if parent >= 0:
                lists[parent].append(node)
        return tuple(tuple(own) for own in lists)

    def parents_from(self, root: int) -> tuple[int, ...]:
        """For each node the neighbour that is next on a shortest way to the root; -1 for the root."""
        _, before = csgraph.breadth_first_order(_matrix(self.nodes, self.edges), root, directed=False)
        return tuple(-1 if k == root else int(before[k]) for k in range(self.nodes))

    def parts_without(self, taken: Collection[int]) -> list[frozenset[int]]:
        """The connected parts that are left when some nodes are taken out, each as the numbers of its nodes."""
        kept = [k for k in range(self.nodes) if k not in taken]
        part = csgraph.connected_components(_matrix(self.nodes, self.edges)[kept][:, kept], directed=False)[1]
        return [frozenset(kept[k] for k in np.flatnonzero(part == one)) for one in range(int(part.max(initial=-1)) + 1)]

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

    def record(self) -> dict[str, object]:
        """Names and edges as plain values, for the record of a plan."""
        return {"nodes": list(self.names), "edges": [list(edge) for edge in self.edges]}


def _matrix(nodes: int, edges: Sequence[tuple[int, int]]) -> coo_array:
    """The adjacency matrix."""
    pairs = np.array(edges, dtype=np.int32).reshape(-1, 2)  # some versions of scipy know no other
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


# --- A graph by name, by its edges, or from a networkx graph


Pairs = list[tuple[int, int]]
EXTRA_EDGES = 3  # "random" has this many more edges than nodes: 13 for 10 nodes, as in the papers


def ring(nodes: int, seed: int) -> Pairs:
    """Each node has two neighbours."""
    return sorted({_pair(k, (k + 1) % nodes) for k in range(nodes) if nodes > 1})


def complete(nodes: int, seed: int) -> Pairs:
    """Everybody talks to everybody."""
    return [(a, b) for a in range(nodes) for b in range(a + 1, nodes)]


def star(nodes: int, seed: int) -> Pairs:
    """The first node is everybody's only neighbour."""
    return [(0, k) for k in range(1, nodes)]


def grid(nodes: int, seed: int) -> Pairs:
    """Rows and columns, as square as the number allows; the last row may be shorter."""
    wide = max(1, round(nodes**0.5))
    across = [(k, k + 1) for k in range(nodes - 1) if (k + 1) % wide]
    down = [(k, k + wide) for k in range(nodes - wide)]
    return sorted(across + down)


def random(nodes: int, seed: int) -> Pairs:
    """A random tree and, drawn from all others, edges up to three more than nodes."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(nodes)
    edges = {_pair(int(order[k]), int(order[rng.integers(k)])) for k in range(1, nodes)}
    most = min(nodes + EXTRA_EDGES, nodes * (nodes - 1) // 2)
    while len(edges) < most:
        a, b = (int(k) for k in rng.integers(nodes, size=2))
        if a != b:
            edges.add(_pair(a, b))
    return sorted(edges)


CLOSE = 8  # nodes on either side with which a node shares masks at least


def circle(nodes: int, reach: int) -> Pairs:
    """Everybody with the `reach` next ones on either side of a circle.

    Taking out fewer than 2 `reach` nodes leaves the others connected (docs/proofs/graph.md, lemma 6).
    """
    return sorted({_pair(k, (k + step) % nodes) for k in range(nodes) for step in range(1, reach + 1)})


def mask_graph(names: tuple[str, ...], honest: int) -> Graph:
    """Who shares masks with whom, whoever talks to whom: `honest` nodes are connected in it, whichever they are.

    All pairs for up to 2 `CLOSE` + 1 nodes. Beyond that a node has as many partners as are needed, and at least
    2 `CLOSE`.
    """
    nodes = len(names)
    return Graph(names, tuple(circle(nodes, min(nodes // 2, max(CLOSE, (nodes - honest) // 2 + 1)))))


GRAPHS: dict[str, Callable[[int, int], Pairs]] = {
    "complete": complete,
    "grid": grid,
    "random": random,
    "ring": ring,
    "star": star,
}


def make_graph(kind: Any, nodes: int | Sequence[str], seed: int = 0) -> Graph:
    """Make a connected graph.

    Parameters
    ----------
    kind : str, list of pairs, networkx graph or Graph
        "ring", "complete", "star" (the first node in the middle), "grid", or "random" (a random tree with more edges
        drawn from all others: nodes + 3 in all, the papers' 13 for 10 nodes); or pairs of node names or numbers from 0.
    nodes : int or sequence of str
        How many, with the names "node 1", "node 2", ...; or their names.
    seed : int, default 0
        For "random".

    Raises
    ------
    InputError
        With one line that names the edge or the node and the way out.
    """
    names = tuple(f"node {k}" for k in range(1, nodes + 1)) if isinstance(nodes, int) else tuple(nodes)
    if isinstance(kind, Graph):
        kind = [(kind.names[a], kind.names[b]) for a, b in kind.edges]
    if isinstance(kind, str):
        if kind not in GRAPHS:
            raise InputError(f"graph={kind!r} is unknown: choose one of {', '.join(sorted(GRAPHS))}, or give its edges")
        return Graph(names, tuple(GRAPHS[kind](len(names), seed)))
    if hasattr(kind, "nodes") and hasattr(kind, "edges"):
        return _from_networkx(kind, names)
    return Graph(names, tuple(_numbered(kind, names)))


def _from_networkx(graph: Any, names: tuple[str, ...]) -> Graph:
    """By the nodes' names where they are the same, else by their order."""
    own, edges = list(graph.nodes), [tuple(edge)[:2] for edge in graph.edges]
    if len(own) != len(names):
        raise InputError(f"graph has {len(own)} nodes: the data have {len(names)}")
    if set(map(str, own)) == set(names):
        return Graph(names, tuple(_numbered([(str(a), str(b)) for a, b in edges], names)))
    number = {node: k for k, node in enumerate(own)}
    return Graph(names, tuple(_numbered([(number[a], number[b]) for a, b in edges], names)))


def _numbered(edges: Any, names: tuple[str, ...]) -> Iterable[tuple[int, int]]:
    """Edges by number, the smaller end first."""
    number = {name: k for k, name in enumerate(names)}
    try:
        pairs = [tuple(edge) for edge in edges]
    except TypeError as error:
        raise InputError(
            f"graph={edges!r} is not allowed: give its name, pairs of nodes, or a networkx graph"
        ) from error
    for edge in pairs:
        if len(edge) != 2:
            raise InputError(f"edge {edge!r} is not allowed: give pairs of nodes")
        yield _pair(*(_end(end, number) for end in edge))


def _end(end: Any, number: dict[str, int]) -> int:
    if isinstance(end, str) and end in number:
        return number[end]
    if isinstance(end, Integral) and not isinstance(end, bool) and 0 <= int(end) < len(number):
        return int(end)
    names = list(number)
    some = ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
    raise InputError(f"graph names an unknown node {end!r}: choose from {some}, or numbers 0 to {len(names) - 1}")


def _pair(a: int, b: int) -> tuple[int, int]:
    return (min(a, b), max(a, b))


# --- Who takes part in a run, who holds what and how much, and who talks to whom: all of it public


class Layout(Protocol):
    """What both splits know of themselves."""

    split: ClassVar[str]

    @property
    def names(self) -> tuple[str, ...]:
        """The parties."""

    @property
    def total(self) -> int:
        """Rows of all parties, each counted once."""

    def receivers(self, party: str) -> tuple[str, ...]:
        """Who gets what a party sends."""


@dataclass(frozen=True)
class FeatureSplit:
    """Parties that hold different columns of the same rows.

    Attributes
    ----------
    parties : tuple of str
    rows : int
        Rows that all of them hold.
    columns : tuple of int, optional
        Columns of each party; 0 for each where they are not known.
    holder : str, optional
        The party with the labels; the first one where it is not said.
    input_bytes : int
        Size of all columns in memory.
    row_weights : array, optional
        Weight of each row; all are 1 where it is not given.
    held : int
        Rows that all of them hold besides, and that are kept out of training.
    """

    parties: tuple[str, ...]
    rows: int
    columns: tuple[int, ...] = ()
    holder: str = ""
    input_bytes: int = 0
    row_weights: Vector | None = field(default=None, compare=False)
    held: int = 0
    split: ClassVar[str] = "features"

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", self.columns or (0,) * len(self.parties))
        object.__setattr__(self, "holder", self.holder or self.parties[0])

    @property
    def names(self) -> tuple[str, ...]:
        """The parties."""
        return self.parties

    @property
    def total(self) -> int:
        """Rows, which all parties hold."""
        return self.rows

    @property
    def others(self) -> tuple[str, ...]:
        """The parties without the labels."""
        return tuple(name for name in self.parties if name != self.holder)

    def columns_of(self, party: str) -> int:
        """How many columns a party holds."""
        return self.columns[self.parties.index(party)]

    def receivers(self, party: str) -> tuple[str, ...]:
        """Who gets what a party sends: the one with the labels, which sends to all others."""
        return (self.holder,) if party != self.holder else self.others


@dataclass(frozen=True)
class SampleSplit:
    """Nodes of a graph that hold different rows of the same columns.

    Attributes
    ----------
    graph : Graph
    rows : tuple of int
        Rows of each node, in the order of the graph.
    columns : int
        Columns of every node.
    weights : tuple of float, optional
        Sum of the row weights of each node; None where all weights are 1.
    label_epsilons : mapping of str to tuple of float
        By node, at which epsilon each label was randomized before the data came to it; empty where none was.
    """

    graph: Graph
    rows: tuple[int, ...]
    columns: int
    weights: tuple[float, ...] | None = None
    label_epsilons: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    split: ClassVar[str] = "samples"

    @property
    def names(self) -> tuple[str, ...]:
        """The nodes."""
        return self.graph.names

    @property
    def total(self) -> int:
        """Rows of all nodes."""
        return sum(self.rows)

    @cached_property
    def sizes(self) -> tuple[float, ...]:
        """How much each node counts: the sum of its row weights."""
        return tuple(float(count) for count in self.rows) if self.weights is None else self.weights

    @cached_property
    def total_size(self) -> float:
        """The sum of all sizes."""
        return math.fsum(self.sizes)

    def rows_of(self, name: str) -> int:
        """How many rows a node holds."""
        return self.rows[self.graph.number(name)]

    def receivers(self, party: str) -> tuple[str, ...]:
        """Who gets what a node sends: its neighbours."""
        return self.graph.neighbours(party) if self.graph.nodes > 1 else ()
