"""Who holds which rows: one table that is dealt out to nodes, or one table for each node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import column_or_1d

from tacit.checks import check_matrix
from tacit.data.wording import show
from tacit.errors import InputError
from tacit.estimators.blocks import column_names, numbered
from tacit.types import Matrix, Shard, Vector

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Groups:
    """Each node's rows, their labels as given, and their weights; in the order of the nodes."""

    tables: list[Matrix]
    labels: list[npt.NDArray[Any]]
    weights: list[Vector] | None

    @property
    def sizes(self) -> tuple[int, ...]:
        """Rows of each node."""
        return tuple(table.shape[0] for table in self.tables)

    def shards(self, names: Sequence[str], columns: tuple[str, ...]) -> list[Shard]:
        """The tables under the nodes' names."""
        return [Shard(name, table, columns) for name, table in zip(names, self.tables, strict=True)]


def deal_out(X: Matrix, y: npt.NDArray[Any], weights: Vector | None, parties: Any, rng: Any) -> Groups:
    """Deal the rows of one table out at random: to a number of nodes, or in groups of given sizes."""
    groups = split_rows(X.shape[0], parties, rng)
    own = None if weights is None else [weights[rows] for rows in groups]
    return Groups([X[rows] for rows in groups], [y[rows] for rows in groups], own)


def split_rows(n_rows: int, parties: Any, rng: Any) -> list[Rows]:
    """Which rows each node holds, at random.

    A number of parties above the number of rows gives as many nodes as there are rows.

    Raises
    ------
    InputError
        Where sizes do not add up, or a node would hold no row.
    """
    order = rng.permutation(n_rows).astype(np.int64)
    if _is_whole(parties):
        if parties < 1:
            raise InputError(f"parties={parties} is not allowed: it must be at least 1")
        return [np.sort(part) for part in np.array_split(order, min(int(parties), n_rows))]
    if isinstance(parties, str) or not hasattr(parties, "__len__") or not all(_is_whole(size) for size in parties):
        raise InputError(f"parties={show(parties)} is not allowed: give a number of parties, or a list of their sizes")
    sizes = [int(size) for size in parties]
    for number, size in enumerate(sizes, start=1):
        if size < 1:
            raise InputError(f"party {number} would hold {size} rows: each party needs at least 1")
    if sum(sizes) != n_rows:
        raise InputError(
            f"the sizes in parties={show(sizes)} sum to {sum(sizes)}: make them sum to {n_rows}, as X has {n_rows} rows"
        )
    return [np.sort(part) for part in np.split(order, np.cumsum(sizes)[:-1])]


def as_given(
    X: Sequence[Any], y: Any, weights: Any, names: tuple[str, ...] | None, parties: Sequence[str] | None = None
) -> Groups:
    """One table and one vector of labels for each node, checked; `names` are the columns where tables have them."""
    parties = parties or numbered(len(X))
    if not isinstance(y, list | tuple) or len(y) != len(X):
        raise InputError(f"X has tables of {len(X)} parties: give y as a list with the labels of each of them")
    if weights is not None and (not isinstance(weights, list | tuple) or len(weights) != len(X)):
        raise InputError(f"X has tables of {len(X)} parties: give sample_weight as a list, with one array for each")
    tables, labels = [], []
    for party, table, own in zip(parties, X, y, strict=True):
        _check_columns(party, table, parties[0], X[0])
        tables.append(check_matrix(table, party, names))
        labels.append(column_or_1d(own, warn=True))
        if len(labels[-1]) != table.shape[0]:
            raise InputError(f"{party} has {len(labels[-1])} labels for {table.shape[0]} rows: give one for each row")
    return Groups(tables, labels, None)


def _check_columns(party: str, table: Any, leader: str, first: Any) -> None:
    """Refuse other columns than those of the first party."""
    if table.shape[1] != first.shape[1]:
        raise InputError(
            f"{party} has {table.shape[1]} columns and {leader} has {first.shape[1]}: "
            "all parties must have the same columns, in the same order"
        )
    if hasattr(table, "columns") and hasattr(first, "columns"):
        for own, other in zip(column_names(table), column_names(first), strict=True):
            if own != other:
                raise InputError(
                    f"{party} has column {own!r} where {leader} has {other!r}: "
                    "all parties must have the same columns, in the same order"
                )


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool | np.bool_)
