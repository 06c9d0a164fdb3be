"""What each column of a party adds to the score: its curve, with the band that noise makes where that is known.

A value is what `tacit explain` gives as the share of a row with this cell, where the row is neither clipped nor bent
off. So it is against the private centre of the party's rows where its part of the model has one, and as the model adds
it up elsewhere. Everything is computed from the saved model: no row is looked at.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.columns.curves import FourierColumn, SplineColumn, curve_values
from tacit.columns.encoder import Column, CurveColumn, Encoder, NumberColumn, TextColumn
from tacit.columns.spec import MISSING
from tacit.errors import InputError
from tacit.files import show_path
from tacit.run.folder import SAMPLES, RunFolder
from tacit.run.predict import SavedModel, load_model, load_part
from tacit.run.result import ALL_PARTIES, PartyModel
from tacit.text import listing, nearest, show
from tacit.types import Vector

CURVE, LINE, CATEGORY = "curve", "line", "category"
WIDE = 1.959964  # deviations on either side of a value: 95 % of a normal law
NEAR = 0.1  # part of the range below the middle knot of a curve whose range is long
MOST_WHOLE = 201  # whole numbers in a range up to which a curve is drawn at each of them

Points = tuple[npt.NDArray[Any], Vector, Vector, Vector]


@dataclass(frozen=True, eq=False)
class Curve:
    """What one column of a party's file adds to the score.

    Attributes
    ----------
    party, column : str
    kind : {"curve", "line", "category"}
    cells : array
        Numbers, dates as days since 1970-01-01, the last one NaN where blanks have a value of their own; or the names
        of categories, "missing" for blanks.
    value : array
        What each cell adds.
    low, high : array
        The band that holds the mean over other noise on the same rows in about 95 % of runs (measured: 89 to 99 %); NaN
        where noise is not known or there is none.
    days : bool
        Whether the cells are dates.
    log : bool
        Whether small numbers are told apart more finely than large ones.
    apart : tuple of float
        Cells with a value of their own, beside the curve.
    """

    party: str
    column: str
    kind: str
    cells: npt.NDArray[Any]
    value: Vector
    low: Vector
    high: Vector
    days: bool = False
    log: bool = False
    apart: tuple[float, ...] = ()

    @property
    def has_band(self) -> bool:
        """Whether it is known what noise does to the values."""
        return bool(np.isfinite(self.low).all())

    @property
    def blank(self) -> npt.NDArray[np.bool_]:
        """Which of the cells stands for blanks."""
        return np.asarray(self.cells == MISSING if self.kind == CATEGORY else np.isnan(self.cells))

    @property
    def spread(self) -> float:
        """How far the values are apart: their deviation over the cells, less what noise makes of it; no blanks."""
        shown = ~self.blank
        noise = ((self.high - self.low)[shown] / (2 * WIDE)) ** 2 if self.has_band else 0.0
        return math.sqrt(max(float(np.var(self.value[shown]) - np.mean(noise)), 0.0))

    @property
    def points(self) -> Points:
        """Cells, value, low and high as plain arrays; dates as such, NaT for blanks."""
        return self.x, self.value, self.low, self.high

    @property
    def x(self) -> npt.NDArray[Any]:
        """The cells, dates as such."""
        if not self.days:
            return self.cells
        days = np.where(self.blank, 0.0, self.cells).astype(np.int64).astype("datetime64[D]")
        return np.where(self.blank, np.datetime64("NaT"), days)


def party_curves(
    name: str, part: PartyModel, encoder: Encoder, centre: Vector | None = None, classes: Sequence[Any] = ()
) -> tuple[Curve, ...]:
    """The curves of all columns of a part of the model, in the order of its file; for each of several classes one.

    They are against the encoded row `centre`, by default the private centre of the part's rows where it has one.
    """
    if part.outputs > 1:
        said = classes or range(1, part.outputs + 1)
        parts = [(party_curves(name, part.of_class(k), encoder, centre), one) for k, one in enumerate(said)]
        return tuple(replace(curve, column=f"{curve.column}, class {one}") for own, one in parts for curve in own)
    if centre is None and part.clip is not None:
        centre = part.clip.centre
    pairs = zip(encoder.columns, encoder.slices, strict=True)
    return tuple(_curve(name, part, column, own, None if centre is None else centre[own]) for column, own in pairs)


def _curve(party: str, part: PartyModel, column: Column, own: slice, centre: Vector | None) -> Curve:
    cells, coef = _cells(column), part.linear_coef[own]
    value = curve_values(column, coef, cells, centre=centre)[1]
    noise = np.full((coef.size, coef.size), math.nan) if part.noise is None else part.noise[own, own]
    wide = WIDE * (1 + part.bend) * _deviations(column, cells, noise, centre)
    band = value, value - wide, value + wide
    if isinstance(column, TextColumn):
        return Curve(party, column.name, CATEGORY, _names(column), *band)
    apart = column.spikes if isinstance(column, SplineColumn) else ()
    return Curve(party, column.name, _kind(column), cells, *band, column.days, _is_long(column), apart)


def _deviations(column: Column, cells: Any, noise: Vector, centre: Vector | None) -> Vector:
    """The deviation of each value, from the covariance of the coefficients."""
    if np.isnan(noise).any():
        return np.full(len(cells), math.nan)
    size, vectors = np.linalg.eigh(noise)
    parts = vectors * np.sqrt(np.maximum(size, 0.0))  # their outer products sum to the covariance
    return np.asarray(np.linalg.norm([curve_values(column, p, cells, centre=centre)[1] for p in parts.T], axis=0))


def _cells(column: Column) -> npt.NDArray[Any]:
    """Where a curve is drawn: dates at whole days, whole numbers at each of them where there are few."""
    cells = column.grid()
    if isinstance(column, TextColumn):
        return np.asarray(cells)
    if isinstance(column, NumberColumn):
        even = np.linspace(0.0, 1.0, 41)  # a band is not straight
        cells = cells[0] * (1 - even) + cells[-1] * even
    if column.days:
        cells = np.unique(np.floor(cells))
    elif isinstance(column, FourierColumn) and column.whole and column.high - column.low < MOST_WHOLE:
        cells = np.unique(np.r_[np.arange(math.ceil(column.low), math.floor(column.high) + 1), column.low, column.high])
    return np.append(cells, math.nan) if column.missing else np.asarray(cells)


def _kind(column: NumberColumn | CurveColumn) -> str:
    straight = isinstance(column, NumberColumn) or (isinstance(column, FourierColumn) and column.used_pairs == 0)
    return LINE if straight else CURVE


def _is_long(column: NumberColumn | CurveColumn) -> bool:
    """Whether most is told apart near the lower end of a range."""
    if isinstance(column, SplineColumn):
        return float(np.median(column.knots)) - column.low < NEAR * (column.high - column.low)
    return isinstance(column, FourierColumn) and column.log


def _names(column: TextColumn) -> npt.NDArray[Any]:
    """The categories, or "bucket 3" and so on."""
    return np.array([name.removeprefix(f"{column.name}=") for name in column.names], dtype=object)


NO_CURVES = (
    "a model of trees has no curves, as what a column adds depends on the other columns of its party: see tacit "
    "explain for one row, and tacit report for the columns that matter most"
)

# --- of a run ------------------------------------------------------------------------------------------


def load_curves(path: str | Path) -> dict[str, tuple[Curve, ...]]:
    """The curves of a finished run by party: of all parts of the model that are in its folder.

    Raises
    ------
    InputError
        Where there is no finished run, a file is damaged, or no column was encoded.
    """
    folder = RunFolder(path)
    apart = folder.is_part and not (folder.joint.exists() and folder.read_joint().get("split") == SAMPLES)
    found = _own_curves(folder) if apart else model_curves(load_model(path))
    if not found:
        raise InputError(
            f"the run in {show_path(folder.path)} has no curves: its columns were not encoded, as those of LIBSVM "
            "files and of rows on a cluster are not"
        )
    return found


def _own_curves(folder: RunFolder) -> dict[str, tuple[Curve, ...]]:
    """Those of the one part that an organisation has of a joint run."""
    files = sorted(folder.joint.parent.glob("*.json"))
    parts = [load_part(file) for file in files if file != folder.joint]
    coded = [(part, encoder) for part, _, encoder in parts if isinstance(encoder, Encoder)]
    return {part.name: party_curves(part.name, part, encoder) for part, encoder in coded}


def model_curves(model: SavedModel) -> dict[str, tuple[Curve, ...]]:
    """The curves of a model by party; parties whose columns were not encoded have none.

    Raises
    ------
    InputError
        For a model of trees.
    """
    if model.is_trees:
        raise InputError(NO_CURVES)
    found: dict[str, tuple[Curve, ...]] = {}
    for part, encoder in zip(model.parties, model.encoders, strict=True):
        if isinstance(encoder, Encoder):
            name = part.name if part.name in model.names else ALL_PARTIES
            found[name] = party_curves(name, part, encoder, classes=model.classes)
    return found


def of_party(curves: Mapping[str, tuple[Curve, ...]], party: str | None) -> dict[str, tuple[Curve, ...]]:
    """The curves of one party alone; all of them where none is named.

    Raises
    ------
    InputError
        Where there are no curves of this party.
    """
    if party is None:
        return dict(curves)
    if list(curves) == [ALL_PARTIES]:
        raise InputError("--party is not used here: all parties share the columns of this model, so leave it out")
    if party not in curves:
        known = list(curves)
        raise InputError(
            f"there are no curves of {show(party)}{nearest(party, known)}: there are those of {listing(known)}"
        )
    return {party: curves[party]}
