"""The coordinator: holds the labels, checks what arrives, and sees only sums over the parties."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from tacit.blocks import block_of
from tacit.blocks.dense import Block
from tacit.data.holdout import HeldOut
from tacit.errors import RunError
from tacit.mechanisms.base import COORDINATOR, LABELS
from tacit.plan import Plan
from tacit.privacy.releases import Releaser
from tacit.run import door
from tacit.run.masking import MASKED_KINDS, unmask
from tacit.solvers.base import Progress
from tacit.types import Arrays, Message, Vector, Words

NAME = "coordinator"
SEEN = "releases.labels"


class Coordinator:
    """One run's coordinator: broadcasts, sums, and the solver's own side."""

    def __init__(self, plan: Plan, labels: Vector, own: Block | None = None, held: HeldOut | None = None) -> None:
        private, self.plan, self.own = plan.private, plan, own
        self.reads_each_answer = plan.solver.reads_each_answer and not plan.secure  # under masks there are sums alone
        self.party_names = plan.asked_parties
        self.releaser: Releaser | None = None
        if private is not None:
            self.releaser = Releaser(private.releases.get(COORDINATOR, ()), COORDINATOR, private.privacy.noise_seed)
        self.draws_labels = not (plan.solver.reads_each_answer and plan.solver.noisy)  # else the side does it
        self.labels = self._randomized(labels) if self.draws_labels else labels
        self.side = self._make_side()
        if plan.evaluates_privately and held is not None:  # the holder's own shard of them, and their labels
            self.side.hold_out(block_of(held.shards[0]), held.labels)

    def _make_side(self) -> Any:
        solver, private = self.plan.solver, self.plan.private
        settings = None if private is None else private.settings
        return solver.make_coordinator(self.plan.problem, self.labels, settings, self.own, self.releaser)

    def _randomized(self, labels: Vector) -> Vector:
        """The labels as all later steps see them: randomized once where that was asked."""
        if self.plan.private is None or self.plan.private.privacy.label_epsilon is None or self.releaser is None:
            return labels
        if self.plan.problem.loss.outputs > 1:
            return self.releaser.respond(LABELS, labels.astype(np.int64)).astype(np.float64)
        said = self.releaser.respond(LABELS, (labels > 0).astype(np.int64))
        return np.where(said > 0, 1.0, -1.0)

    def ask_start(self) -> Message:
        """Ask every party for the share of the coefficients it starts from."""
        return door.leave(NAME, 0, {}, kind="start")

    def take_start(self, answers: Sequence[Message], intercept: Any) -> None:
        """Begin from what the parties answered; they centre their columns, which moves the intercept."""
        total = self._total(0, answers)
        centring: Any = total.pop("centring", np.zeros(1))
        centring = centring if self.plan.problem.loss.outputs > 1 else float(centring[0])
        self.side.start_at(total, intercept + centring if self.plan.problem.fit_intercept else 0.0 * intercept)

    def ask_keys(self, round_: int) -> Message:
        """Ask every party for its public key."""
        return door.leave(NAME, round_, {}, kind="keys")

    def pass_keys(self, round_: int, answers: Sequence[Message]) -> Message:
        """All public keys to every party."""
        self._check_all(round_, answers)
        keys = [cast("Words", answer.arrays["key"]) for answer in answers]
        return door.leave(NAME, round_, {"keys": np.stack(keys)}, kind="agree")

    def retune(self, plan: Plan) -> None:
        """Go on with the alpha of another plan, after the closing broadcast."""
        self.plan = plan
        self.side.retune(plan.problem)

    def broadcast(self, round_: int) -> Message:
        """The next broadcast."""
        return door.leave(NAME, round_, self.side.broadcast(), singles=self.plan.solver.singles)

    def combine(self, round_: int, answers: Sequence[Message]) -> Progress | None:
        """Check and sum the answers, then advance."""
        if self.reads_each_answer:
            self._check_all(round_, answers, alike=False)
            result: Progress = self.side.gather({answer.sender: dict(answer.arrays) for answer in answers})
            return result
        return cast("Progress | None", self.side.combine(self._total(round_, answers)))

    def state(self) -> Arrays:
        """Arrays from which `restore` goes on; randomized labels are kept, never drawn twice."""
        if self.releaser is None:
            return dict(self.side.state())
        return {**self.side.state(), **self.releaser.state(), **({SEEN: self.labels} if self.draws_labels else {})}

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        if self.releaser is not None:
            self.releaser.restore(state)
            if self.draws_labels:
                self.labels = state[SEEN]
                self.side = self._make_side()
        self.side.restore(state)

    def closing(self, round_: int) -> Message:
        """The last broadcast."""
        return door.leave(NAME, round_, self.side.closing(), kind="finish")

    def _total(self, round_: int, answers: Sequence[Message]) -> Arrays:
        """Sum over the parties, name by name (least or largest where the name says min_ or max_)."""
        self._check_all(round_, answers)
        if self.plan.secure:
            return unmask(answers, self.party_names)
        total = {}
        for name in answers[0].arrays:
            parts = [cast("Vector", answer.arrays[name]) for answer in answers]
            reduce = {"min_": np.minimum, "max_": np.maximum}.get(name[:4], np.add)
            in_place = len(parts) == 1 or self.plan.problem.low_memory  # there the first answer's room is the sum's
            result = parts[0] if in_place else reduce(parts[0], parts[1])
            for part in parts[1 if in_place else 2 :]:
                reduce(result, part, out=result)
            total[name] = result
        return total

    def _check_all(self, round_: int, answers: Sequence[Message], *, alike: bool = True) -> None:
        """Refuse a round in which a party is missing, or an answer is not what was asked for."""
        there = {answer.sender for answer in answers}
        missing = [name for name in self.party_names if name not in there]
        if len(answers) < len(self.party_names):
            raise RunError(
                f"party {missing[0]!r} did not answer in round {round_}: a round needs every party, so this one is "
                "void; go on from the last checkpoint when it is back"
            )
        for expected, answer in zip(self.party_names, answers, strict=True):
            self._check(round_, expected, answer, answers[0] if alike else None)
            self._check_type(expected, answer)

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
            if not np.isfinite(array).all():
                raise RunError(f"party {expected!r}: {name} in its answer to round {round_} is not finite")

    def _check_type(self, party: str, answer: Message) -> None:
        """Refuse bare numbers in a run with masks, and words in a run without."""
        masked = answer.kind == "keys" or (self.plan.secure and answer.kind in MASKED_KINDS)
        for name, array in answer.arrays.items():
            single = name in self.plan.solver.singles
            wanted = np.uint64 if masked else np.float32 if single else np.float64
            if array.dtype != wanted:
                how = "under masks" if masked else "without masks"
                raise RunError(
                    f"party {party!r}: {name} in its answer to round {answer.round} has numbers of type {array.dtype}: "
                    f"this run sends {np.dtype(wanted)}, {how}"
                )
