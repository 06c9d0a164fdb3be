"""A small run in which one party's data may be exchanged: what it hears is recorded once and can be said again.

The runtime's own party, coordinator and releaser are used, so that what is audited is what runs. What a party hears
in a replay is what it heard in the recorded run: the claims are about every message that a party accepts, so a fixed
script is one of the adversaries that they speak of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

import numpy as np

from tacit.algorithms.base import PrivateAlgorithm, Release
from tacit.algorithms.block import Block
from tacit.audit.replay import Cost, Replay
from tacit.errors import RunError
from tacit.plan import Plan
from tacit.plan.private import COORDINATOR
from tacit.privacy.releases import Planned
from tacit.runtime.coordinator import Coordinator
from tacit.runtime.party import Party
from tacit.runtime.result import QUIET, Run
from tacit.types import Arrays, Message, Shard, Vector

Swap = Callable[[Release], Release]


@dataclass(frozen=True)
class Held:
    """What a party holds: its rows, and the labels where it has them."""

    rows: Vector
    labels: Vector

    def with_row(self, index: int, row: Vector, label: float | None = None) -> Held:
        """The neighbour that differs in one record."""
        rows, labels = self.rows.copy(), self.labels.copy()
        rows[index] = row
        if label is not None:
            labels[index] = label
        return Held(rows, labels)


@dataclass(frozen=True)
class Pair:
    """What a replay of two neighbours found.

    Attributes
    ----------
    cost : Cost
        What the noise had to hide.
    leaks : float
        Largest relative change of what left that remains when all releases are the same: 0 where nothing else leaves.
    model_moves : float
        The same of the party's coefficients: 0 where they are computed from releases alone.
    """

    cost: Cost
    leaks: float
    model_moves: float = 0.0


@dataclass(frozen=True)
class Played:
    """What left a party in each exchange, and the coefficients that it ended on."""

    sent: tuple[Arrays, ...]
    coef: Vector


class Stage(Protocol):
    """Where a pair of neighbours can be played: one party of a feature split, or one node of a sample split."""

    held: Held
    holder: bool

    def compare(self, first: Held, second: Held, seed: int | None = None) -> Pair:
        """Run on the first data, then hand the same transcript to the second."""


class Scene:
    """One party of a plan, what it hears, and what it plans to release.

    Parameters
    ----------
    plan : Plan
        With a private mechanism; its number of rows must fit the shards.
    shards : sequence of Shard
        All parties' rows; few, for speed.
    labels : array
    party : str
        Whose data are exchanged; the label holder's where the mechanism protects them.
    used : sequence of planned releases, optional
        What the noise really is, where it is not as planned: to try whether an audit notices.
    seed : int
        Of the noise in the run that is recorded.
    """

    def __init__(
        self,
        plan: Plan,
        shards: Sequence[Shard],
        labels: Vector,
        party: str,
        used: Sequence[Planned] | None = None,
        seed: int = 0,
    ) -> None:
        assert plan.private is not None
        assert isinstance(plan.algorithm, PrivateAlgorithm)
        self.plan = replace(plan, secure=False)  # no claim about one party's rows rests on masks
        self.shards, self.party = tuple(shards), party
        self.holder = party not in plan.asked_parties
        self.owner = COORDINATOR if self.holder else party
        self.planned = tuple(plan.private.releases.get(self.owner, ()))
        self.used = self.planned if used is None else tuple(used)
        self.held = Held(next(np.array(shard.features) for shard in shards if shard.name == party), labels)
        self.exchanges = self._listen(seed)

    def play(self, held: Held, seed: int | None, swap: Swap | None = None) -> Played:
        """Let the party answer the script with these data."""
        plan = self._changed(seed, swap)
        with np.errstate(**QUIET):
            if self.holder:
                return self._play_holder(plan, held)
            party = Party(Shard(self.party, held.rows), plan, None)
            sent = tuple(plain(party.answer(said)) for said, _ in self.exchanges)
            return Played(sent, np.array(party.coef))

    def _play_holder(self, plan: Plan, held: Held) -> Played:
        coordinator = Coordinator(plan, held.labels, Block(held.rows))
        sent = []
        for said, answers in self.exchanges:
            if said.kind == "finish":
                sent.append(plain(coordinator.closing(said.round)))
            else:
                sent.append(plain(coordinator.broadcast(said.round)))
                coordinator.combine(said.round, answers)
        return Played(tuple(sent), np.array(coordinator.side.parts()[self.party]["coef"]))

    def compare(self, first: Held, second: Held, seed: int | None = None) -> Pair:
        """Run on the first data, then hand the same transcript to the second."""
        kept: list[Replay] = []

        def record(release: Release) -> Release:
            kept.append(Replay(release, self.planned))
            return kept[0]

        before = self.play(first, seed, record)
        kept[0].rewind()
        after = self.play(second, seed, lambda _: kept[0])
        if not kept[0].complete:
            raise RunError(f"{self.party}: the neighbour makes fewer releases: how many depends on the data")
        leaks = max((apart(a, b) for a, b in zip(before.sent, after.sent, strict=True)), default=0.0)
        return Pair(kept[0].cost, leaks, distance(before.coef, after.coef))

    def _listen(self, seed: int) -> tuple[tuple[Message, tuple[Message, ...]], ...]:
        """Run once and write down what is said and answered."""
        run = Run(self._changed(seed, None), self.shards, self.held.labels)
        engine = Listening(run.engine)
        run.engine = engine  # type: ignore[assignment]
        run.go()
        return tuple(engine.exchanges)

    def _changed(self, seed: int | None, swap: Swap | None) -> Plan:
        """The plan with this noise, the party's releases passed through `swap`."""
        private = self.plan.private
        assert private is not None
        assert private.algorithm is not None
        algorithm = private.algorithm if swap is None else _tapped(private.algorithm, self.owner, swap)
        changed = replace(
            private,
            algorithm=algorithm,
            releases={**private.releases, self.owner: self.used},
            privacy=replace(private.privacy, noise_seed=seed),
        )
        return replace(self.plan, private=changed)


class Listening:
    """An engine that writes down what is said and answered."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.exchanges: list[tuple[Message, tuple[Message, ...]]] = []

    def exchange(self, message: Message) -> list[Message]:
        """Pass it on."""
        said = copied(message)
        answers: list[Message] = self.inner.exchange(message)
        self.exchanges.append((said, tuple(copied(answer) for answer in answers)))
        return answers

    def close(self) -> None:
        """Close what is behind it."""
        self.inner.close()


def copied(message: Message) -> Message:
    """A message with arrays of its own."""
    return replace(message, arrays=cast("Arrays", {name: np.array(array) for name, array in message.arrays.items()}))


def plain(message: Message) -> Arrays:
    """The arrays of a message as numbers; words under masks as signed ones."""
    return {
        name: array.view(np.int64).astype(np.float64) if array.dtype == np.uint64 else np.array(array, np.float64)
        for name, array in message.arrays.items()
    }


def _tapped(algorithm: PrivateAlgorithm, owner: str, swap: Swap) -> PrivateAlgorithm:
    """The algorithm with one owner's releases passed through `swap`."""

    def mine(release: Release) -> Release:
        return swap(release) if release.owner == owner else release

    return replace(
        algorithm,
        party=lambda problem, block, settings, release: algorithm.party(problem, block, settings, mine(release)),
        coordinator=lambda problem, labels, settings, own, release: algorithm.coordinator(
            problem, labels, settings, own, mine(release)
        ),
    )


def apart(first: Arrays, second: Arrays) -> float:
    """Largest difference between two messages, relative to their size; infinite where they hold other things."""
    if {name: np.shape(a) for name, a in first.items()} != {name: np.shape(a) for name, a in second.items()}:
        return float("inf")
    return max((distance(first[name], second[name]) for name in first), default=0.0)


def distance(first: Vector, second: Vector) -> float:
    """Largest difference between two arrays, relative to their size."""
    if not first.size:
        return 0.0
    size = max(float(np.abs(first).max()), float(np.abs(second).max()), 1e-300)
    return float(np.abs(first - second).max()) / size
