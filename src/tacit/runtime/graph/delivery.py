"""Delivery: messages travel along edges, and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping

from tacit.errors import RunError
from tacit.topologies import Graph
from tacit.types import Message

Inboxes = dict[str, dict[str, Message]]


class Delivery:
    """Carries each round's messages to the neighbours they are for, and counts their bytes by edge."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.bytes_by_edge: dict[tuple[str, str], int] = {(graph.names[a], graph.names[b]): 0 for a, b in graph.edges}

    def deliver(self, outboxes: Mapping[str, Mapping[str, Message]], *, count: bool = True) -> Inboxes:
        """From what each node sent, by receiver, to what each node receives, by sender."""
        inboxes: Inboxes = {name: {} for name in self.graph.names}
        for sender, outbox in outboxes.items():
            for receiver, message in outbox.items():
                edge = (sender, receiver) if (sender, receiver) in self.bytes_by_edge else (receiver, sender)
                if edge not in self.bytes_by_edge:
                    raise RunError(f"there is no edge between {sender!r} and {receiver!r}: nothing is carried there")
                if count:
                    self.bytes_by_edge[edge] += message.nbytes
                inboxes[receiver][sender] = message
        return inboxes
