"""A plan on a graph with all its nodes in this process: begin, go on, pause, finish."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tacit.blocks.dense import RowClip
from tacit.errors import RunError
from tacit.mechanisms.base import about_curves
from tacit.plan import Plan
from tacit.run.drive import QUIET, Checkpoint, LoopState, Observer, drive, fitting_threads
from tacit.run.node import Node, agree_on_masks
from tacit.run.result import Model, PartyModel, Result, with_versions
from tacit.solvers.base import Progress
from tacit.topologies import Graph
from tacit.types import Arrays, Message, Shard, Vector

FAR = 4.0  # norms of a row: a radius around the mean row that no row reaches

# --- All nodes of a graph in this process: messages travel along edges, and nowhere else


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


# --- A plan on a graph with all its nodes in this process: begin, go on, pause, finish


class GraphRun:
    """The session of a plan with all its nodes in this process.

    `labels` and `weights` are given for each shard, in the order of the graph.

    A round: each node takes in what its neighbours sent in the round before, and sends. Nobody else takes part: every
    node finds out for itself, in the same round, that the run is over.
    """

    knows_objective = True

    def __init__(
        self,
        plan: Plan,
        shards: Sequence[Shard],
        labels: Sequence[Vector],
        weights: Sequence[Vector] | None = None,
    ) -> None:
        self.plan, self.shards = plan, shards
        own = [None] * len(shards) if weights is None else list(weights)
        with fitting_threads(shards), np.errstate(**QUIET):
            self.nodes = [Node(*parts, plan) for parts in zip(shards, labels, own, strict=True)]
        agree_on_masks(self.nodes)
        self.engine = Neighbours(plan.graph, self.nodes)
        self.state = LoopState()

    def go(self, observe: Observer | None = None, checkpoint: Checkpoint | None = None) -> Result:
        """Run to the end."""
        return drive(self, observe, checkpoint)

    @contextmanager
    def running(self) -> Iterator[None]:
        """With the threads that fit."""
        with fitting_threads(self.shards), np.errstate(**QUIET):
            yield

    def exchange(self) -> Progress:
        """One round: every node takes in what its neighbours sent before, and sends."""
        self.state.exchange += 1
        self.state.up += self.engine.exchange(self.state.exchange)
        return self._progress()

    def close(self) -> None:
        """Hand over the last messages."""
        self.engine.finish(self.state.exchange + 1)

    def _progress(self) -> Progress:
        """What who watches all nodes sees after a round; refuses where some would stop and some not."""
        told = [node.progress for node in self.nodes]
        done = [one.done for one in told]
        if any(done) != all(done):
            raise RunError(
                f"round {self.state.exchange}: some nodes would stop and some not: {done.count(True)} of {len(done)}"
            )
        return Progress(
            objective=self._objective(),
            primal=self.disagreement() if self.plan.models_are_released else math.nan,
            dual=max(one.dual for one in told),
            rho=told[0].rho,
            done=all(done),
            note=next((one.note for one in told if one.note), ""),
        )

    def _objective(self) -> float:
        """Objective of the mean model; in a private run nobody may know it."""
        if self.plan.private is not None:
            return math.nan
        mean = self.consensus()
        return math.fsum(node.objective(*mean) for node in self.nodes)

    def consensus(self) -> tuple[Vector, Any]:
        """Mean of the nodes' models."""
        coef = np.mean([node.coef for node in self.nodes], axis=0)
        intercept = np.mean([node.intercept for node in self.nodes], axis=0)
        return coef, intercept if np.ndim(intercept) else float(intercept)

    def disagreement(self) -> float:
        """Largest distance of a node's model from the mean, relative to the mean's norm."""
        models = np.array([np.append(node.coef, node.intercept) for node in self.nodes])
        mean = models.mean(axis=0)
        return float(np.linalg.norm(models - mean, axis=1).max() / max(float(np.linalg.norm(mean)), 1e-300))

    def result(self) -> Result:
        """Each node's model, their mean, the trace and the certificate."""
        state, private = self.state, self.plan.private
        return Result(
            plan=self.plan,
            model=self._model(),
            trace=state.trace,
            certificate=with_versions(self.plan.certificate()),
            converged=state.converged,
            note=state.note,
            seconds=state.seconds,
            traffic=self._traffic(),
            outlook=() if private is None else (*private.outlook, *about_curves(self.shards)),
        )

    def _model(self) -> Model:
        """The nodes' models and their mean; a node's score of a row is row . coef - offset."""
        parts = tuple(PartyModel(n.name, n.columns, n.coef, -n.intercept) for n in self.nodes)
        coef, intercept = self.consensus()
        return consensus_model(self.plan, parts, coef, intercept, self.nodes[0])

    def _traffic(self) -> dict[str, int]:
        """Bytes over the whole run: all of them, those of the busiest edge, and rounds."""
        sent = list(self.engine.bytes_by_edge.values())
        return {"bytes": sum(sent), "bytes_busiest_edge": max(sent, default=0), "rounds": self.state.rounds}

    def snapshot(self) -> dict[str, Arrays]:
        """Everything needed to go on later, by who holds it."""
        states = {f"node:{node.name}": node.state() for node in self.nodes}
        carried = np.array(list(self.engine.bytes_by_edge.values()), dtype=np.float64)
        return {**states, "edges": {"bytes": carried}}

    def restore(self, states: dict[str, Arrays], state: LoopState) -> None:
        """Go on from a snapshot."""
        agree_on_masks(self.nodes)
        for node in self.nodes:
            node.restore(states[f"node:{node.name}"])
        counts = (int(count) for count in states["edges"]["bytes"])
        self.engine.bytes_by_edge = dict(zip(self.engine.bytes_by_edge, counts, strict=True))
        for round_ in self.nodes[0].sent_again(state.rounds) if state.rounds else ():
            inboxes = self.engine.inboxes
            self.engine.go_on({n.name: n.again(round_, states[f"node:{n.name}"], inboxes[n.name]) for n in self.nodes})
        self.state = state


def consensus_model(plan: Plan, parts: tuple[PartyModel, ...], coef: Vector, intercept: Any, node: Node) -> Model:
    """A model of whole rows; private methods scale rows down before they are scored, as in training.

    A node may know more, from what was released: the mean row, against which shares of a score are then told,
    and what noise does to the coefficients.
    """
    clip = None if plan.private is None else RowClip(plan.private.settings.row_norm)
    if clip is not None and node.centre_row is not None:  # no row is ever as far from it as the radius
        clip = RowClip(clip.norm, node.centre_row, FAR * clip.norm)
    return Model(parts, intercept, mean=PartyModel("", parts[0].columns, coef, 0.0, clip, noise=node.noise))
