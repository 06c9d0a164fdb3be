"""A plan on a graph with all its nodes in this process: begin, go on, pause, finish."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tacit.blocks.rows import RowClip
from tacit.errors import RunError
from tacit.plan import Plan
from tacit.privacy.certificate import Certificate
from tacit.run.drive import LoopState, Observer, check_private, spent_of, versions
from tacit.run.model import PartyModel
from tacit.run.node import Node, agree_on_masks
from tacit.run.star import QUIET, fitting_threads
from tacit.topologies import Graph
from tacit.types import Arrays, Message, Shard, Trace, TraceRow, Vector

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


@dataclass(frozen=True)
class GraphResult:
    """A finished run: each node's model, their mean, the trace and the certificate.

    Attributes
    ----------
    plan : Plan
    nodes : tuple of PartyModel
        In the order of the graph; a node's score of a row is row . coef - offset.
    coef, intercept
        The consensus model: the mean of the nodes' models.
    trace : Trace
        What who watches the whole simulation may compute. In a deployment no node knows it, and no decision of a node
        depends on it: `objective` is that of the mean model, `primal` the largest distance of a node from the mean,
        relative to its norm, `dual` the largest residual at a node. That of a private run holds what
        `tacit.run.drive` allows: of these `primal` alone, which then compares released models.
    certificate : Certificate
    converged : bool
    note : str
    seconds : float
    bytes_by_edge : dict of pair of str to int
        Payload in both directions.
    outlook : tuple of str
    """

    plan: Plan
    nodes: tuple[PartyModel, ...]
    coef: Vector
    intercept: float
    trace: Trace
    certificate: Certificate
    converged: bool
    note: str
    seconds: float
    bytes_by_edge: dict[tuple[str, str], int]
    outlook: tuple[str, ...] = ()

    @property
    def clip(self) -> RowClip | None:
        """How rows are scaled down before they are scored: as in training, which private methods do."""
        private = self.plan.private
        return None if private is None else RowClip(private.settings.row_norm)

    @property
    def traffic(self) -> dict[str, int]:
        """Bytes over the whole run: all of them, those of the busiest edge, and rounds."""
        sent = list(self.bytes_by_edge.values())
        return {"bytes": sum(sent), "bytes_busiest_edge": max(sent, default=0), "rounds": len(self.trace)}


class GraphRun:
    """One run; `labels` and `weights` are given for each shard, in the order of the graph.

    A round: each node takes in what its neighbours sent in the round before, and sends. Nobody else takes part: every
    node finds out for itself, in the same round, that the run is over.
    """

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
        self.spent = spent_of(plan)

    def go(self, observe: Observer | None = None, checkpoint: Callable[[GraphRun], None] | None = None) -> GraphResult:
        """Run to the end."""
        state, plan = self.state, self.plan
        clock = time.perf_counter() - state.seconds
        with fitting_threads(self.shards), np.errstate(**QUIET):
            while not state.converged and not state.note and state.rounds < plan.most_rounds:
                state.exchange = state.rounds = state.rounds + 1
                carried = self.engine.exchange(state.rounds)
                state.seconds = time.perf_counter() - clock
                self._record(carried)
                if observe:
                    observe(state.trace[-1])
                if checkpoint:
                    checkpoint(self)
            self.engine.finish(state.rounds + 1)
        state.seconds = time.perf_counter() - clock
        return self._result()

    def _record(self, carried: int) -> None:
        """Write the row of the trace, and see whether all nodes agree that the run is over."""
        state, told = self.state, [node.progress for node in self.nodes]
        done = [one.done for one in told]
        if any(done) != all(done):
            raise RunError(
                f"round {state.rounds}: some nodes would stop and some not: {done.count(True)} of {len(done)}"
            )
        state.converged, state.note = all(done), next((one.note for one in told if one.note), "")
        coef, intercept = self.consensus()
        objective = math.nan
        if self.plan.private is None:
            objective = math.fsum(node.objective(coef, intercept) for node in self.nodes)
            if not math.isfinite(objective):
                raise RunError(
                    f"round {state.rounds}: the objective is not finite: scale the columns to moderate size "
                    "(say, standard deviation 1) or raise alpha"
                )
        row = TraceRow(
            round=state.rounds,
            objective=objective,
            gap=math.inf,
            primal=self.disagreement() if self.plan.models_are_released else math.nan,
            dual=max(one.dual for one in told),
            rho=told[0].rho,
            stationarity=math.nan,
            seconds=state.seconds,
            bytes_down=0,
            bytes_up=carried,
            epsilon=self.spent,
        )
        state.trace.append(row if self.plan.private is None else check_private(row))

    def consensus(self) -> tuple[Vector, float]:
        """Mean of the nodes' models."""
        coef = np.mean([node.coef for node in self.nodes], axis=0)
        return coef, float(np.mean([node.intercept for node in self.nodes]))

    def disagreement(self) -> float:
        """Largest distance of a node's model from the mean, relative to the mean's norm."""
        models = np.array([[*node.coef, node.intercept] for node in self.nodes])
        mean = models.mean(axis=0)
        return float(np.linalg.norm(models - mean, axis=1).max() / max(float(np.linalg.norm(mean)), 1e-300))

    def _result(self) -> GraphResult:
        coef, intercept = self.consensus()
        state, private = self.state, self.plan.private
        return GraphResult(
            plan=self.plan,
            nodes=tuple(PartyModel(n.name, n.columns, n.coef, -n.intercept) for n in self.nodes),
            coef=coef,
            intercept=intercept,
            trace=state.trace,
            certificate=_with_versions(self.plan.certificate()),
            converged=state.converged,
            note=state.note,
            seconds=state.seconds,
            bytes_by_edge=dict(self.engine.bytes_by_edge),
            outlook=() if private is None else private.outlook,
        )

    def snapshot(self) -> dict[str, Arrays]:
        """Everything needed to go on later, by who holds it."""
        states = {f"node:{node.name}": node.state() for node in self.nodes}
        carried = np.array(list(self.engine.bytes_by_edge.values()), dtype=np.float64)
        return {**states, "edges": {"bytes": carried}}

    def restore(self, states: dict[str, Arrays], state: LoopState) -> None:
        """Go on from a snapshot."""
        agree_on_masks(self.nodes)
        for node in self.nodes:
            node.restore(states[f"node:{node.name}"], state.rounds)
        counts = (int(count) for count in states["edges"]["bytes"])
        self.engine.bytes_by_edge = dict(zip(self.engine.bytes_by_edge, counts, strict=True))
        self.engine.go_on({node.name: node.outbox for node in self.nodes})
        self.state = state


def _with_versions(planned: Certificate) -> Certificate:
    """What was planned and was run, with the software that ran it."""
    return planned if planned.versions else replace(planned, versions=versions())
