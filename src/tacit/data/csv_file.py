"""A CSV file by Arrow, which infers the type of each column; what it would pass over in silence is refused.

A quote that stays open makes all that follows one cell, and Arrow says nothing where that is the last cell of a row:
rows would be lost. A blank line in a file of one column may be a blank cell, and Arrow leaves it out: the rows below
would move up.
"""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

BLOCK = 1 << 24  # bytes; a row must fit in a block, and rows of many thousand columns are long
_NOTHING: list[str] = pyarrow.csv.ConvertOptions().null_values  # in columns that hold no text
_SPACES = ["\t", *(" " * count for count in range(1, 33))]  # a cell of spaces is blank, and makes no number a text


def read_arrow(path: Path, content: bytes | None, as_text: tuple[str, ...]) -> Any:
    """Read a CSV file as an Arrow table.

    Parameters
    ----------
    path : Path
    content : bytes or None
        The content of a zipped file; None where the file is not zipped.
    as_text : tuple of str
        Columns to read as text.

    Raises
    ------
    ValueError
        In a few words, where rows would be lost; Arrow's own exceptions for other damage.
    """
    data = (
        _read_quoted(path, content, as_text) if _has_quotes(path, content) else _read(_source(path, content), as_text)
    )
    if len(data.column_names) == 1:
        _refuse_blank_lines(path, content)
    return data


def _source(path: Path, content: bytes | None) -> Any:
    return str(path) if content is None else pa.BufferReader(content)


def _read(source: Any, as_text: tuple[str, ...], *, ignore_blank: bool = True) -> Any:
    return pyarrow.csv.read_csv(source, *_options(as_text, ignore_blank))


def _options(as_text: tuple[str, ...], ignore_blank: bool = True) -> tuple[Any, Any, Any]:
    return (
        pyarrow.csv.ReadOptions(block_size=BLOCK),
        pyarrow.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=ignore_blank),
        pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(as_text, pa.string()), null_values=[*_NOTHING, *_SPACES]),
    )


def _has_quotes(path: Path, content: bytes | None) -> bool:
    if content is not None:
        return b'"' in content
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        return mapped.find(b'"') >= 0


def _read_quoted(path: Path, content: bytes | None, as_text: tuple[str, ...]) -> Any:
    """Read with a row of blanks at the end, which is not found there where a quote took it for text."""
    with pyarrow.csv.open_csv(_source(path, content), *_options(as_text)) as reader:  # no more than its first block
        columns = len(reader.schema.names)
    blanks = b'""' if columns == 1 else b"," * (columns - 1)
    with _Ended(path, content, b"\n" + blanks + b"\n") as source:
        data = _read(pa.PythonFile(source, mode="r"), as_text)
    if data.column(columns - 1)[-1].as_py() not in (None, "", b""):
        raise ValueError("a quote is not closed")
    return data.slice(0, data.num_rows - 1)


class _Ended:
    """A file of bytes with some more at its end."""

    def __init__(self, path: Path, content: bytes | None, end: bytes) -> None:
        self._file: Any = open(path, "rb") if content is None else pa.BufferReader(content)  # noqa: SIM115
        self._end = end
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        part: bytes = self._file.read(size)
        if not part:
            part, self._end = self._end, b""
        return part

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        self.closed = True

    def __enter__(self) -> _Ended:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _refuse_blank_lines(path: Path, content: bytes | None) -> None:
    """Refuse a file of one column with blank lines between its first and its last row."""
    whole = (path.read_bytes() if content is None else content).strip(b"\r\n")
    rows = [_read(pa.BufferReader(whole), (), ignore_blank=ignore).num_rows for ignore in (True, False)]
    if rows[0] != rows[1]:
        raise ValueError('a file of one column has a blank line: remove it, or write "" for a blank')
