"""Privacy events: what was released about one unit, as frozen records that an accountant can add up.

| event | what happened | proof |
|---|---|---|
| `GaussianRelease` | a value of bounded L2 sensitivity, with Gaussian noise on every coordinate | composition.md, 2 |
| `PureRelease` | any mechanism with a proven pure epsilon | composition.md, 4 |
| `NormRelease` | noise of density exp(-rate norm(e)), in an objective or on a value | composition.md, 4b |
| `RandomizedResponse` | one symbol out of k, kept with probability e^eps / (e^eps + k - 1) | composition.md, 5 |
| `BucketedResponse` | a mu-GDP release, then randomized response on a symbol computed from it | composition.md, 6 |
| `Composed` | several events, each of which may depend on what the earlier ones released | composition.md, 3 |
| `NotPrivate` | something left without a proven bound: epsilon is infinite | - |

The proofs are in docs/proofs/composition.md. An event's unit is the smallest unit whose data the mechanism reads:
a label mechanism reads the label and nothing else of the record, so that its event also counts for the record.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from tacit.errors import InputError
from tacit.records import (
    Record,
    as_choice,
    as_list,
    as_record,
    as_text,
    as_whole,
    at_least,
    check_names,
    positive,
    show,
)

UNITS = ("label", "record", "person", "column")
NEIGHBOURS = ("replace-one", "zero-out")
# A record holds its label, a person one record at each party. A bound for the larger change holds for the smaller; the
# change of the larger is composed of those of its parts. A change of a column is bounded by neither.
_OF_ROWS = ("label", "record", "person")
RELATED = {"label": _OF_ROWS, "record": _OF_ROWS, "person": _OF_ROWS, "column": ("column",)}
_DEEPEST = 20


@dataclass(frozen=True, kw_only=True)
class Event:
    """What every event records beside its numbers.

    Attributes
    ----------
    released : str
        What left the party, in words.
    party : str
        Whose data it was computed from.
    round : int or None
        When; None for something that is not tied to one round.
    unit : str
        Whose change the numbers bound: "label", "record", "person" or "column".
    neighbours : str
        "replace-one": the unit is replaced by any other; "zero-out": by zeros.
    """

    released: str = ""
    party: str = ""
    round: int | None = None
    unit: str = "record"
    neighbours: str = "replace-one"

    def __post_init__(self) -> None:
        as_text(self.released, "released")
        as_text(self.party, "party")
        if self.round is not None:
            as_whole(self.round, "round", 0)
        as_choice(self.unit, "unit", UNITS)
        as_choice(self.neighbours, "neighbours", NEIGHBOURS)


@dataclass(frozen=True)
class GaussianRelease(Event):
    """`count` releases of L2 sensitivity `sensitivity`, noise of standard deviation `noise` on every coordinate."""

    sensitivity: float
    noise: float
    count: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self.sensitivity, "sensitivity", 0)
        if self.noise == 0:
            raise InputError("noise=0 is not allowed: record a release without noise as NotPrivate")
        positive(self.noise, "noise")
        as_whole(self.count, "count", 1)

    @property
    def mu(self) -> float:
        """GDP parameter of one of the releases."""
        return self.sensitivity / self.noise if self.noise >= 1e-300 else math.inf


@dataclass(frozen=True)
class PureRelease(Event):
    """`count` runs of mechanisms that are each epsilon-DP."""

    epsilon: float
    count: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self.epsilon, "epsilon", 0)
        as_whole(self.count, "count", 1)


@dataclass(frozen=True)
class NormRelease(Event):
    """`count` releases whose density changes by at most e^(volume + change |u|), u a coordinate of a uniform direction.

    Attributes
    ----------
    change : float
        Rate of the noise times the distance by which a unit moves it.
    size : int
        Dimensions of the direction.
    volume : float
        Logarithm by which a unit changes the volume, where the noise is inside an objective.
    """

    change: float
    size: int
    volume: float = 0.0
    count: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self.change, "change")
        at_least(self.volume, "volume", 0)
        as_whole(self.size, "size", 1)
        as_whole(self.count, "count", 1)

    @property
    def epsilon(self) -> float:
        """Pure epsilon of one of the releases, rounded up."""
        return (self.change + self.volume) * (1 + 2**-52)


@dataclass(frozen=True)
class RandomizedResponse(Event):
    """One symbol out of `symbols`, kept with probability e^epsilon / (e^epsilon + symbols - 1), else another."""

    epsilon: float
    symbols: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self.epsilon, "epsilon", 0)
        as_whole(self.symbols, "symbols", 2)


@dataclass(frozen=True)
class BucketedResponse(Event):
    """A mu-GDP release, then one randomized symbol per row computed from that release and the row."""

    mu: float
    epsilon: float
    symbols: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self.mu, "mu", 0)
        at_least(self.epsilon, "epsilon", 0)
        as_whole(self.symbols, "symbols", 2)


@dataclass(frozen=True)
class Composed(Event):
    """Several events about the same unit; each may depend on what the earlier ones released."""

    events: tuple[Event, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.events, tuple) or not all(isinstance(event, Event) for event in self.events):
            raise InputError(f"events={show(self.events)} is not allowed: it must be a tuple of events")


@dataclass(frozen=True)
class NotPrivate(Event):
    """Something left without a proven bound; every total with it is infinite."""

    reason: str

    def __post_init__(self) -> None:
        super().__post_init__()
        as_text(self.reason, "reason")


KINDS: dict[str, type[Event]] = {
    "gaussian": GaussianRelease,
    "pure": PureRelease,
    "norm": NormRelease,
    "randomized-response": RandomizedResponse,
    "bucketed-response": BucketedResponse,
    "composed": Composed,
    "not-private": NotPrivate,
}
_NAMES = {kind: name for name, kind in KINDS.items()}
_COMMON = tuple(field.name for field in fields(Event))


def leaves(event: object) -> Iterator[Event]:
    """The events that `event` is made of; refuses what is no known event.

    Raises
    ------
    InputError
        For an object of any other type, also of a subclass: what is not understood is never left out of a total.
    """
    if type(event) is Composed:
        for part in event.events:
            yield from leaves(part)
    elif isinstance(event, Event) and type(event) in _NAMES:
        yield event
    else:
        kinds = ", ".join(kind.__name__ for kind in KINDS.values())
        raise InputError(f"{show(type(event).__name__)} is not a known privacy event: use one of {kinds}")


def to_record(event: Event) -> Record:
    """The event as plain values for JSON."""
    if type(event) not in _NAMES:
        raise InputError(f"{show(type(event).__name__)} is not a known privacy event: it cannot be written")
    record: Record = {"kind": _NAMES[type(event)]}
    for field in fields(event):
        value = getattr(event, field.name)
        record[field.name] = [to_record(part) for part in value] if field.name == "events" else value
    return record


def from_record(value: object, where: str = "event", depth: int = 0) -> Event:
    """The event that `to_record` wrote; a field that is missing, unknown or out of range is refused by its name."""
    record = as_record(value, where)
    if depth > _DEEPEST:
        raise InputError(f"{where} is nested more than {_DEEPEST} deep: give the events as one list")
    kind = KINDS[as_choice(record.get("kind"), f"{where}.kind", tuple(KINDS))]
    names = [field.name for field in fields(kind)]
    check_names(record, where, ["kind", *names])
    values: dict[str, Any] = {field.name: _as_float(record[field.name], field.type) for field in fields(kind)}
    if kind is Composed:
        parts = as_list(values["events"], f"{where}.events")
        values["events"] = tuple(from_record(part, f"{where}.events[{i}]", depth + 1) for i, part in enumerate(parts))
    try:
        return kind(**values)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


def _as_float(value: object, kind: object) -> object:
    """A very large whole number as a float where a float is wanted, since libraries cannot add it up."""
    if kind != "float" or not isinstance(value, int) or abs(value) <= 2**53:
        return value
    try:
        return float(value)
    except OverflowError:  # refused where the event is made
        return value
