"""A list of another party on its way through this one, which adds its key and puts the list into a secret order.

An alignment is what a party keeps: which rows of its own file are common to all, in the common order.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tacit.alignment.key import (
    Elements,
    NotAPointError,
    Positions,
    SecretKey,
    checked_elements,
    checked_positions,
    refuse_repeated,
    secret_order,
)
from tacit.columns.table import ArrowTable
from tacit.data.align import text_ids
from tacit.errors import InputError, RunError
from tacit.files import open_arrays, show_path, write_atomically
from tacit.text import listing, plural, show

VERSION = 1


@dataclass(frozen=True, eq=False)
class Alignment:
    """Rows of one party's file that all parties hold.

    Attributes
    ----------
    party : str
        Whose file it is about.
    parties : tuple of str
        Everybody who took part.
    run : str
        The same for all parties of one alignment and no other; it says nothing about ids.
    size : int
        Rows of the file.
    fingerprint : str
        SHA-256 of all ids of the file in its order, by which a changed file is noticed. Not to be shown to others.
    rows : array of int64
        Positions (from 0) of the common rows. Entry i is about the same id at every party.
    """

    party: str
    parties: tuple[str, ...]
    run: str
    size: int
    fingerprint: str
    rows: npt.NDArray[np.int64]

    def check(self, ids: Any, *, column: str = "id") -> None:
        """Refuse ids that are not those that were aligned.

        Parameters
        ----------
        ids : array-like or Arrow array
            The party's ids as they are now, in the order of its file.
        column : str
            Name of the column, for messages.

        Raises
        ------
        InputError
            Where an id or the order changed, and for ids that could not be aligned at all.
        """
        if fingerprint(ids_as_text(self.party, ids, column)) != self.fingerprint:
            raise InputError(
                f"party {show(self.party)}: the ids in column {show(column)} are not the {self.size} that were aligned "
                "(or not in that order): align again, or give the file as it was"
            )

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file that its owner alone can read, whole or not at all."""
        about = {name: getattr(self, name) for name in ("party", "run", "size", "fingerprint")}
        text = json.dumps({"version": VERSION, "parties": list(self.parties), **about})
        write_atomically(Path(path), lambda file: np.savez(file, rows=self.rows, about=np.array(text)), secret=True)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Alignment:
        """Read it from a file.

        Raises
        ------
        InputError
            Where the file is missing, damaged, or no alignment.
        """
        try:
            with open_arrays(path) as file:
                rows, about = file["rows"], json.loads(str(file["about"]))
            found = cls(
                str(about["party"]),
                tuple(str(name) for name in about["parties"]),
                str(about["run"]),
                int(about["size"]),
                str(about["fingerprint"]),
                rows,
            )
            whole = about["version"] == VERSION and rows.dtype == np.int64 and rows.ndim == 1 and rows.size
        except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile) as error:
            raise _damaged(path) from error
        if not whole or rows.min() < 0 or rows.max() >= found.size or len(np.unique(rows)) < len(rows):
            raise _damaged(path)
        return found


def ids_as_text(party: str, ids: Any, column: str) -> Any:
    """Ids of any kind as text, by the rules of `tacit.data.align`."""
    try:
        held = ids if isinstance(ids, pa.Array | pa.ChunkedArray) else pa.array(ids)
        data = pa.table({column: held})
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InputError(f"party {show(party)}: ids must be whole numbers or text, all of one kind") from error
    if data.num_rows == 0:
        raise InputError(f"party {show(party)} has no ids: give it rows")
    return text_ids(ArrowTable(party=party, columns=(column,), n_rows=data.num_rows, data=data), column)


def fingerprint(ids: Any) -> str:
    """SHA-256 of a column of text, which tells any two columns apart."""
    digest = hashlib.sha256(f"{plural(len(ids), 'id')}\n".encode())
    digest.update(pc.binary_length(ids).to_numpy(zero_copy_only=False).astype("<i8").tobytes())
    digest.update("".join(ids.to_pylist()).encode("utf-8"))
    return digest.hexdigest()


def _damaged(path: str | os.PathLike[str]) -> InputError:
    """What is raised for a file that holds no whole alignment."""
    return InputError(f"cannot use {show_path(path)}: it is missing or no whole alignment; align again")


# --- A list of another party on its way through this one, which adds its key and puts the list into a secret order


class ShuffledList:
    """One list, taken in pieces, given on in pieces in another order, and positions on their way back.

    Parameters
    ----------
    size : int
        Its number of elements.
    sender : str
        Who had it before.
    """

    def __init__(self, size: int, sender: str) -> None:
        self.size, self.sender = size, sender
        self._parts: list[Elements] = []
        self._taken = self._returned = 0
        self._order: Positions | None = None
        self._mixed: Elements | None = None

    @property
    def is_mixed(self) -> bool:
        """Whether the whole list came, and was put into its new order."""
        return self._order is not None

    def take(self, start: int, elements: Elements, key: SecretKey) -> None:
        """Take the next piece of the list, and put each of its elements under this party's key too."""
        if start != self._taken or start + len(elements) > self.size:
            raise RunError(
                f"elements {start} to {start + len(elements)} came where {self._taken} of {self.size} were taken: "
                "start the alignment again"
            )
        try:
            self._parts.append(key.add_to(elements))
        except NotAPointError as error:
            raise RunError(f"{self.sender} sent an encrypted id that is no point of the curve") from error
        self._taken += len(elements)

    def mixed(self, start: int, stop: int) -> Elements:
        """A piece of the list in its new order, once all of it was taken."""
        if self._mixed is None:
            self._mix()
        assert self._mixed is not None
        return self._mixed[start:stop]

    def back(self, positions: Positions, total: int) -> Positions:
        """Where these elements, a piece of `total`, stood in the list as it came."""
        self._returned += len(positions)
        if self._order is None or self._returned > total:
            raise RunError(f"{self._returned} positions came back where at most {total} are due: start again")
        self._mixed = None
        return self.places(positions)

    def places(self, positions: Positions) -> Positions:
        """The same, where they were counted before."""
        assert self._order is not None
        return self._order[positions]

    def state(self) -> dict[str, Any]:
        """What is needed to go on: the pieces that came, or the whole list in its order."""
        arrays: dict[str, Any] = {"counts": np.array([self.size, self._taken, self._returned])}
        arrays |= {f"part{number:06d}": part for number, part in enumerate(self._parts)}
        found = {"order": self._order, "mixed": self._mixed}
        return arrays | {name: array for name, array in found.items() if array is not None}

    def restore(self, arrays: dict[str, Any]) -> None:
        """Go on from a state."""
        self.size, self._taken, self._returned = (int(count) for count in arrays["counts"])
        self._parts = [arrays[name] for name in sorted(arrays) if name.startswith("part")]
        self._order, self._mixed = arrays.get("order"), arrays.get("mixed")

    def _mix(self) -> None:
        """Put the whole list into a secret order, once."""
        if self._taken < self.size or self._order is not None:
            raise RunError(f"the list was asked for when {self._taken} of {self.size} were taken: start again")
        whole = np.concatenate(self._parts)
        refuse_repeated(whole, self.sender)
        self._parts.clear()
        self._order = secret_order(self.size)
        self._mixed = whole[self._order]


# --- One party's side of a private alignment: answers to the coordinator's questions, and never an id among them


COORDINATOR = "the coordinator"
ONCE = ("add", "back", "rows")  # change what a party holds: the last one may be asked again, and is not done again


class Aligner:
    """A party that takes part in one alignment.

    Parameters
    ----------
    name : str
        The party's name.
    ids : array-like or Arrow array
        Its ids, whole numbers or text, in the order of its file.
    parties : sequence of str
        Everybody who takes part, in the order that all of them know.
    column : str
        Name of the id column, for messages.

    Attributes
    ----------
    alignment : Alignment or None
        The result, once the last question was answered.

    Raises
    ------
    InputError
        For blank or repeated ids, and where the library is not installed.
    """

    def __init__(self, name: str, ids: Any, parties: Sequence[str], *, column: str = "id") -> None:
        self.name, self.parties = name, check_names(parties)
        if name not in self.parties:
            raise InputError(f"party {show(name)} is not among those who align: {listing(self.parties)}")
        self.alignment: Alignment | None = None
        self._ids = ids_as_text(name, ids, column)
        self._key: SecretKey | None = SecretKey()
        self._order = secret_order(len(self._ids))  # place i of the list that it sends is about row order[i]
        self._given = 0  # elements of the own list that were handed out
        self._passing: dict[str, ShuffledList] = {}
        self._total: int | None = None
        self._places: list[Positions] = []
        self._last = ""  # fingerprint of the last of the questions in ONCE

    def answer(self, step: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Answer one question of the coordinator.

        Parameters
        ----------
        step : str
            "size", "list", "add", "mixed", "back" or "rows".
        payload : mapping
            Numbers, text and arrays, as `tacit.alignment.conversation` asks.

        Returns
        -------
        dict
            Numbers and arrays.

        Raises
        ------
        RunError
            For a question that is out of turn, and for elements or positions that cannot be.
        """
        steps = {
            "size": self._say_size,
            "list": self._give_own,
            "add": self._take,
            "mixed": self._give_mixed,
            "back": self._send_back,
            "rows": self._take_rows,
        }
        if step not in steps or self.alignment is not None:
            raise RunError(f"party {show(self.name)}: {show(step)} was asked out of turn: start the alignment again")
        try:
            if step not in ONCE:
                return steps[step](payload)
            mark = _mark(step, payload)
            reply = self._again(step, payload) if mark == self._last else steps[step](payload)
            self._last = mark
            return reply
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise RunError(f"party {show(self.name)}: the question {show(step)} cannot be read: start again") from error

    def _again(self, step: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        """The answer that was given to the last question, which was lost on its way; nothing is done again."""
        return (
            {"positions": self._passing[str(payload["owner"])].places(payload["positions"])} if step == "back" else {}
        )

    def state(self) -> dict[str, Any]:
        """All that is needed to go on after a crash, the key among it: a secret of the party."""
        assert self._key is not None
        arrays: dict[str, Any] = {
            "key": np.frombuffer(self._key.to_bytes(), np.uint8),
            "last": np.frombuffer(self._last.encode(), np.uint8),
            "order": self._order,
            "counts": np.array([self._given, -1 if self._total is None else self._total]),
        }
        arrays |= {f"place{number:06d}": places for number, places in enumerate(self._places)}
        for owner, passing in self._passing.items():
            arrays |= {f"{self.parties.index(owner)}/{name}": array for name, array in passing.state().items()}
        return arrays

    def restore(self, arrays: dict[str, Any]) -> None:
        """Go on from a state of the same ids."""
        self._key, self._last = SecretKey(arrays["key"].tobytes()), arrays["last"].tobytes().decode()
        self._order, (given, total) = arrays["order"], (int(count) for count in arrays["counts"])
        self._given, self._total = given, None if total < 0 else total
        self._places = [arrays[name] for name in sorted(arrays) if name.startswith("place")]
        for place, owner in enumerate(self.parties):
            own = {name.split("/", 1)[1]: array for name, array in arrays.items() if name.startswith(f"{place}/")}
            if own:
                self._passing[owner] = ShuffledList(0, self._sender)
                self._passing[owner].restore(own)

    @property
    def _sender(self) -> str:
        """Who hands lists to this party."""
        return f"party {show(self.parties[self.parties.index(self.name) - 1])}"

    def _say_size(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """The number of this party's ids."""
        return {"size": len(self._ids)}

    def _give_own(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """A piece of its own list: ids under its key, in a secret order."""
        start, stop = _number(payload, "start"), _number(payload, "stop")
        rows = self._order[start:stop]
        self._given = max(self._given, stop if start <= self._given else 0)
        return {"elements": self._secret().encrypt(self._ids.take(rows).to_pylist())}

    def _take(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Add the key to a piece of another's list."""
        owner, start, stop = str(payload["owner"]), _number(payload, "start"), _number(payload, "stop")
        if owner == self.name or owner not in self.parties:
            raise RunError(f"party {show(self.name)}: no list of {show(owner)} is due here: start the alignment again")
        if owner not in self._passing:
            self._passing[owner] = ShuffledList(_number(payload, "size"), self._sender)
        self._passing[owner].take(start, checked_elements(payload, stop - start, self._sender), self._secret())
        return {}

    def _give_mixed(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """A piece of another's list, under one key more, in another order."""
        passing = self._passing[str(payload["owner"])]
        return {"elements": passing.mixed(_number(payload, "start"), _number(payload, "stop"))}

    def _send_back(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Say where the common elements of another's list stood before it came here."""
        passing = self._passing[str(payload["owner"])]
        total = self._same_total(payload)
        return {"positions": passing.back(checked_positions(payload, None, passing.size, COORDINATOR), total)}

    def _take_rows(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Learn which places of its own list are common to all; after the last of them, end."""
        total = self._same_total(payload)
        self._places.append(checked_positions(payload, None, len(self._ids), COORDINATOR))
        if sum(map(len, self._places)) < total:
            return {}
        whole = {"positions": np.concatenate(self._places)}
        rows = self._order[checked_positions(whole, total, len(self._ids), COORDINATOR)]
        run, mark = str(payload["run"]), fingerprint(self._ids)
        self.alignment = Alignment(self.name, self.parties, run, len(self._ids), mark, rows)
        self._key = None
        self._passing.clear()
        return {}

    def _same_total(self, payload: Mapping[str, Any]) -> int:
        """The number of common ids, which is one number for all lists."""
        total = _number(payload, "total")
        if self._total is None:
            self._check_compared(total)
            self._total = total
        if total != self._total:
            raise RunError(
                f"party {show(self.name)}: {self._total} ids were common to all, and now {total}: start again"
            )
        return total

    def _check_compared(self, total: int) -> None:
        """Refuse results of a comparison that cannot have been made: every list goes through this party before."""
        others = [name for name in self.parties if name != self.name]
        through = [
            self._passing[name].size for name in others if name in self._passing and self._passing[name].is_mixed
        ]
        if self._given < len(self._ids) or len(through) < len(others) or total > min(len(self._ids), *through):
            raise RunError(f"party {show(self.name)}: not all lists came here, or more ids are said to be common")

    def _secret(self) -> SecretKey:
        """The party's key, until the lists are compared."""
        if self._key is None or self._total is not None:
            raise RunError(f"party {show(self.name)}: the lists were compared already: start the alignment again")
        return self._key


def check_names(parties: Sequence[str]) -> tuple[str, ...]:
    """The names of those who align: at least two, all different."""
    names = tuple(parties)
    if len(names) < 2:
        raise InputError(f"{listing(names) or 'nobody'} has nobody to align with: name at least two parties")
    if len(set(names)) < len(names):
        raise InputError(f"two of the parties {listing(names)} have one name: give each its own")
    return names


def _mark(step: str, payload: Mapping[str, Any]) -> str:
    """A fingerprint of a question."""
    whole = hashlib.sha256(step.encode())
    for key in sorted(payload):
        value = payload[key]
        whole.update(f"\n{key} ".encode())
        whole.update(np.ascontiguousarray(value).tobytes() if isinstance(value, np.ndarray) else repr(value).encode())
    return whole.hexdigest()


def _number(payload: Mapping[str, Any], name: str) -> int:
    """A whole number of a question, not below 0."""
    value = payload[name]
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
        raise ValueError(name)
    return int(value)
