"""One claim of a certificate: a unit, an adversary, everything released about the unit, and the theorem behind it."""

from __future__ import annotations

from dataclasses import dataclass

from tacit.errors import InputError
from tacit.privacy import accountant
from tacit.privacy.events import NEIGHBOURS, RELATED, UNITS, Event, from_record, leaves, to_record
from tacit.privacy.fields import (
    Record,
    as_choice,
    as_list,
    as_number,
    as_record,
    as_text,
    at_least,
    check_names,
    plain,
    probability,
    show,
)


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
    """

    unit: str
    party: str
    neighbours: str
    adversary: str
    events: tuple[Event, ...]
    theorem: str

    def __post_init__(self) -> None:
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
    check_names(record, where, ("unit", "party", "neighbours", "adversary", "theorem", "epsilon", "events"))
    at_least_or_infinite(record["epsilon"], f"{where}.epsilon")
    events = as_list(record["events"], f"{where}.events")
    values = {name: record[name] for name in ("unit", "party", "neighbours", "adversary", "theorem")}
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
