"""What a page is made of: sections with words, figures and tables. Nothing here draws or writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any


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
        Draws on a `matplotlib.figure.Figure` that is given; `style.py` has the colours.
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
