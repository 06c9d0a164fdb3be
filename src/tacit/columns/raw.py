"""A party's columns as trees take them: numbers with NaN for blanks, categories as codes; nothing is scaled.

| class | of |
|---|---|
| RawTable | one party's rows: what `Shard.features` is where trees are trained |
| OwnColumns | the same rows in two forms, of which one is chosen by how well it does |
| RawEncoder | how a table of text, dates, numbers and blanks becomes one: the categories that training saw |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tacit.columns.spec import CATEGORY, DATE, NUMBER, ColumnSpec, EncodeRules
from tacit.columns.table import (
    BLANK,
    ArrowTable,
    Rows,
    Table,
    check_usable,
    kind_of_type,
    number_cells,
    refuse_numbers_as_text,
    text_cells,
)
from tacit.errors import InputError
from tacit.text import plural, show
from tacit.types import Curves, Vector

KINDS = (NUMBER, DATE, CATEGORY)
MOST_CATEGORIES = 1_000_000  # of one column, in a record from outside


@dataclass(frozen=True, eq=False)
class RawTable:
    """One party's columns, as they are.

    Attributes
    ----------
    party : str
        The party's name, used in every message about the table.
    columns : tuple of str
    values : array of shape (rows, columns)
        float64 or float32; NaN is a blank, and in a column of categories a cell is the number of its category.
    categorical : tuple of int
        The places of columns that hold categories.
    monotone : tuple of int
        For each column 1 where the score must not fall with it, -1 where it must not rise, 0 where it may do both;
        empty where that is so of all columns.
    """

    party: str
    columns: tuple[str, ...]
    values: npt.NDArray[Any]
    categorical: tuple[int, ...] = ()
    monotone: tuple[int, ...] = ()
    centre: ClassVar[None] = None  # trees have no use for centred columns

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.n, self.d

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.values.shape[0])

    @property
    def d(self) -> int:
        """Number of columns."""
        return int(self.values.shape[1])

    @property
    def nbytes(self) -> int:
        """Size in memory."""
        return int(self.values.nbytes)

    def take(self, rows: npt.NDArray[Any]) -> RawTable:
        """Some of its rows."""
        return RawTable(self.party, self.columns, self.values[rows], self.categorical, self.monotone)

    def __getitem__(self, rows: Any) -> RawTable:
        """Some of its rows, as an array has them."""
        return self.take(rows)

    @property
    def arrays(self) -> list[npt.NDArray[Any]]:
        """All that trees can see of it."""
        return [self.values, np.array(self.categorical, np.int64), np.array(self.monotone, np.int64)]

    @classmethod
    def beside(cls, party: str, tables: Sequence[RawTable]) -> RawTable:
        """Columns of several parties in one table, under the names that say whose they are."""
        starts = np.cumsum([0, *(table.d for table in tables)]).tolist()
        categorical = [start + at for start, table in zip(starts, tables, strict=False) for at in table.categorical]
        bound = any(table.monotone for table in tables)
        monotone = [sign for table in tables for sign in table.monotone or (0,) * table.d] if bound else []
        names = tuple(f"{table.party}.{name}" for table in tables for name in table.columns)
        values = np.hstack([table.values for table in tables])
        return cls(party, names, values, tuple(categorical), tuple(monotone))


@dataclass(frozen=True, eq=False)
class OwnColumns:
    """A label holder's columns twice: encoded, and as trees take them; its fit takes the form that does better."""

    coded: Any
    raw: RawTable
    curves: Curves = ()  # among the encoded columns, see `Shard`

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and encoded columns."""
        rows, columns = self.coded.shape
        return int(rows), int(columns)


@dataclass(frozen=True)
class RawColumn:
    """How one column is read: a number, a date as days, or one of the categories that training saw."""

    name: str
    kind: str = NUMBER
    categories: tuple[str, ...] = ()

    def cells(self, table: ArrowTable) -> Vector:
        """The cells as numbers; blank where they are blank, or a category that training did not see."""
        if self.kind != CATEGORY:
            return number_cells(table, self.name, days=self.kind == DATE, trained=True)
        texts = text_cells(table, self.name)
        number = {text: code for code, text in enumerate(self.categories)}
        codes = [number.get(text, np.nan) for text in texts.values]
        return np.array([*codes, np.nan], dtype=np.float64)[texts.codes]

    def remark(self, table: ArrowTable, rows: Rows) -> str:
        """What is to be said of categories that training did not see; empty where there are none."""
        if self.kind != CATEGORY:
            return ""
        texts, known = text_cells(table, self.name), set(self.categories)
        new = np.append([text not in known for text in texts.values], False).astype(np.bool_)[texts.codes[rows]]
        if not new.any():
            return ""
        held = show(texts.values[texts.codes[rows][np.flatnonzero(new)[0]]])
        count = "1 row holds" if new.sum() == 1 else f"{new.sum()} rows hold"
        of = plural(len(self.categories), "category")
        return (
            f"{table.party}: column {show(self.name)}: {count} none of the model's {of} (such as {held}): taken as "
            "blank"
        )


@dataclass(frozen=True)
class RawEncoder:
    """How a party's table becomes a `RawTable`."""

    columns: tuple[RawColumn, ...]

    @property
    def widths(self) -> tuple[int, ...]:
        """None: columns are not encoded."""
        return ()

    @property
    def curves(self) -> Curves:
        """None: trees take cells as they are."""
        return ()

    @classmethod
    def learn(cls, table: ArrowTable, categorical: Collection[str] | None = None) -> RawEncoder:
        """The kinds of these columns, with the categories that occur.

        Parameters
        ----------
        table : ArrowTable
        categorical : collection of str, optional
            The columns that hold categories; where it is left out, those of text and of categories do.
        """
        return cls(tuple(_learned(table, name, categorical) for name in table.columns))

    @classmethod
    def stated(
        cls, table: Table, names: Sequence[str], specs: Sequence[ColumnSpec], rows: Rows | None = None
    ) -> RawEncoder:
        """The kinds that a job states, or that a file has, with the categories that occur in some rows.

        Parameters
        ----------
        table : Table
        names : sequence of str
            The columns that are used.
        specs : sequence of ColumnSpec
            What the job says of some of them, by their own names.
        rows : array, optional
            The rows that categories are taken from; all of them by default.

        Raises
        ------
        InputError
            For a column that cannot be used, and for a file without named columns.
        """
        if not isinstance(table, ArrowTable):
            raise InputError(f"party {show(table.party)}: trees need named columns: give a CSV or Parquet file")
        given = {spec.name: spec for spec in specs}
        for name in given:
            if name not in names:
                raise InputError(f"party {show(table.party)}: columns names {show(name)}, which is not a feature of it")
        return cls(tuple(_stated(table, given.get(name, ColumnSpec(name)), rows) for name in names))

    @property
    def sources(self) -> tuple[str, ...]:
        """Columns that a file must have."""
        return tuple(column.name for column in self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """Columns of the model: the same."""
        return self.sources

    @property
    def text_columns(self) -> tuple[str, ...]:
        """Columns that are to be read as text."""
        return tuple(column.name for column in self.columns if column.kind == CATEGORY)

    def matrix(self, table: Table, rows: Rows | None = None) -> RawTable:
        """Some rows of a file, in order."""
        table.require(self.sources)
        if not isinstance(table, ArrowTable):
            raise InputError(f"party {show(table.party)}: its file is LIBSVM, the model was trained on named columns")
        whole = self.table(table)
        return whole if rows is None else whole.take(rows)

    def predicting(self, table: Table, rows: Rows) -> tuple[RawTable, list[str]]:
        """Some rows of a file with new rows, and remarks on categories that training did not see."""
        found = self.matrix(table, rows)
        assert isinstance(table, ArrowTable)
        return found, [remark for column in self.columns if (remark := column.remark(table, rows))]

    def table(self, table: ArrowTable, monotone: Sequence[int] = ()) -> RawTable:
        """These rows, as trees take them."""
        values = np.empty((table.n_rows, len(self.columns)))
        for place, column in enumerate(self.columns):
            values[:, place] = column.cells(table)
        names = tuple(column.name for column in self.columns)
        return RawTable(table.party, names, values, self.categorical, tuple(monotone))

    @property
    def categorical(self) -> tuple[int, ...]:
        """The places of columns that hold categories."""
        return tuple(place for place, column in enumerate(self.columns) if column.kind == CATEGORY)

    def record(self) -> list[dict[str, Any]]:
        """The encoder as plain values."""
        return [
            {"name": c.name, "kind": c.kind} | ({"categories": list(c.categories)} if c.kind == CATEGORY else {})
            for c in self.columns
        ]

    @classmethod
    def from_record(cls, record: Any) -> RawEncoder:
        """The encoder that was written down.

        Raises
        ------
        InputError
            Where it is damaged.
        """
        if not isinstance(record, list) or not record:
            raise InputError("the columns of a part of a model are damaged: they are no list")
        return cls(tuple(_read_column(item) for item in record))


def _learned(table: ArrowTable, name: str, categorical: Collection[str] | None) -> RawColumn:
    column = table.data.column(name)
    kind = kind_of_type(table.arrow(name).type)
    is_text = kind == CATEGORY or str(column.type).startswith("dictionary")
    if is_text if categorical is None else name in categorical:
        return RawColumn(name, CATEGORY, tuple(sorted(text_cells(table, name).values)))
    if kind == CATEGORY:
        raise InputError(
            f"party {show(table.party)}: column {show(name)} holds text, but is not among categorical_features: "
            "name it there, or leave it out"
        )
    if not kind:
        raise InputError(
            f"party {show(table.party)}: column {show(name)} holds values of type {column.type}, which trees cannot "
            "use: leave it out, or make numbers of it"
        )
    return RawColumn(name, NUMBER if kind == BLANK else kind)


def _stated(table: ArrowTable, spec: ColumnSpec, rows: Rows | None) -> RawColumn:
    """One column of a job: its kind, and the categories that the job lists or that these rows have."""
    coded = str(table.data.column(spec.name).type).startswith("dictionary")
    found = CATEGORY if coded else kind_of_type(table.arrow(spec.name).type)
    kind = spec.given_kind or (NUMBER if found == BLANK else found)
    check_usable(table, spec.name, kind or None)
    if kind != CATEGORY:
        if found not in (NUMBER, BLANK):
            number_cells(table, spec.name, days=kind == DATE)  # says which cell is none, in words of training
        return RawColumn(spec.name, kind)
    if spec.values is not None:
        return RawColumn(spec.name, CATEGORY, tuple(sorted(spec.values)))
    texts = text_cells(table, spec.name)
    codes = texts.codes if rows is None else texts.codes[rows]
    counts = Counter(
        {texts.values[code]: int(n) for code, n in zip(*np.unique(codes, return_counts=True), strict=True) if code >= 0}
    )
    if spec.kind is None and not coded:
        refuse_numbers_as_text(table.party, spec.name, counts, EncodeRules())
    return RawColumn(spec.name, CATEGORY, tuple(sorted(counts)))


def _read_column(item: Any) -> RawColumn:
    """One column from a record, every entry checked."""
    known = isinstance(item, Mapping) and isinstance(item.get("name"), str) and item.get("kind") in KINDS
    if not known:
        raise InputError("the columns of a part of a model are damaged: each needs a name and a kind")
    categories = item.get("categories", [])
    whole = isinstance(categories, list) and len(categories) <= MOST_CATEGORIES
    if not whole or not all(isinstance(text, str) for text in categories) or len(set(categories)) < len(categories):
        raise InputError(
            f"the categories of column {show(item['name'])} are damaged: they are no list of different texts"
        )
    return RawColumn(item["name"], item["kind"], tuple(categories))
