"""Plots of a fitted model in scikit-learn's manner: `Display.from_estimator(model)` draws and returns the drawing.

| class | draws |
|---|---|
| ConvergenceDisplay | how near a fit came to its optimum, round by round |
| CurvesDisplay | what each column adds to the score |
| ContributionDisplay | what each party adds to the scores of rows, or each column to that of one row |
| PrivacyDisplay | the epsilon that is proven at every delta |

Each takes an estimator that was fitted, or a model of `tacit.load`. matplotlib is imported when something is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from tacit.errors import InputError
from tacit.privacy.certificate import Certificate, up
from tacit.report.pictures import check_matplotlib
from tacit.run.result import ALL_PARTIES
from tacit.text import listing, nearest, plural, show
from tacit.types import Trace, Vector

MOST_COLUMNS = 12  # columns that are drawn where none are named
DELTAS = np.logspace(-10, -2, 17)


class _Display:
    """A drawing on axes: `ax_` and `figure_` after `plot`."""

    ax_: Any
    figure_: Any

    def _axes(self, ax: Any) -> Any:
        """The given axes, or those of a new figure."""
        check_matplotlib()
        if ax is None:
            import matplotlib.pyplot as plt

            _, ax = plt.subplots(layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        return ax


class ConvergenceDisplay(_Display):
    """How near a fit came to its optimum, by round: the certified gap, or else residuals.

    Parameters
    ----------
    trace : Trace
        One row per round, as `model.trace_`.

    Attributes
    ----------
    ax_, figure_
        The axes and their figure.
    lines_ : dict of str to Line2D
        By what they show.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draw the rounds of a fitted model."""
        return cls(estimator.trace_).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw on axes; on those of a new figure where none are given."""
        from matplotlib.ticker import MaxNLocator

        ax, found = self._axes(ax), self._series()
        if not found:
            raise InputError("there is nothing to draw: in a private run nobody may know how far each round came")
        self.lines_ = {
            name: ax.plot(*zip(*points, strict=True), marker="o", markersize=4, label=name)[0]
            for name, points in found.items()
        }
        ax.set(xlabel="round", yscale="log", ylabel="distance to the optimum" if len(found) == 1 else "residual")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        if len(found) > 1:
            ax.legend()
        return self

    def _series(self) -> dict[str, list[tuple[int, float]]]:
        """The certified gap where there is one, else both residuals; only what a log scale can show."""
        found = {
            name: [(row.round, value) for row in self.trace if math.isfinite(value := getattr(row, name)) and value > 0]
            for name in ("gap", "primal", "dual")
        }
        if found["gap"]:
            return {"certified gap": found["gap"]}
        return {f"{name} residual": points for name, points in found.items() if points}


class CurvesDisplay:
    """What each column adds to the score over its range.

    Parameters
    ----------
    curves : mapping of (party, column) to arrays
        Cells, values and, where noise makes a band, its low and high end.

    Attributes
    ----------
    axes_ : array of Axes
        One for each column.
    figure_ : Figure
    """

    def __init__(self, curves: Mapping[tuple[str, str], Sequence[Any]]) -> None:
        self.curves = dict(curves)

    @classmethod
    def from_estimator(cls, estimator: Any, *, party: str | None = None, columns: Sequence[str] | None = None) -> Self:
        """Draw the curves of a fitted model: of one party, or of some columns; the 12 that move most by default."""
        known = _flat(estimator.curves())
        chosen = {key: points for key, points in known.items() if party in (None, key[0])}
        if party is not None and not chosen:
            _refuse("party", party, list(dict.fromkeys(name for name, _ in known)))
        if columns is None:
            order = sorted(chosen, key=lambda key: -float(np.ptp(chosen[key][1])))[:MOST_COLUMNS]
            return cls({key: chosen[key] for key in order}).plot()
        names = [column for _, column in chosen]
        for column in columns:
            if column not in names:
                _refuse("column", column, names)
        return cls({key: points for key, points in chosen.items() if key[1] in columns}).plot()

    def plot(self) -> Self:
        """Draw one picture for each column, in a new figure."""
        check_matplotlib()
        import matplotlib.pyplot as plt

        wide = min(3, len(self.curves)) or 1
        tall = -(-len(self.curves) // wide) or 1
        size = (3.6 * wide, 2.7 * tall)
        self.figure_, grid = plt.subplots(tall, wide, figsize=size, squeeze=False, layout="constrained")
        self.axes_ = grid.ravel()[: len(self.curves)]
        for ax in grid.ravel()[len(self.curves) :]:
            ax.remove()
        for ax, ((party, column), points) in zip(self.axes_, self.curves.items(), strict=True):
            _draw_curve(ax, points)
            ax.set_title(column if party == ALL_PARTIES else f"{party}: {column}", fontsize="medium")
        return self


def _flat(curves: Mapping[str, Any]) -> dict[tuple[str, str], Sequence[Any]]:
    """Curves by party and column; those of whole rows are of all parties."""
    found: dict[tuple[str, str], Sequence[Any]] = {}
    for name, own in curves.items():
        pairs = own.items() if isinstance(own, Mapping) else [(name, own)]
        party = name if isinstance(own, Mapping) else ALL_PARTIES
        found |= {(party, column): points for column, points in pairs}
    if not found:
        raise InputError("the columns were used as they are, so there are no curves: fit with terms='spline'")
    return found


def _draw_curve(ax: Any, points: Sequence[Any]) -> None:
    cells, values = np.asarray(points[0]), np.asarray(points[1], dtype=np.float64)
    band = len(points) > 2 and bool(np.isfinite(np.asarray(points[2], dtype=np.float64)).all())
    ax.axhline(0, color="0.7", linewidth=0.8)
    if cells.dtype.kind in "OUS":
        places = np.arange(len(values))[::-1]
        ax.barh(places, values)
        if band:
            ax.hlines(places, points[2], points[3], color="0.3")
        ax.set_yticks(places, [str(cell) for cell in cells])
        ax.set_xlabel("added to the score")
        return
    ax.plot(cells, values)
    if band:
        ax.fill_between(cells, points[2], points[3], alpha=0.25, linewidth=0)
    ax.set_ylabel("added to the score")


def _refuse(kind: str, name: str, known: Sequence[str]) -> None:
    kinds = {"party": "the parties are", "column": "its columns are"}
    raise InputError(f"there is no {kind} {show(name)}{nearest(str(name), known)}: {kinds[kind]} {listing(known)}")


class ContributionDisplay(_Display):
    """What each party adds to the scores of rows, or what each column adds to that of one row.

    Parameters
    ----------
    contributions : mapping of str to array
        One number for each row.
    title : str

    Attributes
    ----------
    ax_, figure_
        The axes and their figure.
    """

    def __init__(self, contributions: Mapping[str, Vector], title: str = "") -> None:
        self.contributions, self.title = dict(contributions), title

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, *, row: int | None = None, top: int = 10, ax: Any = None) -> Self:
        """Explain rows and draw it.

        Parameters
        ----------
        estimator : fitted estimator, or model of `tacit.load`
        X : as in its `explain`
        row : int, optional
            Take this row's score apart by column, counted from 0; by default all rows are drawn by party.
        top : int
            Columns that are drawn, those that add or take off most.
        ax : Axes, optional
        """
        found = estimator.explain(X)
        if row is None:
            return cls(found.by_party, "").plot(ax=ax)
        cells = {
            column if party == ALL_PARTIES else f"{party}: {column}": np.atleast_1d(adds[row])
            for party, own in found.items()
            if party
            for column, adds in own.items()
        }
        order = sorted(cells, key=lambda name: -float(np.abs(cells[name]).max()))
        rest = f", and {plural(len(order) - top, 'column')} with less" if len(order) > top else ""
        return cls({name: cells[name] for name in order[:top]}, f"row {row}{rest}").plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw on axes: bars for one row, boxes (median, quartiles, 5 and 95 %) for several."""
        ax, places = self._axes(ax), np.arange(len(self.contributions))[::-1]
        values = list(self.contributions.values())
        if any(np.ndim(own) > 1 for own in values):
            raise InputError("of several classes each row has a score for each: these cannot be drawn as one number")
        if all(len(own) == 1 for own in values):
            ax.barh(places, [float(own[0]) for own in values])
        else:
            ax.boxplot(values, positions=places, orientation="horizontal", whis=(5, 95), showfliers=False, widths=0.5)
        ax.axvline(0, color="0.7", linewidth=0.8)
        ax.set_yticks(places, list(self.contributions))
        ax.set(xlabel="added to the score", title=self.title)
        return self


class PrivacyDisplay(_Display):
    """The epsilon that a certificate proves at every delta, for each of its claims.

    Parameters
    ----------
    certificate : Certificate

    Attributes
    ----------
    ax_, figure_
        The axes and their figure.
    """

    def __init__(self, certificate: Certificate) -> None:
        self.certificate = certificate

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draw what the certificate of a fitted model proves."""
        return cls(estimator.certificate_).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw on axes; on those of a new figure where none are given."""
        target = self.certificate.target
        if target is None or not self.certificate.private:
            raise InputError("the run is not differentially private, so there is no epsilon to draw: fit with privacy")
        ax, lines = self._axes(ax), dict[tuple[float, ...], list[str]]()
        for claim in self.certificate.claims:
            curve = tuple(claim.epsilon(float(delta)) for delta in DELTAS)
            lines.setdefault(curve, []).append(f"each {claim.unit}{f' of {claim.party}' if claim.party else ''}")
        for curve, names in lines.items():
            ax.plot(DELTAS, curve, label=", ".join(dict.fromkeys(names)))
        stated = self.certificate.epsilon(target.delta)
        ax.plot(target.delta, stated, "o", color="black", label=f"stated: {up(stated)} at delta {target.delta:g}")
        ax.set(xscale="log", xlabel="delta", ylabel="epsilon of the whole run", ylim=(0, None))
        ax.legend()
        return self
