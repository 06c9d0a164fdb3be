"""The section [graph] of a job with split = "samples": who talks to whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tacit.data.wording import listing, nearest, show
from tacit.errors import InputError
from tacit.job.values import EDGES, Kind, one_of
from tacit.topologies import Graph, make_graph
from tacit.topologies.make import GRAPHS

KEYS: dict[str, Kind] = {"kind": one_of(sorted(GRAPHS)), "edges": EDGES}


@dataclass(frozen=True)
class GraphSpec:
    """The section [graph]: the name of a graph, or pairs of parties.

    Attributes
    ----------
    kind : str or None
        The name of a graph; "random" is drawn by the job's seed.
    edges : tuple of pairs of str, or None
        Who talks to whom, by name; every party must be reached.
    """

    kind: str | None = None
    edges: tuple[tuple[str, str], ...] | None = None

    def graph(self, names: Sequence[str], seed: int) -> Graph:
        """The graph between these parties; `seed` is for kind = "random"."""
        if self.edges is not None:
            return make_graph(list(self.edges), names, seed)
        return make_graph(self.kind, names, seed)


def make_spec(values: Mapping[str, Any], names: Sequence[str], seed: int) -> GraphSpec:
    """The section's values, which were checked one by one, checked against the parties.

    Raises
    ------
    InputError
        For neither or both of kind and edges, an unknown party, or a graph that does not hold together.
    """
    if len(values) != 1:
        found = "has both kind and edges" if values else "is empty"
        raise InputError(f'[graph] {found}: give kind = "ring", or edges = [["a", "b"], ...]')
    spec = GraphSpec(**values)
    for end in (end for edge in spec.edges or () for end in edge):
        if end not in names:
            raise InputError(
                f"graph.edges names {show(end)}{nearest(end, names)}, which is no party: "
                f"the parties are {listing(names)}"
            )
    try:
        spec.graph(names, seed)
    except InputError as error:
        raise InputError(f"graph.{next(iter(values))}: {error}") from error
    return spec
