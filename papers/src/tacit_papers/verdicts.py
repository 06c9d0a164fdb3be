"""The claims of a rerun paper on the terminal: verdict first, a few lines each; the whole text is in the page."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.text import Text

from tacit_papers.claims import FAILS, HOLDS, OPEN
from tacit_papers.pages import shown

if TYPE_CHECKING:
    from tacit_papers.claims import Judged
    from tacit_papers.pages import Rerun

COLOURS = {HOLDS: "green", FAILS: "red", OPEN: "yellow"}
INDENT = max(len(verdict) for verdict in COLOURS) + 2
NARROWEST = 30  # characters of text beside the verdict, however narrow the terminal is
MOST_LINES = 3  # of a text that the page has whole


def claims(rerun: Rerun, width: int) -> Iterator[Text]:
    """The lines of one paper: its title, what was rerun, and every claim.

    Parameters
    ----------
    rerun : Rerun
    width : int
        Characters of a line.

    Yields
    ------
    Text
        A line, with colours for terminals that have them.
    """
    yield Text(f"{rerun.paper.name}: {rerun.paper.title}", style="bold")
    done = [figure.number for figure in rerun.expected.figures if not figure.reason]
    if done:
        yield from _beside("rerun", ", ".join(done), width)
    for figure in rerun.expected.figures:
        if figure.reason:
            yield from _beside("not rerun", f"{figure.number}: {figure.reason}", width)
    for one in rerun.judged:
        yield Text()
        yield from _claim(one, width)


def _claim(one: Judged, width: int) -> Iterator[Text]:
    """Where and what is claimed, published and here; why only where it does not simply hold."""
    said, found = shown(one.item.published) or "-", shown(one.ours) or "-"
    yield from _beside(one.verdict, f"{one.item.where}: {one.item.claim}", width, COLOURS[one.verdict])
    yield from _beside("", f"published: {said} | here: {found}", width, most=MOST_LINES)
    if one.reason and one.verdict != HOLDS:
        yield from _beside("", f"why: {one.reason}", width, "dim", most=MOST_LINES)


def _beside(label: str, words: str, width: int, style: str = "", most: int | None = None) -> Iterator[Text]:
    """Words to the right of a label, wrapped, and cut after `most` lines."""
    room = max(width - INDENT, NARROWEST)
    lines = textwrap.wrap(words, room, max_lines=most, placeholder=" ...", break_on_hyphens=False)
    for number, line in enumerate(lines):
        text = Text(f"{label if number == 0 else '':<{INDENT}}", style=style if label else "")
        yield text.append(line, style="" if label else style)
