"""All nodes of a graph in this process: messages travel along edges, and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tacit.errors import RunError
from tacit.runtime.graph.node import Node
from tacit.topologies import Graph
from tacit.types import Message

Outboxes = Mapping[str, Mapping[str, Message]]


class Neighbours:
    """The default engine of the sample split: hands each message to the neighbour it is for, and counts its bytes."""

    def __init__(self, graph: Graph, nodes: Sequence[Node]) -> None:
        self.nodes = list(nodes)
        self.inboxes: dict[str, dict[str, Message]] = {name: {} for name in graph.names}
        self.bytes_by_edge: dict[tuple[str, str], int] = {(graph.names[a], graph.names[b]): 0 for a, b in graph.edges}

    def exchange(self, round_: int) -> int:
        """Let every node take in the last round's messages and send; return the bytes that were carried."""
        outboxes = {node.name: node.answer(round_, self.inboxes[node.name]) for node in self.nodes}
        carried = self._deliver(outboxes)
        for edge, count in carried.items():
            self.bytes_by_edge[edge] += count
        return sum(carried.values())

    def finish(self, round_: int) -> None:
        """Hand over the last messages."""
        for node in self.nodes:
            node.finish(round_, self.inboxes[node.name])

    def go_on(self, outboxes: Outboxes) -> None:
        """Go on with messages on their way, which were counted before."""
        self._deliver(outboxes)

    def _deliver(self, outboxes: Outboxes) -> dict[tuple[str, str], int]:
        """Put what each node sent into the inboxes of its neighbours; bytes by edge."""
        carried: dict[tuple[str, str], int] = {}
        self.inboxes = {name: {} for name in self.inboxes}
        for sender, outbox in outboxes.items():
            for receiver, message in outbox.items():
                edge = (sender, receiver) if (sender, receiver) in self.bytes_by_edge else (receiver, sender)
                if edge not in self.bytes_by_edge:
                    raise RunError(f"there is no edge between {sender!r} and {receiver!r}: nothing is carried there")
                carried[edge] = carried.get(edge, 0) + message.nbytes
                self.inboxes[receiver][sender] = message
        return carried
