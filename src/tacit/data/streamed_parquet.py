"""One party's Parquet file, some rows at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet

from tacit.data.load import PartySpec, feature_names
from tacit.data.read import DAMAGED, arrow_table, check_file, reader_of
from tacit.data.rows_on_disk import Numbers
from tacit.data.streamed_ids import Ids
from tacit.data.wording import one_line, show
from tacit.errors import InputError

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
