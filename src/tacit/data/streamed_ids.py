"""Match rows by whole-number ids of one party after the other, with a few numbers per row in memory.

The rows keep the order of the first file; of each other file it is said where each of its rows goes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tacit.data.align import Counts
from tacit.data.wording import listing, plural, show
from tacit.errors import InputError

Ids = npt.NDArray[np.int64]


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
    first, others = parties[0], parties[1:]
    base = _Base(first, read(first))
    for party in others:
        base.keep_only(party, read(party))
    kept = base.count()
    if kept == 0:
        raise InputError("no id is held by every party: check that the id columns mean the same")
    rows = {first: base.places(), **{party: base.places_of(party, read(party)) for party in others}}
    dropped = {party: base.lengths[party] - kept for party in parties}
    return Places(rows, Counts(kept, dropped))


class _Base:
    """The ids of the first party, sorted, and which of them every other party holds too."""

    def __init__(self, party: str, ids: Ids) -> None:
        self.party, self.ids = party, ids
        self.order: Ids | None = None  # made where another party's order differs
        self.held: npt.NDArray[np.bool_] | None = None  # by row; None while all are held
        self.lengths = {party: ids.size}
        if not np.all(ids[1:] > ids[:-1]):
            _refuse_repeated(party, np.sort(ids))

    def keep_only(self, party: str, ids: Ids) -> None:
        """Drop the rows that a party lacks."""
        self.lengths[party] = ids.size
        if self._is_same(ids):
            return
        ids.sort()
        _refuse_repeated(party, ids)
        sorted_ids = self._sorted()
        found = _found(ids, sorted_ids)
        if not found.all():
            held = np.empty(self.ids.size, dtype=np.bool_)
            held[self.order] = found
            self.held = held if self.held is None else self.held & held

    def count(self) -> int:
        """Rows that every party holds."""
        return int(self.ids.size if self.held is None else np.count_nonzero(self.held))

    def places(self) -> Ids | None:
        """Where the first party's own rows go."""
        if self.held is None:
            return None
        places = np.cumsum(self.held, dtype=np.int64)
        places -= 1
        places[~self.held] = -1
        return places

    def places_of(self, party: str, ids: Ids) -> Ids | None:
        """Where another party's rows go."""
        own = self.places()
        if self._is_same(ids):
            return own
        order = np.argsort(ids)
        ids = ids[order]
        base_ids = self._sorted()
        assert self.order is not None
        at = np.searchsorted(base_ids, ids)
        np.minimum(at, base_ids.size - 1, out=at)
        known = base_ids[at] == ids
        target = self.order[at] if own is None else own[self.order[at]]
        places = np.empty(order.size, dtype=np.int64)
        places[order] = np.where(known, target, -1)
        return places

    def _is_same(self, ids: Ids) -> bool:
        return ids.size == self.ids.size and bool(np.array_equal(ids, self.ids))

    def _sorted(self) -> Ids:
        if self.order is None:
            self.order = np.argsort(self.ids)
        return self.ids[self.order]


def _found(sorted_ids: Ids, wanted: Ids) -> npt.NDArray[np.bool_]:
    at = np.searchsorted(sorted_ids, wanted)
    np.minimum(at, sorted_ids.size - 1, out=at)
    return np.asarray(sorted_ids[at] == wanted)


def _refuse_repeated(party: str, sorted_ids: Ids) -> None:
    again = sorted_ids[1:][sorted_ids[1:] == sorted_ids[:-1]]
    if again.size:
        repeated = np.unique(again)
        raise InputError(
            f"party {show(party)}: its id column has {plural(int(repeated.size), 'repeated id')}: "
            f"{listing(repeated[:3].tolist(), 3)}: keep one row for each id"
        )
