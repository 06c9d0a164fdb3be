"""Which runs of a job are compared, and what was found."""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from tacit.audit.attacks import BROKEN, NEIGHBOURS, NO_VIOLATION, NOT_TRIED, AttackResult
from tacit.audit.harness.play import Command, play_commands, play_sites
from tacit.audit.harness.recording import Comparison, Difference, Recording, compare, sent_twice
from tacit.audit.harness.tape import Tape
from tacit.audit.harness.world import (
    NUMBER,
    PLAYED_SPLITS,
    SPARSE,
    Column,
    ProtectedData,
    World,
    columns_of,
    make_world,
    neighbours,
    protected_parties,
)
from tacit.columns.curves import FEWEST_PAIRS
from tacit.columns.table import SparseTable, kind_of_type
from tacit.data.load import PartySpec, read_training_table
from tacit.data.nodes import known_columns
from tacit.errors import InputError, RunError
from tacit.job import Job, read_job
from tacit.plan import Plan
from tacit.privacy.accountant import add_up
from tacit.run.prepare import prepare

# --- Which runs of a job are compared, and what was found


IN_PROCESS, BETWEEN = "in process", "between sites"
ROUNDING = 1e-9


@dataclass(frozen=True)
class Way:
    """How a run is played: where, and whether processes die after every step."""

    where: str
    restarts: bool

    def __str__(self) -> str:
        return f"{self.where}{', with restarts' if self.restarts else ''}"


WAYS = tuple(Way(where, restarts) for where in (IN_PROCESS, BETWEEN) for restarts in (False, True))


@dataclass(frozen=True)
class LocatedDifference:
    """A difference, and where it was seen: whose data changed, how, and in which way the run was played."""

    party: str
    unit: str
    kind: str
    way: Way
    difference: Difference

    def __str__(self) -> str:
        return f"{self.unit} of {self.party} ({self.kind}), {self.way}: {self.difference}"


@dataclass
class NeighbourFindings:
    """What a neighbour test found.

    Attributes
    ----------
    comparisons, steps, pairs : int
        Values compared; messages, replies, lines and files they were in; pairs of runs.
    kinds : set of str
        Kinds of neighbours that were tried.
    differences : list of LocatedDifference
        Everything that told two neighbours apart although all planned releases were the same.
    ratio : float
        The largest part of what is claimed that the noise had to hide; above 1 the claim is false.
    """

    comparisons: int = 0
    steps: int = 0
    pairs: int = 0
    kinds: set[str] = field(default_factory=set)
    differences: list[LocatedDifference] = field(default_factory=list)
    ratio: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether nothing but the planned releases told neighbours apart, and these stayed within the claim."""
        return not self.differences and self.ratio <= 1 + ROUNDING

    def line(self) -> str:
        """What was compared and what was found, in one line."""
        count = len(self.differences)
        said = f"{self.comparisons} comparisons over {self.steps} steps, {count} differences outside planned releases"
        return f"{said}; these differ by {100 * self.ratio:.1f} % of what the claim allows" if self.ratio else said

    def add(self, other: NeighbourFindings) -> None:
        """Add what another test of the same job found."""
        self.comparisons += other.comparisons
        self.steps += other.steps
        self.pairs += other.pairs
        self.kinds |= other.kinds
        self.differences += other.differences
        self.ratio = max(self.ratio, other.ratio)


@dataclass(frozen=True)
class Scope:
    """How much of a job is tried.

    Attributes
    ----------
    ways : tuple of Way
    most : int or None
        Neighbours of each party and way at most; None for all.
    parties : int or None
        Parties and units at most; None for all.
    turn : int
        Where among parties and kinds of neighbours to begin, where not all are tried.
    report : bool
        Whether the page of `tacit report` is compared, too, where runs are played in process.
    predict : bool
        Whether a prediction follows, where runs are played between sites; scores themselves are covered by no claim.
    seed : int
        Of all coins, and of the neighbours.
    """

    ways: tuple[Way, ...] = WAYS
    most: int | None = None
    parties: int | None = None
    turn: int = 0
    report: bool = False
    predict: bool = False
    seed: int = 0


EVERYTHING = Scope()


def neighbour_test(
    world: World, command: Command | None = None, scope: Scope = EVERYTHING, folder: Path | None = None
) -> NeighbourFindings:
    """Play a job on neighbouring data sets and compare everything that leaves.

    Parameters
    ----------
    world : World
        A job with something claimed, and its files.
    command : callable, optional
        Runs the command line; without it nothing is played in process.
    scope : Scope
    folder : Path, optional
        An empty or absent folder to work in; a temporary one by default.

    Returns
    -------
    NeighbourFindings
        Nothing is compared where nothing is claimed.
    """
    where = Path(tempfile.mkdtemp(prefix="tacit-audit-")) if folder is None else folder
    try:
        plan, found = plan_world(world, where / "plan"), NeighbourFindings()
        for protected in _some(protected_parties(world.job, plan), scope.parties, scope.turn):
            for way in scope.ways:
                if way.where == BETWEEN or command is not None:
                    found.add(_Pairs(world, plan, protected, way, command, scope, where / "play").test())
        return found
    finally:
        if folder is None:
            shutil.rmtree(where, ignore_errors=True)


Value = TypeVar("Value")


def _some(values: Sequence[Value], most: int | None, start: int) -> list[Value]:
    """So many values at most, from one of them on."""
    count = len(values) if most is None else min(most, len(values))
    return [values[(start + number) % len(values)] for number in range(count)]


@dataclass(frozen=True)
class _Pairs:
    """The neighbours of one party, played in one way."""

    world: World
    plan: Plan
    protected: ProtectedData
    way: Way
    command: Command | None
    scope: Scope
    folder: Path

    def test(self) -> NeighbourFindings:
        """Play the job once, then each neighbour with the same releases."""
        found, tape = NeighbourFindings(), Tape(self.protected.owner, self.protected.stays)
        first = self._play(self.world, tape)
        _refuse_broken(first, self.way, self.world)
        for kind, neighbour in self._neighbours():
            again = tape.play_back()
            compared = compare(first, self._play(neighbour, again))
            _compare_releases(again, compared)
            seen = self._seen(kind, compared)
            found.add(NeighbourFindings(compared.comparisons, compared.steps, 1, {kind}, seen, self._ratio(again)))
        again_sent = sent_twice(first)
        found.add(NeighbourFindings(again_sent.comparisons, differences=self._seen("the same data", again_sent)))
        return found

    def _neighbours(self) -> list[tuple[str, World]]:
        found = list(neighbours(self.world, self.protected, np.random.default_rng(self.scope.seed), self.scope.turn))
        return _some(found, self.scope.most, self.scope.turn * (self.scope.most or 0))

    def _play(self, world: World, tape: Tape) -> Recording:
        owned, scope = own_files(self.plan, self.protected), self.scope
        if self.way.where == BETWEEN:
            return play_sites(
                world,
                self.folder,
                tape,
                scope.seed,
                restarts=self.way.restarts,
                owned=owned,
                predict=scope.predict,
            )
        assert self.command is not None
        return play_commands(
            world,
            self.folder,
            tape,
            scope.seed,
            restarts=self.way.restarts,
            owned=owned,
            command=self.command,
            report=scope.report,
        )

    def _ratio(self, tape: Tape) -> float:
        sums = add_up(self.protected.claim.events)
        return tape.cost(_honest(self.plan)).ratio(sums.mu, sums.pure)

    def _seen(self, kind: str, compared: Comparison) -> list[LocatedDifference]:
        unit = self.protected.claim.unit
        return [LocatedDifference(self.protected.party, unit, kind, self.way, one) for one in compared.differences]


def _compare_releases(tape: Tape, compared: Comparison) -> None:
    """The same releases, of the same shapes, must be asked for on both data sets."""
    compared.comparisons += len(tape.first)
    for fault in tape.faults:
        compared.differences.append(Difference("releases", "", fault, "there", "not there"))
    for name in tape.missing():
        compared.differences.append(Difference("releases", "", name, "released", "not released"))


def _refuse_broken(first: Recording, way: Way, world: World) -> None:
    """A run that fails on the first data set would show nothing."""
    for item in first.channels.get("outcome", ()):
        for leaf in item.leaves:
            if "Error: " in str(leaf.value):
                raise RunError(f"the job {world.job.name!r} cannot be played {way}: {leaf.value!r}")
    codes = {item.step: item.leaves[0].value for item in first.channels.get("exit code", ())}
    for step, code in codes.items():
        if code not in ("int 0", "int 130"):
            said = [leaf.value for item in first.channels["printed as errors"] for leaf in item.leaves]
            raise RunError(f"the job {world.job.name!r} cannot be played {way}: {step} ends with {code!r}: {said}")


def plan_world(world: World, folder: Path) -> Plan:
    """The plan of a world, from its own files: the one that a run of them has."""
    plan = prepare(read_job(world.write(folder))).plan
    shutil.rmtree(folder)
    return plan


def own_files(plan: Plan, protected: ProtectedData) -> list[str]:
    """Files of the protected party that no claim covers."""
    private = plan.private
    assert private is not None
    exact = private.predictions_for is not None and protected.party == private.holder
    if exact or private.mechanism.model_stays_local:
        return [f"model/{protected.party}.json", *(["model/joint.json"] if exact else [])]
    return []


def _honest(plan: Plan) -> int:
    """How many parties' noise hides a release."""
    return 1 if plan.private is None else plan.private.honest


# --- The neighbour test of a user's own job: its parties, columns, files and mechanism, on small generated data


CLAIMED = "planned releases alone differ"
MOST_ROWS, MOST_COLUMNS = 40, 8
CALM = Scope(tuple(Way(where, restarts=False) for where in (IN_PROCESS, BETWEEN)), most=3, parties=2)
STOPPED = Scope(tuple(Way(where, restarts=True) for where in (IN_PROCESS, BETWEEN)), most=1, parties=1)


def test_job(job: Job, command: Command) -> AttackResult | None:
    """The neighbour test as a line of an audit; None where nothing is claimed.

    Parameters
    ----------
    job : Job
        Its files are read for their columns and sizes.
    command : callable
        Runs the command line.
    """
    if job.privacy is None:
        return None
    reason = _unplayable(job)
    if reason:
        return AttackResult(NEIGHBOURS, CLAIMED, f"not played: {reason}", NOT_TRIED, {"played": False})
    found, world = NeighbourFindings(), job_world(job)
    try:
        for scope in (CALM, STOPPED):
            found.add(neighbour_test(world, command, replace(scope, ways=_ways(job, scope))))
    except (InputError, RunError) as error:
        return AttackResult(NEIGHBOURS, CLAIMED, f"not played: {error}", NOT_TRIED, {"played": False})
    return judge(found) if found.pairs else None


test_job.__test__ = False  # type: ignore[attr-defined]  # no test of pytest


def judge(found: NeighbourFindings) -> AttackResult:
    """What was found, as a line of an audit."""
    details: dict[str, Any] = {
        "played": True,
        "comparisons": found.comparisons,
        "steps": found.steps,
        "pairs": found.pairs,
        "ratio": found.ratio,
        "differences": [str(one) for one in found.differences[:20]],
    }
    return AttackResult(NEIGHBOURS, CLAIMED, found.line(), NO_VIOLATION if found.passed else BROKEN, details)


def _unplayable(job: Job) -> str:
    """Why the job cannot be played on small generated data; empty where it can."""
    if job.memory is not None:
        return "rows that are left on disk (memory) are not played"
    most = PLAYED_SPLITS[job.split].most_parties
    if len(job.parties) > most:
        return f"more than {most} parties are not played"
    if job.options is not None and job.options.randomized:
        return "labels that were randomized beforehand are not played"
    return ""


def _ways(job: Job, scope: Scope) -> tuple[Way, ...]:
    """Without the library of private matching, ids are not matched between sites."""
    matched = any(spec.id is not None for spec in job.parties) and PLAYED_SPLITS[job.split].same_rows
    missing = matched and importlib.util.find_spec("private_set_intersection") is None
    return tuple(way for way in scope.ways if not (missing and way.where == BETWEEN))


def job_world(job: Job) -> World:
    """Generated data of the job's columns, kinds and formats; fewer rows, columns and rounds where there are many.

    Where the job leaves the pairs of its curves to the noise, a few are played: so few rows would have none.
    """
    columns, suffixes, rows, parties = {}, {}, {}, []
    for spec in job.parties:
        table = read_training_table(spec, job.folder)
        own, kept = _columns(job, spec, table)
        columns[spec.name], rows[spec.name] = own, min(table.n_rows, MOST_ROWS)
        suffixes[spec.name] = _suffix(spec.data)
        parties.append(replace(kept, positive=None, holdout_data=None))
    if PLAYED_SPLITS[job.split].same_rows:
        rows = dict.fromkeys(rows, min(rows.values()))
    encode = replace(job.encode, pairs=FEWEST_PAIRS if job.encode.pairs is None else job.encode.pairs)
    small = replace(job.without_holdout(), parties=tuple(parties), memory=None, rounds=_rounds(job), encode=encode)
    return make_world(small, columns, suffixes, rows)


def _rounds(job: Job) -> int:
    """Few rounds, unless the job gives numbers for each."""
    return job.rounds if job.options is not None else min(job.rounds, PLAYED_SPLITS[job.split].most_rounds)


def _columns(job: Job, spec: PartySpec, table: Any) -> tuple[tuple[Column, ...], PartySpec]:
    """The first columns of a party, those that the job speaks of before all others, and what the job says of them."""
    apart = set(spec.apart.values())
    if isinstance(table, SparseTable):
        names = [name for name in spec.features or table.default_features() if name not in apart]
        count = min(len(names), MOST_COLUMNS)
        kept = replace(spec, features=None, width=count)
        return tuple(Column(str(number + 1)) for number in range(count)), kept
    held = spec.features or sorted(set(table.columns) - apart)
    known = spec.known_columns(held) if PLAYED_SPLITS[job.split].same_rows else known_columns(job.parties, held)
    named = [one.name for one in known]
    names = [*named, *(name for name in held if name not in named)][: max(MOST_COLUMNS, len(named))]
    kinds = {name: kind_of_type(table.arrow(name).type) or NUMBER for name in names}
    kept = replace(spec, features=None, columns=known)
    return columns_of(kept, kinds), kept


def _suffix(data: str) -> str:
    suffix = Path(data.removesuffix(".gz")).suffix.lower()
    return ".svm" if suffix in SPARSE else suffix
