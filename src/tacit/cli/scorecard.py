"""`tacit scorecard`: a classifier as points that are added up, party by party, with PDO scaling.

The score of a row is the logarithm of the odds of the positive label. Points are `offset + factor * (log odds of the
good label)` with factor = pdo / log 2, so that the odds of good double every `pdo` points, and offset such that odds of
`odds` to 1 are `score` points. What a column adds to the score becomes what it adds in points. Every column has at
least 0 points; the rest is in the points that every row has.

A curve is given by segments, between whose ends points go in a straight line. Knots are left out where that changes no
point by more than half of the last digit shown.
"""

from __future__ import annotations

import argparse
import csv
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.columns.curves import SplineColumn, curve_values
from tacit.columns.encoder import Column, Encoder, NumberColumn, TextColumn
from tacit.columns.spec import MISSING
from tacit.errors import InputError
from tacit.files import writable, write_text
from tacit.plan.terms import named_loss
from tacit.run.predict import SavedModel, load_model
from tacit.run.result import ALL_PARTIES, PartyModel
from tacit.text import day, listing, nearest, plural, show
from tacit.types import Vector

DESCRIPTION = """\
Write a classifier as a scorecard: points for every category and for every
segment of a curve or line, which are added up. The odds of the good label
double every PDO points; odds of ODDS to 1 are SCORE points.

By default the good label is the negative one, so that fewer points mean a
higher probability of the positive label. Everything comes from the model: no
row is looked at. Points follow straight lines between the ends of a segment."""
EPILOG = """\
examples:
  tacit scorecard runs/credit --pdo 20 --score 600 --odds 50
  tacit scorecard runs/credit --out card.csv --page card.html
  tacit scorecard runs/credit --party bank      the part of this party"""
HEADER = ("party", "column", "cell", "from", "to", "points", "points at the end")
EVEN = np.linspace(0.0, 1.0, 65)  # places of a smooth curve before it is cut into segments
BASE = "every row"
DATES = "date"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the verb."""
    parser.add_argument("directory", metavar="RUN", help="directory that tacit train wrote")
    parser.add_argument("--pdo", metavar="N", type=float, default=20.0, help="points that double the odds (20)")
    parser.add_argument("--score", metavar="N", type=float, default=600.0, help="points at the odds of --odds (600)")
    parser.add_argument("--odds", metavar="N", type=float, default=50.0, help="odds of the good label there (50)")
    parser.add_argument("--good", metavar="LABEL", help="the label of which many points speak (the negative one)")
    parser.add_argument("--digits", metavar="N", type=int, default=0, help="digits after the point (0)")
    parser.add_argument("--party", metavar="NAME", help="the points of this party alone")
    parser.add_argument("--out", metavar="FILE", help="write a CSV file instead of a table at the terminal")
    parser.add_argument("--page", metavar="FILE", help="write a page (HTML)")


# --- points ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PointScale:
    """How log odds of the positive label become points; `sign` is -1 where points speak of the negative one."""

    factor: float
    offset: float
    sign: float
    good: str
    digits: int = 0

    @classmethod
    def make(cls, model: SavedModel, options: argparse.Namespace) -> PointScale:
        """The scale that a user asks for.

        Raises
        ------
        InputError
            For numbers that make no scale, and for a label that the model does not have.
        """
        for name, value in (("--pdo", options.pdo), ("--odds", options.odds)):
            if not 0 < value < math.inf:
                raise InputError(f"{name} {value:g} is not allowed: it must be a number above 0")
        if not math.isfinite(options.score):
            raise InputError(f"--score {options.score:g} is not allowed: it must be a number")
        if not 0 <= options.digits <= 6:
            raise InputError(f"--digits {options.digits} is not allowed: it must be a whole number from 0 to 6")
        classes = [str(value) for value in model.classes]
        good = classes[0] if options.good is None else options.good
        if good not in classes:
            raise InputError(f"--good {show(good)} is none of the labels{nearest(good, classes)}: {listing(classes)}")
        factor = options.pdo / math.log(2)
        offset = options.score - factor * math.log(options.odds)
        return cls(factor, offset, 1.0 if good == classes[1] else -1.0, good, options.digits)

    def points(self, value: Any) -> Any:
        """What a part of the log odds is in points, without the offset."""
        return self.sign * self.factor * value

    @property
    def exact(self) -> float:
        """Half of the last digit."""
        return 0.5 * 10.0**-self.digits


@dataclass(frozen=True)
class Segment:
    """Points of one category, of blanks, of a value of its own, or of a piece of a curve from `low` to `high`."""

    party: str
    column: str
    cell: str
    low: float | None
    high: float | None
    points: float
    end: float

    def shown(self, digits: int) -> tuple[str, ...]:
        """As a row of the table."""
        written = day if self.cell == DATES else "{:.6g}".format
        ends = ("" if value is None else written(value) for value in (self.low, self.high))
        points = [f"{value + 0.0:.{digits}f}" for value in (self.points, self.end)]
        return (self.party, self.column, self.cell, *ends, *points)


@dataclass(frozen=True)
class Scorecard:
    """A scorecard: the points of every row, and those of each cell."""

    scale: PointScale
    base: float
    segments: tuple[Segment, ...]
    remarks: tuple[str, ...] = ()

    def rows(self) -> list[tuple[str, ...]]:
        """The table, what every row has first."""
        first = Segment(BASE, "", "", None, None, self.base, self.base)
        return [one.shown(self.scale.digits) for one in (first, *self.segments)]


def make_card(model: SavedModel, scale: PointScale) -> Scorecard:
    """The scorecard of a model.

    Raises
    ------
    InputError
        For what is no linear classifier with log odds, or whose columns were not encoded.
    """
    check_model(model)
    base = scale.offset + scale.points(float(model.constant))
    segments: list[Segment] = []
    for part, encoder in zip(model.parties, model.encoders, strict=True):
        name = part.name if part.name in model.names else ALL_PARTIES
        base -= scale.points(part.linear_offset)
        for column, own in zip(encoder.columns if encoder else (), encoder.slices if encoder else (), strict=True):
            found = list(_segments(name, column, part.linear_coef[own], scale))
            least = min(min(one.points, one.end) for one in found)
            base += least
            segments += [
                Segment(one.party, one.column, one.cell, one.low, one.high, one.points - least, one.end - least)
                for one in found
            ]
    return Scorecard(scale, base, tuple(segments), tuple(_remarks(model.parties)))


def check_model(model: SavedModel) -> None:
    """Refuse what has no scorecard."""
    if not model.has_coefficients:
        raise InputError("a model of trees has no scorecard: train lines or curves")
    if model.task != "classification" or len(model.classes) != 2 or not named_loss(model.loss).log_odds:
        raise InputError(f'a scorecard needs two classes and loss = "logistic": this model has loss {show(model.loss)}')
    if not all(isinstance(encoder, Encoder) for encoder in model.encoders):
        raise InputError("the columns of this model were not encoded, as those of LIBSVM files are not: no scorecard")


def _remarks(parts: Sequence[PartyModel]) -> Iterator[str]:
    if not all(part.is_linear for part in parts):
        yield (
            "a private model clips long rows and damps large scores: points are those of rows that are neither clipped "
            "nor damped"
        )


def _segments(party: str, column: Column, coef: Vector, scale: PointScale) -> Iterator[Segment]:
    """The points of one column, before its least points are taken off."""
    if isinstance(column, TextColumn):
        cells = column.grid()
        for name, value in zip(column.names, curve_values(column, coef, cells)[1], strict=True):
            yield _single(party, column, name.removeprefix(f"{column.name}="), scale.points(float(value)))
        return
    places = _places(column)
    values = scale.points(_without_spikes(column, coef, places))
    kept = simplified(places, values, scale.exact)
    for a, b in pairwise(kept):
        yield Segment(
            party, column.name, _cell(column), float(places[a]), float(places[b]), float(values[a]), float(values[b])
        )
    if len(kept) == 1:
        yield _single(party, column, "any", float(values[0]))
    for spike in column.spikes if isinstance(column, SplineColumn) else ():
        value = curve_values(column, coef, np.array([spike]))[1]
        yield _single(party, column, f"= {day(spike) if column.days else f'{spike:g}'}", scale.points(float(value[0])))
    blank = scale.points(float(curve_values(column, coef, np.array([math.nan]))[1][0]))
    yield _single(party, column, MISSING, blank)


def _single(party: str, column: Column, cell: str, points: float) -> Segment:
    return Segment(party, column.name, cell, None, None, points, points)


def _cell(column: Any) -> str:
    """What a segment is, where the ends of its range are not the end of its line."""
    if column.days:
        return DATES
    return "goes on beyond" if isinstance(column, NumberColumn) and column.low is None else ""


def _places(column: Any) -> Vector:
    """Where a column is looked at: the knots of a spline, the ends of a line, places along a smooth curve."""
    if isinstance(column, SplineColumn):
        return np.array(column.knots)
    if isinstance(column, NumberColumn):
        return np.unique(column.grid())
    return np.unique(column.value(EVEN))


def _without_spikes(column: Any, coef: Vector, places: Vector) -> Vector:
    """The curve at these places, without values of their own that happen to be there."""
    if not isinstance(column, SplineColumn) or not column.spikes:
        return np.asarray(curve_values(column, coef, places)[1])
    plain, first = coef.copy(), len(column.names) - len(column.spikes) - column.missing
    plain[first : first + len(column.spikes)] = 0.0
    return np.asarray(curve_values(column, plain, places)[1])


def simplified(places: Vector, values: Vector, exact: float) -> npt.NDArray[np.intp]:
    """The places that are needed for straight lines between them to be that exact (Ramer, Douglas and Peucker)."""
    if len(places) < 3:
        return np.arange(len(places))
    line = np.interp(places, places[[0, -1]], values[[0, -1]])
    worst = int(np.argmax(np.abs(values - line)))
    if abs(values[worst] - line[worst]) <= exact:
        return np.array([0, len(places) - 1])
    left = simplified(places[: worst + 1], values[: worst + 1], exact)
    right = simplified(places[worst:], values[worst:], exact) + worst
    return np.concatenate([left, right[1:]])


# --- as a table and as a page --------------------------------------------------------------------------------


def run(options: argparse.Namespace) -> int:
    """Make the card and write it."""
    from tacit.run.folder import RunFolder
    from tacit.text import tell

    model = load_model(options.directory)
    check_model(model)
    card = make_card(model, PointScale.make(model, options))
    rows = _of_party(card, options.party)
    secret = RunFolder(options.directory).read_certificate().private
    for remark in card.remarks:
        tell(f"tacit: {remark}")
    if options.out is None and options.page is None:
        print("\n".join(table_lines(rows)))
    if options.out is not None:
        write_text(writable(options.out, "--out"), csv_text(rows), secret=secret)
        print(f"{plural(len(rows), 'row')} in {options.out}")
    if options.page is not None:
        write_text(writable(options.page, "--page"), page(card, rows, Path(options.directory).name), secret=secret)
        print(f"page in {options.page}")
    return 0


def _of_party(card: Scorecard, party: str | None) -> list[tuple[str, ...]]:
    rows = card.rows()
    if party is None:
        return rows
    names = list(dict.fromkeys(one.party for one in card.segments))
    if party not in names:
        raise InputError(f"there is no party {show(party)}{nearest(party, names)}: the parties are {listing(names)}")
    return [row for row in rows if row[0] == party]


def csv_text(rows: Sequence[tuple[str, ...]]) -> str:
    """The card as CSV."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows([HEADER, *rows])
    return buffer.getvalue()


def table_lines(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """The card as a table of text."""
    wide = [max(len(row[k]) for row in (HEADER, *rows)) for k in range(len(HEADER))]
    return [_line(row, wide) for row in (HEADER, *rows)]


def _line(row: Sequence[str], wide: Sequence[int]) -> str:
    cells = [f"{cell:<{w}}" if k < 3 else f"{cell:>{w}}" for k, (cell, w) in enumerate(zip(row, wide, strict=True))]
    return "  ".join(cells).rstrip()


def page(card: Scorecard, rows: Sequence[tuple[str, ...]], name: str) -> str:
    """The card as a page."""
    from tacit.report.pictures import fill
    from tacit.version import __version__

    scale = card.scale
    return fill(
        "scorecard.html",
        title=f"{name}: scorecard",
        good=scale.good,
        pdo=f"{scale.factor * math.log(2):g}",
        exact=f"{scale.exact:g}",
        offset=f"{scale.offset:.2f}",
        remarks=card.remarks,
        head=HEADER,
        rows=rows,
        version=__version__,
    )
