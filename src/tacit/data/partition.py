"""Tables of several parties, columns of one matrix split between parties, and observed time split into intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tacit.errors import InputError
from tacit.text import listing, show
from tacit.types import Matrix

Columns = npt.NDArray[np.int64]


def split_columns(n_columns: int, parties: int | Sequence[int] | Sequence[Sequence[int]]) -> list[Columns]:
    """Say which columns each party holds.

    Parameters
    ----------
    n_columns : int
        Number of columns to share out.
    parties : int, list of int, or list of lists of int
        A number of parties (contiguous blocks of nearly equal size), the size of each party's block
        (they sum to `n_columns`), or each party's columns (every column once, in any order).

    Returns
    -------
    list of arrays
        For each party, the indices of its columns, in the order given.

    Raises
    ------
    InputError
        When a party would hold no column, or a column no party or two.
    """
    if _is_whole(parties):
        return _equal_blocks(n_columns, int(parties))  # type: ignore[arg-type]
    if isinstance(parties, str) or not hasattr(parties, "__len__"):
        raise _wrong_form(parties)
    given: list[Any] = list(parties)  # type: ignore[arg-type]
    if not given:
        raise InputError("parties=[] names no party: give a number, sizes, or lists of columns")
    if all(_is_whole(item) for item in given):
        return _sized_blocks(n_columns, [int(item) for item in given])
    lists = [_column_list(item, number) for number, item in enumerate(given, start=1)]
    _check_cover(n_columns, lists)
    return [np.array(columns, dtype=np.int64) for columns in lists]


def take_columns(X: Matrix, columns: npt.ArrayLike) -> Matrix:
    """Return some columns of a matrix.

    Parameters
    ----------
    X : array or sparse matrix
        Dense or sparse, with `X.shape[1]` columns.
    columns : array of int
        Indices of columns.

    Returns
    -------
    Matrix
        A view (no copy) where X is dense and the columns are a contiguous rising range; else a copy,
        sparse where X is.
    """
    wanted = np.asarray(columns, dtype=np.int64)
    if not isinstance(X, np.ndarray) and X.format != "csr":
        X = X.tocsr()
    if wanted.size and np.array_equal(wanted, _range_from(wanted)):
        return X[:, wanted[0] : wanted[-1] + 1]
    return X[:, wanted]


def _range_from(columns: Columns) -> Columns:
    """Return the contiguous range that starts where `columns` does and is as long."""
    return np.arange(columns[0], columns[0] + columns.size)


def _is_whole(value: Any) -> bool:
    """Tell whether a value is a whole number; True and False are not."""
    return isinstance(value, Integral) and not isinstance(value, (bool, np.bool_))


def _equal_blocks(n_columns: int, parties: int) -> list[Columns]:
    """Cut into blocks of nearly equal size."""
    if parties < 1:
        raise InputError(f"parties={parties} is not allowed: it must be at least 1")
    if parties > n_columns:
        raise InputError(
            f"X has {n_columns} feature(s), too few for parties={parties}: "
            f"give parties={max(n_columns, 1)} or more columns"
        )
    return list(np.array_split(np.arange(n_columns, dtype=np.int64), parties))


def _sized_blocks(n_columns: int, sizes: Sequence[int]) -> list[Columns]:
    """Cut into blocks of the given sizes."""
    for number, size in enumerate(sizes, start=1):
        if size < 1:
            raise InputError(f"party {number} would hold {size} columns: each party needs at least 1")
    if sum(sizes) != n_columns:
        raise InputError(
            f"the sizes in parties={show(list(sizes))} sum to {sum(sizes)}: "
            f"make them sum to {n_columns}, as X has {n_columns} feature(s)"
        )
    return list(np.split(np.arange(n_columns, dtype=np.int64), np.cumsum(sizes)[:-1]))


def _column_list(item: Any, number: int) -> list[int]:
    """Check one party's list of columns."""
    if isinstance(item, str) or not hasattr(item, "__len__"):
        raise _wrong_form(item)
    columns = list(item)
    if not columns:
        raise InputError(f"party {number} has no columns: give it at least 1")
    for column in columns:
        if not _is_whole(column):
            raise InputError(f"party {number}: column {show(column)} is not allowed: columns are whole numbers, from 0")
    return [int(column) for column in columns]


def _wrong_form(value: Any) -> InputError:
    """Build the refusal of a value that is none of the three forms."""
    return InputError(
        f"parties={show(value)} is not allowed: give a number of parties, a list of sizes, "
        "or a list with each party's list of columns"
    )


def _check_cover(n_columns: int, lists: Sequence[Sequence[int]]) -> None:
    """Refuse columns that do not exist, that two parties hold, or that none does."""
    holder: dict[int, int] = {}
    for number, columns in enumerate(lists, start=1):
        for column in columns:
            if not 0 <= column < n_columns:
                raise InputError(f"party {number}: column {column} is not in X, whose columns are 0 to {n_columns - 1}")
            if column in holder:
                raise InputError(
                    f"column {column} is given to party {holder[column]} and to party {number}: "
                    "give it to one party, once"
                )
            holder[column] = number
    left = [column for column in range(n_columns) if column not in holder]
    if left:
        raise InputError(f"no party holds column {listing(left)} of X: give each to a party, or drop it from X")


# --- Follow-up time cut into intervals: rows of a piecewise-exponential survival model


@dataclass(frozen=True, eq=False)
class SurvivalRows:
    """One row for each sample and each interval that it entered.

    Attributes
    ----------
    row : array of int
        Which sample it is: take the columns of X by it.
    interval : array of int
        From 0: the interval between cut `interval` - 1 and cut `interval`. As a category among the columns it gives
        each interval a rate of its own.
    exposure : array
        How long the sample was observed in the interval.
    event : array
        1 where the event happened in the interval, 0 elsewhere.
    """

    row: npt.NDArray[np.int64]
    interval: npt.NDArray[np.int64]
    exposure: npt.NDArray[np.float64]
    event: npt.NDArray[np.float64]


def survival_rows(durations: Any, events: Any, cuts: Any) -> SurvivalRows:
    """Rows of a piecewise-exponential survival model, which is a Poisson model of events with exposure.

    Parameters
    ----------
    durations : array
        How long each sample was observed, above 0.
    events : array of bool, or 0 and 1
        Whether the event happened at the end of that time; where it did not, the sample was censored.
    cuts : sequence of float
        Where one interval ends and the next begins, above 0 and rising; a time on a cut belongs to the interval before.

    Returns
    -------
    SurvivalRows
        In the order of the samples, and of time within each.

    Raises
    ------
    InputError
        For times that are not above 0, events that are neither 0 nor 1, or cuts that do not rise.
    """
    times, happened, ends = (np.asarray(values, dtype=np.float64) for values in (durations, events, cuts))
    if times.ndim != 1 or times.shape != happened.shape:
        raise InputError(
            f"durations have shape {times.shape}, events {happened.shape}: give one of each for each sample"
        )
    bad = np.flatnonzero(~(np.isfinite(times) & (times > 0)))
    if bad.size:
        raise InputError(f"durations: {times[bad[0]]:g} in row {bad[0]} is not allowed: it must be a number above 0")
    if not np.isin(happened, (0.0, 1.0)).all():
        raise InputError("events must be 0 or 1, or False or True")
    if ends.ndim != 1 or not np.isfinite(ends).all() or np.any(np.diff(np.concatenate([[0.0], ends])) <= 0):
        raise InputError("cuts must be numbers above 0 that rise, such as [1, 3, 6]")
    last = np.searchsorted(ends, times, side="left")
    row = np.repeat(np.arange(times.size), last + 1)
    interval = np.arange(row.size) - np.repeat(np.cumsum(last + 1) - (last + 1), last + 1)
    starts, stops = np.concatenate([[0.0], ends]), np.concatenate([ends, [np.inf]])
    exposure = np.minimum(times[row], stops[interval]) - starts[interval]
    event = np.where(interval == last[row], happened[row], 0.0)
    return SurvivalRows(row, interval, exposure, event)


# --- Tables of several parties as one X for scikit-learn: whoever cuts its rows cuts those of every party


class PartyTables:
    """One table per party with the same rows, for `cross_val_score`, `GridSearchCV` and `train_test_split`.

    scikit-learn takes a list of two tables for two rows. This has as many rows as the tables have, and gives rows of
    all of them at once; the estimators for columns that are split take it as they take the list or mapping in it.

    Parameters
    ----------
    tables : mapping of party to table, or list of tables
        Arrays, sparse matrices or frames, row i of each about the same sample; the first party holds the labels.

    Attributes
    ----------
    tables : dict or list
    shape : (int, int)
        Rows, and columns of all parties.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.preprocessing import scale
    >>> from tacit import PartyTables, VerticalClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> tables = PartyTables({"clinic": scale(X[:, :10]), "laboratory": scale(X[:, 10:])})
    >>> bool(cross_val_score(VerticalClassifier(alpha=1e-3), tables, y).mean() > 0.96)
    True
    """

    def __init__(self, tables: Mapping[str, Any] | Sequence[Any]) -> None:
        held = tables.tables if isinstance(tables, PartyTables) else tables
        if not isinstance(held, Mapping | list | tuple) or not held:
            raise InputError("PartyTables needs a mapping of party to table, or a list of tables, one for each party")
        self.tables: Any = dict(held) if isinstance(held, Mapping) else list(held)
        for name, table in self._items():
            if len(getattr(table, "shape", ())) != 2:
                raise InputError(f"the table of {name} has no rows and columns: give an array or a frame")
        counts = {name: table.shape[0] for name, table in self._items()}
        if len(set(counts.values())) > 1:
            listed = ", ".join(f"{name} has {count}" for name, count in counts.items())
            raise InputError(f"the parties have different numbers of rows ({listed}): row i must be the same sample")

    def _items(self) -> list[tuple[str, Any]]:
        if isinstance(self.tables, dict):
            return list(self.tables.items())
        return [(f"party {number}", table) for number, table in enumerate(self.tables, start=1)]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows, and columns of all parties."""
        tables = [table for _, table in self._items()]
        return int(tables[0].shape[0]), sum(int(table.shape[1]) for table in tables)

    @property
    def ndim(self) -> int:
        """Two: rows and columns."""
        return 2

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> PartyTables:
        """Rows of every table: by their numbers, a mask or a slice; as X[rows] or X[rows, ...]."""
        rows = np.arange(len(self))[key[0] if isinstance(key, tuple) else key]
        if rows.ndim != 1:
            raise InputError(f"PartyTables gives rows: index it by numbers, a mask or a slice, not by {key!r}")
        if isinstance(self.tables, dict):
            return PartyTables({name: _rows_of(table, rows) for name, table in self.tables.items()})
        return PartyTables([_rows_of(table, rows) for table in self.tables])

    def __repr__(self) -> str:
        held = ", ".join(f"{name}: {table.shape[1]} columns" for name, table in self._items())
        return f"PartyTables({len(self)} rows, {held})"


def _rows_of(table: Any, rows: Any) -> Any:
    """Some rows of one table."""
    if hasattr(table, "iloc"):
        return table.iloc[rows]
    return table.take(rows) if isinstance(table, pa.Table) else table[rows]
