"""Masks on a star: the nodes around the middle hide what they send there, and the middle can read the sum alone.

The middle adds its own value itself, so it needs no masks. Those of the others are bound to all that the middle has
sent to them: where it sent different things to different nodes, the masks do not cancel. Keys are drawn anew whenever a
run begins or goes on, pass through the middle, and are never saved; `tacit.privacy.aggregation` says what is assumed of
whom.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from tacit.algorithms.consensus.base import TOGETHER
from tacit.algorithms.consensus.tree import UP
from tacit.errors import RunError
from tacit.runtime.masking import KeySigner, Masks, unmask
from tacit.topologies import Graph
from tacit.types import Arrays, Message, Vector, Words

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
