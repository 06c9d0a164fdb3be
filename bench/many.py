"""Many parties of a feature split and many nodes of a sample split in one process: do time and memory grow linearly?"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import warnings

import numpy as np

from bench.peak_memory import read_status
from bench.progress import say
from bench.row import Row, seconds
from tacit import HorizontalClassifier, VerticalClassifier

TITLE = "many parties and many nodes in one process: seconds of the processor per round, and memory"
ONLY_WHEN_NAMED = True
COUNTS = {"parties": (100, 300, 1_000), "nodes": (1_000, 3_000, 10_000)}
QUICK_COUNTS = {"parties": (10, 30), "nodes": (10, 30)}
ROWS, NODE_ROWS, NODE_COLUMNS = 500, 20, 3  # of all parties together; of one node
FEW, MORE = 2, 8  # rounds of the two fits of which a round's time is the difference
MOST_GROWTH = 1.5  # of what one party or node costs, from the smallest number of them to the largest


def run(quick: bool = False) -> list[Row]:
    """Each number of parties and nodes in a process of its own."""
    rows: list[Row] = []
    for kind, counts in (QUICK_COUNTS if quick else COUNTS).items():
        found = []
        for count in counts:
            say(f"{count} {kind}")
            done = subprocess.run(
                [sys.executable, "-m", "bench.many", kind, str(count)], check=True, capture_output=True
            )
            found.append(json.loads(done.stdout))
            rows += _rows(f"{count:,} {kind}", found[-1])
        for what, of in (("a round", "round"), ("memory", "memory")):
            each = [one[of] / count for one, count in zip(found, counts, strict=True)]
            growth = each[-1] / each[0]
            limit = (None, "") if quick else (MOST_GROWTH, f"at most {MOST_GROWTH}")
            name = f"{what} of one of the {kind}: {counts[-1]:,} of them against {counts[0]:,}"
            rows.append(Row(name, f"{growth:.2f}", growth, *limit))
    return rows


def _rows(name: str, found: dict[str, float]) -> list[Row]:
    memory = f"{found['memory'] / 2**20:.1f} MiB"
    return [
        Row(f"{name}: a round, seconds of the processor", seconds(found["round"]), found["round"]),
        Row(f"{name}: before the first round", seconds(found["before"]), found["before"]),
        Row(f"{name}: memory of the run", memory, found["memory"]),
    ]


def measure(kind: str, count: int) -> dict[str, float]:
    """Fit with a few rounds and with more, and say what a round takes, what comes before, and the memory on top."""
    fit = _parties if kind == "parties" else _nodes
    fit(3, FEW)  # what is loaded once is no part of it
    held = read_status("VmRSS")
    few, more = fit(count, FEW), fit(count, MORE)
    each = max((more - few) / (MORE - FEW), 1e-9)  # where so little is done that the clock decides
    return {"round": each, "before": max(few - FEW * each, 1e-9), "memory": max(read_status("VmHWM") - held, 1)}


def _parties(count: int, rounds: int) -> float:
    """A party of one column each; seconds of the processor."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(ROWS, count))
    labels = values[:, 0] + rng.normal(size=ROWS) > 0
    blocks = {f"party{k}": values[:, k : k + 1] for k in range(count)}
    return _timed(VerticalClassifier(alpha=0.01, tol=1e-14, max_rounds=rounds), blocks, labels)


def _nodes(count: int, rounds: int) -> float:
    """Nodes of a random graph; seconds of the processor."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(count, NODE_ROWS, NODE_COLUMNS))
    labels = values[:, :, 0] + rng.normal(size=(count, NODE_ROWS)) > 0
    tables = {f"node{k}": values[k] for k in range(count)}
    model = HorizontalClassifier(alpha=0.01, tol=1e-14, graph="random", random_state=0, max_rounds=rounds)
    return _timed(model, tables, {f"node{k}": labels[k] for k in range(count)})


def _timed(model: VerticalClassifier | HorizontalClassifier, tables: object, labels: object) -> float:
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is meant not to stop
        model.fit(tables, labels)
    return time.process_time() - began


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
