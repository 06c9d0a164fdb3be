"""A progress bar with a title and what is going on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tacit.text import raw

Observer = Callable[[str, float], None]


@contextmanager
def progress_bar(title: str, *, visible: bool) -> Iterator[Observer | None]:
    """Yield what to call with a text and the part that is done; None where there is no terminal to see it."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(file=raw(sys.stderr))
    if not visible or not console.is_terminal:
        yield None
        return
    columns = (TextColumn(title), BarColumn(bar_width=24), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda text, part: bar.update(task, completed=part, description=text)
