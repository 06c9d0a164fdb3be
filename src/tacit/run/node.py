"""A node: the only code that sees its rows and labels, and the only door through which anything leaves it.

On a star under masks, the nodes around the middle hide what they send there: it can read the sum alone. The middle adds
its own value itself, so it needs no masks. Those of the others are bound to all that the middle has sent to them: where
it sent different things to different nodes, the masks do not cancel. Keys are drawn anew whenever a run begins or goes
on, pass through the middle, and are never saved; `tacit.privacy.aggregation` says what is assumed of whom.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol, cast

import numpy as np

from tacit.blocks import block_of
from tacit.errors import RunError
from tacit.plan import Plan
from tacit.privacy.releases import Releaser, seen_of
from tacit.run import door
from tacit.run.masking import KeySigner, Masks, unmask
from tacit.solvers.consensus import NodeData, NodeProgress, NodeSide, Sent
from tacit.solvers.consensus.base import TOGETHER, UP, objective_at
from tacit.topologies import Graph
from tacit.types import Arrays, Message, Shard, Vector, Words

# --- Masks on a star: the nodes around the middle hide what they send there, and the middle can read the sum alone


RUN = "star of the sample split"  # part of every mask


class StarMasks:
    """One node's part."""

    def __init__(self, name: str, graph: Graph, run: str = "", signer: KeySigner | None = None) -> None:
        self.name, self.middle, self.run, self.signer = name, graph.names[graph.centre], run, signer
        self.leaves = tuple(one for one in graph.names if one != self.middle)
        self.renew()

    @property
    def is_middle(self) -> bool:
        """Whether this node adds up what the others hide."""
        return self.name == self.middle

    @property
    def fingerprint(self) -> str:
        """Of all keys: people compare it over another channel."""
        return self._masks.fingerprint

    @property
    def unchecked(self) -> tuple[str, ...]:
        """Nodes of which nobody here can tell whether the key of their masks is theirs."""
        return self._masks.unchecked

    def renew(self) -> None:
        """Draw a new key: masks of rounds that were played never come back."""
        self._masks = Masks(self.name, self.leaves, f"{RUN} {self.run}", hold=True, signer=self.signer)

    @property
    def key(self) -> Words:
        """The public key, for the middle to pass on."""
        return self._masks.key

    def agree(self, keys: Words) -> None:
        """Agree on secrets with the others, given everybody's public key in the order of the graph."""
        self._masks.agree(keys)

    def hide(self, round_: int, arrays: Arrays, seen: bytes = b"") -> dict[str, Vector | Words]:
        """What is sent to the middle, with its part of a sum under masks that are bound to all that the middle sent."""
        hidden: dict[str, Vector | Words] = dict(arrays)
        if UP in arrays:
            hidden.update(self._masks.hide(round_, {UP: arrays[UP]}, seen=seen))
        return hidden

    def open(self, inbox: Mapping[str, Message]) -> dict[str, Message]:
        """What the middle received, with the parts of a sum added up: no single one can be read."""
        hidden = {name: message for name, message in inbox.items() if UP in message.arrays}
        if not hidden:
            return dict(inbox)
        if set(hidden) != set(self.leaves):
            raise RunError("masks cancel in the sum over all nodes only: some node sent nothing")
        only = [replace(hidden[name], arrays={UP: hidden[name].arrays[UP]}) for name in self.leaves]
        rest = {name: replace(m, arrays={k: a for k, a in m.arrays.items() if k != UP}) for name, m in inbox.items()}
        return {**rest, TOGETHER: replace(only[0], sender=TOGETHER, arrays=unmask(only, self.leaves))}


class Masked(Protocol):
    """A node that may have masks."""

    masks: StarMasks | None


def agree_on_masks(nodes: Sequence[Masked]) -> None:
    """Draw keys and pass them through the middle to all others; nothing where there are no masks."""
    leaves = [node.masks for node in nodes if node.masks is not None and not node.masks.is_middle]
    if not leaves:
        return
    for masks in leaves:
        masks.renew()
    told = {masks.name: masks.key for masks in leaves}
    keys = np.stack([told[name] for name in leaves[0].leaves])
    for masks in leaves:
        masks.agree(keys)


# --- A node: the only code that sees its rows and labels, and the only door through which anything leaves it


Outbox = dict[str, Message]
TO_ALL, TO_ONE = "to_all:", "to_one:"  # how what is on its way is named in a state


class Node:
    """One node of a run: its rows, its side of the solver, and its releases."""

    def __init__(
        self,
        shard: Shard,
        labels: Vector,
        weights: Vector | None,
        plan: Plan,
        run: str = "",
        signer: KeySigner | None = None,
    ) -> None:
        self.name, self.columns, self.plan = shard.name, shard.columns, plan
        self.place, self.problem = plan.place(shard.name), plan.problem_of(shard.name)
        self.neighbours = self.place.neighbours
        self.data = NodeData(block_of(shard), labels, weights)
        self.releaser: Releaser | None = None
        masked = plan.secure
        self.masks = StarMasks(self.name, plan.graph, run, signer) if masked else None
        self.sent = Sent({})
        self.outbox: Outbox = {}
        self.side = self._make_side()

    def _make_side(self) -> NodeSide:
        consensus, private = self.plan.consensus, self.plan.private
        if private is not None:
            self.releaser = Releaser(private.releases.get(self.name, ()), self.name, private.privacy.noise_seed)
        settings = None if private is None else private.settings
        return consensus.make_node(self.problem, self.place, self.data, settings, self.releaser)

    def answer(self, round_: int, inbox: Mapping[str, Message]) -> Outbox:
        """From the neighbours' messages of the last round to this round's, one for each neighbour."""
        self._check(round_, inbox)
        if self.masks is not None and self.masks.is_middle:
            inbox = self.masks.open(inbox)
        seen = {name: cast("Arrays", dict(message.arrays)) for name, message in inbox.items()}
        if self.releaser is not None:
            self.releaser.begin_round(round_, inbox)
        sent = self.side.step(round_, seen)
        self.sent = sent if isinstance(sent, Sent) else Sent(sent)
        self.outbox = self._send(round_, self.sent, self._seen())
        return self.outbox

    def _seen(self) -> bytes:
        """Fingerprint of all that neighbours sent: around the middle of a star, of all that the middle sent."""
        return b"" if self.releaser is None else self.releaser.seen

    def finish(self, round_: int, inbox: Mapping[str, Message]) -> None:
        """Take in the messages of the last round."""
        self._check(round_, inbox)
        self.side.finish({name: cast("Arrays", dict(message.arrays)) for name, message in inbox.items()})

    def _check(self, round_: int, inbox: Mapping[str, Message]) -> None:
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

    def _send(self, round_: int, sent: Sent, seen: bytes) -> Outbox:
        """The one door: whatever leaves a node passes here."""
        strangers = set(sent.to_one) - set(self.neighbours)
        if strangers:
            raise RunError(f"node {self.name!r}: {sorted(strangers)[0]!r} is no neighbour, so nothing is sent to it")
        to_all = self._finite(round_, sent.to_all)
        common = door.leave(self.name, round_, to_all)
        own = {
            name: door.leave(self.name, round_, self._hide(round_, to_all | self._finite(round_, arrays), seen))
            for name, arrays in sent.to_one.items()
        }
        return {name: own.get(name, common) for name in self.neighbours}

    def _finite(self, round_: int, arrays: Arrays) -> Arrays:
        """Numbers that may leave; of a private run nothing is refused, as that would be seen: 0 takes their place."""
        if self.plan.private is not None:
            return {name: np.where(np.isfinite(array), array, 0.0) for name, array in arrays.items()}
        for name, array in arrays.items():
            if not np.isfinite(array).all():
                raise RunError(
                    f"node {self.name!r}: {name} of round {round_} is not finite: "
                    "scale the columns to moderate size (say, standard deviation 1)"
                )
        return arrays

    def _hide(self, round_: int, arrays: Arrays, seen: bytes) -> Mapping[str, Vector | Words]:
        return arrays if self.masks is None else self.masks.hide(round_, arrays, seen)

    def objective(self, coef: Vector, intercept: float) -> float:
        """The node's part of the objective of some model: for who watches a simulation, never sent."""
        place = self.place
        return objective_at(self.problem, self.data, place.share, place.total, coef, intercept)

    @property
    def coef(self) -> Vector:
        """The node's coefficients."""
        return self.side.coef

    @property
    def intercept(self) -> float:
        """The node's intercept."""
        return self.side.intercept

    @property
    def centre_row(self) -> Vector | None:
        """The mean row that was released, where there is one: shares of a score are told against it."""
        return getattr(self.side, "centre_row", None)

    @property
    def noise(self) -> Vector | None:
        """About the covariance that noise gave the coefficients, where it is known from what was released."""
        return getattr(self.side, "noise", None)

    @property
    def progress(self) -> NodeProgress:
        """How far the node has come."""
        return self.side.progress

    def state(self) -> Arrays:
        """Arrays from which `restore` goes on, those on their way to neighbours among them."""
        state = {**self.side.state(), **({} if self.releaser is None else self.releaser.state())}
        state.update({TO_ALL + key: array for key, array in self.sent.to_all.items()})
        numbers = {name: k for k, name in enumerate(self.neighbours)}
        for name, arrays in self.sent.to_one.items():
            state.update({f"{TO_ONE}{numbers[name]}:{key}": array for key, array in arrays.items()})
        return state

    def restore(self, state: Arrays, round_: int) -> None:
        """Go on after a round from its `state`; what was on its way leaves once more, the same."""
        if self.releaser is not None:
            self.releaser.restore(state)
        self.side.restore({key: array for key, array in state.items() if not key.startswith((TO_ALL, TO_ONE))})
        self.sent = self._sent_of(state)
        self.outbox = self._send(round_, self.sent, self._seen()) if round_ else {}

    def outbox_of(self, state: Arrays, round_: int) -> Outbox:
        """What was on its way after the round of a `state`: the same, under the masks in force."""
        return self._send(round_, self._sent_of(state), seen_of(state))

    def _sent_of(self, state: Arrays) -> Sent:
        to_one: dict[str, Arrays] = {}
        for key, array in state.items():
            if key.startswith(TO_ONE):
                number, what = key.removeprefix(TO_ONE).split(":", 1)
                to_one.setdefault(self.neighbours[int(number)], {})[what] = array
        to_all = {key.removeprefix(TO_ALL): array for key, array in state.items() if key.startswith(TO_ALL)}
        return Sent(to_all, to_one)
