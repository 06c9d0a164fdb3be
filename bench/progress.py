"""The line that says what is running: redrawn in a terminal, one line per step elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.status import Status

_console = Console(stderr=True)
_line: Status | None = None
_part = ""


@contextmanager
def showing(part: str) -> Iterator[None]:
    """Show the steps of one part while it runs."""
    global _line, _part
    _part = part
    if not _console.is_terminal:
        yield
        return
    with _console.status(part) as _line:
        yield
    _line = None


def say(step: str) -> None:
    """Name the step that begins now."""
    if _line is not None:
        _line.update(f"{_part}: {step}")
    elif _part:
        print(f"{_part}: {step}", file=sys.stderr, flush=True)


def tell(line: str) -> None:
    """Show a result as soon as there is one; the table repeats it at the end."""
    if _part:
        _console.print(f"{_part}: {line}", markup=False, highlight=False, soft_wrap=True)
