"""The coordinator: holds the labels, checks what arrives, and sees only sums over the parties."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tacit.algorithms.base import Progress
from tacit.errors import RunError
from tacit.plan import Plan
from tacit.types import Arrays, Message, Vector

NAME = "coordinator"


class Coordinator:
    """One run's coordinator: broadcasts, sums, and the algorithm's own side."""

    def __init__(self, plan: Plan, labels: Vector) -> None:
        self.party_names = plan.party_names
        self.side = plan.algorithm.coordinator(plan.problem, labels)

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
        return self.side.combine(self._total(round_, answers))

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
    def _check(round_: int, expected: str, answer: Message, first: Message) -> None:
        if answer.sender != expected or answer.round != round_:
            raise RunError(
                f"party {expected!r}: expected its answer to round {round_}, "
                f"got one from {answer.sender!r} to round {answer.round}"
            )
        shapes = {name: np.shape(array) for name, array in answer.arrays.items()}
        wanted = {name: np.shape(array) for name, array in first.arrays.items()}
        if shapes != wanted:
            raise RunError(f"party {expected!r}: its answer to round {round_} has other arrays than {first.sender!r}")
        for name, array in answer.arrays.items():
            if not np.all(np.isfinite(array)):
                raise RunError(f"party {expected!r}: {name} in its answer to round {round_} is not finite")
