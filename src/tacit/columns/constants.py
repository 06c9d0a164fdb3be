"""Constants of columns: from rows, where these are not protected, or from the job alone.

Mean, deviation and range of columns, of all values at once or block by block, without overflow.

Values are divided by a power of 2, which costs no digit, and taken from one of them, so that none is lost where they
are large and near each other.

A party whose rows are protected gets constants that the job states and nothing else: `public_encoder` sees no row. Of
its file only this is checked: that each column can be read as the job says. What cannot is refused before a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.columns.curves import LINE, LONG, MOST_PAIRS, FourierColumn, SplineColumn, fit_spline, unit_height
from tacit.columns.encoder import BucketColumn, CategoryColumn, Column, Encoder, NumberColumn, TextColumn
from tacit.columns.spec import (
    AUTO,
    CATEGORY,
    DATE,
    JOB,
    LINEAR,
    MISSING,
    NUMBER,
    OTHER,
    ROWS,
    SPLINE,
    ColumnSpec,
    EncodeRules,
)
from tacit.columns.table import (
    BLANK,
    ArrowTable,
    Rows,
    Texts,
    check_usable,
    kind_of_type,
    number_cells,
    refuse_guesses,
    text_cells,
)
from tacit.errors import InputError
from tacit.text import listing, nearest, show
from tacit.types import Vector

# --- Mean, deviation and range of columns, of all values at once or block by block, without overflow


ROWS_AT_ONCE = 4096  # rows that stay in cache
OF_ZERO = -1100  # exponent of a column that is 0 so far: below that of any other number


def moments(values: Vector, weights: Vector | None = None) -> tuple[float, float]:
    """Mean and deviation, without overflow, and the same in whatever order the values stand (up to rounding).

    Parameters
    ----------
    values : array
    weights : array, optional
        Above 0: a value of weight 2 counts as two. All are 1 by default.
    """
    if values.size == 0:
        return 0.0, 0.0
    low, high = float(values.min()), float(values.max())
    if low == high:
        return low, 0.0
    exponent = int(np.frexp(max(abs(low), abs(high)))[1])
    scaled = np.ldexp(values, -exponent)  # within -1 .. 1
    start = np.ldexp(low, -exponent)
    shifted = scaled - start
    mean = float(np.average(shifted, weights=weights))
    deviation = float(np.sqrt(np.average((shifted - mean) ** 2, weights=weights)))
    return float(np.ldexp(start + mean, exponent)), float(np.ldexp(deviation, exponent))


class RunningMoments:
    """Range, mean and deviation of columns whose rows come in blocks (Chan, Golub and LeVeque's update).

    Attributes
    ----------
    low, high : array
        Smallest and largest value of each column so far.
    """

    def __init__(self, width: int) -> None:
        self.low, self.high = np.full(width, np.inf), np.full(width, -np.inf)
        self._count = 0
        self._start = self._mean = self._squares = np.zeros(width)  # mean of x - start, both divided by 2**exponent
        self._exponent = np.full(width, OF_ZERO, dtype=np.intc)

    def add(self, block: npt.NDArray[Any]) -> None:
        """Take in some rows."""
        for start in range(0, len(block), ROWS_AT_ONCE):
            self._add(block[start : start + ROWS_AT_ONCE])

    def _add(self, block: npt.NDArray[Any]) -> None:
        low, high = block.min(axis=0).astype(np.float64), block.max(axis=0).astype(np.float64)
        self.low, self.high = np.minimum(self.low, low), np.maximum(self.high, high)
        if not self._count:
            self._start = block[0].astype(np.float64)
        largest = np.maximum(abs(low), abs(high))
        self._widen(np.where(largest == 0.0, OF_ZERO, np.frexp(largest)[1]).astype(np.intc))
        shifted = np.ldexp(block.astype(np.float64), -self._exponent)
        shifted -= np.ldexp(self._start, -self._exponent)
        mean = shifted.mean(axis=0)
        shifted -= mean
        before, more = self._count, len(block)
        apart = mean - self._mean
        self._count += more
        self._mean = self._mean + apart * (more / self._count)
        self._squares = self._squares + (shifted**2).sum(axis=0) + apart**2 * (before * more / self._count)

    def _widen(self, exponent: npt.NDArray[np.intc]) -> None:
        """Divide by a larger power of 2 where a block holds larger values than those before."""
        new = np.maximum(self._exponent, exponent)
        self._mean = np.ldexp(self._mean, self._exponent - new)
        self._squares = np.ldexp(self._squares, 2 * (self._exponent - new))
        self._exponent = new

    def found(self) -> tuple[Vector, Vector]:
        """Mean and deviation of each column, by `moments`'s rules."""
        alike = self.low == self.high
        mean = np.ldexp(np.ldexp(self._start, -self._exponent) + self._mean, self._exponent)
        deviation = np.ldexp(np.sqrt(self._squares / max(self._count, 1)), self._exponent)
        return np.where(alike, self.low, mean), np.where(alike, 0.0, deviation)


# --- Constants that a job states, and the refusal of those that it would have taken from protected rows


def public_encoder(
    names: Sequence[str],
    specs: Sequence[ColumnSpec],
    unused: tuple[str, ...] = (),
    rules: EncodeRules | None = None,
    rows: int = 0,
) -> Encoder:
    """The encoder of columns of which nothing is known but what the job says; the others are numbers, as they are.

    Parameters
    ----------
    names : sequence of str
        The columns, in order.
    specs : sequence of ColumnSpec
        What the job says about them.
    unused : tuple of str
        Columns of the file that the model does not use.
    rules : EncodeRules, optional
        Which numbers are curves.
    rows : int
        How many rows are trained on, which is public: curves are finer where there are more.
    """
    rules = rules or EncodeRules()
    found = {spec.name: spec for spec in specs}
    given = [found.get(name, ColumnSpec(name)) for name in names]
    columns = [stated_column(spec) for spec in given]
    if not any(_is_curve(spec, rules) for spec in given):
        return Encoder(tuple(columns), unused)
    pairs, exact = _pairs(columns, rules, rows), _exact(columns, rules, rows)
    curved = [
        stated_curve(spec, pairs, exact) if _is_curve(spec, rules) and spec.low is not None else column
        for spec, column in zip(given, columns, strict=True)
    ]
    return Encoder(tuple(curved), unused)


def settled(rules: EncodeRules, columns: Sequence[tuple[ColumnSpec, str]], *, protected: bool) -> EncodeRules:
    """The rules with terms = "auto" settled: curves, where protected numbers all have a range; else lines.

    Parameters
    ----------
    rules : EncodeRules
    columns : sequence of (ColumnSpec, str)
        What the job says of each column, and its kind in the file.
    protected : bool
        Whether the rows are to be protected. Either way no row is looked at.
    """
    if rules.terms != AUTO:
        return rules
    loose = protected and any(spec.low is None and (spec.given_kind or kind) != CATEGORY for spec, kind in columns)
    return replace(rules, terms=LINEAR if loose else SPLINE)


def _is_curve(spec: ColumnSpec, rules: EncodeRules) -> bool:
    """Whether a column becomes a curve if it holds numbers."""
    return spec.given_kind != CATEGORY and (spec.term or rules.terms) == SPLINE


def _pairs(columns: Sequence[Column], rules: EncodeRules, rows: int) -> int:
    """Pairs of frequencies of each curve: as the job says, or from public numbers."""
    if rules.pairs is not None:
        return rules.pairs
    lists = [len(column.names) for column in columns if isinstance(column, TextColumn)]
    return MOST_PAIRS if rules.noise is None else rules.noise.pairs(rows, len(columns) - len(lists), lists)


def _exact(columns: Sequence[Column], rules: EncodeRules, rows: int) -> int:
    """Buckets of exact values, from public numbers; none where the job says how many pairs there are."""
    return 0 if rules.pairs is not None or rules.noise is None else rules.noise.exact(rows, len(columns))


def stated_curve(spec: ColumnSpec, pairs: int, exact: int = 0) -> FourierColumn:
    """The curve of a column whose range the job states; `exact` buckets where it says that values repeat."""
    assert spec.low is not None
    assert spec.high is not None
    log = spec.low >= 0 and spec.high >= LONG if spec.log is None else spec.log
    log = log and not (spec.log is None and spec.kind == DATE)  # days since 1970 are no amounts
    days, whole, exact = spec.kind == DATE, bool(spec.whole), exact if spec.repeats else 0
    return FourierColumn(spec.name, spec.low, spec.high, pairs, log, whole, bool(spec.missing), days, exact=exact)


def known_specs(specs: Sequence[ColumnSpec], names: Sequence[str], party: str) -> dict[str, ColumnSpec]:
    """What the job says by column; refused where it names a column that is no feature."""
    for spec in specs:
        if spec.name not in names:
            raise InputError(
                f"party {show(party)}: columns names {show(spec.name)}{nearest(spec.name, list(names))}, which is none "
                f"of its features: they are {listing(names)}"
            )
    return {spec.name: spec for spec in specs}


def stated_column(spec: ColumnSpec) -> Column:
    """The constants that a job states about one column."""
    missing, days = bool(spec.missing), spec.kind == DATE
    if spec.buckets is not None:
        return BucketColumn(spec.name, spec.buckets, missing)
    if spec.values is not None:
        return CategoryColumn(spec.name, listed_values(spec.values), missing or MISSING in spec.values)
    if spec.low is None or spec.high is None:
        return NumberColumn(spec.name, missing=missing, days=days)
    centre, half = spec.low / 2 + spec.high / 2, spec.high / 2 - spec.low / 2
    return NumberColumn(spec.name, centre, half, centre, spec.low, spec.high, missing, days)


def listed_values(values: Sequence[str]) -> tuple[str, ...]:
    """The categories of a list, sorted, without those that have columns of their own."""
    return tuple(sorted({*values} - {OTHER, MISSING}))


def unlearnable(columns: Sequence[tuple[ColumnSpec, str]], rules: EncodeRules) -> list[str]:
    """Columns of protected rows whose constants would come from them, a sentence for each reason.

    Parameters
    ----------
    columns : sequence of (ColumnSpec, str)
        What the job says of each column, and its kind in the file.
    rules : EncodeRules
    """
    dates, listed, scaled, curves = [], [], [], []
    for spec, kind in columns:
        if lacks_range(spec, kind):
            dates.append(spec.name)
            continue
        category = (spec.given_kind or kind) == CATEGORY
        if category and spec.values is None and spec.buckets is None:
            listed.append(spec.name)
        elif not category and spec.low is None and _is_curve(spec, rules):
            curves.append(spec.name)
        elif not category and spec.low is None and rules.scale in ("standard", "range"):
            scaled.append(spec.name)
    advice, problems = rules.advice, _undated(dates, rules)
    if listed:
        what, them = ("holds categories, and a list taken from its rows", "it")
        if len(listed) > 1:
            what, them = ("hold categories, and lists taken from their rows", "them")
        problems.append(
            f"{named(listed)} {what} would not be private: give {'it' if them == 'it' else 'each'} "
            f"{advice.of('lists', listed[0])}, or leave {them} out{advice.left}"
        )
    if curves:
        have, each = ("has no range", "it") if len(curves) == 1 else ("have no ranges", "each")
        problems.append(
            f"{named(curves)} {have}, and curves of protected rows need ranges that are not taken from the rows: give "
            f"{each} {advice.of('ranges', curves[0])} {advice.of('lines', curves[0])}"
        )
    if scaled:
        its, it = ("its", "it") if len(scaled) == 1 else ("their", "each")
        problems.append(
            f'{named(scaled)} would be scaled by {its} rows (scale = "{rules.scale}"), which would not be private: '
            f'give {it} {advice.of("ranges", scaled[0])}, or write scale = "none"'
        )
    return problems


def lacks_range(spec: ColumnSpec, kind: str) -> bool:
    """Whether a column of protected rows holds dates of which the job does not say what to do with them."""
    return kind == DATE and spec.given_kind not in (DATE, CATEGORY)


def _undated(columns: Sequence[str], rules: EncodeRules) -> list[str]:
    """What is said of dates; their kind alone would not do, as days are so many that they drown other columns."""
    if not columns:
        return []
    hold, each, them = ("holds", "it", "it") if len(columns) == 1 else ("hold", "each", "them")
    way = rules.advice.of("dates", columns[0])
    return [f"{named(columns)} {hold} dates: give {each} {way}, or leave {them} out{rules.advice.left}"]


def named(columns: Sequence[str]) -> str:
    """Columns in a message: all of them, so that a job is fixed at once."""
    return f"{'column' if len(columns) == 1 else 'columns'} {listing(columns)}"


def refuse(party: str, problems: Sequence[str]) -> None:
    """Refuse a party's columns for these reasons, if there are any."""
    if problems:
        raise InputError(f"party {show(party)}: {'; '.join(problems)}")


# --- Constants of columns: from rows, where these are not protected, or from the job alone


@dataclass(frozen=True, eq=False)
class Part:
    """Some rows of a table: of one party, or of one of several that hold the same columns.

    Attributes
    ----------
    table : ArrowTable
    rows : array or None
        Which rows; None for all.
    weights : array or None
        What each of them counts for, above 0; None where each counts for 1.
    """

    table: ArrowTable
    rows: Rows | None = None
    weights: Vector | None = None

    @property
    def size(self) -> int:
        """How many rows."""
        return self.table.n_rows if self.rows is None else len(self.rows)

    @property
    def weight(self) -> float:
        """What all of them count for."""
        return self.size if self.weights is None else float(self.weights.sum())

    def numbers(self, name: str, *, days: bool) -> Vector:
        """One column as numbers."""
        cells = number_cells(self.table, name, days=days)
        return cells if self.rows is None else cells[self.rows]

    def texts(self, name: str) -> Texts:
        """One column as texts."""
        texts = text_cells(self.table, name)
        return texts if self.rows is None else Texts(texts.values, texts.codes[self.rows])


@dataclass(frozen=True)
class Fact:
    """What was seen of one column in rows that nobody protects; it is said and not saved.

    Attributes
    ----------
    blanks : int
        Rows without a value.
    different : int
        Different categories; 0 for a number.
    other : int
        Rows whose category counts as other.
    constant : bool
        Whether all rows are alike, so that the column is of no use.
    """

    blanks: int = 0
    different: int = 0
    other: int = 0
    constant: bool = False


@dataclass(frozen=True)
class Encoding:
    """An encoder, and what was seen while it was fitted, by column; nothing where rows are protected."""

    encoder: Encoder
    facts: dict[str, Fact]
    protected: bool = False


def make_encoding(
    parts: Sequence[Part],
    names: Sequence[str],
    specs: Sequence[ColumnSpec],
    rules: EncodeRules,
    *,
    protected: bool,
) -> Encoding:
    """The encoding of a party's columns, or of the columns that several parties have in common.

    Parameters
    ----------
    parts : sequence of Part
        The rows to fit to; with more than one their values are united.
    names : sequence of str
        The columns, in order.
    specs : sequence of ColumnSpec
        What the job says about them.
    rules : EncodeRules
    protected : bool
        Whether the rows are to be protected: then no constant is taken from them.

    Raises
    ------
    InputError
        For columns that cannot be encoded, or not without taking a constant from protected rows.
    """
    given = known_specs(specs, names, parts[0].table.party)
    unused = _unused([part.table for part in parts], names)
    rules = settled(rules, _kinds(parts[0], names, given), protected=protected)
    if protected:
        for part in parts:
            _check_protected(part, names, given, rules)
        rows = sum(part.size for part in parts)
        return Encoding(public_encoder(names, specs, unused, rules, rows), {}, protected=True)
    rules = replace(rules, columns=len(names))
    columns: list[Column] = []
    facts: dict[str, Fact] = {}
    for name in names:
        column, facts[name] = _fitted(parts, given.get(name, ColumnSpec(name)), rules)
        columns.append(column)
    return Encoding(Encoder(tuple(columns), unused), facts)


def _unused(tables: Sequence[ArrowTable], names: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted({name for table in tables for name in table.columns} - set(names)))


# --- protected rows ----------------------------------------------------------------------------------


def _check_protected(part: Part, names: Sequence[str], given: dict[str, ColumnSpec], rules: EncodeRules) -> None:
    """Refuse what would need a constant from rows that are to be protected, all columns at once."""
    columns = _kinds(part, names, given)
    for spec, kind in columns:
        if not lacks_range(spec, kind):
            check_usable(part.table, spec.name, spec.given_kind)
    blanks = [spec.name for spec, kind in columns if not lacks_range(spec, kind) and _lacks_fill(part, spec, kind)]
    problems = unlearnable(columns, rules)
    if blanks:
        its, it = ("its", "it") if len(blanks) == 1 else ("their", "each")
        problems.append(
            f"{named(blanks)} {'has' if len(blanks) == 1 else 'have'} blanks, and to fill them with the mean of {its} "
            f"rows would not be private: give {it} {rules.advice.of('fills', blanks[0])}"
        )
    refuse(part.table.party, problems)


def _kinds(part: Part, names: Sequence[str], given: dict[str, ColumnSpec]) -> list[tuple[ColumnSpec, str]]:
    """What the job says of each column, and its kind in the file."""
    return [(given.get(name, ColumnSpec(name)), kind_of_type(part.table.arrow(name).type)) for name in names]


def _lacks_fill(part: Part, spec: ColumnSpec, kind: str) -> bool:
    """Read a column as the job says; whether it has blanks, with nothing public to stand for them."""
    if (spec.given_kind or kind) == CATEGORY:
        part.texts(spec.name)
        return False
    cells = part.numbers(spec.name, days=spec.kind == DATE)
    return spec.low is None and not spec.missing and bool(np.isnan(cells).any())


# --- constants from rows ------------------------------------------------------------------------------


def _fitted(parts: Sequence[Part], spec: ColumnSpec, rules: EncodeRules) -> tuple[Column, Fact]:
    """The constants of one column of rows that nobody protects."""
    kind = _kind(parts, spec, rules)
    if kind == CATEGORY:
        return _fit_category(parts, spec, rules)
    return _fit_number(parts, spec, rules)


def _kind(parts: Sequence[Part], spec: ColumnSpec, rules: EncodeRules) -> str:
    """The kind that the job gives or that the files have; where several parties differ, the job must say."""
    found: dict[str, str] = {}
    for part in parts:
        check_usable(part.table, spec.name, spec.given_kind)
        kind = kind_of_type(part.table.arrow(spec.name).type)
        if kind != BLANK:
            found.setdefault(kind, part.table.party)
    if spec.given_kind is not None:
        return spec.given_kind
    if len(found) > 1:
        (one, first), (two, second) = list(found.items())[:2]
        raise InputError(
            f"column {show(spec.name)} is a {one} at party {show(first)} and a {two} at party {show(second)}: "
            f"{rules.advice.same}"
        )
    return next(iter(found), NUMBER)


def _fit_number(
    parts: Sequence[Part], spec: ColumnSpec, rules: EncodeRules
) -> tuple[NumberColumn | SplineColumn, Fact]:
    days = spec.kind == DATE
    cells = np.concatenate([part.numbers(spec.name, days=days) for part in parts])
    blank, weights = np.isnan(cells), _weights(parts)
    values, weights = cells[~blank], None if weights is None else weights[~blank]
    alike = values.size == 0 or bool(values.min() == values.max())
    # A column of blanks alone would be told twice, by two columns that are the same in all rows.
    missing = bool(blank.any() and values.size) if spec.missing is None else spec.missing
    fact = Fact(int(blank.sum()), constant=alike and not missing)
    if _is_curve(spec, rules):
        if spec.low is not None and spec.high is not None:
            values = np.clip(values, spec.low, spec.high)
        found = moments(values, weights)
        return fit_spline(spec.name, values, found, _unit(parts, rules), weights, missing=missing, days=days), fact
    if spec.low is not None:
        public = stated_column(spec)
        assert isinstance(public, NumberColumn)
        return replace(public, missing=missing, source=_source(spec)), fact
    bounds = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    mean, deviation = moments(values, weights)
    if rules.terms == SPLINE:  # a line beside curves, as high as theirs
        divisor = (deviation or 1.0) / (LINE * _unit(parts, rules))
        return NumberColumn(spec.name, mean, divisor, mean, missing=missing, days=days, source=ROWS), fact
    scale = rules.scale_of(False)
    return scaled_column(spec.name, bounds, mean, deviation, scale, missing=missing, days=days), fact


def _unit(parts: Sequence[Part], rules: EncodeRules) -> float:
    """The unit of heights of curves."""
    return unit_height(sum(part.weight for part in parts), rules.columns * rules.parties)


def _weights(parts: Sequence[Part]) -> Vector | None:
    """What each row counts for; None where each counts for 1."""
    if all(part.weights is None for part in parts):
        return None
    return np.concatenate([np.ones(part.size) if part.weights is None else part.weights for part in parts])


def _height(parts: Sequence[Part], rules: EncodeRules) -> float:
    """The height of categories: that of curves where numbers are curves, else 1."""
    return _unit(parts, rules) if rules.terms == SPLINE else 1.0


def scaled_column(
    name: str, bounds: tuple[float, float], mean: float, deviation: float, scale: str, **more: bool
) -> NumberColumn:
    """A column of numbers with constants from rows: of their range, mean and deviation."""
    centre, divisor = 0.0, 1.0
    if scale == "standard":
        centre, divisor = mean, deviation
    elif scale == "range":
        low, high = bounds
        centre, divisor = low / 2 + high / 2, high / 2 - low / 2
    return NumberColumn(name, centre, divisor or 1.0, mean, source=ROWS, **more)


def encoding_of_moments(names: Sequence[str], unused: Sequence[str], seen: RunningMoments, scale: str) -> Encoding:
    """The encoding of columns of numbers without blanks, of which all rows were seen."""
    constants = zip(names, seen.low.tolist(), seen.high.tolist(), *(m.tolist() for m in seen.found()), strict=True)
    columns = [
        scaled_column(name, (low, high), mean, deviation, scale) for name, low, high, mean, deviation in constants
    ]
    facts = {name: Fact(constant=bool(alike)) for name, alike in zip(names, seen.low == seen.high, strict=True)}
    return Encoding(Encoder(tuple(columns), tuple(unused)), facts)


def _fit_category(parts: Sequence[Part], spec: ColumnSpec, rules: EncodeRules) -> tuple[TextColumn, Fact]:
    counts: dict[str, float] = {}
    blanks = 0.0
    for part in parts:
        texts = part.texts(spec.name)
        found = np.bincount(texts.codes + 1, part.weights, len(texts.values) + 1)[1:]  # the code of a blank is -1
        blanks += int(np.count_nonzero(texts.codes < 0))
        for value, count in zip(texts.values, found.tolist(), strict=True):
            if count:  # rows that no other party has are left out of all counts
                counts[value] = counts.get(value, 0) + count
    if spec.buckets is not None:
        missing = blanks > 0 if spec.missing is None else spec.missing
        fact = Fact(int(blanks), len(counts), 0, len(counts) + missing < 2)
        return BucketColumn(spec.name, spec.buckets, missing, _source(spec), _height(parts, rules)), fact
    blanks += counts.pop(MISSING, 0)
    missing = blanks > 0 if spec.missing is None else spec.missing
    if spec.values is not None:
        column = CategoryColumn(spec.name, listed_values(spec.values), missing, _source(spec), _height(parts, rules))
    else:
        refuse_guesses(parts[0].table.party, spec, counts, rules)
        column = CategoryColumn(spec.name, _kept(counts, rules), missing, ROWS, _height(parts, rules))
    other = sum(count for value, count in counts.items() if value not in column.values)
    used = sum(value in counts for value in column.values) + (other > 0) + (missing and blanks > 0)
    return column, Fact(int(blanks), len(counts), int(other), used < 2)


def _source(spec: ColumnSpec) -> str:
    """Where the constants of a column with a public range or list come from: that blanks occur may be of the rows."""
    return ROWS if spec.missing is None else JOB


def _kept(counts: Mapping[str, float], rules: EncodeRules) -> tuple[str, ...]:
    """The most frequent categories, without rare ones; of equally frequent ones the first by name."""
    often = [value for value, count in counts.items() if count >= rules.rare and value != OTHER]
    return tuple(sorted(sorted(often, key=lambda value: (-counts[value], value))[: rules.most]))
