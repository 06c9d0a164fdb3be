"""The trace on disk: exact round trips, a file that grows, and lines that are not yet whole."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from tacit.errors import RunError
from tacit.run.checkpoint import TraceReader, growing_trace, read_trace, trace_line, write_trace
from tacit.types import TraceRow


def row(number: int, objective: float = 0.1) -> TraceRow:
    return TraceRow(number, objective / 3, math.inf, 1e-300, 0.0, 0.0, math.nan, number / 7, 10 * number, 3)


def same(found: list[TraceRow], expected: list[TraceRow]) -> bool:
    return repr(found) == repr(expected)


def test_rows_read_back_exactly(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    rows = [row(1), row(2, -math.inf), row(3, math.nan)]
    write_trace(path, rows)
    assert same(read_trace(path), rows)


def test_a_trace_grows_line_by_line_and_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    reader = TraceReader(path)
    assert reader.read() == []
    with growing_trace(path, []) as add:
        assert reader.read() == []
        for number in (1, 2, 3):
            add(row(number))
            assert same(reader.read(), [row(k) for k in range(1, number + 1)])
    with growing_trace(path, [row(1)]) as add:  # as after a checkpoint of round 1
        assert same(reader.read(), [row(1)])
        add(row(2, 5.0))
    assert same(reader.read(), [row(1), row(2, 5.0)])
    assert same(read_trace(path), [row(1), row(2, 5.0)])


def test_a_line_that_is_not_whole_is_left_for_later(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    line = trace_line(row(2))
    path.write_text(trace_line(row(1)) + line[:20])
    reader = TraceReader(path)
    assert same(reader.read(), [row(1)])
    with open(path, "a") as file:
        file.write(line[20:])
    assert same(reader.read(), [row(1), row(2)])


@pytest.mark.parametrize("line", ["{}\n", "[1]\n", "\n", '{"round": "many"}\n', "nonsense\n"])
def test_what_is_no_round_ends_the_trace(tmp_path: Path, line: str) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(trace_line(row(1)) + line + trace_line(row(2)))
    assert same(read_trace(path), [row(1)])


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is full")
def test_a_full_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.run.checkpoint.write_trace", lambda path, before: None)
    with pytest.raises(RunError, match="cannot write"), growing_trace(Path("/dev/full"), []) as add:
        add(row(1))
