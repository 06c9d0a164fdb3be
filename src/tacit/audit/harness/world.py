"""A job with generated files for all its parties, and its neighbours: the same with one record changed."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow.parquet import write_table

from tacit.data.load import PartySpec
from tacit.errors import InputError
from tacit.job import Job
from tacit.mechanisms.base import COORDINATOR
from tacit.plan import Plan
from tacit.privacy.accountant import add_up
from tacit.privacy.claim import Claim
from tacit.problem.registry import get_loss

# --- Records as cells, the files that hold them, and changes of one record that are hard on code


NUMBER, CATEGORY, DATE = "number", "category", "date"
Cell = float | str | datetime.date | None
Record = tuple[Cell, ...]
HUGE, BEYOND, TINY = 1e6, 1e300, 5e-324  # beyond: its square is no finite number
NEW = "a category that nobody knows"


@dataclass(frozen=True)
class Column:
    """A column of a generated table.

    Attributes
    ----------
    name : str
    kind : {"number", "category", "date"}
    low, high : float
        Where numbers are drawn, and dates, in days since 1970-01-01.
    values : tuple of str
        Categories; the last one is left to a changed record.
    blanks : bool
        Whether the job says what becomes of a blank cell.
    """

    name: str
    kind: str = NUMBER
    low: float = -2.0
    high: float = 2.0
    values: tuple[str, ...] = ()
    blanks: bool = False

    def draw(self, rng: np.random.Generator) -> Cell:
        """A cell as most records have it."""
        if self.blanks and rng.random() < 0.1:
            return None
        if self.kind == CATEGORY:
            return str(rng.choice(self.values[:-1] or self.values))
        number = float(rng.uniform(self.low, self.high))
        return day(number) if self.kind == DATE else round(number, 4)


def day(number: float) -> datetime.date:
    """The day so many days after 1970-01-01."""
    return datetime.date(1970, 1, 1) + datetime.timedelta(days=int(number))


@dataclass(frozen=True)
class GeneratedTable:
    """The records of one party: ids or None, features, and labels or None."""

    columns: tuple[Column, ...]
    records: tuple[Record, ...]
    labels: tuple[float, ...] | None = None
    label: str = ""
    ids: tuple[str, ...] | None = None
    id: str = ""

    def with_record(self, at: int, record: Record | None = None, label: float | None = None) -> GeneratedTable:
        """The neighbour whose record at this place is another one."""
        changed = self
        if record is not None:
            changed = replace(changed, records=(*self.records[:at], record, *self.records[at + 1 :]))
        if label is not None and self.labels is not None:
            changed = replace(changed, labels=(*self.labels[:at], label, *self.labels[at + 1 :]))
        return changed

    def write(self, path: Path) -> None:
        """Write the file, in the format that its name says."""
        name = path.name.removesuffix(".gz")
        writers: dict[str, Callable[[Path], None]] = {
            ".csv": self._write_csv,
            ".parquet": self._write_parquet,
            ".svm": self._write_svm,
            ".libsvm": self._write_svm,
        }
        writers[Path(name).suffix](path)

    def cells(self) -> dict[str, list[Any]]:
        """All columns by name, in the order of a file."""
        table: dict[str, list[Any]] = {} if self.ids is None else {self.id: list(self.ids)}
        table |= {column.name: [row[j] for row in self.records] for j, column in enumerate(self.columns)}
        return table if self.labels is None else {**table, self.label: [_whole(value) for value in self.labels]}

    def _write_csv(self, path: Path) -> None:
        table = self.cells()
        lines = [",".join(table), *(",".join(map(_text, row)) for row in zip(*table.values(), strict=True))]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def _write_parquet(self, path: Path) -> None:
        types = {NUMBER: pa.float64(), CATEGORY: pa.string(), DATE: pa.date32()}
        kinds = {column.name: types[column.kind] for column in self.columns}
        table = self.cells()
        arrays = [pa.array(cells, type=kinds.get(name)) for name, cells in table.items()]
        write_table(pa.table(dict(zip(table, arrays, strict=True))), path)

    def _write_svm(self, path: Path) -> None:
        labels = self.labels or (0.0,) * len(self.records)
        lines = []
        for label, row in zip(labels, self.records, strict=True):
            held = [f"{j}:{value!r}" for j, value in enumerate(row, start=1) if value]
            lines.append(" ".join([repr(_whole(label)), *held]))
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _text(cell: Cell) -> str:
    return "" if cell is None else cell.isoformat() if isinstance(cell, datetime.date) else str(cell)


def _whole(value: float) -> float:
    return int(value) if float(value).is_integer() else value


def draw_table(
    columns: tuple[Column, ...], rows: int, rng: np.random.Generator, *, sparse: bool = False
) -> GeneratedTable:
    """Usual records; most cells of a sparse table are zero, and its last column is used in the first row alone."""
    records: list[Record] = []
    for number in range(rows):
        record = [column.draw(rng) for column in columns]
        if sparse:
            kept = rng.random(len(record)) < 0.4
            kept[-1] = number == 0
            record = [cell if keep else 0.0 for cell, keep in zip(record, kept, strict=True)]
        records.append(tuple(record))
    return GeneratedTable(columns, tuple(records))


def changes(table: GeneratedTable, rng: np.random.Generator, at: int = 0) -> Iterator[tuple[str, Record]]:
    """Named replacements of the first record."""
    columns, record = table.columns, table.records[at]
    yield "another record", tuple(column.draw(rng) for column in columns)
    yield "all zero", tuple(_cell(column, 0.0) for column in columns)
    yield "opposite", tuple(_negative(column, cell) for column, cell in zip(columns, record, strict=True))
    yield "huge", tuple(_cell(column, HUGE) for column in columns)
    yield "beyond every sum", tuple(_cell(column, BEYOND) for column in columns)
    yield "tiny", tuple(_cell(column, TINY) for column in columns)
    last = max((j for j, column in enumerate(columns) if column.kind == NUMBER), default=-1)
    yield "the last column alone", tuple(_cell(column, 1.5 * (j == last)) for j, column in enumerate(columns))
    if any(column.blanks for column in columns):
        yield (
            "blank cells",
            tuple(None if column.blanks else cell for column, cell in zip(columns, record, strict=True)),
        )
    if any(column.kind == CATEGORY for column in columns):
        yield (
            "a category of its own",
            tuple(_category(column, cell, last=True) for column, cell in zip(columns, record, strict=True)),
        )
        yield (
            "an unknown category",
            tuple(_category(c, cell, last=False) for c, cell in zip(columns, record, strict=True)),
        )
    if any(column.kind == DATE for column in columns):
        yield (
            "a date out of range",
            tuple(datetime.date(1890, 1, 1) if c.kind == DATE else x for c, x in zip(columns, record, strict=True)),
        )


def _cell(column: Column, number: float) -> Cell:
    if column.kind == CATEGORY:
        return column.values[0]
    return day(column.low) if column.kind == DATE else number


def _negative(column: Column, cell: Cell) -> Cell:
    return -cell if column.kind == NUMBER and isinstance(cell, float) else cell


def _category(column: Column, cell: Cell, *, last: bool) -> Cell:
    if column.kind != CATEGORY:
        return cell
    return column.values[-1] if last else NEW


def other_labels(table: GeneratedTable, at: int = 0, *, task: str) -> Iterator[tuple[str, float]]:
    """Named replacements of a label: the next class, another number, another count."""
    assert table.labels is not None
    if task == "classification":
        values = sorted(set(table.labels))
        if len(values) < 2:
            raise InputError("a generated table has one class of labels alone")
        yield "the other label", values[(values.index(table.labels[at]) + 1) % len(values)]
        return
    if task == "counts":
        yield "no count", 0.0 if table.labels[at] else 1.0
    else:
        yield "the opposite label", -table.labels[at]
    yield "a huge label", HUGE


# --- A job with generated files for all its parties, and its neighbours: the same with one record changed


SPARSE = (".svm", ".libsvm")
JOB = "job.toml"


@dataclass(frozen=True)
class World:
    """A job and what each of its parties holds.

    Attributes
    ----------
    job : Job
        Its paths of data do not matter.
    tables : mapping of str to GeneratedTable
    suffixes : mapping of str to str
        The format of each party's file.
    """

    job: Job
    tables: Mapping[str, GeneratedTable]
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

    @property
    def split(self) -> PlayedSplit:
        """How the job splits the data between its parties."""
        return PLAYED_SPLITS[self.job.split]

    def with_table(self, name: str, table: GeneratedTable) -> World:
        """The same with another table of one party."""
        return replace(self, tables={**self.tables, name: table})


# --- splits --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlayedSplit:
    """What a neighbour test knows of a split.

    Attributes
    ----------
    same_rows : bool
        Whether all parties hold columns of the same rows, and one the labels; otherwise each holds rows with labels.
    most_parties, most_rounds : int
        How many are played at most.
    """

    same_rows: bool
    most_parties: int = sys.maxsize
    most_rounds: int = sys.maxsize


PLAYED_SPLITS = {
    "features": PlayedSplit(same_rows=True),
    "samples": PlayedSplit(same_rows=False, most_parties=12, most_rounds=3),
}


@dataclass(frozen=True)
class ProtectedData:
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


def protected_parties(job: Job, plan: Plan) -> list[ProtectedData]:
    """One for each party and unit about which something is proven."""
    found = []
    holder = "" if plan.private is None else plan.private.holder  # nobody where each holds the labels of its rows
    for claim in plan.certificate().claims:
        if claim.unit not in ("record", "label") or add_up(claim.events).reasons:
            continue
        party, of_row = claim.party or job.holder, claim.unit == "record"
        owner = party if not holder or (party in plan.asked_parties and of_row) else COORDINATOR
        found.append(ProtectedData(claim, party, owner, stays=of_row and not holder))
    return found


def neighbours(
    world: World, protected: ProtectedData, rng: np.random.Generator, turn: int = 0
) -> Iterator[tuple[str, World]]:
    """Worlds in which one record of the protected party, or one label, is another one: first, last or middle."""
    name, table = protected.party, world.tables[protected.party]
    at = (0, len(table.records) - 1, len(table.records) // 2)[turn % 3]
    if protected.claim.unit == "record":
        for kind, record in changes(table, rng, at):
            yield kind, world.with_table(name, table.with_record(at, record))
    belongs = not world.split.same_rows or protected.owner == COORDINATOR
    if table.labels is not None and belongs:
        for kind, label in other_labels(table, at, task=get_loss(world.job.model.loss).task):
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
    tables: dict[str, GeneratedTable] = {}
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
        classes = job.model.classes or 2
        return tuple(float(k % classes if k < 2 * classes else rng.integers(classes)) for k in range(count))
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
