"""Tables as read from a file: columns of text and numbers (Arrow), or sparse rows (LIBSVM).

Rows in messages count from 1, the first row of data (below the header where there is one).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.sparse as sp

from tacit.errors import InputError
from tacit.text import listing, nearest, plural, show
from tacit.types import Matrix, Vector

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
