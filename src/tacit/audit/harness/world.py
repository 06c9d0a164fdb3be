"""A job with generated files for all its parties, and its neighbours: the same with one record changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tacit.audit.harness.tables import CATEGORY, DATE, NUMBER, Column, Table, changes, draw_table, other_labels
from tacit.data.load import PartySpec
from tacit.job import Job
from tacit.plan import GraphPlan, Plan
from tacit.plan.from_job import plan_job, plan_nodes
from tacit.plan.private import COORDINATOR
from tacit.privacy.claim import Claim
from tacit.privacy.sums import add_up
from tacit.problem.losses import get_loss

SPARSE = (".svm", ".libsvm")
JOB = "job.toml"


@dataclass(frozen=True)
class World:
    """A job and what each of its parties holds.

    Attributes
    ----------
    job : Job
        Its paths of data do not matter.
    tables : mapping of str to Table
    suffixes : mapping of str to str
        The format of each party's file.
    """

    job: Job
    tables: Mapping[str, Table]
    suffixes: Mapping[str, str]

    def write(self, folder: Path) -> Path:
        """Write files and the job of one process; the path of the job."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, path in self.files(folder).items():
            self.tables[name].write(path)
        parties = tuple(replace(spec, data=self.files(folder)[spec.name].name) for spec in self.job.parties)
        job = replace(self.job, engine="in-process", parties=parties, folder=folder)
        (folder / JOB).write_text(job.to_toml(), encoding="utf-8")
        return folder / JOB

    def files(self, folder: Path) -> dict[str, Path]:
        """Each party's file."""
        return {name: folder / f"{name}{self.suffixes[name]}" for name in self.job.names}

    def text(self) -> str:
        """The job between sites."""
        parties = tuple(replace(spec, data="") for spec in self.job.parties)
        return replace(self.job, engine="flare", parties=parties).to_toml()

    def with_table(self, name: str, table: Table) -> World:
        """The same with another table of one party."""
        return replace(self, tables={**self.tables, name: table})


@dataclass(frozen=True)
class Protected:
    """Whose data a claim is about.

    Attributes
    ----------
    claim : Claim
    party : str
    owner : str
        Under which name its releases are planned.
    stays : bool
        Whether randomized symbols never leave their owner.
    """

    claim: Claim
    party: str
    owner: str
    stays: bool = False


def protected_parties(job: Job, plan: Plan | GraphPlan) -> list[Protected]:
    """One for each party and unit about which something is proven."""
    found = []
    for claim in plan.certificate().claims:
        if claim.unit not in ("record", "label") or add_up(claim.events).reasons:
            continue
        if isinstance(plan, GraphPlan):
            found.append(Protected(claim, claim.party, claim.party, stays=claim.unit == "record"))
            continue
        party = claim.party or job.holder
        asked = party in plan.asked_parties and claim.unit == "record"
        found.append(Protected(claim, party, party if asked else COORDINATOR))
    return found


def plan_of(world: World, widths: Mapping[str, int]) -> Plan | GraphPlan:
    """The plan of a world, given the number of encoded columns of each party."""
    job = world.job
    rows = [len(table.records) for table in world.tables.values()]
    if job.split == "samples":
        return plan_nodes(job, tuple(rows), widths[job.names[0]], {})
    return plan_job(job, rows[0], tuple(widths[name] for name in job.names), 0)


def neighbours(
    world: World, protected: Protected, rng: np.random.Generator, turn: int = 0
) -> Iterator[tuple[str, World]]:
    """Worlds in which one record of the protected party, or one label, is another one: first, last or middle."""
    name, table = protected.party, world.tables[protected.party]
    at = (0, len(table.records) - 1, len(table.records) // 2)[turn % 3]
    if protected.claim.unit == "record":
        for kind, record in changes(table, rng, at):
            yield kind, world.with_table(name, table.with_record(at, record))
    belongs = world.job.split == "samples" or protected.owner == COORDINATOR
    if table.labels is not None and belongs:
        classes = get_loss(world.job.model.loss).task == "classification"
        for kind, label in other_labels(table, at, classes=classes):
            yield kind, world.with_table(name, table.with_record(at, label=label))


# --- generated tables ----------------------------------------------------------------------------------


def make_world(
    job: Job,
    columns: Mapping[str, tuple[Column, ...]],
    suffixes: Mapping[str, str],
    rows: Mapping[str, int],
    seed: int = 0,
) -> World:
    """Draw tables for the parties of a job."""
    rng = np.random.default_rng(seed)
    tables: dict[str, Table] = {}
    for spec in job.parties:
        count = rows[spec.name]
        table = draw_table(columns[spec.name], count, rng, sparse=suffixes[spec.name] in SPARSE)
        if spec.label is not None:
            table = replace(table, label=spec.label, labels=_labels(job, count, rng))
        if spec.id is not None:
            table = replace(table, id=spec.id, ids=tuple(f"c{number}" for number in range(count)))
        tables[spec.name] = table
    return World(job, tables, suffixes)


def _labels(job: Job, count: int, rng: np.random.Generator) -> tuple[float, ...]:
    task = get_loss(job.model.loss).task
    if task == "classification":
        return tuple(float(k % 2 if k < 4 else rng.random() < 0.5) for k in range(count))
    if task == "counts":
        return tuple(float(value) for value in rng.poisson(2.0, size=count))
    return tuple(round(float(value), 4) for value in rng.normal(size=count))


def columns_of(spec: PartySpec, kinds: Mapping[str, str]) -> tuple[Column, ...]:
    """Columns to generate for a party: the kinds of its file, and what the job says of them."""
    known = {column.name: column for column in spec.columns}
    found = []
    for name, kind in kinds.items():
        said = known.get(name)
        kind = (said.given_kind if said is not None else None) or kind
        low, high = (said.low, said.high) if said is not None else (None, None)
        usual = (10000.0, 18000.0) if kind == DATE else (-2.0, 2.0)
        values = (said.values if said is not None else None) or ("a", "b", "c", "d")
        blanks = said is not None and (said.missing is True or said.low is not None)
        span = usual if low is None or high is None else (low, high)
        found.append(Column(name, kind if kind in (NUMBER, CATEGORY, DATE) else NUMBER, *span, tuple(values), blanks))
    return tuple(found)
