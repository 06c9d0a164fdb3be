"""All columns of a party: their constants, and the matrix that they make of a table."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import chain

import numpy as np
import scipy.sparse as sp

from tacit.data.encode.cells import Rows, Texts, number_cells, text_cells
from tacit.data.encode.columns import BucketColumn, CategoryColumn, Column, NumberColumn
from tacit.data.table import ArrowTable, Table
from tacit.data.wording import listing, plural, show
from tacit.errors import InputError
from tacit.types import Matrix, Vector

SPARSE_FROM, SPARSE_BELOW = 64, 0.25  # columns, and share of them that is not 0 in a row, for a sparse matrix


@dataclass(frozen=True)
class Encoder:
    """How one party's columns become numbers.

    Attributes
    ----------
    columns : tuple of NumberColumn, CategoryColumn or BucketColumn
        The party's columns, in order; a cell depends on nothing but its own row and these constants.
    unused : tuple of str
        Columns that the file had and the model does not use.
    """

    columns: tuple[Column, ...]
    unused: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        twice = [name for name, count in Counter(self.names).items() if count > 1]
        if twice:
            raise InputError(f"two columns would both be encoded as {show(twice[0])}: rename one")

    @property
    def sources(self) -> tuple[str, ...]:
        """The party's own columns."""
        return tuple(column.name for column in self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The encoded columns."""
        return tuple(chain.from_iterable(column.names for column in self.columns))

    @property
    def text_columns(self) -> tuple[str, ...]:
        """Columns to read as text, so that categories keep their leading zeros."""
        return tuple(column.name for column in self.columns if not isinstance(column, NumberColumn))

    def matrix(self, table: Table, rows: Rows | None = None) -> Matrix:
        """The encoded rows of a table, all of them by default; sparse where most of it is 0."""
        return self._encode(table, rows, None)

    def predicting(self, table: Table, rows: Rows | None = None) -> tuple[Matrix, tuple[str, ...]]:
        """Encoded new rows, and what is to be said about them: one line each."""
        said: list[str] = []
        extra = table.default_features({*self.sources, *self.unused})
        if extra:
            what = "columns" if len(extra) > 1 else "column"
            said.append(f"{table.party}: {what} {listing(extra, 5)} not used by the model, so not looked at")
        return self._encode(table, rows, said), tuple(said)

    def _encode(self, table: Table, rows: Rows | None, said: list[str] | None) -> Matrix:
        """Build the matrix; `said` collects remarks on new rows, None in training."""
        table.require(self.sources)
        if not isinstance(table, ArrowTable):
            raise InputError(f"party {show(table.party)}: its file is LIBSVM, the model was trained on named columns")
        pick: Rows = np.arange(table.n_rows) if rows is None else rows
        parts: list[tuple[Rows, Rows, Vector]] = []
        start = 0
        for column in self.columns:
            parts += [(at, start + place, value) for at, place, value in _entries(column, table, pick, said)]
            start += len(column.names)
        return _assembled(parts, (len(pick), start), self._share(start))

    def _share(self, width: int) -> float:
        """About how much of a row is not 0."""
        return len(self.columns) / width if width >= SPARSE_FROM else 1.0


def _entries(column: Column, table: ArrowTable, rows: Rows, said: list[str] | None) -> list[tuple[Rows, Rows, Vector]]:
    """Row, place and value of what is not 0 in the columns that one column becomes."""
    every = np.arange(len(rows))
    if isinstance(column, NumberColumn):
        cells = number_cells(table, column.name, days=column.days, trained=said is not None)[rows]
        blank = np.flatnonzero(np.isnan(cells))
        _say_blanks(column, table.party, blank.size, f"filled with {column.fill:.6g}", said)
        found = [(every, np.zeros(len(rows), dtype=np.int64), column.encode(cells))]
        return [*found, (blank, np.ones(blank.size, dtype=np.int64), np.ones(blank.size))] if column.missing else found
    texts = text_cells(table, column.name)
    texts = Texts(texts.values, texts.codes[rows])
    places = column.places(texts)
    _say_texts(column, table.party, texts, said)
    at = np.flatnonzero(places >= 0)
    return [(at, places[at], np.ones(at.size))]


def _say_texts(column: CategoryColumn | BucketColumn, party: str, texts: Texts, said: list[str] | None) -> None:
    """Remark on blanks without a column, and on categories that the model does not have."""
    if said is None:
        return
    blanks = int(np.count_nonzero(texts.codes < 0))
    _say_blanks(column, party, blanks, f'counted as "{_blank_name(column)}"', said)
    if isinstance(column, CategoryColumn):
        new = np.flatnonzero(column.unknown(texts))
        if new.size:
            held = show(texts.values[texts.codes[new[0]]])
            rows = "1 row holds" if new.size == 1 else f"{new.size} rows hold"
            known = plural(len(column.values), "category")
            said.append(
                f"{party}: column {show(column.name)}: {rows} none of the model's {known} (such as {held}): "
                "counted as other"
            )


def _blank_name(column: Column) -> str:
    return "other" if isinstance(column, CategoryColumn) else "no bucket"


def _say_blanks(column: Column, party: str, count: int, what: str, said: list[str] | None) -> None:
    if said is not None and count and not column.missing:
        said.append(
            f"{party}: column {show(column.name)} has {plural(count, 'blank')}, "
            f"for which the model has no column: {what}"
        )


def _assembled(parts: list[tuple[Rows, Rows, Vector]], shape: tuple[int, int], share: float) -> Matrix:
    """The matrix of these entries."""
    if share < SPARSE_BELOW:
        at, place, value = (np.concatenate(list(part)) for part in zip(*parts, strict=True))
        matrix = sp.csr_array((value, (at, place)), shape=shape)
        matrix.eliminate_zeros()
        return matrix
    dense = np.zeros(shape)
    for at, place, value in parts:
        dense[at, place] = value
    return dense
