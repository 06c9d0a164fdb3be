"""A look at columns before training: counts, blanks, quantiles, what goes together, and what tells of the label.

| figure | of | meaning |
|---|---|---|
| correlation | two numbers of one party | Pearson's, over rows where both are there |
| VIF | a number of one party | 1 / (1 - R2) of it by the party's other numbers, blanks filled in with means |
| weight of evidence | a bin of a column | log of (its part of the positive rows / its part of the negative rows) |
| information value | a column | sum over bins of (part of the positive - part of the negative) * weight of evidence |
| stability index | a column of two files | sum over bins of (new part - old part) * log(new part / old part) |

Bins of a number are ten parts of about equal size by its quantiles (fewer where values repeat); of text its commonest
values and one for all others; blanks are a bin of their own. Where a bin lacks positive or negative rows, half a row is
added to both of its counts, as the logarithm needs some.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.columns.spec import CATEGORY, DATE
from tacit.columns.table import ArrowTable, Table, kind_of_type, number_cells, text_cells
from tacit.errors import InputError
from tacit.types import Vector

BINS = 10
MOST_VALUES = 20  # of text, with a bin of their own
OTHERS, BLANK = "other", "blank"
QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
MOST_NUMBERS = 500  # columns of numbers up to which correlations and VIF are computed

Rows = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Cells:
    """One column: numbers with NaN for blanks, or texts with None."""

    name: str
    kind: str
    values: npt.NDArray[Any]

    @property
    def is_number(self) -> bool:
        """Numbers, or dates as days."""
        return self.kind != CATEGORY

    @property
    def blank(self) -> npt.NDArray[np.bool_]:
        """Which cells are blank."""
        if self.is_number:
            return np.asarray(np.isnan(self.values))
        return np.array([value is None for value in self.values], dtype=np.bool_)


def read_cells(table: Table, name: str, rows: Rows | None, *, text: bool = False) -> Cells:
    """A column of a file; with `text` as categories whatever it holds.

    Raises
    ------
    InputError
        For a LIBSVM file, and for cells that cannot be used.
    """
    if not isinstance(table, ArrowTable):
        raise InputError("a LIBSVM file has no names of columns to describe: give CSV or Parquet")
    table.require([name])
    kind = CATEGORY if text else kind_of_type(table.arrow(name).type)
    if kind == CATEGORY:
        found = text_cells(table, name)
        texts = np.array([*found.values, None], dtype=object)[found.codes]
        return Cells(name, CATEGORY, texts if rows is None else texts[rows])
    numbers = number_cells(table, name, days=kind == DATE)
    return Cells(name, kind, numbers if rows is None else numbers[rows])


# --- bins --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Bins:
    """How the cells of a column are grouped: by cuts between numbers, or by texts; blanks are the last group."""

    cuts: Vector | None
    texts: tuple[str, ...] = ()

    @classmethod
    def of(cls, cells: Cells) -> Bins:
        """The bins of a column."""
        there = cells.values[~cells.blank]
        if not cells.is_number:
            values, counts = np.unique(there.astype(str), return_counts=True) if there.size else ((), ())
            order = np.argsort(-np.asarray(counts), kind="stable")[:MOST_VALUES]
            return cls(None, tuple(str(values[k]) for k in order))
        if not there.size:
            return cls(np.array([]))
        inner = np.quantile(there, np.arange(1, BINS) / BINS, method="higher")
        return cls(np.unique(inner[inner > there.min()]))

    def place(self, cells: Cells) -> Rows:
        """The bin of each cell: numbers from a cut up to the next, the last bin for blanks."""
        if self.cuts is None:
            known = {text: k for k, text in enumerate(self.texts)}
            last = len(self.texts)
            return np.array([last + 1 if v is None else known.get(str(v), last) for v in cells.values], dtype=np.intp)
        found = np.searchsorted(self.cuts, np.where(cells.blank, -np.inf, cells.values), side="right")
        return np.where(cells.blank, len(self.cuts) + 1, found)

    @property
    def names(self) -> list[str]:
        """The bins in words."""
        if self.cuts is None:
            return [*self.texts, OTHERS, BLANK]
        ends = ["", *(f"{cut:.6g}" for cut in self.cuts), ""]
        return [*(f"{low or '-inf'} to {high or 'inf'}" for low, high in pairwise(ends)), BLANK]

    def counts(self, places: Rows, weights: Vector | None = None) -> Vector:
        """Rows of each bin."""
        return np.bincount(places, weights=weights, minlength=len(self.names)).astype(np.float64)


# --- against the label, and against another file -------------------------------------------------------------


@dataclass(frozen=True)
class Evidence:
    """What a column tells of the label: rows, positive rows and weight of evidence of each bin that has rows."""

    bins: tuple[str, ...]
    rows: tuple[int, ...]
    positive: tuple[int, ...]
    weights: tuple[float, ...]
    value: float


def evidence(cells: Cells, positive: npt.NDArray[np.bool_]) -> Evidence:
    """Weight of evidence by bin, and the information value."""
    bins = Bins.of(cells)
    places = bins.place(cells)
    rows, hits = bins.counts(places), bins.counts(places, positive.astype(np.float64))
    there = rows > 0
    rows, hits, names = rows[there], hits[there], [name for name, own in zip(bins.names, there, strict=True) if own]
    misses = rows - hits
    half = np.where((hits == 0) | (misses == 0), 0.5, 0.0)
    shares = (hits + half) / max(hits.sum(), 1.0), (misses + half) / max(misses.sum(), 1.0)
    weights = np.log(shares[0] / shares[1])
    value = float(np.sum((shares[0] - shares[1]) * weights))
    counted = [tuple(int(count) for count in counts) for counts in (rows, hits)]
    return Evidence(tuple(names), counted[0], counted[1], tuple(weights.tolist()), value)


def stability(old: Cells, new: Cells) -> float:
    """The stability index between two files: bins are those of the old one."""
    bins = Bins.of(old)
    before, after = bins.counts(bins.place(old)), bins.counts(bins.place(new))
    there = before + after > 0
    before, after = before[there], after[there]
    half = np.where((before == 0) | (after == 0), 0.5, 0.0)
    shares = [(own + half) / max(own.sum(), 1.0) for own in (before, after)]
    return float(np.sum((shares[1] - shares[0]) * np.log(shares[1] / shares[0])))


# --- a party's columns -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ColumnFacts:
    """One column of a party.

    Attributes
    ----------
    name, kind : str
    rows, blanks, distinct : int
    mean, deviation : float or None
        Of numbers.
    quantiles : tuple of float
        At 0, 5, 25, 50, 75, 95 and 100 %; empty where there are none.
    common : tuple of (str, int)
        Of text: its commonest values.
    vif : float or None
        Infinite where the party's other numbers give it exactly.
    evidence : Evidence or None
        Against a label of two classes.
    label_correlation : float or None
        With a label that is a number.
    stability : float or None
        Against another file.
    """

    name: str
    kind: str
    rows: int
    blanks: int
    distinct: int
    mean: float | None = None
    deviation: float | None = None
    quantiles: tuple[float, ...] = ()
    common: tuple[tuple[str, int], ...] = ()
    vif: float | None = None
    evidence: Evidence | None = None
    label_correlation: float | None = None
    stability: float | None = None


@dataclass(frozen=True)
class PartyFacts:
    """All columns of a party, and the pairs of its numbers that go together most."""

    party: str
    rows: int
    columns: tuple[ColumnFacts, ...]
    correlations: tuple[tuple[str, str, float], ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class LabelColumn:
    """The label of the rows: positive or not, or numbers."""

    positive: npt.NDArray[np.bool_] | None = None
    numbers: Vector | None = None


def describe_columns(
    party: str,
    columns: Sequence[Cells],
    label: LabelColumn | None = None,
    other: Mapping[str, Cells] | None = None,
    shown_pairs: int = 10,
) -> PartyFacts:
    """Facts of a party's columns.

    Parameters
    ----------
    party : str
    columns : sequence of Cells
        Of the same rows.
    label : LabelColumn or None
        Of these rows; None where nobody may look at both.
    other : mapping of str to Cells
        The same columns of another file, for the stability index.
    shown_pairs : int
        Of correlated columns, at most.
    """
    numbers = [cells for cells in columns if cells.is_number and not cells.blank.all()]
    remarks: tuple[str, ...] = ()
    if len(numbers) > MOST_NUMBERS:
        numbers, remarks = [], (f"more than {MOST_NUMBERS} numbers: no correlations, no VIF",)
    factors = inflation(numbers)
    facts = [_facts(cells, factors.get(cells.name), label, (other or {}).get(cells.name)) for cells in columns]
    pairs = correlated(numbers)[:shown_pairs]
    return PartyFacts(party, len(columns[0].values) if columns else 0, tuple(facts), tuple(pairs), remarks)


def _facts(cells: Cells, vif: float | None, label: LabelColumn | None, other: Cells | None) -> ColumnFacts:
    there = cells.values[~cells.blank]
    more: dict[str, Any] = {"vif": vif}
    if cells.is_number and there.size:
        more |= {
            "mean": float(np.mean(there / _size(there)) * _size(there)),
            "deviation": float(np.std(there / _size(there)) * _size(there)),
            "quantiles": tuple(np.quantile(there, QUANTILES).tolist()),
        }
    elif there.size:
        values, counts = np.unique(there.astype(str), return_counts=True)
        order = np.argsort(-counts, kind="stable")[:5]
        more["common"] = tuple((str(values[k]), int(counts[k])) for k in order)
    if label is not None and label.positive is not None:
        more["evidence"] = evidence(cells, label.positive)
    elif label is not None and label.numbers is not None and cells.is_number:
        more["label_correlation"] = _correlation(cells.values, label.numbers)
    if other is not None:
        more["stability"] = stability(cells, other)
    distinct = len(set(there.tolist()))
    return ColumnFacts(cells.name, cells.kind, len(cells.values), int(cells.blank.sum()), distinct, **more)


def _size(values: Vector) -> float:
    """The largest of some numbers, by which they are divided so that squares are finite; 1 where all are 0."""
    return float(np.nanmax(np.abs(values))) or 1.0


def _correlation(a: Vector, b: Vector) -> float | None:
    """Pearson's, where both are there; None where one does not vary."""
    both = ~(np.isnan(a) | np.isnan(b))
    if both.sum() < 2:
        return None
    one, other = (_centred(values[both]) for values in (a, b))
    size = math.sqrt(float(one @ one) * float(other @ other))
    return float(one @ other) / size if size > 0 else None


def _centred(values: Vector) -> Vector:
    scaled = values / _size(values)
    return np.asarray(scaled - scaled.mean())


def correlated(columns: Sequence[Cells]) -> list[tuple[str, str, float]]:
    """All pairs of numbers with their correlation, the strongest first."""
    found = []
    for k, one in enumerate(columns):
        for other in columns[k + 1 :]:
            value = _correlation(one.values, other.values)
            if value is not None:
                found.append((one.name, other.name, value))
    return sorted(found, key=lambda pair: -abs(pair[2]))


def inflation(columns: Sequence[Cells]) -> dict[str, float]:
    """Variance inflation of each number by the others: infinite where they give it exactly."""
    scaled = [cells.values / _size(cells.values) for cells in columns]
    filled = [np.where(np.isnan(own), np.nanmean(own), own) for own in scaled]
    varied = [(cells.name, _centred(own)) for cells, own in zip(columns, filled, strict=True) if np.ptp(own) > 0]
    if len(varied) < 2:
        return {name: 1.0 for name, _ in varied}
    table = np.column_stack([own / np.linalg.norm(own) for _, own in varied])
    return {name: _inflation(table, k) for k, (name, _) in enumerate(varied)}


def _inflation(table: Vector, at: int) -> float:
    others = np.delete(table, at, axis=1)
    left = table[:, at] - others @ np.linalg.lstsq(others, table[:, at], rcond=None)[0]
    unexplained = float(left @ left)
    return 1 / unexplained if unexplained > 1e-12 else math.inf
