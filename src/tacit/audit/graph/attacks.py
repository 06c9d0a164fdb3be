"""What is known against the papers' methods, tried on a plan: their published claims, and models that stay at home.

Rounds whose noise has a density: the exact ratio of the densities of a model on neighbouring rows, round by round.

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
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tacit.audit.attacks import SAME_COEFFICIENT, AttackResult, judged
from tacit.audit.auditor import MOST_GAMES, judge_game, refutes
from tacit.audit.game import CONFIDENCE, SURE, Guesses, lower_bound
from tacit.audit.graph.replay import Objective
from tacit.audit.graph.scene import (
    NodeScene,
    Transcript,
    labels,
    lone_row,
    node_scenes,
    row_norm,
    scripted,
    size_of,
    small,
    still,
)
from tacit.audit.scene import PartyData, directed, other_label
from tacit.blocks.dense import Block
from tacit.errors import RunError
from tacit.mechanisms.perturbed import MODEL, NOISE, PaperSettings, at_round
from tacit.mechanisms.perturbed.pdml import PdmlSettings, labels_at
from tacit.mechanisms.perturbed.primal import PrimalSettings
from tacit.plan import Plan
from tacit.privacy.accountant import add_up
from tacit.privacy.claim import Claim
from tacit.privacy.events import NormRelease, NotPrivate, PureRelease, leaves
from tacit.privacy.releases import AllowedNormNoise, Planned, Releaser
from tacit.solvers.consensus.base import NodeData
from tacit.types import Vector

# --- Rounds whose noise has a density


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


CANCELLED = 1e-6  # left over where the noise of an objective cancels, relative to what one round shows of it
PAIRS = 8


# --- one round ---------------------------------------------------------------------------------------


def judge_rounds(found: list[RoundFinding], claim: Claim) -> AttackResult | None:
    """The certificate's claims on single rounds, the worst of them; None where it makes none."""
    stated = [one for one in found if one.claimed is not None]
    if not stated:
        return None
    worst = max(stated, key=lambda one: one.part)
    return AttackResult(
        f"rows of {claim.party}: densities of a round",
        f"at most e^{worst.claimed:.4g} apart",
        f"e^{worst.found:.4g} in round {worst.round}, {worst.part:.3f} of it",
        judged(not all(one.holds for one in stated), covered=True),
        {"party": claim.party, "rounds": [_record(one) for one in stated], "worst_pair": worst.kind},
    )


def judge_published(plan: Plan, found: list[RoundFinding], claim: Claim) -> AttackResult | None:
    """What the paper says of rounds with noise inside the objective, against what was found in them."""
    assert plan.private is not None
    settings = plan.private.settings
    if not isinstance(settings, PaperSettings) or not settings.published:
        return None
    last = inside_last(plan)
    said = [
        replace(one, claimed=paper_alpha(plan, claim.party, one.round))
        for one in found
        if last == one.round or plan.private.mechanism.noise_in_objective
    ]
    if not said:
        return None
    worst = max(said, key=lambda one: one.part)
    own = next(one.claimed for one in found if one.round == worst.round)
    instead = "not private" if own is None else f"e^{own:.4g}"
    return AttackResult(
        f"rows of {claim.party}: the paper's claim on a round",
        f"e^{worst.claimed:.4g} (the paper); {instead} (the certificate)",
        f"e^{worst.found:.4g} in round {worst.round}, {worst.part:.3f} of what the paper says",
        judged(not worst.holds, covered=False),
        {"party": claim.party, "rounds": [_record(one) for one in said], "worst_pair": worst.kind},
    )


def _record(one: RoundFinding) -> dict[str, object]:
    return {"round": one.round, "claimed": one.claimed, "found": one.found, "worst_pair": one.kind}


# --- the model that a node keeps ---------------------------------------------------------------------


def judge_model(plan: Plan, claim: Claim, rng: np.random.Generator) -> AttackResult:
    """Whether a node's model moves with its rows although all releases stay as they are."""
    moves = 0.0
    for _ in range(PAIRS):
        scene = node_scenes(plan, claim.party)(rng)
        other = scene.held.with_row(0, -scene.held.rows[0])
        moves = max(moves, scene.compare(scene.held, other, int(rng.integers(2**31))).model_moves)
    covered = "model" in claim.adversary
    # published forms take their solves for exact, so that a model may differ by what a solve leaves
    most = 1e-6 if getattr(plan.private and plan.private.settings, "published", False) else SAME_COEFFICIENT
    moved = moves > most
    return AttackResult(
        f"rows of {claim.party}: its model",
        "made from releases alone" if covered else "not covered",
        f"moves by {moves:.1e} when a row does and the releases stay" if moved else "made from releases alone",
        judged(moved, covered=covered),
        {"party": claim.party, "moves": moves},
    )


# --- pdml --------------------------------------------------------------------------------------------


def label_game(
    plan: Plan, claim: Claim, rows: int, rng: np.random.Generator, used: tuple[Planned, ...] | None = None
) -> AttackResult | None:
    """Labels that are fair coins, and the labels that a node goes on with: each row is one run of a guessing game."""
    assert plan.private is not None
    sums = add_up(claim.events)
    name = labels_at(sums.pure)
    planned = plan.private.releases[claim.party] if used is None else used
    if claim.unit != "label" or not any(one.name == name for one in planned):
        return None
    settings = replace(plan.private.settings, label_epsilon=sums.pure, label_epsilons={})
    few = replace(plan, layout=replace(plan.samples, columns=1), private=replace(plan.private, settings=settings))
    for _ in range(MOST_GAMES):  # where the outcome is in doubt it is left, and played anew with more rows
        held = PartyData(rng.normal(size=(rows, 1)), np.where(rng.random(rows) < 0.5, 1.0, -1.0))
        side = _side(few, claim.party, held, Releaser(planned, claim.party, int(rng.integers(2**31))))
        side.step(1, {})
        guesses = Guesses(held.labels > 0, np.array(side.data.labels))
        sure, doubtful = (refutes(lower_bound(guesses, 0.0, part), claim) for part in (SURE, CONFIDENCE))
        if sure or not doubtful:
            break
        rows *= 2
    return replace(judge_game(guesses, claim, 0.0, 1.0), name=f"labels of {claim.party}: randomized labels")


def objective_noise(plan: Plan, node: str, rng: np.random.Generator) -> AttackResult | None:
    """Noise that is drawn once and put into every objective: gone from the difference of two rounds' gradients.

    The models are taken as they are solved, without the noise on them that the certificate counts on.
    """
    assert plan.private is not None
    settings = plan.private.settings
    if not isinstance(settings, PdmlSettings) or not settings.objective_noise:
        return None
    alone, together = differenced(plan, node, rng)
    return AttackResult(
        f"rows of {node}: noise in the objective",
        "nothing is claimed for it",
        f"in the gradient of one round {alone:.3g}, in the difference of two {together:.1e}",
        judged(together <= CANCELLED * alone, covered=False),
        {"party": node, "one_round": alone, "difference": together},
    )


def differenced(plan: Plan, node: str, rng: np.random.Generator) -> tuple[float, float]:
    """How far what neighbours compute is from the gradient of the rows: for one round, and for a difference of two.

    From a model and public numbers alone neighbours compute the gradient of all rows at it, up to the noise.
    """
    assert plan.private is not None
    few = small(plan, node, 12)
    count, names = few.samples.rows_of(node), few.graph.neighbours(node)
    held = PartyData(rng.normal(size=(count, few.samples.columns)), labels(few, count, rng))
    side = _side(few, node, held, Releaser(plan.private.releases[node], node, int(rng.integers(2**31))))
    apart = []
    for t in (1, 2):
        heard = {name: {MODEL: rng.normal(size=side.size)} for name in names} if t > 1 else {}
        own, others = side.released, sum((one[MODEL] for one in heard.values()), np.zeros(side.size))
        side.step(t, heard)
        objective = Objective.of(side, PartyData(held.rows, side.data.labels))
        objective = replace(objective, problem=replace(side.problem, loss=side.loss))
        linear = 2 * side.multiplier - side.numbers.penalty * (side.degree * own + others)
        apart.append(objective.gradient(side.model, t) + linear)
    return float(np.linalg.norm(apart[0])), float(np.linalg.norm(apart[0] - apart[1]))


def _side(plan: Plan, node: str, held: PartyData, release: Releaser) -> Any:
    """One node's side of the mechanism, without a run around it."""
    assert plan.private is not None
    data = NodeData(Block(held.rows), held.labels)
    return plan.consensus.make_node(plan.problem, plan.place(node), data, plan.private.settings, release)
