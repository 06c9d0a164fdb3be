"""The picture of one column: a curve, a line or bars, the band that noise makes, and blanks as a point of their own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tacit.columns.curves import STEPS
from tacit.columns.spec import MISSING
from tacit.report.pictures import SERIES, SOFT
from tacit.report.run_pictures import SIZE, Draw, short
from tacit.run.curves import CATEGORY, Curve
from tacit.types import Vector

BLANK = "blank"
ADDS = "added to the score"
LONGEST_NAME = 20  # characters of a category
TICKS = 4  # about so many on the axis of numbers
APART = 0.16  # of the axis: the least distance of two ticks on an axis by asinh
BAR = 0.21  # inches


def draw_curve(curve: Curve, colour: int = 0) -> Draw:
    """The picture of a column."""
    return _bars(curve, SERIES[colour]) if curve.kind == CATEGORY else _line(curve, SERIES[colour])


def size_of(curve: Curve) -> tuple[float, float]:
    """Inches: bars need the more room, the more there are."""
    return SIZE if curve.kind != CATEGORY else (SIZE[0], max(1.6, 0.75 + BAR * len(curve.value)))


def largest(curve: Curve, most: int) -> tuple[Curve, int]:
    """A column of categories with those that add or take off most, and how many are left out."""
    if curve.kind != CATEGORY or len(curve.value) <= most:
        return curve, 0
    kept = np.sort(np.argsort(-np.abs(curve.value), kind="stable")[:most])
    parts = (curve.cells[kept], curve.value[kept], curve.low[kept], curve.high[kept])
    return Curve(curve.party, curve.column, CATEGORY, *parts), len(curve.value) - most


# --- numbers -------------------------------------------------------------------------------------------


def _line(curve: Curve, colour: str) -> Draw:
    def draw(figure: Any) -> None:
        axes = figure.subplots()
        blank = curve.blank
        places = _Places(curve)
        at = places.of(curve.cells)
        drawn = ~blank & ~np.isin(curve.cells, curve.apart)
        axes.axhline(0, color=SOFT, linewidth=0.8)
        if curve.has_band:
            axes.fill_between(
                at[drawn], curve.low[drawn], curve.high[drawn], color=colour, alpha=0.22, linewidth=0, zorder=2
            )
        axes.plot(at[drawn], curve.value[drawn], color=colour, linewidth=1.8, zorder=3)
        _dots(axes, curve, at, ~blank & ~drawn, colour, 3.5)
        if blank.any():
            axes.axvline(0.6 * places.end + 0.4 * places.beyond, color=SOFT, linewidth=0.8, linestyle=":")
            _dots(axes, curve, np.full(at.size, places.beyond), blank, colour, 6)
        ticks, labels = places.ticks()
        if blank.any():
            ticks, labels = [*ticks, places.beyond], [*labels, BLANK]
        axes.set_xticks(ticks, labels)
        axes.set_ylabel(ADDS)
        axes.grid(visible=False, axis="x")

    return draw


def _dots(axes: Any, curve: Curve, at: Vector, which: Any, colour: str, size: float) -> None:
    if curve.has_band and which.any():
        axes.vlines(at[which], curve.low[which], curve.high[which], color=colour, alpha=0.5, linewidth=1.6)
    axes.plot(at[which], curve.value[which], "o", color=colour, markersize=size, zorder=4)


class _Places:
    """Where cells stand on the axis: as they are, or by asinh where a range is long."""

    def __init__(self, curve: Curve) -> None:
        cells = curve.cells[~curve.blank]
        self.curve, self.low, self.high = curve, float(cells.min()), float(cells.max())
        self.wide = self.high / 2 - self.low / 2  # half of it, as it may overflow
        self.by_asinh = curve.log and self.wide > 0
        self.end = float(self.of(np.array([self.high]))[0])
        start = float(self.of(np.array([self.low]))[0])
        self.beyond = self.end + 0.16 * ((self.end - start) or 1.0)

    def of(self, cells: Vector) -> Vector:
        """The places of some cells."""
        if not self.by_asinh:
            return np.asarray(cells, dtype=np.float64)
        return np.asarray(np.arcsinh(STEPS * (cells / 2 - self.low / 2) / self.wide) / math.asinh(STEPS))

    def ticks(self) -> tuple[list[float], list[str]]:
        """Some places with their labels."""
        if self.curve.days:
            return self._dates()
        values = self._steps() if self.by_asinh else self._even()
        return self.of(np.array(values)).tolist(), labels_of(values)

    def _even(self) -> list[float]:
        from matplotlib.ticker import MaxNLocator

        if self.wide == 0:
            return [self.low]
        values = MaxNLocator(TICKS, steps=[1, 2, 2.5, 5, 10]).tick_values(self.low, self.high)
        return [float(value) for value in values if self.low <= value <= self.high] or [self.low, self.high]

    def _steps(self) -> list[float]:
        """The lower end, and powers of 10 that are far enough from each other."""
        found = [self.low]
        largest = math.floor(math.log10(2 * self.wide))
        for power in range(largest - 4, largest + 1):
            value = 10.0**power + min(self.low, 0.0)
            if self.of(np.array([value]))[0] - self.of(np.array([found[-1]]))[0] >= APART:
                found.append(value)
        if 1 - self.of(np.array([found[-1]]))[0] >= APART:
            found.append(self.high)
        return found

    def _dates(self) -> tuple[list[float], list[str]]:
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, num2date

        locator = AutoDateLocator(minticks=2, maxticks=TICKS)
        locator.create_dummy_axis()
        values = [float(v) for v in locator.tick_values(num2date(self.low), num2date(self.high))]
        inside = [value for value in values if self.low <= value <= self.high] or [self.low]
        return inside, list(ConciseDateFormatter(locator, show_offset=False).format_ticks(inside))


def labels_of(values: Sequence[float]) -> list[str]:
    """Numbers in few letters, such as 20k or 1.5M."""
    return [_label(value) for value in values]


def _label(value: float) -> str:
    size = abs(value)
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if size >= max(unit, 1e4) and size < 1e3 * unit:
            return f"{value / unit:.3g}{letter}"
    return f"{value:.4g}" if size < 1e4 else f"{value:.2g}"


# --- categories ----------------------------------------------------------------------------------------


def _bars(curve: Curve, colour: str) -> Draw:
    def draw(figure: Any) -> None:
        axes = figure.subplots()
        order = np.argsort(curve.value, kind="stable")
        places = np.arange(order.size)
        value, blank = curve.value[order], curve.blank[order]
        for which, alpha in ((~blank, 0.85), (blank, 0.45)):
            axes.barh(places[which], value[which], height=0.66, color=colour, alpha=alpha, zorder=2)
        if curve.has_band:
            axes.hlines(places, curve.low[order], curve.high[order], color=SOFT, linewidth=1.4, zorder=3)
        axes.axvline(0, color=SOFT, linewidth=0.8)
        names = [BLANK if name == MISSING else short(str(name), LONGEST_NAME) for name in curve.cells[order]]
        axes.set_yticks(places, names, parse_math=False)
        axes.set_ylim(-0.6, order.size - 0.4)
        axes.locator_params(axis="x", nbins=TICKS)
        axes.grid(visible=False, axis="y")
        axes.set_xlabel(ADDS)

    return draw
