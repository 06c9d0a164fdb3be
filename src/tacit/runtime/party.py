"""A party: the only code that sees features, and the only door through which anything leaves it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.algorithms.block import Block
from tacit.errors import RunError
from tacit.plan import Plan
from tacit.types import Arrays, Message, Shard, Vector


class Party:
    """One party of a run: its shard, its side of the algorithm, and its releases."""

    def __init__(self, shard: Shard, plan: Plan, shared: Any) -> None:
        self.name = shard.name
        self.columns = shard.columns
        self.block = Block(shard.features)
        if plan.problem.fit_intercept:
            self.block.set_centre(plan.problem.row_weights)
        self.side = plan.algorithm.party(plan.problem, self.block, shared)
        self._start: Vector | None = None

    def start_from(self, coef: Vector) -> None:
        """Begin the next run from these coefficients instead of zero."""
        self._start = np.asarray(coef, dtype=np.float64)

    def answer(self, message: Message) -> Message:
        """Answer one message of the coordinator."""
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

    @property
    def coef(self) -> Vector:
        """The party's coefficients: they stay with it."""
        return self.side.coef

    @property
    def offset(self) -> float:
        """What centring takes off every score of this party."""
        return 0.0 if self.block.centre is None else float(self.block.centre @ self.side.coef)
