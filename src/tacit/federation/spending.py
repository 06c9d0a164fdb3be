"""What a job would spend of one party's budget, by unit: from the claims of the plan that the party made itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tacit.plan.graph import GraphPlan
from tacit.plan.make import Plan
from tacit.privacy.claim import Claim
from tacit.privacy.events import UNITS, Event, NotPrivate, RandomizedResponse, leaves

Spending = Mapping[str, tuple[Event, ...]]

# Whose bound serves for a unit, the best first. A label is part of its record, and a person has one record at a party:
# of one party's own releases, what bounds the one bounds the other.
_SERVES = {
    "label": ("label", "record", "person"),
    "record": ("record", "person"),
    "person": ("person", "record"),
    "column": ("column",),
}


def events_of(plan: Plan | GraphPlan, party: str) -> dict[str, tuple[Event, ...]]:
    """Everything that the planned job releases about each unit of a party's data.

    A unit of which the plan proves nothing gets one event that says so, whose epsilon is infinite.

    Parameters
    ----------
    plan : Plan or GraphPlan
    party : str
        For the party with the labels this is what is released of them, too.
    """
    if plan.private is not None and plan.private.privacy.noise_seed is not None:
        reason = "the noise is made from a seed that everybody in the job knows"
        return {unit: _nothing(unit, party, reason) for unit in UNITS}
    claims = plan.certificate().claims
    if _gives_labels_away(plan, party) and not _labels(claims, party):
        reason = f"the labels of {party} are not randomized, and what is sent gives them away"
        rows = {unit: _nothing(unit, party, reason) for unit in UNITS if unit != "column"}
        return {**rows, "column": _of_unit(claims, "column", party)}
    return {unit: _of_unit(claims, unit, party) for unit in UNITS}


def _gives_labels_away(plan: Plan | GraphPlan, party: str) -> bool:
    """Whether bounds for this party's rows leave its labels out: noise on shares hides no label."""
    return (
        isinstance(plan, Plan)
        and plan.private is not None
        and ((plan.private.mechanism, plan.private.holder) == ("shares", party))
    )


def _of_unit(claims: Sequence[Claim], unit: str, party: str) -> tuple[Event, ...]:
    for serving in _SERVES[unit]:
        found = _worst([own for claim in claims if claim.unit == serving and (own := _own(claim, party))])
        if serving == "person" and all(leaf.unit == "label" for leaf in found) and unit != "label":
            continue  # of a party whose rows are not protected, a claim about persons covers the labels alone
        if found:
            reads_label = unit == "label" or any(leaf.unit == "label" for leaf in found)
            # a bound for the row that leaves the label's own release out is completed by it
            return found if reads_label or unit == "column" else found + _labels(claims, party)
    return _nothing(unit, party, f"the job proves nothing for a {unit} of {party}")


def _own(claim: Claim, party: str) -> tuple[Event, ...]:
    """The events of a claim that are about this party's data."""
    if claim.party not in ("", party):
        return ()
    return tuple(leaf for event in claim.events for leaf in leaves(event) if leaf.party in ("", party))


def _labels(claims: Sequence[Claim], party: str) -> tuple[Event, ...]:
    return _worst([own for claim in claims if claim.unit == "label" and (own := _own(claim, party))])


def _worst(found: Sequence[tuple[Event, ...]]) -> tuple[Event, ...]:
    """Of several claims about one kind of unit: labels with epsilons of their own, or else all of them together."""
    if len(found) > 1 and all(len(own) == 1 and isinstance(own[0], RandomizedResponse) for own in found):
        responses = [own[0] for own in found if isinstance(own[0], RandomizedResponse)]
        if len({event.symbols for event in responses}) == 1:  # the larger epsilon dominates the smaller
            return (max(responses, key=lambda event: event.epsilon),)
    return tuple(event for own in found for event in own)


def _nothing(unit: str, party: str, reason: str) -> tuple[Event, ...]:
    return (NotPrivate(reason, released="what the job sends", party=party, unit=unit),)
