"""The pictures of a run's page: each is a function of a figure, in the colours of the page."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tacit.report.pictures import INK, LINE, SERIES, SOFT
from tacit.topologies import Graph
from tacit.types import Trace

Draw = Callable[[Any], None]
SIZE = (3.7, 2.9)  # inches: narrow, so that text is large enough on a telephone
LONGEST_NAME = 14  # characters of a name beside an axis
SAME = 1e-12  # nodes' models that differ by less, relatively, are one but for rounding
JOINT_MODEL, TOGETHER = "joint model", "all data in one place"
MARKS = 30  # rounds up to which each has a mark


def short(name: str, most: int = LONGEST_NAME) -> str:
    """A name that fits beside an axis."""
    return name if len(name) <= most else name[: most - 1] + "…"


def roc(curves: Sequence[tuple[str, Sequence[Sequence[float]], float]]) -> Draw:
    """ROC curves by title, with the area under each; the first colour and a thick line for the joint model alone."""
    start = 0 if curves[0][0] == JOINT_MODEL else 1

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        axes.plot([0, 1], [0, 1], color=SOFT, linestyle=":", linewidth=1)
        for number, (title, (false, true), area) in enumerate(curves, start):
            first = number == 0
            axes.plot(
                false,
                true,
                color=SERIES[number % len(SERIES)],
                linewidth=2.4 if first else 1.3,
                linestyle=(0, (3, 4)) if title == TOGETHER else "-",  # it lies on that of the joint model
                zorder=3 if first or title == TOGETHER else 2,
                label=f"{short(title, 21)} {area:.3f}",
            )
        axes.set_aspect("equal")
        axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xlabel="false positive rate", ylabel="true positive rate")
        figure.legend(loc="outside lower center", handlelength=1.8, title="area under the curve")  # off the lines

    return draw


def calibration(groups: Sequence[Mapping[str, Any]], probability: bool) -> Draw:
    """Mean prediction against mean outcome."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        predicted = [group["predicted"] for group in groups]
        observed = [group["observed"] for group in groups]
        low, high = min(predicted + observed), max(predicted + observed)
        if probability:
            low, high = 0.0, 1.0
        axes.plot([low, high], [low, high], color=SOFT, linestyle=":", linewidth=1)
        axes.plot(predicted, observed, color=SERIES[0], marker="o", markersize=5, linewidth=1.3)
        what = ("predicted probability", "observed frequency") if probability else ("prediction", "mean observed")
        axes.set(xlabel=f"mean {what[0]}", ylabel=what[1])
        if probability:
            axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
            axes.set_aspect("equal")

    return draw


def bars(rows: Sequence[tuple[str, float]], title: str) -> Draw:
    """One measure of every model, from a point near the least so that differences can be seen."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        names, values = [short(name, len(TOGETHER)) for name, _ in rows], [value for _, value in rows]
        places = list(range(len(rows)))[::-1]
        for number, (place, value) in enumerate(zip(places, values, strict=True)):
            axes.plot(value, place, "o", color=SERIES[number % len(SERIES)], markersize=8)
            axes.annotate(f"{value:.4f}", (value, place), xytext=(0, 7), textcoords="offset points", ha="center")
        axes.set_yticks(places, names)
        axes.set_ylim(-0.6, len(rows) - 0.3)
        axes.margins(x=0.18)
        axes.grid(visible=False, axis="x")
        axes.locator_params(axis="x", nbins=4)
        axes.set_xlabel(title)

    return draw


def shares(spreads: Mapping[str, Mapping[str, Any]]) -> Draw:
    """For each party the range of its part of the score: 90 % of rows, half of them, and the median."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        places = list(range(len(spreads)))[::-1]
        for number, (place, found) in enumerate(zip(places, spreads.values(), strict=True)):
            least, low, middle, high, most = found["quantiles"]
            colour = SERIES[(number + 1) % len(SERIES)]  # the first is that of the joint model
            axes.plot([least, most], [place, place], color=colour, linewidth=1.6)
            axes.plot([low, high], [place, place], color=colour, linewidth=8, solid_capstyle="butt")
            axes.plot(middle, place, "|", color=INK, markersize=13, markeredgewidth=1.6)
        axes.axvline(0, color=SOFT, linewidth=1)
        axes.set_yticks(places, [short(name) for name in spreads])
        axes.set_ylim(-0.7, len(spreads) - 0.3)
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("added to the score of a row")

    return draw


def columns(rows: Sequence[tuple[str, str, float]], parties: Sequence[str]) -> Draw:
    """How much each column moves the score, in the colour of its party; the largest on top."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        places = list(range(len(rows)))[::-1]
        colours = {name: SERIES[(number + 1) % len(SERIES)] for number, name in enumerate(parties)}
        for party in dict.fromkeys(party for _, party, _ in rows):
            own = [(place, value) for place, (_, of, value) in zip(places, rows, strict=True) if of == party]
            axes.barh([at for at, _ in own], [value for _, value in own], 0.6, color=colours[party], label=short(party))
        axes.set_yticks(places, [short(name) for name, _, _ in rows])
        axes.grid(visible=False, axis="y")
        axes.legend(loc="lower right")
        axes.set_xlabel("moves the score of a row by")

    return draw


def losses(held_out: Sequence[float], fitted: Sequence[float]) -> Draw:
    """Mean loss by round on both kinds of rows; the first is that of a constant."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for number, (name, values) in enumerate((("held out", held_out), ("with trees", fitted))):
            rounds = list(range(len(values)))
            style = {"marker": _mark(values), "markersize": 4, "linewidth": 1.6}
            axes.plot(rounds, values, color=SERIES[number], label=name, **style)
        axes.legend()
        axes.set(xlabel="round", ylabel="mean loss")
        _whole_rounds(axes)

    return draw


def convergence(trace: Trace) -> tuple[Draw, str] | None:
    """The certified gap by round, or the objective above its least, or residuals; None where nothing is known."""
    rounds = [row.round for row in trace]
    gaps = [(row.round, row.gap) for row in trace if math.isfinite(row.gap) and row.gap > 0]
    known = [row.objective for row in trace if math.isfinite(row.objective)]
    if len(gaps) >= 2:
        return _falling([("certified gap", gaps)], "distance to the optimum"), "certified distance to the optimum"
    if len(known) == len(trace) >= 2:
        least = min(known)
        above = [(row.round, row.objective - least) for row in trace if row.objective > least]
        if len(above) >= 2:
            return _falling([("objective", above)], "objective above its least"), "objective above its least"
    if len(rounds) >= 2 and any(row.primal > 0 for row in trace):
        lines = [("primal", [(row.round, row.primal) for row in trace if row.primal > 0])]
        lines.append(("dual", [(row.round, row.dual) for row in trace if row.dual > 0]))
        return _falling(lines, "residuals"), "residuals"
    return None


def disagreement(trace: Trace) -> Draw | None:
    """How far the nodes' models are apart, by round."""
    apart = [(row.round, row.primal) for row in trace if row.primal > SAME]
    return _falling([("nodes", apart)], "largest distance from the mean") if len(apart) >= 2 else None


def objective(trace: Trace) -> Draw | None:
    """The objective by round; None in a private run, where nobody may know it."""
    known = [(row.round, row.objective) for row in trace if math.isfinite(row.objective)]
    if len(known) < 2:
        return None

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        axes.plot(*zip(*known, strict=True), color=SERIES[0], marker=_mark(known), markersize=4, linewidth=1.6)
        axes.set(xlabel="round", ylabel="objective")
        _whole_rounds(axes)

    return draw


def _falling(lines: Sequence[tuple[str, Sequence[tuple[int, float]]]], title: str) -> Draw:
    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for number, (name, points) in enumerate(lines):
            if points:
                axes.semilogy(
                    *zip(*points, strict=True),
                    color=SERIES[number],
                    marker=_mark(points),
                    markersize=4,
                    linewidth=1.6,
                    label=name,
                )
        if len(lines) > 1:
            axes.legend()
        axes.set(xlabel="round", ylabel=title)
        _whole_rounds(axes)

    return draw


def _mark(points: Sequence[Any]) -> str:
    return "o" if len(points) <= MARKS else ""


def _whole_rounds(axes: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def graph(known: Graph, sizes: Sequence[int]) -> Draw:
    """The nodes on a circle, as large as their number of rows, and who talks to whom."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        angles = [math.pi / 2 - 2 * math.pi * k / known.nodes for k in range(known.nodes)]
        places = [(math.cos(angle), math.sin(angle)) for angle in angles]
        for a, b in known.edges:
            axes.plot(*zip(places[a], places[b], strict=True), color=SOFT, linewidth=1.2, zorder=1)
        largest, room = max(sizes), min(420.0, 4200.0 / known.nodes)
        areas = [room * (0.2 + 0.8 * size / largest) for size in sizes]
        axes.scatter(*zip(*places, strict=True), s=areas, color=SERIES[0], edgecolors=LINE, zorder=2)
        if known.nodes <= 24:
            for (x, y), name, area in zip(places, known.names, areas, strict=True):
                away = 1 + (math.sqrt(area) / 2 + 9) / 75
                side = "center" if abs(x) < 0.3 else "left" if x > 0 else "right"
                axes.text(x * away, y * away, short(name), ha=side, va="center", fontsize=9)
        axes.set(xlim=(-1.75, 1.75), ylim=(-1.35, 1.35))
        axes.set_aspect("equal")
        axes.axis("off")

    return draw
