"""Which attacks apply to a plan, and what they find."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from tacit.audit import attacks
from tacit.audit.attacks import (
    AS_STATED,
    AT_95,
    AT_999,
    BROKEN,
    NO_VIOLATION,
    AttackResult,
    column_space_attack,
    judged,
)
from tacit.audit.game import CONFIDENCE, SURE, Game, Guesses, LowerBound, lower_bound
from tacit.audit.scene import (
    ClaimedPrivacy,
    RecordingEngine,
    Stage,
    WatchedRun,
    WorstPair,
    row_norm,
    scenes,
    search,
    watch,
)
from tacit.blocks.dense import RowClip
from tacit.columns.raw import RawTable
from tacit.errors import RunError
from tacit.plan import Plan
from tacit.privacy.accountant import add_up
from tacit.privacy.certificate import Certificate
from tacit.privacy.claim import Claim
from tacit.run.masking import unmask
from tacit.run.result import PartyModel
from tacit.run.star import Run
from tacit.solvers.boosting.settings import held_out
from tacit.types import Shard, Vector

# --- The attacks that apply to a plan: what an insider reads off a run on generated rows


WATCHED_ROWS = 1000


def row_claims(plan: Plan) -> Iterator[Claim]:
    """What is proven about the rows of one party."""
    if plan.private is None or not plan.solver.noisy:
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
    if plan.problem.loss.task == "classification" and plan.problem.loss.outputs == 1:
        findings.append(_labels(plan, seen))
    projected = plan.private is not None and plan.private.mechanism.noise_in_column_space
    for name in plan.party_names:
        shares = seen.shares(name)
        if shares.shape[1]:
            findings.append(_rows(plan, seen, name, shares))
        if projected:
            findings.append(_column_space(plan, seen, name, shares, rng))
    linear = [part for part in seen.result.model.parts if isinstance(part, PartyModel)]  # trees have no coefficients
    # of several classes the coefficients of each are read off its scores in the same way: the first stands for all
    return findings + [_model(plan, part if part.outputs == 1 else part.of_class(0), rng) for part in linear]


def _labels(plan: Plan, seen: WatchedRun) -> AttackResult:
    allowed = None
    for claim in plan.certificate().claims:
        whole = claim.unit == "record" and plan.private is not None and claim.party == plan.private.holder
        if (claim.unit == "label" or (whole and not seen_as_party(plan))) and not add_up(claim.events).reasons:
            allowed = (1 + claim.delta(0.0)) / 2
    found = attacks.seen_by_a_party(seen.inboxes)
    if found is None:
        claimed = "not covered" if allowed is None else attacks.at_most(allowed)
        return AttackResult(attacks.NAME, claimed, "nothing that is sent shows them", NO_VIOLATION)
    guesses, source = found
    return attacks.judge_labels(guesses, seen.labels[_told(plan, seen)], allowed, source)


def _told(plan: Plan, seen: WatchedRun) -> Any:
    """The rows whose labels are sent: all, or where every party grows trees those that these are grown on."""
    if plan.problem.trees is None or plan.fixed_rounds:
        return slice(None)
    return ~held_out(seen.labels.size, plan.problem.trees.validation_fraction, plan.problem.seed)


def seen_as_party(plan: Plan) -> bool:
    """Whether the label holder answers like every other party, so that a claim on its rows says nothing of labels."""
    return plan.private is not None and plan.private.holder in plan.asked_parties


def _rows(plan: Plan, seen: WatchedRun, name: str, shares: Vector) -> AttackResult:
    rows = _as_multiplied(plan, next(np.asarray(shard.features) for shard in seen.shards if shard.name == name))
    if plan.problem.fit_intercept and not plan.solver.noisy:
        rows = rows - rows.mean(axis=0)  # ordinary methods multiply centred rows
    columns = rows.shape[1]
    covered = covers_rows(plan, name)
    found = attacks.recover(shares, rows)
    return attacks.judge_rows(found, shares.shape[1], columns, name, covered=covered, masked=plan.secure)


def _column_space(plan: Plan, seen: WatchedRun, name: str, shares: Vector, rng: np.random.Generator) -> AttackResult:
    """The published noise: project what was sent on the column spaces of two versions of the data."""
    rows = _as_multiplied(plan, next(np.asarray(shard.features) for shard in seen.shards if shard.name == name))
    other = rows.copy()
    other[:, 0] = rng.permutation(rows[:, 0])
    found = column_space_attack(shares.T, rows, other)
    right = found.certain and found.chosen == 0
    left = " and ".join(f"{value:.1e}" for value in found.residuals)
    covered = covers_rows(plan, name)
    text = f"{'told apart with certainty' if right else 'not told apart'}: {left} left over"
    return AttackResult(
        f"columns of {name}: column space",
        "covered" if covered else "not covered",
        text,
        judged(right, covered=covered),
        {"party": name, "residuals": list(found.residuals), "certain": found.certain},
    )


def _model(plan: Plan, part: PartyModel, rng: np.random.Generator) -> AttackResult:
    """Extraction, judged by whether the model is computed from releases alone."""
    covered = covers_rows(plan, part.name)
    stated = any("prediction" in sentence or "part of the model" in sentence for sentence in _not_covered(plan, part))
    rows = attacks.chosen_rows(part.coef.size) if part.clip is None else _inside(part.clip, part.coef.size)
    return attacks.extract(
        part.score,
        part.linear_coef,
        party=part.name,
        private=covered and _moves(plan, part.name, rng) <= attacks.SAME_COEFFICIENT,
        claimed=covered and not stated,
        rows=rows,
    )


def _not_covered(plan: Plan, part: PartyModel) -> list[str]:
    """What the certificate says is not covered, of this party or of all."""
    names = [name for name in plan.party_names if name != part.name]
    sentences = plan.certificate().does_not_cover
    return [sentence for sentence in sentences if part.name in sentence or not any(name in sentence for name in names)]


def _moves(plan: Plan, name: str, rng: np.random.Generator) -> float:
    """How far a party's coefficients move when a row changes and all releases stay; infinite without releases."""
    if not plan.solver.noisy:
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
    return attacks.chosen_rows(columns, 0.05 * min(clip.norm, clip.radius), centre)


def _as_multiplied(plan: Plan, rows: Vector) -> Vector:
    """Rows as a mechanism multiplies them: scaled down to the public norm where there is one."""
    if plan.private is None or not plan.solver.noisy:
        return rows
    norm = row_norm(plan, plan.party_names[0])
    return np.asarray(rows * np.minimum(1.0, norm / np.maximum(np.linalg.norm(rows, axis=1), 1e-300))[:, None])


# --- Which attacks apply to a plan, and what they find


Observer = Callable[[str, float], None]
MOST_GAMES = 4
GAME_ROWS = (300,)  # with many rows the noisy model moves little, and every release tells as much as it can


@dataclass(frozen=True)
class Effort:
    """How hard to try.

    Attributes
    ----------
    pairs : int
        Pairs of neighbours to replay, for each protected party.
    runs : int
        Runs of the guessing game, for each protected party.
    seed : int or None
        Of everything random; None takes the operating system's, and no two audits are the same.
    workers : int
        Processes for the game.
    """

    pairs: int = 2000
    runs: int = 4000
    seed: int | None = None
    workers: int = 1


QUICK = Effort(pairs=300, runs=1000)


@dataclass(frozen=True)
class GameResult:
    """The guessing game of one party: what was claimed, what was seen."""

    party: str
    claim: Claim
    guesses: Guesses
    bound: LowerBound
    pair: WorstPair


@dataclass(frozen=True)
class Audit:
    """All that was tried on a plan, and what came of it."""

    certificate: Certificate
    mechanism: str
    findings: tuple[AttackResult, ...]
    games: tuple[GameResult, ...] = field(default=())

    @property
    def unbroken(self) -> bool:
        """Whether nothing that is claimed was found to be false."""
        return all(finding.verdict != BROKEN for finding in self.findings)


def audit(plan: Plan, effort: Effort | None = None, observe: Observer | None = None) -> Audit:
    """Try to break what a plan claims.

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
    claims = list(row_claims(plan))
    for number, claim in enumerate(claims):
        low, high = (0.9 * (number + step) / len(claims) for step in (0, 1))
        attack = AttackedClaim(
            claim, row_norm(plan, claim.party), scenes(plan, claim.party), scenes(plan, claim.party, GAME_ROWS)
        )
        line, measured = attack_rows(attack, delta_of(plan.certificate()), effort, rng, between(tell, low, high))
        findings += line
        games.append(measured)
    tell("attacks", 0.9)
    findings += named_attacks(plan, rng, repeatable=effort.seed is not None)
    tell("done", 1.0)
    mechanism = "none" if plan.private is None else plan.private.mechanism.name
    return Audit(plan.certificate(), mechanism, tuple(findings), tuple(games))


# --- trees without privacy: what the answers tell, on the job's own rows -------------------------------


KNOWN_PART = 0.1  # of the rows, whose cells the label holder is taken to know
MOST_TREE_COLUMNS = 20  # of each party


def audit_trees(
    plan: Plan, shards: Sequence[Shard], labels: Vector, effort: Effort | None = None, observe: Observer | None = None
) -> Audit:
    """Measure on a job's own rows what a run of trees without privacy tells.

    Nothing is claimed of cells, so nothing can be broken: the label holder, who knows a part of each other party's
    rows, guesses the cells of the rest from its own columns and the labels, and then with the answers.

    Parameters
    ----------
    plan : Plan
        Of trees; it is run as it is.
    shards, labels
        The rows of all parties, and the labels.
    effort : Effort, optional
        Its seed alone is used.
    observe : callable, optional
        Told what is going on, and which part of all is done.
    """
    tell = observe or (lambda text, part: None)
    tell("training", 0.0)
    sent, answers = listen_to_trees(plan, shards, labels)
    tables = {shard.name: cast("RawTable", shard.features) for shard in shards}
    own = [tables[name].values for name in tables if name not in plan.asked_parties]
    before = np.column_stack([*own, labels])
    seen = before, np.column_stack([before, *answers])
    rows = attacks.known_rows(len(labels), KNOWN_PART, np.random.default_rng((effort or Effort()).seed))
    findings = [_sent_labels(sent, len(labels))] if answers else []
    places = [(name, at) for name in plan.asked_parties for at in range(min(tables[name].d, MOST_TREE_COLUMNS))]
    for done, (name, at) in enumerate(places):
        table = tables[name]
        tell(f"cells of {name}", 0.2 + 0.8 * done / len(places))
        line = f"{table.columns[at]} of {name}: guessed"
        cells = np.asarray(table.values[:, at], dtype=np.float64)
        found = attacks.guess_cells(line, cells, seen, rows, category=at in table.categorical)
        findings.append(replace(found, details={"party": name, "column": table.columns[at], **found.details}))
    return Audit(plan.certificate(), "none", tuple(findings))


def listen_to_trees(plan: Plan, shards: Sequence[Shard], labels: Vector) -> tuple[Vector, list[Vector]]:
    """The labels that are sent in a run, and what the label holder reads in each round: answers, or sums of them."""
    run = Run(plan, shards, labels)
    engine = RecordingEngine(run.engine)
    run.engine = engine
    run.go()
    steps = [(said, heard) for said, heard in engine.exchanges if said.kind == "step" and heard]
    sent = steps[0][0].arrays["labels"] if steps else np.zeros(0)
    if plan.secure:
        return cast("Vector", sent), [unmask(heard, plan.asked_parties)["added"] for _, heard in steps]
    return cast("Vector", sent), [cast("Vector", one.arrays["added"]) for _, heard in steps for one in heard]


def _sent_labels(sent: Vector, rows: int) -> AttackResult:
    said = f"{len(sent)} of {rows} labels, as they are, go to every party"
    return AttackResult(attacks.NAME, "not covered", said, AS_STATED, {"labels": len(sent), "rows": rows})


# --- rows: replay and game ----------------------------------------------------------------------------


@dataclass(frozen=True)
class AttackedClaim:
    """A claim on the rows of one party or node, and where it is attacked.

    Attributes
    ----------
    claim : Claim
    row_norm : float
    scenes, game_scenes : callable
        Makers of scenes for the replay, and for the guessing game.
    responds : bool
        Whether discrete events of the claim are randomized responses; otherwise they are noise with a density.
    """

    claim: Claim
    row_norm: float
    scenes: Callable[[np.random.Generator], Stage]
    game_scenes: Callable[[np.random.Generator], Stage]
    responds: bool = True


def attack_rows(
    attacked: AttackedClaim, delta: float, effort: Effort, rng: np.random.Generator, tell: Observer
) -> tuple[list[AttackResult], GameResult]:
    """Replay and guessing game of one claim."""
    claim, sums = attacked.claim, add_up(attacked.claim.events)
    response, pure = (sums.pure, 0.0) if attacked.responds else (0.0, sums.pure)
    claimed = ClaimedPrivacy(sums.mu, response, claim.neighbours, attacked.row_norm, pure)

    def replayed(tried: int) -> None:
        tell(f"{claim.party}: {tried} neighbours", 0.4 * tried / effort.pairs)

    worst = search(attacked.scenes, claimed, effort.pairs, rng, replayed)
    few = max(20, effort.pairs // 20)
    pair = search(attacked.game_scenes, claimed, few, rng, transcripts=6)

    guesses = _play(Game(pair.scene, pair.first, pair.second), claim, delta, effort, rng, tell)
    measured = GameResult(claim.party, claim, guesses, lower_bound(guesses, delta, CONFIDENCE), pair)
    return [judge_replay(worst, claim, claimed), judge_game(guesses, claim, delta, pair.ratio)], measured


def _play(game: Game, claim: Claim, delta: float, effort: Effort, rng: np.random.Generator, tell: Observer) -> Guesses:
    """Play; where the outcome is in doubt, leave it and play anew with more runs, so that each outcome stands alone."""
    runs = effort.runs
    for again in range(MOST_GAMES):

        def played(count: int, runs: int = runs, again: int = again) -> None:
            done = (2**again - 1 + 2**again * count / runs) / (2**MOST_GAMES - 1)  # each game has twice the runs
            tell(f"{claim.party}: {count} of {runs} runs", 0.5 + 0.5 * done)

        seed = None if effort.seed is None else int(rng.integers(2**62))
        guesses = game.play(runs, seed, effort.workers, played)
        doubtful = refutes(lower_bound(guesses, delta, CONFIDENCE), claim)
        if not doubtful or refutes(lower_bound(guesses, delta, SURE), claim):
            break
        runs *= 2
    return guesses


def judge_replay(worst: WorstPair, claim: Claim, claimed: ClaimedPrivacy) -> AttackResult:
    """The replay as a line of an audit."""
    text = f"at most {worst.ratio:.3f} of it, {worst.pairs} pairs"
    if worst.leaks > 0 and not worst.holds:
        text += f"; something else leaves (relative change {worst.leaks:.1e})"
    discrete = claimed.response + claimed.pure
    numbers = [f"mu {claimed.mu:.4g}"] * (claimed.mu > 0) + [f"epsilon {discrete:.4g}"] * (discrete > 0)
    return AttackResult(
        f"rows of {claim.party}: replayed neighbours",
        " and ".join(numbers),
        text,
        judged(not worst.holds, covered=True),
        {
            "party": claim.party,
            "pairs": worst.pairs,
            "ratio": worst.ratio,
            "leaks": worst.leaks,
            "worst_pair": worst.kind,
            "claimed_mu": claimed.mu,
            "claimed_response": claimed.response,
            "claimed_pure": claimed.pure,
        },
    )


def refutes(bound: LowerBound, claim: Claim) -> bool:
    """Whether a bound contradicts a claim: by the curve that it claims, at its epsilon 0, or by its epsilon alone."""
    return bound.distance > claim.delta(0.0) or bound.epsilon_any > claim.epsilon(bound.delta)


def judge_game(guesses: Guesses, claim: Claim, delta: float, expected: float) -> AttackResult:
    """The guessing game as a line of an audit: stated at 95 %, called broken at 99.9 %.

    Where the bound at 95 % is above the claim and the one at 99.9 % is not, after all the runs that were played, the
    line says so: no violation was found at 99.9 %.
    """
    stated, sure = lower_bound(guesses, delta, CONFIDENCE), lower_bound(guesses, delta, SURE)
    epsilon, distance, broken = claim.epsilon(delta), claim.delta(0.0), refutes(sure, claim)
    gaussian = not add_up(claim.events).response
    lowest = max(stated.epsilon_curve, stated.epsilon_any) if gaussian else stated.epsilon_any
    text = f"epsilon >= {lowest:.3g} (95 %), {stated.right_line()} of {stated.judged} judged runs right"
    return AttackResult(
        f"rows of {claim.party}: guessing game",
        f"epsilon {epsilon:.4g}, {50 * (1 + distance):.1f} % right at most, in the long run",
        text,
        BROKEN if broken else AT_999 if refutes(stated, claim) else AT_95,
        {
            "party": claim.party,
            "claimed_epsilon": epsilon,
            "claimed_distance": distance,
            "pair_uses": expected,
            "bound": dict(stated.record()),
            "bound_for_verdict": dict(sure.record()),
        },
    )


def delta_of(certificate: Certificate) -> float:
    """The delta at which a certificate states its epsilon."""
    target = certificate.target
    return target.delta if target is not None else 0.0


def between(tell: Observer, low: float, high: float) -> Observer:
    """An observer that maps the progress of one part to its share of the whole."""
    return lambda text, part: tell(text, low + (high - low) * part)
