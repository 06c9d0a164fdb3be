"""What a run writes down so that it can go on: lines of its trace, its whole state, and what must be the same then."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tacit.columns.compact import CurveMatrix
from tacit.columns.raw import RawTable
from tacit.data.cluster import ClusterRows
from tacit.data.labels import Labels
from tacit.data.rows_on_disk import RowsOnDisk
from tacit.errors import FaultError, InputError
from tacit.files import open_arrays, plain_number, write_atomically, write_text
from tacit.job import Job
from tacit.job.sections import ENCODE_KEYS, GRAPH_KEYS, OPTION_KEYS, PRIVACY_KEYS, PRIVACY_OPTIONS, SEARCH_KEYS
from tacit.job.trees import TREES_KEYS
from tacit.run.drive import LoopState, Session
from tacit.text import one_line, show
from tacit.types import Arrays, Shard, Trace, TraceRow, Vector

# --- The trace of a run on disk: one line per round, for who watches it, and what they see


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


# --- Checkpoints: the whole state of a run in one file of arrays, from which it goes on to the same result


CHECKPOINT_SECONDS = 2.0  # at most so often ...
LOW_MEMORY_CHECKPOINT_SECONDS = 60.0  # where a state has a few numbers for each of very many rows
CHECKPOINT_SHARE = 0.1  # ... and never more than this part of the time
_TRACE_FIELDS = tuple(field.name for field in dataclasses.fields(TraceRow))
_WHOLE_FIELDS = ("round", "bytes_down", "bytes_up")


def check_interval(seconds: float | None, name: str) -> None:
    """Refuse what is no time between checkpoints; `name` is what the user gave it by."""
    if seconds is not None and not 0 <= seconds < math.inf:
        raise InputError(f"{name} {seconds} is not allowed: it must be a number of seconds, 0 or above")


class Checkpoints:
    """Saves a run after a round, but not so often that it costs time.

    Parameters
    ----------
    path : Path
        The file, replaced each time.
    every : float
        Seconds between checkpoints at least; 0 saves after every round, whatever it costs.
    """

    def __init__(self, path: Path, every: float = CHECKPOINT_SECONDS) -> None:
        self.path, self.every = path, every
        self.wait, self.last = every, time.perf_counter()

    def __call__(self, run: Session[object]) -> None:
        """Save where it is time to."""
        began = time.perf_counter()
        if began - self.last < self.wait:
            return
        write_checkpoint(self.path, run)
        self.last = time.perf_counter()
        if self.every > 0:
            self.wait = max(self.every, (self.last - began) / CHECKPOINT_SHARE)


def write_checkpoint(path: Path, run: Session[object]) -> None:
    """Save everything needed to go on: the state of every side and the loop's, arrays and JSON only.

    In a private run that includes the keys of its noise, with which the noise could be taken off: the file is secret.
    """
    arrays = checkpoint_arrays(run)
    write_atomically(path, lambda file: np.savez(file, **arrays), secret=True)  # type: ignore[arg-type]


def checkpoint_arrays(run: Session[object]) -> Arrays:
    """Everything needed to go on, as arrays with names."""
    loop = asdict(dataclasses.replace(run.state, trace=Trace()))
    del loop["trace"]
    arrays = {f"state/{who}/{name}": value for who, state in run.snapshot().items() for name, value in state.items()}
    arrays["loop"] = np.frombuffer(json.dumps(loop, allow_nan=False).encode(), np.uint8)
    rows = [[float(getattr(row, name)) for name in _TRACE_FIELDS] for row in run.state.trace]
    arrays["trace"] = np.array(rows, dtype=np.float64).reshape(-1, len(_TRACE_FIELDS))
    return arrays


def read_checkpoint(path: Path) -> tuple[dict[str, Arrays], LoopState]:
    """Read a checkpoint; a damaged one raises whatever its reader raises."""
    with open_arrays(path) as file:
        return from_arrays({key: file[key] for key in file.files})


def from_arrays(arrays: Arrays) -> tuple[dict[str, Arrays], LoopState]:
    """What `checkpoint_arrays` made: the state of every side, and the loop's."""
    states: dict[str, Arrays] = {}
    loop = json.loads(bytes(arrays["loop"]).decode())
    trace = Trace(_trace_row(values) for values in arrays["trace"])
    for key, array in arrays.items():
        if key.startswith("state/"):
            who, name = key.removeprefix("state/").rsplit("/", 1)
            states.setdefault(who, {})[name] = _floats(array)
    state = LoopState(
        exchange=int(loop["exchange"]),
        rounds=int(loop["rounds"]),
        converged=bool(loop["converged"]),
        note=str(loop["note"]),
        seconds=float(loop["seconds"]),
        down=int(loop.get("down", 0)),
        up=int(loop.get("up", 0)),
        trace=trace,
    )
    if len(trace) != state.rounds:
        raise ValueError(f"{len(trace)} rounds of trace for {state.rounds}")
    return states, state


def _floats(array: npt.NDArray[Any]) -> Vector:
    if array.dtype.kind not in "fiub":
        raise ValueError(f"numbers of type {array.dtype}")
    return array


def _trace_row(values: Vector) -> TraceRow:
    named: dict[str, Any] = dict(zip(_TRACE_FIELDS, values.tolist(), strict=True))
    return TraceRow(**{name: int(value) if name in _WHOLE_FIELDS else value for name, value in named.items()})


# --- What must be the same when a run goes on: its job, its plan and its data, compared value by value


def fingerprint(shards: Sequence[Shard], labels: Labels) -> dict[str, Any]:
    """Shape and sha256 of every party's columns and of the labels: two data sets differ where these differ."""
    parties = {
        shard.name: {
            "shape": list(shard.features.shape),
            "columns": _sha256([np.frombuffer(json.dumps(shard.columns).encode(), np.uint8)]),
            "sha256": _digest(shard.features),
        }
        for shard in shards
    }
    known = [labels.values] if labels.epsilons is None else [labels.values, labels.epsilons]
    return {"parties": parties, "labels": _sha256(known), "classes": list(labels.classes)}


def job_values(job: Job) -> dict[str, Any]:
    """Every value of a job that shapes the result; paths may change, for the data's own fingerprint is compared."""
    values: dict[str, Any] = {f"model.{key}": value for key, value in asdict(job.model).items()}
    keys = (
        "split",
        "engine",
        "rounds",
        "tol",
        "seed",
        "secure_aggregation",
        "memory",
        "holdout",
        "holdout_after",
        "evaluation",
    )
    values |= {f"job.{key}": getattr(job, key) for key in keys}
    values |= {f"trees.{key}": job.trees and getattr(job.trees, key) for key in TREES_KEYS}
    values |= {f"graph.{key}": job.graph and getattr(job.graph, key) for key in GRAPH_KEYS}
    values |= {f"encode.{key}": getattr(job.encode, key) for key in ENCODE_KEYS}
    values |= {f"search.{key}": job.search and getattr(job.search, key) for key in SEARCH_KEYS}
    values |= {f"privacy.{key}": job.privacy and getattr(job.privacy, key) for key in PRIVACY_KEYS}
    values |= {f"{PRIVACY_OPTIONS}.{key}": job.options and getattr(job.options, key) for key in OPTION_KEYS}
    values["the number of parties"] = len(job.parties)
    for number, spec in enumerate(job.parties, start=1):
        of_party = ("name", "id", "label", "positive", "features", "columns", "holdout_column")
        values |= {f"party {number}.{key}": getattr(spec, key) for key in of_party}
    return values


def first_difference(old: dict[str, Any], new: dict[str, Any]) -> str:
    """The first value that is another, in words; empty where all are the same."""
    for key, value in new.items():
        if old.get(key) != value:
            return f"{key} is {show(value)}, it began with {show(old.get(key))}"
    return ""


def data_difference(old: dict[str, Any], new: dict[str, Any]) -> str:
    """Whose data are others than before, by two fingerprints; empty where all are the same."""
    parties = section(old, "parties")
    for name, print_ in new["parties"].items():
        if parties.get(name) != print_:
            return f"the data of party {show(name)} are not those it began with"
    same_classes = json.dumps(old.get("classes")) == json.dumps(new["classes"])  # as text: true is not 1
    same = old.get("labels") == new["labels"] and same_classes
    return "" if same else "the labels are not those it began with"


def other_lightgbm(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """That a run began with another LightGBM, which grows other trees; nothing where none are grown."""
    began, here = before.get("lightgbm"), now.get("lightgbm")
    known = "an unknown version" if began is None else show(began)
    return f"LightGBM is {show(here)} here, and it began with {known}" if began != here else ""


def section(record: dict[str, Any], key: str) -> dict[str, Any]:
    """A table in a record that was read; empty where there is none."""
    value = record.get(key)
    return value if isinstance(value, dict) else {}


def _digest(matrix: Any) -> str:
    return matrix.sha256 if isinstance(matrix, (RowsOnDisk, ClusterRows)) else _sha256(_arrays_of(matrix))


def _arrays_of(matrix: Any) -> list[npt.NDArray[Any]]:
    if isinstance(matrix, CurveMatrix | RawTable):
        return matrix.arrays
    if sparse.issparse(matrix):
        return [matrix.data, matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)]
    return [matrix]


def _sha256(arrays: Sequence[npt.NDArray[Any]]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
