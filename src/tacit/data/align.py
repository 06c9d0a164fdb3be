"""Match the rows of several tables by id, inside one machine.

Nothing here is private: whoever runs it sees all ids. It serves jobs whose files lie on one machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tacit.columns.table import Table
from tacit.errors import InputError
from tacit.text import listing, plural, show

Rows = npt.NDArray[np.int64]
_EXAMPLES = 3


@dataclass(frozen=True)
class Counts:
    """How many rows the parties have in common.

    Attributes
    ----------
    kept : int
        Rows that every party holds.
    dropped : mapping of str to int
        For each party, its rows that some other party lacks.
    """

    kept: int
    dropped: Mapping[str, int]


@dataclass(frozen=True)
class RowMatching:
    """How the rows of a job were matched: by id or by position, with the rows kept and dropped."""

    by_id: bool
    counts: Counts

    def record(self) -> dict[str, Any]:
        """How, and how many rows of each party were dropped, for evaluation.json."""
        return {"by": "id" if self.by_id else "position", "dropped": dict(self.counts.dropped)}


@dataclass(frozen=True, eq=False)
class MatchedRows:
    """Which row of each table belongs to which common id.

    Attributes
    ----------
    rows : list of arrays
        For each table, the indices (from 0) of its rows, in the order of the ids.
    ids : array or None
        The common ids, sorted; None when the tables were matched by position.
    counts : Counts
        Rows kept and dropped.
    """

    rows: list[Rows]
    ids: npt.NDArray[Any] | None
    counts: Counts


def align(tables: Sequence[Table], ids: Sequence[str | None]) -> MatchedRows:
    """Keep the rows whose id every table holds, in the sorted order of the ids.

    Parameters
    ----------
    tables : sequence of Table
        One per party.
    ids : sequence of str or None
        For each table, the name of its id column; all None matches the rows by position.

    Returns
    -------
    MatchedRows
        Row indices, ids and counts. The order of the rows in the files never matters.

    Raises
    ------
    InputError
        For blank or repeated ids, no id in common, an id column in some tables only, or (without
        ids) tables of different length.

    Notes
    -----
    Ids are whole numbers or text. When all columns hold whole numbers they are compared as numbers
    and sorted as such. When one side is text, all are compared, and sorted, by their text form: the
    number 7 is the text "7", and is not "07" or "7.0". Blanks around the ids of text columns are
    ignored.
    """
    if len(tables) != len(ids) or not tables:
        raise InputError(f"{plural(len(tables), 'table')} and {plural(len(ids), 'id column')}: give one each")
    named = [name for name in ids if name is not None]
    if not named:
        return _by_position(tables)
    if len(named) < len(ids):
        with_id = [table.party for table, name in zip(tables, ids, strict=True) if name is not None]
        without = [table.party for table, name in zip(tables, ids, strict=True) if name is None]
        raise InputError(
            f"an id column is given for {_parties(with_id)} but not for {_parties(without)}: "
            "give one for every party, or for none to match rows by position"
        )
    return _by_id(tables, named)


def text_ids(table: Table, name: str) -> Any:
    """Return an id column as text, in the order of the file: ids that `align` takes for one are the same text.

    Parameters
    ----------
    table : Table
        A party's table.
    name : str
        Its id column.

    Returns
    -------
    pyarrow.Array
        Text without blanks around it, no two rows alike.

    Raises
    ------
    InputError
        For blank or repeated ids, and for columns that are neither whole numbers nor text.
    """
    return id_column(table, name).cast(pa.large_string())


def in_order(ids: Any, rows: Rows) -> Rows:
    """These rows in the order that `align` has: by whole numbers where the ids of all of them are some, else by text.

    Parameters
    ----------
    ids : pyarrow.Array
        What `text_ids` returns.
    rows : array
        Some of its places.

    Returns
    -------
    array
        The same for whoever holds the same ids, whatever the order of `rows` was.
    """
    chosen = _plain(ids.take(pa.array(rows)))
    ordered: Rows = np.asarray(rows)[pc.sort_indices(chosen).to_numpy()]
    return ordered


def _parties(names: Sequence[str]) -> str:
    """Return 'party "a"' or 'parties "a", "b"'."""
    return ("party " if len(names) == 1 else "parties ") + listing(names)


def _by_position(tables: Sequence[Table]) -> MatchedRows:
    """Match row i with row i: the tables must be of one length."""
    lengths = {table.n_rows for table in tables}
    if len(lengths) > 1:
        held = ", ".join(f"{show(table.party)} has {plural(table.n_rows, 'row')}" for table in tables)
        raise InputError(
            f"without ids every party needs the same rows in the same order, but party {held}: "
            "name an id column for each party"
        )
    n_rows = tables[0].n_rows
    counts = Counts(n_rows, {table.party: 0 for table in tables})
    return MatchedRows([np.arange(n_rows) for _ in tables], None, counts)


def _by_id(tables: Sequence[Table], names: Sequence[str]) -> MatchedRows:
    """Join on the ids."""
    columns = [id_column(table, name) for table, name in zip(tables, names, strict=True)]
    if any(pa.types.is_large_string(column.type) for column in columns):
        columns = [column.cast(pa.large_string()) for column in columns]
    common = columns[0]
    for column in columns[1:]:
        common = common.filter(pc.is_in(common, value_set=column))
    if len(common) == 0:
        raise _nothing_in_common(tables, columns)
    common = common.take(pc.sort_indices(common))
    rows = [pc.index_in(common, value_set=column).to_numpy().astype(np.int64) for column in columns]
    counts = Counts(len(common), {table.party: table.n_rows - len(common) for table in tables})
    return MatchedRows(rows, common.to_numpy(zero_copy_only=False), counts)


def id_column(table: Table, name: str) -> Any:
    """Return an id column, int64 where it holds plain whole numbers, else text; blanks and repeats are refused."""
    column = _plain_ids(table, name)
    _refuse_repeated(table, name, column)
    return column


def _plain_ids(table: Table, name: str) -> Any:
    """Return an id column without blanks."""
    column = table.arrow(name)
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if _is_text(column.type):
        column = pc.utf8_trim_whitespace(column.cast(pa.large_string()))
        blank = pc.fill_null(pc.equal(column, ""), True)
    else:
        blank = pc.is_null(column, nan_is_null=True)
    _refuse_blank(table, name, blank.to_numpy(zero_copy_only=False))
    try:
        return _plain(column)
    except pa.ArrowException as error:
        raise InputError(
            f"party {show(table.party)}: id column {show(name)} holds values of type {column.type}: "
            "ids must be whole numbers or text"
        ) from error


def _is_text(kind: Any) -> bool:
    """Tell whether an Arrow type is text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _plain(column: Any) -> Any:
    """Return ids as int64 or text; raise ArrowException for what is neither (fractions, nested values)."""
    if pa.types.is_floating(column.type):
        return _whole_floats(column)
    if not (_is_text(column.type) or pa.types.is_integer(column.type)):
        return column.cast(pa.large_string())
    try:
        numbers = column.cast(pa.int64())
    except pa.ArrowInvalid:  # letters, or numbers of more than 18 digits
        return column.cast(pa.large_string())
    # "007" reads as 7 but does not print so: such a column stays text, lest two ids become one.
    same = not _is_text(column.type) or numbers.cast(pa.large_string()).equals(column)
    return numbers if same else column


def _whole_floats(column: Any) -> Any:
    """Return floats as int64; raise ArrowInvalid for fractions and where floats skip whole numbers."""
    numbers = column.cast(pa.int64())
    if pc.any(pc.greater_equal(pc.abs(column), 2.0**53)).as_py():
        raise pa.ArrowInvalid("too large for a float to tell one id from the next")
    return numbers


def _refuse_blank(table: Table, name: str, blank: npt.NDArray[np.bool_]) -> None:
    """Refuse rows without an id."""
    rows = np.flatnonzero(blank)
    if rows.size:
        raise InputError(
            f"party {show(table.party)}: id column {show(name)} has {plural(rows.size, 'blank id')}, "
            f"in row {listing((rows + 1).tolist(), _EXAMPLES)}: fill them in, or remove these rows"
        )


def _refuse_repeated(table: Table, name: str, column: Any) -> None:
    """Refuse ids that stand in more than one row: which row is meant would be a guess."""
    counts = pc.value_counts(column)
    repeated = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    if len(repeated):
        raise InputError(
            f"party {show(table.party)}: id column {show(name)} has {plural(len(repeated), 'repeated id')}: "
            f"{listing(repeated.to_pylist(), _EXAMPLES)}: keep one row for each id"
        )


def _nothing_in_common(tables: Sequence[Table], columns: Sequence[Any]) -> InputError:
    """Build the refusal of tables about different people, with one id of each to compare."""
    examples = ", ".join(
        f"{show(table.party)} has {show(column[0].as_py())}" for table, column in zip(tables, columns, strict=True)
    )
    return InputError(
        f"no id is held by every party (for example {examples}): write ids in the same way at every party, leading "
        "zeros and all"
    )
