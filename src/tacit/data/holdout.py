"""Rows that are kept out of training, and folds: who is left out when.

The model can be tried on rows it has not seen. There are three ways to choose them:

- A part of the rows. How many is fixed by the number of rows. Which ones follows from ids (or positions) and the job's
  seed alone: never from features or labels, nor from the order of rows. Where one record is replaced by any other, the
  trained rows therefore differ in at most one record, and their number does not: what is proven for trained rows needs
  no other proof.
- Files of their own. What is trained on does not depend on them.
- By time: rows from a date (or number) on. Then the number of trained rows depends on the rows, and no proof holds:
  jobs with [privacy] refuse it.

The key of the first is the job's seed. Between organisations, where the job states no seed, it is made of fresh numbers
of all of them, to which each is bound before ids are matched (`CommonKey`): nobody chooses which rows are held out.
"""

from __future__ import annotations

import datetime
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.columns.table import ArrowTable, Table, number_cells
from tacit.errors import InputError
from tacit.problem.losses.base import bare_labels
from tacit.text import plural, show
from tacit.types import Shard, Vector

# --- Rows that are kept out of training, so that the model can be tried on rows it has not seen


Mask = npt.NDArray[np.bool_]
Key = int | str  # the job's seed, or the hexadecimal digits of a key that organisations made together
Rows = npt.NDArray[np.intp]
EPOCH = datetime.date(1970, 1, 1)


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Rows that were not trained on, and their labels as the loss wants them.

    Where the rows are split, the labels of all nodes follow each other.
    """

    shards: tuple[Shard, ...]
    labels: Vector

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(self.labels)


Moment = str | float  # a date such as "2024-01-01", or a number


@dataclass(frozen=True)
class Holdout:
    """Which rows are held out: a part of them, by a seed; or those from a date or number on."""

    part: float = 0.0
    seed: Key = 0
    after: Moment | None = None

    def held(self, table: Table, column: str | None, rows: Rows | None, ids: npt.NDArray[Any] | None) -> Mask | None:
        """Which rows are held out; None for none.

        Parameters
        ----------
        table : Table
            The file with the column of dates or numbers, where rows are held out by it.
        column : str or None
            This column.
        rows : array or None
            The rows of the table that are in question, in their order; None for all.
        ids : array or None
            One for each row in question.
        """
        if self.after is not None and column is not None:
            return late_rows(table, column, self.after, rows)
        count = table.n_rows if rows is None else len(rows)
        return held_rows(count, self.part, self.seed, ids) if self.part > 0 else None


def late_rows(table: Table, column: str, after: Moment, rows: Rows | None = None) -> Mask:
    """Which rows are from a date or number on, the day itself among them.

    Raises
    ------
    InputError
        For a blank, for a column of another kind, and where this holds out all rows or none.
    """
    table.require([column])
    if not isinstance(table, ArrowTable):
        raise InputError(f"party {show(table.party)}: a LIBSVM file has no column of dates: give CSV or Parquet")
    dates = isinstance(after, str)
    limit = float((datetime.date.fromisoformat(after) - EPOCH).days) if isinstance(after, str) else after
    cells = number_cells(table, column, days=dates)
    blank = np.flatnonzero(np.isnan(cells))
    if blank.size:
        raise InputError(
            f"party {show(table.party)}: column {show(column)} has {plural(blank.size, 'blank')}, the first in row "
            f"{blank[0] + 1}: holdout_after needs a {'date' if dates else 'number'} in every row"
        )
    late = np.asarray((cells if rows is None else cells[rows]) >= limit)
    if late.all() or not late.any():
        which = "after" if late.all() else "before"
        raise InputError(
            f"holdout_after = {show(after)} leaves nothing to {'train' if late.all() else 'evaluate'} on: every "
            f"{show(column)} of party {show(table.party)} is {which} it; choose another"
        )
    return late


def held_count(rows: int, part: float) -> int:
    """How many of so many rows are held out: at least one, and at least one is left to train on."""
    return min(max(1, round(part * rows)), rows - 1) if part > 0 else 0


def held_rows(rows: int, part: float, key: Key, ids: npt.NDArray[Any] | None = None) -> Mask:
    """Which rows are held out.

    Parameters
    ----------
    rows : int
        Number of rows.
    part : float
        Part of them to hold out.
    key : int or str
        The seed of the job, or a key that organisations made together: another one holds out other rows.
    ids : array or None
        One id for each row; without them a row is known by its position.
    """
    if ids is None:
        rank = np.random.default_rng(int(key, 16) if isinstance(key, str) else key).random(rows)
    else:
        rank = np.array([_rank(f"{key}/{id_}") for id_ in ids.tolist()], dtype=np.uint64)
    chosen = np.zeros(rows, dtype=np.bool_)
    chosen[np.argsort(rank, kind="stable")[: held_count(rows, part)]] = True
    return chosen


def set_aside(
    shards: Sequence[Shard], labels: Vector, held: Sequence[Mask], *, any_class: bool = False
) -> tuple[list[Shard], Vector, HeldOut]:
    """Cut shards and labels into what is trained on and what is held out.

    Parameters
    ----------
    shards : sequence of Shard
    labels : array
        One for each row, or those of all shards one after the other.
    held : sequence of masks
        One for each shard. Where the columns are split it is the same one, and the labels are cut by it.
    any_class : bool
        Whether labels of one class may be left, as others have labels too.

    Raises
    ------
    InputError
        Where only labels of one class would be left to train on.
    """
    mask = held[0] if len(labels) == len(held[0]) else np.concatenate(list(held))
    left = labels[~mask]
    kinds, kept = np.unique(bare_labels(labels)), np.unique(bare_labels(left))
    if not any_class and len(kinds) == 2 and len(kept) == 1:
        raise InputError("holdout leaves labels of one class only to train on: lower holdout, or change seed")
    trained = [cut_rows(shard, ~own) for shard, own in zip(shards, held, strict=True)]
    aside = tuple(cut_rows(shard, own) for shard, own in zip(shards, held, strict=True))
    return trained, left, HeldOut(aside, labels[mask])


def _rank(text: str) -> int:
    """A number that has nothing to do with the meaning of the text."""
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "big")


class CommonKey:
    """A key that several organisations make together so that none of them chooses it.

    Each draws a number and binds itself to it by a fingerprint, before ids are matched. Numbers are shown once all
    fingerprints are known, and each must fit its own. The key is a fingerprint of all numbers: whoever shows its number
    last cannot change it any more, and one honest organisation is enough for a key that nobody foresaw.
    """

    BYTES = 32

    @classmethod
    def draw(cls, owner: str) -> str:
        """A fresh number of its owner, as hexadecimal digits."""
        return os.urandom(cls.BYTES).hex()

    @staticmethod
    def bind(number: str) -> str:
        """The fingerprint that binds whoever drew a number to it."""
        return hashlib.sha256(f"holdout {number}".encode()).hexdigest()

    @classmethod
    def of(cls, numbers: Mapping[str, str], bound: Mapping[str, str]) -> str:
        """The key of all numbers, by organisation.

        Raises
        ------
        InputError
            Where a number is missing, or is not the one that its owner was bound to.
        """
        for name, fingerprint in bound.items():
            if cls.bind(numbers.get(name, "")) != fingerprint:
                raise InputError(f"the number of {name!r} for the holdout is not the one it was bound to")
        text = " ".join(f"{len(name)} {name} {numbers[name]}" for name in sorted(bound))
        return hashlib.sha256(f"holdout key {text}".encode()).hexdigest()


def cut_rows(shard: Shard, mask: Mask) -> Shard:
    """The rows of a shard that a mask has."""
    return replace(shard, features=shard.features[np.flatnonzero(mask)])


# --- Folds of rows: who is left out when, dealt out by a seed


Splits = list[tuple[Rows, Rows]]


def deal_folds(
    count: Any, rows: int, seed: int, kinds: npt.NDArray[Any] | None = None, *, name: str = "folds"
) -> Splits:
    """Rows to train on and rows to test on, for each fold; every row is tested on once.

    Parameters
    ----------
    count : int
        How many folds.
    rows : int
    seed : int
        Of the permutation in which the rows are dealt out.
    kinds : array or None
        The class of each row: every fold gets its share of each, to within one row.
    name : str
        What users call the count.

    Raises
    ------
    InputError
        For a count that is no whole number of at least 2, or more than there are rows.
    """
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 2:
        raise InputError(f"{name}={count!r} is not allowed: it must be a whole number of at least 2")
    if count > rows:
        raise InputError(f"{name}={count} needs at least {count} rows: there are n_samples={rows}")
    order = np.random.RandomState(seed).permutation(rows)
    if kinds is not None:
        order = order[np.argsort(np.asarray(kinds)[order], kind="stable")]
    fold = np.empty(rows, dtype=np.intp)
    fold[order] = np.arange(rows) % int(count)
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(int(count))]
