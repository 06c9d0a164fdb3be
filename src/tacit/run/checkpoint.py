"""Checkpoints: the whole state of a run in one file of arrays, from which it goes on to the same result."""

from __future__ import annotations

import dataclasses
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.files import open_arrays, write_atomically
from tacit.run.drive import LoopState, Session
from tacit.types import Arrays, Trace, TraceRow, Vector

CHECKPOINT_SECONDS = 2.0  # at most so often ...
LEAN_CHECKPOINT_SECONDS = 60.0  # where a state has a few numbers for each of very many rows
CHECKPOINT_SHARE = 0.1  # ... and never more than this part of the time
_TRACE_FIELDS = tuple(field.name for field in dataclasses.fields(TraceRow))
_WHOLE_FIELDS = ("round", "bytes_down", "bytes_up")


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
