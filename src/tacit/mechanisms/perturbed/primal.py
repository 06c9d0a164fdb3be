"""Primal variable perturbation: noise on the minimiser of every round (dynamic, Algorithm 3).

v_p = f_p + noise goes to the neighbours, and **v_p alone enters the node's next round**: then every round is a function
of the rows and of released models, and replacing a row moves f_p by at most 2 C/(B_p (rho + 2 eta N_p)) whatever was
released (docs/proofs/dynamic.md, theorem 3). The last round may be one of dual variable perturbation, as in the paper.

The published form keeps the node's own f_p and takes its own noise off again:
(f_p + v_i - noise_p)/2 in place of (v_p + v_i)/2, and f_p in its last round, which breaks that round (theorem 5).

Rounds with Gaussian noise compose by their squares; the paper's noise, of density exp(-zeta |e|), makes a round
alpha-DP with zeta = alpha / Delta. Delta = (C/B_p) 2 L b / m where the node's own released model alone enters its next
round; the published form keeps the model without noise, and has (C/B_p) 2 L b / rho. Theorems: docs/proofs/dynamic.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tacit.errors import InputError
from tacit.mechanisms.base import Mechanism, MechanismRequest, PrivatePlan
from tacit.mechanisms.perturbed import MODEL, NOISE, PaperNode, PaperSettings, at_round
from tacit.mechanisms.perturbed import plan as papers
from tacit.mechanisms.perturbed.dual import TYPICAL, DualRound, alpha_for, dual_round, largest, moved, published_round
from tacit.mechanisms.perturbed.plan import (
    ARITHMETIC,
    EXACT,
    LAW,
    NodeBounds,
    PlannedNode,
    each_round,
    given_alphas,
    paper_certificate,
    record_claims,
)
from tacit.privacy.calibration import budget_mu
from tacit.privacy.certificate import Certificate
from tacit.privacy.events import Event, GaussianRelease, NormRelease, NotPrivate
from tacit.privacy.randomness import grid_sensitivity, sd_for
from tacit.privacy.releases import Allowed, AllowedNormNoise
from tacit.privacy.request import PaperOptions, Privacy
from tacit.solvers.consensus.base import PrivateConsensus
from tacit.topologies import SampleSplit
from tacit.types import Arrays, Vector

# --- Primal variable perturbation: noise on the minimiser of every round (dynamic, Algorithm 3)


@dataclass(frozen=True)
class PrimalSettings(PaperSettings):
    """Public numbers of a run.

    Attributes
    ----------
    by_norm : bool
        Whether the noise of a model has the density exp(-zeta |e|) of the paper; Gaussian otherwise.
    last_dual : bool
        Whether the last round is one of dual variable perturbation.
    """

    by_norm: bool = False
    last_dual: bool = True


class PrimalNode(PaperNode):
    """One node's side."""

    settings: PrimalSettings

    def step(self, round_: int, inbox: Mapping[str, Arrays]) -> Arrays:
        """From the neighbours' models to the node's next one."""
        others = self._take_in(inbox)
        if self.settings.last_dual and round_ == self.settings.rounds:
            drawn = self.release.draw(at_round(NOISE, round_), self.size)
            self._minimise(round_, self._own_last(), others, self.local.scale * drawn)
            self.released = self._hide(round_, self.model)
        else:
            self._minimise(round_, self._own(), others)
            self.released = self._perturb(round_)
        return {MODEL: self.released}

    def _own(self) -> Vector:
        """What stands for the node itself in a round."""
        if not self.settings.published:
            return self.released
        noise = self.released - self.model
        return self.model - noise

    def _own_last(self) -> Vector:
        """The same for a last round of dual variable perturbation."""
        return self.model if self.settings.published else self.released

    def _perturb(self, round_: int) -> Vector:
        """The model with noise."""
        if not self.settings.by_norm:
            return self.release.add(at_round(MODEL, round_), self.model)
        return self._hide(round_, self.model + self.release.draw(at_round(NOISE, round_), self.size))

    def _hide(self, round_: int, noisy: Vector) -> Vector:
        """A model that is private but for its last digits, with these hidden, too."""
        return noisy if self.settings.published else self.release.add(at_round(MODEL, round_), noisy)


PRIMAL = PrivateConsensus("primal", PrimalNode)


# --- Primal variable perturbation: from what was asked and public sizes to noise, planned releases and a certificate


ROUNDS = 15  # of the same use from 8 to 50 (measured), once the pull fits the noise
LAST = 0.3  # part of epsilon that a last round of dual variable perturbation takes beside Gaussian ones
THEOREM = "primal variable perturbation (docs/proofs/dynamic.md, theorems 1, 2, 3 and 6)"
BROKEN = "none: docs/proofs/dynamic.md, theorem 5, shows the contrary for the last round"


class Primal(Mechanism[SampleSplit]):
    """Primal variable perturbation: noise on each node's model, in every round."""

    name = "primal"
    split = SampleSplit.split
    noise_at_nodes = True
    summary = "primal variable perturbation: noise on each node's model, in every round"

    def plan(self, request: MechanismRequest, layout: SampleSplit) -> PrivatePlan:
        """Plan the method; refuse what no theorem covers."""
        return _plan(self, request, layout)


def _plan(mechanism: Primal, request: MechanismRequest, layout: SampleSplit) -> PrivatePlan:
    privacy, problem = request.privacy, request.problem
    papers.refuse("primal", request, layout)
    options = papers.options_of(request)
    options.refuse("primal", "alphas", "noise", "last_round")
    size = layout.columns + int(problem.fit_intercept)
    alphas = given_alphas(options, request, layout, ROUNDS)
    by_norm = request.published or alphas is not None or options.noise == "norm"
    last_dual = options.last_round != "primal"
    _check(request, options)
    rounds = papers.rounds_of(options, request, ROUNDS) if alphas is None else len(next(iter(alphas.values())))
    pull = papers.gaussian_pull(request, layout, size, rounds)
    nodes = papers.bounds(privacy, problem, layout, "primal", options.loss_weight, pull)
    mu = papers.hiding_mu(privacy, size, rounds)
    if alphas is None and by_norm:
        asked = papers.needed_epsilon("primal", papers.calm(privacy))
        each = alpha_for(size, asked, privacy.delta, rounds, 0.0 if request.published else mu)
        alphas = dict.fromkeys(layout.graph.names, (each,) * rounds)
    if request.published:
        found = {node.name: _published(node, (alphas or {})[node.name], last_dual, privacy) for node in nodes}
    elif alphas is not None:
        found = {node.name: _by_norm(node, alphas[node.name], last_dual, mu, privacy) for node in nodes}
    else:
        asked = papers.needed_epsilon("primal", papers.calm(privacy))
        part = LAST if rounds > 1 else 1.0
        last = alpha_for(size, part * asked, privacy.delta, 1, mu) if last_dual else None
        found = {node.name: _gaussian(node, rounds, last, mu, privacy) for node in nodes}
    events = {name: one.events for name, one in found.items()}
    if not request.published:
        papers.check_spent("primal", privacy, events)
    norm = papers.row_norm("primal", privacy, layout)
    numbers = {name: one.numbers for name, one in found.items()}
    return PrivatePlan(
        privacy=privacy,
        mechanism=mechanism,
        solver=PRIMAL,
        settings=PrimalSettings(norm, rounds, numbers, request.published, by_norm, last_dual),
        releases={name: tuple(one.planned) for name, one in found.items()},
        certificate=_certificate(request, layout, rounds, events, alphas, last_dual),
        rounds=rounds,
        noise={f"model of {name}: norm of the noise of a round": one.spread for name, one in found.items()},
        outlook=(f"the noise of one round moves a node's model by about {max(o.spread for o in found.values()):.3g}",),
    )


def _check(request: MechanismRequest, options: PaperOptions) -> None:
    problem = request.problem
    if options.noise == "gaussian" and (options.alphas is not None or request.published):
        raise InputError("noise='gaussian' has no alpha_p(t): leave out alphas and published, or use noise='norm'")
    if request.published and problem.alpha * problem.regularizer.l2 == 0:
        raise InputError(
            "mechanism='primal' in the published form divides by the weight of the penalty: give alpha above 0"
        )


# --- the rounds of one node --------------------------------------------------------------------------


def _gaussian(node: NodeBounds, rounds: int, last: float | None, mu: float, privacy: Privacy) -> PlannedNode:
    """Gaussian noise on every model but, where it has an alpha, the last."""
    asked = papers.needed_epsilon("primal", papers.calm(privacy))
    one = None if last is None else dual_round(node, last)
    noisy = rounds - (one is not None)
    beside = (NormRelease(one.change, node.size, one.volume), GaussianRelease(mu, 1.0)) if one else ()
    sd = 0.0
    if noisy:
        each = budget_mu(asked, privacy.delta, beside) / math.sqrt(noisy) * (1 - 1e-9)
        exact = node.sensitivity * (1 + 2 * papers.PRECISION)
        sd = sd_for(each, exact, node.size)
    spread = sd * math.sqrt(node.size)
    final = 0.0 if one is None else moved(node, one)
    extra, noises = _inside(node, noisy, one)
    found = PlannedNode(node.numbers(TYPICAL * max(spread, final), extra, noises), max(spread, final))
    if noisy:
        # the distance from the exact minimiser counts, too: a little more noise pays for it
        size = node.sensitivity + 2 * found.numbers.tolerance / node.modulus
        sd = sd_for(each, size, node.size)
        found.planned += [Allowed(at_round(MODEL, t), sd) for t in range(1, noisy + 1)]
        pairs = [(sd, grid_sensitivity(size, sd, node.size))] * noisy
        found.events += papers.gaussian_events(pairs, f"models of {noisy} rounds", node.name, privacy)
    if one is not None:
        _end(found, node, rounds, one, mu, privacy)
    return found


def _by_norm(node: NodeBounds, alphas: Sequence[float], last_dual: bool, mu: float, privacy: Privacy) -> PlannedNode:
    """The paper's noise on every model, from released models alone."""
    noisy = len(alphas) - last_dual
    rates = [alpha / node.sensitivity * (1 - 1e-12) for alpha in alphas[:noisy]]
    one = dual_round(node, alphas[-1]) if last_dual else None
    spreads = [node.size / rate for rate in rates]
    spreads += [moved(node, one)] if one else []
    extra, noises = _inside(node, noisy, one)
    found = PlannedNode(node.numbers(TYPICAL * max(spreads), extra, noises), max(spreads))
    found.events += papers.norm_events([(a, 0.0) for a in alphas[:noisy]], node.size, node.name, privacy)
    if noisy:
        sd, size = papers.hiding(found.numbers.tolerance / node.modulus, mu, node.size)
        for t, rate in enumerate(rates, 1):
            found.planned += [AllowedNormNoise(at_round(NOISE, t), rate), Allowed(at_round(MODEL, t), sd)]
        found.events += papers.gaussian_events([(sd, size)] * noisy, "last digits of models", node.name, privacy)
    if one is not None:
        _end(found, node, len(alphas), one, mu, privacy)
    return found


def _inside(node: NodeBounds, noisy: int, one: DualRound | None) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Phi and the largest noise in the objective of each round: only a last round `one` has them."""
    last = () if one is None else (one,)
    return (0.0,) * noisy + tuple(o.extra for o in last), (0.0,) * noisy + tuple(largest(node, o) for o in last)


def _end(found: PlannedNode, node: NodeBounds, round_: int, one: DualRound, mu: float, privacy: Privacy) -> None:
    """A last round of dual variable perturbation, on released models."""
    sd, size = papers.hiding(found.numbers.tolerance / (node.modulus + one.extra), mu, node.size)
    found.planned += [AllowedNormNoise(at_round(NOISE, round_), one.rate), Allowed(at_round(MODEL, round_), sd)]
    found.events += papers.norm_events([(one.change, one.volume)], node.size, node.name, privacy)
    found.events += papers.gaussian_events([(sd, size)], "last digits of the last model", node.name, privacy)


def _published(node: NodeBounds, alphas: Sequence[float], last_dual: bool, privacy: Privacy) -> PlannedNode:
    """Algorithm 3, with V_p(t+1) broadcast; its intermediate rounds are sound, its last one is not."""
    noisy = len(alphas) - last_dual
    size = node.per_row * node.change / node.ridge
    rates = [alpha / size for alpha in alphas[:noisy]]
    one = published_round(node, alphas[-1]) if last_dual else None
    spreads = [node.size / rate for rate in rates]
    spreads += [moved(node, one)] if one else []
    extra, noises = _inside(node, noisy, one)
    found = PlannedNode(node.numbers(TYPICAL * max(spreads), extra, noises), max(spreads))
    found.planned += [AllowedNormNoise(at_round(NOISE, t), rate) for t, rate in enumerate(rates, 1)]
    found.events += papers.norm_events([(a, 0.0) for a in alphas[:noisy]], node.size, node.name, privacy)
    if one is not None:
        found.planned.append(AllowedNormNoise(at_round(NOISE, len(alphas)), one.rate))
        found.events.append(_broken(node, alphas[-1], len(alphas), privacy))
    return found


def _broken(node: NodeBounds, alpha: float, round_: int, privacy: Privacy) -> NotPrivate:
    """The published last round, which reads a model that was never released (theorem 5)."""
    factor = 2 + 2 * node.penalty * node.degree / node.ridge
    return NotPrivate(
        f"the last round at {node.name} reads the model without noise: noises of neighbouring data differ by up to "
        f"{factor:.4g} times the largest gradient of a row, where the paper has 2: no epsilon is proven for it, and "
        f"the stated {alpha:.4g} is not",
        released="the last model",
        party=node.name,
        round=round_,
        neighbours=privacy.neighbours,
    )


def _certificate(
    request: MechanismRequest,
    layout: SampleSplit,
    rounds: int,
    events: Mapping[str, Sequence[Event]],
    alphas: Mapping[str, Sequence[float]] | None,
    last_dual: bool,
) -> Certificate:
    privacy = request.privacy
    broken = request.published and last_dual
    theorem = BROKEN if broken else THEOREM
    covers = ["the rows and labels of every node: each model leaves with noise"]
    missing = []
    if request.published:
        count = rounds - last_dual
        covers = [f"each of the first {count} rounds on its own has the epsilon that the paper states (theorem 4)"]
    if broken:
        missing = [
            "the rows and labels of every node: the last round reads models that were never released (theorem 5)"
        ]
    assumed = (
        (LAW, EXACT) if request.published else (LAW, ARITHMETIC) if alphas is not None or last_dual else (ARITHMETIC,)
    )
    said = each_round(alphas) if alphas is not None else "nothing: it has no Gaussian noise, and does not add rounds up"
    claims = record_claims(privacy, events, theorem if broken or not request.published else THEOREM.replace("3", "4"))
    return paper_certificate(
        privacy,
        layout,
        claims,
        rounds=rounds,
        theorem=theorem,
        said=said,
        covers=covers,
        missing=missing,
        assumed=assumed,
        asked=not request.published,
    )
