"""Which attacks apply to a plan of the sample split, and what they find."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tacit.audit.attacks import AttackResult
from tacit.audit.auditor import AttackedClaim, Audit, Effort, GameResult, Observer, attack_rows, between, delta_of
from tacit.audit.graph import attacks
from tacit.audit.graph.attacks import density_ratios, drawn_rounds
from tacit.audit.graph.scene import is_paper, node_scenes, row_norm
from tacit.plan import Plan
from tacit.privacy.accountant import add_up
from tacit.privacy.claim import Claim

GAME_ROWS = (1, 12)
MOST_NODES = 4
LABELS = 20000


def audit_graph(plan: Plan, effort: Effort | None = None, observe: Observer | None = None) -> Audit:
    """Try to break what a plan of the sample split claims.

    Nodes that are planned alike are attacked once, and at most four kinds of them.

    Parameters
    ----------
    plan : Plan
    effort : Effort, optional
    observe : callable, optional
        Told what is going on, and which part of all is done.

    Returns
    -------
    Audit
        One finding for each attack that applies.
    """
    effort = effort or Effort()
    rng = np.random.default_rng(effort.seed)
    tell = observe or (lambda text, part: None)
    findings: list[AttackResult] = []
    games: list[GameResult] = []
    claims = list(attacked_claims(plan))
    for number, claim in enumerate(claims):
        tell_part = between(tell, number / len(claims), (number + 1) / len(claims))
        if claim.unit == "label":
            found = attacks.label_game(plan, claim, LABELS, rng)
            findings += [found] if found else []
            continue
        if not add_up(claim.events).reasons:
            lines, measured = _attack(plan, claim, effort, rng, tell_part)
            findings += lines
            games.append(measured)
        findings += _single_attacks(plan, claim, effort, rng)
    tell("done", 1.0)
    method = "none" if plan.private is None else plan.private.mechanism.name
    return Audit(plan.certificate(), method, tuple(findings), tuple(games))


def attacked_claims(plan: Plan) -> Iterator[Claim]:
    """Claims on rows or labels of one node, one for each kind of node."""
    if plan.private is None:
        return
    for unit in ("label", "record"):
        kinds: dict[object, Claim] = {}
        for claim in plan.certificate().claims:
            if claim.unit == unit and claim.party:
                kinds.setdefault(_kind(plan, claim), claim)
        yield from list(kinds.values())[:MOST_NODES]


def _kind(plan: Plan, claim: Claim) -> tuple[object, ...]:
    """What makes nodes alike: their noise, their numbers, and how many neighbours they have."""
    assert plan.private is not None
    if claim.unit == "label":
        return (add_up(claim.events).pure,)
    numbers = plan.private.settings.nodes[claim.party] if is_paper(plan) else None
    rows = plan.samples.rows_of(claim.party) if is_paper(plan) else 0
    return (plan.private.releases[claim.party], len(plan.graph.neighbours(claim.party)), numbers, rows)


def _attack(
    plan: Plan, claim: Claim, effort: Effort, rng: np.random.Generator, tell: Observer
) -> tuple[list[AttackResult], GameResult]:
    """The replayed neighbours and the guessing game of one claim on a node's rows."""
    name = claim.party
    game_scenes = node_scenes(plan, name, GAME_ROWS, far=True)
    attacked = AttackedClaim(claim, row_norm(plan, name), node_scenes(plan, name), game_scenes, responds=False)
    return attack_rows(attacked, delta_of(plan.certificate()), effort, rng, tell)


def _single_attacks(plan: Plan, claim: Claim, effort: Effort, rng: np.random.Generator) -> Iterator[AttackResult]:
    """Whatever else applies to the rows of a node."""
    if drawn_rounds(plan, claim.party):
        found = density_ratios(plan, claim, effort.pairs // 4, rng)
        for line in (attacks.judge_rounds(found, claim), attacks.judge_published(plan, found, claim)):
            if line is not None:
                yield line
    yield attacks.judge_model(plan, claim, rng)
    bounded = attacks.objective_noise(plan, claim.party, rng)
    if bounded is not None:
        yield bounded
