"""What is known against the papers' methods, tried on a plan: their published claims, and models that stay at home."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tacit.audit.attacks import SAME_COEFFICIENT, AttackResult, judged
from tacit.audit.auditor import MOST_GAMES, judge_game, refutes
from tacit.audit.game import CONFIDENCE, SURE, Guesses, lower_bound
from tacit.audit.graph.replay import Objective
from tacit.audit.graph.rounds import RoundFinding, inside_last, paper_alpha
from tacit.audit.graph.scene import labels, node_scenes, small
from tacit.audit.scene import PartyData
from tacit.blocks.dense import Block
from tacit.mechanisms.perturbed import MODEL, PaperSettings
from tacit.mechanisms.perturbed.pdml import PdmlSettings, labels_at
from tacit.plan import Plan
from tacit.privacy.accountant import add_up
from tacit.privacy.claim import Claim
from tacit.privacy.releases import Planned, Releaser
from tacit.solvers.consensus.base import NodeData

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
