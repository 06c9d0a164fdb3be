"""A first job file from data files: what they tell is filled in, and what people must decide is asked.

Of a protected party the names of its columns are read, and the types where a Parquet file states them. Its rows are
not: two files that differ in rows alone give the same job. So what its columns hold is left to fill in.
"""

from __future__ import annotations

import csv
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tacit.columns.spec import CATEGORY, DATE, NUMBER, ColumnSpec, EncodeRules
from tacit.columns.table import ArrowTable, kind_of_type, number_cells, refuse_guesses, text_cells
from tacit.data.read import (
    DAMAGED,
    DELIMITERS,
    NUMBERS,
    PLAIN,
    FileStyle,
    csv_names,
    header_table,
    parse_numbers,
    read_table,
)
from tacit.errors import InputError
from tacit.files import assignment, literal
from tacit.job.file import parse_job
from tacit.text import is_control, listing, nearest, plain, plural, show

MOST_SPELLINGS = 20  # of two labels, with blanks around them
CODES = 12  # whole numbers with fewer different values may be codes
BUCKETS = 32
EPSILON = 1.0  # where parties are to be protected, and nobody says how much
_ID = re.compile(r"(?:^|[^a-z])(?:id|uuid|key|customer|client|patient|person|member|account|user|subject)(?:$|[^a-z])")
RULES = EncodeRules()


@dataclass(frozen=True)
class SkeletonOptions:
    """What whoever starts a job says.

    Attributes
    ----------
    label : str or None
        The column of the labels; None to propose one.
    protect : sequence of str
        Parties whose rows are not read.
    epsilon : float or None
        Of the whole run; with it, or with `protect`, every party but the one with the labels is protected.
    split : {"features", "samples"}
    """

    label: str | None = None
    protect: Sequence[str] = ()
    epsilon: float | None = None
    split: str = "features"

    @property
    def private(self) -> bool:
        """Whether the job has a section [privacy] that is in force."""
        return self.epsilon is not None or bool(self.protect)

    @property
    def by_rows(self) -> bool:
        """Whether the parties hold different rows."""
        return self.split == "samples"


@dataclass(frozen=True)
class DataFile:
    """One party's file; its rows are read when they are first looked at."""

    party: str
    path: Path

    @cached_property
    def header(self) -> ArrowTable:
        """Its columns, with the types that a Parquet file states."""
        return header_table(self.path, self.party, self.style)

    @cached_property
    def style(self) -> FileStyle:
        """How its cells are separated, by its header: where that is one cell with another delimiter in it."""
        try:
            names = csv_names(self.path)
        except (csv.Error, *DAMAGED):  # what is wrong is said when it is read
            return PLAIN
        found = [mark for mark in DELIMITERS if len(names) == 1 and mark in names[0]]
        return FileStyle(found[0]) if found else PLAIN

    @cached_property
    def numbers(self) -> str:
        """How its rows seem to write numbers: the style by which most columns of text are numbers, if any."""
        if not self.path.name.lower().endswith((".csv", ".csv.gz")):
            return PLAIN.numbers
        plain_table = self._read(PLAIN.numbers)
        texts = [column for column in plain_table.data.columns if pa.types.is_string(column.type)]
        found = {one: sum(parse_numbers(column, one) is not None for column in texts) for one in NUMBERS}
        best = max(found, key=lambda one: found[one])  # the first of several
        if not found[best]:
            return PLAIN.numbers
        return best if _count_numbers(self._read(best)) > _count_numbers(plain_table) else PLAIN.numbers

    def _read(self, numbers: str) -> ArrowTable:
        table = read_table(self.path, party=self.party, style=replace(self.style, numbers=numbers))
        assert isinstance(table, ArrowTable)
        return table

    @cached_property
    def rows(self) -> ArrowTable:
        """Its rows."""
        return self._read(self.numbers)

    @property
    def names(self) -> tuple[str, ...]:
        """Its columns."""
        return self.header.columns


def _count_numbers(table: ArrowTable) -> int:
    return sum(kind_of_type(column.type) == NUMBER for column in table.data.columns)


@dataclass(frozen=True)
class Skeleton:
    """A job to be completed.

    Attributes
    ----------
    text : str
        The job file.
    parties, protected : tuple of str
    holders : tuple of str
        Who has the labels: one party, or all where the rows are split.
    label : str
    proposed : bool
        Whether the label is a guess.
    id : str or None
        The column that rows are matched by.
    """

    text: str
    parties: tuple[str, ...]
    protected: tuple[str, ...]
    holders: tuple[str, ...]
    label: str
    proposed: bool
    id: str | None


def make_skeleton(paths: Sequence[Path], out: Path, options: SkeletonOptions) -> Skeleton:
    """The job that files and a few words tell.

    Parameters
    ----------
    paths : sequence of Path
        One CSV or Parquet file for each party.
    out : Path
        Where the job will be, as paths of data start from there.
    options : SkeletonOptions

    Raises
    ------
    InputError
        For files that cannot be read, and where nothing says which column is the label.
    """
    files = [DataFile(name, path) for name, path in zip(party_names(paths), paths, strict=True)]
    for name in options.protect:
        known = [file.party for file in files]
        if name not in known:
            raise InputError(f"--protect {show(name)} is no party{nearest(name, known)}: they are {listing(known)}")
    guess = _Guess(files, options)
    writer = _Writer(files, options, guess, out)
    text = "\n".join([*writer.head(), *(line for file in files for line in writer.party_lines(file))]) + "\n"
    parse_job(text, "the job")  # what it would refuse is said now
    protected = tuple(file.party for file in files if file.party in guess.protected)
    holders = tuple(file.party for file in guess.holders)
    parties = tuple(file.party for file in files)
    return Skeleton(text, parties, protected, holders, guess.label, options.label is None, guess.id)


def party_names(paths: Sequence[Path]) -> list[str]:
    """Names of parties from names of files, in letters that a party may have, and no two alike."""
    names: list[str] = []
    seen: set[str] = set()
    for place, path in enumerate(paths, start=1):
        stem = path.name.removesuffix(".gz").rsplit(".", 1)[0]
        stem = re.sub(r"[^\w. -]", "-", stem)[:60].strip(". -") or f"party {place}"
        name, count = stem, 1
        while (key := unicodedata.normalize("NFKC", name).casefold()) in seen:
            count += 1
            name = f"{stem}-{count}"
        seen.add(key)
        names.append(name)
    return names


# --- What the files tell: who has the labels, who is protected, and what rows are matched by


@dataclass(frozen=True)
class _Guess:
    """The label, its holders, the protected parties and the id; rows of protected parties are not looked at."""

    files: Sequence[DataFile]
    options: SkeletonOptions

    @cached_property
    def candidates(self) -> dict[str, list[str]]:
        """By party, columns with two values, where a label is to be proposed."""
        looked = [file for file in self.files if file.party not in self.options.protect]
        if not looked or (self.options.private and (self.options.by_rows or len(looked) > 1)):
            raise InputError(
                "nothing says which column is the label, and to look for it would read rows that are to be protected: "
                "give --label COLUMN"
            )
        names = _common(self.files) if self.options.by_rows else None
        looked = looked[:1] if self.options.by_rows else looked
        found = {
            file.party: [name for name in names or file.names if _two_values([file.rows], name)] for file in looked
        }
        if not any(found.values()):
            raise InputError("no column has two different values, so none is proposed as label: give --label COLUMN")
        return {party: own for party, own in found.items() if own}

    @cached_property
    def label(self) -> str:
        """The column of the labels: the one that was given, or the last one with two values of the first party."""
        return next(iter(self.candidates.values()))[-1] if self.options.label is None else self.options.label

    @cached_property
    def holders(self) -> list[DataFile]:
        """The one party that has the labels, or all where the rows are split."""
        if self.options.label is None and not self.options.by_rows:
            return [file for file in self.files if file.party == next(iter(self.candidates))]
        found = [file for file in self.files if self.label in file.names]
        if not found:
            every = sorted({name for file in self.files for name in file.names})
            raise InputError(f"no file has a column {show(self.label)}{nearest(self.label, every)}: check --label")
        if self.options.by_rows and len(found) < len(self.files):
            lacks = next(file for file in self.files if file not in found)
            raise InputError(f"{show(str(lacks.path))} has no column {show(self.label)}: each party needs its labels")
        if not self.options.by_rows and len(found) > 1:
            names = listing(str(file.path) for file in found)
            raise InputError(f"{names} all have a column {show(self.label)}: remove it from all but one")
        return found

    @cached_property
    def everyone(self) -> bool:
        """Whether the rows of whoever has the labels are protected, too."""
        return self.options.by_rows or any(file.party in self.options.protect for file in self.holders)

    @cached_property
    def protected(self) -> frozenset[str]:
        """Parties whose rows are not read: with [privacy] all but the one with the labels, or all."""
        if not self.options.private:
            return frozenset()
        spared = () if self.everyone else [file.party for file in self.holders]
        return frozenset(file.party for file in self.files if file.party not in spared)

    @cached_property
    def open_files(self) -> list[DataFile]:
        """Files whose rows may be looked at."""
        return [file for file in self.files if file.party not in self.protected]

    @cached_property
    def id(self) -> str | None:
        """The column that rows are matched by: all files have it, and where rows may be read all its values differ."""
        names = [name for name in _common(self.files) if name != self.label and _is_nameable(name)]
        likely = [name for name in names if _is_likely_id(name)]
        if not self.open_files:
            sole = names if len(names) == 1 and len(self.files) > 1 and not self.options.by_rows else []
            return next(iter(likely or sole), None)
        others = [] if self.options.by_rows or len(self.files) == 1 else names
        return next((n for n in (*likely, *others) if all(_all_differ(file, n) for file in self.open_files)), None)


def _common(files: Sequence[DataFile]) -> list[str]:
    """Columns that all files have, in the order of the first."""
    return [name for name in files[0].names if all(name in file.names for file in files)]


def _is_likely_id(name: str) -> bool:
    return _ID.search(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()) is not None


def _is_nameable(name: str) -> bool:
    """Whether a job may hold a text: it must not act on a terminal."""
    return not any(map(is_control, name))


def _few_values(table: ArrowTable, name: str) -> set[Any]:
    """The different values of a column, None for blanks among them; nothing where there are many, or of other kinds."""
    column = table.arrow(name)
    kind = kind_of_type(column.type)
    if kind not in (CATEGORY, NUMBER) or pc.count_distinct(column).as_py() > MOST_SPELLINGS:
        return set()
    if kind == CATEGORY:
        texts = text_cells(table, name)
        return {*texts.values, *([None] if (texts.codes < 0).any() else [])}
    values = pc.unique(column).to_pylist()
    return {value if value is None or isinstance(value, int) else float(value) for value in values}


def _two_values(tables: Sequence[ArrowTable], name: str) -> list[Any]:
    """The values of a column that has two of them, no blanks, and that a job can name, sorted; else nothing."""
    found = set().union(*(_few_values(table, name) for table in tables))
    one_kind = len({isinstance(value, str) for value in found}) == 1
    plain_text = _is_nameable("".join([name, *map(str, found)]))
    return sorted(found) if len(found) == 2 and None not in found and one_kind and plain_text else []


def _all_differ(file: DataFile, name: str) -> bool:
    column = file.rows.arrow(name)
    whole = pa.types.is_integer(column.type) or kind_of_type(column.type) == CATEGORY
    return whole and column.null_count == 0 and pc.count_distinct(column).as_py() == len(column)


# --- The text


@dataclass(frozen=True)
class _Writer:
    """The lines of the job."""

    files: Sequence[DataFile]
    options: SkeletonOptions
    guess: _Guess
    out: Path

    def head(self) -> Iterator[str]:
        """All but the parties."""
        yield "# Written by tacit init. Check every line, and fill in what is asked for by a question mark."
        if self.guess.open_files:
            yield "# What it says of rows is about parties that nobody protects: remove it before others get this file."
        yield from ("", "[job]", _set("name", _plain_name(self.out.stem)))
        if self.options.by_rows:
            yield _set("split", "samples")
        aside = "# " if self.options.private else ""
        yield from (
            f"{aside}holdout = 0.2              # part of the rows to evaluate the model on",
            "",
            "[model]",
            *self._loss(),
        )
        yield self._terms()
        yield "# alpha = 1e-4             # strength of the penalty; [search] chooses it where nothing is protected"
        if self.options.by_rows:
            yield from ("", "[graph]", 'kind = "complete"          # who talks to whom: ring, star, grid, random')
        yield from ("", *self._privacy())

    def _terms(self) -> str:
        """Lines or curves: what a search chooses, where there can be one."""
        if self.options.by_rows or self.guess.protected:
            return 'terms = "spline"           # a curve for each number; "linear" for lines'
        return 'terms = "auto"             # lines or curves, by a search; "linear" or "spline" to say which'

    def _loss(self) -> Iterator[str]:
        """The loss that fits the labels."""
        if self.guess.holders[0].party in self.guess.protected:
            yield 'loss = "logistic"          # for labels of two kinds; for numbers "squared"'
            return
        tables, label = self._holders_rows, self.guess.label
        numbers = all(kind_of_type(table.arrow(label).type) == NUMBER for table in tables)
        few = set().union(*(_few_values(table, label) for table in tables)) - {None}
        yield _set("loss", "squared" if numbers and not 0 < len(few) < 3 else "logistic")

    @property
    def _holders_rows(self) -> list[ArrowTable]:
        return [file.rows for file in self.guess.holders]

    def _privacy(self) -> Iterator[str]:
        """What is protected."""
        epsilon = EPSILON if self.options.epsilon is None else self.options.epsilon
        lines = ["[privacy]", f"epsilon = {epsilon!r}              # of the whole run: smaller is more private"]
        if not self.options.by_rows and self.guess.everyone:
            lines.append('protect = "everyone"       # also the rows and labels of whoever has the labels')
        if self.options.private:
            yield from lines
        else:
            yield "# Nothing is protected. For privacy run tacit init again, with --epsilon 1: what is said of columns"
            yield "# below is from rows, and would not be private. It writes these lines:"
            yield from (f"# {line}" for line in lines)

    def party_lines(self, file: DataFile) -> Iterator[str]:
        """One party."""
        yield from ("", "[[party]]", _set("name", file.party), _set("data", self._data(file)))
        if file.style != PLAIN:
            yield _set("delimiter", file.style.delimiter)
        if file.party not in self.guess.protected and file.numbers != PLAIN.numbers:
            yield f"{_set('numbers', file.numbers)}       # how the file seems to write 1234.56"
        elif file.style != PLAIN:
            yield '# numbers = "1.234,56"      # if this is how the file writes 1234.56'
        if self.guess.id is not None:
            yield _set("id", self.guess.id)
        elif not self.options.by_rows and len(self.files) > 1:
            yield '# id = "?"                 # a column that all have; without, rows are matched by their position'
        if file in self.guess.holders:
            yield from self._label(file)
        features = self._features(file)
        if len(features) < len(self._columns(file)):
            yield "# Without columns that a job cannot use or name, or that not all have:"
            yield _set("features", tuple(features))
        if not self.options.by_rows or file is self.files[0]:
            yield from self._statements(file, features)

    def _data(self, file: DataFile) -> str:
        """The path as seen from the job."""
        if file.path.is_absolute():
            return file.path.as_posix()
        return Path(os.path.relpath(file.path, self.out.parent)).as_posix()

    def _label(self, file: DataFile) -> Iterator[str]:
        if self.options.label is None:
            others = {party: [name for name in names if name != self.guess.label or party != file.party]
                      for party, names in self.guess.candidates.items()}  # fmt: skip
            found = [f"{show(name)} of {party}" for party, names in others.items() for name in names]
            also = f"; also of two kinds: {', '.join(found)}" if found else ""
            yield f"# Proposed, as it has two values{also}. Is it the one?"
        yield _set("label", self.guess.label)
        if file.party not in self.guess.protected:
            yield from self._positive(file)

    def _positive(self, file: DataFile) -> Iterator[str]:
        """The label that scores are about, where there are two."""
        values = _two_values(self._holders_rows, self.guess.label)
        if values and file is self.guess.holders[0]:  # what one party says of it holds for all
            yield f"{_set('positive', values[1])}   # scores are about it; the other one is {literal(values[0])}"

    def _columns(self, file: DataFile) -> list[str]:
        """All columns but id and label."""
        return [name for name in file.names if name not in (self.guess.id, self.guess.label)]

    def _features(self, file: DataFile) -> list[str]:
        """Columns that the job can use."""
        common = _common(self.files) if self.options.by_rows else file.names
        table = file.header if file.party in self.guess.protected else file.rows
        own = [name for name in self._columns(file) if name in common and _is_nameable(name)]
        usable = [name for name in own if kind_of_type(table.arrow(name).type)]
        if not usable:
            raise InputError(
                f"party {show(file.party)}: {show(str(file.path))} has no column that a job can use, besides id and "
                "label: add columns, or leave the file out"
            )
        return usable

    def _statements(self, file: DataFile, features: Sequence[str]) -> Iterator[str]:
        """The section [party.columns]."""
        yield from ("", "[party.columns]")
        if self.options.by_rows:
            yield "# What is said here holds for the columns of all parties."
        if file.party in self.guess.protected:
            yield from question_lines(file.header, features)
            return
        tables = [other.rows for other in self.files] if self.options.by_rows else [file.rows]
        for name in features:
            yield seen_line(tables, name)


def _set(key: str, value: Any) -> str:
    """An assignment, whose key needs no quotes."""
    return assignment(key, value) or ""


def _plain_name(stem: str) -> str:
    return stem if _is_nameable(stem) and stem.strip() else "job"


def column_key(name: str) -> str:
    """The name of a column as a key of TOML."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else plain(literal(name))


def question_lines(header: ArrowTable, names: Sequence[str]) -> Iterator[str]:
    """What is to be filled in about the columns of a protected party; its rows are not known here."""
    yield "# Its rows are protected, so only the names of its columns were read. Fill in each ? without looking at"
    yield "# the rows: from a code book, a law, a published table. Then remove the # in front. Numbers and dates need"
    yield f'# low and high, categories values = ["a", "b"] or buckets = {BUCKETS}.'
    for name in names:
        category = kind_of_type(header.arrow(name).type) == CATEGORY
        yield f"# {column_key(name)} = {'{ values = [?] }' if category else '{ low = ?, high = ? }'}"


def seen_line(tables: Sequence[ArrowTable], name: str) -> str:
    """What the rows of parties that nobody protects tell about a column."""
    kinds = {kind_of_type(table.arrow(name).type) for table in tables}
    key = column_key(name)
    try:
        if CATEGORY in kinds:
            return f"{key} = {_category(tables, name)}"
        if DATE in kinds:
            return f'{key} = {{ kind = "date" }}'
        return f"# {key}: {_number(tables, name)}"
    except InputError as error:
        return f"# {key} is not ready: {plain(str(error))}"


def _category(tables: Sequence[ArrowTable], name: str) -> str:
    """Categories as they are in the rows, or buckets where there are many."""
    counts: Counter[str] = Counter()
    for table in tables:
        texts = text_cells(table, name)
        counts.update(texts.values[code] if code >= 0 else "" for code in texts.codes.tolist())
    blanks = counts.pop("", 0)
    refuse_guesses(tables[0].party, ColumnSpec(name), counts, RULES)
    often = sorted(value for value, count in counts.items() if count >= RULES.rare and _is_nameable(value))
    if len(counts) > RULES.most:
        return f'{{ kind = "category", buckets = {BUCKETS} }}   # {len(counts)} different texts{_blank_words(blanks)}'
    kept = f"values = {literal(tuple(often))}" if often else 'kind = "category"'
    rest = len(counts) - len(often)
    others = f"{plural(rest, 'rare text')} {'counts' if rest == 1 else 'count'} as other" if rest else ""
    comment = f"{others}{_blank_words(blanks) if others else _blank_words(blanks).removeprefix(', ')}"
    return f"{{ {kept} }}" + (f"   # {comment}" if comment else "")


def _number(tables: Sequence[ArrowTable], name: str) -> str:
    """Range and blanks of numbers, and whether they may be codes."""
    cells = np.concatenate([number_cells(table, name, days=False) for table in tables])
    values = cells[~np.isnan(cells)]
    if not values.size:
        return "all blank"
    blanks = _blank_words(int(cells.size - values.size))
    text = f"numbers from {values.min():g} to {values.max():g}{blanks}"
    different = np.unique(values)
    if 2 < different.size < CODES and bool((different == np.round(different)).all()):
        text += f'; if these {different.size} are codes: {column_key(name)} = {{ kind = "category" }}'
    return text


def _blank_words(count: int) -> str:
    return f", {plural(count, 'blank')}" if count else ""
