"""What a party keeps of an alignment: which rows of its own file are common to all, in the common order."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tacit.columns.table import ArrowTable
from tacit.data.align import text_ids
from tacit.errors import InputError
from tacit.files import open_arrays, show_path, write_atomically
from tacit.text import plural, show

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
