"""Match rows by whole-number ids of one party after the other, with a few numbers per row in memory.

The rows keep the order of the first file; of each other file it is said where each of its rows goes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from tacit.data.align import Counts
from tacit.data.wording import listing, plural, show
from tacit.errors import InputError

Ids = npt.NDArray[Any]  # whole numbers


@dataclass(frozen=True, eq=False)
class Places:
    """Where the rows of each file go: an array by party, -1 for a row that is dropped; None where all rows stay."""

    rows: dict[str, Ids | None]
    counts: Counts


def match(parties: Sequence[str], read: Callable[[str], Ids]) -> Places:
    """Match the rows of all parties with those of the first; `read` gives the ids of one party.

    Raises
    ------
    InputError
        For repeated ids, or none in common.
    """
    base = _Base(parties[0], read(parties[0]))
    for party in parties[1:]:
        base.take_in(party, read)
    kept = base.count()
    if kept == 0:
        raise InputError("no id is held by every party: check that the id columns mean the same")
    return Places(base.places(), Counts(kept, {party: base.lengths[party] - kept for party in parties}))


class _Base:
    """The ids of the first party, sorted, and which of them every other party holds too."""

    def __init__(self, party: str, ids: Ids) -> None:
        self.ids, self.order = ids, _order(ids)
        _refuse_repeated(party, ids, self.order)
        self.held: npt.NDArray[np.bool_] | None = None  # by row; None while all are held
        self.lengths = {party: ids.size}
        self.rows: dict[str, Ids | None] = {party: None}  # by party, the row of the first file for each of its rows

    def take_in(self, party: str, read: Callable[[str], Ids]) -> None:
        """Find the rows of another party, and drop those that it lacks."""
        ids = read(party)
        self.lengths[party] = ids.size
        self.rows[party] = None
        if ids.size == self.ids.size and np.array_equal(ids, self.ids):
            return
        order = _order(ids)
        _refuse_repeated(party, ids, order)
        rows: Ids = np.full(ids.size, -1, dtype=np.int32 if self.ids.size < 2**31 else np.int64)
        self.rows[party] = rows
        if _merge(self.ids, self.order, ids, order, rows) < self.ids.size:
            held = np.zeros(self.ids.size, dtype=np.bool_)
            held[rows[rows >= 0]] = True
            self.held = held if self.held is None else self.held & held

    def count(self) -> int:
        """Rows that every party holds."""
        return int(self.ids.size if self.held is None else np.count_nonzero(self.held))

    def places(self) -> dict[str, Ids | None]:
        """Where the rows of every party go, once no more rows are dropped."""
        if self.held is None:
            return self.rows
        target = np.cumsum(self.held, dtype=np.int64)
        target -= 1
        target[~self.held] = -1
        for party, rows in self.rows.items():
            self.rows[party] = target if rows is None else np.where(rows < 0, -1, target[rows])
        return self.rows


def _order(ids: Ids) -> Ids:
    """The rows in the order of their ids."""
    return np.arange(ids.size) if np.all(ids[1:] > ids[:-1]) else np.argsort(ids)


def _refuse_repeated(party: str, ids: Ids, order: Ids) -> None:
    examples = np.zeros(3, dtype=np.int64)
    count = int(_repeated(ids, order, examples))
    if count:
        raise InputError(
            f"party {show(party)}: its id column has {plural(count, 'repeated id')}: "
            f"{listing(examples[:count].tolist(), 3)}: keep one row for each id"
        )


@njit(cache=True, nogil=True)  # pragma: no cover - compiled
def _repeated(ids, order, examples):  # type: ignore[no-untyped-def]
    """Count the ids that stand in more than one row, and note the first of them."""
    count = 0
    for i in range(1, order.size):
        again = ids[order[i]] == ids[order[i - 1]]
        if again and (i < 2 or ids[order[i - 2]] != ids[order[i]]):
            if count < examples.size:
                examples[count] = ids[order[i]]
            count += 1
    return count


@njit(cache=True, nogil=True)  # pragma: no cover - compiled
def _merge(base, base_order, ids, order, rows):  # type: ignore[no-untyped-def]
    """Write to `rows` which row of the base has the same id; returns how many were found."""
    i, j, found = 0, 0, 0
    while i < base_order.size and j < order.size:
        one, other = base[base_order[i]], ids[order[j]]
        if one == other:
            rows[order[j]] = base_order[i]
            found += 1
        i, j = i + (one <= other), j + (other <= one)
    return found
