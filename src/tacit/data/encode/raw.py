"""Cells of one row as they stand in a party's file, and what the encoding makes of them, for people to read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tacit.data.encode.cells import number_cells, text_cells
from tacit.data.encode.columns import BucketColumn, CategoryColumn, Column, NumberColumn
from tacit.data.encode.encoder import Encoder
from tacit.data.encode.spec import MISSING
from tacit.data.table import ArrowTable, Table
from tacit.data.wording import show

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


def raw_cells(encoder: Encoder, table: Table, row: int) -> tuple[Cell, ...]:
    """The cells of one row of a table, counted from 0, in the order of the encoder's columns."""
    assert isinstance(table, ArrowTable)  # the encoder has refused any other
    one = ArrowTable(table.party, table.columns, 1, table.data.slice(row, 1))
    return tuple(_cell(column, one) for column in encoder.columns)


def _cell(column: Column, table: ArrowTable) -> Cell:
    value: Value
    if isinstance(column, NumberColumn):
        number = float(number_cells(table, column.name, days=column.days, trained=True)[0])
        value = None if np.isnan(number) else _as_written(number, column, table)
        return Cell(column.name, value, _number_note(column, number), len(column.names))
    texts = text_cells(table, column.name)
    text = None if texts.codes[0] < 0 else texts.values[texts.codes[0]]
    return Cell(column.name, text, _text_note(column, text), len(column.names))


def _as_written(number: float, column: NumberColumn, table: ArrowTable) -> Value:
    """A number as its file has it: true and false, and dates, are numbers to the model alone."""
    if pa.types.is_boolean(table.arrow(column.name).type):
        return bool(number)
    return _date(number) if column.days else number


def _number_note(column: NumberColumn, number: float) -> str:
    if np.isnan(number):
        return f"filled with {_date(np.floor(column.fill)) if column.days else _shown(float(f'{column.fill:.4g}'))}"
    if column.low is None or column.high is None or column.low <= number <= column.high:
        return ""
    taken = column.low if number < column.low else column.high
    return f"taken as {_date(np.floor(taken)) if column.days else _shown(taken)}"


def _text_note(column: CategoryColumn | BucketColumn, text: str | None) -> str:
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
