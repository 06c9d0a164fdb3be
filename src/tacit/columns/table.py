"""Tables as read from a file, and one column of a table as numbers or as texts, with its blanks.

A table has columns of text and numbers (Arrow), or sparse rows (LIBSVM). Rows in messages count from 1, the first row
of data (below the header where there is one).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from tacit.columns.spec import CATEGORY, DATE, NUMBER, ColumnSpec, EncodeRules
from tacit.errors import InputError
from tacit.text import listing, nearest, plural, show
from tacit.types import Matrix, Vector

# --- Tables as read from a file: columns of text and numbers (Arrow), or sparse rows (LIBSVM)


_PANDAS_INDEX = re.compile(r"__index_level_\d+__")
MOST_COLUMNS = 2**22


@dataclass(frozen=True, eq=False)
class Table(ABC):
    """One party's file in memory.

    Attributes
    ----------
    party : str
        The party's name, used in every message about the table.
    columns : tuple of str
        Names of the columns, in the order of the file.
    n_rows : int
        Number of rows, at least 1.
    """

    party: str
    columns: tuple[str, ...]
    n_rows: int

    @abstractmethod
    def arrow(self, name: str) -> Any:
        """Return one column as an Arrow array, with blanks as nulls."""

    @abstractmethod
    def column(self, name: str) -> npt.NDArray[Any]:
        """Return one column as a numpy array of its own type; text comes as an array of objects."""

    @abstractmethod
    def features(self, names: Sequence[str], *, absent_as_zero: bool = False) -> Matrix:
        """Return the named columns as a float64 matrix, dense or CSR.

        Parameters
        ----------
        names : sequence of str
            Columns, in the order wanted.
        absent_as_zero : bool
            For sparse tables only: a column number above those in the file is a column of zeros,
            as the LIBSVM format means it. Dense tables always refuse a column they do not have.

        Raises
        ------
        InputError
            For a column that is absent, not numeric, or holds blanks, NaN or infinite values.
        """

    def default_features(self, exclude: Collection[str] = ()) -> tuple[str, ...]:
        """Return every column that can be a feature, in file order, except those in `exclude`.

        The row index that pandas stores beside the data in Parquet files is no feature.
        """
        return tuple(c for c in self.columns if c not in exclude and not _PANDAS_INDEX.fullmatch(c))

    def require(self, names: Sequence[str]) -> None:
        """Raise InputError when a named column is absent."""
        held = set(self.columns)
        missing = [name for name in names if name not in held]
        if missing:
            noun = "column" if len(missing) == 1 else "columns"
            hint = nearest(missing[0], self.columns) if len(missing) == 1 else ""
            raise InputError(
                f"party {show(self.party)} has no {noun} {listing(missing)}{hint}: its file has {listing(self.columns)}"
            )


@dataclass(frozen=True, eq=False)
class ArrowTable(Table):
    """A table of named columns, each of its own type (CSV, Parquet)."""

    data: Any  # a pyarrow.Table: pyarrow ships no types

    def arrow(self, name: str) -> Any:
        """Return one column as an Arrow array, with blanks as nulls."""
        self.require([name])
        column = self.data.column(name)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
            raise InputError(f"party {show(self.party)}: column {show(name)} is not UTF-8 text: save the file as UTF-8")
        return column

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return one column as a numpy array of its own type; text comes as an array of objects."""
        array: npt.NDArray[Any] = self.arrow(name).to_numpy()
        return array

    def features(self, names: Sequence[str], *, absent_as_zero: bool = False) -> Matrix:
        """Return the named columns as a dense float64 matrix; see `Table.features`."""
        self.require(names)
        matrix = np.empty((self.n_rows, len(names)))
        for position, name in enumerate(names):
            matrix[:, position] = self._numbers(name)
        return matrix

    def _numbers(self, name: str) -> Vector:
        """Return one column as finite float64, or refuse it."""
        column = self.arrow(name)
        if not _is_numeric(column.type):
            raise self._not_numeric(name, column)
        # safe=False: whole numbers above 2**53 are rounded to the nearest float, as numpy does.
        values: Vector = column.cast(pa.float64(), safe=False).to_numpy()
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            raise _not_finite(self.party, name, values[bad[0]], int(bad[0]), bad.size)
        return values

    def _not_numeric(self, name: str, column: Any) -> InputError:
        """Build the refusal of a column of text, dates or nested values."""
        row, value = _first_non_number(column)
        return InputError(
            f"party {show(self.party)}: column {show(name)} is not numeric, row {row + 1} holds {value}: "
            "encode it as numbers, or leave it out of features"
        )


@dataclass(frozen=True, eq=False)
class SparseTable(Table):
    """A LIBSVM table: columns "1" to "d" kept as CSR, and the column "label"."""

    data: Any  # a scipy.sparse.csr_array
    label: Vector

    def arrow(self, name: str) -> Any:
        """Return one column as an Arrow array."""
        return pa.array(self.column(name))

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return one column as a float64 array."""
        self.require([name])
        if name == "label":
            return self.label
        values: Vector = self.data[:, [int(name) - 1]].toarray().ravel()
        return values

    def default_features(self, exclude: Collection[str] = ()) -> tuple[str, ...]:
        """Return every column number: a LIBSVM file sets the label apart itself."""
        return super().default_features({"label", *exclude})

    def features(self, names: Sequence[str], *, absent_as_zero: bool = False) -> Matrix:
        """Return the named columns as a CSR array; see `Table.features`."""
        if "label" in names:
            raise InputError(
                f'party {show(self.party)}: "label" is the label of a LIBSVM file and cannot be a feature: '
                "leave it out of features"
            )
        data = self._widened(names) if absent_as_zero else self.data
        if not absent_as_zero:
            self.require(names)
        indices = np.array([int(name) - 1 for name in names], dtype=np.intp)
        whole = np.array_equal(indices, np.arange(data.shape[1]))
        picked = data if whole else data[:, indices]
        self._check_finite(picked, names)
        return picked

    def _widened(self, names: Sequence[str]) -> Any:
        """Return the data with columns of zeros up to the largest number in `names`."""
        self.require([name for name in names if not is_column_number(name)])
        width = max([self.data.shape[1], *(int(name) for name in names)])
        parts = (self.data.data, self.data.indices, self.data.indptr)
        return sp.csr_array(parts, shape=(self.n_rows, width))

    def _check_finite(self, picked: Any, names: Sequence[str]) -> None:
        """Refuse NaN and infinite entries, naming the first one's column."""
        bad = np.flatnonzero(~np.isfinite(picked.data))
        if bad.size:
            column = picked.indices[bad[0]]
            row = int(np.searchsorted(picked.indptr, bad[0], side="right")) - 1
            count = int(np.count_nonzero(picked.indices[bad] == column))
            raise _not_finite(self.party, names[column], picked.data[bad[0]], row, count)


def is_column_number(name: str) -> bool:
    """Tell whether a LIBSVM file could have a column of this name."""
    return re.fullmatch("[1-9][0-9]{0,6}", name) is not None and int(name) <= MOST_COLUMNS


def _is_numeric(kind: Any) -> bool:
    """Tell whether an Arrow type reads as float64; an all-blank column does, and is refused as blank."""
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)
    return pa.types.is_null(kind) or any(test(kind) for test in tests)


def _first_non_number(column: Any) -> tuple[int, str]:
    """Return the row and the text of the first value that is no number, else of the first value."""
    first: tuple[int, str] | None = None
    for row, scalar in enumerate(column):
        try:
            value = scalar.as_py()
        except (ValueError, OverflowError):  # a date that Python cannot hold
            return row, f"a value of type {column.type}"
        if value is None or value == "":
            continue
        first = first or (row, show(value))
        if not _is_number(value):
            return row, show(value)
    return first or (0, "a blank")


def _is_number(value: object) -> bool:
    """Tell whether text reads as a number, which a column stored as text may hold."""
    try:
        float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return True


def _not_finite(party: str, name: str, value: float, row: int, count: int) -> InputError:
    """Build the refusal of blanks, NaN and infinite values."""
    found = "blank or NaN" if np.isnan(value) else "infinite"
    return InputError(
        f"party {show(party)}: column {show(name)} has {plural(int(count), 'blank or non-finite value')}, "
        f"the first in row {row + 1} ({found}): fill them in, or remove these rows"
    )


# --- One column of a table as numbers or as texts, with its blanks


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
    """Dates as days, also where they are texts such as 2026-01-31; texts as what they say."""
    if kind == CATEGORY and days:
        dated = _dated(column)
        column, kind = dated, kind if dated is column else DATE
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


def _dated(column: Any) -> Any:
    """Texts such as 2026-01-31 as dates, as a frame that pandas read from a file holds them; others as they are."""
    try:
        return column.cast(pa.string()).cast(pa.date32())
    except pa.ArrowException:
        return column


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


# --- Columns of text that are probably none: numbers with a slip


MONEY = r"(?:[$€£¥₹]|EUR|USD|GBP|CHF|JPY|CNY|INR|SEK|NOK|DKK|PLN|CZK|Fr\.?|kr\.?|zł)"
MARK = r"[,.'’_ \u00a0\u202f]"  # between groups of digits
DIGITS = rf"(?:\d{{1,3}}(?:{MARK}\d{{2,3}})+|\d+)?(?:[.,]\d*)?"
LOCAL_NUMBER = re.compile(rf"\(?[-+−]?\s?{MONEY}?\s?[-+−]?{DIGITS}\s?(?:[%‰]|{MONEY})?[-−]?\)?")
LOCAL_DATE = re.compile(r"(?:\d{1,2}[./-]\d{1,2}[./-](?:\d{4}|\d{2})|\d{4}[./-]\d{1,2}[./-]\d{1,2})(?:[ T]\d{1,2}:.*)?")


def reads_as_amount(text: str) -> bool:
    """Whether a text is a number, or a number or date as people write them: 1,234 or 3.06% or (1'200.-) or 7.8.2023."""
    if reads_as_number(text) or LOCAL_DATE.fullmatch(text):
        return True
    return any(sign.isdecimal() for sign in text) and LOCAL_NUMBER.fullmatch(text) is not None


def refuse_guesses(party: str, spec: ColumnSpec, counts: Mapping[str, float], rules: EncodeRules) -> None:
    """Refuse a column of text that would be taken for categories although the job does not say so.

    Parameters
    ----------
    party : str
    spec : ColumnSpec
        What the job says about the column; a kind is believed.
    counts : mapping of str to float
        Rows by text, blanks left out, of rows that nobody protects.
    rules : EncodeRules

    Raises
    ------
    InputError
        Where most texts are numbers, where not one of several texts is in enough rows to be kept, or where most of what
        would be lost are numbers or dates.
    """
    if spec.kind is None:
        refuse_numbers_as_text(party, spec.name, counts, rules)
        _refuse_lost_texts(party, spec.name, counts, rules)
        _refuse_lost_amounts(party, spec.name, counts, rules)


def refuse_numbers_as_text(party: str, name: str, counts: Mapping[str, float], rules: EncodeRules) -> None:
    """Refuse to guess where a column of text is mostly numbers: one wrong cell makes a file's numbers text."""
    wrong = [value for value in sorted(counts) if not reads_as_number(value)]
    if 2 * sum(counts[value] for value in wrong) > sum(counts.values()):
        return
    # Codes such as 1, 2 and U are categories, each in many rows; what stands in few looks like a slip.
    if len(counts) <= rules.most and not any(counts[value] < rules.rare for value in wrong):
        return
    held = f" and {show(wrong[0])}" if wrong else ""
    raise InputError(f"party {show(party)}: column {show(name)} holds numbers{held} as text: {rules.advice.kinds}")


def _refuse_lost_texts(party: str, name: str, counts: Mapping[str, float], rules: EncodeRules) -> None:
    """Refuse a column of which nothing would be left, as all its texts are rare and become the same."""
    rows = round(sum(counts.values()))
    # Of a single text nothing is lost: it is the others. In fewer rows than `rare` nothing could be kept.
    if len(counts) < 2 or rows < rules.rare or max(counts.values()) >= rules.rare:
        return
    raise InputError(
        f"party {show(party)}: column {show(name)} holds {len(counts)} different texts such as {show(min(counts))}, "
        f"none of them in rare = {rules.rare} of the {rows} rows, so that nothing of it would be used: "
        f"{rules.advice.lost}"
    )


def _refuse_lost_amounts(party: str, name: str, counts: Mapping[str, float], rules: EncodeRules) -> None:
    """Refuse a column such as 0, 0, "1,234", 0, "3.06%": the zeros would be a category, all amounts its others."""
    often = sorted((value for value in counts if counts[value] >= rules.rare), key=lambda value: -counts[value])
    lost = set(counts) - set(often[: rules.most])
    amounts = sorted(value for value in lost if reads_as_amount(value))
    rows, all_lost = (round(sum(counts[value] for value in values)) for values in (amounts, lost))
    if len(amounts) < 2 or rows < rules.rare or 2 * rows <= all_lost:
        return
    # of several texts, one that is written in another way says more than a plain number
    held = next((value for value in amounts if not reads_as_number(value)), amounts[0])
    words = next((value for value in counts if not reads_as_amount(value)), often[0] if often else amounts[-1])
    raise InputError(
        f"party {show(party)}: column {show(name)} holds numbers or dates as text, such as {show(held)} beside "
        f"{show(words)}: as categories {rows} rows with {len(amounts)} different ones would all count as other; "
        f"{rules.advice.amounts}"
    )
