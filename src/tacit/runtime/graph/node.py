"""A node: the only code that sees its rows and labels, and the only door through which anything leaves it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tacit.algorithms.block import Block
from tacit.algorithms.consensus import Consensus, NodeData, NodeSide, Sent
from tacit.algorithms.consensus.base import objective_at
from tacit.errors import RunError
from tacit.plan.graph import GraphPlan
from tacit.privacy.releases import Releaser
from tacit.types import Arrays, Message, Shard, Vector

Outbox = dict[str, Message]
LAST, PART = "sent", "|"  # how a message on its way is named in a state; a node's name may hold anything else


class Node:
    """One node of a run: its rows, its side of the algorithm, and its releases."""

    def __init__(self, shard: Shard, labels: Vector, weights: Vector | None, plan: GraphPlan) -> None:
        self.name, self.columns, self.plan = shard.name, shard.columns, plan
        self.place = plan.place(shard.name)
        self.neighbours = self.place.neighbours
        self.data = NodeData(Block(shard.features), labels, weights)
        self.releaser: Releaser | None = None
        self.outbox: Outbox = {}
        self.side = self._make_side()

    def _make_side(self) -> NodeSide:
        algorithm, private = self.plan.algorithm, self.plan.private
        if isinstance(algorithm, Consensus):
            return algorithm.node(self.plan.problem, self.place, self.data)
        assert private is not None
        self.releaser = Releaser(private.releases.get(self.name, ()), self.name, private.privacy.noise_seed)
        return algorithm.node(self.plan.problem, self.place, self.data, private.settings, self.releaser)

    def answer(self, round_: int, inbox: Mapping[str, Message]) -> Outbox:
        """From the neighbours' messages of the last round to this round's, one for each neighbour."""
        seen = self._take_in(round_, inbox)
        if self.releaser is not None:
            self.releaser.begin(_joined(round_, inbox))
        sent = self.side.step(round_, seen)
        self.outbox = self._release(round_, sent if isinstance(sent, Sent) else Sent(sent))
        return self.outbox

    def finish(self, round_: int, inbox: Mapping[str, Message]) -> None:
        """Take in the messages of the last round."""
        self.side.finish(self._take_in(round_, inbox))

    def _take_in(self, round_: int, inbox: Mapping[str, Message]) -> dict[str, Arrays]:
        """Check who wrote and when."""
        wanted = self.neighbours if round_ > 1 else ()
        if set(inbox) != set(wanted):
            missing = sorted(set(wanted) - set(inbox)) or sorted(set(inbox) - set(wanted))
            raise RunError(f"node {self.name!r}: round {round_} has no message, or one too many, from {missing[0]!r}")
        for name, message in inbox.items():
            if message.sender != name or message.round != round_ - 1:
                raise RunError(
                    f"node {self.name!r}: expected the message of round {round_ - 1} from {name!r}, "
                    f"got one from {message.sender!r} of round {message.round}"
                )
        return {name: dict(inbox[name].arrays) for name in wanted}

    def _release(self, round_: int, sent: Sent) -> Outbox:
        """The one door: whatever leaves a node passes here."""
        strangers = set(sent.to_one) - set(self.neighbours)
        if strangers:
            raise RunError(f"node {self.name!r}: {sorted(strangers)[0]!r} is no neighbour, so nothing is sent to it")
        for arrays in (sent.to_all, *sent.to_one.values()):
            for name, array in arrays.items():
                if not np.all(np.isfinite(array)):
                    raise RunError(
                        f"node {self.name!r}: {name} of round {round_} is not finite: "
                        "scale the columns to moderate size (say, standard deviation 1)"
                    )
        common = Message(self.name, round_, sent.to_all)
        own = {name: Message(self.name, round_, {**sent.to_all, **arrays}) for name, arrays in sent.to_one.items()}
        return {name: own.get(name, common) for name in self.neighbours}

    def objective(self, coef: Vector, intercept: float) -> float:
        """The node's part of the objective of some model: for who watches a simulation, never sent."""
        place = self.place
        return objective_at(self.plan.problem, self.data, place.share, place.total, coef, intercept)

    def state(self) -> Arrays:
        """Arrays from which `restore` goes on, the messages on their way among them."""
        state = {**self.side.state(), **({} if self.releaser is None else self.releaser.state())}
        for name, message in self.outbox.items():
            for key, array in message.arrays.items():
                state[PART.join((LAST, name, key))] = array
        return state

    def restore(self, state: Arrays, round_: int) -> None:
        """Go on after a round from its `state`."""
        if self.releaser is not None:
            self.releaser.restore(state)
        self.side.restore({key: array for key, array in state.items() if not key.startswith(LAST + PART)})
        arrays: dict[str, Arrays] = {name: {} for name in self.neighbours} if round_ else {}
        for key, array in state.items():
            if key.startswith(LAST + PART):
                _, name, what = key.split(PART, 2)
                arrays[name][what] = array
        self.outbox = {name: Message(self.name, round_, own) for name, own in arrays.items()}


def _joined(round_: int, inbox: Mapping[str, Message]) -> Message:
    """All messages of an inbox as one: what a node's noise is drawn for."""
    arrays = {f"{name}/{key}": array for name, one in sorted(inbox.items()) for key, array in one.arrays.items()}
    return Message("inbox", round_, arrays)
