"""A party: the only code that sees features, and the only door through which anything leaves it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.algorithms.base import Algorithm, PartySide
from tacit.algorithms.block import Block
from tacit.algorithms.rows import RowClip
from tacit.errors import RunError
from tacit.plan import Plan
from tacit.privacy.releases import Releaser
from tacit.types import Arrays, Message, Shard, Vector


class Party:
    """One party of a run: its shard, its side of the algorithm, and its releases."""

    def __init__(self, shard: Shard, plan: Plan, shared: Any) -> None:
        self.name = shard.name
        self.columns = shard.columns
        self.block = Block(shard.features)
        if plan.problem.fit_intercept and isinstance(plan.algorithm, Algorithm):  # means of the data are data
            self.block.set_centre(plan.problem.row_weights)
        self.releaser: Releaser | None = None
        self.side = self._make_side(plan, shared)
        self._start: Vector | None = None

    def _make_side(self, plan: Plan, shared: Any) -> PartySide:
        algorithm, private = plan.algorithm, plan.private
        if isinstance(algorithm, Algorithm):
            return algorithm.party(plan.problem, self.block, shared)
        assert private is not None
        self.releaser = Releaser(private.releases.get(self.name, ()), self.name, private.privacy.noise_seed)
        return algorithm.party(plan.problem, self.block, private.settings, self.releaser)

    def start_from(self, coef: Vector) -> None:
        """Begin the next run from these coefficients instead of zero."""
        self._start = np.asarray(coef, dtype=np.float64)

    def answer(self, message: Message) -> Message:
        """Answer one message of the coordinator."""
        if self.releaser is not None:
            self.releaser.begin(message)
        if message.kind == "finish":
            self.side.finish(dict(message.arrays))
            return self._release(message, {})
        if message.kind == "start":
            start = np.zeros(self.block.d) if self._start is None else self._start
            return self._release(message, self.side.start_at(start))
        return self._release(message, self.side.step(message.round, dict(message.arrays)))

    def _release(self, message: Message, arrays: Arrays) -> Message:
        """The one door: whatever leaves a party passes here."""
        for name, array in arrays.items():
            if not np.all(np.isfinite(array)):
                raise RunError(
                    f"party {self.name!r}: {name} of round {message.round} is not finite: "
                    "scale the party's columns to moderate size (say, standard deviation 1)"
                )
        return Message(sender=self.name, round=message.round, arrays=arrays, kind=message.kind)

    def state(self) -> Arrays:
        """Arrays from which `restore` goes on."""
        return {**self.side.state(), **({} if self.releaser is None else self.releaser.state())}

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        if self.releaser is not None:
            self.releaser.restore(state)
        self.side.restore(state)

    @property
    def coef(self) -> Vector:
        """The party's coefficients: they stay with it."""
        return self.side.coef

    @property
    def clip(self) -> RowClip | None:
        """How rows are clipped before they are scored, where the party's side clips them."""
        return getattr(self.side, "clip", None)

    @property
    def offset(self) -> float:
        """What centring takes off every score of this party."""
        return 0.0 if self.block.centre is None else float(self.block.centre @ self.side.coef)
