"""The ledger of a party: what it has released so far, in order; entries are added and never taken back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from tacit.errors import InputError
from tacit.privacy import accountant
from tacit.privacy.events import RELATED, UNITS, Event, NotPrivate, from_record, leaves, to_record
from tacit.privacy.fields import as_choice, as_list, as_text, as_whole, check_names, dump, load, show

FORMAT = 1


class Ledger:
    """What one party has spent.

    Parameters
    ----------
    party : str
        Its name; an event of another party is refused, one that names none becomes this party's.
    events : iterable of events
        What it has released before.
    """

    def __init__(self, party: str, events: Iterable[Event] = ()) -> None:
        self.party = as_text(party, "party")
        self._events: list[Event] = []
        for event in events:
            self.append(event)

    @property
    def events(self) -> tuple[Event, ...]:
        """Everything released so far, in order."""
        return tuple(self._events)

    def append(self, event: Event) -> None:
        """Record a release, before it leaves the party."""
        parts = tuple(leaves(event))  # refuses what no accountant knows
        for part in (event, *parts):
            if part.party not in ("", self.party):
                raise InputError(f"party={show(part.party)} has its own ledger: this one is {show(self.party)}'s")
        for part in parts:
            self._check_neighbours(part)
        self._events.append(event if event.party else replace(event, party=self.party))

    def _check_neighbours(self, part: Event) -> None:
        """Bounds for different neighbours do not add up."""
        first = next((leaf for event in self._events for leaf in leaves(event)), part)
        if part.neighbours != first.neighbours:
            raise InputError(
                f"neighbours={show(part.neighbours)} is not allowed in a ledger for {show(first.neighbours)}: "
                "bound every release for the same neighbours"
            )

    def about(self, unit: str) -> tuple[Event, ...]:
        """Everything released, as it counts for a unit; what has no bound for that unit counts as not private."""
        as_choice(unit, "unit", UNITS)
        return tuple(_as_counted(leaf, unit) for event in self._events for leaf in leaves(event))

    def spent(self, delta: float, unit: str = "record") -> float:
        """Epsilon at `delta` of everything released so far about a unit."""
        return accountant.epsilon(self.about(unit), delta)

    def delta(self, epsilon: float, unit: str = "record") -> float:
        """Delta at `epsilon` of everything released so far about a unit."""
        return accountant.delta(self.about(unit), epsilon)

    def totals(self, delta: float) -> dict[str, float]:
        """Epsilon at `delta` for every unit that a release was bounded for."""
        units = {leaf.unit for event in self._events for leaf in leaves(event)}
        return {unit: self.spent(delta, unit) for unit in UNITS if unit in units}

    def to_json(self) -> str:
        """The ledger as JSON."""
        return dump({"format": FORMAT, "party": self.party, "events": [to_record(event) for event in self._events]})

    @classmethod
    def from_json(cls, text: str | bytes) -> Ledger:
        """The ledger that `to_json` wrote; refuses, by name, what is missing, unknown or out of range."""
        record = load(text)
        check_names(record, "the ledger", ("format", "party", "events"))
        if as_whole(record["format"], "format", 1) != FORMAT:
            raise InputError(f"format={record['format']} is not known: this version reads format {FORMAT}")
        events = as_list(record["events"], "events")
        return cls(record["party"], [from_record(event, f"events[{i}]") for i, event in enumerate(events)])

    def __len__(self) -> int:
        return len(self._events)

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Ledger) and (self.party, self._events) == (other.party, other._events)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Ledger({self.party!r}, {len(self)} events)"


def _as_counted(leaf: Event, unit: str) -> Event:
    if leaf.unit in RELATED[unit]:
        return leaf
    return NotPrivate(f"{leaf.released or 'a release'} has a bound for a {leaf.unit}, none for a {unit}", unit=unit)
