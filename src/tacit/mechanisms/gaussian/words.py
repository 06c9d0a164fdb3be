"""The certificate of the private method of the sample split in words, and what the sizes say about its use."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tacit.mechanisms.base import MEASURES, UNMEASURED
from tacit.mechanisms.gaussian.settings import GaussianSettings
from tacit.privacy import accountant
from tacit.privacy.certificate import ASSUMED, NO_ROWS, OTHER_RUNS, Certificate, at_parties, up
from tacit.privacy.claim import Claim, Target
from tacit.privacy.events import Event, GaussianRelease
from tacit.privacy.request import SEEDED, Privacy
from tacit.problem.losses.base import Loss
from tacit.topologies import SampleSplit, mask_graph

THEOREMS = {
    "exact": "private consensus with exact local solves (docs/proofs/graph.md, theorem 3)",
    "gradient": "private gradients, each node with its own noise (docs/proofs/graph.md, theorem 4 with h = 1)",
    "masked": "private gradients, noise shared under masks (docs/proofs/graph.md, theorem 7)",
}
LARGE_NOISE = 0.15  # norm of the noise in the mean gradient, in units of a row: beyond it little is learnt
FEW = 9  # names that a sentence lists
SPREAD = 0.5  # of the derivative of a row: what chance adds to a mean gradient over k rows is SPREAD / sqrt(k)


def certificate(
    privacy: Privacy,
    settings: GaussianSettings,
    layout: SampleSplit,
    events: Mapping[str, tuple[GaussianRelease, ...]],
    honest: int,
) -> Certificate:
    """What the planned run proves."""
    adversary, theorem = _adversary(settings, layout, honest), THEOREMS["masked" if settings.masked else settings.form]
    claims = [Claim("record", name, "replace-one", adversary, own, theorem) for name, own in events.items()]
    if privacy.unit == "person":
        adversary += NO_ROWS
        claims.append(Claim("person", "", "replace-one", adversary, _together(settings, events), theorem))
    return Certificate(
        unit=privacy.unit,
        adversary=adversary,
        covers=(
            "rows and labels of every node: all that leaves it was made from them with noise, in all rounds together",
            "the trained model: it is made from released values only, so it may be published, and so may predictions",
        ),
        does_not_cover=_does_not_cover(privacy, settings, layout, events, honest),
        per_party=_per_party(settings, layout),
        theorem=theorem,
        claims=tuple(claims),
        target=Target(max(privacy.epsilon_of(name) for name in layout.graph.names), privacy.delta),
        assumptions=_assumptions(privacy, settings, layout, honest),
    )


def _together(settings: GaussianSettings, events: Mapping[str, tuple[GaussianRelease, ...]]) -> tuple[Event, ...]:
    """What a person with a row at every node pays; under masks all these rows move the same sum."""
    if not settings.masked:
        return tuple(event for own in events.values() for event in own)
    first = next(iter(events.values()))
    return tuple(replace(event, sensitivity=len(events) * event.sensitivity, party="") for event in first)


def _adversary(settings: GaussianSettings, layout: SampleSplit, honest: int) -> str:
    model = "and anyone who sees the model or predictions"
    if not settings.masked:
        return f"anyone who sees every message of the run, all other nodes together among them, {model}"
    others = layout.graph.nodes - honest
    who = "any one other node" if others == 1 else f"any {others} other nodes together"
    return f"{who}, anywhere in the graph and with every message of the run, {model}"


def _does_not_cover(
    privacy: Privacy,
    settings: GaussianSettings,
    layout: SampleSplit,
    events: Mapping[str, tuple[GaussianRelease, ...]],
    honest: int,
) -> tuple[str, ...]:
    missing = [
        "how many rows each node has: it is public here",
        "how long a node takes for a round",
        OTHER_RUNS,
    ]
    if privacy.unit == "record":
        together = accountant.epsilon(_together(settings, events), privacy.delta)
        missing.extend([at_parties(len(events), together, privacy.delta)] if len(events) > 1 else [])
    if settings.masked:
        missing.extend(_larger_coalitions(layout, events, honest, privacy.delta))
    return tuple(missing)


def _larger_coalitions(
    layout: SampleSplit, events: Mapping[str, tuple[GaussianRelease, ...]], honest: int, delta: float
) -> list[str]:
    """What is left against one node more than is allowed for, and at the worst cut (graph.md, theorem 7)."""
    names, own = layout.graph.names, next(iter(events.values()))
    partners, more = mask_graph(names, honest).neighbours(names[0]), len(names) - honest + 1
    said = []
    if more < len(partners):
        left = up(accountant.epsilon(_hidden_by(own, len(names) - more, honest), delta))
        said.append(f"{more} nodes that pool what they know: the noise of the others then gives epsilon {left}")
    alone = up(accountant.epsilon(_hidden_by(own, 1, honest), delta))
    who = "all others" if len(partners) == len(names) - 1 else f"the {len(partners) // 2} on either side in their order"
    said.append(
        f"the worst cut, the {len(partners)} nodes that share masks with one node ({who}: {_ends(partners)} for "
        f"{names[0]}), if they pool what they know: its own noise alone gives epsilon {alone}"
    )
    return said


def _ends(names: Sequence[str]) -> str:
    """The names, or of many the first and the last ones of both halves."""
    half = len(names) // 2
    if len(names) <= FEW:
        return ", ".join(names)
    return f"{names[0]} to {names[half - 1]}, {names[half]} to {names[-1]}"


def _hidden_by(events: Sequence[GaussianRelease], count: int, honest: int) -> list[GaussianRelease]:
    """The events where the noise of so many nodes hides a row, and not that of `honest`."""
    part = math.sqrt(count / honest) * (1 - 1e-15)
    return [replace(event, noise=event.noise * part) for event in events]


def _per_party(settings: GaussianSettings, layout: SampleSplit) -> dict[str, str]:
    count = settings.size
    centre = f"{settings.centre_size} sums over its rows, once, and " if settings.centred else ""
    what = "a model" if settings.form == "exact" else "a gradient"
    under = "" if not settings.masked else " (under masks: only the sum over the nodes can be read)"
    said = f"{centre}{what} of {count} numbers, {settings.rounds} times, all with noise{under}"
    return dict.fromkeys(layout.graph.names, said)


def _assumptions(privacy: Privacy, settings: GaussianSettings, layout: SampleSplit, honest: int) -> tuple[str, ...]:
    said = [
        "row_norm, label_norm, and any scaling of columns and labels before, were chosen without looking at the rows",
        "the nodes run this software; the random bits of their operating systems are not predictable",
    ]
    if privacy.unit == "person":
        said.append("each person has at most one row at a node")
    if settings.masked:
        said.append(
            f"at least {honest} of {layout.graph.nodes} nodes, that of the row among them, follow the protocol, add "
            "the noise they should, and do not pool what they know with others; the other nodes need not follow it, as "
            "what each node is told is bound into its masks"
        )
        said.extend(ASSUMED[1:])
    return (SEEDED, *said) if privacy.noise_seed is not None else tuple(said)


# --- is it worth it? -----------------------------------------------------------------------------------


def noise_level(settings: GaussianSettings) -> float:
    """Norm of the noise in the mean gradient, all rounds together, for rows of norm about 1."""
    return settings.noise * math.sqrt(settings.free)


def outlook(settings: GaussianSettings, layout: SampleSplit, loss: Loss) -> tuple[str, ...]:
    """What the sizes alone say about the use of the run."""
    level = noise_level(settings)
    worth = max(1, round((SPREAD / level) ** 2))
    largest = max(zip(layout.rows, layout.graph.names, strict=True))
    lines = [_level(level, layout), _alone(worth, *largest)]
    lines.append(f"{UNMEASURED}whether the joint model beats a node's own, which has no noise; {MEASURES}")
    if loss.name == "logistic":
        lines.append(
            "loss: exp(-m) for margins m >= 0, 1 - m below, in place of the logistic one; its scores are log odds too, "
            "and it needs less noise for the same curvature"
        )
    elif loss.name == "poisson":
        lines.append(
            f"loss: labels and means above label_norm = {settings.label_norm:g} count as {settings.label_norm:g}, so "
            "that a row's derivative has a bound; means up to it are fitted as by the Poisson loss"
        )
    elif loss.name in ("squared", "absolute"):
        lines.append(f"loss: linear for residuals beyond {settings.slope * settings.label_norm:g}, quadratic within")
    return tuple(lines)


def _level(level: float, layout: SampleSplit) -> str:
    said = f"noise level {level:.2g}, for rows as long as row_norm (for shorter rows it is larger)"
    if level > LARGE_NOISE:
        said += (
            f"; above {LARGE_NOISE:g}, as with these {layout.total} rows, this is large noise: raise epsilon, or use "
            "more rows, fewer columns or fewer nodes"
        )
    return said


def _alone(worth: int, rows: int, name: str) -> str:
    size = f"such noise is about as large as chance in a sample of {worth} rows"
    return f"{size}; {name}, which has most, has {rows} of its own"
