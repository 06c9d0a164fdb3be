"""The certificate of noisy shares in words, and what its noise means for a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tacit.privacy import accountant
from tacit.privacy.certificate import OTHER_RUNS, Certificate, at_parties, at_several_parties, row_and_label, up
from tacit.privacy.claim import Claim, Target
from tacit.privacy.events import Event, GaussianRelease
from tacit.privacy.request import CLASSES, RANDOMIZED, SEEDED, Privacy
from tacit.topologies import FeatureSplit

THEOREM = "noisy shares (docs/proofs/shares.md, theorem 4)"
LABEL_THEOREM = "randomized response (docs/proofs/composition.md, theorem 4)"
INSIDERS = "the coordinator, all other parties together, and anyone else who sees the messages of the training"
SPLIT_THEOREM = "split noise (docs/proofs/shares.md, theorem 5)"
OUTSIDERS = "anyone who sees the messages of the training and holds none of the person's data"


def certificate(
    privacy: Privacy,
    layout: FeatureSplit,
    rounds: int,
    events: Mapping[str, Event],
    label: tuple[Event, ...],
    alone: float | None,
) -> Certificate:
    """What the planned run proves; `alone` is epsilon without the assumption of `Privacy.honest`, where it is made."""
    insiders, theorem = _some(privacy, layout), THEOREM if alone is None else SPLIT_THEOREM
    claims = [
        Claim("record", name, privacy.neighbours, _some(privacy, layout, name), (events[name],), theorem)
        for name in layout.parties
    ]
    if label:
        claims.append(Claim("label", layout.holder, privacy.neighbours, INSIDERS, label, LABEL_THEOREM))
    if privacy.unit == "person":
        together = (*(events[name] for name in layout.parties), *label)
        claims.append(Claim("person", "", privacy.neighbours, OUTSIDERS, together, THEOREM))
    said = f"in each of {rounds} rounds one number for each of {layout.rows} rows, with Gaussian noise"
    return Certificate(
        unit=privacy.unit,
        adversary=OUTSIDERS if privacy.unit == "person" else insiders,
        covers=_covers(privacy, bool(label), alone is not None),
        does_not_cover=(*_collusion(privacy, layout, alone), *_does_not_cover(privacy, claims, alone is not None)),
        per_party=dict.fromkeys(layout.parties, said),
        theorem=theorem,
        claims=tuple(claims),
        target=Target(privacy.epsilon, privacy.delta),
        assumptions=(*_honesty(privacy, alone), *_assumptions(privacy)),
    )


def _some(privacy: Privacy, layout: FeatureSplit, party: str = "") -> str:
    """From whom the rows of a party, or of every party, are protected; the coordinator is the label holder."""
    if (privacy.honest or 1) == 1:
        return INSIDERS
    rest = len(layout.parties) - (privacy.honest or 1)
    any_of = "any one other party" if rest == 1 else f"any {rest} other parties together"
    with_it = f"the coordinator together with at most {rest - 1} other part{'y' if rest == 2 else 'ies'}"
    with_it = with_it if rest > 1 else "the coordinator, or any one other party"
    who = {"": f"{with_it} (the label holder's rows: {any_of})", layout.holder: any_of}.get(party, with_it)
    return f"{who}, and anyone else who sees the messages of the training"


def _collusion(privacy: Privacy, layout: FeatureSplit, alone: float | None) -> tuple[str, ...]:
    if alone is None:
        return ()
    rest = len(layout.parties) - (privacy.honest or 1)
    return (
        f"{rest + 1} or more other parties that pool what they know: against all others together a row has the noise "
        f"of its own party alone, and epsilon {up(alone)} at delta {privacy.delta:g} ({THEOREM})",
    )


def _honesty(privacy: Privacy, alone: float | None) -> tuple[str, ...]:
    if alone is None:
        return ()
    return (
        f"at least {privacy.honest} parties, the protected one among them, do not pool what they know with the "
        f"coordinator or with others who do (honest={privacy.honest}): each adds 1/sqrt({privacy.honest}) of the noise",
        "epsilon rests on the masks too: without them, one party's answer would be seen with less noise",
    )


def _covers(privacy: Privacy, labels: bool, split: bool) -> tuple[str, ...]:
    whose = "one person's rows at all parties together" if privacy.unit == "person" else "the rows of every party"
    how = "the sum of all shares has the noise of several parties" if split else "each share leaves with noise"
    covered = [f"{whose}, the label holder's too, in the messages of the training: {how}"]
    if labels:
        covered.append(RANDOMIZED)
    return tuple(covered)


def _does_not_cover(privacy: Privacy, claims: Sequence[Claim], split: bool) -> tuple[str, ...]:
    rows = [claim for claim in claims if claim.unit == "record"]
    labels = [event for claim in claims if claim.unit == "label" for event in claim.events]
    missing = [
        "predictions: a party's scores are exact, and as many of them as it has columns give its coefficients away",
        "the model: each party's coefficients are an exact function of its rows, so they must stay with it",
        "the row that is asked about: each party's score of it is disclosed when it is predicted",
        "which rows took part, and how many: they are public here",
        OTHER_RUNS,
    ]
    if privacy.unit == "record":
        missing.extend(_at_all(rows, privacy.delta) if split else at_several_parties(rows, privacy.delta))
    if not labels:
        missing.insert(0, "the labels: the vector that is broadcast in every round gives each label away")
    else:
        missing.append(CLASSES)
        if privacy.unit == "record":
            worst = max(rows, key=lambda claim: claim.epsilon(privacy.delta))
            missing.extend(row_and_label(worst.events, labels, privacy.delta))
    return tuple(missing)


def _at_all(claims: Sequence[Claim], delta: float) -> tuple[str, ...]:
    """A person's rows at all parties, where only the sum of all shares is seen: all of them move that one sum."""
    events = [event for claim in claims for event in claim.events if isinstance(event, GaussianRelease)]
    one = replace(events[0], sensitivity=sum(event.sensitivity for event in events))
    return (at_parties(len(claims), accountant.epsilon(one, delta), delta),)


def _assumptions(privacy: Privacy) -> tuple[str, ...]:
    said = (
        "row_norm, coef_norm, and any scaling of the columns before, were chosen without looking at the rows",
        *(("each person has at most one row at a party",) if privacy.unit == "person" else ()),
        "the parties run this software; the random bits of their operating systems are not predictable",
        "each share was computed as exactly as planned, which no run stops for (docs/proofs/shares.md, section 3)",
    )
    return said if privacy.noise_seed is None else (SEEDED, *said)


def outlook(sd: float, bound: float, rounds: int) -> tuple[str, ...]:
    """How the noise of one row compares with what it is added to."""
    return (
        f"noisy shares are local differential privacy in disguise: each row pays for itself, with noise of {sd:.3g} "
        f"on each of its {rounds} shares, {sd / bound:.3g} times the largest share of {bound:.3g}; "
        "mechanism='gram' puts its noise on sums over all rows instead",
    )
