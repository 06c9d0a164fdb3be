"""Training on rows that stay on disk: peak memory, and seconds per round beside reading the columns once."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.clock import timed
from bench.progress import say
from bench.row import Row, seconds

TITLE = "two Parquet files of 20 columns, 20 million rows, logistic loss, tacit train --memory 2GB"
ROWS, MEMORY, QUICK_ROWS, QUICK_MEMORY = 20_000_000, "2GB", 60_000, "600MB"
WIDTH, ROW_GROUP = 20, 1 << 20
MOST_MEMORY, MOST_READS = 2.0, 2.0
CASES = ((np.float32, "the same order"), (np.float32, "another order"), (np.float64, "the same order"))
COLUMNS = [f"x{j}" for j in range(WIDTH)]
JOB = """\
[job]
name = "pair"
[encode]
scale = "none"
[[party]]
name = "first"
data = "first.parquet"
id = "id"
label = "y"
[[party]]
name = "second"
data = "second.parquet"
id = "id"
"""


@dataclass(frozen=True)
class Measured:
    """What one training left behind: bytes at the peak, and seconds of each round and each reading after it."""

    written: int
    peak: int
    setup: float
    rounds: list[float]
    reads: list[float]


def run(quick: bool) -> list[Row]:
    """Train on float32 columns with ids in the same order and in another, and on float64 columns."""
    rows, memory = (QUICK_ROWS, QUICK_MEMORY) if quick else (ROWS, MEMORY)
    table = []
    for dtype, order in CASES:
        case = f"{dtype.__name__}, ids in {order}"
        with tempfile.TemporaryDirectory(prefix="tacit-bench-") as folder:
            say(f"writing {rows} rows, {case}")
            write_pair(Path(folder), rows, shuffled=order == "another order", dtype=dtype)
            say(f"training, {case}")
            table += _rows(case, measure(Path(folder), memory), judged=not quick)
    return table


def write_pair(folder: Path, rows: int, *, shuffled: bool = False, dtype: type[np.floating[Any]] = np.float32) -> Path:
    """Write the two files and the job; returns the job."""
    rng = np.random.default_rng(0)
    truth = rng.normal(size=2 * WIDTH) / 4
    ids = np.random.default_rng(1).permutation(rows) if shuffled else np.arange(rows)
    fields = [("id", pa.int64()), *((name, pa.from_numpy_dtype(dtype)) for name in COLUMNS)]
    schemas = pa.schema([*fields, ("y", pa.int8())]), pa.schema(fields)
    with (
        pq.ParquetWriter(folder / "first.parquet", schemas[0]) as first,
        pq.ParquetWriter(folder / "second.parquet", schemas[1]) as second,
    ):
        for start in range(0, rows, ROW_GROUP):
            count = min(ROW_GROUP, rows - start)
            X = rng.standard_normal((count, 2 * WIDTH), dtype=dtype)
            X[:, WIDTH:] += 0.5 * X[:, :WIDTH]
            y = (X @ truth + rng.logistic(size=count) > 0.3).astype(np.int8)
            columns = [pa.array(np.ascontiguousarray(column)) for column in X.T]
            one, other = pa.array(np.arange(start, start + count)), pa.array(ids[start : start + count])
            first.write_batch(pa.record_batch([one, *columns[:WIDTH], pa.array(y)], schema=schemas[0]))
            second.write_batch(pa.record_batch([other, *columns[WIDTH:]], schema=schemas[1]))
    (folder / "job.toml").write_text(JOB)
    return folder / "job.toml"


def measure(folder: Path, memory: str) -> Measured:
    """Train in a process of its own; after each of its rounds it waits while the columns are read here."""
    command = [sys.executable, "-m", "bench.streamed_run", str(folder / "job.toml"), str(folder / "run"), memory]
    reads: list[float] = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line in process.stdout:
            if line != "round\n":
                break
            reads.append(timed(lambda: _read(folder)))
            process.stdin.write("go on\n")
            process.stdin.flush()
        last = line
    if process.returncode:
        raise RuntimeError(f"training ended with {process.returncode}")
    peak, setup, *rounds = (float(word) for word in last.split())
    return Measured(_parquet_bytes(folder), int(peak), setup, rounds, reads)


def _parquet_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.parquet"))


def _read(folder: Path) -> None:
    """Read the features of both files once, a batch at a time as memory demands, with all threads."""
    for name in ("first", "second"):
        with pq.ParquetFile(folder / f"{name}.parquet") as file:
            for _ in file.iter_batches(1 << 16, columns=COLUMNS):
                pass


def _rows(case: str, measured: Measured, *, judged: bool) -> list[Row]:
    """The ratio is that of the means: all rounds, and one reading after each of them."""
    each, read = float(np.mean(measured.rounds)), float(np.mean(measured.reads))
    peak, ratio = measured.peak / 1e9, each / read
    limits = (MOST_MEMORY, "below 2 GB"), (MOST_READS, "at most 2")
    memory, times = limits if judged else ((None, ""), (None, ""))
    return [
        Row(f"peak memory, {case}", f"{peak:.3f} GB", peak, *memory),
        Row(f"seconds per round / reading once, {case}", f"{ratio:.2f}", ratio, *times),
        Row(f"mean seconds of {len(measured.rounds)} rounds", f"{seconds(each)}", each),
        Row(f"mean seconds of {len(measured.reads)} readings of the same columns with pyarrow", seconds(read), read),
        Row("before the first round", f"{seconds(measured.setup)}", measured.setup),
        Row("the two Parquet files", f"{measured.written / 1e9:.3g} GB", measured.written / 1e9),
    ]
