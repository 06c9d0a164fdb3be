"""Certificates of the papers' private methods, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tacit.plan.private import GraphSizes
from tacit.privacy.certificate import Certificate
from tacit.privacy.claim import Claim, Target
from tacit.privacy.events import Event
from tacit.privacy.request import SEEDED, Privacy
from tacit.privacy.scope import OTHER_RUNS, at_several_parties

OTHERS = "all other nodes together, and anyone else who sees the messages of the run or the models"
MESSAGES = "all other nodes together, and anyone else who sees the messages of the run"
ROWS = "row_norm, alpha, rho, and any scaling of the columns before, were chosen without looking at the rows"
SOFTWARE = "the nodes run this software; the random bits of their operating systems are not predictable"
ARITHMETIC = (
    "floating-point sums and products are rounded as IEEE 754 says, in any order (docs/proofs/gram.md, section 7)"
)
LAW = (
    "the noise of density exp(-zeta |e|) is drawn from numbers of 53 bits in floating point: its law is taken "
    "for exact up to rounding"
)
EXACT = "each round sends the exact minimiser, in real numbers: the published form says nothing about rounding"
GENERAL = (
    "which rows took part, and how many: they are public here",
    OTHER_RUNS,
)


def paper_certificate(
    privacy: Privacy,
    sizes: GraphSizes,
    claims: Sequence[Claim],
    *,
    rounds: int,
    theorem: str,
    said: str,
    covers: Iterable[str],
    missing: Iterable[str] = (),
    assumed: Iterable[str] = (),
    asked: bool = True,
    adversary: str = OTHERS,
    unit: str = "record",
) -> Certificate:
    """What the planned run proves; `said` is what the paper would have said of it."""
    seeded = () if privacy.noise_seed is None else (SEEDED,)
    sends = f"in each of {rounds} rounds a model of its own, {sizes.columns} coefficients, to "
    return Certificate(
        unit=unit,
        adversary=adversary,
        covers=tuple(covers),
        does_not_cover=(*missing, *GENERAL, *at_several_parties(claims, privacy.delta)),
        per_party={name: sends + (", ".join(sizes.graph.neighbours(name)) or "nobody") for name in sizes.graph.names},
        theorem=theorem,
        published_claim=said,
        claims=tuple(claims),
        target=Target(privacy.epsilon if asked else None, privacy.delta),
        assumptions=(*seeded, ROWS, *assumed, SOFTWARE),
    )


def record_claims(privacy: Privacy, events: Mapping[str, Sequence[Event]], theorem: str) -> list[Claim]:
    """One claim for each node."""
    return [Claim("record", name, privacy.neighbours, OTHERS, tuple(own), theorem) for name, own in events.items()]


def each_round(alphas: Mapping[str, Sequence[float]]) -> str:
    """alpha_p(t) in words."""
    parts = []
    for name, own in alphas.items():
        low, high = min(own), max(own)
        parts.append(f"{low:.4g} at {name}" if low == high else f"{low:.4g} to {high:.4g} at {name}")
    rounds = len(next(iter(alphas.values())))
    kinds = {tuple(own) for own in alphas.values()}
    if len(kinds) == 1 and len(set(next(iter(kinds)))) == 1:
        parts = [f"{next(iter(kinds))[0]:.4g} at every node"]
    return (
        f"dynamic differential privacy with alpha = {', '.join(parts)}, in each of {rounds} rounds on its own; "
        "it does not add the rounds up"
    )
