"""From Parquet files that may be larger than memory to shards whose rows stay on disk.

Of a file, the ids and the labels are held in memory, one column at a time; its features are read once, some rows at a
time, and written as rows of numbers to a scratch file (`rows_on_disk`), in the order of the party with the labels.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet

from tacit.data.align import Counts
from tacit.data.load import JobData, PartySpec, feature_names
from tacit.data.read import DAMAGED, arrow_table, check_file, reader_of
from tacit.data.rows_on_disk import BLOCK_BYTES, Numbers, StreamedRows, put, scratch_file, write_rows
from tacit.data.streamed_ids import Ids, Places, match
from tacit.data.wording import one_line, plural, show
from tacit.errors import InputError
from tacit.types import Shard

READ_BYTES = 1 << 20  # of a column that are read at a time
BATCH_ROWS = 1 << 16
_EXACT_IN_FLOAT32 = (pa.float32(), pa.float16(), pa.int16(), pa.int8(), pa.uint16(), pa.uint8(), pa.bool_())


class PartyFile:
    """One party's Parquet file: its columns by name, read some rows at a time."""

    def __init__(self, spec: PartySpec, folder: str | os.PathLike[str], label: str, option: str = "--memory") -> None:
        self.spec, self.path, self.option = spec, Path(folder, spec.data), option
        self.hint = reader_of(self.path, spec.name)[1]
        if not self.path.name.lower().endswith(".parquet"):
            raise InputError(
                f"party {show(spec.name)}: {option} reads Parquet files, not {show(str(self.path))}: "
                f"save it as .parquet, or train without {option}"
            )
        check_file(self.path, spec.name)
        with self.open() as file:
            self.schema, self.rows = file.schema_arrow, int(file.metadata.num_rows)
        header = arrow_table(self.schema.empty_table(), self.path, spec.name, rows=self.rows)
        self.features = feature_names(header, spec, label)
        for name in self.features:
            self._check_number(name, "a feature")
        exact = all(self.schema.field(name).type in _EXACT_IN_FLOAT32 for name in self.features)
        self.dtype = np.dtype(np.float32 if exact else np.float64)

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
                for batch in file.iter_batches(BATCH_ROWS, columns=list(names)):
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
            return pyarrow.parquet.ParquetFile(self.path, buffer_size=READ_BYTES, pre_buffer=False)
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


def open_files(specs: Sequence[PartySpec], folder: str | os.PathLike[str] = ".") -> list[PartyFile]:
    """The files of all parties, of which only the descriptions have been read.

    Raises
    ------
    InputError
        For files or columns that cannot be used; the message names the party.
    """
    label = next((spec.label for spec in specs if spec.label is not None), None)
    return [PartyFile(spec, folder, label or "") for spec in specs]


def stream_training_data(files: Sequence[PartyFile]) -> JobData:
    """Match and check what the parties train on, and bring their rows to scratch files.

    Parameters
    ----------
    files : sequence of PartyFile
        One per party; exactly one names a label column, whose file's order the rows keep.

    Returns
    -------
    JobData
        Shards whose features are `StreamedRows`; `ids` are empty where rows were matched by id.

    Raises
    ------
    InputError
        For values that cannot be used, and where the disk has too little room; the message names the party.
    """
    holder = next(file for file in files if file.spec.label is not None)
    places = _places([holder, *(file for file in files if file is not holder)])
    labels, own = holder.labels(), places.rows[holder.spec.name]
    labels = labels if own is None else labels[own >= 0]
    done: list[StreamedRows] = []
    try:
        for file in files:
            done.append(_write(file, places.rows.pop(file.spec.name), places.counts.kept))
    except BaseException:
        for rows in done:
            rows.close()
        raise
    shards = [Shard(file.spec.name, rows, file.features) for file, rows in zip(files, done, strict=True)]
    ids = None if holder.spec.id is None else np.zeros(0, dtype=np.int64)
    return JobData(shards, labels, ids, places.counts)


def _places(files: Sequence[PartyFile]) -> Places:
    """Where each file's rows go; the first file's order is kept."""
    named = [file for file in files if file.spec.id is not None]
    if named and len(named) < len(files):
        without = next(file for file in files if file.spec.id is None)
        raise InputError(
            f"an id column is given for party {show(named[0].spec.name)} but not for party {show(without.spec.name)}: "
            "give one for every party, or for none to match rows by position"
        )
    if named:
        by_name = {file.spec.name: file for file in files}
        return match(list(by_name), lambda name: by_name[name].ids())
    if len({file.rows for file in files}) > 1:
        held = ", ".join(f"{show(file.spec.name)} has {plural(file.rows, 'row')}" for file in files)
        raise InputError(
            f"without ids every party needs the same rows in the same order, but party {held}: "
            "name an id column for each party"
        )
    names = [file.spec.name for file in files]
    return Places(dict.fromkeys(names), Counts(files[0].rows, dict.fromkeys(names, 0)))


# --- to the scratch file -------------------------------------------------------------------------------


def _write(file: PartyFile, places: Ids | None, kept: int) -> StreamedRows:
    """A party's rows in their places."""
    shape = (kept, len(file.features))
    if places is None:
        return write_rows(file.blocks(), shape, file.dtype, file.spec.name)
    if _in_order(places):
        return write_rows(_kept_rows(file, places), shape, file.dtype, file.spec.name)
    with _Buckets(file, places, kept) as buckets:
        return write_rows(buckets.blocks(), shape, file.dtype, file.spec.name)


def _in_order(places: Ids) -> bool:
    """Whether the rows that are kept come in the order of their places."""
    kept = places[places >= 0]
    return bool(np.all(kept[1:] > kept[:-1]))


def _kept_rows(file: PartyFile, places: Ids) -> Iterator[Numbers]:
    start = 0
    for block in file.blocks():
        yield block[places[start : start + len(block)] >= 0]
        start += len(block)


class _Buckets:
    """Rows brought into another order: first to the range of rows they belong to, then, range by range, in order."""

    def __init__(self, file: PartyFile, places: Ids, kept: int) -> None:
        self.file, self.places, self.kept = file, places, kept
        self.row_bytes = len(file.features) * file.dtype.itemsize
        self.rows = max(1, 8 * BLOCK_BYTES // self.row_bytes)  # of a range
        self.scratch = scratch_file(kept * self.row_bytes, file.spec.name)

    def __enter__(self) -> _Buckets:
        try:
            self._scatter()
        except BaseException:
            self.scratch.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.scratch.close()

    def blocks(self) -> Iterator[Numbers]:
        """The rows in order."""
        for first in range(0, self.kept, self.rows):
            count = min(self.rows, self.kept - first)
            raw = np.empty((count, len(self.file.features)), self.file.dtype)
            self.scratch.seek(first * self.row_bytes)
            if self.scratch.readinto(raw.data.cast("B")) < raw.nbytes:  # type: ignore[attr-defined]
                raise InputError(f"party {show(self.file.spec.name)}: its scratch file was cut short: train again")
            arrived = self.places[(self.places >= first) & (self.places < first + count)]  # in the order they came in
            block = np.empty_like(raw)
            block[arrived - first] = raw
            yield block

    def _scatter(self) -> None:
        """Append each row to its range, in the order of the file."""
        ends = np.arange(0, self.kept, self.rows)
        start = 0
        for block in self.file.blocks():
            places = self.places[start : start + len(block)]
            start += len(block)
            kept = np.flatnonzero(places >= 0)
            ranges = places[kept] // self.rows
            order = np.argsort(ranges, kind="stable")
            numbers, firsts = np.unique(ranges[order], return_index=True)
            for number, rows in zip(numbers, np.split(kept[order], firsts[1:]), strict=True):
                self.scratch.seek(int(ends[number]) * self.row_bytes)
                put(self.scratch, block[rows], self.file.spec.name)
                ends[number] += rows.size


def floats(column: Any) -> npt.NDArray[Any]:
    """A column as floats, blanks as NaN; float32 stays so, and whole numbers above 2**53 are rounded as numpy does."""
    if column.type != pa.float32() and column.type != pa.float64():
        column = column.cast(pa.float64(), safe=False)
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _plain(column: Any) -> npt.NDArray[Any]:
    return np.asarray(column.to_numpy(zero_copy_only=False))
