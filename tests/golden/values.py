"""Whatever a run leaves, as values of JSON that are short, and the same on every day and in every folder.

What is masked, and nothing else:

- clocks: fields named "seconds" and "at" (clocks that stand still are printed as such: see `adapter.repeatable`)
- versions: whatever is in a field named "versions", and "NAME VERSION" of the package and those it computes with
- folders: the one that a configuration works in, and that of temporary files
- keys and names of runs need no mask: they are the same in every run (`adapter.repeatable`)

Long arrays are kept as type, shape, sum, sum of squares, first and last entry; whole numbers and bytes as a digest.
Long texts are kept as a digest, their number of lines and the first ones.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import json
import math
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.golden import adapter

SHORT_ARRAY, SHORT_TEXT = 4, 6000
CLOCKS = frozenset({"seconds", "at"})
VERSION, FOLDER, TEMPORARY = "<version>", "<folder>", "<temporary>"
LOCKS = frozenset({"lock", "run.lock"})


def plain(value: Any, folder: Path | None = None) -> Any:
    """A value as it is recorded."""
    if isinstance(value, np.ndarray):
        return of_array(value)
    if isinstance(value, Mapping):
        return {str(key): _field(str(key), item, folder) for key, item in value.items() if key not in CLOCKS}
    if isinstance(value, enum.Enum):
        return plain(value.value, folder)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return plain({one.name: getattr(value, one.name) for one in dataclasses.fields(value)}, folder)
    if isinstance(value, (list, tuple)):
        return _listed(value, folder)
    if isinstance(value, bytes):
        return {"bytes": len(value), "sha256": digest(value)}
    if isinstance(value, (set, frozenset)):
        return _listed(sorted(value), folder)
    if isinstance(value, str):
        return masked(value, folder)
    return _scalar(value)


def _field(key: str, item: Any, folder: Path | None) -> Any:
    if key == "versions" and isinstance(item, Mapping):
        return f"{VERSION} of {', '.join(item)}"
    return plain(item, folder)


def _listed(items: Sequence[Any], folder: Path | None) -> Any:
    """A list; long ones of numbers as an array, and records with the same fields as columns."""
    numbers = all(isinstance(item, (int, float)) and not isinstance(item, bool) for item in items)
    if numbers and len(items) > SHORT_ARRAY and any(isinstance(item, float) for item in items):
        return of_array(np.array(items, dtype=np.float64))
    return [plain(item, folder) for item in items]


def _scalar(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"{type(value).__name__} has no place in a record: make it a plain value")


def columns(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Records of rounds by their fields, without clocks; an array for each field of numbers."""
    names = list(dict.fromkeys(name for row in rows for name in row if name not in CLOCKS))
    return {"rows": len(rows), "columns": {name: _column([row.get(name) for row in rows]) for name in names}}


def _column(items: Sequence[Any]) -> Any:
    if len(set(map(repr, items))) == 1:
        return {"always": plain(items[0])}
    return plain(items)


# --- arrays and bytes ------------------------------------------------------------------------------------


def digest(content: bytes) -> str:
    """The beginning of a sha256."""
    return hashlib.sha256(content).hexdigest()[:20]


def of_array(array: np.ndarray) -> dict[str, Any]:
    """An array as a few values."""
    kind = f"{array.dtype} {'x'.join(map(str, array.shape)) or 'scalar'}"
    if array.dtype.kind in "OUSb":
        return {"array": kind, "values": [plain(one) for one in array.ravel().tolist()]}
    if array.dtype.kind in "iu":
        return {"array": kind, "sha256": digest(np.ascontiguousarray(array).tobytes())}
    flat = array.astype(np.float64).ravel()
    if flat.size <= SHORT_ARRAY or not np.isfinite(flat).all():
        return {"array": kind, "values": [_scalar(one) for one in flat.tolist()]}
    some = [float(flat[0]), float(flat[-1])]
    return {"array": kind, "sum": math.fsum(flat), "squares": math.fsum(flat**2), "some": some}


def together(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Several arrays as one: their names and kinds, and sums over all of them."""
    shapes = {name: "x".join(map(str, array.shape)) for name, array in arrays.items()}
    kinds = ", ".join(f"{name} {array.dtype} {shapes[name]}" for name, array in arrays.items())
    whole = [np.ascontiguousarray(array).tobytes() for array in arrays.values() if array.dtype.kind in "iu"]
    flat = np.concatenate([np.zeros(0), *(array.ravel() for array in arrays.values() if array.dtype.kind == "f")])
    if not flat.size:
        return {"array": kinds, **({"sha256": digest(b"".join(whole))} if whole else {})}
    return {"array": kinds, "sum": math.fsum(flat), "squares": math.fsum(flat**2)} | (
        {"sha256": digest(b"".join(whole))} if whole else {}
    )


# --- texts and files -------------------------------------------------------------------------------------


def masked(text: str, folder: Path | None = None) -> str:
    """A text without versions and folders."""
    if folder is not None:
        text = text.replace(str(folder), FOLDER)
    text = text.replace(tempfile.gettempdir(), TEMPORARY)
    for name, version in adapter.versions().items():
        text = text.replace(f"{name} {version}", f"{name} {VERSION}")
    return text


def of_text(text: str, folder: Path | None = None, *, most: int = SHORT_TEXT) -> Any:
    """A text as its lines, or as a digest where it has more characters than `most`."""
    text = masked(text, folder)
    lines = text.split("\n")
    if len(text) <= min(most, SHORT_TEXT):
        return {"lines": lines}
    return {"sha256": digest(text.encode()), "count": len(lines), "begins": [line[:120] for line in lines[:2]]}


def of_page(text: str, folder: Path | None = None) -> Any:
    """A page: a digest of all of it, and what a reader reads."""
    text = masked(text, folder)
    seen = re.sub(r"<(style|script|svg)\b.*?</\1>", "", text, flags=re.DOTALL)
    lines = [" ".join(line.split()) for line in re.sub(r"<[^>]*>", "\n", seen).splitlines()]
    return {"sha256": digest(text.encode()), "lines": [line for line in lines if line]}


def of_file(path: Path, folder: Path, most: int = SHORT_TEXT) -> Any:
    """A file as values: JSON and arrays by their parts, traces by columns, texts by lines, all else by its bytes."""
    raw = path.read_bytes()
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as file:
            return {name: of_array(file[name]) for name in file.files}
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return plain(raw)
    if path.suffix == ".json":
        return {"json": plain(json.loads(text), folder)}
    if path.suffix == ".jsonl":
        return columns([json.loads(line) for line in text.splitlines()])
    return of_page(text, folder) if path.suffix == ".html" else of_text(text, folder, most=most)


def of_folder(place: Path, folder: Path, most: int = SHORT_TEXT) -> dict[str, Any]:
    """Every file below a place by its name; of locks, that they are there; of copies, of what."""
    found: dict[str, Any] = {}
    for path in sorted(path for path in place.rglob("*") if path.is_file()):
        content = "a lock" if path.name in LOCKS else of_file(path, folder, most)
        first = next((name for name, known in found.items() if known == content and content != "a lock"), None)
        found[masked(path.relative_to(place).as_posix(), folder)] = content if first is None else f"as {first}"
    return found
