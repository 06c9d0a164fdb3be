"""The attacks that apply to a plan: what an insider reads off a run on generated rows."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from tacit.algorithms.base import PrivateAlgorithm
from tacit.algorithms.rows import RowClip
from tacit.audit import extraction, label_recovery, row_recovery
from tacit.audit.column_space import column_space_attack
from tacit.audit.probes import Watched, row_norm, scenes, watch
from tacit.audit.result import NO_VIOLATION, AttackResult, judged
from tacit.errors import RunError
from tacit.plan import Plan
from tacit.privacy.claim import Claim
from tacit.privacy.sums import add_up
from tacit.runtime.model import PartyModel
from tacit.types import Vector

WATCHED_ROWS = 1000
PUBLISHED = ("published", "published-inverse")


def row_claims(plan: Plan) -> Iterator[Claim]:
    """What is proven about the rows of one party."""
    if plan.private is None or not isinstance(plan.algorithm, PrivateAlgorithm):
        return
    for claim in plan.certificate().claims:
        if claim.unit == "record" and claim.party and not add_up(claim.events).reasons:
            yield claim


def covers_rows(plan: Plan, party: str) -> bool:
    """Whether anything is proven about the rows of a party."""
    return any(claim.party == party for claim in row_claims(plan))


def named_attacks(plan: Plan, rng: np.random.Generator, *, repeatable: bool = False) -> list[AttackResult]:
    """Run the plan once, with noise from the system or, to be repeated, from `rng`, and try on it whatever applies."""
    seen = watch(plan, WATCHED_ROWS, rng, repeatable=repeatable)
    findings = []
    if plan.problem.loss.task == "classification":
        findings.append(_labels(plan, seen))
    mechanism = "" if plan.private is None else plan.private.mechanism
    for name in plan.party_names:
        shares = seen.shares(name)
        if shares.shape[1]:
            findings.append(_rows(plan, seen, name, shares))
        if mechanism in PUBLISHED:
            findings.append(_column_space(plan, seen, name, shares, rng))
    findings += [_model(plan, part, rng) for part in seen.result.parties]
    return findings


def _labels(plan: Plan, seen: Watched) -> AttackResult:
    allowed = None
    for claim in plan.certificate().claims:
        whole = claim.unit == "record" and plan.private is not None and claim.party == plan.private.holder
        if (claim.unit == "label" or (whole and not seen_as_party(plan))) and not add_up(claim.events).reasons:
            allowed = (1 + claim.delta(0.0)) / 2
    found = label_recovery.seen_by_a_party(seen.inboxes)
    if found is None:
        claimed = "not covered" if allowed is None else label_recovery.at_most(allowed)
        return AttackResult(label_recovery.NAME, claimed, "nothing that is sent shows them", NO_VIOLATION)
    guesses, source = found
    return label_recovery.judge(guesses, seen.labels, allowed, source)


def seen_as_party(plan: Plan) -> bool:
    """Whether the label holder answers like every other party, so that a claim on its rows says nothing of labels."""
    return plan.private is not None and plan.private.holder in plan.asked_parties


def _rows(plan: Plan, seen: Watched, name: str, shares: Vector) -> AttackResult:
    rows = _as_multiplied(plan, next(np.asarray(shard.features) for shard in seen.shards if shard.name == name))
    if plan.problem.fit_intercept and not isinstance(plan.algorithm, PrivateAlgorithm):
        rows = rows - rows.mean(axis=0)  # ordinary methods multiply centred rows
    columns = rows.shape[1]
    covered = covers_rows(plan, name)
    found = row_recovery.recover(shares, rows)
    return row_recovery.judge(found, shares.shape[1], columns, name, covered=covered, masked=plan.secure)


def _column_space(plan: Plan, seen: Watched, name: str, shares: Vector, rng: np.random.Generator) -> AttackResult:
    """The published noise: project what was sent on the column spaces of two versions of the data."""
    rows = _as_multiplied(plan, next(np.asarray(shard.features) for shard in seen.shards if shard.name == name))
    other = rows.copy()
    other[:, 0] = rng.permutation(rows[:, 0])
    found = column_space_attack(shares.T, rows, other)
    right = found.certain and found.chosen == 0
    left = " and ".join(f"{value:.1e}" for value in found.residuals)
    covered = covers_rows(plan, name)
    said = f"{'told apart with certainty' if right else 'not told apart'}: {left} left over"
    return AttackResult(
        f"columns of {name}: column space",
        "covered" if covered else "not covered",
        said,
        judged(right, covered=covered),
        {"party": name, "residuals": list(found.residuals), "certain": found.certain},
    )


def _model(plan: Plan, part: PartyModel, rng: np.random.Generator) -> AttackResult:
    """Extraction, judged by whether the model is computed from releases alone."""
    covered = covers_rows(plan, part.name)
    said = any("prediction" in sentence or "part of the model" in sentence for sentence in _not_covered(plan, part))
    rows = extraction.chosen_rows(part.coef.size) if part.clip is None else _inside(part.clip, part.coef.size)
    return extraction.extract(
        part.score,
        part.linear_coef,
        party=part.name,
        private=covered and _moves(plan, part.name, rng) <= extraction.SAME,
        claimed=covered and not said,
        rows=rows,
    )


def _not_covered(plan: Plan, part: PartyModel) -> list[str]:
    """What the certificate says is not covered, of this party or of all."""
    names = [name for name in plan.party_names if name != part.name]
    said = plan.certificate().does_not_cover
    return [sentence for sentence in said if part.name in sentence or not any(name in sentence for name in names)]


def _moves(plan: Plan, name: str, rng: np.random.Generator) -> float:
    """How far a party's coefficients move when a row changes and all releases stay; infinite without releases."""
    if not isinstance(plan.algorithm, PrivateAlgorithm):
        return math.inf
    scene = scenes(plan, name, (60,))(rng)
    other = scene.held.with_row(0, -scene.held.rows[0])
    try:
        return scene.compare(scene.held, other, int(rng.integers(2**31))).model_moves
    except RunError:
        return math.inf


def _inside(clip: RowClip, columns: int) -> Vector:
    """Rows that are not clipped: near the centre, or as near to it as the norm allows."""
    centre = np.zeros(columns) if clip.centre is None else np.asarray(clip.centre)
    size = float(np.linalg.norm(centre))
    centre = centre * min(1.0, 0.9 * clip.norm / max(size, 1e-300))
    return extraction.chosen_rows(columns, 0.05 * min(clip.norm, clip.radius), centre)


def _as_multiplied(plan: Plan, rows: Vector) -> Vector:
    """Rows as a mechanism multiplies them: scaled down to the public norm where there is one."""
    if plan.private is None or not isinstance(plan.algorithm, PrivateAlgorithm):
        return rows
    norm = row_norm(plan, plan.party_names[0])
    return np.asarray(rows * np.minimum(1.0, norm / np.maximum(np.linalg.norm(rows, axis=1), 1e-300))[:, None])
