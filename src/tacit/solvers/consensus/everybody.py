"""Maxima and sums over all nodes, known to everybody in the same round without a server.

Maxima over all nodes, known to everybody in the same round without a server.

Let D be the diameter, x_i(t) the numbers of node i in round t, and B(i, k) the nodes within k edges of i. Node i keeps

    A_k(t) = max of x_j(t - k) over j in B(i, k),   k = 0 .. D,

and sends A_0 .. A_{D-1}. The union of B(j, k-1) over i and its neighbours j is B(i, k), hence

    A_0(t) = x_i(t),   A_k(t) = max of A_{k-1}(t-1) over i and its neighbours,

which needs the messages of the round before only. B(i, D) is the whole graph, so A_D(t) is the maximum over all nodes
of what they had in round t - D: the same number at every node, and to the last bit, as a maximum is never rounded. So
every decision that is a function of A_D(t) and of public numbers is taken by all nodes in the same round: to stop, too.

Sums over all nodes along a tree of the graph, known to everybody at the same round.

Every node knows the graph, hence the same tree: shortest ways from a node in the middle (the root). In the round in
which a sum begins the leaves send their values towards the root; each other node adds its own and sends on in the round
in which the last of its branches has reached it. The root has the sum `depth` rounds later and sends it back outwards.
After 2 depth rounds every node has it, bit for bit the same, as it was rounded at the root alone. The root is no
server: it relays like any other node, keeps nothing, and any node could take its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

import numpy as np

from tacit.solvers.consensus.base import TOGETHER, as_sent
from tacit.topologies import Graph
from tacit.types import Arrays, Vector

# --- Maxima over all nodes, known to everybody in the same round without a server


UNKNOWN = 1e100  # before a node has anything to say: larger than whatever it may say


class Flood:
    """One node's table A_0 .. A_D of `count` numbers."""

    def __init__(self, diameter: int, count: int) -> None:
        self.table = np.full((diameter + 1, count), UNKNOWN)

    def step(self, own: Vector, tables: Iterable[Vector]) -> Vector:
        """Take in this round's own numbers and the neighbours' tables; return the maxima of `diameter` rounds ago."""
        older = self.table[:-1]
        for table in tables:
            older = np.maximum(older, table)
        self.table = np.vstack([np.minimum(own, UNKNOWN)[None, :], older])
        return np.asarray(self.table[-1])

    @property
    def message(self) -> Vector:
        """What goes to all neighbours."""
        return self.table[:-1]

    def state(self) -> Arrays:
        """Arrays from which `restore` goes on."""
        return {"flood.table": self.table}

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        self.table = state["flood.table"]


# --- Sums over all nodes along a tree of the graph, known to everybody at the same round


UP, DOWN = "sum_up", "sum_down"


class TreeSum:
    """One node's part in sums over all nodes; one sum at a time."""

    def __init__(self, graph: Graph, name: str) -> None:
        number = graph.number(name)
        parents, heights = _tree(graph)
        self.depth = max(heights)
        self.parent = None if parents[number] < 0 else graph.names[parents[number]]
        self.children = tuple(graph.names[k] for k, parent in enumerate(parents) if parent == number)
        self.height = heights[number]
        self.begun = 0  # the round in which the sum began; 0 where there is none
        self.partial: Vector | None = None
        self.total: Vector | None = None

    @property
    def rounds(self) -> int:
        """Rounds from the beginning of a sum to its end."""
        return 2 * self.depth

    def begin(self, round_: int, value: Vector) -> None:
        """Begin a sum; every node does so in the same round."""
        self.begun, self.partial, self.total = round_, value, None

    def step(self, round_: int, inbox: Mapping[str, Arrays]) -> dict[str, Arrays]:
        """Take in what neighbours sent; return what goes to which of them now."""
        if self.begun == 0:
            return {}
        assert self.partial is not None
        for child in (*self.children, TOGETHER):
            if UP in inbox.get(child, {}):
                self.partial = self.partial + as_sent(inbox[child], UP, self.partial.size)
        if self.parent is not None and DOWN in inbox.get(self.parent, {}):
            self.total = as_sent(inbox[self.parent], DOWN, self.partial.size)
            return {child: {DOWN: self.total} for child in self.children}
        if round_ != self.begun + self.height:
            return {}
        if self.parent is not None:
            return {self.parent: {UP: self.partial}}
        self.total = self.partial
        return {child: {DOWN: self.total} for child in self.children}

    def result(self, round_: int) -> Vector | None:
        """The sum, in the round in which it has reached every node, and in no other."""
        if self.begun == 0 or round_ != self.begun + self.rounds:
            return None
        self.begun = 0
        return self.total

    def state(self) -> Arrays:
        """Arrays from which `restore` goes on."""
        state = {"tree.begun": np.array([float(self.begun)])}
        if self.partial is not None:
            state["tree.partial"] = self.partial
        if self.total is not None:
            state["tree.total"] = self.total
        return state

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        self.begun = int(state["tree.begun"][0])
        self.partial, self.total = state.get("tree.partial"), state.get("tree.total")


@lru_cache(maxsize=4)
def _tree(graph: Graph) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """For each node its parent (-1 for the root), and the edges to the furthest leaf of its branch."""
    parents = graph.parents_from(graph.centre)
    heights = [0] * graph.nodes
    for leaf in range(graph.nodes):
        node, steps = leaf, 0
        while parents[node] >= 0:
            node, steps = parents[node], steps + 1
            heights[node] = max(heights[node], steps)
    return parents, tuple(heights)
