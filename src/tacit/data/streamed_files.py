"""One party's Parquet or LIBSVM file, some rows at a time, and rows matched by whole-number ids.

Ids are matched of one party after the other, with a few numbers per row in memory. The rows keep the order of the first
file; of each other file it is said where each of its rows goes.

Of a LIBSVM file sizes come from a quick look. Its rows are matched by position, and stay as they are: sparse on disk
where that is smaller. Text is read by the parser that reads whole files too.
"""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet
import scipy.sparse as sp
from numba import njit

from tacit.columns.table import SparseTable
from tacit.data.align import Counts
from tacit.data.load import PartySpec, feature_names, refuse_columns
from tacit.data.read import DAMAGED, arrow_table, check_file, libsvm_names, reader_of, refuse_underscores
from tacit.data.rows_on_disk import Numbers, RowsOnDisk, sparse_bytes, write_rows, write_sparse
from tacit.errors import InputError
from tacit.text import listing, one_line, plural, show
from tacit.types import Vector

# --- Match rows by whole-number ids of one party after the other, with a few numbers per row in memory


Ids = npt.NDArray[Any]  # whole numbers


@dataclass(frozen=True, eq=False)
class Places:
    """Where the rows of each file go: an array by party, -1 for a row that is dropped; None where all rows stay."""

    rows: dict[str, Ids | None]
    counts: Counts


def match(parties: Sequence[str], read: Callable[[str], Ids]) -> Places:
    """Match the rows of all parties with those of the first; `read` gives the ids of one party.

    Raises
    ------
    InputError
        For repeated ids, or none in common.
    """
    base = _Base(parties[0], read(parties[0]))
    for party in parties[1:]:
        base.take_in(party, read)
    kept = base.count()
    if kept == 0:
        raise InputError("no id is held by every party: check that the id columns mean the same")
    return Places(base.places(), Counts(kept, {party: base.lengths[party] - kept for party in parties}))


class _Base:
    """The ids of the first party, sorted, and which of them every other party holds too."""

    def __init__(self, party: str, ids: Ids) -> None:
        self.ids, self.order = ids, _order(ids)
        _refuse_repeated(party, ids, self.order)
        self.held: npt.NDArray[np.bool_] | None = None  # by row; None while all are held
        self.lengths = {party: ids.size}
        self.rows: dict[str, Ids | None] = {party: None}  # by party, the row of the first file for each of its rows

    def take_in(self, party: str, read: Callable[[str], Ids]) -> None:
        """Find the rows of another party, and drop those that it lacks."""
        ids = read(party)
        self.lengths[party] = ids.size
        self.rows[party] = None
        if ids.size == self.ids.size and np.array_equal(ids, self.ids):
            return
        order = _order(ids)
        _refuse_repeated(party, ids, order)
        rows: Ids = np.full(ids.size, -1, dtype=np.int32 if self.ids.size < 2**31 else np.int64)
        self.rows[party] = rows
        if _merge(self.ids, self.order, ids, order, rows) < self.ids.size:
            held = np.zeros(self.ids.size, dtype=np.bool_)
            held[rows[rows >= 0]] = True
            self.held = held if self.held is None else self.held & held

    def count(self) -> int:
        """Rows that every party holds."""
        return int(self.ids.size if self.held is None else np.count_nonzero(self.held))

    def places(self) -> dict[str, Ids | None]:
        """Where the rows of every party go, once no more rows are dropped."""
        if self.held is None:
            return self.rows
        target = np.cumsum(self.held, dtype=np.int64)
        target -= 1
        target[~self.held] = -1
        for party, rows in self.rows.items():
            self.rows[party] = target if rows is None else np.where(rows < 0, -1, target[rows])
        return self.rows


def _order(ids: Ids) -> Ids:
    """The rows in the order of their ids."""
    return np.arange(ids.size) if np.all(ids[1:] > ids[:-1]) else np.argsort(ids)


def _refuse_repeated(party: str, ids: Ids, order: Ids) -> None:
    examples = np.zeros(3, dtype=np.int64)
    count = int(_repeated(ids, order, examples))
    if count:
        raise InputError(
            f"party {show(party)}: its id column has {plural(count, 'repeated id')}: "
            f"{listing(examples[:count].tolist(), 3)}: keep one row for each id"
        )


@njit(cache=True, nogil=True)  # pragma: no cover - compiled
def _repeated(ids, order, examples):  # type: ignore[no-untyped-def]
    """Count the ids that stand in more than one row, and note the first of them."""
    count = 0
    for i in range(1, order.size):
        again = ids[order[i]] == ids[order[i - 1]]
        if again and (i < 2 or ids[order[i - 2]] != ids[order[i]]):
            if count < examples.size:
                examples[count] = ids[order[i]]
            count += 1
    return count


@njit(cache=True, nogil=True)  # pragma: no cover - compiled
def _merge(base, base_order, ids, order, rows):  # type: ignore[no-untyped-def]
    """Write to `rows` which row of the base has the same id; returns how many were found."""
    i, j, found = 0, 0, 0
    while i < base_order.size and j < order.size:
        one, other = base[base_order[i]], ids[order[j]]
        if one == other:
            rows[order[j]] = base_order[i]
            found += 1
        i, j = i + (one <= other), j + (other <= one)
    return found


# --- One party's Parquet file, some rows at a time


READ_BYTES, READ_LEAST, ALL_READ_BYTES = 1 << 20, 1 << 14, 1 << 25  # of a column that are read at a time, and of all
BATCH_ROWS, BATCH_BYTES = 1 << 16, 1 << 23
PAGE_BYTES, CHUNKS = 3_500_000, 2.2  # held of a column while it is read, as measured: in all, and by its chunks
_EXACT_IN_FLOAT32 = (pa.float32(), pa.float16(), pa.int16(), pa.int8(), pa.uint16(), pa.uint8(), pa.bool_())


class ParquetParty:
    """One party's Parquet file: its columns by name, read some rows at a time."""

    def __init__(self, spec: PartySpec, folder: str | os.PathLike[str], label: str, option: str = "--memory") -> None:
        self.spec, self.path, self.option = spec, Path(folder, spec.data), option
        self.hint = reader_of(self.path, spec.name)[1]
        check_file(self.path, spec.name)
        self.buffer_bytes = READ_BYTES  # of a column
        with self.open() as file:
            self.schema, self.rows = file.schema_arrow, int(file.metadata.num_rows)
            self._chunk_bytes = _largest_chunks(file.metadata)
        header = arrow_table(self.schema.empty_table(), self.path, spec.name, rows=self.rows)
        self.features = feature_names(header, spec, label)
        self.unused = tuple(sorted({*header.columns} - {*self.features}))
        self.buffer_bytes = max(READ_LEAST, min(READ_BYTES, ALL_READ_BYTES // len(self.features)))
        for name in self.features:
            self._check_number(name, "a feature")
        exact = all(self.schema.field(name).type in _EXACT_IN_FLOAT32 for name in self.features)
        self.dtype = np.dtype(np.float32 if exact else np.float64)

    def scratch_bytes(self, rows: int, *, scaled: bool) -> int:
        """What so many rows take on disk; scaled numbers have more digits than a file's float32."""
        return rows * len(self.features) * (8 if scaled else self.dtype.itemsize)

    @property
    def reading_bytes(self) -> int:
        """What is held of the columns at once while rows are read: a page of each, and its dictionary."""
        return int(sum(min(PAGE_BYTES, CHUNKS * self._chunk_bytes.get(name, 0)) for name in self.features))

    def ids(self) -> Ids:
        """The id column, which must hold whole numbers."""
        name = self.spec.id or ""
        if not pa.types.is_integer(self.schema.field(name).type):
            raise InputError(
                f"party {show(self.spec.name)}: id column {show(name)} holds {self.schema.field(name).type}, and "
                "--memory matches ids that are whole numbers: number them, or leave id out and sort the rows alike"
            )
        return self._whole(name, np.dtype(np.int64), "id")

    def labels(self) -> Numbers:
        """The label column, as numbers of its own type."""
        name = self.spec.label or ""
        kind = self._check_number(name, "a label")
        plain = pa.types.is_integer(kind) or pa.types.is_boolean(kind)
        return self._whole(name, np.dtype(kind.to_pandas_dtype()) if plain else np.dtype(np.float64), "label")

    def blocks(self) -> Iterator[Numbers]:
        """The features, some rows at a time; refuses a blank or infinite value by its column and row."""
        start = 0
        for batch in self._batches(self.features):
            block = np.empty((batch.num_rows, len(self.features)), self.dtype)
            for position, column in enumerate(batch.columns):
                block[:, position] = floats(column)
            if not np.isfinite(block).all():
                raise self.not_finite(block, start)
            start += len(block)
            yield block

    def _whole(self, name: str, dtype: np.dtype[Any], role: str) -> Numbers:
        """One column without blanks, in memory."""
        values, start = np.empty(self.rows, dtype), 0
        for batch in self._batches([name]):
            column = batch.column(0)
            part = floats(column) if dtype.kind == "f" else None
            blank = np.asarray(column.is_null()) if part is None else ~np.isfinite(part)
            if blank.any():
                raise InputError(
                    f"party {show(self.spec.name)}: {role} column {show(name)} is blank, NaN or infinite in row "
                    f"{start + int(np.argmax(blank)) + 1}: fill it in, or remove this row"
                )
            values[start : start + len(column)] = _plain(column) if part is None else part
            start += len(column)
        return values

    def _batches(self, names: Sequence[str]) -> Iterator[Any]:
        try:
            with self.open() as file:
                rows = max(1, min(BATCH_ROWS, BATCH_BYTES // (8 * len(names))))
                for batch in file.iter_batches(rows, columns=list(names)):
                    yield batch.select(list(names))
        except InputError:
            raise
        except DAMAGED as error:
            raise self.damaged(error) from error
        finally:
            pa.default_memory_pool().release_unused()

    def open(self) -> Any:
        """Column chunks are read a piece at a time: a writer may have made them of any size."""
        try:
            return pyarrow.parquet.ParquetFile(self.path, buffer_size=self.buffer_bytes, pre_buffer=False)
        except DAMAGED as error:
            raise self.damaged(error) from error

    def damaged(self, error: BaseException) -> InputError:
        """The refusal of a file that cannot be read."""
        return InputError(
            f"party {show(self.spec.name)}: cannot read {show(str(self.path))} ({one_line(error)}): {self.hint}"
        )

    def _check_number(self, name: str, role: str) -> Any:
        kind = self.schema.field(name).type
        numeric = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
        if not any(test(kind) for test in numeric):
            raise InputError(
                f"party {show(self.spec.name)}: column {show(name)} holds {kind}, and with {self.option} {role} must "
                f"be a number: encode it as numbers, leave it out, or train without {self.option}"
            )
        return kind

    def not_finite(self, block: Numbers, start: int) -> InputError:
        """The refusal of a block that has a value which is not finite; `start` is the number of its first row."""
        row, position = (int(index[0]) for index in np.nonzero(~np.isfinite(block)))
        found = "blank or NaN" if np.isnan(block[row, position]) else "infinite"
        return InputError(
            f"party {show(self.spec.name)}: column {show(self.features[position])} is {found} in row "
            f"{start + row + 1}: fill it in, or remove this row"
        )


def _largest_chunks(metadata: Any) -> dict[str, int]:
    """By column, the most bytes that it has in one group of rows."""
    largest: dict[str, int] = {}
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for position in range(metadata.num_columns):
            chunk = row_group.column(position)
            name = chunk.path_in_schema
            largest[name] = max(largest.get(name, 0), int(chunk.total_uncompressed_size))
    return largest


def floats(column: Any) -> npt.NDArray[Any]:
    """A column as floats, blanks as NaN; float32 stays so, and whole numbers above 2**53 are rounded as numpy does."""
    if column.type != pa.float32() and column.type != pa.float64():
        column = column.cast(pa.float64(), safe=False)
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _plain(column: Any) -> npt.NDArray[Any]:
    return np.asarray(column.to_numpy(zero_copy_only=False))


# --- One party's LIBSVM file, some lines at a time: its sizes from a quick look, then its rows


TEXT_BYTES = 1 << 22  # of the file that are read at a time; as numbers at most three times that


class LibsvmParty:
    """One party's LIBSVM file: columns "1" to "d", and the label of each row."""

    reading_bytes = 16 * TEXT_BYTES  # text, and numbers while they are parsed

    def __init__(self, spec: PartySpec, folder: str | os.PathLike[str], label: str) -> None:
        self.spec, self.path = spec, Path(folder, spec.data)
        self.hint = reader_of(self.path, spec.name)[1]
        check_file(self.path, spec.name)
        refuse_columns(spec.name, spec.columns)
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
