"""From the parties' files to aligned shards, for training and for prediction."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.data.align import Alignment, Counts, Rows, align
from tacit.data.labels import check_labels
from tacit.data.randomized import refuse_randomized
from tacit.data.read import read_table
from tacit.data.table import Table
from tacit.data.wording import listing, plural, show
from tacit.errors import InputError
from tacit.types import Matrix, Shard


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
        Its feature columns; None for all but the id and the label, in the order of the file.
    """

    name: str
    data: str = ""
    id: str | None = None
    label: str | None = None
    features: tuple[str, ...] | None = None


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
    """

    shards: list[Shard]
    labels: npt.NDArray[Any]
    ids: npt.NDArray[Any] | None
    counts: Counts


@dataclass(frozen=True, eq=False)
class PredictionData:
    """New rows to predict; the attributes are as in `JobData`."""

    shards: list[Shard]
    ids: npt.NDArray[Any] | None
    counts: Counts


def load_training_data(specs: Sequence[PartySpec], folder: str | os.PathLike[str] = ".") -> JobData:
    """Read, align and check what the parties train on.

    Parameters
    ----------
    specs : sequence of PartySpec
        One per party; exactly one names a label column.
    folder : path
        Folder that relative paths start from.

    Returns
    -------
    JobData
        Shards and labels of the common rows.

    Raises
    ------
    InputError
        For files or columns that cannot be used; the message names the party.
    """
    tables = [read_table(Path(folder, spec.data), party=spec.name, id_column=spec.id) for spec in specs]
    holders = [position for position, spec in enumerate(specs) if spec.label is not None]
    if len(holders) != 1:
        raise InputError(f"{plural(len(holders), 'party')} name a label column: exactly one must")
    holder = holders[0]
    label = specs[holder].label or ""
    names = [feature_names(table, spec, label) for table, spec in zip(tables, specs, strict=True)]
    # Checked before the rows are reordered, so that the message counts rows as the file does.
    values = check_labels(tables[holder].column(label), party=specs[holder].name)
    alignment = align(tables, [spec.id for spec in specs])
    shards = _shards(tables, names, alignment)
    return JobData(shards, values[alignment.rows[holder]], alignment.ids, alignment.counts)


def load_prediction_data(party_specs: Sequence[PartySpec], paths: Sequence[str | os.PathLike[str]]) -> PredictionData:
    """Read and align new rows for a trained model.

    Parameters
    ----------
    party_specs : sequence of PartySpec
        For each party its name, id column and feature columns, as saved with the model; `data` and
        `label` are not used.
    paths : sequence of paths
        One file per party, in the same order. Columns that the model does not use are ignored. In a
        LIBSVM file a column number above those of the file is a column of zeros.

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
    pairs = list(zip(paths, party_specs, strict=True))
    tables = [read_table(path, party=spec.name, id_column=spec.id) for path, spec in pairs]
    alignment = align(tables, [spec.id for spec in party_specs])
    names = [spec.features or () for spec in party_specs]
    shards = _shards(tables, names, alignment, absent_as_zero=True)
    return PredictionData(shards, alignment.ids, alignment.counts)


def feature_names(table: Table, spec: PartySpec, label: str) -> tuple[str, ...]:
    """Return the columns a party trains on: those it lists, or all but its id and label."""
    refuse_randomized(table)
    table.require([name for name in (spec.id, spec.label) if name is not None])
    if spec.features is not None:
        table.require(spec.features)
        return spec.features
    own = {name for name in (spec.id, spec.label) if name is not None}
    names = table.default_features(own)
    if not names:
        raise InputError(f"party {show(spec.name)} has no feature columns: add columns, or leave the party out")
    if label in names:
        # A second copy of the label among the features would make the model look perfect.
        raise InputError(
            f"party {show(spec.name)} also has a column {show(label)}, the label of another party: "
            "remove it, or list the features of this party"
        )
    return names


def _shards(
    tables: Sequence[Table],
    names: Sequence[tuple[str, ...]],
    alignment: Alignment,
    *,
    absent_as_zero: bool = False,
) -> list[Shard]:
    """Build each party's shard of the common rows."""
    return [
        Shard(table.party, _pick(table.features(columns, absent_as_zero=absent_as_zero), rows), columns)
        for table, columns, rows in zip(tables, names, alignment.rows, strict=True)
    ]


def _pick(matrix: Matrix, rows: Rows) -> Matrix:
    """Return the rows in order; the matrix itself where that changes nothing."""
    if np.array_equal(rows, np.arange(matrix.shape[0])):
        return matrix
    return matrix[rows]
