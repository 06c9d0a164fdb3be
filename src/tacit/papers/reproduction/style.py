"""One look for all pictures."""

from __future__ import annotations

from typing import Any

BLUE, RED, GREEN, ORANGE, GREY, PURPLE = "#1f5f99", "#b3261e", "#2e7d32", "#c77700", "#666666", "#6a4c93"
CYCLE = (BLUE, ORANGE, GREEN, RED, PURPLE, GREY)


def tidy(axes: Any, x: str, y: str, title: str = "") -> None:
    """Name the axes and take away what is no data."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if title:
        axes.set_title(title, fontsize=10, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, axis="y", color="#e3e3e3", linewidth=0.6)
    axes.set_axisbelow(True)


def legend(axes: Any, **options: Any) -> None:
    """A legend without a frame that hides nothing."""
    axes.legend(**({"fontsize": 8, "framealpha": 0.9, "edgecolor": "none"} | options))
