"""From the files of a sample split to one shard per node: different rows with the same columns."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.columns.constants import Encoding, Part, make_encoding
from tacit.columns.spec import ColumnSpec, EncodeRules, common_specs
from tacit.columns.table import ArrowTable, SparseTable, Table
from tacit.data.holdout import Holdout, Mask
from tacit.data.labels import RowValues, epsilon_column, file_labels, label_epsilons, read_row_values
from tacit.data.load import PartySpec, ordered, refuse_columns, stated_width, text_columns
from tacit.data.read import read_table
from tacit.errors import InputError
from tacit.text import listing, show
from tacit.types import Shard, Vector


@dataclass(frozen=True, eq=False)
class NodesData:
    """What a sample split trains on.

    Attributes
    ----------
    shards : list of Shard
        One per node, in the order of the job; all have the same columns in the same order.
    labels : list of arrays
        Each node's labels as in its file.
    epsilons : mapping of str to array
        By node, the epsilon at which each label was randomized before; empty where labels are as they are.
    ids : sequence of arrays or None
        Each node's ids as in its file; None for a node without an id column.
    encoding : Encoding or None
        How the columns of all nodes were encoded; None where they were not.
    held : sequence of masks or None
        Which rows of each node are held out; None for none.
    rows : sequence of RowValues
        What each node's rows have beside a label.
    """

    shards: list[Shard]
    labels: list[npt.NDArray[Any]]
    epsilons: Mapping[str, Vector] = field(default_factory=dict)
    ids: Sequence[npt.NDArray[Any] | None] = ()
    encoding: Encoding | None = None
    held: Sequence[Mask | None] = ()
    rows: Sequence[RowValues] = ()


def load_nodes(
    specs: Sequence[PartySpec],
    folder: str | os.PathLike[str] = ".",
    encode: EncodeRules | None = None,
    *,
    protected: bool = False,
    holdout: Holdout | None = None,
    stated: bool | None = None,
) -> NodesData:
    """Read and check what the nodes train on.

    Parameters
    ----------
    specs : sequence of PartySpec
        One per node, each with a label column. Id columns are left out.
    folder : path
        Folder that relative paths start from.
    encode : EncodeRules, optional
        How columns become numbers, the same for all nodes; by default they must be numbers, and stay as they are.
    protected : bool
        Whether no constant of the encoding may be taken from their rows.
    holdout : Holdout, optional
        Rows from which none is taken either, as they are not trained on.
    stated : bool, optional
        Whether the number of columns of a LIBSVM file must be stated; by default where rows are protected.

    Raises
    ------
    InputError
        For files or columns that cannot be used; the message names the party.
    """
    tables = read_nodes(specs, folder, protected=protected if stated is None else stated)
    pairs = list(zip(tables, specs, strict=True))
    epsilons = known_epsilons([label_epsilons(table, spec.label or "") for table, spec in pairs], specs)
    columns = node_columns(tables, specs)
    wide = isinstance(tables[0], SparseTable)
    labels = [file_labels(table.column(spec.label or ""), party=spec.name) for table, spec in pairs]
    more = [read_row_values(table, spec.row_columns) for table, spec in pairs]
    ids = [None if spec.id is None else table.column(spec.id) for table, spec in pairs]
    rule = holdout or Holdout()
    held = [rule.held(table, spec.holdout_column, None, own) for (table, spec), own in zip(pairs, ids, strict=True)]
    kept = [None if own is None else ~own for own in held]
    encoding = None if encode is None else node_encoding(tables, specs, columns, encode, kept, protected=protected)
    if encoding is not None:
        encoder = encoding.encoder
        shards = [Shard(table.party, encoder.matrix(table), encoder.names, encoder.curves) for table in tables]
        return NodesData(shards, labels, epsilons, ids, encoding, held, more)
    shards = [Shard(table.party, table.features(columns, absent_as_zero=wide), columns) for table in tables]
    return NodesData(shards, labels, epsilons, ids, None, held, more)


def read_nodes(specs: Sequence[PartySpec], folder: str | os.PathLike[str], *, protected: bool = False) -> list[Table]:
    """Read the files of all nodes; what one says to be a category is read as text at all."""
    paths = [Path(folder, spec.data) for spec in specs]
    text = tuple(sorted({name for spec, path in zip(specs, paths, strict=True) for name in text_columns(spec, path)}))
    tables = []
    for spec, path in zip(specs, paths, strict=True):
        width = stated_width(spec, path, protected=protected)
        tables.append(
            read_table(path, party=spec.name, id_column=spec.id, text_columns=text, width=width, style=spec.style)
        )
    return tables


def node_encoding(
    tables: Sequence[Table],
    specs: Sequence[PartySpec],
    columns: Sequence[str],
    encode: EncodeRules,
    kept: Sequence[Mask | None] = (),
    *,
    protected: bool,
) -> Encoding | None:
    """How the columns of all nodes are encoded: what one node says of a column holds for all; None for LIBSVM files."""
    if not all(isinstance(table, ArrowTable) for table in tables):
        for spec in specs:
            refuse_columns(spec.name, spec.known_columns(columns))
        return None
    masks = kept or [None] * len(tables)
    parts = [
        Part(table, None if mask is None else np.flatnonzero(mask))
        for table, mask in zip(tables, masks, strict=True)
        if isinstance(table, ArrowTable)
    ]
    return make_encoding(parts, columns, known_columns(specs, columns), encode, protected=protected)


def known_columns(specs: Sequence[PartySpec], names: Sequence[str]) -> tuple[ColumnSpec, ...]:
    """What is known of the columns that all nodes have: what one node says of a column holds for all."""
    return common_specs([(spec.name, spec.known_columns(names)) for spec in specs])


def known_epsilons(found: Sequence[Vector | None], specs: Sequence[PartySpec]) -> dict[str, Vector]:
    """The label epsilons of all nodes by name, or nothing; refused where some labels are randomized and some not."""
    known = {spec.name: own for own, spec in zip(found, specs, strict=True) if own is not None}
    plain = [spec.name for spec in specs if spec.name not in known]
    if known and plain:
        raise InputError(
            f"the labels of party {show(next(iter(known)))} were randomized beforehand, those of party "
            f"{show(plain[0])} were not: let the contributors of all parties run tacit randomize, or of none"
        )
    return known


def node_columns(tables: Sequence[Table], specs: Sequence[PartySpec]) -> tuple[str, ...]:
    """The features that all nodes have, sorted or as listed by the first; LIBSVM files go up to the widest."""
    own = [_features(table, spec) for table, spec in zip(tables, specs, strict=True)]
    if all(isinstance(table, SparseTable) for table in tables):
        return max(own, key=len) if all(spec.features is None for spec in specs) else _same(own, specs)
    if any(isinstance(table, SparseTable) for table in tables):
        raise InputError("some parties have LIBSVM files and some not: give all of them files of one kind")
    return _same(own, specs)


def _same(own: Sequence[tuple[str, ...]], specs: Sequence[PartySpec]) -> tuple[str, ...]:
    """Refuse other columns than those of the first party; another order is allowed."""
    first = specs[0]
    for names, spec in zip(own, specs, strict=True):
        missing = [name for name in own[0] if name not in set(names)]
        more = [name for name in names if name not in set(own[0])]
        if missing or more:
            lack, has = (spec, first) if missing else (first, spec)
            raise InputError(
                f"party {show(lack.name)} has no feature column {listing(missing or more, 3)}, which party "
                f"{show(has.name)} has: all parties need the same columns; add it, or list features in both"
            )
    return own[0]


def _features(table: Table, spec: PartySpec) -> tuple[str, ...]:
    """The columns that one node offers: those it lists, or all but its id, its label and the label's epsilon."""
    apart = list(spec.apart.values())
    table.require([*apart, *(spec.features or ())])
    epsilon = epsilon_column(spec.label or "")
    if epsilon in (spec.features or ()):
        raise InputError(f"party {show(spec.name)}: {show(epsilon)} is no feature: remove it from features")
    names = spec.features or ordered(table, table.default_features({*apart, epsilon}))
    if not names:
        raise InputError(f"party {show(spec.name)} has no feature columns: add columns, or leave the party out")
    return names
