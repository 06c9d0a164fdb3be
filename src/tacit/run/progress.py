"""Progress bars: of rounds with objective and time left, and of any other work; nothing where there is no terminal."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from tacit.plan import Plan
from tacit.run.drive import Observer
from tacit.text import plain, raw
from tacit.types import TraceRow

Steps = Callable[[str, float], None]  # what is going on, and which part is done


@contextmanager
def progress_bar(title: str, *, visible: bool) -> Iterator[Steps | None]:
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


@contextmanager
def working(what: str, *, visible: bool) -> Iterator[None]:
    """Show what is going on, and for how long, while nobody knows how much is left."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(file=raw(sys.stderr))
    if not visible or not console.is_terminal:
        yield
        return
    columns = (SpinnerColumn("line"), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        bar.add_task(plain(what), total=None)
        yield


@contextmanager
def progress(plan: Plan, *, visible: bool) -> Iterator[Observer | None]:
    """Yield what `drive` should call after each round, or None where nobody would see it."""
    if not visible:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    console = Console(file=raw(sys.stderr))
    if not console.is_terminal:
        yield None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=12),  # with the text, less than 80 columns
        TextColumn("{task.fields[state]}"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("training", total=1.0, state="")
        first: list[float] = []
        gap = math.inf

        def observe(row: TraceRow) -> None:
            nonlocal gap
            gap = row.gap if math.isfinite(row.gap) else gap  # some methods state it in some rounds only
            row = replace(row, gap=gap)
            done = fraction_done(plan, row, first)
            left = row.seconds * (1 - done) / done if done > 0.02 else math.nan
            text = f"round {row.round}{_objective(row)}"
            text += f"  {_left(left)} left" if math.isfinite(left) else ""
            bar.update(task, completed=done, state=text)

        yield observe


def fraction_done(plan: Plan, row: TraceRow, first: list[float]) -> float:
    """How far the run has come: by rounds, or by how many decimals of the gap are reached, whichever is further."""
    by_rounds = row.round / plan.most_rounds
    if plan.fixed_rounds:
        return by_rounds
    distance = row.gap if math.isfinite(row.gap) else max(row.primal, row.dual)
    bar = plan.problem.tol * (abs(row.objective) if math.isfinite(row.gap) else 1.0)
    if distance <= 0 or bar <= 0:
        return by_rounds
    first.append(distance)
    start = math.log(max(max(first) / bar, 1.0 + 1e-9))
    return min(1.0, max(by_rounds, 1 - max(math.log(distance / bar), 0.0) / start if len(first) > 1 else 0.0))


def _objective(row: TraceRow) -> str:
    """The objective and how far it may be from the optimum; nothing where nobody may know it."""
    return "" if math.isnan(row.objective) else f"  objective {row.objective:.6g}  {_distance(row)}"


def _left(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.0f} h"


def _distance(row: TraceRow) -> str:
    if math.isfinite(row.gap):
        return f"gap {row.gap:.1e}"
    if row.primal == row.dual == 0.0:  # as with trees, which have none
        return ""
    return f"residuals {row.primal:.1e}, {row.dual:.1e}"
