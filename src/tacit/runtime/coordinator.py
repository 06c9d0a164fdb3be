"""The coordinator: holds the labels, checks what arrives, and sees only sums over the parties."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from tacit.algorithms.base import Algorithm, PrivateAlgorithm, Progress
from tacit.algorithms.block import Block
from tacit.errors import RunError
from tacit.plan import Plan
from tacit.plan.private import COORDINATOR, LABELS
from tacit.privacy.releases import Releaser
from tacit.types import Arrays, Message, Vector

NAME = "coordinator"
SEEN = "releases.labels"


class Coordinator:
    """One run's coordinator: broadcasts, sums, and the algorithm's own side."""

    def __init__(self, plan: Plan, labels: Vector, own: Block | None = None) -> None:
        private, self.plan, self.own = plan.private, plan, own
        self.gathers = isinstance(plan.algorithm, PrivateAlgorithm) and plan.algorithm.gathers
        self.party_names = plan.asked_parties
        self.releaser: Releaser | None = None
        if private is not None:
            self.releaser = Releaser(private.releases.get(COORDINATOR, ()), COORDINATOR, private.privacy.noise_seed)
        self.labels = labels if self.gathers else self._randomized(labels)
        self.side = self._make_side()

    def _make_side(self) -> Any:
        algorithm, private = self.plan.algorithm, self.plan.private
        if isinstance(algorithm, Algorithm):
            return algorithm.coordinator(self.plan.problem, self.labels)
        assert private is not None
        assert self.releaser is not None
        return algorithm.coordinator(self.plan.problem, self.labels, private.settings, self.own, self.releaser)

    def _randomized(self, labels: Vector) -> Vector:
        """The labels as all later steps see them: randomized once where that was asked."""
        if self.plan.private is None or self.plan.private.privacy.label_epsilon is None or self.releaser is None:
            return labels
        said = self.releaser.respond(LABELS, (labels > 0).astype(np.int64))
        return np.where(said > 0, 1.0, -1.0)

    def ask_start(self) -> Message:
        """Ask every party for the share of the coefficients it starts from."""
        return Message(NAME, 0, {}, kind="start")

    def take_start(self, answers: Sequence[Message], intercept: float) -> None:
        """Begin from what the parties answered."""
        self.side.start_at(self._total(0, answers), intercept)

    def broadcast(self, round_: int) -> Message:
        """The next broadcast."""
        return Message(NAME, round_, self.side.broadcast())

    def combine(self, round_: int, answers: Sequence[Message]) -> Progress | None:
        """Check and sum the answers, then advance."""
        if self.gathers:
            for expected, answer in zip(self.party_names, answers, strict=True):
                self._check(round_, expected, answer, None)
            result: Progress = self.side.gather({answer.sender: dict(answer.arrays) for answer in answers})
            return result
        return cast("Progress | None", self.side.combine(self._total(round_, answers)))

    def state(self) -> Arrays:
        """Arrays from which `restore` goes on; randomized labels are kept, never drawn twice."""
        if self.releaser is None:
            return dict(self.side.state())
        return {**self.side.state(), **self.releaser.state(), **({} if self.gathers else {SEEN: self.labels})}

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        if self.releaser is not None:
            self.releaser.restore(state)
            if not self.gathers:
                self.labels = state[SEEN]
                self.side = self._make_side()
        self.side.restore(state)

    def closing(self, round_: int) -> Message:
        """The last broadcast."""
        return Message(NAME, round_, self.side.closing(), kind="finish")

    def _total(self, round_: int, answers: Sequence[Message]) -> Arrays:
        """Sum over the parties, name by name (least or largest where the name says min_ or max_)."""
        for expected, answer in zip(self.party_names, answers, strict=True):
            self._check(round_, expected, answer, answers[0])
        total = {}
        for name in answers[0].arrays:
            parts = [answer.arrays[name] for answer in answers]
            reduce = {"min_": np.minimum, "max_": np.maximum}.get(name[:4], np.add)
            result = parts[0] if len(parts) == 1 else reduce(parts[0], parts[1])
            for part in parts[2:]:
                reduce(result, part, out=result)
            total[name] = result
        return total

    @staticmethod
    def _check(round_: int, expected: str, answer: Message, first: Message | None) -> None:
        if answer.sender != expected or answer.round != round_:
            raise RunError(
                f"party {expected!r}: expected its answer to round {round_}, "
                f"got one from {answer.sender!r} to round {answer.round}"
            )
        shapes = {name: np.shape(array) for name, array in answer.arrays.items()}
        wanted = shapes if first is None else {name: np.shape(array) for name, array in first.arrays.items()}
        if first is not None and shapes != wanted:
            raise RunError(f"party {expected!r}: its answer to round {round_} has other arrays than {first.sender!r}")
        for name, array in answer.arrays.items():
            if not np.all(np.isfinite(array)):
                raise RunError(f"party {expected!r}: {name} in its answer to round {round_} is not finite")
