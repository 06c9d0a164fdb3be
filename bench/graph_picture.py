"""The picture of `graph-methods`: log loss and accuracy of every method against epsilon."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

COLOURS = ("#1f5f99", "#b3261e", "#2e7d32", "#8e5ea2", "#e08214", "#333333", "#00838f", "#a1887f")
GREY = "#666666"
GAP = 0.052  # between the names of lines, in parts of the height


def draw_curves(rows: Sequence[Any], path: Path) -> str:
    """Draw one line for each method, named at its end; rows without an epsilon become levels."""
    if find_spec("matplotlib") is None:
        return "no picture: matplotlib is not installed"
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14.0, 5.4), dpi=150)
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 2, gridspec_kw={"wspace": 0.62})
    lines = _by_method(rows)
    titles = ("test log loss, nats per row (lower is better)", "test accuracy, % of rows (higher is better)")
    for panel, field, title in zip(panels, ("losses", "accuracies"), titles, strict=True):
        for (name, own), colour, number in zip(lines.items(), COLOURS, range(len(lines)), strict=False):
            _line(panel, name, own, field, colour, "--" if "server" in name else "-", number)
        _levels(panel, [row for row in rows if row.epsilon == 0], field)
        panel.set_xscale("log")
        marks = sorted({row.epsilon for row in rows if row.epsilon})
        panel.set_xticks(marks, [f"{mark:g}" for mark in marks])
        panel.minorticks_off()
        panel.set_xlabel("epsilon of the whole run, log scale (delta 1e-5)")
        panel.set_title(title, fontsize=10, loc="left")
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(axis="y", color="#e6e6e6", linewidth=0.6)
        panel.set_axisbelow(True)
    _limits(panels, rows)
    for panel in panels:
        _name_ends(panel)
    figure.suptitle(
        "a9a, ten nodes. Solid: nobody is trusted; dashed: a trusted server. Bands: all seeds", fontsize=9, x=0.125,
        ha="left", y=0.97,
    )  # fmt: skip
    figure.savefig(path, bbox_inches="tight", pad_inches=0.15)
    return f"drawn: {path}"


def _name_ends(panel: Any) -> None:
    """Write each line's name beside its right end, apart from the others, with a thin stroke from one to the other."""
    low, high = panel.get_ylim()
    found = [((line.get_ydata()[-1] - low) / (high - low), line) for line in panel.get_lines()]
    ends = sorted(((float(np.clip(end, 0.0, 1.0)), line) for end, line in found), key=lambda pair: pair[0])
    places = np.array([end for end, _ in ends])
    for _ in range(500):  # push names apart that are too close, a little at a time
        gaps = np.diff(places)
        short = np.maximum(GAP - gaps, 0.0) / 2
        places[:-1] -= short
        places[1:] += short
        places = np.clip(places, 0.0, 1.0)
    for place, (end, line) in zip(places, ends, strict=True):
        panel.annotate(
            line.get_label(), xy=(1.0, end), xytext=(1.06, place), xycoords="axes fraction", fontsize=8, va="center",
            color=line.get_color(), annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": line.get_color(), "linewidth": 0.6, "relpos": (0.0, 0.5)},
        )  # fmt: skip


def _by_method(rows: Sequence[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        if row.epsilon:
            found[row.method].append(row)
    return found


def _line(panel: Any, name: str, own: Sequence[Any], field: str, colour: str, style: str, number: int) -> None:
    epsilons = [row.epsilon for row in own]
    values = [_shown(row, field) for row in own]
    mean = np.array([value.mean() for value in values])
    panel.plot(
        epsilons, mean, style, color=colour, marker="osDv^Px*"[number % 8], markersize=4, linewidth=1.4, label=name
    )
    low, high = [value.min() for value in values], [value.max() for value in values]
    panel.fill_between(epsilons, low, high, color=colour, alpha=0.12, linewidth=0)


def _shown(row: Any, field: str) -> Any:
    return np.array(getattr(row, field)) * (100.0 if field == "accuracies" else 1.0)


def _levels(panel: Any, rows: Sequence[Any], field: str) -> None:
    for row, dashes in zip(rows, ((0, (1, 2)), (0, (5, 3))), strict=False):
        level = float(_shown(row, field)[0])
        panel.axhline(level, color=GREY, linewidth=0.9, linestyle=dashes, label=row.method)


def _limits(panels: Any, rows: Sequence[Any]) -> None:
    """Leave the worst runs outside: their place says that they are of no use, and would hide all others."""
    levels = {row.method: row for row in rows if row.epsilon == 0}
    best, useless = levels["not private"], levels["shares of the labels"]
    gap = useless.losses[0] - best.losses[0]
    panels[0].set_ylim(best.losses[0] - 0.04 * gap, useless.losses[0] + 0.08 * gap)
    panels[1].set_ylim(100 * useless.accuracies[0] - 6.0, 100 * best.accuracies[0] + 0.8)
    least, most = (limit(row.epsilon for row in rows if row.epsilon) for limit in (min, max))
    for panel in panels:
        panel.set_xlim(0.9 * least, 1.04 * most)
