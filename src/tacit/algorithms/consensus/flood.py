"""Maxima over all nodes, known to everybody in the same round without a server.

Let D be the diameter, x_i(t) the numbers of node i in round t, and B(i, k) the nodes within k edges of i. Node i keeps

    A_k(t) = max of x_j(t - k) over j in B(i, k),   k = 0 .. D,

and sends A_0 .. A_{D-1}. The union of B(j, k-1) over i and its neighbours j is B(i, k), hence

    A_0(t) = x_i(t),   A_k(t) = max of A_{k-1}(t-1) over i and its neighbours,

which needs the messages of the round before only. B(i, D) is the whole graph, so A_D(t) is the maximum over all nodes
of what they had in round t - D: the same number at every node, and to the last bit, as a maximum is never rounded. So
every decision that is a function of A_D(t) and of public numbers is taken by all nodes in the same round: to stop, too.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tacit.types import Arrays, Vector

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
