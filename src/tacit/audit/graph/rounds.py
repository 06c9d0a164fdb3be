"""Rounds whose noise has a density: the exact ratio of the densities of a model on neighbouring rows, round by round.

| symbol | meaning |
|---|---|
| alpha | what is claimed of one round: the logarithm of the ratio is at most alpha |
| zeta | of the noise that is planned |
| L, c1, b | bounds on the derivatives of the loss, and on the norm of a row |
| kappa | (B/C)(rho + 2 eta N + phi) |

Theorem 1 of docs/proofs/dynamic.md needs alpha = 2 zeta L b + ln(1 + c1 b^2/kappa). The paper prints zeta =
alpha_hat/(L b), so that it says zeta L b + 2 ln(1 + c1 b^2/kappa) of the same noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tacit.audit.graph.scene import (
    NodeScene,
    Transcript,
    lone_row,
    node_scenes,
    row_norm,
    scripted,
    size_of,
    small,
    still,
)
from tacit.audit.scene import PartyData, directed, other_label
from tacit.errors import RunError
from tacit.mechanisms.perturbed import NOISE, PaperSettings, at_round
from tacit.mechanisms.perturbed.primal import PrimalSettings
from tacit.plan import Plan
from tacit.privacy.claim import Claim
from tacit.privacy.events import NormRelease, NotPrivate, PureRelease, leaves
from tacit.privacy.releases import AllowedNormNoise, Planned
from tacit.types import Vector

ROUNDING = 1e-9
FAR = 1e3  # a model at which a row's slope is at its bound
ACROSS = 30.0  # norm of the noise that leads there, in units of the largest slope
ASIDE = 0.05


@dataclass(frozen=True)
class RoundFinding:
    """One round: what is claimed of it (None where nothing is), and the largest logarithm of a ratio that was found."""

    round: int
    claimed: float | None
    found: float
    kind: str

    @property
    def part(self) -> float:
        """The part of what is claimed that was used."""
        return 0.0 if self.claimed is None else self.found / self.claimed

    @property
    def holds(self) -> bool:
        """Whether what was found is within the claim."""
        return self.part <= 1 + ROUNDING


def drawn_rounds(plan: Plan, node: str) -> dict[int, float]:
    """By round: the rate of its noise, where that has a density."""
    assert plan.private is not None
    rates = {one.name: one.rate for one in plan.private.releases[node] if isinstance(one, AllowedNormNoise)}
    return {t: rates[at_round(NOISE, t)] for t in range(1, plan.private.rounds + 1) if at_round(NOISE, t) in rates}


def claimed_rounds(plan: Plan, claim: Claim) -> dict[int, float | None]:
    """By round: what a certificate claims of it. Larger claims belong to larger rates; a last round stands last."""
    rates = drawn_rounds(plan, claim.party)
    events = [leaf for event in claim.events for leaf in leaves(event)]
    drawn = [event for event in events if isinstance(event, PureRelease | NormRelease)]
    pure = [event.epsilon for event in drawn for _ in range(event.count)]
    last = inside_last(plan)
    found: dict[int, float | None] = {}
    if last in rates:
        unclaimed = any(isinstance(event, NotPrivate) for event in events)
        found[last] = None if unclaimed else pure.pop()
    others = sorted((rate, t) for t, rate in rates.items() if t != last)
    if len(others) != len(pure):
        raise RunError(f"{claim.party}: {len(pure)} rounds are claimed, and {len(others)} are planned with such noise")
    found |= {t: alpha for (_, t), alpha in zip(others, sorted(pure), strict=True)}
    return dict(sorted(found.items()))


def inside_last(plan: Plan) -> int:
    """The round of primal variable perturbation whose noise is inside the objective; 0 where there is none."""
    assert plan.private is not None
    settings = plan.private.settings
    return settings.rounds if isinstance(settings, PrimalSettings) and settings.last_dual else 0


def paper_alpha(plan: Plan, node: str, round_: int) -> float:
    """What the paper says of a round with noise inside the objective, from the noise that is planned for it."""
    assert plan.private is not None
    settings: PaperSettings = plan.private.settings
    numbers, loss = settings.nodes[node], plan.problem.loss
    degree, rows = len(plan.graph.neighbours(node)), plan.samples.rows_of(node)
    extra = numbers.extra[round_ - 1] if numbers.extra else 0.0
    kappa = rows / numbers.weight * (numbers.ridge + 2 * numbers.penalty * degree + extra)
    slope = drawn_rounds(plan, node)[round_] * loss.lipschitz * settings.row_norm
    return slope + 2 * math.log1p(loss.curvature * settings.row_norm**2 / kappa)


def density_ratios(
    plan: Plan, claim: Claim, pairs: int, rng: np.random.Generator, used: tuple[Planned, ...] | None = None
) -> list[RoundFinding]:
    """The largest logarithm of a ratio of densities that was found in each round.

    Parameters
    ----------
    plan : Plan
    claim : Claim
        On the rows of one node.
    pairs : int
        About how many pairs and transcripts to try.
    rng : Generator
    used : tuple of planned releases, optional
        The noise whose densities are compared, where it is not as planned.
    """
    claimed = claimed_rounds(plan, claim)
    worst = dict.fromkeys(claimed, (0.0, "none"))
    for kind, scene, first, second in _chosen(plan, claim.party, pairs, rng):
        if used is not None:
            scene.planned = scene.used = used
        costs = scene.compare(first, second, int(rng.integers(2**31))).cost.densities
        for t in worst:
            worst[t] = max(worst[t], (costs.get(at_round(NOISE, t), 0.0), kind))
    return [RoundFinding(t, claimed[t], *worst[t]) for t in claimed]


def _chosen(
    plan: Plan, node: str, pairs: int, rng: np.random.Generator
) -> Iterator[tuple[str, NodeScene, PartyData, PartyData]]:
    norm, tried = row_norm(plan, node), 0
    few = small(plan, node, 1)
    for _ in range(2):
        transcript = still(few, node, rng)
        held = _lone(few, node, 1.0)
        scene = transcript.scene(few, node, held)
        yield "nothing moves", scene, held, held.with_row(0, -held.rows[0])
    if few.samples.columns > 1 and few.graph.neighbours(node):
        yield from _aimed(few, node, norm)
    make = node_scenes(plan, node)
    while tried < pairs:
        scene = make(rng)
        other = other_label(plan, float(scene.held.labels[0]))
        for kind, row, label in directed(scene.held, norm, rng, other=other):
            yield kind, scene, scene.held, scene.held.with_row(0, row, label)
            tried += 1


def _lone(plan: Plan, node: str, first: float) -> PartyData:
    rows = np.zeros((plan.samples.rows_of(node), plan.samples.columns))
    rows[0] = lone_row(plan, node, first)
    return PartyData(rows, np.ones(len(rows)))


def _aimed(plan: Plan, node: str, norm: float) -> Iterator[tuple[str, NodeScene, PartyData, PartyData]]:
    """Rows whose slopes turn round completely, at a model far out, reached by noise along the change of the slope."""
    first = _lone(plan, node, -ASIDE)
    second = first.with_row(0, first.rows[0] * np.where(np.arange(plan.samples.columns) == 1, -1.0, 1.0))
    for sign in (1.0, -1.0):
        along = np.zeros(size_of(plan))
        along[1] = sign * ACROSS * plan.problem.loss.lipschitz * norm
        transcript = aim(plan, node, first, along)
        yield "aimed", transcript.scene(plan, node, first), first, second
        yield "aimed, the other way", transcript.scene(plan, node, first), second, first


def aim(plan: Plan, node: str, held: PartyData, along: Vector) -> Transcript:
    """Models of the neighbours with which the noise of every round but the first is `along`, on these rows.

    What all neighbours send, h, adds 2 eta N h (B/C) to the noise that a round needs to end where it should.
    """
    assert plan.private is not None
    settings, rounds = plan.private.settings, plan.private.rounds
    numbers, degree, zero = settings.nodes[node], len(plan.graph.neighbours(node)), np.zeros(size_of(plan))
    factor = 2 * numbers.penalty * degree * len(held.labels) / numbers.weight
    inside = inside_last(plan)
    far = zero.copy()
    far[0] = FAR / row_norm(plan, node)
    # in rounds of noise on the value nothing moves; the last one, inside the objective, is the one to aim at
    models = [far if inside in (0, t) else zero for t in range(1, rounds + 1)]
    script, heard = scripted(plan, node, models), [zero] * rounds
    for t in range(2, rounds + 1):
        if inside not in (0, t):
            continue
        noises = Transcript(tuple(heard), script).scene(plan, node, held).noises(held)
        heard[t - 2] = (along - noises[at_round(NOISE, t)]) / factor
    return Transcript(tuple(heard), script)
