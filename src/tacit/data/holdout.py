"""Rows that are kept out of training, and folds: who is left out when.

The model can be tried on rows it has not seen. How many is fixed by the number of rows. Which ones follows from ids (or
positions) and the job's seed alone: never from features or labels, nor from the order of rows. Where one record is
replaced by any other, the trained rows therefore differ in at most one record, and their number does not: what is
proven for trained rows needs no other proof.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.errors import InputError
from tacit.problem.losses.rows import bare_labels
from tacit.types import Shard, Vector

# --- Rows that are kept out of training, so that the model can be tried on rows it has not seen


Mask = npt.NDArray[np.bool_]


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


@dataclass(frozen=True)
class Holdout:
    """Which part of the rows is held out, and by which seed."""

    part: float = 0.0
    seed: int = 0

    def trained(self, rows: int, ids: npt.NDArray[Any] | None) -> Mask | None:
        """Which of so many rows are trained on; None for all of them."""
        return ~held_rows(rows, self.part, self.seed, ids) if self.part > 0 else None


def held_count(rows: int, part: float) -> int:
    """How many of so many rows are held out: at least one, and at least one is left to train on."""
    return min(max(1, round(part * rows)), rows - 1) if part > 0 else 0


def held_rows(rows: int, part: float, seed: int, ids: npt.NDArray[Any] | None = None) -> Mask:
    """Which rows are held out.

    Parameters
    ----------
    rows : int
        Number of rows.
    part : float
        Part of them to hold out.
    seed : int
        Of the job: another one holds out other rows.
    ids : array or None
        One id for each row; without them a row is known by its position.
    """
    if ids is None:
        rank = np.random.default_rng(seed).random(rows)
    else:
        rank = np.array([_rank(f"{seed}/{id_}") for id_ in ids.tolist()], dtype=np.uint64)
    chosen = np.zeros(rows, dtype=np.bool_)
    chosen[np.argsort(rank, kind="stable")[: held_count(rows, part)]] = True
    return chosen


def set_aside(shards: Sequence[Shard], labels: Vector, held: Sequence[Mask]) -> tuple[list[Shard], Vector, HeldOut]:
    """Cut shards and labels into what is trained on and what is held out.

    Parameters
    ----------
    shards : sequence of Shard
    labels : array
        One for each row, or those of all shards one after the other.
    held : sequence of masks
        One for each shard. Where the columns are split it is the same one, and the labels are cut by it.

    Raises
    ------
    InputError
        Where only labels of one class would be left to train on.
    """
    mask = held[0] if len(labels) == len(held[0]) else np.concatenate(list(held))
    left = labels[~mask]
    if len(np.unique(bare_labels(labels))) == 2 and len(np.unique(bare_labels(left))) == 1:
        raise InputError("holdout leaves labels of one class only to train on: lower holdout, or change seed")
    trained = [_rows(shard, ~own) for shard, own in zip(shards, held, strict=True)]
    aside = tuple(_rows(shard, own) for shard, own in zip(shards, held, strict=True))
    return trained, left, HeldOut(aside, labels[mask])


def _rank(text: str) -> int:
    """A number that has nothing to do with the meaning of the text."""
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "big")


def _rows(shard: Shard, mask: Mask) -> Shard:
    return replace(shard, features=shard.features[np.flatnonzero(mask)])


# --- Folds of rows: who is left out when, dealt out by a seed


Rows = npt.NDArray[np.intp]
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
