"""Versions of named arrays in a folder, one after another: of each only what changed since the last is written.

A state may hold many vectors of one number per row, of which each step replaces one. Large arrays are cut into columns
where they lie so in memory, and a part is known by its SHA-256: one that a file of an earlier version holds is not
written again. Every version is one file, written whole and on the disk when `put` returns. A file stays while a version
that is kept needs a part of it. The files are their owner's alone.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.data.wording import one_line
from tacit.errors import RunError
from tacit.federation.releases import sync_folder
from tacit.runtime.files import show_path, write_atomically

Array = npt.NDArray[Any]
LARGE = 1 << 15  # bytes; what is smaller is written as it is
MOST_HELD = 1 << 26  # bytes of an array of which a copy is kept in memory
_NAME = re.compile(r"step-(\d{9})\.npz")


class Shelf:
    """The last versions in a folder of their own.

    Parameters
    ----------
    folder : Path
        It is made where needed.
    kept : int
        How many versions can be read again.
    """

    def __init__(self, folder: Path, kept: int) -> None:
        self.folder, self.kept = folder, kept
        folder.mkdir(parents=True, exist_ok=True)
        self._where: dict[int, dict[str, int]] = {}  # for each version that is kept: the file of each of its parts
        self._held: dict[str, list[tuple[str, Array]]] = {}  # by name: fingerprints and copies of the last time
        for number in self.numbers():
            self._where[number] = self._whereabouts(number)

    def numbers(self) -> list[int]:
        """Numbers of the versions that are kept, in order."""
        return self._files()[-self.kept :]

    def _files(self) -> list[int]:
        found = (_NAME.fullmatch(path.name) for path in self.folder.iterdir())
        return sorted(int(match[1]) for match in found if match)

    def put(self, number: int, arrays: Mapping[str, Array], about: Mapping[str, Any]) -> None:
        """Keep a version, whose number is above all others, and forget those that are not kept any more."""
        if self._where and number <= max(self._where):
            raise RunError(f"version {number} comes after {max(self._where)} in {show_path(self.folder)}: refused")
        known = {part: file for where in self._where.values() for part, file in where.items()}
        own: dict[str, Array] = {}
        where: dict[str, int] = {}
        layout: dict[str, Any] = {}
        for name, array in arrays.items():
            if array.nbytes < LARGE:
                own[f"small/{name}"] = array
                continue
            pieces = self._fingerprinted(name, _cut(array))
            layout[name] = {"shape": list(array.shape), "type": array.dtype.str, "parts": [part for part, _ in pieces]}
            for part, piece in pieces:
                where[part] = known.get(part, number)
                if where[part] == number:
                    own[f"part/{part}"] = piece
        record = json.dumps({"about": about, "layout": layout, "where": where}, allow_nan=False)
        own["record"] = np.frombuffer(record.encode(), np.uint8)
        write_atomically(self._path(number), lambda file: np.savez(file, **own), secret=True)  # type: ignore[arg-type]
        sync_folder(self.folder)
        self._where[number] = where
        self._tidy()

    def _fingerprinted(self, name: str, pieces: list[Array]) -> list[tuple[str, Array]]:
        """Parts with their fingerprints; comparing with a copy of the last time is ten times faster than SHA-256."""
        held, copies = self._held.get(name, []), sum(piece.nbytes for piece in pieces) <= MOST_HELD
        found = []
        for place, piece in enumerate(pieces):
            known = held[place] if place < len(held) else None
            found.append(known if known is not None and _same(known[1], piece) else (_fingerprint(piece), piece))
        self._held[name] = (
            [
                (part, piece if piece is not now else piece.copy())
                for (part, piece), now in zip(found, pieces, strict=True)
            ]
            if copies
            else []
        )
        return found

    def _tidy(self) -> None:
        """Delete the files that no version needs."""
        for old in sorted(self._where)[: -self.kept]:
            del self._where[old]
        needed = set(self._where) | {file for where in self._where.values() for file in where.values()}
        for number in self._files():
            if number not in needed:
                self._path(number).unlink(missing_ok=True)

    def get(self, number: int) -> tuple[dict[str, Array], dict[str, Any]]:
        """The arrays of a version that is kept, and what was said about it.

        Raises
        ------
        RunError
            Where a file is missing or damaged.
        """
        try:
            with np.load(self._path(number), allow_pickle=False) as file:
                record = json.loads(bytes(file["record"]).decode())
                arrays = {k.removeprefix("small/"): file[k] for k in file.files if k.startswith("small/")}
            parts = self._parts(record["where"])
            for name, layout in record["layout"].items():
                arrays[name] = _joined(layout, parts)
            return arrays, record["about"]
        except Exception as error:  # zip, numpy and json raise all sorts on a damaged file
            raise self._damaged(number, error) from error

    def _parts(self, where: Mapping[str, int]) -> dict[str, Array]:
        parts = {}
        for number in sorted(set(where.values())):
            with np.load(self._path(number), allow_pickle=False) as file:
                for part in (part for part, place in where.items() if place == number):
                    parts[part] = file[f"part/{part}"]
        return parts

    def _whereabouts(self, number: int) -> dict[str, int]:
        try:
            with np.load(self._path(number), allow_pickle=False) as file:
                record = json.loads(bytes(file["record"]).decode())
            return {str(part): int(place) for part, place in record["where"].items()}
        except Exception as error:
            raise self._damaged(number, error) from error

    def _damaged(self, number: int, error: Exception) -> RunError:
        return RunError(f"cannot read {show_path(self._path(number))}: {one_line(error)}")

    def forget(self) -> None:
        """Delete everything."""
        for number in self._files():
            self._path(number).unlink(missing_ok=True)
        self._where = {}

    def _path(self, number: int) -> Path:
        return self.folder / f"step-{number:09d}.npz"


def _cut(array: Array) -> list[Array]:
    """An array's columns where they lie one after another, else itself."""
    if array.ndim == 2 and array.flags.f_contiguous and not array.flags.c_contiguous:
        return list(array.T)
    return [np.ascontiguousarray(array)]


def _same(one: Array, other: Array) -> bool:
    """Whether two contiguous arrays are the same to the bit."""
    alike = one.shape == other.shape and one.dtype == other.dtype
    return alike and np.array_equal(one.reshape(-1).view(np.uint8), other.reshape(-1).view(np.uint8))


def _fingerprint(piece: Array) -> str:
    whole = hashlib.sha256(f"{piece.dtype.str} {piece.shape} ".encode())
    whole.update(piece.data)
    return whole.hexdigest()


def _joined(layout: Mapping[str, Any], parts: Mapping[str, Array]) -> Array:
    """An array of its parts: itself, or its columns."""
    shape, found = tuple(layout["shape"]), [parts[part] for part in layout["parts"]]
    if len(found) == 1 and found[0].shape == shape:
        return found[0]
    array = np.empty(shape, dtype=layout["type"], order="F")
    for place, column in enumerate(found):
        array[:, place] = column
    return array
