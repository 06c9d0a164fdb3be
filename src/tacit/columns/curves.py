"""Numbers as curves: a number becomes a few functions of it, so that a linear model of these is a curve of the number.

| code | for | constants |
|---|---|---|
| `FourierColumn` | rows that are protected | low, high and the number of pairs: all public |
| `SplineColumn` | rows that nobody protects | knots and frequent values, from the rows; no label is used |

Symbols of `FourierColumn` (docs/proofs/curves.md):

| symbol | meaning |
|---|---|
| u | place of a cell in its range, from 0 to 1 |
| m | `pairs`: frequencies 1..m |
| s_k | height of frequency k; s_k^2 = (1/k) / (1 + 1/2 + ... + 1/m), so that their squares sum to 1 |
| a | `EXACT_PART` where exact values have buckets, else 0 |

The code s_k cos(k pi u), s_k sin(k pi u), k = 1..m, times sqrt(1 - a), and sqrt(a) in the column of the bucket that the
exact value is hashed into, has norm 1 for every cell. A row of p such columns, categories or
linear columns with a range has norm sqrt(p) at most, and this is the norm that the noise is made for.

A `SplineColumn` is a line, the same line by places, tents on knots from coarse to fine, and spikes at values that stand
out. Its heights are prior deviations at alpha = 1e-4: a plain l2 penalty on tents whose heights halve from one level to
the next is a penalty on roughness.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tacit.columns.spec import JOB, MISSING, ROWS
from tacit.types import Curves, Vector

# --- The code of protected rows ------------------------------------------------------------------------


LONG = 1000.0  # a range from 0 or above to this or beyond has its places by asinh, unless the job says otherwise
STEPS = 1000.0  # such places are linear up to one of so many steps of the range
FEWEST_PAIRS, MOST_PAIRS = 2, 8  # by the rule
MOST_STATED_PAIRS = 64  # by the job
EXACT_VALUES, EXACT_PART = 32, 1 / 3  # buckets of exact values by the rule, and their part of the squared norm
EXACT_ROOM = 10.0  # pairs that the noise leaves room for, from which these buckets are worth their noise
MOST_EXACT = 2**16  # in a file that is read
MIXED = (  # shifts and factors of splitmix64
    (np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)),
    (np.uint64(27), np.uint64(0x94D049BB133111EB)),
)
LAST_SHIFT = np.uint64(31)
TOO_NOISY, CENTRE_ODDS = 0.3, 19.0  # as in mechanisms/gaussian/settings.py: beyond it rows are not centred


@dataclass(frozen=True)
class CurveNoise:
    """What the number of pairs follows from: public numbers of the plan.

    Attributes
    ----------
    total : float
        Deviation of the noise in one entry of the mean gradient, all rounds together, times the number of rows.
    graph : bool
        Whether rows are split over a graph, where a private mean row is given up beyond a level of noise.
    """

    total: float
    graph: bool = False

    def pairs(self, rows: int, numbers: int, lists: Sequence[int]) -> int:
        """Pairs of frequencies for every number of a party; 0 keeps numbers linear.

        Parameters
        ----------
        rows : int
            Rows that are trained on.
        numbers : int
            Columns of numbers.
        lists : sequence of int
            For each column of categories, how many columns it becomes.
        """
        noise = self.total / max(rows, 1)
        pairs = int(np.clip(round(self._room(rows, numbers + len(lists))), FEWEST_PAIRS, MOST_PAIRS))
        if self.graph:
            while pairs and noise * math.sqrt(CENTRE_ODDS * (2 * pairs * numbers + sum(lists))) >= TOO_NOISY:
                pairs -= 1
        return pairs

    def exact(self, rows: int, columns: int) -> int:
        """Buckets of exact values for a number whose values repeat: some, where the noise leaves room for them."""
        return EXACT_VALUES if not self.graph and self._room(rows, columns) >= EXACT_ROOM else 0

    def _room(self, rows: int, columns: int) -> float:
        """Pairs that the noise leaves room for."""
        return float((max(columns, 1) * self.total / max(rows, 1)) ** (-1 / 3))


@dataclass(frozen=True)
class FourierColumn:
    """A number in a public range as m pairs of frequencies, of norm 1 for every cell.

    Attributes
    ----------
    name : str
    low, high : float
        The range; a cell beyond it counts as its end.
    pairs : int
        m; 0 keeps the number linear in its place, from -1 to 1.
    log : bool
        Whether places are by asinh: fine near `low`, coarse near `high`.
    whole : bool
        Whether cells are whole numbers: then more pairs than values are of no use.
    missing : bool
        Whether blanks have a column of their own; without one a blank counts as the middle of the range.
    days : bool
        Whether the cells are dates, as days since 1970-01-01.
    source : {"rows", "job"}
    exact : int
        Buckets that exact values are hashed into, beside the waves: amounts that come again and again, as fees and
        limits do, then have an effect of their own. 0 for none.
    """

    name: str
    low: float
    high: float
    pairs: int
    log: bool = False
    whole: bool = False
    missing: bool = False
    days: bool = False
    source: str = JOB
    exact: int = 0

    @property
    def used_pairs(self) -> int:
        """Pairs of frequencies that the range has a use for."""
        steps = self.high - self.low
        if not self.whole or self.pairs == 0:
            return self.pairs
        return 0 if steps <= 1 else math.ceil(min(self.pairs, steps / 2))

    @property
    def used_exact(self) -> int:
        """Buckets of exact values: none beside a line."""
        return self.exact if self.used_pairs else 0

    @property
    def fill(self) -> float:
        """What a blank counts as, where blanks have no column."""
        return self.low / 2 + self.high / 2

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the encoded columns: buckets of exact values, waves, blanks."""
        exact = [f"{self.name} value {k}" for k in range(self.used_exact)]
        waves = [f"{self.name} {wave} {k}" for wave in ("cos", "sin") for k in range(1, self.used_pairs + 1)]
        own = [*exact, *waves] or [self.name]
        return tuple([*own, f"{self.name} {MISSING}"] if self.missing else own)

    @property
    def filled(self) -> int:
        """Encoded columns that are not 0 in a row."""
        return len(self.names) - max(self.used_exact - 1, 0)

    def place(self, cells: Vector) -> Vector:
        """From 0 at `low` to 1 at `high`; beyond the range as at its ends."""
        part = _part_of_way(np.clip(cells, self.low, self.high), self.low, self.high)
        return np.asarray(np.arcsinh(STEPS * part) / math.asinh(STEPS) if self.log else part)

    def value(self, places: Vector) -> Vector:
        """The cells at some places."""
        part = np.sinh(places * math.asinh(STEPS)) / STEPS if self.log else places
        return np.asarray(self.low * (1 - part) + self.high * part)

    def encode(self, cells: Vector) -> Vector:
        """One row of encoded numbers for each cell."""
        blank = np.isnan(cells)
        filled = np.where(blank, self.fill, cells)
        code = self._waves(self.place(filled))
        if self.used_exact:
            code = np.hstack([self.exact_height * np.eye(self.exact)[self.bucket(filled)], code])
        if self.missing:
            code[blank] = 0.0
            return np.column_stack([code, blank])
        return code

    def share(self, cells: Vector, coef: Vector) -> Vector:
        """What each cell adds to the score."""
        return np.asarray(self.encode(cells) @ coef)

    def bucket(self, cells: Vector) -> npt.NDArray[np.int64]:
        """The bucket of each exact value, the same for everyone: the bits of the number, mixed (splitmix64)."""
        values = np.clip(cells, self.low, self.high).astype(np.float64) + 0.0  # there is one zero
        bits = values.view(np.uint64)
        for shift, factor in MIXED:
            bits = (bits ^ (bits >> shift)) * factor
        return ((bits ^ (bits >> LAST_SHIFT)) % np.uint64(self.exact)).astype(np.int64)

    @property
    def exact_height(self) -> float:
        """What stands in the column of a bucket."""
        return math.sqrt(EXACT_PART)

    @property
    def heights(self) -> Vector:
        """s_k, for the frequencies that are used; less where exact values take a part of the norm."""
        k = np.arange(1, self.used_pairs + 1)
        part = 1 - EXACT_PART if self.used_exact else 1.0
        return np.asarray(np.sqrt(part) / np.sqrt(k * np.sum(1 / k)))

    def _waves(self, places: Vector) -> Vector:
        if self.used_pairs == 0:
            return np.asarray(2 * places[:, None] - 1)
        angles = np.pi * np.arange(1, self.used_pairs + 1) * places[:, None]
        return np.hstack([self.heights * np.cos(angles), self.heights * np.sin(angles)])

    def grid(self) -> Vector:
        """Cells at which a curve is drawn, even in places."""
        return self.value(np.linspace(0.0, 1.0, 101))


def _part_of_way(cells: Vector, low: Vector | float, high: Vector | float) -> Vector:
    """How far cells are on the way from `low` to `high`, from 0 to 1."""
    with np.errstate(over="ignore"):
        scale = np.where(np.isinf(np.subtract(high, low)), 0.5, 1.0)  # halves where the width would overflow
    return np.asarray((cells * scale - low * scale) / (high * scale - low * scale))


# --- The code of rows that nobody protects -------------------------------------------------------------


UNIT = 0.01  # 1 / sqrt(1e-4): heights are prior deviations at the default alpha
LINE, CURVE, SPIKE = 2.0, 4.0, 1.0
SHARED = 8  # heights are for so many columns of all parties; with more, their squares shrink in proportion
FEWEST_LEVELS, MOST_LEVELS = 3, 5  # 9 to 33 knots
MOST_KNOTS = 64  # in a file that is read
LEAST_MASS, LEAST_ROWS, TIMES, AROUND, MOST_SPIKES = 0.001, 10, 3, 5, 16


def unit_height(rows: float, columns: int) -> float:
    """The unit of heights: the score of all columns together has the same prior, however many share it.

    Parameters
    ----------
    rows : float
        Rows that are trained on, or the sum of their weights.
    columns : int
        Columns of all parties, before they are encoded: those of this party times the number of parties.
    """
    return UNIT * math.sqrt(rows * min(1.0, SHARED / max(columns, 1)))


@dataclass(frozen=True)
class SplineColumn:
    """A number as a line, tents on knots of its own rows, and spikes; as at the outermost knots beyond them.

    Attributes
    ----------
    name : str
    knots : tuple of float
        Rising.
    spikes : tuple of float
        Values with a column of their own.
    mean, deviation : float
        Of the cells: the line is (x - mean) / deviation.
    unit : float
        Height of every column, see `unit_height`.
    missing : bool
        Whether blanks have a column of their own; a blank is 0 in all others.
    days : bool
        Whether the cells are dates, as days since 1970-01-01.
    source : {"rows", "job"}
    """

    name: str
    knots: tuple[float, ...]
    spikes: tuple[float, ...] = ()
    mean: float = 0.0
    deviation: float = 1.0
    unit: float = 1.0
    missing: bool = False
    days: bool = False
    source: str = ROWS

    @property
    def low(self) -> float:
        """The outermost knot below."""
        return self.knots[0]

    @property
    def high(self) -> float:
        """The outermost knot above."""
        return self.knots[-1]

    @property
    def fill(self) -> float:
        """What a blank counts as: the line is 0 there."""
        return self.mean

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        tents = self.shapes.shape[1] - 2
        own = [f"{self.name} line"]
        if tents > 0:
            own += [f"{self.name} place", *(f"{self.name} tent {k}" for k in range(1, tents + 1))]
        own += [f"{self.name} spike {k}" for k in range(1, len(self.spikes) + 1)]
        return tuple([*own, f"{self.name} {MISSING}"] if self.missing else own)

    @property
    def filled(self) -> int:
        """Encoded columns that are not 0 in a row, at most."""
        levels = math.ceil(math.log2(max(len(self.knots) - 1, 1)))
        return min(len(self.names), 2 + levels)

    @cached_property
    def shapes(self) -> Vector:
        """Line, place and tents at the knots, one column each, in units of `unit`."""
        knots = np.array(self.knots)
        line = LINE * ((knots / 2 - self.mean / 2) / self.deviation * 2)
        if len(knots) < 3:
            return np.asarray(line[:, None])
        place = _places(knots)
        return np.column_stack([line, CURVE * (place - 0.5), *_tents(place)])

    def encode(self, cells: Vector) -> Vector:
        """One row of encoded numbers for each cell."""
        blank = np.isnan(cells)
        below, part = self.between(np.where(blank, self.knots[0], cells))
        above = np.minimum(below + 1, len(self.knots) - 1)
        curve = (1 - part)[:, None] * self.shapes[below] + part[:, None] * self.shapes[above]
        inside = np.clip(cells, self.low, self.high)
        code = np.hstack([curve, SPIKE * (inside[:, None] == np.array(self.spikes))])
        code[blank] = 0.0
        return np.asarray(self.unit * (np.column_stack([code, blank]) if self.missing else code))

    def share(self, cells: Vector, coef: Vector) -> Vector:
        """What each cell adds to the score."""
        return np.asarray(self.encode(cells) @ coef)

    def between(self, cells: Vector) -> tuple[Vector, Vector]:
        """The knot below each cell, and how far the cell is on its way to the next, from 0 to 1."""
        if len(self.knots) == 1:
            return np.zeros(cells.shape, dtype=np.intp), np.zeros(cells.shape)
        knots, inside = np.array(self.knots), np.clip(cells, self.low, self.high)
        below = np.minimum(np.searchsorted(knots, inside, side="right") - 1, len(knots) - 2)
        return below, _part_of_way(inside, knots[below], knots[below + 1])

    def grid(self) -> Vector:
        """Cells at which a curve is drawn: even, at the knots, and at the spikes."""
        even = np.linspace(0.0, 1.0, 101)
        return np.unique(np.r_[self.low * (1 - even) + self.high * even, self.knots, self.spikes])


def fit_spline(
    name: str,
    values: Vector,
    moments: tuple[float, float],
    unit: float,
    weights: Vector | None = None,
    *,
    missing: bool = False,
    days: bool = False,
) -> SplineColumn:
    """The curve of a column of rows that nobody protects.

    Parameters
    ----------
    name : str
    values : array
        Its cells, without blanks.
    moments : (float, float)
        Their mean and deviation.
    unit : float
        See `unit_height`.
    weights : array, optional
        What each cell counts for; 1 by default.
    missing, days : bool
        Of the column.
    """
    if not values.size:
        return SplineColumn(name, (0.0,), unit=unit, missing=missing, days=days)
    distinct, counts = _counted(values, weights)
    knots = _knots(distinct, counts)
    spikes = distinct[:0] if len(knots) == len(distinct) else _spikes(distinct, counts)
    mean, deviation = moments
    ends = tuple(knots.tolist())
    return SplineColumn(name, ends, tuple(spikes.tolist()), mean, deviation or 1.0, unit, missing, days)


def _counted(values: Vector, weights: Vector | None) -> tuple[Vector, Vector]:
    """The different values, and in how many rows each is, or what these count for."""
    if weights is None:
        distinct, counts = np.unique(values, return_counts=True)
        return distinct, counts.astype(np.float64)
    distinct, places = np.unique(values, return_inverse=True)
    return distinct, np.asarray(np.bincount(places, weights), dtype=np.float64)


def _knots(distinct: Vector, counts: Vector) -> Vector:
    """All distinct values where they are few; else even in the sum of the roots of their counts, which keeps tails."""
    levels = int(np.clip(math.ceil(math.log2(counts.sum()) / 3), FEWEST_LEVELS, MOST_LEVELS))
    if len(distinct) <= 2**levels + 1:
        return distinct
    weight = np.cumsum(np.sqrt(counts))
    at = np.searchsorted(weight, np.linspace(weight[0], weight[-1], 2**levels + 1)).clip(0, len(distinct) - 1)
    return np.asarray(distinct[np.unique(at)])


def _spikes(distinct: Vector, counts: Vector) -> Vector:
    """Values in many more rows than their neighbours, the most frequent ones at most."""
    often = np.flatnonzero(counts >= max(LEAST_ROWS, LEAST_MASS * counts.sum()))
    around = [np.median(counts[max(k - AROUND, 0) : k + AROUND + 1]) for k in often.tolist()]
    found = often[counts[often] >= TIMES * np.array(around)] if often.size else often
    return np.asarray(np.sort(distinct[found[np.argsort(-counts[found], kind="stable")][:MOST_SPIKES]]))


def _places(knots: Vector) -> Vector:
    """Places of the knots from 0 to 1: half by order, half by value."""
    return np.asarray((np.linspace(0.0, 1.0, len(knots)) + _part_of_way(knots, knots[0], knots[-1])) / 2)


def _tents(place: Vector) -> list[Vector]:
    """Tents at the knots, from coarse to fine: each on a half of the knots of the one before."""
    halves, tents = [(0, len(place) - 1)], []
    for a, b in halves:
        if b - a > 1:
            c = (a + b) // 2
            height = CURVE / 2 * 4 * (place[c] - place[a]) * (place[b] - place[c]) / (place[b] - place[a])
            tents.append(height * np.interp(place, place[[a, c, b]], [0.0, 1.0, 0.0]))
            halves += [(a, c), (c, b)]
    return tents


# --- Lines among curves: which directions of a code are straight, and which bend -------------------------


NEAR_LINE = 1e-3  # penalty on the coefficients of the line: a longer vector would come nearer, and take more noise
OTHER = -1.0  # in place of a frequency: of categories, blanks and numbers that are lines


@dataclass(frozen=True, eq=False)
class Bends:
    """Directions of encoded columns, one for each: the line of every curve, then what bends it, from coarse to fine.

    Attributes
    ----------
    turn : array
        Orthogonal; its columns are the directions.
    frequency : array
        Of each direction: 0 for a line, 1, 2, ... for what bends, `OTHER` for columns that are no curves.
    blocks : tuple of slice
        The directions of each curve.
    """

    turn: Vector
    frequency: Vector
    blocks: tuple[slice, ...]

    def scales(self, line: float, bend: float, decay: float) -> Vector:
        """Prior deviations: `line` for lines, `bend` over a power of the frequency for what bends, 1 for the rest."""
        bent = bend * np.maximum(self.frequency, 1.0) ** -decay
        return np.where(self.frequency == OTHER, 1.0, np.where(self.frequency == 0.0, line, bent))


def bends_of(curves: Curves, columns: int) -> Bends:
    """The directions of so many encoded columns with these curves among them; public, but for knots of own rows."""
    turn, frequency = np.eye(columns), np.full(columns, OTHER)
    for start, width, pairs in curves:
        own = slice(start, start + width)
        if pairs:
            turn[own, own] = _wave_turn(pairs)
        frequency[own] = [0.0, *np.repeat(np.arange(1.0, pairs + 1), 2)[1:]] if pairs else [0.0, *[1.0] * (width - 1)]
    return Bends(turn, frequency, tuple(slice(start, start + width) for start, width, _ in curves))


@cache
def _wave_turn(pairs: int) -> Vector:
    """Directions of a code of waves: the one nearest to a line over the range, then the others by frequency."""
    column = FourierColumn("", 0.0, 1.0, pairs)
    places = column.grid()
    code = column.encode(places)
    code = code - code.mean(axis=0)
    square = code.T @ code / len(places) + NEAR_LINE * np.eye(2 * pairs)
    line = np.linalg.solve(square, code.T @ (2 * places - 1) / len(places))
    order = [pairs, *(at for k in range(1, pairs) for at in (k, pairs + k))]  # sin 1, cos 2, sin 2, ...
    turn, signs = np.linalg.qr(np.column_stack([line, np.eye(2 * pairs)[:, order]]))
    return np.asarray(turn * np.sign(np.diag(signs)))


# --- From coefficients back to the curve of a column, whatever it is encoded as ------------------------


class DrawnColumn(Protocol):
    """A column of any kind, as far as its curve is concerned."""

    def grid(self) -> Any:
        """Cells at which its curve is drawn."""

    def share(self, cells: Any, coef: Vector) -> Vector:
        """What each cell adds to the score."""


def curve_values(
    column: DrawnColumn, coef: Vector, cells: Any = None, *, centre: Vector | None = None
) -> tuple[Any, Vector]:
    """The curve of one column: what its cells add to the score.

    Parameters
    ----------
    column : Column
        Of any kind: a number as a line or a curve, categories, or buckets.
    coef : array
        The coefficients of `column.names`.
    cells : array, optional
        Numbers, with NaN for a blank; or texts, with None for a blank. Without them those of `column.grid()`: numbers
        from low to high, the categories, or the numbers of the buckets.
    centre : array, optional
        The mean encoded row, in the order of `column.names`: the curve is then against the average row. Without it the
        curve is as the model adds it up. The mean of protected rows must not be given here.

    Returns
    -------
    (array, array)
        The cells, and the value of the curve at each of them.
    """
    cells = column.grid() if cells is None else cells
    values = column.share(cells, np.asarray(coef, dtype=np.float64))
    return cells, values if centre is None else values - float(np.asarray(centre) @ coef)
