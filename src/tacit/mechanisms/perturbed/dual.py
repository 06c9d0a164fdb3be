"""Dual variable perturbation: noise in the objective of every round (dynamic, Algorithm 2).

The noise e = (C/B_p) x, x of density proportional to exp(-zeta |x|), makes the minimiser itself random, with a density
whose logarithm changes by at most alpha_p(t) when a row is replaced (docs/proofs/dynamic.md, theorem 1). A minimiser
is found only up to a distance: a little Gaussian noise on a grid hides that distance, and the last digits of the
floating-point noise with it (theorem 2). The published form sends the minimiser as it was found.

| symbol | meaning |
|---|---|
| alpha | pure epsilon of one round |
| kappa | (B_p/C)(m + phi): least curvature of all terms but one row's, in the units of the noise |
| alpha_bar | part of alpha that the change of volume takes: ln(1 + c1 b^2/kappa) |
| alpha_hat | the rest, for the change of the noise: zeta = alpha_hat / (2 L b) |
| d | numbers in a model. At delta > 0 alpha_hat costs about 1/sqrt(d) of itself, and alpha_bar all of it (theorem 1b) |

The published form takes 2 ln(.) for alpha_bar, and zeta = alpha_hat / (L b): twice what alpha_hat pays for. Theorems:
docs/proofs/dynamic.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tacit.mechanisms.base import Mechanism, MechanismRequest, PrivatePlan
from tacit.mechanisms.perturbed import MODEL, NOISE, PaperNode, PaperSettings, at_round
from tacit.mechanisms.perturbed import plan as papers
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
from tacit.privacy import accountant
from tacit.privacy.calibration import largest_for
from tacit.privacy.certificate import Certificate
from tacit.privacy.events import Event, GaussianRelease, NormRelease
from tacit.privacy.randomness import largest_norm
from tacit.privacy.releases import Allowed, AllowedNormNoise
from tacit.privacy.request import Privacy
from tacit.solvers.consensus.base import PrivateConsensus
from tacit.topologies import SampleSplit
from tacit.types import Arrays

# --- Dual variable perturbation: noise in the objective of every round (dynamic, Algorithm 2)


class DualNode(PaperNode):
    """One node's side."""

    def step(self, round_: int, inbox: Mapping[str, Arrays]) -> Arrays:
        """From the neighbours' models to the node's next one."""
        others = self._take_in(inbox)
        drawn = self.release.draw(at_round(NOISE, round_), self.size)
        self._minimise(round_, self.released, others, self.local.scale * drawn)
        self.released = self.model if self.settings.published else self.release.add(at_round(MODEL, round_), self.model)
        return {MODEL: self.released}


DUAL = PrivateConsensus("dual", DualNode)


# --- Dual variable perturbation: from what was asked and public sizes to noise, planned releases and a certificate


FEW, MORE = 2, 4  # rounds: each needs noise of its own, so that few are best (measured)
ENOUGH = 2000.0  # rows of a node times mu of the run, from which on more rounds gain more than their noise costs
PRIOR = 2.0  # rows' worth of pull without noise: a node with few rows would fit its own chance
TYPICAL = 10.0  # times the mean norm of the noise: the size of the gradients that are summed
THEOREM = "dual variable perturbation (docs/proofs/dynamic.md, theorems 1, 1b, 2 and 6)"
PUBLISHED = "dual variable perturbation as published (docs/proofs/dynamic.md, theorems 1, 1b and 6, remark 1)"


@dataclass(frozen=True)
class DualRound:
    """Numbers of one round at one node: zeta, phi, and the two parts of the pure epsilon that is proven for it."""

    rate: float
    extra: float
    change: float
    volume: float


def dual_round(node: NodeBounds, alpha: float) -> DualRound:
    """Noise with which one round is alpha-DP (theorem 1); phi keeps small what the noise cannot hide."""
    bend, most = node.per_row * node.bend * node.length**2, _most_volume(alpha, node.size)
    extra = 0.0
    if math.log1p(bend / node.modulus) > most:
        extra = max(bend / math.expm1(most) - node.modulus, 0.0) * (1 + 1e-12)
    volume = math.log1p(bend / (node.modulus + extra)) * (1 + 1e-12)
    change = alpha - volume
    return DualRound(change / node.change * (1 - 1e-12), extra, change, volume)


def _most_volume(alpha: float, size: int) -> float:
    """The most of alpha that the volume may take: it costs sqrt(size) times as much as the rest."""
    return alpha / (2 * math.sqrt(size))


def published_round(node: NodeBounds, alpha: float) -> DualRound:
    """Algorithm 2 as printed, and what is proven for it."""
    bend, curvature = node.bend * node.length**2, node.ridge + 2 * node.penalty * node.degree
    extra, rest = 0.0, alpha - 2 * math.log1p(node.per_row * bend / curvature)
    if rest <= 0:
        extra, rest = node.per_row * bend / math.expm1(alpha / 4) - curvature, alpha / 2
    rate = rest / (node.change / 2)
    volume = math.log1p(node.per_row * bend / (curvature + extra)) * (1 + 1e-12)
    return DualRound(rate, extra, rate * node.change * (1 + 1e-12), volume)


def alpha_for(size: int, asked: float, delta: float, rounds: int, mu: float) -> float:
    """The alpha of each of `rounds` rounds, beside the noise that hides last digits; the same at every node.

    It holds for the largest volume that a round may have, and so for every smaller one (composition.md, section 4b).
    """

    def events(alpha: float) -> list[Event]:
        volume = _most_volume(alpha, size) * (1 + 1e-11)
        beside = [GaussianRelease(mu, 1.0, rounds)] if mu else []
        return [NormRelease(alpha - volume, size, volume, rounds), *beside]

    return largest_for(asked, delta, events)


class Dual(Mechanism[SampleSplit]):
    """Dual variable perturbation: noise in each node's objective, in every round."""

    name = "dual"
    split = SampleSplit.split
    noise_at_nodes = True
    summary = "dual variable perturbation: noise in each node's objective, in every round"
    noise_in_objective = True

    def plan(self, request: MechanismRequest, layout: SampleSplit) -> PrivatePlan:
        """Plan the method; refuse what no theorem covers."""
        return _plan(self, request, layout)


def _plan(mechanism: Dual, request: MechanismRequest, layout: SampleSplit) -> PrivatePlan:
    privacy, problem = request.privacy, request.problem
    papers.refuse("dual", request, layout)
    options = papers.options_of(request)
    options.refuse("dual", "alphas")
    size = layout.columns + int(problem.fit_intercept)
    usual = _usual_rounds(privacy, layout)
    alphas = given_alphas(options, request, layout, usual)
    rounds = papers.rounds_of(options, request, usual) if alphas is None else len(next(iter(alphas.values())))
    mu = papers.hiding_mu(privacy, size, rounds)
    if alphas is None:
        asked = papers.needed_epsilon("dual", papers.calm(privacy))
        each = alpha_for(size, asked, privacy.delta, rounds, 0.0 if request.published else mu)
        alphas = dict.fromkeys(layout.graph.names, (each,) * rounds)
    nodes = papers.bounds(privacy, problem, layout, "dual", options.loss_weight, _pull(request, layout, size, alphas))
    found = {node.name: _plan_node(node, alphas[node.name], mu, privacy, request.published) for node in nodes}
    events = {name: one.events for name, one in found.items()}
    if not request.published:
        papers.check_spent("dual", privacy, events)
    numbers = {name: one.numbers for name, one in found.items()}
    return PrivatePlan(
        privacy=privacy,
        mechanism=mechanism,
        solver=DUAL,
        settings=PaperSettings(papers.row_norm("dual", privacy, layout), rounds, numbers, request.published),
        releases={name: tuple(one.planned) for name, one in found.items()},
        certificate=_certificate(request, layout, rounds, events, alphas),
        rounds=rounds,
        noise={f"model of {name}: norm of the noise of a round": one.spread for name, one in found.items()},
        outlook=(f"the noise of one round moves a node's model by about {max(o.spread for o in found.values()):.3g}",),
    )


def _usual_rounds(privacy: Privacy, layout: SampleSplit) -> int:
    """More rounds where the noise is small beside the sums over a node's rows."""
    if privacy.epsilon is None:
        return FEW
    rows = layout.total / layout.graph.nodes
    return MORE if rows * accountant.gdp_mu(privacy.epsilon, privacy.delta) > ENOUGH else FEW


def _pull(request: MechanismRequest, layout: SampleSplit, size: int, alphas: Mapping[str, Sequence[float]]) -> float:
    """How strongly to pull towards neighbours: half of the curvature that the volume asks for, phi being the other.

    More would hold every model near 0, less would only be made up for by phi. Found on generated rows.
    """
    if request.published:
        return papers.USUAL_PULL
    least = min(min(own) for own in alphas.values())
    return (PRIOR + math.sqrt(size) / least) / (layout.total / layout.graph.nodes)


def _plan_node(node: NodeBounds, alphas: Sequence[float], mu: float, privacy: Privacy, published: bool) -> PlannedNode:
    """Noise and events of all rounds of one node."""
    own = [published_round(node, alpha) if published else dual_round(node, alpha) for alpha in alphas]
    spread = max(moved(node, one) for one in own)
    extra, noises = tuple(one.extra for one in own), tuple(largest(node, one) for one in own)
    found = PlannedNode(node.numbers(TYPICAL * spread, extra, noises), spread)
    found.planned += [AllowedNormNoise(at_round(NOISE, t), one.rate) for t, one in enumerate(own, 1)]
    found.events += papers.norm_events([(one.change, one.volume) for one in own], node.size, node.name, privacy)
    if not published:
        left = [found.numbers.tolerance / (node.modulus + one.extra) for one in own]
        hidden = [papers.hiding(distance, mu, node.size) for distance in left]
        found.planned += [Allowed(at_round(MODEL, t), sd) for t, (sd, _) in enumerate(hidden, 1)]
        found.events += papers.gaussian_events(hidden, "last digits of models", node.name, privacy)
    return found


def moved(node: NodeBounds, one: DualRound) -> float:
    """About how far the noise of a round moves a model: (C/B_p) times its mean norm over the curvature."""
    return node.per_row * node.size / (one.rate * (node.modulus + one.extra))


def largest(node: NodeBounds, one: DualRound) -> float:
    """The largest norm of the noise in the objective of a round: (C/B_p) times that of what is drawn."""
    return node.per_row * largest_norm(node.size, one.rate)


def _certificate(
    request: MechanismRequest,
    layout: SampleSplit,
    rounds: int,
    events: Mapping[str, Sequence[Event]],
    alphas: Mapping[str, Sequence[float]],
) -> Certificate:
    privacy = request.privacy
    theorem = PUBLISHED if request.published else THEOREM
    covers = ["the rows and labels of every node: each model is the minimiser of an objective with noise in it"]
    if request.published:
        covers.append(
            "Algorithm 2 prints half of the noise that its own proof needs: the epsilon here is the proven one"
        )
    return paper_certificate(
        privacy,
        layout,
        record_claims(privacy, events, theorem),
        rounds=rounds,
        theorem=theorem,
        said=each_round(alphas),
        covers=covers,
        assumed=(LAW, EXACT) if request.published else (LAW, ARITHMETIC),
        asked=not request.published,
    )
