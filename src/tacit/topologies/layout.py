"""Who takes part in a run, who holds what and how much, and who talks to whom: all of it public.

| layout | what is split | who talks to whom |
|---|---|---|
| FeatureSplit | the columns of the same rows | every party with the one that holds the labels |
| SampleSplit | the rows of the same columns | neighbours in a graph |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from tacit.topologies.graph import Graph
from tacit.types import Vector


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
    """

    parties: tuple[str, ...]
    rows: int
    columns: tuple[int, ...] = ()
    holder: str = ""
    input_bytes: int = 0
    row_weights: Vector | None = field(default=None, compare=False)
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

    @property
    def sizes(self) -> tuple[float, ...]:
        """How much each node counts: the sum of its row weights."""
        return tuple(float(count) for count in self.rows) if self.weights is None else self.weights

    def rows_of(self, name: str) -> int:
        """How many rows a node holds."""
        return self.rows[self.graph.number(name)]

    def receivers(self, party: str) -> tuple[str, ...]:
        """Who gets what a node sends: its neighbours."""
        return self.graph.neighbours(party) if self.graph.nodes > 1 else ()
