"""Read one party's file: CSV, Parquet, LIBSVM or Excel, told apart by the end of the name.

CSV is read by Arrow, which infers the type of each column; what it would pass over in silence is refused. A quote that
stays open makes all that follows one cell, and Arrow says nothing where that is the last cell of a row: rows would be
lost. A blank line in a file of one column may be a blank cell, and Arrow leaves it out: the rows below would move up.
"""

from __future__ import annotations

import csv
import gzip
import io
import mmap
import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
import scipy.sparse as sp

from tacit.columns.table import MOST_COLUMNS, ArrowTable, SparseTable, Table
from tacit.errors import InputError
from tacit.files import quote_path
from tacit.text import listing, nearest, one_line, show

# --- How a text file separates cells, and how it writes numbers: as the party says, never guessed


DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
NUMBERS = {  # the number one thousand two hundred thirty-four and 56 hundredths: decimal point, thousands
    "1234.56": (".", ""),
    "1,234.56": (".", ","),
    "1 234.56": (".", " "),
    "1'234.56": (".", "'"),
    "1234,56": (",", ""),
    "1.234,56": (",", "."),
    "1 234,56": (",", " "),
    "1'234,56": (",", "'"),
}


@dataclass(frozen=True)
class FileStyle:
    """How a CSV file separates its cells, and how it writes the number 1234.56."""

    delimiter: str = ","
    numbers: str = "1234.56"

    @property
    def decimal(self) -> str:
        """What stands before the decimals."""
        return NUMBERS[self.numbers][0]

    def with_numbers(self, data: Any, as_text: tuple[str, ...]) -> Any:
        """A table as Arrow read it, in which columns of text that are numbers with thousands became numbers."""
        if not NUMBERS[self.numbers][1]:
            return data
        for place, name in enumerate(data.column_names):
            if name not in as_text and pa.types.is_string(data.column(place).type):
                found = parse_numbers(data.column(place), self.numbers)
                data = data if found is None else data.set_column(place, name, found)
        return data


def parse_numbers(column: Any, numbers: str) -> Any:
    """The numbers of a column of text in a style; None where a cell that is not blank is none."""
    decimal, thousands = NUMBERS[numbers]
    text = pc.utf8_trim_whitespace(column)
    text = pc.if_else(pc.is_in(text, pa.array([*_NOTHING, ""])), pa.scalar(None, pa.string()), text)
    grouped = rf"\d{{1,3}}({re.escape(thousands)}\d{{3}})+|" if thousands else ""
    pattern = rf"^[+-]?({grouped}\d+)({re.escape(decimal)}\d*)?$"
    if text.null_count == len(text) or not pc.all(pc.match_substring_regex(text, pattern)).as_py():
        return None
    plain = pc.replace_substring(text, thousands, "") if thousands else text
    return pc.cast(pc.replace_substring(plain, decimal, "."), pa.float64())


PLAIN = FileStyle()


# --- A CSV file by Arrow, which infers the type of each column; what it would pass over in silence is refused


BLOCK = 1 << 24  # bytes; a row must fit in a block, and rows of many thousand columns are long
_NOTHING: list[str] = pyarrow.csv.ConvertOptions().null_values  # in columns that hold no text
_SPACES = ["\t", *(" " * count for count in range(1, 33))]  # a cell of spaces is blank, and makes no number a text


def read_arrow(path: Path, content: bytes | None, as_text: tuple[str, ...], style: FileStyle = PLAIN) -> Any:
    """Read a CSV file as an Arrow table.

    Parameters
    ----------
    path : Path
    content : bytes or None
        The content of a zipped file; None where the file is not zipped.
    as_text : tuple of str
        Columns to read as text.
    style : FileStyle

    Raises
    ------
    ValueError
        In a few words, where rows would be lost; Arrow's own exceptions for other damage.
    """
    if _has_quotes(path, content):
        data = _read_quoted(path, content, as_text, style)
    else:
        data = _read(_source(path, content), as_text, style)
    if len(data.column_names) == 1:
        _refuse_blank_lines(path, content, style)
    return style.with_numbers(data, as_text)


def _source(path: Path, content: bytes | None) -> Any:
    return str(path) if content is None else pa.BufferReader(content)


def _read(source: Any, as_text: tuple[str, ...], style: FileStyle, *, ignore_blank: bool = True) -> Any:
    return pyarrow.csv.read_csv(source, *_options(as_text, style, ignore_blank))


def parse_options(style: FileStyle, *, ignore_blank: bool = True) -> Any:
    """How Arrow cuts a file into cells."""
    return pyarrow.csv.ParseOptions(delimiter=style.delimiter, newlines_in_values=True, ignore_empty_lines=ignore_blank)


def _options(as_text: tuple[str, ...], style: FileStyle, ignore_blank: bool = True) -> tuple[Any, Any, Any]:
    return (
        pyarrow.csv.ReadOptions(block_size=BLOCK),
        parse_options(style, ignore_blank=ignore_blank),
        pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(as_text, pa.string()),
            null_values=[*_NOTHING, *_SPACES],
            decimal_point=style.decimal,
        ),
    )


def _has_quotes(path: Path, content: bytes | None) -> bool:
    if content is not None:
        return b'"' in content
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        return mapped.find(b'"') >= 0


def _read_quoted(path: Path, content: bytes | None, as_text: tuple[str, ...], style: FileStyle) -> Any:
    """Read with a row of blanks at the end, which is not found there where a quote took it for text."""
    with pyarrow.csv.open_csv(
        _source(path, content), *_options(as_text, style)
    ) as reader:  # no more than its first block
        columns = len(reader.schema.names)
    blanks = b'""' if columns == 1 else style.delimiter.encode() * (columns - 1)
    with _Ended(path, content, b"\n" + blanks + b"\n") as source:
        data = _read(pa.PythonFile(source, mode="r"), as_text, style)
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


def _refuse_blank_lines(path: Path, content: bytes | None, style: FileStyle) -> None:
    """Refuse a file of one column with blank lines between its first and its last row."""
    whole = (path.read_bytes() if content is None else content).strip(b"\r\n")
    rows = [_read(pa.BufferReader(whole), (), style, ignore_blank=ignore).num_rows for ignore in (True, False)]
    if rows[0] != rows[1]:
        raise ValueError('a file of one column has a blank line: remove it, or write "" for a blank')


# --- Read one party's file: CSV, Parquet or LIBSVM, told apart by the end of the name


# What the readers raise on damaged input; InputError is a ValueError too and is let through first.
DAMAGED = (pa.ArrowException, OSError, ValueError, EOFError, zlib.error, OverflowError, MemoryError)


def read_table(
    path: str | os.PathLike[str],
    *,
    party: str,
    id_column: str | None = None,
    text_columns: Sequence[str] = (),
    width: int | None = None,
    style: FileStyle = PLAIN,
) -> Table:
    """Read a table from a file.

    Parameters
    ----------
    path : path
        A file whose name ends in .csv, .csv.gz, .parquet, .svm, .svm.gz, .libsvm, .libsvm.gz or .xlsx. The
        first line of a CSV file, or of the first sheet of an Excel file, is its header. The columns of
        a LIBSVM file are named "1" to "d",
        its label column "label", and it stays sparse.
    party : str
        The party's name, for messages.
    id_column : str, optional
        A column of a CSV file to read as text, so that ids keep their leading zeros and all their
        digits.
    text_columns : sequence of str
        Other columns of a CSV file to read so; those that it does not have are passed over.
    width : int, optional
        How many columns a LIBSVM file has, whatever its rows say: entries beyond are left out. Without it the largest
        number in its rows counts, which is a fact about the rows.
    style : FileStyle
        How a CSV file separates its cells and writes numbers.

    Returns
    -------
    Table
        The columns by name.

    Raises
    ------
    InputError
        When the file is absent, empty, damaged, of another kind, has no rows, or has two columns of
        one name or a column without a name.
    """
    path = Path(path)
    reader, hint = reader_of(path, party)
    check_file(path, party)
    as_text = tuple(text_columns) if id_column is None else (id_column, *text_columns)
    try:
        if reader is _read_libsvm:
            return _read_libsvm(path, party, (), width)
        return _read_csv(path, party, as_text, style) if reader is _read_csv else reader(path, party, as_text)
    except InputError:
        raise
    except DAMAGED as error:
        raise InputError(f"party {show(party)}: cannot read {quote_path(path)} ({one_line(error)}): {hint}") from error


_Reader = Callable[[Path, str, tuple[str, ...]], Table]


def reader_of(path: Path, party: str) -> tuple[_Reader, str]:
    """Choose the reader by the end of the name, and what to advise when it fails."""
    if os.path.isdir(path):  # never raises, whatever the path is
        raise InputError(f"party {show(party)}: {quote_path(path)} is a folder: give the file in it")
    name = path.name.lower().removesuffix(".gz")
    zipped = name != path.name.lower()
    if name.endswith(".csv"):
        return _read_csv, "save it as UTF-8 text, separated by commas, with as many cells in each row"
    if name.endswith((".svm", ".libsvm")):
        return _read_libsvm, "each line is a label, then column:value pairs, columns counted from 1"
    if name.endswith(".parquet") and not zipped:
        return _read_parquet, "write the Parquet file again"
    if name.endswith(".xlsx") and not zipped:
        return _read_excel, "save it as an Excel workbook whose first sheet has a header and rows"
    raise InputError(
        f"party {show(party)}: the kind of {quote_path(path)} is not known: "
        "use a name that ends in .csv, .csv.gz, .parquet, .svm, .svm.gz, .libsvm or .xlsx"
    )


def check_file(path: Path, party: str) -> None:
    """Refuse what is absent, no file, or empty."""
    try:
        found, empty = path.is_file(), path.is_file() and path.stat().st_size == 0
    except (OSError, ValueError) as error:
        raise InputError(f"party {show(party)}: cannot open {quote_path(path)}: {one_line(error)}") from error
    if not found:
        near = nearest(path.name, sorted(os.listdir(path.parent)) if path.parent.is_dir() else [])
        raise InputError(f"party {show(party)}: there is no file {quote_path(path)}{near}: check the path of data")
    if empty:
        raise InputError(f"party {show(party)}: {quote_path(path)} is empty: it needs rows")


def unzipped(path: Path) -> bytes:
    """Return the content; Python's gzip checks the length and checksum, so no cut file passes."""
    content = path.read_bytes()
    return gzip.decompress(content) if path.name.lower().endswith(".gz") else content


def _read_csv(path: Path, party: str, as_text: tuple[str, ...], style: FileStyle = PLAIN) -> Table:
    """Read CSV."""
    zipped = path.name.lower().endswith(".gz")
    data = read_arrow(path, unzipped(path) if zipped else None, as_text, style)
    check_separator(data.column_names, path, party)
    return arrow_table(data, path, party)


def _read_excel(path: Path, party: str, as_text: tuple[str, ...]) -> Table:
    """Read the first sheet of an Excel workbook; formulas count as their last values."""
    try:
        from openpyxl import load_workbook
    except ImportError as error:
        raise InputError('Excel files need openpyxl, which is not installed: pip install "tacit[excel]"') from error
    try:
        book = load_workbook(path, read_only=True, data_only=True)
        try:
            header, *rows = book.worksheets[0].iter_rows(values_only=True)
        finally:
            book.close()
    except Exception as error:  # zip, XML and the library raise all sorts on a damaged file
        raise ValueError(f"it is no whole Excel workbook: {one_line(error)}") from error
    names = ["" if cell is None else str(cell) for cell in header]
    kept = [row for row in rows if any(cell is not None for cell in row)]
    columns = [_excel_column([row[place] for row in kept], name in as_text) for place, name in enumerate(names)]
    return arrow_table(pa.table(columns, names=names), path, party)


def _excel_column(cells: list[Any], as_text: bool) -> Any:
    """One column: of one type where its cells are, else text; an id that is a whole number is written as one."""
    kinds = {type(cell) for cell in cells if cell is not None}
    if not as_text and (len(kinds) == 1 or kinds <= {int, float}):
        return pa.array(cells)
    return pa.array([None if cell is None else _excel_text(cell) for cell in cells], pa.string())


def _excel_text(cell: Any) -> str:
    return f"{cell:.15g}" if isinstance(cell, float) else str(cell)


def csv_names(path: Path, style: FileStyle = PLAIN) -> tuple[str, ...]:
    """Names of the columns of a CSV file, from its first line alone; none for a file of another kind.

    Raises
    ------
    csv.Error, or one of DAMAGED
        Where the line cannot be read.
    """
    name = path.name.lower()
    if not name.endswith((".csv", ".csv.gz")):
        return ()
    opened: Any = gzip.open if name.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
        return tuple(next((cells for cells in csv.reader(file, strict=True, delimiter=style.delimiter) if cells), ()))


def header_table(path: Path, party: str, style: FileStyle = PLAIN) -> ArrowTable:
    """The columns of a CSV or Parquet file without their rows; a CSV file does not say their types.

    Raises
    ------
    InputError
        For a file that is absent, damaged or LIBSVM text, and for names that are missing or twice.
    """
    _, hint = reader_of(path, party)
    check_file(path, party)
    if is_libsvm(path, party):
        raise InputError(
            f"party {show(party)}: {quote_path(path)} is LIBSVM text, which has no names of columns: write its party "
            "into a job by hand"
        )
    try:
        if path.name.lower().endswith(".parquet"):
            with pyarrow.parquet.ParquetFile(path) as file:
                schema = file.schema_arrow
        elif path.name.lower().endswith(".xlsx"):
            schema = pa.schema([(name, pa.null()) for name in read_table(path, party=party).columns])
        else:
            names = csv_names(path, style)
            check_separator(list(names), path, party)
            schema = pa.schema([(name, pa.null()) for name in names])
    except InputError:
        raise
    except (csv.Error, *DAMAGED) as error:
        raise InputError(f"party {show(party)}: cannot read {quote_path(path)} ({one_line(error)}): {hint}") from error
    return arrow_table(schema.empty_table(), path, party, rows=1)


def check_separator(names: list[str], path: Path, party: str) -> None:
    """Refuse a header that became one column because another delimiter is used."""
    for delimiter, word in DELIMITERS.items():
        if len(names) == 1 and delimiter in names[0]:
            said = delimiter.replace("\t", "\\t")
            where = f"party {show(party)}: {quote_path(path)} looks separated by {word}"
            raise InputError(f'{where}: write delimiter = "{said}" under its [[party]], or separate it by commas')


def _read_parquet(path: Path, party: str, as_text: tuple[str, ...]) -> Table:
    """Read Parquet; a single file, so that folder names are not taken for columns."""
    with pyarrow.parquet.ParquetFile(path) as file:
        data = file.read()
    data.validate(full=True)  # text in a damaged file may be no UTF-8, which Arrow does not check
    give_back_memory()
    return arrow_table(data, path, party)


def give_back_memory() -> None:
    """Give the system back what Arrow held for buffers and tables that are gone, which is twice the table or more."""
    pa.default_memory_pool().release_unused()


def frame_table(frame: Any, party: str) -> Table:
    """A data frame (of pandas or polars, or an Arrow table) as a table, without the row index of pandas.

    Raises
    ------
    InputError
        For anything else, a frame without rows, and columns that Arrow cannot hold.
    """
    try:
        data = _as_arrow(frame)
    except AttributeError as error:
        kind = type(frame).__name__
        raise InputError(f"party {show(party)}: its rows are a {kind}: give a path or a data frame") from error
    except (pa.ArrowException, ValueError, TypeError) as error:
        why = error.args[-1] if len(error.args) > 1 else one_line(error)  # the last one names the column
        raise InputError(
            f"party {show(party)}: cannot use its data frame ({why}): give each column values of one type"
        ) from error
    return arrow_table(data, Path("data frame"), party)


def _as_arrow(frame: Any) -> Any:
    if isinstance(frame, pa.Table):
        return frame
    if hasattr(frame, "to_arrow"):  # of polars
        return frame.to_arrow()
    return pa.Table.from_pandas(frame, preserve_index=False)


def arrow_table(data: Any, path: Path, party: str, rows: int | None = None) -> ArrowTable:
    """Check the header and wrap the columns; `rows` says how many the file has where `data` is its header alone."""
    names = tuple(data.column_names)
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise InputError(
            f"party {show(party)}: {quote_path(path)} has more than one column {listing(repeated)}: "
            "give each column its own name"
        )
    if "" in names:
        raise InputError(
            f"party {show(party)}: column {names.index('') + 1} of {quote_path(path)} has no name: "
            "name it in the header, or remove it (a data frame writes its row index so)"
        )
    count = data.num_rows if rows is None else rows
    if count == 0:
        raise _no_rows(path, party)
    return ArrowTable(party=party, columns=names, n_rows=count, data=data)


def _read_libsvm(path: Path, party: str, as_text: tuple[str, ...], width: int | None = None) -> Table:
    """Read LIBSVM text as CSR, of as many columns as were declared, or as its rows use."""
    from sklearn.datasets import load_svmlight_file  # here: it is slow to import and rarely needed

    content = unzipped(path)
    refuse_underscores(content)
    features, label = load_svmlight_file(io.BytesIO(content), zero_based=False)
    n_rows, found = features.shape
    names = libsvm_names(path, party, n_rows, found if width is None else width)
    data = sp.csr_array(features)
    if width is not None and width != found:
        kept = data[:, :width] if width < found else data
        data = sp.csr_array((kept.data, kept.indices, kept.indptr), shape=(n_rows, width))
    return SparseTable(party=party, columns=names, n_rows=n_rows, data=data, label=label)


def is_libsvm(path: Path, party: str) -> bool:
    """Whether a file is LIBSVM text, by its name."""
    return reader_of(path, party)[0] is _read_libsvm


def libsvm_names(path: Path, party: str, rows: int, width: int) -> tuple[str, ...]:
    """The names of the columns of a LIBSVM file; refuses one without rows, or with far too many columns."""
    if rows == 0:
        raise _no_rows(path, party)
    if width > MOST_COLUMNS:
        raise InputError(
            f"party {show(party)}: {quote_path(path)} uses column number {width}, "
            f"above the largest allowed ({MOST_COLUMNS}): number its columns from 1 without gaps"
        )
    return (*(str(number) for number in range(1, width + 1)), "label")


def refuse_underscores(content: bytes, before: int = 0) -> None:
    """Refuse 1_000 and 1_0:5, which Python takes for numbers and the format does not; `before` lines came before."""
    if b"_" not in content:
        return
    for number, line in enumerate(content.split(b"\n"), start=before + 1):
        if b"_" in line.split(b"#", 1)[0]:
            raise ValueError(f"line {number} has an underscore")


def _no_rows(path: Path, party: str) -> InputError:
    """Build the refusal of a file without data."""
    return InputError(f"party {show(party)}: {quote_path(path)} has no rows: add rows below its header")
