"""What is said about an encoding: columns by kind, where constants come from, and cells as a person reads them."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tacit.columns.constants import Encoding, Fact
from tacit.columns.curves import SplineColumn
from tacit.columns.encoder import (
    BucketColumn,
    CategoryColumn,
    Column,
    CurveColumn,
    Encoder,
    NumberColumn,
    TextColumn,
)
from tacit.columns.raw import RawColumn, RawEncoder
from tacit.columns.spec import CATEGORY, DATE, JOB, MISSING, ROWS
from tacit.columns.table import ArrowTable, Table, number_cells, text_cells
from tacit.text import listing, plural, show

# --- What is said about an encoding: columns by kind, and where its constants come from


LISTED = 8
# Rows are clipped to row_norm in private runs: one column of thousands leaves nothing of those of about 1.
RANGES = "large numbers drown others under row_norm: give low and high to"
EPOCH = datetime.date(1970, 1, 1)


def column_lines(party: str, encoding: Encoding) -> list[str]:
    """One line about a party's columns, and one for those of each kind."""
    encoder = encoding.encoder
    before, after = len(encoder.sources), len(encoder.names)
    become = "" if before == after and encoder.sources == encoder.names else f", encoded as {after}"
    lines = [f"{party}: {plural(before, 'column')}{become}"]
    groups: dict[str, list[str]] = {}
    for column in encoder.columns:
        groups.setdefault(describe(column, encoding.facts.get(column.name)), []).append(column.name)
    lines += [f"  {what}: {listing(names, LISTED)}" for what, names in groups.items()]
    bare = [column.name for column in encoder.columns if _unbounded(column)]
    return [*lines, f"  {RANGES} {listing(bare, LISTED)}"] if encoding.protected and bare else lines


def raw_lines(encoders: Mapping[str, RawEncoder]) -> list[str]:
    """The columns of each party as trees take them, one line for those of each kind."""
    lines = []
    for party, encoder in encoders.items():
        lines.append(f"{party}: {plural(len(encoder.columns), 'column')} as they are")
        groups: dict[str, list[str]] = {}
        for column in encoder.columns:
            many = f", {plural(len(column.categories), 'category')}" if column.categories else ""
            groups.setdefault(f"{column.kind}{many}", []).append(column.name)
        lines += [f"  {what}: {listing(names, LISTED)}" for what, names in groups.items()]
    return lines


def _unbounded(column: Column) -> bool:
    return isinstance(column, NumberColumn) and column.low is None


def describe(column: Column, fact: Fact | None) -> str:
    """Kind and constants of a column in a few words; what was seen of its rows where these are not protected."""
    seen = [] if fact is None else _seen(column, fact)
    if isinstance(column, CurveColumn):
        return ", ".join([_curve(column), *seen])
    if isinstance(column, NumberColumn):
        return ", ".join([_number(column), *seen])
    if isinstance(column, BucketColumn):
        blanks = ["blanks apart"] if column.missing else []
        return ", ".join([f"category in {plural(column.buckets, 'bucket')}", *blanks, *seen])
    kept = plural(len(column.values), "category")
    if column.source == ROWS and fact is not None and fact.different > len(column.values):
        kept = f"{len(column.values)} of {fact.different} categories"
    blanks = [] if fact is not None else ["blanks apart" if column.missing else "blanks are other"]
    return ", ".join([f"category, {kept}", *blanks, *seen])


def _number(column: NumberColumn) -> str:
    what = "date" if column.days else "number"
    marked = " and are marked" if column.missing else ""
    if column.low is not None and column.high is not None:
        return f"{what} from {_end(column, column.low)} to {_end(column, column.high)}, blanks become " + (
            f"{_end(column, column.fill)}{marked}"
        )
    if column.centre == 0.0 and column.divisor == 1.0 and column.source == JOB:
        return f"{what} as it is" + (f", blanks become 0{marked}" if marked else "")
    return what


def _curve(column: CurveColumn) -> str:
    """A curve in a few words: its range, and how fine it is."""
    what = f"{'date' if column.days else 'number'} as a curve"
    ends = f"from {_end(column, column.low)} to {_end(column, column.high)}"
    if isinstance(column, SplineColumn):
        spikes = f" and {plural(len(column.spikes), 'frequent value')}" if column.spikes else ""
        return f"{what} of {plural(len(column.knots), 'knot')}{spikes}"
    if column.used_pairs == 0:
        what = what.replace("a curve", "a line")
    fine = f" of {plural(column.used_pairs, 'pair')} of waves" if column.used_pairs else ""
    fine += f" and {plural(column.used_exact, 'bucket')} of exact values" if column.used_exact else ""
    places = ", finer near the lower end" if column.log else ""
    blanks = "blanks apart" if column.missing else f"blanks become {_end(column, column.fill)}"
    return f"{what}{fine} {ends}{places}, {blanks}"


def _end(column: NumberColumn | CurveColumn, value: float) -> str:
    """An end or the middle of a range, as a date where it is one."""
    if not column.days:
        return f"{value:g}"
    try:
        return str(EPOCH + datetime.timedelta(days=value))
    except OverflowError:
        return f"day {value:g}"


def _seen(column: Column, fact: Fact) -> list[str]:
    """What the rows showed: blanks, rare categories, and columns that are the same in all rows."""
    parts = []
    if isinstance(column, CategoryColumn) and fact.other:
        parts.append(f"{plural(fact.other, 'row')} other")
    if fact.blanks:
        parts.append(plural(fact.blanks, "blank"))
    return [*parts, "the same in all rows"] if fact.constant else parts


def record(encoding: Encoding) -> list[dict[str, Any]]:
    """The columns as plain values; blanks and categories are counted only where rows are not protected."""
    found = []
    for column in encoding.encoder.columns:
        fact = encoding.facts.get(column.name)
        seen = {} if fact is None else {"blanks": fact.blanks, "different": fact.different, "other": fact.other}
        kind = "category" if isinstance(column, TextColumn) else "number"
        found.append({"column": column.name, "kind": kind, "encoded": len(column.names), "from": column.source, **seen})
    return found


def constants(
    encodings: Mapping[str, Encoding], *, shared: bool, by: str = "the job states"
) -> tuple[list[str], list[str]]:
    """What a certificate says about the constants: what it does not cover, and what it assumes.

    Parameters
    ----------
    encodings : mapping of str to Encoding
        By party.
    shared : bool
        Whether all parties have the same constants, as where the rows are split.
    by : str
        Who states the constants that are public.
    """
    learnt = [name for name, own in encodings.items() if not own.protected and _sources(own) & {ROWS}]
    stated = [name for name, own in encodings.items() if own.protected]
    uncovered, assumed = [], []
    which = _learnt_constants([encodings[name] for name in learnt])
    if learnt and shared:
        uncovered.append(
            f"the constants of the encoding ({which}): they were taken from the rows of all parties and shared between "
            "them"
        )
    elif learnt:
        whose = "its" if len(learnt) == 1 else "each one's"
        uncovered.append(
            f"the constants of the encoding of {', '.join(learnt)} ({which}): they were taken from {whose} rows and "
            f"are saved with {whose} part of the model"
        )
    if stated:
        assumed.append(
            f"the constants of the encoding of {', '.join(stated)} (columns and their kinds, ranges, categories, "
            f"buckets) are public: {by} them, and nobody took them from the rows"
        )
    curved = [name for name in stated if encodings[name].encoder.has_public_curves]
    if curved:
        assumed.append(
            f"how fine the curves of {', '.join(curved)} are follows from public numbers, or was stated without "
            "looking at rows or results"
        )
    return uncovered, assumed


def _learnt_constants(encodings: Sequence[Encoding]) -> str:
    """What kinds of constants came from rows."""
    splines = any(isinstance(column, SplineColumn) for own in encodings for column in own.encoder.columns)
    knots = "knots of curves, among them the least and the greatest value, frequent values, " if splines else ""
    return f"means, deviations, {knots}which categories and blanks occur"


def _sources(encoding: Encoding) -> set[str]:
    return {column.source for column in encoding.encoder.columns}


# --- Cells of one row as they stand in a party's file, and what the encoding makes of them, for people to read


Value = float | bool | str | None


@dataclass(frozen=True)
class Cell:
    """One cell of a party's own column.

    Attributes
    ----------
    column : str
        The column of the file.
    value : number, bool, text or None
        What stands there; a date as text, None for a blank.
    note : str
        What it is taken for, where that is something else; else empty.
    width : int
        How many encoded columns it becomes.
    """

    column: str
    value: Value
    note: str
    width: int

    @property
    def words(self) -> str:
        """The cell for people: a number as it is, text in quotes, or "blank"."""
        return f"{self.column} = {_shown(self.value)}" + (f" ({self.note})" if self.note else "")


def raw_cells(encoder: Encoder | RawEncoder, table: Table, row: int) -> tuple[Cell, ...]:
    """The cells of one row of a table, counted from 0, in the order of the encoder's columns."""
    assert isinstance(table, ArrowTable)  # the encoder has refused any other
    one = ArrowTable(table.party, table.columns, 1, table.data.slice(row, 1))
    return tuple(
        _tree_cell(column, one) if isinstance(column, RawColumn) else _cell(column, one) for column in encoder.columns
    )


def _tree_cell(column: RawColumn, table: ArrowTable) -> Cell:
    """A cell as trees take it, which is as it stands."""
    if column.kind == CATEGORY:
        texts = text_cells(table, column.name)
        text = None if texts.codes[0] < 0 else texts.values[texts.codes[0]]
        known = text is None or text in column.categories
        return Cell(column.name, text, "" if known else "not seen in training, taken as blank", 1)
    number = float(column.cells(table)[0])
    value = None if np.isnan(number) else _date(number) if column.kind == DATE else number
    return Cell(column.name, value, "", 1)


def _cell(column: Column, table: ArrowTable) -> Cell:
    value: Value
    if not isinstance(column, TextColumn):
        number = float(number_cells(table, column.name, days=column.days, trained=True)[0])
        value = None if np.isnan(number) else _as_written(number, column, table)
        return Cell(column.name, value, _number_note(column, number), len(column.names))
    texts = text_cells(table, column.name)
    text = None if texts.codes[0] < 0 else texts.values[texts.codes[0]]
    return Cell(column.name, text, _text_note(column, text), len(column.names))


def _as_written(number: float, column: NumberColumn | CurveColumn, table: ArrowTable) -> Value:
    """A number as its file has it: true and false, and dates, are numbers to the model alone."""
    if pa.types.is_boolean(table.arrow(column.name).type):
        return bool(number)
    return _date(number) if column.days else number


def _number_note(column: NumberColumn | CurveColumn, number: float) -> str:
    if np.isnan(number) and isinstance(column, CurveColumn) and column.missing:
        return ""
    if np.isnan(number):
        return f"filled with {_date(np.floor(column.fill)) if column.days else _shown(float(f'{column.fill:.4g}'))}"
    if column.low is None or column.high is None or column.low <= number <= column.high:
        return ""
    taken = column.low if number < column.low else column.high
    return f"taken as {_date(np.floor(taken)) if column.days else _shown(taken)}"


def _text_note(column: TextColumn, text: str | None) -> str:
    if isinstance(column, BucketColumn):
        blank = "" if column.missing else "no bucket"
        return blank if text is None else f"bucket {column.bucket(text)}"
    if text is None or text == MISSING:
        return "" if column.missing else "counted as other"
    return "" if text in column.values else "counted as other"


def _date(days: float) -> str:
    """Days since 1970-01-01 as a date, with the time of day where it is not midnight."""
    unit: Any = "D" if days == int(days) else "s"
    return str(np.datetime64(int(days) if unit == "D" else round(days * 86_400), unit))


def _shown(value: Value) -> str:
    if value is None:
        return "blank"
    if isinstance(value, bool):
        return "true" if value else "false"
    return show(value) if isinstance(value, str) else f"{value:.12g}"
