"""The products of one party over a Dask cluster of two local workers beside numpy in one process, in the same run."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.clock import interleave, timed
from bench.progress import say
from bench.row import Row, seconds
from tacit.blocks import make_block
from tacit.data.cluster import ClusterAddress, ClusterFile, ClusterRows, connect
from tacit.data.load import PartySpec
from tacit.types import Vector

TITLE = "one party's 500,000 x 100 numbers on a Dask cluster of two local workers, beside numpy in one process"
ROWS, WIDTH, REPEATS = 500_000, 100, 5
QUICK_ROWS, QUICK_WIDTH, QUICK_REPEATS = 20_000, 10, 2
ROW_GROUP = 50_000
MOST_ERROR = 1e-10


def run(quick: bool) -> list[Row]:
    """Time the Gram matrix and both products, in turns."""
    from distributed import LocalCluster

    rows, width, repeats = (QUICK_ROWS, QUICK_WIDTH, QUICK_REPEATS) if quick else (ROWS, WIDTH, REPEATS)
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((rows, width))
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "silence_logs": 50}
    with tempfile.TemporaryDirectory() as folder, LocalCluster(host="127.0.0.1", **options) as workers:
        path = Path(folder, "rows.parquet")
        table = pa.table({f"x{j:03d}": column for j, column in enumerate(matrix.T)})
        pq.write_table(table, path, row_group_size=ROW_GROUP)
        del table
        with connect(ClusterAddress(workers.scheduler_address)) as cluster:
            say("the workers read their rows")
            held: list[ClusterRows] = []
            file = ClusterFile(PartySpec("first", str(path)), ".", "")
            reading = timed(lambda: held.append(ClusterRows(cluster, file)))
            return [*measure(held[0], matrix, repeats), Row("reading the rows", seconds(reading), reading)]


def measure(rows: ClusterRows, matrix: Vector, repeats: int) -> list[Row]:
    """A row for the time, the ratio and the error of each operation."""
    rng, block = np.random.default_rng(1), make_block(rows)
    x, r = rng.standard_normal(matrix.shape[1]), rng.standard_normal(matrix.shape[0])
    pairs: dict[str, tuple[Callable[[], Vector], Callable[[], Vector]]] = {
        "D'D": (block.gram, lambda: matrix.T @ matrix),
        "D x": (lambda: block.predict(x), lambda: matrix @ x),
        "D'r": (lambda: block.correlate(r), lambda: matrix.T @ r),
    }
    found = []
    for name, (there, here) in pairs.items():
        say(name)
        one, other = there(), here()  # compiled from here on
        error = float(np.linalg.norm(one - other) / np.linalg.norm(other))
        times = interleave({"there": there, "here": here}, repeats)
        cluster, numpy = (float(np.median(times[key])) for key in ("there", "here"))
        found += [
            Row(f"{name} on the cluster", seconds(cluster), cluster),
            Row(f"{name} with numpy in one process", seconds(numpy), numpy),
            Row(f"{name} ratio", f"{cluster / numpy:.2f}", cluster / numpy),
            Row(f"{name} relative error", f"{error:.1e}", error, MOST_ERROR, "at most 1e-10"),
        ]
    return found
