"""One party's LIBSVM file, some lines at a time: its sizes from a quick look, then its rows.

Rows are matched by position, and stay as they are: sparse on disk where that is smaller. Text is read by the parser
that reads whole files too.
"""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit

from tacit.data.load import PartySpec, feature_names, refuse_columns
from tacit.data.read import DAMAGED, check_file, libsvm_names, reader_of, refuse_underscores
from tacit.data.rows_on_disk import RowsOnDisk, write_rows
from tacit.data.sparse_on_disk import sparse_bytes, write_sparse
from tacit.data.table import SparseTable
from tacit.data.wording import one_line, show
from tacit.errors import InputError
from tacit.types import Vector

TEXT_BYTES = 1 << 22  # of the file that are read at a time; as numbers at most three times that


class LibsvmParty:
    """One party's LIBSVM file: columns "1" to "d", and the label of each row."""

    reading_bytes = 16 * TEXT_BYTES  # text, and numbers while they are parsed

    def __init__(self, spec: PartySpec, folder: str | os.PathLike[str], label: str) -> None:
        self.spec, self.path = spec, Path(folder, spec.data)
        self.hint = reader_of(self.path, spec.name)[1]
        check_file(self.path, spec.name)
        refuse_columns(spec)
        if spec.id is not None:
            raise InputError(
                f"party {show(spec.name)}: --memory matches the rows of a LIBSVM file by position, and id is "
                f"{show(spec.id)}: sort the rows of all parties alike and leave id out for each, or give Parquet"
            )
        self.rows, self._found, self.entries = self._sizes()
        self.width = self._found if spec.width is None else spec.width
        names = libsvm_names(self.path, spec.name, self.rows, self.width)
        empty = sp.csr_array((0, self.width))
        header = SparseTable(party=spec.name, columns=names, n_rows=self.rows, data=empty, label=np.zeros(0))
        self.features = feature_names(header, spec, label)
        header.features(self.features)  # refuses the label among them
        self._picked = np.array([int(name) - 1 for name in self.features], dtype=np.intp)

    @property
    def is_sparse(self) -> bool:
        """Whether the file takes less room as sparse rows than as dense ones."""
        return sparse_bytes(self.rows, self.entries) < 8 * self.rows * self.width

    def scratch_bytes(self, rows: int, *, scaled: bool) -> int:
        """What so many rows take on disk; they are not scaled."""
        share = len(self.features) / self.width * rows / self.rows
        return sparse_bytes(rows, int(self.entries * share)) if self.is_sparse else 8 * rows * len(self.features)

    def labels(self) -> Vector:
        """The first word of every line, as a number."""
        values, row = np.empty(self.rows), 0
        for text in self._texts():
            for line in text.split(b"\n"):
                words = line.partition(b"#")[0].split(None, 1)
                if words:
                    values[row] = self._label(words[0], row)
                    row += 1
        return values

    def write(self) -> RowsOnDisk:
        """The rows, in a scratch file."""
        shape, room = (self.rows, len(self.features)), self.scratch_bytes(self.rows, scaled=False)
        if self.is_sparse:
            return write_sparse(self._blocks(), shape, room, self.spec.name)
        return write_rows((block.toarray() for block in self._blocks()), shape, np.float64, self.spec.name)

    def _blocks(self) -> Iterator[Any]:
        """The features as CSR, some rows at a time; refuses a value that is not finite by its column and row."""
        from sklearn.datasets import load_svmlight_file  # here: it is slow to import and rarely needed

        start, lines, widest = 0, 0, max(self._found, self.width)  # entries beyond what was stated are left out
        whole = np.array_equal(self._picked, np.arange(widest))
        for text in self._texts():
            try:
                refuse_underscores(text, lines)
                block = load_svmlight_file(io.BytesIO(text), zero_based=False, n_features=widest)[0]
            except DAMAGED as error:
                raise self._damaged(error) from error
            lines += text.count(b"\n")
            block = block if whole else block[:, self._picked]
            block.sort_indices()
            if not np.isfinite(block.data).all():
                raise self._not_finite(block, start)
            start += block.shape[0]
            if block.shape[0]:
                yield block
        if start != self.rows:
            raise InputError(f"party {show(self.spec.name)}: {show(str(self.path))} was changed meanwhile: train again")

    def _sizes(self) -> tuple[int, int, int]:
        """Rows, the largest column number, and entries (or a few more, where lines have query ids)."""
        rows, width, entries = 0, 0, 0
        for text in self._texts():
            found = _scan(np.frombuffer(text, np.uint8))
            rows, width, entries = rows + int(found[0]), max(width, int(found[1])), entries + int(found[2])
        return rows, width, entries

    def _texts(self) -> Iterator[bytes]:
        """The text in pieces of whole lines."""
        opened: Any = gzip.open if self.path.name.lower().endswith(".gz") else open
        begun: list[bytes] = []  # of a line whose end has not been read
        try:
            with opened(self.path, "rb") as file:
                while text := file.read(TEXT_BYTES):
                    end = text.rfind(b"\n") + 1
                    if end:
                        yield b"".join([*begun, text[:end]])
                        begun = []
                    begun.append(text[end:])
        except InputError:
            raise
        except DAMAGED as error:
            raise self._damaged(error) from error
        if any(begun):
            yield b"".join(begun)

    def _label(self, word: bytes, row: int) -> float:
        try:
            value = float(word)
        except ValueError as error:
            raise self._damaged(error) from error
        if not np.isfinite(value):
            raise InputError(
                f"party {show(self.spec.name)}: the label is NaN or infinite in row {row + 1}: "
                "fill it in, or remove this row"
            )
        return value

    def _damaged(self, error: BaseException) -> InputError:
        return InputError(
            f"party {show(self.spec.name)}: cannot read {show(str(self.path))} ({one_line(error)}): {self.hint}"
        )

    def _not_finite(self, block: Any, start: int) -> InputError:
        place = int(np.argmin(np.isfinite(block.data)))
        row = int(np.searchsorted(block.indptr, place, side="right")) - 1
        found = "NaN" if np.isnan(block.data[place]) else "infinite"
        return InputError(
            f"party {show(self.spec.name)}: column {show(self.features[block.indices[place]])} is {found} in row "
            f"{start + row + 1}: fix it, or remove this row"
        )


@njit(cache=True, nogil=True)  # pragma: no cover - compiled
def _scan(text):  # type: ignore[no-untyped-def]
    """Lines with content, the largest number before a colon, and colons, without comments."""
    rows, width, entries, number = 0, 0, 0, 0
    used, comment = False, False
    for byte in text:
        if byte == 10:  # end of the line
            rows += used
            used, comment, number = False, False, 0
        elif comment:
            continue
        elif byte == 35:  # the sign that begins a comment
            comment = True
        elif byte == 32 or 9 <= byte <= 13:
            number = 0
        else:
            used = True
            if 48 <= byte <= 57:
                number = min(10 * number + byte - 48, 1 << 40)
            elif byte == 58:  # a colon
                width, entries, number = max(width, number), entries + 1, 0
            else:
                number = 0
    return rows + used, width, entries
