"""A code book: a CSV file that says what is known of columns, for all parties of several jobs.

Its header names `column` and some of the keys of [party.columns]; an empty cell says nothing. Categories are separated
by bars, as in `Basel|Bern`. Entries about columns that no party has are passed over, as other jobs may have them.
"""

from __future__ import annotations

import csv
import datetime
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tacit.columns.spec import ColumnSpec
from tacit.columns.table import reads_as_number
from tacit.data.load import PartySpec
from tacit.errors import InputError
from tacit.files import MOST_BYTES, quote_path
from tacit.job.sections import COLUMN_KEYS, make_column, make_columns
from tacit.text import is_control, listing, nearest, one_line, plural, show

COLUMN = "column"
BAR = "|"  # between categories
WORDS = {"true": True, "false": False}


def read_codebook(path: Path) -> tuple[ColumnSpec, ...]:
    """The entries of a code book, sorted by name; all are optional.

    Raises
    ------
    InputError
        For a file that cannot be read, an unknown header, or a row that cannot be used; the message names its line.
    """
    rows = _rows(_text(path), path.name)
    _, header = next(rows, (1, []))
    keys = _keys([cell.strip() for cell in header], path.name)
    found: dict[str, tuple[int, ColumnSpec]] = {}
    for line, cells in rows:
        spec = _entry(cells, keys, f"{path.name} line {line}")
        first, known = found.setdefault(spec.name, (line, spec))
        if known is not spec:
            raise InputError(f"{path.name} line {line}: column {show(spec.name)} is in line {first} already: keep one")
    if not found:
        raise InputError(
            f"the code book {show(path.name)} has no entries: add rows below its header, or remove codebook"
        )
    return tuple(spec for _, (_, spec) in sorted(found.items()))


def stated_codebook(values: Mapping[str, Any]) -> tuple[ColumnSpec, ...]:
    """The entries of a code book that is written in a job itself, as in a job that travelled."""
    return tuple(replace(spec, optional=True) for spec in make_columns(values, "encode.codebook"))


def with_codebook(party: PartySpec, book: Sequence[ColumnSpec]) -> PartySpec:
    """A party that knows what a code book says of its columns, besides what the job says; its id and label are none."""
    own = {*party.apart.values(), *(spec.name for spec in party.columns)}
    return replace(party, columns=(*party.columns, *(spec for spec in book if spec.name not in own)))


def _text(path: Path) -> str:
    """The file's content."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise InputError(f"the code book {quote_path(path)} is longer than {MOST_BYTES:,} bytes: shorten it")
        return content.decode("utf-8-sig")
    except OSError as error:
        why = error.strerror or one_line(error)
        raise InputError(f"cannot open the code book {quote_path(path)} ({why}): check encode.codebook") from error
    except UnicodeDecodeError as error:
        raise InputError(f"the code book {quote_path(path)} is not UTF-8 text: save it as UTF-8") from error


def _rows(text: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not blank, each with the line that it begins in."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    line = 1
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise InputError(f"{name} line {line}: cannot read it as CSV ({one_line(error)}): check quotes") from error
        if any(map(is_control, "".join(cells))):
            raise InputError(f"{name} line {line}: it has a control character: leave it out")
        if any(cell.strip() for cell in cells):
            yield line, cells
        line = reader.line_num + 1


def _keys(header: Sequence[str], name: str) -> Sequence[str]:
    """The header, all of whose words are known and none twice."""
    allowed = [COLUMN, *COLUMN_KEYS]
    for place, key in enumerate(header):
        if key not in allowed:
            hint = nearest(key, allowed)
            raise InputError(f"{name} line 1: unknown header {show(key)}{hint}: allowed are {listing(allowed)}")
        if key in header[:place]:
            raise InputError(f"{name} line 1: the header has {show(key)} twice: keep one")
    if COLUMN not in header:
        raise InputError(f'{name} line 1: the header has no "{COLUMN}": write column,low,high,values')
    return header


def _entry(cells: Sequence[str], keys: Sequence[str], place: str) -> ColumnSpec:
    """One row."""
    if len(cells) != len(keys):
        raise InputError(
            f"{place}: it has {plural(len(cells), 'cell')}, and the header {len(keys)}: make them the same"
        )
    given = {key: cell.strip() for key, cell in zip(keys, cells, strict=True) if cell.strip()}
    name = given.pop(COLUMN, "")
    if not name:
        raise InputError(f"{place}: it names no column: fill in the cell below {show(COLUMN)}")
    if not given:
        raise InputError(f"{place}: it says nothing of column {show(name)}: give low and high, or values, or remove it")
    try:
        spec = make_column(name, {key: _value(key, cell) for key, cell in given.items()}, name)
    except InputError as error:
        raise InputError(f"{place}: {error}") from error
    return replace(spec, optional=True)


def _value(key: str, cell: str) -> Any:
    """A cell as a job file would have it; what it cannot be stays text, and is refused as such."""
    if key == "values":
        return cell.split(BAR)
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", cell):
        try:
            return datetime.date.fromisoformat(cell)
        except ValueError:
            return cell
    if key == "buckets" and re.fullmatch(r"[0-9]{1,9}", cell):
        return int(cell)
    if reads_as_number(cell):
        return float(cell)
    return WORDS.get(cell.lower(), cell)
