"""make_graph: a graph by name, by its edges, or from a networkx graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from numbers import Integral
from typing import Any

import numpy as np

from tacit.errors import InputError
from tacit.topologies.graph import Graph

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
