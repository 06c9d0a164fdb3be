"""From the parties' files to aligned shards, for training and for prediction."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.columns.constants import Encoding, Part, make_encoding
from tacit.columns.encoder import Encoder
from tacit.columns.raw import RawEncoder
from tacit.columns.spec import CATEGORY, ColumnSpec, EncodeRules, is_wildcard, resolve_specs, text_names
from tacit.columns.table import ArrowTable, Table, is_column_number
from tacit.data.align import Counts, MatchedRows, Rows, align
from tacit.data.holdout import Holdout, Mask
from tacit.data.labels import Labels, RowValues, encode_known, file_labels, read_row_values, refuse_randomized
from tacit.data.read import DAMAGED, FileStyle, csv_names, frame_table, is_libsvm, read_table
from tacit.errors import InputError
from tacit.problem.losses import Loss
from tacit.text import listing, plural, show
from tacit.types import Matrix, Shard, Vector

ROW_COLUMNS = ("weight", "offset", "exposure")
Source = Any  # the path of a file, or a data frame: pandas and Arrow ship no types


@dataclass(frozen=True)
class PartySpec:
    """Where one party's data lies and what its columns mean.

    Attributes
    ----------
    name : str
        The party's name.
    data : str
        Path of its file, as written; relative to the folder of the job file.
    id : str or None
        Its id column, or None to match rows by position.
    label : str or None
        Its label column; None for a party without labels.
    features : tuple of str or None
        Its feature columns; None for all but the id and the label, sorted by name where the file names its columns.
    positive : text, number, bool or None
        Which of two labels is the positive one; None for the last in sorted order.
    columns : tuple of ColumnSpec
        What is known of its feature columns beforehand.
    width : int or None
        How many columns its LIBSVM file has. Where rows are protected it must be stated, as the rows would tell it.
    weight, offset, exposure : str or None
        Columns beside the label: what a row counts, what is added to its score, and how long it was observed.
    delimiter : str
        What separates the cells of its CSV file.
    numbers : str
        How its CSV file writes the number 1234.56, as in "1.234,56".
    holdout_column : str or None
        Its column of dates or numbers, by which rows are held out; no feature unless `features` lists it.
    holdout_data : str or None
        Path of a file of rows to evaluate the model on; as `data`.
    """

    name: str
    data: str = ""
    id: str | None = None
    label: str | None = None
    features: tuple[str, ...] | None = None
    positive: str | float | bool | None = None
    columns: tuple[ColumnSpec, ...] = ()
    width: int | None = None
    weight: str | None = None
    offset: str | None = None
    exposure: str | None = None
    delimiter: str = ","
    numbers: str = "1234.56"
    holdout_column: str | None = None
    holdout_data: str | None = None

    @property
    def style(self) -> FileStyle:
        """How its CSV file is written."""
        return FileStyle(self.delimiter, self.numbers)

    @property
    def row_columns(self) -> dict[str, str]:
        """The columns that say more of a row than its label, by what they say."""
        known = {role: getattr(self, role) for role in ROW_COLUMNS}
        return {role: name for role, name in known.items() if name is not None}

    @property
    def apart(self) -> dict[str, str]:
        """The columns that are no features, by what they are; that of the holdout is one where it is listed."""
        known = {"id": self.id, "label": self.label, **self.row_columns, "holdout_column": self.holdout_column}
        return {role: name for role, name in known.items() if name is not None}

    @property
    def text_columns(self) -> tuple[str, ...]:
        """Columns that are categories, to be read as text; wildcards as they are written."""
        return tuple(column.name for column in self.columns if column.given_kind == CATEGORY)

    def known_columns(self, names: Sequence[str]) -> tuple[ColumnSpec, ...]:
        """What is known of its feature columns, wildcards settled; `names` are these columns."""
        return resolve_specs(self.columns, names, self.name)


@dataclass(frozen=True, eq=False)
class JobData:
    """What a job trains on; row i of every shard and label i are about the same id i.

    Attributes
    ----------
    shards : list of Shard
        One per party, in the order of the job.
    labels : array
        Labels as in the file.
    ids : array or None
        The common ids, sorted; None when rows were matched by position.
    counts : Counts
        Rows kept, and dropped for each party.
    encodings : mapping of str to Encoding
        By party, how its columns were encoded; LIBSVM files are not.
    raw : mapping of str to RawEncoder
        By party, how its columns were read, where trees take them as they are.
    rows : RowValues
        What the rows have beside a label.
    """

    shards: list[Shard]
    labels: npt.NDArray[Any]
    ids: npt.NDArray[Any] | None
    counts: Counts
    encodings: Mapping[str, Encoding] = field(default_factory=dict)
    raw: Mapping[str, RawEncoder] = field(default_factory=dict)
    rows: RowValues = field(default_factory=RowValues)


@dataclass(frozen=True, eq=False)
class PredictionData:
    """New rows to predict.

    Attributes
    ----------
    shards, ids, counts
        As in `JobData`.
    said : tuple of str
        Remarks on columns and blanks.
    tables : sequence of Table
        The parties' files as read.
    rows : sequence of array
        Which row of its table each row of a shard is.
    id_column : str or None
        How the first party that has one names its id column; None where rows have no ids.
    """

    shards: list[Shard]
    ids: npt.NDArray[Any] | None
    counts: Counts
    said: tuple[str, ...] = ()
    tables: Sequence[Table] = ()
    rows: Sequence[Rows] = ()
    id_column: str | None = None


@dataclass(frozen=True, eq=False)
class MatchedFiles:
    """The parties' files, read and matched; their columns may then be encoded, in one way or in several.

    Attributes
    ----------
    specs : sequence of PartySpec
    tables : sequence of Table
    names : sequence of tuple of str
        Each party's feature columns.
    alignment : MatchedRows
    labels : array
        Of the common rows, as in the file.
    rows : RowValues
        What these rows have beside a label.
    """

    specs: Sequence[PartySpec]
    tables: Sequence[Table]
    names: Sequence[tuple[str, ...]]
    alignment: MatchedRows
    labels: npt.NDArray[Any]
    rows: RowValues = field(default_factory=RowValues)

    def encoded(
        self, encode: EncodeRules | None = None, protected: Collection[str] = (), holdout: Holdout | None = None
    ) -> JobData:
        """Shards and labels of the common rows; parameters as in `load_training_data`."""
        alignment = self.alignment
        if encode is None:
            return self._data(_shards(self.tables, self.names, alignment))
        parts = zip(self.tables, self.specs, self.names, self._learnt(holdout), strict=True)
        encodings = {
            spec.name: encoding
            for table, spec, columns, rows in parts
            if (encoding := party_encoding(table, spec, columns, rows, encode, spec.name in protected)) is not None
        }
        encoders = [encodings[spec.name].encoder if spec.name in encodings else None for spec in self.specs]
        return self._data(_shards(self.tables, self.names, alignment, encoders=encoders), encodings)

    def as_they_are(self, holdout: Holdout | None, encode: EncodeRules, protected: Collection[str]) -> JobData:
        """Shards of columns as trees take them; categories are those of the rows that are not held out.

        Columns of `protected` parties, which have no trees, are encoded.
        """
        raw: dict[str, RawEncoder] = {}
        encodings: dict[str, Encoding] = {}
        for table, spec, columns, rows in zip(self.tables, self.specs, self.names, self._learnt(holdout), strict=True):
            if spec.name not in protected:
                raw[spec.name] = RawEncoder.stated(table, columns, spec.known_columns(columns), rows)
            elif (encoding := party_encoding(table, spec, columns, rows, encode, protected=True)) is not None:
                encodings[spec.name] = encoding
        encoders = [raw.get(spec.name) or encodings[spec.name].encoder for spec in self.specs]
        shards = _shards(self.tables, self.names, self.alignment, encoders=encoders)
        return JobData(shards, self.labels, self.alignment.ids, self.alignment.counts, encodings, raw)

    def _learnt(self, holdout: Holdout | None) -> Sequence[Rows]:
        """The rows of each file from which constants may be taken."""
        held = self.held(holdout or Holdout())
        return self.alignment.rows if held is None else [rows[~held] for rows in self.alignment.rows]

    def held(self, holdout: Holdout) -> Mask | None:
        """Which of the common rows are held out, by what the label holder knows of them; None for none."""
        at = next(number for number, spec in enumerate(self.specs) if spec.label is not None)
        column = self.specs[at].holdout_column
        return holdout.held(self.tables[at], column, self.alignment.rows[at], self.alignment.ids)

    def _data(self, shards: list[Shard], encodings: Mapping[str, Encoding] | None = None) -> JobData:
        return JobData(shards, self.labels, self.alignment.ids, self.alignment.counts, encodings or {}, rows=self.rows)


def load_training_data(
    specs: Sequence[PartySpec],
    folder: str | os.PathLike[str] = ".",
    encode: EncodeRules | None = None,
    protected: Collection[str] = (),
    holdout: Holdout | None = None,
) -> JobData:
    """Read, align and check what the parties train on.

    Parameters
    ----------
    specs : sequence of PartySpec
        One per party; exactly one names a label column.
    folder : path
        Folder that relative paths start from.
    encode : EncodeRules, optional
        How columns become numbers; by default they must be numbers, and stay as they are.
    protected : collection of str
        Parties from whose rows no constant of the encoding may be taken.
    holdout : Holdout, optional
        Rows from which none is taken either, as they are not trained on.

    Returns
    -------
    JobData
        Shards and labels of the common rows.

    Raises
    ------
    InputError
        For files or columns that cannot be used; the message names the party.
    """
    return match_files(specs, folder, protected).encoded(encode, protected, holdout)


def match_files(
    specs: Sequence[PartySpec],
    folder: str | os.PathLike[str] = ".",
    protected: Collection[str] = (),
    matched: Callable[[Counts], None] | None = None,
) -> MatchedFiles:
    """Read and align the parties' files; as `load_training_data`.

    Parameters
    ----------
    specs, folder, protected
        As there.
    matched : callable, optional
        Gets the rows kept and dropped, before any column is encoded: a refusal may be due to them.
    """
    tables = [read_training_table(spec, folder, protected=spec.name in protected) for spec in specs]
    holders = [position for position, spec in enumerate(specs) if spec.label is not None]
    if len(holders) != 1:
        raise InputError(f"{plural(len(holders), 'party')} name a label column: exactly one must")
    holder = holders[0]
    label = specs[holder].label or ""
    names = [feature_names(table, spec, label) for table, spec in zip(tables, specs, strict=True)]
    # Checked before the rows are reordered, so that the message counts rows as the file does.
    values = file_labels(tables[holder].column(label), party=specs[holder].name)
    more = read_row_values(tables[holder], specs[holder].row_columns)
    alignment = align(tables, [spec.id for spec in specs])
    if matched is not None:
        matched(alignment.counts)
    chosen = alignment.rows[holder]
    return MatchedFiles(specs, tables, names, alignment, values[chosen], more.take(chosen))


def read_training_table(spec: PartySpec, folder: str | os.PathLike[str], *, protected: bool = False) -> Table:
    """Read a party's file, categories as text."""
    path = Path(folder, spec.data)
    width = stated_width(spec, path, protected=protected)
    text = text_columns(spec, path)
    return read_table(path, party=spec.name, id_column=spec.id, text_columns=text, width=width, style=spec.style)


def text_columns(spec: PartySpec, path: Path) -> tuple[str, ...]:
    """Columns of a party's file to be read as text; its header is read where a wildcard may name some."""
    if not any(map(is_wildcard, spec.text_columns)):
        return spec.text_columns
    try:
        names = csv_names(path, spec.style)
    except (csv.Error, *DAMAGED):  # what is wrong is said when its rows are read
        names = ()
    own = [name for name in names if name not in spec.apart.values()]
    return text_names(spec.columns, spec.features or own)


def stated_width(spec: PartySpec, path: Path, *, protected: bool) -> int | None:
    """How many columns a LIBSVM file is said to have; refused where nothing says so and its rows must not.

    The largest column number in a file is a fact about its rows: with one record more or less it may be another one.
    """
    if not is_libsvm(path, spec.name):
        return None
    if spec.width is None and protected and spec.features is not None:
        return max((int(name) for name in spec.features if is_column_number(name)), default=1)
    if spec.width is None and protected:
        raise InputError(
            f"party {show(spec.name)}: its rows are protected, and they alone say how many columns a LIBSVM file has: "
            "give width = their number, or list features"
        )
    return spec.width


def party_encoding(
    table: Table,
    spec: PartySpec,
    names: Sequence[str],
    rows: Rows | None,
    encode: EncodeRules,
    protected: bool,
) -> Encoding | None:
    """How a party's columns are encoded; None for a LIBSVM file, which is sparse and stays as it is."""
    columns = spec.known_columns(names)
    if isinstance(table, ArrowTable):
        return make_encoding([Part(table, rows)], names, columns, encode, protected=protected)
    refuse_columns(spec.name, columns)
    return None


def refuse_columns(party: str, columns: Sequence[ColumnSpec]) -> None:
    """Refuse statements about the columns of a LIBSVM file."""
    if columns:
        raise InputError(f"party {show(party)}: a LIBSVM file is used as it is: remove columns, or give CSV or Parquet")


def load_prediction_data(
    party_specs: Sequence[PartySpec],
    paths: Sequence[Source],
    encoders: Sequence[Encoder | RawEncoder | None] | None = None,
    row_ids: Sequence[str] = (),
) -> PredictionData:
    """Read and align new rows for a trained model.

    Parameters
    ----------
    party_specs : sequence of PartySpec
        For each party its name, id column and feature columns, as saved with the model; `data` and
        `label` are not used.
    paths : sequence of paths or data frames
        One per party, in the same order. Columns that the model does not use are ignored. In a
        LIBSVM file a column number above those of the file is a column of zeros.
    encoders : sequence of Encoder, RawEncoder or None
        For each party how its columns were encoded in training; None where they were used as they are.
    row_ids : sequence of str
        For one file of whole rows: id columns, of which the first that the file has names its rows, as they stand.

    Returns
    -------
    PredictionData
        Shards of the common rows, with exactly the model's columns in the model's order.

    Raises
    ------
    InputError
        For files or columns that cannot be used; the message names the party.
    """
    if len(paths) != len(party_specs):
        raise InputError(
            f"{plural(len(paths), 'data file')} for {plural(len(party_specs), 'party')}: "
            f"give one for each, in the order {listing(spec.name for spec in party_specs)}"
        )
    encoders = encoders or [None] * len(paths)
    tables = [
        _read_new(source, spec, (*row_ids, *(() if encoder is None else encoder.text_columns)))
        for source, spec, encoder in zip(paths, party_specs, encoders, strict=True)
    ]
    alignment = align(tables, [spec.id for spec in party_specs])
    names = [spec.features or () for spec in party_specs]
    remarks: list[str] = []
    shards = _shards(tables, names, alignment, encoders=encoders, remarks=remarks)
    named = next((name for name in row_ids if name in tables[0].columns), None)
    ids, id_column = _ids_of_rows(tables[0], named), named
    if alignment.ids is not None:
        ids, id_column = alignment.ids, next(spec.id for spec in party_specs if spec.id is not None)
    return PredictionData(shards, ids, alignment.counts, tuple(remarks), tables, alignment.rows, id_column)


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """New rows with labels as the loss wants them."""

    data: PredictionData
    labels: Vector

    def labels_of(self, specs: Sequence[PartySpec]) -> Vector:
        """The labels, with the offsets and weights of their rows where the label holder's file has such columns."""
        at = next(number for number, spec in enumerate(specs) if spec.label is not None)
        found = read_row_values(self.data.tables[at], specs[at].row_columns).take(self.data.rows[at])
        return Labels(self.labels).with_rows(found).values


def load_labelled(
    specs: Sequence[PartySpec],
    paths: Sequence[Source],
    encoders: Sequence[Encoder | RawEncoder | None] | None,
    classes: Sequence[Any],
    loss: Loss,
    row_ids: Sequence[str] = (),
    labels: Sequence[str] = (),
) -> LabelledRows:
    """Read and align new rows with their labels, to evaluate a trained model on; as `load_prediction_data`.

    Parameters
    ----------
    classes : sequence
        The labels that the model knows; empty where they are numbers.
    loss : Loss
    labels : sequence of str
        For one file of whole rows: label columns, of which the first that the file has is taken; else one party of
        `specs` has the label.
    """
    data = load_prediction_data(specs, paths, encoders, row_ids)
    at = 0 if labels else next(number for number, spec in enumerate(specs) if spec.label is not None)
    table, wanted = data.tables[at], labels or (specs[at].label or "",)
    name = next((own for own in wanted if own in table.columns), None)
    if name is None:
        raise InputError(
            f"party {show(table.party)}: its file has no label column {listing(wanted)}: evaluating needs labels"
        )
    refuse_randomized(table)
    found = file_labels(table.column(name), party=table.party)[data.rows[at]]
    if not len(found):
        raise InputError("no row is left to evaluate on: see that the files have rows in common")
    return LabelledRows(data, encode_known(found, classes, loss, table.party))


def _read_new(source: Source, spec: PartySpec, text_columns: tuple[str, ...]) -> Table:
    """New rows of one party, from a file or a data frame."""
    if isinstance(source, str | os.PathLike):
        return read_table(source, party=spec.name, id_column=spec.id, text_columns=text_columns, style=spec.style)
    return frame_table(source, spec.name)


def _ids_of_rows(table: Table, name: str | None) -> npt.NDArray[Any] | None:
    """The ids of one file of whole rows, in its order; None where it has no such column."""
    if name is None:
        return None
    values = table.column(name).tolist()
    return np.array(["" if v is None else v.strip() if isinstance(v, str) else v for v in values], dtype=object)


def feature_names(table: Table, spec: PartySpec, label: str) -> tuple[str, ...]:
    """Return the columns a party trains on: those it lists, or all but its id and label."""
    refuse_randomized(table)
    table.require(list(spec.apart.values()))
    if spec.features is not None:
        table.require(spec.features)
        return spec.features
    names = ordered(table, table.default_features(set(spec.apart.values())))
    if not names:
        raise InputError(f"party {show(spec.name)} has no feature columns: add columns, or leave the party out")
    if label in names:
        # A second copy of the label among the features would make the model look perfect.
        raise InputError(
            f"party {show(spec.name)} also has a column {show(label)}, the label of another party: "
            "remove it, or list the features of this party"
        )
    return names


def ordered(table: Table, names: tuple[str, ...]) -> tuple[str, ...]:
    """Names of columns in an order that is not the file's, so that this cannot matter; numbered ones are in order."""
    return tuple(sorted(names)) if isinstance(table, ArrowTable) else names


def _shards(
    tables: Sequence[Table],
    names: Sequence[tuple[str, ...]],
    alignment: MatchedRows,
    *,
    encoders: Sequence[Encoder | RawEncoder | None] | None = None,
    remarks: list[str] | None = None,
) -> list[Shard]:
    """Build each party's shard of the common rows; `remarks` collects remarks on new rows, None in training."""
    shards = []
    own = encoders or [None] * len(tables)
    for table, columns, rows, encoder in zip(tables, names, alignment.rows, own, strict=True):
        if encoder is None:
            shards.append(
                Shard(table.party, _pick(table.features(columns, absent_as_zero=remarks is not None), rows), columns)
            )
        elif remarks is None:
            shards.append(
                Shard(table.party, encoder.matrix(table, rows), encoder.names, encoder.curves, encoder.widths)
            )
        else:
            matrix, more = encoder.predicting(table, rows)
            remarks += more
            shards.append(Shard(table.party, matrix, encoder.names))
    return shards


def _pick(matrix: Matrix, rows: Rows) -> Matrix:
    """Return the rows in order; the matrix itself where that changes nothing."""
    if np.array_equal(rows, np.arange(matrix.shape[0])):
        return matrix
    return matrix[rows]
