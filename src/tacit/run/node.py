"""A node: the only code that sees its rows and labels, and the only door through which anything leaves it.

Under masks every node hides its parts of sums. Sums of hidden parts go up a tree of the graph, and can be read where
all of them have come together, at its root; the root then tells everybody the total. A node's masks are bound to all
totals that it has heard: where nodes were told different ones, their masks do not cancel. Keys are drawn anew whenever
a run begins or goes on, reach everybody, and are never saved; `tacit.privacy.aggregation` says what is assumed of whom,
and docs/proofs/graph.md, section 9, what is proven.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, cast

import numpy as np

from tacit.blocks import SeveralBlock, block_of
from tacit.errors import RunError
from tacit.plan import Plan
from tacit.privacy.releases import Releaser
from tacit.run import door
from tacit.run.masking import KeySigner, Masks, point_of
from tacit.solvers.consensus import NodeData, NodeProgress, NodeSide, Sent
from tacit.solvers.consensus.base import DOWN, UP, TreeSum, objective_at
from tacit.topologies import Graph
from tacit.types import Arrays, Message, Shard, Vector, Words

# --- Masks of sums over all nodes of a graph: each node hides its own part, and no sum but that of all can be read


RUN = "sums of the sample split"  # part of every mask


class GraphMasks:
    """One node's part (a `tacit.solvers.consensus.base.Cover`).

    Parameters
    ----------
    name : str
    partners : Graph
        Of all nodes: who shares masks with whom.
    run : str
        Part of every mask.
    signer : KeySigner or None
        Vouches for keys, where nodes have lasting keys of their own.
    """

    def __init__(self, name: str, partners: Graph, run: str = "", signer: KeySigner | None = None) -> None:
        self.name, self.graph, self.run, self.signer = name, partners, run, signer
        self.renew()

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
        partners = self.graph.neighbours(self.name)
        self._masks = Masks(
            self.name, self.graph.names, f"{RUN} {self.run}", hold=True, signer=self.signer, partners=partners
        )

    @property
    def key(self) -> Words:
        """The public key, for all others."""
        return self._masks.key

    def agree(self, keys: Words) -> None:
        """Agree on secrets with the partners, given everybody's public key in the order of the graph."""
        self._masks.agree(keys)

    def hide(self, round_: int, value: Vector, seen: bytes) -> Words:
        """Own part of the sum that began in a round, under masks that cancel among those who have seen the same."""
        return self._masks.hide(round_, {UP: value}, seen=seen)[UP]

    def add(self, total: Words, part: Words) -> None:
        """Add what a branch sent to `total`, in place."""
        if part.dtype != np.uint64 or part.shape != total.shape:
            raise RunError(f"node {self.name!r}: a neighbour sent a part of a sum that is not under masks")
        point_of(UP).add(total, part)

    def open(self, total: Words) -> Vector:
        """The sum over all nodes."""
        return point_of(UP).decode_sum(total, self.graph.nodes)


class Masked(Protocol):
    """A node that may have masks."""

    masks: GraphMasks | None


def agree_on_masks(nodes: Sequence[Masked]) -> None:
    """Draw keys and pass them to all; nothing where there are no masks."""
    masked = [node.masks for node in nodes if node.masks is not None]
    for masks in masked:
        masks.renew()
    for masks in masked:
        masks.agree(np.stack([one.key for one in masked]))


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
        outputs = self.problem.loss.outputs
        rows: Any = block_of(shard) if outputs == 1 else SeveralBlock(block_of(shard), outputs)
        self.data = NodeData(rows, labels, weights)
        self.releaser: Releaser | None = None
        self.masks = GraphMasks(self.name, plan.mask_graph, run, signer) if plan.secure else None
        self.place = replace(self.place, cover=self.masks)
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
        if self.releaser is not None:
            self.releaser.begin_round(round_, self._told(round_, inbox))
        sent = self.side.step(round_, _arrays(inbox))
        self.sent = sent if isinstance(sent, Sent) else Sent(sent)
        self.outbox = self._send(round_, self.sent)
        return self.outbox

    def _told(self, round_: int, inbox: Mapping[str, Message]) -> dict[str, Message]:
        """What noise is bound to: all that was told but words under masks, and the sum over all nodes, if it is there.

        The root is not told that sum: it reads it in such words. Its noise for another sum must be other noise, too.
        """
        told = _without_words(inbox)
        total = None if self.masks is None else self._tree.total
        return told if total is None else {**told, self.name: door.arrive(self.name, round_ - 1, {DOWN: total}, "step")}

    def finish(self, round_: int, inbox: Mapping[str, Message]) -> None:
        """Take in the messages of the last round."""
        self._check(round_, inbox)
        self.side.finish(_arrays(inbox))

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

    def _send(self, round_: int, sent: Sent) -> Outbox:
        """The one door: whatever leaves a node passes here."""
        strangers = set(sent.to_one) - set(self.neighbours)
        if strangers:
            raise RunError(f"node {self.name!r}: {sorted(strangers)[0]!r} is no neighbour, so nothing is sent to it")
        to_all = self._checked(round_, sent.to_all)
        common = door.leave(self.name, round_, to_all)
        own = {
            name: door.leave(self.name, round_, to_all | self._checked(round_, arrays))
            for name, arrays in sent.to_one.items()
        }
        return {name: own.get(name, common) for name in self.neighbours}

    def _checked(self, round_: int, arrays: Arrays) -> Arrays:
        """What may leave: finite numbers, and no part of a sum that masks should hide."""
        if self.masks is not None and UP in arrays and arrays[UP].dtype != np.uint64:
            raise RunError(f"node {self.name!r}: its part of a sum is not under masks, so it does not leave")
        return {name: self._finite(round_, name, array) for name, array in arrays.items()}

    def _finite(self, round_: int, name: str, array: Vector) -> Vector:
        """Numbers that may leave; of a private run nothing is refused, as that would be seen: 0 takes their place."""
        if np.isfinite(array).all():
            return array
        if self.plan.private is not None:
            return np.where(np.isfinite(array), array, 0.0)
        raise RunError(
            f"node {self.name!r}: {name} of round {round_} is not finite: "
            "scale the columns to moderate size (say, standard deviation 1)"
        )

    def objective(self, coef: Vector, intercept: Any) -> float:
        """The node's part of the objective of some model: for who watches a simulation, never sent."""
        place = self.place
        return objective_at(self.problem, self.data, place.share, place.total, coef, intercept)

    @property
    def coef(self) -> Vector:
        """The node's coefficients; of several classes a row for each."""
        return self.side.coef

    @property
    def intercept(self) -> Any:
        """The node's intercept; of several classes one for each."""
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
        """Arrays from which `restore` goes on, those on their way to neighbours among them, without masks."""
        state = {**self.side.state(), **({} if self.releaser is None else self.releaser.state())}
        state.update({TO_ALL + key: array for key, array in self.sent.to_all.items()})
        numbers = {name: k for k, name in enumerate(self.neighbours)}
        for name, arrays in self.sent.to_one.items():
            bare = {key: array for key, array in arrays.items() if array.dtype != np.uint64}
            state.update({f"{TO_ONE}{numbers[name]}:{key}": array for key, array in bare.items()})
        return state

    def restore(self, state: Arrays) -> None:
        """Go on after the round of a `state`; see `again` for what was on its way."""
        if self.releaser is not None:
            self.releaser.restore(state)
        self.side.restore({key: array for key, array in state.items() if not key.startswith((TO_ALL, TO_ONE))})
        self.sent = self._sent_of(state)

    # --- what was on its way when a run stopped --------------------------------------------------------------

    def sent_again(self, round_: int) -> range:
        """The rounds whose messages all nodes send again, in order, when a run goes on after `round_`."""
        return range(round_, round_ + 1) if self.masks is None else self._tree.sent_again(round_)

    def first_again(self, round_: int) -> int:
        """The first round of which messages may still come, where this node is at `round_`."""
        return round_ - 1 if self.masks is None or not self._tree.begun else min(round_ - 1, self._tree.begun)

    def is_made_anew(self, round_: int) -> bool:
        """Whether what a round sent was under masks, so that it is not sent again as it was."""
        return self.masks is not None and self._tree.is_going_up(round_)

    def again(self, round_: int, state: Arrays, inbox: Mapping[str, Message]) -> Outbox:
        """What was sent in a round, after which the node had this `state`, once more: the same, under new masks.

        Where `is_made_anew`, from the inbox of the round, and the state is not used; elsewhere the other way round.
        """
        if not self.is_made_anew(round_):
            self.outbox = self._send(round_, self._sent_of(state))
            return self.outbox
        if round_ > self._tree.begun:
            self._check(round_, inbox)
        side = cast("SummingSide", self.side)
        self.outbox = self._send(round_, side.again(round_, _arrays(inbox)))
        return self.outbox

    @property
    def _tree(self) -> TreeSum:
        return cast("SummingSide", self.side).tree

    def _sent_of(self, state: Arrays) -> Sent:
        to_one: dict[str, Arrays] = {}
        for key, array in state.items():
            if key.startswith(TO_ONE):
                number, what = key.removeprefix(TO_ONE).split(":", 1)
                to_one.setdefault(self.neighbours[int(number)], {})[what] = array
        to_all = {key.removeprefix(TO_ALL): array for key, array in state.items() if key.startswith(TO_ALL)}
        return Sent(to_all, to_one)


class SummingSide(Protocol):
    """The side of a node whose sums may travel under masks."""

    tree: TreeSum

    def again(self, round_: int, inbox: Mapping[str, Arrays]) -> Sent:
        """What a round of the sum that is going up sends once more, under new masks."""


def _arrays(inbox: Mapping[str, Message]) -> dict[str, Arrays]:
    return {name: cast("Arrays", dict(message.arrays)) for name, message in inbox.items()}


def _without_words(inbox: Mapping[str, Message]) -> dict[str, Message]:
    """Messages without what is under masks, which are new when a run goes on: the noise must then be the same."""
    return {
        name: replace(message, arrays={key: one for key, one in message.arrays.items() if one.dtype != np.uint64})
        for name, message in inbox.items()
    }
