"""What a site has answered so far, on its own disk: an answer is made once, kept, and sent again as it was.

A record holds the number of a step, a fingerprint of what was asked, the plain answer and the state after it. It is
written whole, and on the disk, before the answer leaves. Whoever asks the same thing again gets the same answer again;
whoever asks another thing under the same number is refused, for a second answer would be a second release. The last two
records are kept: a neighbour that died may need the answer before the last.

Below the journal lie `VersionedArrays`: versions of named arrays in a folder, one after another, of each only what
changed since the last. A state may hold many vectors of one number per row, of which each step replaces one. Large
arrays are cut into columns where they lie so in memory, and a part is known by its SHA-256: one that a file of an
earlier version holds is not written again. Every version is one file, written whole and on the disk when `put` returns.
A file stays while a version that is kept needs a part of it.

The files hold the keys of the noise, and state from which data could be found: they are their owner's alone.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.errors import RunError
from tacit.federation.protocol import Reason, RefusalError
from tacit.federation.releases import sync_folder
from tacit.files import open_arrays, show_path, write_atomically
from tacit.text import one_line
from tacit.types import Arrays

# --- Versions of named arrays in a folder, one after another: of each only what changed since the last is written


Array = npt.NDArray[Any]
LARGE = 1 << 15  # bytes; what is smaller is written each time
MOST_HELD = 1 << 26  # bytes of an array of which a copy is kept in memory
_NAME = re.compile(r"step-(\d{9})\.npz")


class VersionedArrays:
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
        small = {name: array for name, array in arrays.items() if array.nbytes < LARGE}
        for name, array in arrays.items():
            if name in small:
                continue
            pieces = self._fingerprinted(name, _cut(array))
            layout[name] = {"shape": list(array.shape), "type": array.dtype.str, "parts": [part for part, _ in pieces]}
            for part, piece in pieces:
                where[part] = known.get(part, number)
                if where[part] == number:
                    own[f"part/{part}"] = piece
        kinds, own["small"] = _packed(small)
        record = json.dumps({"about": about, "layout": layout, "small": kinds, "where": where}, allow_nan=False)
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
            with open_arrays(self._path(number)) as file:
                record = json.loads(bytes(file["record"]).decode())
                arrays = _unpacked(record["small"], file["small"])
            parts = self._parts(record["where"])
            for name, layout in record["layout"].items():
                arrays[name] = _joined(layout, parts)
            return arrays, record["about"]
        except Exception as error:  # zip, numpy and json raise all sorts on a damaged file
            raise self._damaged(number, error) from error

    def _parts(self, where: Mapping[str, int]) -> dict[str, Array]:
        parts = {}
        for number in sorted(set(where.values())):
            with open_arrays(self._path(number)) as file:
                for part in (part for part, place in where.items() if place == number):
                    parts[part] = file[f"part/{part}"]
        return parts

    def _whereabouts(self, number: int) -> dict[str, int]:
        try:
            with open_arrays(self._path(number)) as file:
                record = json.loads(bytes(file["record"]).decode())
            return {str(part): int(place) for part, place in record["where"].items()}
        except Exception as error:
            raise self._damaged(number, error) from error

    def _damaged(self, number: int, error: Exception) -> RunError:
        return RunError(f"cannot read {show_path(self._path(number))}: {one_line(error)}")

    def forget(self) -> None:
        """Delete all versions in the folder."""
        for number in self._files():
            self._path(number).unlink(missing_ok=True)
        self._where = {}

    def _path(self, number: int) -> Path:
        return self.folder / f"step-{number:09d}.npz"


def _packed(arrays: Mapping[str, Array]) -> tuple[dict[str, Any], Array]:
    """What small arrays are, and their bytes one after the other: as many files in an archive would take far longer."""
    kinds = {name: [one.dtype.str, list(one.shape), "F" if one.flags.fnc else "C"] for name, one in arrays.items()}
    return kinds, np.frombuffer(b"".join(array.tobytes("A") for array in arrays.values()), np.uint8)


def _unpacked(kinds: Mapping[str, Any], content: Array) -> dict[str, Array]:
    """The arrays that were packed."""
    found, place = {}, 0
    for name, (kind, shape, order) in kinds.items():
        end = place + np.dtype(kind).itemsize * math.prod(shape)
        found[name] = content[place:end].copy().view(kind).reshape(shape, order=order)
        place = end
    return found


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


# --- What a site has answered so far, on its own disk: an answer is made once, kept, and sent again as it was


KEPT = 2


@dataclass(frozen=True, eq=False)
class JournalRecord:
    """One step: what was asked (as a fingerprint), what was answered, and the state after it, by who holds it."""

    number: int
    asked: str
    answer: Arrays
    states: Mapping[str, Arrays]


class Journal:
    """The journal of one job in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.versions = VersionedArrays(folder, KEPT)
        numbers = self.numbers()
        self.last = self.read(numbers[-1]) if numbers else None

    def numbers(self) -> list[int]:
        """Numbers of the steps that are kept, in order."""
        return self.versions.numbers()

    @property
    def at(self) -> int:
        """Number of the last step; -1 where there is none."""
        return -1 if self.last is None else self.last.number

    def find(self, number: int, asked: str) -> JournalRecord | None:
        """The record of a step that was made before; None where it is the next one.

        Raises
        ------
        RefusalError
            Where another thing was asked under this number, or the step is neither the last nor the next.
        """
        if number == self.at + 1:
            return None
        if self.last is None or number != self.last.number:
            raise RefusalError(Reason.OLD)
        if asked != self.last.asked:
            raise RefusalError(Reason.SECOND)
        return self.last

    def write(self, record: JournalRecord) -> None:
        """Keep a record; it is on the disk when this returns, and nothing of it has left before."""
        arrays = {f"answer/{name}": array for name, array in record.answer.items()}
        for who, state in record.states.items():
            arrays |= {f"state/{who}/{name}": array for name, array in state.items()}
        self.versions.put(record.number, arrays, {"asked": record.asked, "holders": sorted(record.states)})
        self.last = record

    def read(self, number: int) -> JournalRecord:
        """The record of a step that is kept.

        Raises
        ------
        RunError
            Where it is missing or damaged.
        """
        arrays, about = self.versions.get(number)
        answer = {k.removeprefix("answer/"): array for k, array in arrays.items() if k.startswith("answer/")}
        states: dict[str, Arrays] = {who: {} for who in about["holders"]}
        for key, array in arrays.items():
            if key.startswith("state/"):
                who, name = key.removeprefix("state/").split("/", 1)
                states[who][name] = array
        return JournalRecord(number, str(about["asked"]), answer, states)

    def forget(self) -> None:
        """Delete the journal of a job that is over."""
        self.versions.forget()
        self.last = None
