"""Tables of results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from bench.row import Row

VERDICTS = {True: "met", False: "MISSED", None: ""}


@dataclass(frozen=True)
class Outcome:
    """The rows of one part and how long it took."""

    part: str
    title: str
    rows: list[Row]
    seconds: float


def console() -> Console:
    """A console that is wide enough for the tables where the output is no terminal."""
    plain = Console()
    return plain if plain.is_terminal else Console(width=150)


def print_part(out: Console, outcome: Outcome) -> None:
    """Print one part: target, measured, verdict."""
    table = _table(f"{outcome.part}: {outcome.title}", ("", "target", "measured", "verdict"))
    for row in outcome.rows:
        table.add_row(row.name, row.target, row.measured, VERDICTS[row.met])
    out.print(table)
    out.print()


def print_summary(out: Console, outcomes: Sequence[Outcome]) -> None:
    """Print how many targets each part met."""
    table = _table("summary", ("part", "targets met", "missed", "seconds"))
    for outcome in outcomes:
        judged = [row for row in outcome.rows if row.met is not None]
        missed = "; ".join(f"{row.name}: {row.measured} (target {row.target})" for row in judged if not row.met)
        met = f"{sum(bool(row.met) for row in judged)} of {len(judged)}" if judged else "none set"
        table.add_row(outcome.part, met, missed, f"{outcome.seconds:.0f}")
    table.add_row("total", "", "", f"{sum(outcome.seconds for outcome in outcomes):.0f}")
    out.print(table)


def write_json(path: Path, outcomes: Sequence[Outcome]) -> None:
    """Write every row as plain values."""
    parts = {o.part: {"seconds": o.seconds, "rows": [row.record() for row in o.rows]} for o in outcomes}
    path.write_text(json.dumps(parts, indent=2) + "\n")


def _table(title: str, columns: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
