"""The certificate of private sharing in Gram space in words, and what the sizes say about its use."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tacit.mechanisms.base import MEASURES, UNMEASURED
from tacit.mechanisms.gram.settings import FitSettings, GramSettings
from tacit.privacy.certificate import NO_ROWS, OTHER_RUNS, Certificate, at_several_parties, row_and_label
from tacit.privacy.claim import Claim, Target
from tacit.privacy.events import Event
from tacit.privacy.request import CLASSES, RANDOMIZED, SEEDED, Privacy
from tacit.topologies import FeatureSplit

THEOREM = "private sharing in Gram space (docs/proofs/gram.md, theorem 5)"
BOTH = "private fit, then a randomized symbol for each row (docs/proofs/gram.md, theorems 5 and 6)"
LABEL_THEOREM = "randomized response (docs/proofs/labels.md, theorem 1)"
LARGE_NOISE = 0.05  # of the mean gradient, in units of a row


def certificate(
    privacy: Privacy,
    settings: GramSettings,
    layout: FeatureSplit,
    events: Mapping[str, tuple[Event, ...]],
    holder_events: tuple[Event, ...],
) -> Certificate:
    """What the planned run proves."""
    everyone, labels = settings.response is not None, settings.label_epsilon is not None
    anyone = "anyone who sees what the run sends, the model, or predictions for other rows"
    insiders = "the other parties and anyone who sees what the run sends"
    holder_from = insiders if settings.own_exact else anyone
    theorem = BOTH if settings.refit is not None else THEOREM
    claims = [Claim("record", name, privacy.neighbours, anyone, events[name], theorem) for name in layout.others]
    if everyone:
        claims.append(Claim("record", layout.holder, privacy.neighbours, holder_from, holder_events, BOTH))
    elif labels:
        claims.append(Claim("label", layout.holder, "replace-one", holder_from, holder_events, LABEL_THEOREM))
    if privacy.unit == "person":
        claims.append(_person(privacy, layout, events, holder_events, holder_from if everyone or labels else anyone))
    return Certificate(
        unit=privacy.unit,
        adversary=_weakest(claims, privacy.unit, anyone),
        covers=_covers(privacy, settings, layout),
        does_not_cover=_does_not_cover(privacy, settings, layout, claims),
        per_party=_per_party(settings, layout),
        theorem=theorem,
        claims=tuple(claims),
        target=Target(privacy.epsilon, privacy.delta),
        assumptions=_assumptions(privacy, layout),
    )


def _weakest(claims: list[Claim], unit: str, anyone: str) -> str:
    """From whom every unit is protected: what is said of all of them must hold for each."""
    return next((claim.adversary for claim in claims if claim.unit == unit and claim.adversary != anyone), anyone)


def _person(
    privacy: Privacy,
    layout: FeatureSplit,
    events: Mapping[str, tuple[Event, ...]],
    holder_events: tuple[Event, ...],
    adversary: str,
) -> Claim:
    """One person's rows at all protected parties, and the label where it is protected."""
    together = tuple(event for name in layout.others for event in events[name]) + holder_events
    return Claim("person", "", privacy.neighbours, adversary + NO_ROWS, together, THEOREM)


def _covers(privacy: Privacy, settings: GramSettings, layout: FeatureSplit) -> tuple[str, ...]:
    bit = "" if settings.refit is None else ", and one randomized bit for each row"
    rows = [f"the rows of {_listed(layout.others)}: what each gives out is the outcome of one private fit{bit}"]
    if settings.response is not None:
        rows.append(f"the rows and labels of {layout.holder}: a private fit, and one randomized symbol for each row")
    elif settings.label_epsilon is not None:
        rows.append(RANDOMIZED)
    if settings.own_exact:
        rows.append(f"the parts of the model of {_listed(layout.others)}: they may be published")
    else:
        rows.append(
            "the parts of the model of the parties named above: they may be published, and so may scores computed from "
            "them for people who are not in the training data"
        )
    return tuple(rows)


def _does_not_cover(
    privacy: Privacy, settings: GramSettings, layout: FeatureSplit, claims: Sequence[Claim]
) -> tuple[str, ...]:
    missing = []
    if settings.response is None:
        missing.append(
            f"the rows of {layout.holder}: one score of each row is sent to the other parties, and its part of the "
            "model is exact"
        )
        if settings.label_epsilon is None:
            missing.append("the labels: they are sent to the other parties as they are")
    if settings.own_exact:
        missing.append(
            f"predictions seen by anyone but {layout.holder}: they use its own exact fit to its rows and true labels"
        )
    missing += [
        "the row that is asked about: each party's score of it is disclosed when it is predicted, also of a person in "
        "the training data",
        "which rows took part, and how many: they are public here",
        *((CLASSES,) if settings.response is not None or settings.label_epsilon is not None else ()),
        *_together(privacy, claims),
        OTHER_RUNS,
    ]
    return tuple(missing)


def _together(privacy: Privacy, claims: Sequence[Claim]) -> tuple[str, ...]:
    """What is larger than the unit, and the epsilon that holds for it."""
    if privacy.unit == "person":
        return ()
    at = privacy.delta
    rows = [claim for claim in claims if claim.unit == "record"]
    labels = [event for claim in claims if claim.unit == "label" for event in claim.events]
    worst = max(rows, key=lambda claim: claim.epsilon(at))
    return at_several_parties(claims, at) + (row_and_label(worst.events, labels, at) if labels else ())


def _per_party(settings: GramSettings, layout: FeatureSplit) -> dict[str, str]:
    fit = "the outcome of one private fit: coefficients, a centre, a radius, and a few sums, all with noise"
    said = f"{fit}; then one randomized bit for each of {layout.rows} rows" if settings.refit is not None else fit
    found = dict.fromkeys(layout.parties, said)
    if settings.response is not None:
        found[layout.holder] = f"{fit}; and one randomized symbol for each of {layout.rows} rows"
    else:
        labels = "randomized labels" if settings.label_epsilon is not None else "labels"
        found[layout.holder] = f"one score for each of {layout.rows} rows, without noise, and the {labels}"
    return found


def _assumptions(privacy: Privacy, layout: FeatureSplit) -> tuple[str, ...]:
    said = [
        "row_norm, and any scaling of the columns before, were chosen without looking at the protected rows",
        *(("each person has at most one row at a party",) if privacy.unit == "person" else ()),
        "the parties run this software; the random bits of their operating systems are not predictable",
    ]
    return (SEEDED, *said) if privacy.noise_seed is not None else tuple(said)


# --- is it worth it? ---------------------------------------------------------------------------------


def noise_level(fit: FitSettings, rows: int, columns: int) -> float:
    """Norm of the noise in a mean gradient, that of randomized labels included, for rows of norm 1."""
    return math.sqrt((fit.gradient_sd**2 / fit.steps * columns / rows + fit.label_noise) / rows)


def outlook(settings: GramSettings, layout: FeatureSplit) -> tuple[str, ...]:
    """What the sizes alone say about the noise. They do not tell who wins: that is measured, or not said.

    In trial runs on five public data sets with 500 to 24,000 rows, a level of at most 0.05 went with a joint model
    better than the label holder alone in 48 of 52 runs where row_norm was near the length of the rows, and in 34 of 52
    where it was 100 times as long; with protect="everyone" in 33 of 44 and in 2 of 44, and above 0.05 in none of 108.
    """
    levels = {name: noise_level(fit, layout.rows, layout.columns_of(name)) for name, fit in settings.fits.items()}
    bad = [name for name, level in levels.items() if level > LARGE_NOISE]
    said = f"noise level {max(levels.values()):.2g}, for rows as long as row_norm (for shorter rows it is larger)"
    if bad:
        said += (
            f"; above {LARGE_NOISE:g}, as at {_listed(bad)}, this is large noise: raise epsilon, or use more rows or "
            "fewer columns"
        )
    return (said, unmeasured(settings, layout))


def unmeasured(settings: GramSettings, layout: FeatureSplit) -> str:
    """That nobody knows yet who wins, and how to find out."""
    tells = "training estimates it from one more noisy sum of each protected party" if settings.checks else ""
    how = f"{tells}; {MEASURES}" if tells else f"nothing that this form of the run releases tells it; {MEASURES}"
    return f"{UNMEASURED}whether the joint model beats {layout.holder} alone; {how}"


def _listed(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1]
