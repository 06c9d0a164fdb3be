"""A paper: what there is to compute, to show and to judge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tacit.papers.reproduction.claims import Expected, Judged
from tacit.papers.reproduction.page_parts import Section
from tacit.papers.reproduction.work import Piece, Results


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
