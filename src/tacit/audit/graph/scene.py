"""One node of a run whose rows may be exchanged: what it hears is recorded once, or chosen, and can be said again.

The runtime's own node and releaser are used, so that what is audited is what runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.algorithms.base import Problem, Release
from tacit.algorithms.consensus.base import NodeData, NodeSide, Place, PrivateConsensus
from tacit.audit.graph.replay import NodeReplay, Tapped
from tacit.audit.replay import Symbols
from tacit.audit.scene import Held, Pair, Played, apart, copied, distance
from tacit.errors import RunError
from tacit.plan.graph import GraphPlan
from tacit.privacy.releases import Allowed, Planned, Releaser
from tacit.runtime.graph.node import Node, Outbox
from tacit.runtime.graph.run import GraphRun
from tacit.runtime.result import QUIET
from tacit.types import Arrays, Message, Shard, Vector

Wrap = Callable[[Release], Release]
Inboxes = Sequence[Mapping[str, Message]]
SOLVED = 1e-6  # models that are sent as they were solved may differ by this: published forms take solves for exact


def honest_nodes(plan: GraphPlan) -> int:
    """How many nodes' noise protects a row: under masks that of all who keep to themselves."""
    if plan.private is None or not plan.private.masked:
        return 1
    given = plan.private.privacy.honest
    return plan.graph.nodes - 1 if given is None else given


class NodeScene:
    """One node of a plan, what it hears, and what it plans to release.

    Parameters
    ----------
    plan : GraphPlan
        With a private method.
    data : mapping of str to Held
        Rows and labels of every node; few, for speed. Of the node alone where `inboxes` are given.
    node : str
        Whose data are exchanged.
    used : sequence of planned releases, optional
        What the noise really is, where it is not as planned: to try whether an audit notices.
    seed : int
        Of the noise in the run that is recorded.
    inboxes : sequence of mapping of str to Message, optional
        What the node hears in each round and at the end, where it is chosen and not recorded.
    script : mapping of str to array, optional
        What it releases, by name, where that is chosen.
    """

    holder = True  # a node's labels belong to its records

    def __init__(
        self,
        plan: GraphPlan,
        data: Mapping[str, Held],
        node: str,
        used: Sequence[Planned] | None = None,
        seed: int = 0,
        inboxes: Inboxes | None = None,
        script: Mapping[str, Vector] | None = None,
    ) -> None:
        assert plan.private is not None
        self.honest = honest_nodes(plan)
        # under masks a sum is seen, in which the noise of all honest nodes is: it is added here, and masks are left out
        self.plan = replace(plan, private=replace(plan.private, masked=False))
        self.node, self.held, self.script = node, data[node], script
        own = tuple(plan.private.releases[node])
        self.used = own if used is None else tuple(used)
        self.planned = tuple(_together(one, self.honest) for one in own)
        self.inboxes = tuple(inboxes) if inboxes is not None else self._listen(data, seed)

    def play(self, held: Held, seed: int | None, wrap: Wrap | None = None) -> Played:
        """Let the node answer with these data."""
        plan = self._changed(seed, wrap, held)
        with np.errstate(**QUIET):
            node = Node(Shard(self.node, held.rows), held.labels, None, plan)
            last = len(self.inboxes)
            sent = [_flat(node.answer(t, inbox)) for t, inbox in enumerate(self.inboxes[:-1], 1)]
            node.finish(last, self.inboxes[-1])
            return Played(tuple(sent), np.append(node.coef, node.intercept))

    def compare(self, first: Held, second: Held, seed: int | None = None) -> Pair:
        """Run on the first data, then hand the same transcript to the second; neither may stop the run."""
        kept: list[NodeReplay] = []

        def record(release: Release) -> Release:
            kept.append(NodeReplay(release, self.planned, self.script))
            return kept[0]

        before = self.play(first, seed, record)
        kept[0].rewind()
        after = self.play(second, seed, lambda _: kept[0])
        if not kept[0].complete:
            raise RunError(f"{self.node}: the neighbour makes fewer releases: how many depends on the data")
        leaks = max((apart(a, b) for a, b in zip(before.sent, after.sent, strict=True)), default=0.0)
        exact = getattr(self.plan.private.settings, "published", False) if self.plan.private else False
        return Pair(kept[0].cost, 0.0 if exact and leaks <= SOLVED else leaks, distance(before.coef, after.coef))

    def noises(self, held: Held) -> dict[str, Vector]:
        """The noise of each round that leads these rows through the scripted transcript."""
        kept: list[NodeReplay] = []

        def record(release: Release) -> Release:
            kept.append(NodeReplay(release, self.planned, self.script))
            return kept[0]

        self.play(held, 0, record)
        return kept[0].drawn

    def _listen(self, data: Mapping[str, Held], seed: int) -> Inboxes:
        """Run all nodes once and write down what this one hears."""
        names = self.plan.graph.names
        run = GraphRun(
            self._changed(seed, None, self.held),
            [Shard(name, data[name].rows) for name in names],
            [data[name].labels for name in names],
        )
        engine = Listening(run.engine, self.node)
        run.engine = engine  # type: ignore[assignment]
        run.go()
        return tuple(engine.heard)

    def _changed(self, seed: int | None, wrap: Wrap | None, held: Held) -> GraphPlan:
        """The plan with this noise, the node's releases passed through `wrap`."""
        private = self.plan.private
        assert private is not None
        algorithm = private.algorithm
        if wrap is not None:
            algorithm = replace(algorithm, node=self._tapped(algorithm, seed, wrap, held))
        changed = replace(
            private,
            algorithm=algorithm,
            releases={**private.releases, self.node: self.used},
            privacy=replace(private.privacy, noise_seed=seed),
        )
        return replace(self.plan, private=changed)

    def _tapped(self, algorithm: PrivateConsensus, seed: int | None, wrap: Wrap, held: Held) -> Any:
        def make(problem: Problem, place: Place, data: NodeData, settings: Any, release: Release) -> NodeSide:
            whole = release if self.honest == 1 else Together(release, self.used, self._others(), seed)
            wrapped = wrap(whole)
            side = algorithm.node(problem, place, data, settings, wrapped)
            if not isinstance(wrapped, NodeReplay):
                return side
            wrapped.watch(side, held)
            return Tapped(side, wrapped)

        return make

    def _others(self) -> list[str]:
        """Other nodes that keep to themselves."""
        return [name for name in self.plan.graph.names if name != self.node][: self.honest - 1]


class Together:
    """Releases with the noise of several nodes: what can be seen of them is their sum, and their values are known."""

    def __init__(self, own: Release, planned: Sequence[Planned], others: Sequence[str], seed: int | None) -> None:
        self.owner, self._own = own.owner, own
        self._others = [Releaser(planned, name, seed) for name in others]

    def add(self, name: str, value: npt.ArrayLike) -> Vector:
        """The value, with the noise of all."""
        found = self._own.add(name, value)
        for other in self._others:
            found = found + other.add(name, np.zeros(found.shape))
        return found

    def respond(self, name: str, symbols: npt.ArrayLike) -> Symbols:
        """As the node itself."""
        return self._own.respond(name, symbols)

    def draw(self, name: str, size: int) -> Vector:
        """As the node itself."""
        return self._own.draw(name, size)

    def uniform(self, size: int) -> Vector:
        """As the node itself."""
        return self._own.uniform(size)


class Listening:
    """An engine of a graph that writes down what one node hears."""

    def __init__(self, inner: Any, node: str) -> None:
        self.inner, self.node = inner, node
        self.heard: list[dict[str, Message]] = []

    @property
    def bytes_by_edge(self) -> dict[tuple[str, str], int]:
        """As counted behind it."""
        return dict(self.inner.bytes_by_edge)

    def exchange(self, round_: int) -> int:
        """Pass it on."""
        self._listen()
        return int(self.inner.exchange(round_))

    def finish(self, round_: int) -> None:
        """Pass it on."""
        self._listen()
        self.inner.finish(round_)

    def _listen(self) -> None:
        self.heard.append({name: copied(message) for name, message in self.inner.inboxes[self.node].items()})


def _together(planned: Planned, honest: int) -> Planned:
    """A planned release as it is seen: with the noise of all honest nodes."""
    if honest == 1 or not isinstance(planned, Allowed):
        return planned
    return replace(planned, sd=planned.sd * honest**0.5)


def _flat(outbox: Outbox) -> Arrays:
    """All that left a node, as numbers."""
    named = ((f"{to}: {name}", array) for to, sent in outbox.items() for name, array in sent.arrays.items())
    return {name: np.array(array, np.float64) for name, array in named}
