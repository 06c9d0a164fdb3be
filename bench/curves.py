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


def draw_curves(rows: Sequence[Any], path: Path) -> str:
    """Draw one line for each method; rows without an epsilon become levels."""
    if find_spec("matplotlib") is None:
        return "no picture: matplotlib is not installed"
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.0, 5.2), dpi=150)
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 2, gridspec_kw={"wspace": 0.22})
    lines = _by_method(rows)
    for panel, field, label in zip(panels, ("losses", "accuracies"), ("test log loss", "test accuracy"), strict=True):
        for (name, own), colour, number in zip(lines.items(), COLOURS, range(len(lines)), strict=False):
            _line(panel, name, own, field, colour, "--" if "server" in name else "-", number)
        _levels(panel, [row for row in rows if row.epsilon == 0], field)
        panel.set_xscale("log")
        marks = sorted({row.epsilon for row in rows if row.epsilon})
        panel.set_xticks(marks, [f"{mark:g}" for mark in marks])
        panel.minorticks_off()
        panel.set_xlabel("epsilon of the whole run (delta 1e-5)")
        panel.set_title(label, fontsize=10, loc="left")
        panel.spines[["top", "right"]].set_visible(False)
    _limits(panels, rows)
    figure.suptitle("solid: nobody is trusted; dashed: a trusted server", fontsize=9, x=0.125, ha="left", y=0.965)
    panels[0].legend(
        loc="upper center", bbox_to_anchor=(1.1, -0.14), ncols=3, fontsize=8, frameon=False, handlelength=2.4
    )
    figure.savefig(path, bbox_inches="tight", pad_inches=0.15)
    return f"drawn: {path}"


def _by_method(rows: Sequence[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        if row.epsilon:
            found[row.method].append(row)
    return found


def _line(panel: Any, name: str, own: Sequence[Any], field: str, colour: str, style: str, number: int) -> None:
    epsilons = [row.epsilon for row in own]
    values = [np.array(getattr(row, field)) for row in own]
    mean = np.array([value.mean() for value in values])
    panel.plot(
        epsilons, mean, style, color=colour, marker="osDv^Px*"[number % 8], markersize=4, linewidth=1.4, label=name
    )
    low, high = [value.min() for value in values], [value.max() for value in values]
    panel.fill_between(epsilons, low, high, color=colour, alpha=0.12, linewidth=0)


def _levels(panel: Any, rows: Sequence[Any], field: str) -> None:
    for row, dashes in zip(rows, ((0, (1, 2)), (0, (5, 3))), strict=False):
        level = getattr(row, field)[0]
        panel.axhline(level, color=GREY, linewidth=0.9, linestyle=dashes, label=row.method)


def _limits(panels: Any, rows: Sequence[Any]) -> None:
    """Leave the worst runs outside: their place says that they are of no use, and would hide all others."""
    levels = {row.method: row for row in rows if row.epsilon == 0}
    best, useless = levels["not private"], levels["shares of the labels"]
    gap = useless.losses[0] - best.losses[0]
    panels[0].set_ylim(best.losses[0] - 0.04 * gap, useless.losses[0] + 0.35 * gap)
    panels[1].set_ylim(useless.accuracies[0] - 0.06, best.accuracies[0] + 0.008)
