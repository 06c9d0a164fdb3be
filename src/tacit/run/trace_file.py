"""The trace of a run on disk: one line per round, for who watches it, and what they see."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from tacit.errors import FaultError
from tacit.files import plain_number, write_text
from tacit.text import one_line, show
from tacit.types import Trace, TraceRow

_FIELDS = tuple(field.name for field in fields(TraceRow))
_WHOLE = ("round", "bytes_down", "bytes_up")
_WORDS = {"infinity": math.inf, "-infinity": -math.inf, "nan": math.nan}


def trace_line(row: TraceRow) -> str:
    """One round as a line of strict JSON."""
    return json.dumps({name: plain_number(getattr(row, name)) for name in _FIELDS}, allow_nan=False) + "\n"


def write_trace(path: Path, trace: Sequence[TraceRow]) -> None:
    """Write a whole trace in the place of what was there."""
    write_text(path, "".join(trace_line(row) for row in trace))


@contextmanager
def growing_trace(path: Path, before: Sequence[TraceRow]) -> Iterator[Callable[[TraceRow], None]]:
    """Yield what adds a round to the file, which first holds the rounds `before` and nothing else.

    A line is handed to the system in one piece, but not forced to the disk: a run that goes on does so from its
    checkpoint, and starts the file anew from that.
    """
    write_trace(path, before)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    except OSError as error:
        raise FaultError(f"cannot write {show(str(path))}: {one_line(error)}") from error

    def add(row: TraceRow) -> None:
        try:
            os.write(descriptor, trace_line(row).encode())
        except OSError as error:
            raise FaultError(f"cannot write {show(str(path))}: {one_line(error)}") from error

    try:
        yield add
    finally:
        os.close(descriptor)


def read_trace(path: Path) -> Trace:
    """Read the rounds that are there."""
    return TraceReader(path).read()


class TraceReader:
    """Reads a trace that grows: what is new each time, and all of it where the file was begun anew."""

    def __init__(self, path: Path) -> None:
        self.path, self.trace = path, Trace()
        self._file, self._place = 0, 0

    def read(self) -> Trace:
        """All rounds so far; a last line that is not yet whole is left for the next time."""
        try:
            with open(self.path, "rb") as file:
                status = os.fstat(file.fileno())
                if status.st_ino != self._file or status.st_size < self._place:
                    self._file, self._place, self.trace = status.st_ino, 0, Trace()
                file.seek(self._place)
                self._take(file.read())
        except (OSError, ValueError):
            self._file, self._place, self.trace = 0, 0, Trace()
        return self.trace

    def _take(self, text: bytes) -> None:
        for line in text.split(b"\n")[:-1]:
            row = _row(line)
            if row is None:
                return
            self.trace.append(row)
            self._place += len(line) + 1


def _row(line: bytes) -> TraceRow | None:
    try:
        record = json.loads(line)
        values = {name: _value(name, record[name]) for name in _FIELDS}
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return TraceRow(**values)


def _value(name: str, value: Any) -> Any:
    number = _WORDS[value] if isinstance(value, str) else float(value)
    return int(number) if name in _WHOLE else number
