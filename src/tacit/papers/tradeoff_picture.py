"""The trade-off as a picture: measured losses, the fitted curve, the utility of privacy, and the best alpha."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tacit.errors import InputError
from tacit.papers.tradeoff import Design

MISSING = 'a picture needs matplotlib, which is not installed: pip install "tacit[plot]", or leave the picture out'
BLUE, GREY, RED = "#1f5f99", "#666666", "#b3261e"


def has_matplotlib() -> bool:
    """Whether a picture can be drawn."""
    from importlib.util import find_spec

    return find_spec("matplotlib") is not None


def draw(design: Design, alphas: Sequence[float], losses: Sequence[float], path: str | Path) -> Path:
    """Draw the points and the fitted loss on the left, loss, utility and balance on the right.

    Raises
    ------
    InputError
        Where matplotlib is not installed, or the file cannot be written.
    """
    if not has_matplotlib():
        raise InputError(MISSING)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.4, 4.5), dpi=150)
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, gridspec_kw={"wspace": 0.24})
    low, high = min(design.least_alpha, *alphas), max(design.most_alpha, *alphas)
    grid = np.geomspace(low / 1.5, high * 1.2, 400)
    _losses(left, design, alphas, losses, grid)
    _balance(right, design, grid)
    for panel in (left, right):
        panel.set_xscale("log")
        panel.set_xlim(grid[0], grid[-1])
        panel.axvspan(grid[0], design.least_alpha, color=GREY, alpha=0.12, linewidth=0)
        panel.axvspan(design.most_alpha, grid[-1], color=GREY, alpha=0.12, linewidth=0)
        panel.axvline(design.alpha, color=RED, linewidth=0.9, linestyle=(0, (4, 3)))
        panel.set_xlabel("alpha: epsilon of one round (grey: outside the bounds)")
        panel.spines[["top", "right"]].set_visible(False)
        panel.legend(loc="upper right", fontsize=8, framealpha=1.0, edgecolor="none")
    out = Path(path)
    try:
        figure.savefig(out, bbox_inches="tight", pad_inches=0.15)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot write the picture {out}: {error}") from error
    return out


def _losses(panel: Any, design: Design, alphas: Sequence[float], losses: Sequence[float], grid: Any) -> None:
    curve = design.curve
    panel.plot(alphas, losses, "o", color=BLUE, markersize=5, label="measured")
    label = f"{curve.height:.3g} exp(-{curve.rate:.3g} alpha) + {curve.floor:.3g}"
    panel.plot(grid, [curve(a) for a in grid], color=BLUE, linewidth=1.5, label=label)
    panel.plot([design.alpha], [design.loss], "D", color=RED, markersize=7, label=f"best alpha {design.alpha:.3g}")
    panel.set_title("loss", fontsize=10, loc="left")


def _balance(panel: Any, design: Design, grid: Any) -> None:
    curve, utility = design.curve, design.utility_of
    panel.plot(grid, [curve(a) for a in grid], color=BLUE, linewidth=1.2, label="fitted loss")
    panel.plot(grid, [utility(a) for a in grid], color=GREY, linewidth=1.2, label="utility of privacy")
    panel.plot(grid, [curve(a) - utility(a) for a in grid], color=RED, linewidth=1.6, label="loss - utility")
    panel.plot([design.alpha], [design.objective], "D", color=RED, markersize=7)
    panel.set_title("balance", fontsize=10, loc="left")
