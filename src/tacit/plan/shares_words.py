"""The certificate of noisy shares in words, and what its noise means for a row."""

from __future__ import annotations

from collections.abc import Mapping

from tacit.plan.private import Sizes
from tacit.privacy.certificate import Certificate
from tacit.privacy.claim import Claim, Target
from tacit.privacy.events import Event
from tacit.privacy.request import SEEDED, Privacy

THEOREM = "noisy shares (docs/proofs/shares.md, theorem 4)"
LABEL_THEOREM = "randomized response (docs/proofs/composition.md, theorem 4)"
INSIDERS = "the coordinator, all other parties together, and anyone else who sees the messages of the training"
OUTSIDERS = "anyone who sees the messages of the training and holds none of the person's data"


def certificate(
    privacy: Privacy, sizes: Sizes, rounds: int, events: Mapping[str, Event], label: tuple[Event, ...]
) -> Certificate:
    """What the planned run proves."""
    claims = [Claim("record", name, privacy.neighbours, INSIDERS, (events[name],), THEOREM) for name in sizes.parties]
    if label:
        claims.append(Claim("label", sizes.holder, privacy.neighbours, INSIDERS, label, LABEL_THEOREM))
    if privacy.unit == "person":
        together = (*(events[name] for name in sizes.parties), *label)
        claims.append(Claim("person", "", privacy.neighbours, OUTSIDERS, together, THEOREM))
    said = f"in each of {rounds} rounds one number for each of {sizes.rows} rows, with Gaussian noise"
    return Certificate(
        unit=privacy.unit,
        adversary=OUTSIDERS if privacy.unit == "person" else INSIDERS,
        covers=_covers(privacy, bool(label)),
        does_not_cover=_does_not_cover(privacy, bool(label)),
        per_party=dict.fromkeys(sizes.parties, said),
        theorem=THEOREM,
        claims=tuple(claims),
        target=Target(privacy.epsilon, privacy.delta),
        assumptions=_assumptions(privacy),
    )


def _covers(privacy: Privacy, labels: bool) -> tuple[str, ...]:
    whose = "one person's rows at all parties together" if privacy.unit == "person" else "the rows of every party"
    covered = [f"{whose}, the label holder's too, in the messages of the training: each share leaves with noise"]
    if labels:
        covered.append("the labels: each was randomized once, and the true ones entered nothing that is sent")
    return tuple(covered)


def _does_not_cover(privacy: Privacy, labels: bool) -> tuple[str, ...]:
    missing = [
        "predictions: a party's scores are exact, and as many of them as it has columns give its coefficients away",
        "the model: each party's coefficients are an exact function of its rows, so they must stay with it",
        "the row that is asked about: each party's score of it is disclosed when it is predicted",
        "which rows took part, and how many: they are public here",
        "other runs on the same data: each has its own epsilon, and they add up",
    ]
    if not labels:
        missing.insert(0, "the labels: the vector that is broadcast in every round gives each label away")
    elif privacy.unit == "record":
        missing.append("a row and its label together: the epsilon of the row and that of the label add up")
    return tuple(missing)


def _assumptions(privacy: Privacy) -> tuple[str, ...]:
    said = (
        "row_norm, coef_norm, and any scaling of the columns before, were chosen without looking at the rows",
        "each person has at most one row at a party",
        "the parties run this software; the random bits of their operating systems are not predictable",
        "no round was stopped because its share could not be certified: that it was would be seen",
    )
    return said if privacy.noise_seed is None else (SEEDED, *said)


def outlook(sd: float, bound: float, rounds: int) -> tuple[str, ...]:
    """How the noise of one row compares with what it is added to."""
    return (
        f"noisy shares are local differential privacy in disguise: each row pays for itself, with noise of {sd:.3g} "
        f"on each of its {rounds} shares, {sd / bound:.3g} times the largest share of {bound:.3g}; "
        "mechanism='gram' puts its noise on sums over all rows instead",
    )
