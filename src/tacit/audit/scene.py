"""A small run in which one party's rows may be exchanged: what it hears is recorded once and can be said again.

The runtime's own party and releaser are used, so that what is audited is what runs. What a party hears in a replay is
what it heard in the recorded run: the claims hold whatever a party is told, so a fixed script is one allowed adversary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tacit.algorithms.base import PrivateAlgorithm, Release
from tacit.audit.replay import Cost, Replay
from tacit.errors import RunError
from tacit.plan import Plan
from tacit.privacy.releases import Planned
from tacit.runtime.party import Party
from tacit.runtime.result import QUIET, Run
from tacit.types import Arrays, Matrix, Message, Shard, Vector

Swap = Callable[[Release], Release]


@dataclass(frozen=True)
class Played:
    """What a party answered, and the coefficients it ended on."""

    answers: tuple[Arrays, ...]
    coef: Vector


@dataclass(frozen=True)
class Pair:
    """What a replay of two neighbours found.

    Attributes
    ----------
    cost : Cost
        What the noise had to hide.
    leaks : float
        Largest change of an answer that is left when all releases are the same: 0 where nothing else leaves.
    model_moves : float
        The same of the party's coefficients, which need not be private where they stay with it.
    """

    cost: Cost
    leaks: float
    model_moves: float


class Scene:
    """One party of a plan, what it hears, and what it plans to release.

    Parameters
    ----------
    plan : Plan
        With a private mechanism; its number of rows must fit the shards.
    shards : sequence of Shard
        All parties' rows; small, for speed.
    labels : array
    party : str
        Whose rows are exchanged.
    used : sequence of planned releases, optional
        What the noise really is, where it is not as planned: to try whether an audit notices.
    """

    def __init__(
        self, plan: Plan, shards: Sequence[Shard], labels: Vector, party: str, used: Sequence[Planned] | None = None
    ) -> None:
        assert plan.private is not None
        assert isinstance(plan.algorithm, PrivateAlgorithm)
        self.plan, self.shards, self.labels, self.party = plan, tuple(shards), labels, party
        self.planned = tuple(plan.private.releases.get(party, ()))
        self.used = self.planned if used is None else tuple(used)
        self.rows = next(shard.features for shard in shards if shard.name == party)
        self.heard = self._listen()

    def _listen(self) -> tuple[Message, ...]:
        """Run once and write down what the party is told."""
        run = Run(self._seeded(0, None), self.shards, self.labels)
        engine = _Listening(run.engine)
        run.engine = engine  # type: ignore[assignment]
        run.go()
        return tuple(engine.heard)

    def _seeded(self, seed: int | None, swap: Swap | None) -> Plan:
        """The plan with this noise, its party's releases passed through `swap`."""
        private = self.plan.private
        assert private is not None
        assert private.algorithm is not None
        algorithm = private.algorithm if swap is None else _tapped(private.algorithm, self.party, swap)
        releases = {**private.releases, self.party: self.used}
        asked = replace(private.privacy, noise_seed=seed)
        changed = replace(private, algorithm=algorithm, releases=releases, privacy=asked)
        return replace(self.plan, private=changed)

    def play(self, rows: Matrix, seed: int | None, swap: Swap | None = None) -> Played:
        """Let the party answer the script with these rows."""
        party = Party(Shard(self.party, rows), self._seeded(seed, swap), None)
        with np.errstate(**QUIET):
            answers = tuple(dict(party.answer(message).arrays) for message in self.heard)
        return Played(answers, np.array(party.coef))

    def compare(self, first: Matrix, second: Matrix, seed: int | None = None) -> Pair:
        """Run on the first rows, then hand the same transcript to the second."""
        replay: list[Replay] = []

        def record(release: Release) -> Release:
            replay.append(Replay(release, self.planned))
            return replay[0]

        before = self.play(first, seed, record)
        replay[0].rewind()
        after = self.play(second, seed, lambda _: replay[0])
        if not replay[0].complete:
            raise RunError(f"{self.party}: the neighbour makes fewer releases: how many depends on the data")
        leaks = max((_apart(a, b) for a, b in zip(before.answers, after.answers, strict=True)), default=0.0)
        return Pair(replay[0].cost, leaks, _distance(before.coef, after.coef))


class _Listening:
    """An engine that writes down what is said."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.heard: list[Message] = []

    def exchange(self, message: Message) -> Sequence[Message]:
        """Pass it on."""
        arrays = {name: np.array(array) for name, array in message.arrays.items()}
        self.heard.append(Message(message.sender, message.round, arrays, message.kind))
        answers: Sequence[Message] = self.inner.exchange(message)
        return answers

    def close(self) -> None:
        """Nothing to close."""
        self.inner.close()


def _tapped(algorithm: PrivateAlgorithm, owner: str, swap: Swap) -> PrivateAlgorithm:
    """The algorithm with one party's releases passed through `swap`."""

    def party(problem: Any, block: Any, settings: Any, release: Release) -> Any:
        mine = getattr(release, "owner", owner) == owner
        return algorithm.party(problem, block, settings, swap(release) if mine else release)

    return replace(algorithm, party=party)


def _apart(first: Arrays, second: Arrays) -> float:
    """Largest difference between two answers, relative to their size; infinite where they hold other things."""
    if {name: np.shape(a) for name, a in first.items()} != {name: np.shape(a) for name, a in second.items()}:
        return float("inf")
    return max((_distance(first[name], second[name]) for name in first), default=0.0)


def _distance(first: Vector, second: Vector) -> float:
    if not first.size:
        return 0.0
    size = max(float(np.abs(first).max()), float(np.abs(second).max()), 1e-300)
    return float(np.abs(first - second).max()) / size
