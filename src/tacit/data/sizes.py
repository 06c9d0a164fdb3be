"""The public size of a party's file: its column names and its number of rows, without keeping any value."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from tacit.columns.constants import Encoding, known_specs, public_encoder, refuse, settled, unlearnable
from tacit.columns.spec import ColumnSpec, EncodeRules, is_wildcard
from tacit.columns.table import BLANK, ArrowTable, Table, kind_of_type
from tacit.data.labels import epsilon_columns, label_epsilons
from tacit.data.load import (
    PartySpec,
    feature_names,
    party_encoding,
    read_training_table,
    refuse_columns,
    stated_width,
)
from tacit.data.nodes import known_columns, known_epsilons, node_columns, node_encoding, read_nodes
from tacit.data.read import (
    BLOCK,
    DAMAGED,
    FileStyle,
    arrow_table,
    check_file,
    check_separator,
    parse_options,
    read_table,
    reader_of,
    unzipped,
)
from tacit.errors import InputError
from tacit.files import quote_path
from tacit.text import one_line, show
from tacit.types import Vector


@dataclass(frozen=True)
class PublicSize:
    """How many rows and feature columns a party's file has, and how the columns are encoded."""

    rows: int
    columns: int
    encoding: Encoding | None = None


def public_size(
    spec: PartySpec,
    specs: Sequence[PartySpec],
    folder: str | os.PathLike[str] = ".",
    encode: EncodeRules | None = None,
    *,
    protected: bool = True,
    rows: int | None = None,
) -> PublicSize:
    """The size of one party's file.

    Of a CSV file the header is read and the rows are counted; of a Parquet file the description that it carries; a
    LIBSVM file must be read whole, to count its rows; where they are protected, its number of columns is stated.

    Parameters
    ----------
    spec : PartySpec
        The party.
    specs : sequence of PartySpec
        All parties, for the name of the label.
    folder : path
        Folder that relative paths start from.
    encode : EncodeRules, optional
        How columns become numbers, so that the encoded ones are counted; by default those of the file are.
    protected : bool
        Whether the rows are to be protected. They are read where they are not, as constants come from them.
    rows : int, optional
        How many rows are trained on; by default those of the file. Curves are finer where there are more.

    Raises
    ------
    InputError
        For files or columns that cannot be used; the message names the party.
    """
    path = Path(folder, spec.data)
    label = next((other.label for other in specs if other.label is not None), "")
    table = _header(path, spec, protected=protected)
    names = feature_names(table, spec, label)
    if encode is None:
        return PublicSize(table.n_rows, len(names))
    if protected:
        trained, known = table.n_rows if rows is None else rows, spec.known_columns(names)
        encoding = _public_encoding(table, path, names, known, encode, trained)
    else:
        whole = table if not isinstance(table, ArrowTable) else read_training_table(spec, folder)
        encoding = party_encoding(whole, spec, names, None, encode, False)
    return PublicSize(table.n_rows, len(names) if encoding is None else len(encoding.encoder.names), encoding)


def stated_size(specs: Sequence[PartySpec], encode: EncodeRules, rows: int) -> PublicSize:
    """The size of protected parties that hold the same columns, or of one, whose files are elsewhere: by the job alone.

    Raises
    ------
    InputError
        Where the job does not name all columns.
    """
    spec = specs[0]
    names = spec.features or tuple(sorted({own.name for one in specs for own in one.columns if not own.optional}))
    if not names or any(map(is_wildcard, names)):
        raise InputError(
            f"party {show(spec.name)} has its data elsewhere, and the job does not name its columns: list them under "
            "features to plan"
        )
    known = known_columns(specs, names)
    given = known_specs(known, names, spec.name)
    refuse(spec.name, unlearnable([(given.get(name, ColumnSpec(name)), BLANK) for name in names], encode))
    encoder = public_encoder(names, known, rules=encode, rows=rows)
    return PublicSize(rows, len(encoder.names), Encoding(encoder, {}, protected=True))


def _public_encoding(
    table: Table, path: Path, names: Sequence[str], columns: Sequence[ColumnSpec], encode: EncodeRules, rows: int
) -> Encoding | None:
    """The encoding that a job states; a Parquet file says the types of its columns, for a CSV file its rows would."""
    if not isinstance(table, ArrowTable):
        refuse_columns(table.party, columns)
        return None
    given = known_specs(columns, names, table.party)
    typed = path.name.lower().endswith(".parquet")
    kinds = [kind_of_type(table.arrow(name).type) if typed else BLANK for name in names]
    found = [(given.get(name, ColumnSpec(name)), kind) for name, kind in zip(names, kinds, strict=True)]
    encode = settled(encode, found, protected=True)
    refuse(table.party, unlearnable(found, encode))
    return Encoding(public_encoder(names, columns, rules=encode, rows=rows), {}, protected=True)


def node_sizes(
    specs: Sequence[PartySpec], folder: str | os.PathLike[str], encode: EncodeRules, *, protected: bool, rows: int = 0
) -> Encoding | None:
    """How the columns of a sample split are encoded; the rows are read where they are not to be protected.

    `rows` is how many rows all nodes train on together.

    Raises
    ------
    InputError
        For files or columns that cannot be used; the message names the party.
    """
    headers = [_header(Path(folder, spec.data), spec, protected=protected) for spec in specs]
    columns = node_columns(headers, specs)
    if not protected:
        return node_encoding(read_nodes(specs, folder), specs, columns, encode, protected=False)
    known = known_columns(specs, columns)
    pairs = list(zip(headers, specs, strict=True))
    # Each file is checked; all have the same encoding.
    found = [_public_encoding(table, Path(spec.data), columns, known, encode, rows) for table, spec in pairs]
    return found[0]


def public_nodes(
    specs: Sequence[PartySpec], folder: str | os.PathLike[str] = ".", *, protected: bool = False
) -> tuple[dict[str, int], int, dict[str, Vector]]:
    """The sizes of the files of a sample split: rows by node, common columns, and the epsilons of randomized labels.

    Where the labels were randomized beforehand, the column with their epsilons is read, which is public; no label is.

    Raises
    ------
    InputError
        For files or columns that cannot be used; the message names the party.
    """
    tables = [_header(Path(folder, spec.data), spec, protected=protected) for spec in specs]
    pairs = list(zip(tables, specs, strict=True))
    known = known_epsilons([_epsilons(table, Path(folder, spec.data), spec) for table, spec in pairs], specs)
    return {spec.name: table.n_rows for table, spec in pairs}, len(node_columns(tables, specs)), known


def _epsilons(header: Table, path: Path, spec: PartySpec) -> Vector | None:
    if not epsilon_columns(header.columns):
        return None
    return label_epsilons(read_table(path, party=spec.name, id_column=spec.id, style=spec.style), spec.label or "")


def _header(path: Path, spec: PartySpec, *, protected: bool) -> Table:
    """The file's columns, as a table without values."""
    _, hint = reader_of(path, spec.name)
    check_file(path, spec.name)
    name = path.name.lower()
    try:
        if name.endswith(".parquet"):
            with pyarrow.parquet.ParquetFile(path) as file:
                return arrow_table(file.schema_arrow.empty_table(), path, spec.name, rows=file.metadata.num_rows)
        if name.endswith((".csv", ".csv.gz")):
            return _csv_header(path, spec.name, spec.style)
        return read_table(path, party=spec.name, width=stated_width(spec, path, protected=protected))
    except InputError:
        raise
    except DAMAGED as error:
        raise InputError(
            f"party {show(spec.name)}: cannot read {quote_path(path)} ({one_line(error)}): {hint}"
        ) from error


def _csv_header(path: Path, party: str, style: FileStyle) -> Table:
    """Header and number of rows of a CSV file; of its cells only the first of each row is looked at, to count."""
    source: Any = pa.BufferReader(unzipped(path)) if path.name.lower().endswith(".gz") else str(path)
    options: dict[str, Any] = {
        "read_options": pyarrow.csv.ReadOptions(block_size=BLOCK),
        "parse_options": parse_options(style),
    }
    with pyarrow.csv.open_csv(source, **options) as header:
        schema = header.schema
    check_separator(schema.names, path, party)
    first = schema.names[0]
    convert = pyarrow.csv.ConvertOptions(include_columns=[first], column_types={first: pa.string()})
    if isinstance(source, pa.BufferReader):
        source.seek(0)
    if len(set(schema.names)) < len(schema.names):  # refused below, by name
        return arrow_table(schema.empty_table(), path, party, rows=1)
    with pyarrow.csv.open_csv(source, convert_options=convert, **options) as rows:
        count = sum(batch.num_rows for batch in rows)
    return arrow_table(schema.empty_table(), path, party, rows=count)
