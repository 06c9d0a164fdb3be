"""Constants of columns: from rows, where these are not protected, or from the job alone.

A party whose rows are protected gets constants that the job states and nothing else: `public_encoder` sees no row. Of
its file only this is checked: that each column can be read as the job says. What cannot is refused before a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tacit.data.encode.cells import (
    BLANK,
    Rows,
    Texts,
    check_usable,
    kind_of_type,
    number_cells,
    text_cells,
)
from tacit.data.encode.columns import JOB, ROWS, BucketColumn, CategoryColumn, Column, NumberColumn
from tacit.data.encode.encoder import Encoder
from tacit.data.encode.moments import RunningMoments, moments
from tacit.data.encode.slips import refuse_guesses
from tacit.data.encode.spec import CATEGORY, DATE, MISSING, NUMBER, OTHER, ColumnSpec, EncodeRules
from tacit.data.encode.stated import (
    known_specs,
    lacks_range,
    listed_values,
    named,
    public_encoder,
    refuse,
    stated_column,
    unlearnable,
)
from tacit.data.table import ArrowTable
from tacit.data.wording import show
from tacit.errors import InputError
from tacit.types import Vector


@dataclass(frozen=True, eq=False)
class Part:
    """Some rows of a table: of one party, or of one of several that hold the same columns."""

    table: ArrowTable
    rows: Rows | None = None

    def numbers(self, name: str, *, days: bool) -> Vector:
        """One column as numbers."""
        cells = number_cells(self.table, name, days=days)
        return cells if self.rows is None else cells[self.rows]

    def texts(self, name: str) -> Texts:
        """One column as texts."""
        texts = text_cells(self.table, name)
        return texts if self.rows is None else Texts(texts.values, texts.codes[self.rows])


@dataclass(frozen=True)
class Fact:
    """What was seen of one column in rows that nobody protects; it is said and not saved.

    Attributes
    ----------
    blanks : int
        Rows without a value.
    different : int
        Different categories; 0 for a number.
    other : int
        Rows whose category counts as other.
    constant : bool
        Whether all rows are alike, so that the column is of no use.
    """

    blanks: int = 0
    different: int = 0
    other: int = 0
    constant: bool = False


@dataclass(frozen=True)
class Encoding:
    """An encoder, and what was seen while it was fitted, by column; nothing where rows are protected."""

    encoder: Encoder
    facts: dict[str, Fact]
    protected: bool = False


def make_encoding(
    parts: Sequence[Part],
    names: Sequence[str],
    specs: Sequence[ColumnSpec],
    rules: EncodeRules,
    *,
    protected: bool,
) -> Encoding:
    """The encoding of a party's columns, or of the columns that several parties have in common.

    Parameters
    ----------
    parts : sequence of Part
        The rows to fit to; with more than one their values are united.
    names : sequence of str
        The columns, in order.
    specs : sequence of ColumnSpec
        What the job says about them.
    rules : EncodeRules
    protected : bool
        Whether the rows are to be protected: then no constant is taken from them.

    Raises
    ------
    InputError
        For columns that cannot be encoded, or not without taking a constant from protected rows.
    """
    given = known_specs(specs, names, parts[0].table.party)
    unused = _unused([part.table for part in parts], names)
    if protected:
        for part in parts:
            _check_protected(part, names, given, rules)
        return Encoding(public_encoder(names, specs, unused), {}, protected=True)
    columns: list[Column] = []
    facts: dict[str, Fact] = {}
    for name in names:
        column, facts[name] = _fitted(parts, given.get(name, ColumnSpec(name)), rules)
        columns.append(column)
    return Encoding(Encoder(tuple(columns), unused), facts)


def _unused(tables: Sequence[ArrowTable], names: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted({name for table in tables for name in table.columns} - set(names)))


# --- protected rows ----------------------------------------------------------------------------------


def _check_protected(part: Part, names: Sequence[str], given: dict[str, ColumnSpec], rules: EncodeRules) -> None:
    """Refuse what would need a constant from rows that are to be protected, all columns at once."""
    columns: list[tuple[ColumnSpec, str]] = []
    for name in names:
        spec = given.get(name, ColumnSpec(name))
        kind = kind_of_type(part.table.arrow(name).type)
        if not lacks_range(spec, kind):
            check_usable(part.table, name, spec.given_kind)
        columns.append((spec, kind))
    blanks = [spec.name for spec, kind in columns if not lacks_range(spec, kind) and _lacks_fill(part, spec, kind)]
    said = unlearnable(columns, rules)
    if blanks:
        its, it = ("its", "it") if len(blanks) == 1 else ("their", "each")
        said.append(
            f"{named(blanks)} {'has' if len(blanks) == 1 else 'have'} blanks, and to fill them with the mean of {its} "
            f"rows would not be private: give {it} low and high (blanks become their middle), or missing = true (they "
            "become 0), in [party.columns]"
        )
    refuse(part.table.party, said)


def _lacks_fill(part: Part, spec: ColumnSpec, kind: str) -> bool:
    """Read a column as the job says; whether it has blanks, with nothing public to stand for them."""
    if (spec.given_kind or kind) == CATEGORY:
        part.texts(spec.name)
        return False
    cells = part.numbers(spec.name, days=spec.kind == DATE)
    return spec.low is None and not spec.missing and bool(np.isnan(cells).any())


# --- constants from rows ------------------------------------------------------------------------------


def _fitted(parts: Sequence[Part], spec: ColumnSpec, rules: EncodeRules) -> tuple[Column, Fact]:
    """The constants of one column of rows that nobody protects."""
    kind = _kind(parts, spec)
    if kind == CATEGORY:
        return _fit_category(parts, spec, rules)
    return _fit_number(parts, spec, rules)


def _kind(parts: Sequence[Part], spec: ColumnSpec) -> str:
    """The kind that the job gives or that the files have; where several parties differ, the job must say."""
    found: dict[str, str] = {}
    for part in parts:
        check_usable(part.table, spec.name, spec.given_kind)
        kind = kind_of_type(part.table.arrow(spec.name).type)
        if kind != BLANK:
            found.setdefault(kind, part.table.party)
    if spec.given_kind is not None:
        return spec.given_kind
    if len(found) > 1:
        (one, first), (two, second) = list(found.items())[:2]
        raise InputError(
            f"column {show(spec.name)} is a {one} at party {show(first)} and a {two} at party {show(second)}: "
            "fix one of the files, or give its kind in [party.columns]"
        )
    return next(iter(found), NUMBER)


def _fit_number(parts: Sequence[Part], spec: ColumnSpec, rules: EncodeRules) -> tuple[NumberColumn, Fact]:
    days = spec.kind == DATE
    cells = np.concatenate([part.numbers(spec.name, days=days) for part in parts])
    blank = np.isnan(cells)
    values = cells[~blank]
    alike = values.size == 0 or bool(values.min() == values.max())
    # A column of blanks alone would be told twice, by two columns that are the same in all rows.
    missing = bool(blank.any() and values.size) if spec.missing is None else spec.missing
    fact = Fact(int(blank.sum()), constant=alike and not missing)
    if spec.low is not None:
        public = stated_column(spec)
        assert isinstance(public, NumberColumn)
        return replace(public, missing=missing, source=_source(spec)), fact
    bounds = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    scale = rules.scale_of(False)
    return scaled_column(spec.name, bounds, *moments(values), scale, missing=missing, days=days), fact


def scaled_column(
    name: str, bounds: tuple[float, float], mean: float, deviation: float, scale: str, **more: bool
) -> NumberColumn:
    """A column of numbers with constants from rows: of their range, mean and deviation."""
    centre, divisor = 0.0, 1.0
    if scale == "standard":
        centre, divisor = mean, deviation
    elif scale == "range":
        low, high = bounds
        centre, divisor = low / 2 + high / 2, high / 2 - low / 2
    return NumberColumn(name, centre, divisor or 1.0, mean, source=ROWS, **more)


def encoding_of_moments(names: Sequence[str], unused: Sequence[str], seen: RunningMoments, scale: str) -> Encoding:
    """The encoding of columns of numbers without blanks, of which all rows were seen."""
    constants = zip(names, seen.low.tolist(), seen.high.tolist(), *(m.tolist() for m in seen.found()), strict=True)
    columns = [
        scaled_column(name, (low, high), mean, deviation, scale) for name, low, high, mean, deviation in constants
    ]
    facts = {name: Fact(constant=bool(alike)) for name, alike in zip(names, seen.low == seen.high, strict=True)}
    return Encoding(Encoder(tuple(columns), tuple(unused)), facts)


def _fit_category(
    parts: Sequence[Part], spec: ColumnSpec, rules: EncodeRules
) -> tuple[CategoryColumn | BucketColumn, Fact]:
    counts: dict[str, int] = {}
    blanks = 0
    for part in parts:
        texts = part.texts(spec.name)
        found = np.bincount(texts.codes[texts.codes >= 0], minlength=len(texts.values))
        blanks += int(np.count_nonzero(texts.codes < 0))
        for value, count in zip(texts.values, found.tolist(), strict=True):
            if count:  # rows that no other party has are left out of all counts
                counts[value] = counts.get(value, 0) + count
    if spec.buckets is not None:
        missing = blanks > 0 if spec.missing is None else spec.missing
        fact = Fact(blanks, len(counts), 0, len(counts) + missing < 2)
        return BucketColumn(spec.name, spec.buckets, missing, _source(spec)), fact
    blanks += counts.pop(MISSING, 0)
    missing = blanks > 0 if spec.missing is None else spec.missing
    if spec.values is not None:
        column = CategoryColumn(spec.name, listed_values(spec.values), missing, _source(spec))
    else:
        refuse_guesses(parts[0].table.party, spec, counts, rules)
        column = CategoryColumn(spec.name, _kept(counts, rules), missing, ROWS)
    other = sum(count for value, count in counts.items() if value not in column.values)
    used = sum(value in counts for value in column.values) + (other > 0) + (missing and blanks > 0)
    return column, Fact(blanks, len(counts), other, used < 2)


def _source(spec: ColumnSpec) -> str:
    """Where the constants of a column with a public range or list come from: that blanks occur may be of the rows."""
    return ROWS if spec.missing is None else JOB


def _kept(counts: dict[str, int], rules: EncodeRules) -> tuple[str, ...]:
    """The most frequent categories, without rare ones; of equally frequent ones the first by name."""
    often = [value for value, count in counts.items() if count >= rules.rare and value != OTHER]
    return tuple(sorted(sorted(often, key=lambda value: (-counts[value], value))[: rules.most]))
