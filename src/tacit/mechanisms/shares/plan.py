"""Noisy shares: from what was asked and public sizes to noise, planned releases and a certificate.

Theorems: docs/proofs/shares.md. Nothing here depends on the data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tacit.errors import InputError, RunError
from tacit.mechanisms.base import COORDINATOR, LABELS, LARGEST_NORM, Mechanism, MechanismRequest, PrivatePlan
from tacit.mechanisms.shares import SHARES, SharesSettings
from tacit.mechanisms.shares.sides import SHARE, sensitivity
from tacit.privacy import accountant
from tacit.privacy.aggregation import SHARE as SHARE_POINT
from tacit.privacy.calibration import Budget, budget_mu, calibrate, label_events
from tacit.privacy.certificate import OTHER_RUNS, Certificate, at_parties, at_several_parties, row_and_label, up
from tacit.privacy.claim import Claim, Target
from tacit.privacy.events import Event, GaussianRelease
from tacit.privacy.randomness import FARTHEST, grid_sensitivity, grid_step, sd_for
from tacit.privacy.releases import Allowed, AllowedResponse, Planned
from tacit.privacy.request import CLASSES, RANDOMIZED, SEEDED, Privacy
from tacit.topologies import FeatureSplit

# --- The certificate in words, and what its noise means for a row


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


# --- The plan


NOISY_ROUNDS = 3  # where noise exceeds the shares, more rounds add more noise than they take off the gap (measured)
LARGE_NOISE = 0.07  # variance that the noise of a single round leaves in a score, from which one round is best
CLEAR_ROUNDS = 30
SPLIT_STEPS = 2  # where noise is split between parties: a third step helps or harms, by the data (measured)
CLEAR_NOISE = 0.25  # of b: below it the coordinator uses the loss itself


class Shares(Mechanism[FeatureSplit]):
    """Noise on every row's share, in every round."""

    name = "shares"
    split = FeatureSplit.split
    summary = "noise on every row's share, in every round"
    covers_model = False
    model_stays_local = True
    hides_labels = False
    splits_noise = True

    def plan(self, request: MechanismRequest, layout: FeatureSplit) -> PrivatePlan:
        """Plan the mechanism; refuse what no theorem covers."""
        return _plan(self, request, layout)


def _plan(mechanism: Shares, request: MechanismRequest, layout: FeatureSplit) -> PrivatePlan:
    privacy = request.privacy
    _refuse(request, layout)
    norm = _one_norm(privacy, layout)
    whole = privacy.coef_norm * norm
    rounds, bound, sd = (_steps_and_noise if is_split(privacy) else _rounds_and_noise)(request, layout, whole)
    steps = rounds if is_split(privacy) else 1  # whose noise adds up at the coordinator
    noisy = _is_noisy(sd * math.sqrt(steps), whole, layout)
    settings = SharesSettings(row_norm=norm, bound=bound, quadratic=noisy, steps=is_split(privacy))
    releases: dict[str, tuple[Planned, ...]] = {name: (Allowed(SHARE, sd, rounds),) for name in layout.parties}
    if privacy.label_epsilon is not None:
        releases[COORDINATOR] = (AllowedResponse(LABELS, privacy.label_epsilon),)
    events = {name: _event(privacy, layout, bound, sd, rounds, name) for name in layout.parties}
    return PrivatePlan(
        privacy=privacy,
        mechanism=mechanism,
        solver=SHARES,
        settings=settings,
        releases=releases,
        certificate=certificate(privacy, layout, rounds, events, _label(privacy, layout), _alone(privacy, events, sd)),
        holder=layout.holder,
        rounds=rounds,
        noise={f"each of the {rounds} shares of a row": sd},
        outlook=outlook(sd, bound, rounds),
        honest=privacy.honest or 1,
    )


def is_split(privacy: Privacy) -> bool:
    """Whether the noise of several parties counts together."""
    return (privacy.honest or 1) > 1


def _refuse(request: MechanismRequest, layout: FeatureSplit) -> None:
    privacy, problem = request.privacy, request.problem
    loss, penalty = problem.loss, problem.regularizer.name
    reasons = (
        *_split_reasons(privacy, layout, secure=request.secure),
        (privacy.epsilon is None, "epsilon=None: shares need noise, so give epsilon, or leave the mechanism out"),
        (len(layout.parties) < 2, "one party only: with nobody to protect it from, leave privacy out"),
        (penalty != "l2", f'penalty={penalty!r}: the bound is proven for ridge within a ball, so give penalty="l2"'),
        (not loss.convex, f"loss={loss.name!r}: it is not convex, and noise would be larger than its bend"),
        (privacy.refit, "refit=True: it belongs to mechanism='gram', so leave it out"),
        (
            privacy.protect == "everyone" and privacy.label_epsilon is None,
            "protect='everyone' without label_epsilon: every broadcast gives the labels away, so give label_epsilon",
        ),
        (
            privacy.label_epsilon is not None and loss.task != "classification",
            f"label_epsilon with loss={loss.name!r}: labels of two classes alone are randomized, so leave it out",
        ),
    )
    for refused, reason in reasons:
        if refused:
            raise InputError(f"mechanism='shares' does not fit {reason}")


def _split_reasons(privacy: Privacy, layout: FeatureSplit, *, secure: bool) -> tuple[tuple[bool, str], ...]:
    honest, most = privacy.honest or 1, len(layout.parties) - 1
    return (
        (
            privacy.honest is not None and not secure,
            f"honest={honest} without masks, since each party's share is seen by itself then: "
            "give secure_aggregation=True, or leave honest out",
        ),
        (
            privacy.honest is not None and honest > most,
            f"honest={honest} with {most + 1} parties: the coordinator, which sees the sum, is one of them "
            f"and knows its own noise, so give at most {most}",
        ),
        (
            is_split(privacy) and privacy.unit == "person",
            f"honest={honest} with unit='person': the sum moves by the shares of all parties together then, as much "
            "as its noise grows, so leave honest out",
        ),
    )


def _one_norm(privacy: Privacy, layout: FeatureSplit) -> float:
    norms = {privacy.norm_of(name) for name in layout.parties}
    if len(norms) > 1:
        raise InputError(
            "mechanism='shares' does not fit row_norm by party: give one number, and scale the columns of a party"
        )
    norm = norms.pop()
    for name, value in (("row_norm", norm), ("coef_norm", privacy.coef_norm)):
        if not 1 / LARGEST_NORM <= value <= LARGEST_NORM:  # beyond, squares are rounded to nothing: the ball is lost
            raise InputError(
                f"mechanism='shares' does not fit {name}={value:g}: scale the columns so that one between "
                f"{1 / LARGEST_NORM:g} and {LARGEST_NORM:g} fits"
            )
    return norm


# --- how much noise ----------------------------------------------------------------------------------


def _steps_and_noise(request: MechanismRequest, layout: FeatureSplit, whole: float) -> tuple[int, float, float]:
    """Steps of equal length, whose sum is within the ball; the noise of each is what every party adds."""
    steps = min(request.max_rounds, SPLIT_STEPS)
    bound = whole / steps
    sd = _noise(request.privacy, layout, bound, steps)
    _refuse_rounding(sd, bound)
    return steps, bound, sd


def _refuse_rounding(sd: float, bound: float) -> None:
    """Split noise must reach the sum as it was drawn, unrounded by floats and masks (grid.md, theorem 3)."""
    step, largest = grid_step(sd), 1.01 * bound + (FARTHEST + 1) * sd
    if step < SHARE_POINT.step or largest > min(SHARE_POINT.bound, 2.0**53 * step):
        raise InputError(
            f"honest: noise of {sd:.3g} on shares up to {bound:.3g} would be rounded under masks: choose row_norm and "
            "coef_norm near 1 and a smaller epsilon, or leave honest out"
        )


def _rounds_and_noise(request: MechanismRequest, layout: FeatureSplit, bound: float) -> tuple[int, float, float]:
    """Many rounds where the noise stays small in them, few otherwise."""
    privacy = request.privacy
    rounds = min(request.max_rounds, CLEAR_ROUNDS)
    sd = _noise(privacy, layout, bound, rounds)
    if not _is_noisy(sd, bound, layout):
        return rounds, bound, sd
    once = _noise(privacy, layout, bound, 1)
    left = once**2 * sum(layout.columns) / layout.rows
    rounds = 1 if left > LARGE_NOISE else min(request.max_rounds, NOISY_ROUNDS)
    return rounds, bound, _noise(privacy, layout, bound, rounds)


def _is_noisy(sd: float, bound: float, layout: FeatureSplit) -> bool:
    return sd * math.sqrt(len(layout.parties)) > CLEAR_NOISE * bound


def _noise(privacy: Privacy, layout: FeatureSplit, bound: float, rounds: int) -> float:
    """Smallest deviation of one party's noise that the accountant which was asked for agrees to."""
    assert privacy.epsilon is not None
    beside = _label(privacy, layout) if privacy.unit == "person" else ()
    together = len(layout.parties) if privacy.unit == "person" else 1
    mu = budget_mu(privacy.epsilon, privacy.delta, beside) / math.sqrt(rounds * together)
    mu *= math.sqrt(privacy.honest or 1)  # of one party's noise by itself
    start = _deviation(mu, sensitivity(privacy.neighbours, bound), layout.rows)

    def events(sd: float) -> list[Event]:
        own = [_event(privacy, layout, bound, sd, rounds, name) for name in layout.parties[:together]]
        return [*own, *beside]

    refused = RunError(f"no noise could be proven to give epsilon={privacy.epsilon:g}: ask for another value")
    budget = Budget(privacy.epsilon, privacy.delta, privacy.accountant)
    return calibrate(events, budget, start, 1 + budget.step, otherwise=refused)


def _deviation(mu: float, size: float, rows: int) -> float:
    """Like `sd_for`, with the step of the grid that the answer really has, which may be half as large as it assumes."""
    safe = sd_for(mu, size, rows)
    closer = grid_sensitivity(size, safe, rows) / mu * (1 + 1e-15)
    return closer if closer <= safe and grid_step(closer) <= grid_step(safe) else safe


# --- what is accounted -------------------------------------------------------------------------------


def _event(privacy: Privacy, layout: FeatureSplit, bound: float, sd: float, rounds: int, party: str) -> GaussianRelease:
    """All shares of one party, the grid included; with the noise of all parties that are assumed to be honest."""
    return GaussianRelease(
        grid_sensitivity(sensitivity(privacy.neighbours, bound), sd, layout.rows),
        sd * math.sqrt(privacy.honest) * (1 - 1e-15) if privacy.honest and is_split(privacy) else sd,
        rounds,
        released="the share of every row",
        party=party,
        unit="record",
        neighbours=privacy.neighbours,
    )


def _alone(privacy: Privacy, events: Mapping[str, GaussianRelease], sd: float) -> float | None:
    """Epsilon of a row where only its own party's noise counts, if that is less than what was planned with."""
    if not is_split(privacy):
        return None
    return max(accountant.epsilon([replace(event, noise=sd)], privacy.delta) for event in events.values())


def _label(privacy: Privacy, layout: FeatureSplit) -> tuple[Event, ...]:
    """The randomized label; its bound holds for every other label, so for either kind of neighbours."""
    return tuple(
        replace(event, neighbours=privacy.neighbours)
        for event in label_events(privacy.label_epsilon, "person", layout.holder)
    )
