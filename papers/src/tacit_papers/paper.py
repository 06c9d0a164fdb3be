"""A paper: what there is to compute, to show and to judge; and what its page is made of, in one look."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tacit_papers.claims import Expected, Judged
from tacit_papers.work import Piece, Results

# --- one look for all pictures -----------------------------------------------------------------------

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


# --- what a page is made of: sections with words, figures and tables. Nothing here draws or writes ---


@dataclass(frozen=True)
class Figure:
    """A picture of a page.

    Attributes
    ----------
    slug : str
        Name of its files, as "fig-3a"; unique within the paper.
    number : str
        What it reruns, as "Fig. 3(a)"; figures of our own that stand beside have "beside Fig. 3(a)".
    title : str
        One line above the picture.
    caption : str
        What is seen, which settings the paper does not state and what was taken instead.
    draw : callable
        Draws on a `matplotlib.figure.Figure` that is given; the colours are above.
    size : tuple of float
        Inches.
    """

    slug: str
    number: str
    title: str
    caption: str
    draw: Callable[[Any], None]
    size: tuple[float, float] = (7.2, 4.2)


@dataclass(frozen=True)
class Table:
    """A table of a page; cells are text, ready to be read."""

    number: str
    title: str
    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Section:
    """A heading, paragraphs in plain words, figures and tables, in this order."""

    title: str
    words: Sequence[str] = ()
    figures: Sequence[Figure] = field(default=())
    tables: Sequence[Table] = field(default=())


# --- a paper: what there is to compute, to show and to judge -----------------------------------------


@dataclass(frozen=True)
class Paper:
    """A paper that can be rerun.

    Attributes
    ----------
    name : str
        "sharing", "dynamic" or "pdml".
    title, authors : str
    summary : str
        What the paper does; what came out of it here is said in `sections`.
    pieces : callable
        quick -> all pieces of work; the quick ones are a small version of each, with the same names.
    sections : callable
        results -> what the page shows.
    judge : callable
        (results, expected) -> a verdict for every item of expected.json, in its order.
    """

    name: str
    title: str
    authors: str
    summary: str
    pieces: Callable[[bool], Sequence[Piece]]
    sections: Callable[[Results], Sequence[Section]]
    judge: Callable[[Results, Expected], Sequence[Judged]]
