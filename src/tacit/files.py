"""Files of a run: written whole or not at all, read without trust, and nothing in them executable."""

from __future__ import annotations

import json
import math
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np
from numpy.lib.npyio import NpzFile

from tacit.errors import FaultError, InputError
from tacit.text import one_line, show

TEMPORARY = ".writing-"  # begins the name of a file that is not yet whole
_READING = threading.Lock()  # held while a file of arrays is open


def write_atomically(path: Path, write: Callable[[IO[bytes]], object], *, secret: bool = False) -> None:
    """Let `write` fill a file that takes the place of `path` only once it is whole and on the disk.

    A `secret` file can be read by its owner alone, at every moment.

    Raises
    ------
    FaultError
        Where the disk refuses; what was at `path` before is untouched.
    """
    temporary: str | None = None
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=TEMPORARY, dir=path.parent)
        with os.fdopen(descriptor, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        if not secret:  # as it was made, nobody else can read it
            os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
        temporary = None
    except OSError as error:
        raise FaultError(f"cannot write {show(str(path))}: {one_line(error)}") from error
    finally:
        if temporary is not None and os.path.exists(temporary):
            os.unlink(temporary)


def write_text(path: Path, text: str, *, secret: bool = False) -> None:
    """Write UTF-8 text atomically."""
    write_atomically(path, lambda file: file.write(text.encode("utf-8")), secret=secret)


def write_json(path: Path, record: Any, *, secret: bool = False) -> None:
    """Write a record as strict JSON, atomically; floats are written so that they read back exactly."""
    write_text(path, json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n", secret=secret)


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises
    ------
    InputError
        Where the file is missing, cut short or garbled; the message names it.
    """
    try:
        text = path.read_bytes().decode("utf-8")
        record = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_refuse_twins)
    except FileNotFoundError as error:
        raise damaged(path, "it is missing") from error
    except OSError as error:
        raise damaged(path, one_line(error)) from error
    except (ValueError, RecursionError) as error:  # no UTF-8, no JSON, or nested without end
        raise damaged(path, f"it is not whole JSON ({one_line(error)})") from error
    if not isinstance(record, dict):
        raise damaged(path, "it holds no JSON object")
    return record


@contextmanager
def open_arrays(path: str | os.PathLike[str]) -> Iterator[NpzFile]:
    """A file of arrays, to read from; nothing in it is executable, and a damaged one raises whatever its reader raises.

    One at a time in a process: of two threads that parse headers at once Python before 3.11.8 fails one now and then,
    and a whole file would seem damaged.
    """
    with _READING, open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
        yield file


def damaged(path: Path, reason: str) -> InputError:
    """The refusal of a file of a run."""
    return InputError(f"cannot use {show_path(path)}: {reason}; train again into another directory")


def show_path(path: str | os.PathLike[str]) -> str:
    """A path for a message: whole, on one line."""
    return "".join(c if c.isprintable() else "?" for c in os.fspath(path))


def plain_number(value: float) -> float | str:
    """A number for strict JSON, which has no infinities and no NaN: these become "infinity", "-infinity", "nan"."""
    if math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else "infinity" if value > 0 else "-infinity"


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _refuse_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; which of two values of one field is meant would be a guess."""
    record: dict[str, Any] = {}
    for name, value in pairs:
        if name in record:
            raise ValueError(f"the field {show(name)} is given twice")
        record[name] = value
    return record


def _umask() -> int:
    """The process's umask, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
