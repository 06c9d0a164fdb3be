"""One column of a table as numbers or as texts, with its blanks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tacit.data.encode.spec import CATEGORY, DATE, NUMBER
from tacit.data.table import ArrowTable
from tacit.data.wording import plural, show
from tacit.errors import InputError
from tacit.types import Vector

Rows = npt.NDArray[np.int64]
DAY = 86_400_000_000  # microseconds
BLANK = "blank"  # kind of a column without any value


@dataclass(frozen=True, eq=False)
class Texts:
    """A column of text: `codes` count in `values`, -1 for a blank."""

    values: tuple[str, ...]
    codes: Rows


def kind_of_type(kind: Any) -> str:
    """What an Arrow type is taken for: "number", "category", "blank", "date" or "" for what cannot be used."""
    if pa.types.is_null(kind):
        return BLANK
    if any(test(kind) for test in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)):
        return NUMBER
    if pa.types.is_boolean(kind):  # a flag: the number 0 or 1
        return NUMBER
    if any(test(kind) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)):
        return CATEGORY
    return DATE if pa.types.is_date(kind) or pa.types.is_timestamp(kind) else ""


def number_cells(table: ArrowTable, name: str, *, days: bool, trained: bool = False) -> Vector:
    """A column as numbers, with NaN for its blanks.

    Parameters
    ----------
    table : ArrowTable
    name : str
    days : bool
        Whether dates are wanted, as days since 1970-01-01; else they are refused.
    trained : bool
        Whether a model was trained on numbers here, for the wording of the refusal.

    Raises
    ------
    InputError
        For a cell that is no number, or infinite; the message names its row.
    """
    column = table.arrow(name)
    kind = kind_of_type(column.type)
    if kind not in (NUMBER, BLANK) or days:
        column = _as_numbers(table, name, column, kind, days=days, trained=trained)
    # safe=False: whole numbers above 2**53 are rounded to the nearest float, as numpy does.
    values: Vector = column.cast(pa.float64(), safe=False).to_numpy()
    bad = np.flatnonzero(np.isinf(values))
    if bad.size:
        raise InputError(
            f"party {show(table.party)}: column {show(name)} has {plural(bad.size, 'infinite value')}, the first in "
            f"row {bad[0] + 1}: fix them, or leave them blank"
        )
    return values


def text_cells(table: ArrowTable, name: str) -> Texts:
    """A column as texts without blanks around them; a cell without text is blank.

    Raises
    ------
    InputError
        For nested values.
    """
    column = table.arrow(name)
    if not kind_of_type(column.type):
        raise _unfit(table, name, column)
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), None, column)
    values, codes = _coded(column.cast(pa.large_string()))
    # Only different texts are cleaned, which are few in most columns; those that become the same are one.
    clean = pc.utf8_normalize(pc.utf8_trim_whitespace(values), form="NFC")
    values, places = _coded(pc.if_else(pc.equal(clean, ""), None, clean))
    return Texts(tuple(values.to_pylist()), np.append(places, -1)[codes])


def _coded(column: Any) -> tuple[Any, Rows]:
    """The different values of a column, and which of them each row has; -1 for none."""
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    encoded = column.dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):  # a column too long for one array stays in pieces
        encoded = encoded.unify_dictionaries().combine_chunks()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return encoded.dictionary, codes.astype(np.int64)


def reads_as_number(text: str) -> bool:
    """Whether a text is a finite number."""
    try:
        return "_" not in text and bool(np.isfinite(float(text)))  # Python alone takes 1_000 for a number
    except ValueError:
        return False


def _as_numbers(table: ArrowTable, name: str, column: Any, kind: str, *, days: bool, trained: bool) -> Any:
    """Dates as days, texts as what they say."""
    if kind == DATE and days:
        try:
            micros = column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
        except pa.ArrowException as error:
            raise _unfit(table, name, column) from error
        return pc.divide(micros.cast(pa.float64(), safe=False), float(DAY))
    if kind == CATEGORY and not days:
        return _parsed(table, name, trained=trained)
    if kind == BLANK:
        return column
    if days:
        raise InputError(
            f"party {show(table.party)}: column {show(name)} is to hold dates, but holds values of type {column.type}: "
            "write every date as 2026-01-31, or fix its kind"
        )
    if trained:
        raise InputError(
            f"party {show(table.party)}: column {show(name)} holds values of type {column.type}, but the model was "
            "trained on numbers: give it as in training"
        )
    raise _unfit(table, name, column)


def _parsed(table: ArrowTable, name: str, *, trained: bool) -> Any:
    """Numbers that are written as text."""
    texts = text_cells(table, name)
    bad = np.array([not reads_as_number(value) for value in texts.values], dtype=np.bool_)
    wrong = np.flatnonzero((texts.codes >= 0) & np.append(bad, False)[texts.codes])
    if wrong.size:
        held = show(texts.values[texts.codes[wrong[0]]])
        fix = "the model was trained on numbers" if trained else 'its kind is "number"'
        raise InputError(
            f"party {show(table.party)}: column {show(name)} holds {held} in row {wrong[0] + 1}, but {fix}: "
            "fix it, or leave it blank"
        )
    numbers = np.array([*(float(value) for value in texts.values), np.nan])
    return pa.chunked_array([pa.array(numbers[texts.codes])])


def _unfit(table: ArrowTable, name: str, column: Any) -> InputError:
    """The refusal of a column of dates without a kind, of times, durations or nested values."""
    if kind_of_type(column.type) == DATE:
        return InputError(
            f"party {show(table.party)}: column {show(name)} holds dates: "
            'give it kind = "date" in [party.columns] to use numbers of days, or leave it out of features'
        )
    return InputError(
        f"party {show(table.party)}: column {show(name)} holds values of type {column.type}, which cannot be encoded: "
        "leave it out of features"
    )


def check_usable(table: ArrowTable, name: str, kind: str | None) -> None:
    """Refuse a column whose type cannot be encoded, or dates where the job does not say what they are."""
    column = table.arrow(name)
    found = kind_of_type(column.type)
    if not found or (found == DATE and kind not in (DATE, CATEGORY)):
        raise _unfit(table, name, column)
