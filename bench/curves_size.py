"""What curves cost: memory, seconds and rounds on two parties with 20 raw columns each, beside lines."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from bench.progress import say
from bench.row import Row, seconds

TITLE = "two parties with 20 columns of numbers each: lines and curves at the same alpha and tol, each in a process"
ONLY_WHEN_NAMED = True
ROWS, WRITTEN_ROWS, QUICK_ROWS = 1_000_000, 100_000, 20_000
MOST_MEMORY, MOST_ROUNDS, MOST_SECONDS = 3.0, 2.0, 1.5


def run(quick: bool = False) -> list[Row]:
    """Fit each once."""
    rows = QUICK_ROWS if quick else ROWS
    few = min(rows, WRITTEN_ROWS)
    cases = (("linear", rows), ("spline", rows), ("private", rows), ("spline", few), ("written", few))
    found = [_measure(*case) for case in cases]
    linear, spline, private, kept, written = found
    made = [_shown(f"{case}, {count} rows", one) for (case, count), one in zip(cases, found, strict=True)]
    return [row for rows_ in made for row in rows_] + _ratios(linear, spline, private, kept, written, not quick)


def _measure(case: str, rows: int) -> dict[str, Any]:
    say(f"{case}, {rows} rows")
    command = [sys.executable, "-m", "bench.curves_size_run", case, str(rows)]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def _shown(name: str, one: dict[str, Any]) -> list[Row]:
    """What one fit took."""
    memory = f"{_memory(one):.2f} ({(one['peak'] - one['before']) / 2**20:.0f} MiB for {one['raw'] / 2**20:.0f} MiB)"
    times = f"{seconds(one['round'])}; {one['rounds']} rounds; the whole fit {seconds(one['fit'])}"
    work = f"{seconds(one['processor'])}; one Gram matrix of a party's encoded rows by BLAS {seconds(one['gram'])}"
    return [
        Row(f"{name}: peak memory / raw columns", memory, _memory(one)),
        Row(f"{name}: median seconds of a round", times, one["round"]),
        Row(f"{name}: seconds of the processor", work, one["processor"]),
        Row(f"{name}: numbers that are not 0 in an encoded row", f"{one['filled']:.0f}", one["filled"]),
    ]


def _memory(one: dict[str, Any]) -> float:
    return float((one["peak"] - one["before"]) / one["raw"])


def _ratios(
    linear: dict[str, Any],
    spline: dict[str, Any],
    private: dict[str, Any],
    kept: dict[str, Any],
    written: dict[str, Any],
    judged: bool,
) -> list[Row]:
    beside = kept["round"] / written["round"]
    round_, filled = spline["round"] / linear["round"], spline["filled"] / linear["filled"]
    rounds = spline["rounds"] / linear["rounds"]
    floor = private["processor"] / private["gram"]
    per_number = f"{round_ / filled:.2f} ({round_:.1f} times the seconds, {filled:.1f} times the numbers)"
    found = (
        ("curves: peak memory / raw columns", f"{_memory(spline):.2f}", _memory(spline), MOST_MEMORY),
        ("private curves: peak memory / raw columns", f"{_memory(private):.2f}", _memory(private), MOST_MEMORY),
        ("curves / curves written out: seconds of a round", f"{beside:.2f}", beside, 1.0),
        ("curves / lines: rounds", f"{rounds:.2f}", rounds, MOST_ROUNDS),
        ("curves / lines: seconds of a round for each number", per_number, round_ / filled, MOST_SECONDS),
    )
    held = [
        Row(name, shown, value, limit if judged else None, f"at most {limit:g}" if judged else "")
        for name, shown, value, limit in found
    ]
    return [*held, Row("private curves: seconds of the processor / one Gram matrix by BLAS", f"{floor:.1f}", floor)]
