"""From the columns of a party to the matrix that it trains on: constants, encoders, and encoders as plain values."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from tacit.columns.compact import (
    Cells,
    CurveMatrix,
    category_cells,
    exact_cells,
    linear_cells,
    spline_cells,
    wave_cells,
)
from tacit.columns.curves import MOST_EXACT, MOST_KNOTS, MOST_STATED_PAIRS, FourierColumn, SplineColumn
from tacit.columns.spec import JOB, MISSING, OTHER, ROWS
from tacit.columns.table import ArrowTable, Rows, Table, Texts, number_cells, text_cells
from tacit.errors import InputError
from tacit.text import listing, plural, show
from tacit.types import Curves, Matrix, Vector

# --- The constants of one column, and what they make of its cells


@dataclass(frozen=True)
class NumberColumn:
    """A number: (x - centre) / divisor, x clipped to low .. high where these are given.

    Attributes
    ----------
    name : str
    centre, divisor : float
    fill : float
        What stands for a blank, before centre and divisor.
    low, high : float or None
    missing : bool
        Whether a second column says where blanks are.
    days : bool
        Whether the cells are dates, as days since 1970-01-01.
    source : {"rows", "job"}
        Where the constants come from.
    """

    name: str
    centre: float = 0.0
    divisor: float = 1.0
    fill: float = 0.0
    low: float | None = None
    high: float | None = None
    missing: bool = False
    days: bool = False
    source: str = JOB

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        return (self.name, f"{self.name} {MISSING}") if self.missing else (self.name,)

    def encode(self, cells: Vector) -> Vector:
        """Encoded numbers, blanks filled in."""
        values = np.where(np.isnan(cells), self.fill, cells)
        if self.low is not None and self.high is not None:
            values = np.clip(values, self.low, self.high)
        if self.centre == 0.0 and self.divisor == 1.0:
            return np.asarray(values)
        # Halves, as the difference of two large numbers may be no finite number.
        scaled = np.asarray((values / 2 - self.centre / 2) / self.divisor * 2)
        # The middle of a range that is hardly wider than the rounding of its ends may be one of these.
        return scaled if self.low is None else np.clip(scaled, -1.0, 1.0)

    def share(self, cells: Vector, coef: Vector) -> Vector:
        """What each cell adds to the score."""
        line = self.encode(cells) * coef[0]
        return np.asarray(line + np.isnan(cells) * coef[1] if self.missing else line)

    def grid(self) -> Vector:
        """Cells at which the line is drawn: its range, or where the encoded number is from -2 to 2."""
        if self.low is not None and self.high is not None:
            return np.array([self.low, self.high])
        return np.array([self.centre - 2 * self.divisor, self.centre + 2 * self.divisor])


@dataclass(frozen=True)
class CategoryColumn:
    """A category: one column for each, one for all others, and one for blanks where `missing`.

    A cell that says "other" counts as one of the others, and one that says "missing" as a blank.

    Attributes
    ----------
    name : str
    values : tuple of str
        The categories, sorted; neither "other" nor "missing" is among them.
    missing : bool
    source : {"rows", "job"}
    height : float
        What stands in the column of a row's category.
    """

    name: str
    values: tuple[str, ...]
    missing: bool = False
    source: str = JOB
    height: float = 1.0

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        own = [f"{self.name}={value}" for value in (*self.values, OTHER)]
        return tuple([*own, f"{self.name}={MISSING}"] if self.missing else own)

    def places(self, texts: Texts) -> Rows:
        """Which of the columns is 1, for each row."""
        known = {value: place for place, value in enumerate(self.values)}
        other = len(self.values)
        blank = other + 1 if self.missing else other
        known[MISSING] = blank
        return _placed(texts, [known.get(value, other) for value in texts.values], blank)

    def share(self, cells: Any, coef: Vector) -> Vector:
        """What each cell adds to the score."""
        return np.asarray(self.height * coef[self.places(_texts(cells))])

    def grid(self) -> npt.NDArray[Any]:
        """The categories, with the names of the others and of blanks."""
        return np.array([*self.values, OTHER, *([MISSING] if self.missing else [])], dtype=object)

    def unknown(self, texts: Texts) -> npt.NDArray[np.bool_]:
        """Rows whose category is none of those, nor blank."""
        known = {*self.values, OTHER, MISSING}
        new = np.array([value not in known for value in texts.values] + [False], dtype=np.bool_)
        return np.asarray(new[texts.codes])


@dataclass(frozen=True)
class BucketColumn:
    """A category by the bucket that its text is hashed into; blanks have a column of their own or none.

    The buckets are the same for everyone: the first 8 bytes of sha256 of "column=category", as a number, modulo their
    number. `height` is what stands in the column of a row's bucket.
    """

    name: str
    buckets: int
    missing: bool = False
    source: str = JOB
    height: float = 1.0

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        own = [f"{self.name}=bucket {number}" for number in range(self.buckets)]
        return tuple([*own, f"{self.name}={MISSING}"] if self.missing else own)

    def bucket(self, value: str) -> int:
        """The bucket of a category."""
        digest = hashlib.sha256(f"{self.name}={value}".encode()).digest()
        return int.from_bytes(digest[:8], "big") % self.buckets

    def places(self, texts: Texts) -> Rows:
        """Which of the columns is 1, for each row; -1 for none."""
        return _placed(texts, [self.bucket(value) for value in texts.values], self.buckets if self.missing else -1)

    def share(self, cells: Any, coef: Vector) -> Vector:
        """What each cell adds to the score; whole numbers are buckets."""
        numbers = np.asarray(cells)
        places = numbers if numbers.dtype.kind in "iu" else self.places(_texts(cells))
        return np.asarray(self.height * np.append(coef, 0.0)[places])

    def grid(self) -> Rows:
        """The numbers of the buckets, the last one that of blanks where these have a column."""
        return np.arange(len(self.names), dtype=np.int64)


TextColumn = CategoryColumn | BucketColumn
CurveColumn = FourierColumn | SplineColumn
Column = NumberColumn | CategoryColumn | BucketColumn | FourierColumn | SplineColumn


def _placed(texts: Texts, places: list[int], blank: int) -> Rows:
    """The place of each row's text; the last entry of the table is that of a blank, whose code is -1."""
    return np.asarray(np.array([*places, blank], dtype=np.int64)[texts.codes])


def _texts(cells: Any) -> Texts:
    """Some cells as texts, None or NaN for a blank."""
    blank = [cell is None or cell != cell for cell in cells]
    codes = np.where(blank, -1, np.arange(len(blank)))
    return Texts(tuple("" if none else str(cell) for cell, none in zip(cells, blank, strict=True)), codes)


# --- All columns of a party: their constants, and the matrix that they make of a table


SPARSE_FROM, SPARSE_BELOW = 64, 0.25  # columns, and share of them that is not 0 in a row, for a sparse matrix
COMPACT_FROM = 200_000  # raw cells, for rows of curves that are not written out
ROWS_AT_ONCE = 16_384  # rows whose curves are computed together


@dataclass(frozen=True)
class Encoder:
    """How one party's columns become numbers.

    Attributes
    ----------
    columns : tuple of NumberColumn, FourierColumn, SplineColumn, CategoryColumn or BucketColumn
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
    def widths(self) -> tuple[int, ...]:
        """Encoded columns of each column."""
        return tuple(len(column.names) for column in self.columns)

    @property
    def slices(self) -> tuple[slice, ...]:
        """Where the encoded columns of each column stand among all."""
        ends = np.cumsum([0, *(len(column.names) for column in self.columns)]).tolist()
        return tuple(slice(start, end) for start, end in pairwise(ends))

    @property
    def text_columns(self) -> tuple[str, ...]:
        """Columns to read as text, so that categories keep their leading zeros."""
        return tuple(column.name for column in self.columns if isinstance(column, TextColumn))

    @property
    def has_curves(self) -> bool:
        """Whether some number is encoded as a curve."""
        return any(isinstance(column, CurveColumn) for column in self.columns)

    @property
    def has_public_curves(self) -> bool:
        """Whether numbers are curves of public constants."""
        return any(isinstance(column, FourierColumn) for column in self.columns)

    @property
    def curves(self) -> Curves:
        """For each curve its first encoded column, the number of its columns, and its pairs of frequencies."""
        own = zip(self.columns, self.slices, strict=True)
        found = [
            (at.start + c.used_exact, 2 * c.used_pairs, c.used_pairs)
            if isinstance(c, FourierColumn)
            else (at.start, len(c.names) - c.missing, 0)
            for c, at in own
            if isinstance(c, CurveColumn)
        ]
        return tuple(curve for curve in found if curve[1] > 1)

    @property
    def has_bends(self) -> bool:
        """Whether a number may add anything but a line."""
        return any(
            isinstance(column, CurveColumn) and len(column.names) > 1 + column.missing for column in self.columns
        )

    @property
    def unbounded(self) -> tuple[str, ...]:
        """Columns that may add more than 1 to the squared norm of an encoded row (docs/proofs/curves.md)."""
        return tuple(column.name for column in self.columns if not _is_bounded(column))

    def matrix(self, table: Table, rows: Rows | None = None) -> Matrix:
        """The encoded rows of a table, all of them by default; sparse where most of it is 0."""
        return self._encode(table, rows, None)

    def predicting(self, table: Table, rows: Rows | None = None) -> tuple[Matrix, tuple[str, ...]]:
        """Encoded new rows, and what is to be said about them: one line each."""
        remarks: list[str] = []
        extra = table.default_features({*self.sources, *self.unused})
        if extra:
            what = "columns" if len(extra) > 1 else "column"
            remarks.append(f"{table.party}: {what} {listing(extra, 5)} not used by the model, so not looked at")
        return self._encode(table, rows, remarks), tuple(remarks)

    def _encode(self, table: Table, rows: Rows | None, remarks: list[str] | None) -> Matrix:
        """Build the matrix; `remarks` collects remarks on new rows, None in training."""
        table.require(self.sources)
        if not isinstance(table, ArrowTable):
            raise InputError(f"party {show(table.party)}: its file is LIBSVM, the model was trained on named columns")
        pick: Rows = np.arange(table.n_rows) if rows is None else rows
        if self.is_compact(len(pick)):
            return CurveMatrix(
                tuple(cells for column in self.columns for cells in _compact(column, table, pick, remarks))
            )
        parts: list[tuple[Rows, Rows, Vector]] = []
        start = 0
        for column in self.columns:
            parts += [(at, start + place, value) for at, place, value in _entries(column, table, pick, remarks)]
            start += len(column.names)
        return _assembled(parts, (len(pick), start), self._share(start))

    def is_compact(self, rows: int) -> bool:
        """Whether so many rows are kept by their cells, and not written out: where there are curves and many cells."""
        return rows * len(self.columns) >= COMPACT_FROM and any(isinstance(c, CurveColumn) for c in self.columns)

    def _share(self, width: int) -> float:
        """About how much of a row is not 0."""
        return sum(_filled(column) for column in self.columns) / width if width >= SPARSE_FROM else 1.0


def _filled(column: Column) -> int:
    """About how many of the columns that a column becomes are not 0 in a row."""
    return column.filled if isinstance(column, CurveColumn) else 1


def _is_bounded(column: Column) -> bool:
    """Whether a column adds at most 1 to the squared norm of an encoded row: a number in a range is from -1 to 1."""
    if isinstance(column, TextColumn):
        return column.height <= 1.0
    return isinstance(column, FourierColumn) or (isinstance(column, NumberColumn) and column.low is not None)


def _entries(
    column: Column, table: ArrowTable, rows: Rows, remarks: list[str] | None
) -> list[tuple[Rows, Rows, Vector]]:
    """Row, place and value of what is not 0 in the columns that one column becomes."""
    every = np.arange(len(rows))
    if isinstance(column, TextColumn):
        places = _places(column, table, rows, remarks)
        at = np.flatnonzero(places >= 0)
        return [(at, places[at], np.full(at.size, column.height))]
    cells = _numbers_of(column, table, rows, remarks)
    if isinstance(column, CurveColumn):
        return list(_curve_entries(column, cells))
    found = [(every, np.zeros(len(rows), dtype=np.int64), column.encode(cells))]
    blank = np.flatnonzero(np.isnan(cells))
    return [*found, (blank, np.ones(blank.size, dtype=np.int64), np.ones(blank.size))] if column.missing else found


def _compact(column: Column, table: ArrowTable, rows: Rows, remarks: list[str] | None) -> list[Cells]:
    """The cells of one column, from which its encoded numbers follow."""
    if isinstance(column, TextColumn):
        return [category_cells(_places(column, table, rows, remarks), len(column.names), column.height)]
    cells = _numbers_of(column, table, rows, remarks)
    if isinstance(column, SplineColumn):
        return [spline_cells(column, cells)]
    if isinstance(column, FourierColumn):
        return [*exact_cells(column, cells), wave_cells(column, cells)]
    fill = float(column.encode(np.array([np.nan]))[0])
    return [linear_cells(column.encode(cells), np.isnan(cells), fill, missing=column.missing)]


def _numbers_of(column: NumberColumn | CurveColumn, table: ArrowTable, rows: Rows, remarks: list[str] | None) -> Vector:
    """The cells of a column of numbers, NaN where blank, with remarks on blanks."""
    cells = number_cells(table, column.name, days=column.days, trained=remarks is not None)[rows]
    blanks = int(np.count_nonzero(np.isnan(cells)))
    become = "0 in its curve" if isinstance(column, SplineColumn) else f"filled with {column.fill:.6g}"
    _say_blanks(column, table.party, blanks, become, remarks)
    return cells


def _places(column: TextColumn, table: ArrowTable, rows: Rows, remarks: list[str] | None) -> Rows:
    """Which of a text column's columns is not 0, for each row, with remarks on texts."""
    texts = text_cells(table, column.name)
    texts = Texts(texts.values, texts.codes[rows])
    _say_texts(column, table.party, texts, remarks)
    return column.places(texts)


def _curve_entries(column: CurveColumn, cells: Vector) -> Iterator[tuple[Rows, Rows, Vector]]:
    """What is not 0 in the columns of a curve, some rows at a time, as all of them at once may be large."""
    for start in range(0, len(cells), ROWS_AT_ONCE):
        code = column.encode(cells[start : start + ROWS_AT_ONCE])
        at, places = np.nonzero(code)
        yield at + start, places, code[at, places]


def _say_texts(column: TextColumn, party: str, texts: Texts, remarks: list[str] | None) -> None:
    """Remark on blanks without a column, and on categories that the model does not have."""
    if remarks is None:
        return
    blanks = int(np.count_nonzero(texts.codes < 0))
    _say_blanks(column, party, blanks, f'counted as "{_blank_name(column)}"', remarks)
    if isinstance(column, CategoryColumn):
        new = np.flatnonzero(column.unknown(texts))
        if new.size:
            held = show(texts.values[texts.codes[new[0]]])
            rows = "1 row holds" if new.size == 1 else f"{new.size} rows hold"
            known = plural(len(column.values), "category")
            remarks.append(
                f"{party}: column {show(column.name)}: {rows} none of the model's {known} (such as {held}): "
                "counted as other"
            )


def _blank_name(column: Column) -> str:
    return "other" if isinstance(column, CategoryColumn) else "no bucket"


def _say_blanks(column: Column, party: str, count: int, what: str, remarks: list[str] | None) -> None:
    if remarks is not None and count and not column.missing:
        remarks.append(
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


# --- An encoder as plain values for JSON, and back without trust


FORMAT = 1
MOST_BUCKETS = 2**20
_KINDS: dict[str, type[Column]] = {
    "number": NumberColumn,
    "category": CategoryColumn,
    "buckets": BucketColumn,
    "fourier": FourierColumn,
    "spline": SplineColumn,
}
_FLAGS = ("missing", "days", "log", "whole")


def to_record(encoder: Encoder) -> dict[str, Any]:
    """The encoder as plain values."""
    return {"format": FORMAT, "columns": [_plain(column) for column in encoder.columns], "unused": list(encoder.unused)}


def _plain(column: Column) -> dict[str, Any]:
    kind = next(kind for kind, cls in _KINDS.items() if type(column) is cls)
    values = {"kind": kind, **asdict(column)}
    if values.get("height") == 1.0:  # so that the files of models without curves stay as they were
        del values["height"]
    if values.get("exact") == 0:
        del values["exact"]
    return values


def from_record(record: Any) -> Encoder:
    """The encoder that `to_record` wrote.

    Raises
    ------
    ValueError
        In a few words that name what is wrong.
    """
    if not isinstance(record, Mapping) or record.get("format") != FORMAT or isinstance(record["format"], bool):
        raise ValueError("its schema has no format that this version reads")
    columns, unused = record.get("columns"), record.get("unused")
    if not isinstance(columns, list) or not columns:
        raise ValueError("its schema has no columns")
    if not isinstance(unused, list) or not all(isinstance(name, str) for name in unused):
        raise ValueError("its schema has no list of unused columns")
    return Encoder(tuple(_column(column) for column in columns), tuple(unused))


def _column(record: Any) -> Column:
    """One column, every value checked."""
    if not isinstance(record, Mapping) or record.get("kind") not in tuple(_KINDS):
        raise ValueError(f"its schema has a column {show(record)}")
    kind = record["kind"]
    name, missing, source = record.get("name"), record.get("missing"), record.get("source")
    if not isinstance(name, str) or not name:
        raise ValueError(f"its schema has a column named {show(name)}")
    if not isinstance(missing, bool) or source not in (JOB, ROWS):
        raise ValueError(f"the schema of column {show(name)} has missing = {show(missing)}, source = {show(source)}")
    for key in _FLAGS:
        if key in record and not isinstance(record[key], bool):
            raise ValueError(f"the schema of column {show(name)} has {key} = {show(record[key])}")
    if kind == "number":
        return _number(record, name, missing, source)
    if kind == "fourier":
        return _fourier(record, name, missing, source)
    if kind == "spline":
        return _spline(record, name, missing, source)
    height = _finite(record.get("height", 1.0), name, "height")
    if height <= 0:
        raise ValueError(f"the schema of column {show(name)} has height = {show(height)}")
    if kind == "category":
        return CategoryColumn(name, _values(record.get("values"), name), missing, source, height)
    return BucketColumn(name, _count(record.get("buckets"), name, "buckets", 1, MOST_BUCKETS), missing, source, height)


def _fourier(record: Mapping[str, Any], name: str, missing: bool, source: str) -> FourierColumn:
    low, high = (_finite(record.get(key), name, key) for key in ("low", "high"))
    pairs = _count(record.get("pairs"), name, "pairs", 0, MOST_STATED_PAIRS)
    exact = _count(record.get("exact", 0), name, "exact", 0, MOST_EXACT)
    if not low / 2 < high / 2 or not all(isinstance(record.get(key), bool) for key in ("log", "whole", "days")):
        raise ValueError(f"the schema of column {show(name)} does not fit together")
    log, whole, days = (record[key] for key in ("log", "whole", "days"))
    return FourierColumn(name, low, high, pairs, log, whole, missing, days, source, exact)


def _spline(record: Mapping[str, Any], name: str, missing: bool, source: str) -> SplineColumn:
    knots, spikes = (_numbers(record.get(key), name, key) for key in ("knots", "spikes"))
    mean, deviation, unit = (_finite(record.get(key), name, key) for key in ("mean", "deviation", "unit"))
    rising = all(a < b for a, b in pairwise(knots))
    if not knots or not rising or min(deviation, unit) <= 0 or not isinstance(record.get("days"), bool):
        raise ValueError(f"the schema of column {show(name)} does not fit together")
    return SplineColumn(name, knots, spikes, mean, deviation, unit, missing, record["days"], source)


def _count(value: Any, name: str, key: str, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"the schema of column {show(name)} has {show(value)} {key}")
    return value


def _numbers(values: Any, name: str, key: str) -> tuple[float, ...]:
    if not isinstance(values, list) or len(values) > MOST_KNOTS:
        raise ValueError(f"the schema of column {show(name)} has no list of {key}")
    return tuple(_finite(value, name, key) for value in values)


def _number(record: Mapping[str, Any], name: str, missing: bool, source: str) -> NumberColumn:
    centre, divisor, fill = (_finite(record.get(key), name, key) for key in ("centre", "divisor", "fill"))
    given = [key for key in ("low", "high") if record.get(key) is not None]
    low, high = (_finite(record[key], name, key) if given else None for key in ("low", "high"))
    days = record.get("days")
    if divisor <= 0 or not isinstance(days, bool) or (low is not None and high is not None and not low < high):
        raise ValueError(f"the schema of column {show(name)} does not fit together")
    return NumberColumn(name, centre, divisor, fill, low, high, missing, days, source)


def _values(values: Any, name: str) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(v, str) and v not in ("", OTHER, MISSING) for v in values):
        raise ValueError(f"the schema of column {show(name)} has no list of categories")
    return tuple(values)


def _finite(value: Any, name: str, key: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise ValueError(f"the schema of column {show(name)} has {key} = {show(value)}")
