"""One claim of a certificate: a unit, an adversary, everything released about the unit, and the theorem behind it.

What is proven when k rows change together follows from the events that bound one row:

| event | of one row | of k rows |
|---|---|---|
| Gaussian | mu-GDP | k mu-GDP |
| pure, norm noise | epsilon | k epsilon |
| randomized response | one symbol of the row | k symbols, each with its own epsilon |
| bucketed response | mu-GDP, then one symbol | k mu-GDP, then k symbols |

Epsilon at a fixed delta grows faster than k: with Gaussian noise, 10 rows at epsilon 4 and delta 1e-5 have epsilon
81.41, not 40. The proof is docs/proofs/composition.md, theorem 8.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tacit.errors import InputError
from tacit.privacy import accountant
from tacit.privacy.accountant import Events
from tacit.privacy.events import (
    NEIGHBOURS,
    RELATED,
    UNITS,
    BucketedResponse,
    Composed,
    Event,
    GaussianRelease,
    NormRelease,
    NotPrivate,
    PureRelease,
    RandomizedResponse,
    from_record,
    leaves,
    to_record,
)
from tacit.records import (
    Record,
    as_choice,
    as_list,
    as_number,
    as_record,
    as_text,
    as_whole,
    at_least,
    check_names,
    plain,
    probability,
    show,
)

HELD_OUT = "held out"

# --- One claim of a certificate: a unit, an adversary, everything released about the unit, and the theorem behind it


@dataclass(frozen=True)
class Claim:
    """What is proven for one unit.

    Attributes
    ----------
    unit : str
        Whose data are protected: "record", "person", "label" or "column".
    party : str
        Where these data are held; empty for a unit whose data are held by several parties.
    neighbours : str
        What may change: "replace-one" or "zero-out".
    adversary : str
        From whom.
    events : tuple of events
        Everything that was released about the unit to this adversary.
    theorem : str
        Name of the theorem that gives the events their numbers.
    rows : {"", "held out"}
        Which rows it is about: those trained on, or those that were held out. A row is one or the other, so that claims
        about both hold beside each other, and what is released of a row is that of one of them.
    """

    unit: str
    party: str
    neighbours: str
    adversary: str
    events: tuple[Event, ...]
    theorem: str
    rows: str = ""

    def __post_init__(self) -> None:
        as_choice(self.rows, "rows", ("", HELD_OUT))
        related = RELATED[as_choice(self.unit, "unit", UNITS)]
        as_choice(self.neighbours, "neighbours", NEIGHBOURS)
        for name in ("party", "adversary", "theorem"):
            as_text(getattr(self, name), name)
        if not self.theorem.strip():
            raise InputError("theorem is empty: a claim names the theorem behind it, or it is not made")
        if not isinstance(self.events, tuple) or not self.events:
            raise InputError(f"events={show(self.events)} is not allowed: a claim lists everything that was released")
        for event in self.events:
            _check_event(event, self, related)

    def epsilon(self, delta: float) -> float:
        """Epsilon at `delta` of everything released about the unit."""
        return accountant.epsilon(self.events, delta)

    def delta(self, epsilon: float) -> float:
        """Delta at `epsilon` of everything released about the unit."""
        return accountant.delta(self.events, epsilon)

    def record(self, delta: float) -> Record:
        """The claim as plain values, with its epsilon at `delta`."""
        return {
            "unit": self.unit,
            "party": self.party,
            "neighbours": self.neighbours,
            "adversary": self.adversary,
            "theorem": self.theorem,
            **({"rows": self.rows} if self.rows else {}),
            "epsilon": plain(self.epsilon(delta)),
            "events": [to_record(event) for event in self.events],
        }


def _check_event(event: Event, claim: Claim, related: tuple[str, ...]) -> None:
    """A composition proves something about a unit only where every part of it bounds changes of that unit."""
    for leaf in leaves(event):
        if leaf.unit not in related:
            raise InputError(f"an event about a {leaf.unit} proves nothing for a {claim.unit}: claim it on its own")
        if leaf.neighbours != claim.neighbours:
            raise InputError(
                f"an event for neighbours {show(leaf.neighbours)} does not count for {show(claim.neighbours)}: "
                "state both for the same neighbours"
            )


def claim_from_record(value: object, where: str) -> Claim:
    """The claim that `Claim.record` wrote; its stated epsilon is checked for its form alone."""
    record = as_record(value, where)
    names = ("unit", "party", "neighbours", "adversary", "theorem", "epsilon", "events")
    check_names(record, where, (*names, "rows") if "rows" in record else names)
    at_least_or_infinite(record["epsilon"], f"{where}.epsilon")
    events = as_list(record["events"], f"{where}.events")
    values = {name: record[name] for name in ("unit", "party", "neighbours", "adversary", "theorem")}
    values["rows"] = record.get("rows", "")
    parsed = tuple(from_record(event, f"{where}.events[{i}]") for i, event in enumerate(events))
    try:
        return Claim(events=parsed, **values)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


def at_least_or_infinite(value: object, where: str) -> float:
    """A stated epsilon: a number from 0, or "infinity"."""
    number = as_number(value, where, infinite=True)
    return at_least(number, where, 0) if number < float("inf") else number


@dataclass(frozen=True)
class Target:
    """What was asked of the whole run: epsilon (None where only delta was fixed) at delta."""

    epsilon: float | None
    delta: float

    def __post_init__(self) -> None:
        probability(self.delta, "delta")
        if self.epsilon is not None:
            at_least(self.epsilon, "epsilon", 0)


def target_from_record(value: object) -> Target | None:
    """The target that was written; null where there was none."""
    if value is None:
        return None
    record = as_record(value, "target")
    check_names(record, "target", ("epsilon", "delta"))
    try:
        return Target(record["epsilon"], record["delta"])
    except InputError as error:
        raise InputError(f"target: {error}") from error


# --- Several rows at once: what is proven when k rows change together, from the events that bound one row


def group_epsilon(events: Events, delta: float, rows: int) -> float:
    """Epsilon at `delta` of the same releases, where `rows` rows of one party change together; rounded up."""
    return accountant.epsilon(group_events(events, rows), delta)


def group_events(events: Events, rows: int) -> tuple[Event, ...]:
    """Events that bound a change of `rows` rows, from those that bound a change of one.

    Parameters
    ----------
    events : event or iterable of events
        Everything that was released about one row.
    rows : int
        How many rows of the same party change together; 1 gives the events themselves.
    """
    as_whole(rows, "rows", 1)
    given = (events,) if isinstance(events, Event) else tuple(events)
    if rows == 1:
        return given
    return tuple(part for event in given for leaf in leaves(event) for part in _of_rows(leaf, rows))


def _of_rows(event: Event, rows: int) -> Iterable[Event]:
    if isinstance(event, GaussianRelease):
        return (replace(event, sensitivity=rows * event.sensitivity),)
    if isinstance(event, RandomizedResponse):
        return (event,) * rows
    if isinstance(event, BucketedResponse):
        return (replace(event, mu=rows * event.mu), *_responses(event, rows - 1))
    if isinstance(event, PureRelease):
        return (replace(event, epsilon=rows * event.epsilon),)
    if isinstance(event, NormRelease):  # its direction is uniform for one pair of data sets at a time
        return (_pure(event, rows * event.epsilon),)
    assert isinstance(event, NotPrivate)  # `leaves` lets nothing else through
    assert not isinstance(event, Composed)
    return (event,)


def _responses(event: BucketedResponse, count: int) -> tuple[Event, ...]:
    one = RandomizedResponse(
        event.epsilon,
        event.symbols,
        released=event.released,
        party=event.party,
        round=event.round,
        unit=event.unit,
        neighbours=event.neighbours,
    )
    return (one,) * count


def _pure(event: NormRelease, epsilon: float) -> PureRelease:
    return PureRelease(
        epsilon * (1 + 2**-52),
        event.count,
        released=event.released,
        party=event.party,
        round=event.round,
        unit=event.unit,
        neighbours=event.neighbours,
    )
