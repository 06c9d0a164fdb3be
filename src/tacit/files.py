"""Files: written whole or not at all, read without trust (JSON, arrays, TOML), locked by one process, with digests."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np
from numpy.lib.npyio import NpzFile

from tacit.errors import FaultError, InputError
from tacit.text import is_control, one_line, show

TEMPORARY = ".writing-"  # begins the name of a file that is not yet whole
PAUSE = 0.05  # seconds before a lock is tried again
_READING = threading.Lock()  # held while a file of arrays is open

# --- Files that are written whole or not at all, and read without trust


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

    What is packed is refused: nothing here writes it so, and a small file could unpack to any size.

    One at a time in a process: of two threads that parse headers at once Python before 3.11.8 fails one now and then,
    and a whole file would seem damaged.
    """
    with _READING, open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
        if not isinstance(file, NpzFile) or not file.zip or any(one.compress_type for one in file.zip.infolist()):
            raise ValueError("it is no file of arrays as they are written here")
        yield file


def damaged(path: Path, reason: str) -> InputError:
    """The refusal of a file of a run."""
    return InputError(f"cannot use {show_path(path)}: {reason}; train again into another directory")


def show_path(path: str | os.PathLike[str]) -> str:
    """A path for a message: whole, on one line."""
    return "".join(c if c.isprintable() else "?" for c in os.fspath(path))


def quote_path(path: str | os.PathLike[str]) -> str:
    """A path for a message, in quotes."""
    return f'"{show_path(path)}"'


def writable(path: str, option: str) -> Path:
    """The path of a file to write, which `option` named.

    Raises
    ------
    InputError
        For a folder, or where its folder is not there.
    """
    target = Path(path)
    if target.is_dir() or not target.parent.is_dir():
        raise InputError(f"cannot write {show_path(target)}: give {option} a file in a directory that is there")
    return target


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


# --- Locks: the system lets them go when their file is closed or the process ends, however it ends


def open_lock(path: Path) -> int:
    """Open a lock file, made where there is none, which its owner alone can read; its descriptor."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def wait_for_lock(file: int | IO[bytes]) -> None:
    """Take a lock, and wait for whoever holds it."""
    import fcntl

    fcntl.flock(file, fcntl.LOCK_EX)


def try_lock(file: int | IO[bytes], *, tries: int = 1, by_process: bool = False) -> bool:
    """Take a lock where nobody else holds it; whether it was taken.

    With `by_process` one process may take it several times, and closing any of its descriptors lets it go.
    """
    if sys.platform == "win32":  # there are no such locks
        return True
    import fcntl

    take = fcntl.lockf if by_process else fcntl.flock
    for left in reversed(range(tries)):
        try:
            take(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError:
            if left:
                time.sleep(PAUSE)
    return False


def lock_held(path: Path) -> bool:
    """Whether a process holds a lock; looking lets go at once."""
    if sys.platform == "win32":
        return True
    import fcntl

    try:
        with open(path, "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


# --- Digests


def text_digest(text: str) -> str:
    """SHA-256 of a text, in hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


# --- TOML that somebody else may have written, and the few kinds of value that settings have
#
# Such TOML is small, flat, and in characters that a terminal shows as they are. The standard library's parser takes
# time that grows with the square of the number of parts of a dotted key, so the text is looked at once, in time that
# grows with its length, before it is parsed.


MOST_BYTES = 1_000_000
DEEPEST = 16  # parts of a dotted key, and brackets inside brackets

# Text and comments, which may hold anything. What is not closed goes on to the end of the text: every match is final.
_QUOTED = re.compile(
    r'"""(?:[^\\"]|\\(?s:.)|"(?!""))*+(?:"{3,5}|\Z)|'
    r"'''(?:[^']|'(?!''))*+(?:'{3,5}|\Z)|"
    r'"(?:[^\\"\n]|\\[^\n])*+(?:"|\n|\\|\Z)|'
    r"'[^'\n]*+(?:'|\n|\Z)|"
    r"(#)[^\n]*+"
)
_DOTTED = re.compile(r"[^=,\[\]{}\n]++")  # a key or a value, of which none has many dots outside of quotes


def read_toml(text: str, what: str) -> dict[str, Any]:
    """Parse a text.

    Parameters
    ----------
    text : str
    what : str
        What it is, for the message: "the file", "the job".

    Raises
    ------
    InputError
        With the reason: it is too long, too deep, no TOML, or holds control characters.
    """
    if len(text) > MOST_BYTES or len(text.encode("utf-8", "surrogatepass")) > MOST_BYTES:
        raise InputError(f"{what} is longer than {MOST_BYTES:,} bytes: that is no list of settings; shorten it")
    _check_depth(text, what)
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # TOMLDecodeError, which says the line, is a ValueError
        raise InputError(f"{what} is not valid TOML: {one_line(error)}") from error
    _check_characters(document, what)
    return document


def read_toml_file(path: Path) -> dict[str, Any]:
    """Parse a file of settings, with one line for what is wrong.

    Raises
    ------
    InputError
        Where it is missing, too long, too deep, or no TOML.
    """
    try:
        with path.open("rb") as file:
            return read_toml(file.read(MOST_BYTES + 1).decode("utf-8"), "the file")
    except (OSError, ValueError) as error:  # InputError is a ValueError, too
        raise InputError(f"cannot read {quote_path(path)}: {one_line(error)}") from error


def _check_depth(text: str, what: str) -> None:
    """Refuse what a parser would take long for, or run out of stack."""
    plain = _QUOTED.sub(lambda found: "" if found[1] else "s", text)
    if any(found[0].count(".") >= DEEPEST for found in _DOTTED.finditer(plain)):
        raise InputError(f"{what} has a dotted key of more than {DEEPEST} parts: no setting is so deep; shorten it")
    depth = 0
    for bracket in re.findall(r"[\[\]{}\n]", plain):
        if bracket in "[{":
            depth += 1
        elif bracket in "]}":
            depth = max(0, depth - 1)
        if depth > DEEPEST:
            raise InputError(f"{what} has more than {DEEPEST} brackets inside each other: no setting is so deep")


def _check_characters(value: Any, what: str, where: str = "") -> None:
    """Refuse characters that would move the cursor or turn the text around where a name is shown."""
    if isinstance(value, str):
        if not value.isprintable() and any(map(is_control, value)):
            place = f" in {where}" if where else ""
            raise InputError(f"{what} has a control character{place}, {show(value)}: leave it out")
    elif isinstance(value, dict):
        for key, item in value.items():
            _check_characters(key, what, where or "a key")
            _check_characters(item, what, f"{where}.{key}" if where else key)
    elif isinstance(value, list):
        for item in value:
            _check_characters(item, what, where)


def assignment(key: str, value: Any) -> str | None:
    """Return 'key = value' in TOML, or None for a value that is not given."""
    return None if value is None else f"{key} = {literal(value)}"


def literal(value: Any) -> str:
    """Write one of the few kinds of value that settings have."""
    if isinstance(value, str):
        return '"' + "".join(_escaped(character) for character in value) + '"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{literal(key)} = {literal(item)}" for key, item in value.items()) + " }"
    if isinstance(value, tuple):
        return "[" + ", ".join(literal(item) for item in value) + "]"
    return repr(value)


def _escaped(character: str) -> str:
    """Escape what TOML does not allow inside double quotes."""
    if character in '"\\':
        return "\\" + character
    if ord(character) < 0x20 or ord(character) == 0x7F:
        return f"\\u{ord(character):04x}"
    return character
