"""A small run on generated data in which one party's data may be exchanged, and the worst pair of neighbours for it.

The runtime's own party, coordinator and releaser are used, so that what is audited is what runs. What a party hears
in a replay is what it heard in the recorded run: the claims are about every message that a party accepts, so a fixed
script is one of the adversaries that they speak of.

Data are generated: a few rows of the plan's parties, never the job's own. The plan keeps its mechanism, its noise and
its numbers; only the number of rows changes, and wide parties are narrowed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

import numpy as np

from tacit.audit.replay import Cost, Replay
from tacit.blocks.dense import Block
from tacit.columns.raw import RawTable
from tacit.errors import RunError, TacitError
from tacit.mechanisms.base import COORDINATOR
from tacit.plan import Plan
from tacit.privacy.releases import Planned
from tacit.run.coordinator import Coordinator
from tacit.run.drive import QUIET
from tacit.run.party import Party
from tacit.run.result import Result
from tacit.run.star import Run
from tacit.solvers.base import PrivateSolver, Release
from tacit.types import Arrays, Message, Shard, Vector

# --- A small run in which one party's data may be exchanged: what it hears is recorded once and can be said again


Swap = Callable[[Release], Release]


@dataclass(frozen=True)
class PartyData:
    """What a party holds: its rows, and the labels where it has them."""

    rows: Vector
    labels: Vector

    def with_row(self, index: int, row: Vector, label: float | None = None) -> PartyData:
        """The neighbour that differs in one record."""
        rows, labels = self.rows.copy(), self.labels.copy()
        rows[index] = row
        if label is not None:
            labels[index] = label
        return PartyData(rows, labels)


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
class PartyOutput:
    """What left a party in each exchange, and the coefficients that it ended on."""

    sent: tuple[Arrays, ...]
    coef: Vector


class Stage(Protocol):
    """Where a pair of neighbours can be played: one party of a feature split, or one node of a sample split."""

    held: PartyData
    holder: bool

    @property
    def plan(self) -> Plan:
        """What is played."""

    def compare(self, first: PartyData, second: PartyData, seed: int | None = None) -> Pair:
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
        assert plan.solver.noisy
        self.plan = replace(plan, secure=False)  # no claim about one party's rows rests on masks
        self.shards, self.party = tuple(shards), party
        self.holder = party not in plan.asked_parties
        self.owner = COORDINATOR if self.holder else party
        self.planned = tuple(plan.private.releases.get(self.owner, ()))
        self.used = self.planned if used is None else tuple(used)
        self.held = PartyData(next(_cells(shard.features) for shard in shards if shard.name == party), labels)
        self.exchanges = self._listen(seed)

    def play(self, held: PartyData, seed: int | None, swap: Swap | None = None) -> PartyOutput:
        """Let the party answer the script with these data."""
        plan = self._changed(seed, swap)
        with np.errstate(**QUIET):
            if self.holder:
                return self._play_holder(plan, held)
            party = Party(Shard(self.party, held.rows), plan, None)
            sent = tuple(plain(party.answer(message)) for message, _ in self.exchanges)
            return PartyOutput(sent, np.array(party.coef))

    def _play_holder(self, plan: Plan, held: PartyData) -> PartyOutput:
        own = _raw(self.party, held.rows) if plan.problem.trees is not None else Block(held.rows)
        coordinator = Coordinator(plan, held.labels, cast("Block", own))
        sent = []
        for message, answers in self.exchanges:
            if message.kind == "finish":
                sent.append(plain(coordinator.closing(message.round)))
            else:
                sent.append(plain(coordinator.broadcast(message.round)))
                coordinator.combine(message.round, answers)
        coef = coordinator.side.parts()[self.party].get("coef", np.zeros(0))  # trees have none
        return PartyOutput(tuple(sent), np.array(coef))

    def compare(self, first: PartyData, second: PartyData, seed: int | None = None) -> Pair:
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
        engine = RecordingEngine(run.engine)
        run.engine = engine
        run.go()
        return tuple(engine.exchanges)

    def _changed(self, seed: int | None, swap: Swap | None) -> Plan:
        """The plan with this noise, the party's releases passed through `swap`."""
        private = self.plan.private
        assert private is not None
        sides = cast("PrivateSolver", self.plan.solver)
        solver = sides if swap is None else _tapped(sides, self.owner, swap)
        changed = replace(
            private,
            solver=solver,
            releases={**private.releases, self.owner: self.used},
            privacy=replace(private.privacy, noise_seed=seed),
        )
        return replace(self.plan, private=changed)


class RecordingEngine:
    """An engine that writes down what is said and answered."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.exchanges: list[tuple[Message, tuple[Message, ...]]] = []

    def exchange(self, message: Message) -> list[Message]:
        """Pass a message on to the parties, and write it down with their answers."""
        sent = copied(message)
        answers: list[Message] = self.inner.exchange(message)
        self.exchanges.append((sent, tuple(copied(answer) for answer in answers)))
        return answers

    def close(self) -> None:
        """Close the engine behind this one."""
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


def _tapped(solver: PrivateSolver, owner: str, swap: Swap) -> PrivateSolver:
    """The solver with one owner's releases passed through `swap`."""

    def mine(release: Release) -> Release:
        return swap(release) if release.owner == owner else release

    return replace(
        solver,
        party=lambda problem, block, settings, release: solver.party(problem, block, settings, mine(release)),
        coordinator=lambda problem, labels, settings, own, release: solver.coordinator(
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


# --- Generated data on which a plan is attacked: a few rows of the plan's parties, never the job's own data


TRIES = 50  # for a few rows, randomized labels may all be equal, and other refusals of real runs
SCENE_ROWS = (4, 12, 60)
SCENE_COLUMNS = 2
WATCHED_COLUMNS = 3  # few, so that shares span them before a run converges
WATCHED_ROUNDS = 12


def scenes(
    plan: Plan, party: str, rows: tuple[int, ...] = SCENE_ROWS, used: tuple[Planned, ...] | None = None
) -> Callable[[np.random.Generator], Scene]:
    """A maker of small scenes around one party."""

    def make(rng: np.random.Generator) -> Scene:
        for _ in range(TRIES):
            count = int(rng.choice(rows))
            shards = tuple(
                _shard(plan, name, count, SCENE_COLUMNS, rng, own=name == party) for name in plan.party_names
            )
            try:
                seed = int(rng.integers(2**31))
                return Scene(with_rows(plan, count), shards, _labels(plan, count, rng), party, used, seed)
            except TacitError as error:
                reason = str(error)
        raise RunError(f"no small run of this plan could be made to audit: {reason}")

    return make


@dataclass(frozen=True)
class WatchedRun:
    """A run on generated rows with labels that are fair coins, and all that was said in it."""

    result: Result
    shards: tuple[Shard, ...]
    labels: Vector
    inboxes: tuple[Arrays, ...]
    answers: dict[str, list[Arrays]]

    def shares(self, party: str) -> Vector:
        """The shares that a party sent, one column a round, or a word under masks; none where it sends no shares."""
        sent = [np.atleast_2d(arrays["share"]) for arrays in self.answers.get(party, []) if "share" in arrays]
        return np.vstack(sent).T if sent else np.zeros((self.labels.size, 0))


def watch(plan: Plan, rows: int, rng: np.random.Generator, *, repeatable: bool = False) -> WatchedRun:
    """Run the plan on generated rows and write down what is said."""
    reason = ""
    for _ in range(TRIES):
        shards = tuple(_shard(plan, name, rows, WATCHED_COLUMNS, rng, own=True) for name in plan.party_names)
        labels = _labels(plan, rows, rng)
        try:
            seed = int(rng.integers(2**31)) if repeatable else None
            run = Run(_watched(plan, rows, seed), shards, labels)
            engine = RecordingEngine(run.engine)
            run.engine = engine
            result = run.go()
        except TacitError as error:
            reason = str(error)
            continue
        inboxes = tuple(plain(message) for message, _ in engine.exchanges if message.kind == "step")
        answers: dict[str, list[Arrays]] = {}
        for _, heard in engine.exchanges:
            for answer in heard:
                answers.setdefault(answer.sender, []).append(plain(answer))
        return WatchedRun(result, shards, labels, inboxes, answers)
    raise RunError(f"no run of this plan on generated rows could be made to audit: {reason}")


def _watched(plan: Plan, rows: int, seed: int | None) -> Plan:
    """The plan for these rows, with few rounds where their number is free, and none of them left out."""
    small = with_rows(plan, rows)
    private = small.private
    if private is not None:
        few = min(private.rounds, WATCHED_ROUNDS) if private.solver is None else private.rounds
        private = replace(private, rounds=few, privacy=replace(private.privacy, noise_seed=seed))
    problem = replace(small.problem, tol=0.0)
    return replace(small, problem=problem, private=private, max_rounds=min(plan.max_rounds, WATCHED_ROUNDS))


def with_rows(plan: Plan, rows: int) -> Plan:
    """The plan for another number of rows, its noise and numbers as they were."""
    return replace(plan, problem=replace(plan.problem, rows=rows))


def row_norm(plan: Plan, party: str) -> float:
    """The public norm of a party's rows; 1 where there is none."""
    return 1.0 if plan.private is None else plan.private.privacy.norm_of(party)


def _shard(plan: Plan, name: str, rows: int, columns: int, rng: np.random.Generator, *, own: bool) -> Shard:
    """Rows of about the public norm, often to one side; of a party that is not attacked, often zeros."""
    features = rng.normal(size=(rows, columns)) * row_norm(plan, name)
    if plan.problem.trees is not None and (name not in plan.asked_parties or not plan.fixed_rounds):
        return Shard(name, _raw(name, features), _names(name, columns))
    aside = rng.random() < 0.5
    if own and columns == SCENE_COLUMNS and aside:
        features = 0.2 * features + row_norm(plan, name) * rng.normal(size=columns)
    if not own and aside:
        features[:] = 0.0
    return Shard(name, features, _names(name, columns))


def _cells(features: Any) -> Vector:
    return np.array(features.values if isinstance(features, RawTable) else features)


def _names(party: str, columns: int) -> tuple[str, ...]:
    return tuple(f"{party}{number}" for number in range(columns))


def _raw(party: str, rows: Vector) -> RawTable:
    """Rows of a label holder whose part of the model is trees."""
    return RawTable(party, _names(party, rows.shape[1]), rows)


def _labels(plan: Plan, rows: int, rng: np.random.Generator) -> Vector:
    """Fair coins or classes, one of each among them; counts; numbers."""
    outputs = plan.problem.loss.outputs
    if outputs > 1:
        return np.append(np.arange(outputs), rng.integers(outputs, size=max(0, rows - outputs)))[:rows].astype(float)
    if plan.problem.loss.task == "counts":
        counts = rng.poisson(2.0, size=rows).astype(np.float64)
        counts[0] = LARGE_COUNT
        return counts
    if plan.problem.loss.task != "classification":
        return np.asarray(rng.normal(size=rows))
    labels = np.where(rng.random(rows) < 0.5, 1.0, -1.0)
    labels[:2] = (1.0, -1.0)
    return labels


# --- Looking for the worst pair of neighbours: directed ones first, then uphill from the best of them


ROUNDING = 1e-9  # a ratio may exceed 1 by this: the planned noise allows for the rounding of the sums
SAME = 1e-9  # messages of equal releases may differ by this: products are summed in another order
HUGE = 1e6
LARGE_COUNT = 50.0  # of the row that is exchanged: its derivative is at the bound
STARTS = 3  # the worst directed pairs, each from its own scene, from which the search goes uphill
REPLACE, ZERO = "replace-one", "zero-out"


@dataclass(frozen=True)
class ClaimedPrivacy:
    """What is claimed of one record: mu of the Gaussian releases, epsilon of the responses, and of other noise."""

    mu: float
    response: float
    neighbours: str = REPLACE
    row_norm: float = 1.0
    pure: float = 0.0


@dataclass(frozen=True)
class WorstPair:
    """The worst pair that was found.

    Attributes
    ----------
    pairs : int
        How many were tried.
    ratio : float
        Largest part of what was claimed that a pair used; above 1 the claim is false.
    leaks : float
        Largest change of what left although all releases were the same.
    first, second : PartyData
        The pair with the largest ratio.
    seed : int
        The noise of its transcript.
    kind : str
        Where the pair came from.
    scene : Stage
        Where it was played.
    """

    pairs: int
    ratio: float
    leaks: float
    first: PartyData
    second: PartyData
    seed: int
    kind: str
    scene: Stage

    @property
    def holds(self) -> bool:
        """Whether every pair stayed within the claim, and nothing left but the releases."""
        return self.ratio <= 1 + ROUNDING and self.leaks <= SAME


def other_label(plan: Plan, own: float) -> float:
    """A label far from this one: the other class, the next one, no count or the largest, or the opposite number."""
    loss = plan.problem.loss
    if loss.outputs > 1:
        return (own + 1.0) % loss.outputs
    largest = float(getattr(getattr(plan.private, "settings", None), "label_norm", 1.0))
    return (0.0 if own > 0 else largest) if loss.task == "counts" else -own


def directed(
    held: PartyData, norm: float, rng: np.random.Generator, *, other: float | None
) -> Iterator[tuple[str, Vector, float]]:
    """Named replacements of row 0: (kind, row, label); with an `other` label where it belongs to the record."""
    row, own = held.rows[0], float(held.labels[0])
    unit = row / max(float(np.linalg.norm(row)), 1e-300)
    turned = _unit(rng, row.size)
    turned = turned - (turned @ unit) * unit if row.size > 1 else turned
    size = max(float(np.linalg.norm(turned)), 1e-300)
    yield "opposite sign", -row, own
    yield "zero", np.zeros_like(row), own
    yield "at the clip bound", norm * unit, own
    yield "opposite, at the clip bound", -norm * unit, own
    yield "at a right angle", norm * turned / size, own
    yield "a copy of another row", held.rows[-1].copy(), own if other is None else float(held.labels[-1])
    yield "huge", HUGE * norm * _unit(rng, row.size), own
    yield "huge, opposite", -HUGE * norm * unit, own
    yield "a hair aside", row + 1e-3 * norm * _unit(rng, row.size), own
    yield "random", norm * rng.normal(size=row.size) * rng.exponential(), own
    if other is not None:
        yield "the other label", row.copy(), other
        yield "the other label, opposite", -norm * unit, other
        yield "the other label, zero", np.zeros_like(row), other
        yield "the other label, at a right angle", norm * turned / size, other
    if row.size > 1:
        yield "a mirror image", np.append(row[:-1], -row[-1]), own


def search(
    scenes: Callable[[np.random.Generator], Stage],
    claimed: ClaimedPrivacy,
    pairs: int,
    rng: np.random.Generator,
    observe: Callable[[int], None] | None = None,
    transcripts: int = 1,
) -> WorstPair:
    """Try at least so many pairs: half of them directed, in ever new scenes, half uphill from the worst.

    A claim speaks of every transcript, so one is enough to break it: that is what a replay looks for. Who has to tell
    neighbours apart by running the mechanism wants a pair that is bad in most transcripts: the mean over several.

    Parameters
    ----------
    scenes : callable
        Makes a scene from random numbers.
    claimed : ClaimedPrivacy
    pairs : int
    rng : Generator
    observe : callable, optional
        Told how many pairs were tried.
    transcripts : int
        Over how many the cost of a pair is averaged.
    """
    tried, leaks = 0, 0.0
    best: list[WorstPair] = []
    while tried < max(1, pairs // 2):
        scene, here = scenes(rng), None
        for kind, first, second in _pairs(scene, claimed, rng):
            seed = int(rng.integers(2**31))
            ratio, leak = _try(scene, first, second, seed, claimed, transcripts)
            tried, leaks = tried + 1, max(leaks, leak)
            if here is None or ratio > here.ratio:
                here = WorstPair(tried, ratio, leaks, first, second, seed, kind, scene)
        best = sorted([*best, *([here] if here else [])], key=lambda worst: -worst.ratio)[:STARTS]
        if observe:
            observe(tried)
    for number, start in enumerate(best):
        share = (pairs - tried) // (len(best) - number)
        best[number] = _climb(start, claimed, share, rng, transcripts)
        if observe:
            observe(tried + share)
        tried, leaks = tried + share, max(leaks, best[number].leaks)
    worst = max(best, key=lambda worst: worst.ratio)
    return replace(worst, pairs=tried, leaks=leaks)


def _pairs(
    scene: Stage, claimed: ClaimedPrivacy, rng: np.random.Generator
) -> Iterator[tuple[str, PartyData, PartyData]]:
    held = scene.held
    other = other_label(scene.plan, float(held.labels[0])) if scene.holder else None
    if claimed.neighbours == ZERO:
        gone = held.with_row(0, np.zeros_like(held.rows[0]))
        for kind, row, label in directed(held, claimed.row_norm, rng, other=other):
            yield f"{kind}, set to zero", held.with_row(0, row, label), gone
            yield f"zero, set to {kind}", gone, held.with_row(0, row, label)
        return
    for kind, row, label in directed(held, claimed.row_norm, rng, other=other):
        yield kind, held, held.with_row(0, row, label)


def _try(
    scene: Stage, first: PartyData, second: PartyData, seed: int, claimed: ClaimedPrivacy, transcripts: int
) -> tuple[float, float]:
    """Ratio and leaks of one pair, its cost averaged over some transcripts."""
    found = [scene.compare(first, second, seed + number) for number in range(transcripts)]
    squares = float(np.mean([pair.cost.squares for pair in found]))
    response = float(np.mean([pair.cost.response for pair in found]))
    pure = float(np.mean([sum(pair.cost.densities.values()) for pair in found]))
    cost = Cost(squares, response, densities={"": pure})
    return cost.ratio(claimed.mu, claimed.response, claimed.pure), max(pair.leaks for pair in found)


def _climb(
    start: WorstPair, claimed: ClaimedPrivacy, pairs: int, rng: np.random.Generator, transcripts: int
) -> WorstPair:
    """Small random changes of both rows, the other rows and the noise; kept where they make it worse."""
    reach, found, leaks = 0.5, start, 0.0
    for tried in range(1, pairs + 1):
        first, second = _shaken(found, claimed, reach, rng)
        seed = found.seed if rng.random() < 0.7 else int(rng.integers(2**31))
        ratio, leak = _try(found.scene, first, second, seed, claimed, transcripts)
        leaks = max(leaks, leak)
        if ratio > found.ratio:
            kind = found.kind if found.kind.endswith("uphill") else f"{found.kind}, then uphill"
            found = WorstPair(tried, ratio, leaks, first, second, seed, kind, found.scene)
            reach = min(1.0, 1.3 * reach)
        else:
            reach = max(1e-3, 0.97 * reach)
    return replace(found, leaks=leaks)


def _shaken(
    found: WorstPair, claimed: ClaimedPrivacy, reach: float, rng: np.random.Generator
) -> tuple[PartyData, PartyData]:
    step = reach * claimed.row_norm
    rows = found.first.rows + step * rng.normal(size=found.first.rows.shape) * (rng.random() < 0.5)
    first_row = found.first.rows[0] + step * rng.normal(size=rows.shape[1]) * (rng.random() < 0.7)
    second_row = found.second.rows[0] + step * rng.normal(size=rows.shape[1]) * (rng.random() < 0.7)
    if claimed.neighbours == ZERO:
        zero_first = not found.first.rows[0].any()
        first_row, second_row = (0 * first_row, second_row) if zero_first else (first_row, 0 * second_row)
    first = PartyData(rows, found.first.labels).with_row(0, first_row)
    second = PartyData(rows, found.second.labels).with_row(0, second_row)
    return first, second


def _unit(rng: np.random.Generator, size: int) -> Vector:
    vector = rng.normal(size=size)
    return np.asarray(vector / max(math.sqrt(float(vector @ vector)), 1e-300))
