"""What users may hand over as X: one table that is split, or one table for each party, in a list or by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.checks import check_matrix
from tacit.data.partition import split_columns, take_columns
from tacit.data.wording import show
from tacit.errors import InputError
from tacit.types import Matrix, Shard


@dataclass(frozen=True)
class Layout:
    """Which columns belong to which party, in the order of the joint model."""

    columns: tuple[npt.NDArray[np.int64], ...]
    names: tuple[tuple[str, ...], ...]
    named: bool = False  # the names are the users' own, and not x0, x1, ...
    parties: tuple[str, ...] | None = None  # names of the parties, where they have any

    @property
    def party_names(self) -> tuple[str, ...]:
        """The parties' names; without any they are numbered from 1."""
        return self.parties or numbered(len(self.columns))

    @property
    def n_columns(self) -> int:
        """Columns of all parties."""
        return sum(len(part) for part in self.columns)


def numbered(count: int) -> tuple[str, ...]:
    """Names of parties that were given none."""
    return tuple(f"party {k}" for k in range(1, count + 1))


def names_of(X: Any) -> tuple[str, ...] | None:
    """Names of the parties where X is a mapping of name to table; None where it is not.

    Raises
    ------
    InputError
        For a mapping that is not one of names to tables.
    """
    if not isinstance(X, Mapping) or hasattr(X, "shape"):  # some of scipy's sparse matrices are mappings, too
        return None
    if not X:
        raise InputError("X is an empty mapping: give the table of at least one party, such as {'bank': A, 'shop': B}")
    for name, table in X.items():
        if not isinstance(name, str) or not name:
            raise InputError(f"X has the key {show(name)}: keys are names of parties, such as {{'bank': A, 'shop': B}}")
        if len(getattr(table, "shape", ())) != 2:
            raise InputError(f"X[{name!r}] is no table of rows and columns: give an array or a frame of two dimensions")
    return tuple(X)


def in_order(given: Any, names: Sequence[str], what: str = "X") -> Any:
    """The values of a mapping in the order of the parties; anything else as it is.

    Raises
    ------
    InputError
        Where the mapping names somebody else, or lacks somebody.
    """
    if not isinstance(given, Mapping):
        return given
    known = ", ".join(repr(name) for name in names)
    for name in given:
        if name not in names:
            raise InputError(f"{what} names {show(name)}, which is no party: the parties are {known}")
    missing = [name for name in names if name not in given]
    if missing:
        raise InputError(f"{what} says nothing about party {missing[0]!r}: give an entry for each of {known}")
    return [given[name] for name in names]


def is_block_list(X: Any) -> bool:
    """True for a list with one table per party (a list of rows is one table)."""
    return isinstance(X, list | tuple) and len(X) > 0 and all(len(getattr(block, "shape", ())) == 2 for block in X)


def column_names(table: Any, first: int = 0) -> tuple[str, ...]:
    """Names of a table's columns: a frame's own, or x0, x1, ..."""
    own = getattr(table, "columns", None)
    if own is not None:
        return tuple(str(name) for name in own)
    return tuple(f"x{first + j}" for j in range(table.shape[1]))


def layout_of_blocks(blocks: Sequence[Any], parties: tuple[str, ...] | None = None) -> Layout:
    """Each table is a party, by name perhaps; the joint model has their columns one after the other."""
    start, columns, names = 0, [], []
    for block in blocks:
        columns.append(np.arange(start, start + block.shape[1]))
        names.append(column_names(block, start))
        start += block.shape[1]
    return Layout(tuple(columns), tuple(names), all(hasattr(block, "columns") for block in blocks), parties)


def _check_order(blocks: Sequence[Any], names: Sequence[str]) -> None:
    """Refuse frames that hold the same rows in another order: rows are matched by position."""
    indexes = [getattr(block, "index", None) for block in blocks]
    first = indexes[0]
    for name, index in zip(names[1:], indexes[1:], strict=True):
        if first is None or index is None or index.equals(first):
            continue
        if len(index) == len(first) and index.sort_values().equals(first.sort_values()):
            raise InputError(
                f"{name} has the rows of {names[0]} in another order, as their indexes say: sort them alike "
                "(frame.loc[other.index]), or drop the indexes (reset_index(drop=True)) to match by position"
            )


def layout_of_table(names: tuple[str, ...], parties: Any, *, named: bool = False) -> Layout:
    """One table, cut as `parties` says: a number, sizes, or lists of column numbers or names."""
    columns = split_columns(len(names), _by_number(parties, names))
    return Layout(tuple(columns), tuple(tuple(names[j] for j in part) for part in columns), named)


def shards_of_blocks(blocks: Sequence[Any], layout: Layout) -> list[Shard]:
    """Check each party's table; all must have the same number of rows."""
    if len(blocks) != len(layout.columns):
        raise InputError(f"X has tables of {len(blocks)} parties: the model has {len(layout.columns)}")
    shards = []
    for name, block, columns in zip(layout.party_names, blocks, layout.names, strict=True):
        if block.shape[1] != len(columns) and columns:
            raise InputError(f"{name} has {block.shape[1]} columns: it had {len(columns)} when the model was fitted")
        if layout.named and hasattr(block, "columns"):
            _check_names(name, column_names(block), columns)
        shards.append(Shard(name, check_matrix(block, name, columns), columns))
    _check_rows(shards)
    _check_order(blocks, layout.party_names)
    return shards


def _check_names(party: str, found: tuple[str, ...], wanted: tuple[str, ...]) -> None:
    """Refuse columns of other names, or in another order, than the model was fitted with."""
    missing = [name for name in wanted if name not in found]
    if missing:
        raise InputError(f"{party} has no column {missing[0]!r}: give the columns that the model was fitted with")
    for at, (name, other) in enumerate(zip(wanted, found, strict=True)):
        if name != other:
            raise InputError(f"{party}: column {at} is {other!r}, it was {name!r} when fitted: keep the columns' order")


def shards_of_table(X: Matrix, layout: Layout) -> list[Shard]:
    """Cut one table; parties with contiguous columns of a dense table see views of it."""
    parts = zip(layout.party_names, layout.columns, layout.names, strict=True)
    return [Shard(name, check_matrix(take_columns(X, columns), name, names), names) for name, columns, names in parts]


def _by_number(parties: Any, names: tuple[str, ...]) -> Any:
    if not isinstance(parties, list | tuple) or not any(_has_text(part) for part in parties):
        return parties
    number = {name: j for j, name in enumerate(names)}
    result = []
    for k, part in enumerate(parties, start=1):
        unknown = [name for name in part if name not in number]
        if unknown:
            raise InputError(f"party {k}: X has no column {unknown[0]!r}: choose from its {len(names)} columns")
        result.append([number[name] for name in part])
    return result


def _has_text(part: Any) -> bool:
    return isinstance(part, list | tuple) and any(isinstance(name, str) for name in part)


def _check_rows(shards: Sequence[Shard]) -> None:
    counts = {shard.name: shard.features.shape[0] for shard in shards}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise InputError(
            f"the parties have different numbers of rows ({listed}): align them so that row i is the same sample "
            "at every party"
        )
