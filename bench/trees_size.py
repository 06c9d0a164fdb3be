"""What boosted trees cost on many rows: memory and CPU seconds beside LightGBM on all columns in one place."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from bench.progress import say
from bench.row import Row, seconds

TITLE = "boosted trees of two parties with 20 columns each, beside LightGBM with as many trees; each in a process"
ONLY_WHEN_NAMED = True
ROWS, QUICK_ROWS = 1_000_000, 20_000
MOST_MEMORY, MOST_SECONDS = 1.5, 2.5


def run(quick: bool = False) -> list[Row]:
    """Fit each once."""
    rows = QUICK_ROWS if quick else ROWS
    joint, pooled = (_measure(case, rows) for case in ("joint", "lightgbm"))
    shown = [_shown(name, one) for name, one in (("joint", joint), ("LightGBM", pooled))]
    memory, spent = _memory(joint) / _memory(pooled), joint["fit"] / pooled["fit"]
    return [
        *shown,
        _ratio("joint / LightGBM: peak memory", memory, MOST_MEMORY, judged=not quick),
        _ratio("joint / LightGBM: CPU seconds", spent, MOST_SECONDS, judged=not quick),
    ]


def _measure(case: str, rows: int) -> dict[str, Any]:
    say(f"{case}, {rows} rows")
    command = [sys.executable, "-m", "bench.trees_size_run", case, str(rows)]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def _memory(one: dict[str, Any]) -> float:
    return float(one["peak"] - one["before"])


def _shown(name: str, one: dict[str, Any]) -> Row:
    memory = f"{_memory(one) / 2**20:.0f} MiB at the peak for {one['raw'] / 2**20:.0f} MiB of columns"
    return Row(f"{name}: CPU seconds of a round", f"{seconds(one['fit'] / one['rounds'])}; {memory}", one["fit"])


def _ratio(name: str, value: float, limit: float, *, judged: bool) -> Row:
    return Row(name, f"{value:.2f}", value, limit if judged else None, f"at most {limit:g}" if judged else "")
