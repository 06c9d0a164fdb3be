"""A file with labels of two kinds: read, and written again with other labels and the epsilon of each.

How a file says that its labels were randomized is in `labels.py`.
Messages never show a label, nor how many there are of a kind: they are what is to be protected.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet

from tacit.columns.table import ArrowTable, Table
from tacit.data.labels import epsilon_column, epsilon_columns
from tacit.data.read import read_table, unzipped
from tacit.errors import InputError
from tacit.text import nearest, one_line, show
from tacit.types import Vector

# --- A file with labels of two kinds: read, and written again with other labels and the epsilon of each


Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LabelFile:
    """A file of which one column is to be replaced.

    Attributes
    ----------
    path : Path
    label : str
        The column.
    signs : array of n
        -1 or +1: which of the two kinds each row has.
    epsilons : array of n
        The epsilon of each row's label.
    kinds : pair
        The two kinds, as the file writes them.
    drop : tuple of str
        Columns that the new file has no more.
    table : Table
    """

    path: Path
    label: str
    signs: Vector
    epsilons: Vector
    kinds: tuple[Any, Any]
    drop: tuple[str, ...]
    table: ArrowTable

    def write(self, file: IO[bytes], signs: Vector, order: Rows) -> None:
        """Write the file with these labels in place of its own, with one column more, and its rows in this order.

        An order that comes from the labels, as in a file that is sorted by them, would give them away.
        """
        if _ending(self.path) == ".parquet":
            self._write_parquet(file, signs, order)
            return
        text = self._csv(signs, order).encode("utf-8")
        file.write(gzip.compress(text, mtime=0) if _ending(self.path) == ".csv.gz" else text)

    def _write_parquet(self, file: IO[bytes], signs: Vector, order: Rows) -> None:
        data, column = self.table.data, self.table.arrow(self.label)
        codes = pa.array((signs > 0).astype(np.int64))
        fresh = pa.array(self.kinds, type=column.type).take(codes)
        data = data.set_column(data.column_names.index(self.label), self.label, fresh)
        data = data.append_column(epsilon_column(self.label), pa.array(self.epsilons))
        pyarrow.parquet.write_table(data.drop_columns(list(self.drop)).take(pa.array(order)), file)

    def _csv(self, signs: Vector, order: Rows) -> str:
        header, *rows = csv_rows(self.path)
        place = header.index(self.label)
        keep = [k for k, name in enumerate(header) if name not in self.drop]
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow([*(header[k] for k in keep), epsilon_column(self.label)])
        for i in order.tolist():
            row = [*rows[i]]
            row[place] = self.kinds[int(signs[i] > 0)]
            writer.writerow([*(row[k] for k in keep), repr(float(self.epsilons[i]))])
        return buffer.getvalue()


def read_label_file(
    path: Path,
    label: str,
    *,
    kinds: Sequence[str] | None = None,
    epsilon: float | None = None,
    epsilon_from: str | None = None,
) -> LabelFile:
    """Read a file whose labels are to be randomized.

    Parameters
    ----------
    path : Path
        CSV (also .csv.gz) or Parquet.
    label : str
        Column of the labels.
    kinds : pair of str, optional
        The two kinds of labels; by default those in the file.
    epsilon : float, optional
        Of every label, or of those for which `epsilon_from` holds none.
    epsilon_from : str, optional
        Column with each row's own epsilon.

    Raises
    ------
    InputError
        In one line, which never shows a label.
    """
    table = _table(path, label)
    done = epsilon_columns(table.columns)
    if done:
        raise InputError(
            f"{path.name} is randomized already (it has the column {show(done[0])}): labels flipped twice would no "
            "longer fit the epsilon that the file states; hand it over as it is"
        )
    for option, name in (("--label", label), ("--epsilon-column", epsilon_from)):
        if name is not None and name not in table.columns:
            hint = nearest(name, table.columns)
            raise InputError(f"{path.name} has no column {show(name)}{hint}: fix {option}")
    if epsilon_from == label:
        raise InputError(f"{show(label)} is both --label and --epsilon-column: they must differ")
    codes, names = _codes(path, table, label, kinds)
    return LabelFile(
        path=path,
        label=label,
        signs=np.where(codes == 1, 1.0, -1.0),
        epsilons=_epsilons(table, epsilon, epsilon_from, path),
        kinds=names,
        drop=() if epsilon_from is None else (epsilon_from,),
        table=table,
    )


def csv_rows(path: Path) -> list[list[str]]:
    """The cells of a CSV file as they are written, the header first; empty lines are left out, as everywhere."""
    text = unzipped(path).decode("utf-8-sig")
    try:
        return [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    except csv.Error as error:
        raise InputError(f"cannot read {path.name} ({one_line(error)}): save it as CSV with plain cells") from error


def _ending(path: Path) -> str:
    name = path.name.lower()
    return next((end for end in (".csv", ".csv.gz", ".parquet") if name.endswith(end)), "")


def _table(path: Path, label: str) -> ArrowTable:
    """Read the file; what is wrong is said of the file, as there is no party yet."""
    if not _ending(path):
        raise InputError(
            f"{path.name} has no place for the epsilon beside each label: use a file whose name ends in .csv, "
            ".csv.gz or .parquet"
        )
    try:
        table: Table = read_table(path, party=path.name, id_column=label)
    except InputError as error:
        raise InputError(str(error).removeprefix(f"party {show(path.name)}: ")) from error
    assert isinstance(table, ArrowTable)
    return table


def _codes(path: Path, table: ArrowTable, label: str, kinds: Sequence[str] | None) -> tuple[Rows, tuple[Any, Any]]:
    """Which of the two kinds each row has."""
    if _ending(path) == ".parquet":
        column = table.arrow(label)
        values, known = column.to_pylist(), None if kinds is None else _as_type(kinds, column.type)
    else:
        header, *rows = csv_rows(path)
        place = header.index(label)
        values, known = [row[place] for row in rows], None if kinds is None else list(kinds)
    for row, value in enumerate(values, start=1):
        if value is None or value != value or (isinstance(value, str) and not value.strip()):
            raise InputError(f"{path.name}: row {row} has no label in {show(label)}: fill it in, or remove the row")
    found = sorted(set(values)) if known is None else known
    if len(found) > 2:
        raise InputError(f"{path.name}: {show(label)} holds more than two kinds of labels: join them into two")
    if len(found) < 2 or found[0] == found[1]:
        raise InputError(f"{path.name}: say both kinds of labels in {show(label)}, with --classes A,B")
    number = {found[0]: 0, found[1]: 1}
    for row, value in enumerate(values, start=1):
        if value not in number:
            raise InputError(f"{path.name}: the label of row {row} is none of the two in --classes: fix either")
    return np.array([number[value] for value in values], dtype=np.int64), (found[0], found[1])


def _as_type(kinds: Sequence[str], kind: Any) -> list[Any]:
    try:
        return list(pa.array(list(kinds)).cast(kind).to_pylist())
    except pa.ArrowException as error:
        raise InputError(f"--classes {show(','.join(kinds))} does not fit labels of type {kind}: fix it") from error


def _epsilons(table: ArrowTable, epsilon: float | None, column: str | None, path: Path) -> Vector:
    """The epsilon of each row; blanks in the column take the one that is given for all."""
    if column is None:
        assert epsilon is not None
        return np.full(table.n_rows, float(epsilon))
    try:
        cells = table.arrow(column).cast(pa.float64(), safe=False).to_numpy()
    except pa.ArrowException as error:
        raise InputError(f"{path.name}: {show(column)} does not hold numbers: fix --epsilon-column") from error
    values = np.where(np.isnan(cells), np.nan if epsilon is None else epsilon, cells)
    return np.asarray(values, dtype=np.float64)
