"""Randomized labels and decaying noise (pdml): from what was asked to noise, planned releases and a certificate.

| symbol | meaning |
|---|---|
| eps | label epsilon: c_hat = e^eps/(e^eps - 1) bounds the slope of the unbiased logistic loss |
| Delta | (C/B_p) 2 c_hat b / m: how far replacing a record moves a model, whatever was released before |
| V, r | deviation of the first round, and the factor of the variance from one round to the next |
| mu | GDP parameter of the run for one record: mu^2 = sum_t (Delta / (r^((t-1)/2) V))^2 |

Theorems: docs/proofs/pdml.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tacit.algorithms.base import Problem
from tacit.algorithms.consensus.papers import MODEL, NodeNumbers, at_round
from tacit.algorithms.consensus.pdml import PDML, PdmlSettings, labels_at
from tacit.errors import InputError
from tacit.plan import graph_papers as papers
from tacit.plan.graph_labels import ANYBODY, BEFORE, COVERED, label_claims
from tacit.plan.graph_labels import THEOREM as LABEL_THEOREM
from tacit.plan.graph_papers import NodeBounds, PlannedNode
from tacit.plan.graph_papers_words import ARITHMETIC, MESSAGES, OTHERS, paper_certificate
from tacit.plan.private import GraphSizes, PrivateGraphPlan
from tacit.privacy import accountant
from tacit.privacy.certificate import Certificate
from tacit.privacy.claim import Claim
from tacit.privacy.events import Event, NotPrivate
from tacit.privacy.fields import show
from tacit.privacy.paper_options import PaperOptions, check_positive
from tacit.privacy.randomness import grid_sensitivity
from tacit.privacy.releases import Allowed, AllowedResponse
from tacit.privacy.request import Privacy
from tacit.problem.losses.modified import modified

ROUNDS = 20
TYPICAL = 10.0
CONTRIBUTORS = (
    "each contributor randomizes their own label before the node gets it: in a run on labels that a node already "
    "holds, its software does so for them, and the node itself is not kept from the true ones"
)
RANDOMIZED_LABELS = (
    "the labels of the rows trained on, against everybody and for ever: each was randomized once, and the messages and "
    "the model were made from the randomized ones alone"
)
THEOREM = "decaying noise on models (docs/proofs/pdml.md, theorem 2)"


def plan_pdml(privacy: Privacy, problem: Problem, sizes: GraphSizes) -> PrivateGraphPlan:
    """Plan the method; refuse what no theorem covers."""
    papers.refuse("pdml", privacy, problem, sizes, labels=True)
    options = papers.options_of(sizes)
    options.refuse("pdml", "objective_noise", "first_sd", "decay", "label_epsilons", "randomized")
    epsilons = _label_epsilons(privacy, options, sizes)
    weight = options.loss_weight or (1.0 if sizes.published else None)
    rounds = papers.rounds_of(options, sizes, ROUNDS)
    slopes = {name: modified(problem.loss, min(own)).lipschitz for name, own in epsilons.items()}
    size = sizes.columns + int(problem.fit_intercept)
    pull = papers.gaussian_pull(privacy, sizes, size, rounds, max(slopes.values()))
    nodes = papers.bounds(privacy, problem, sizes, "pdml", weight, pull)
    nodes = [replace(one, slope=slopes[one.name]) for one in nodes]
    perturbed = privacy.epsilon is not None or options.first_sd is not None
    objective = options.objective_noise if options.objective_noise is not None else float(sizes.published)
    found = {node.name: _plan_node(node, epsilons[node.name], rounds, objective, privacy, options) for node in nodes}
    events = {name: one.events for name, one in found.items()}
    if perturbed and not sizes.published:
        papers.check_spent("pdml", privacy, events)
    given = {
        name: tuple(own) for name, own in epsilons.items() if options.label_epsilons and name in options.label_epsilons
    }
    settings = PdmlSettings(
        papers.row_norm("pdml", privacy, sizes),
        rounds,
        {name: one.numbers for name, one in found.items()},
        sizes.published,
        privacy.label_epsilon or 1.0,
        given,
        objective,
        perturbed,
        options.randomized,
    )
    return PrivateGraphPlan(
        privacy=privacy,
        method="pdml",
        algorithm=PDML,
        settings=settings,
        releases={name: tuple(one.planned) for name, one in found.items()},
        certificate=_certificate(privacy, sizes, rounds, events, epsilons, objective, options.randomized),
        rounds=rounds,
        noise={f"model of {name}: first deviation": one.spread for name, one in found.items()},
        outlook=(f"labels are flipped with probability up to {_most_flips(epsilons):.3g}",),
    )


def _plan_node(
    node: NodeBounds, epsilons: Sequence[float], rounds: int, objective: float, privacy: Privacy, options: PaperOptions
) -> PlannedNode:
    """Releases and events of one node."""
    perturbed = privacy.epsilon is not None or options.first_sd is not None
    first = _first_sd(node, privacy, options, rounds, objective) if perturbed else 0.0
    found = PlannedNode(_numbers(node, first, objective), first)
    if not options.randomized:
        found.planned += [AllowedResponse(labels_at(epsilon), epsilon) for epsilon in sorted(set(epsilons))]
    if not perturbed:
        found.events.append(_unprotected(node.name, privacy))
        return found
    sds = _decaying(first, options.decay, rounds)
    found.planned += [Allowed(at_round(MODEL, t), sd) for t, sd in enumerate(sds, 1)]
    pairs = _pairs(node, sds, objective)
    found.events += papers.gaussian_events(pairs, f"models of {rounds} rounds", node.name, privacy)
    return found


# --- labels ------------------------------------------------------------------------------------------


def _label_epsilons(privacy: Privacy, options: PaperOptions, sizes: GraphSizes) -> dict[str, tuple[float, ...]]:
    """By node: the epsilon of each row's label, or one for all."""
    given = options.label_epsilons or {}
    if options.randomized and set(given) != set(sizes.graph.names):
        raise InputError("randomized=True needs label_epsilons of every node: give those at which they were randomized")
    for name, own in given.items():
        if name not in sizes.graph.names:
            raise InputError(f"label_epsilons name {show(name)}, which is no node: give one entry for each node")
        rows = sizes.rows[sizes.graph.number(name)]
        if len(own) != rows:
            raise InputError(f"label_epsilons of {name} are {len(own)}: the node has {rows} rows, give one for each")
    missing = [name for name in sizes.graph.names if name not in given]
    if missing and privacy.label_epsilon is None:
        raise InputError(f"method='pdml' needs label_epsilon: nothing says how to randomize the labels of {missing[0]}")
    found = {}
    for name in sizes.graph.names:
        own = given.get(name, (privacy.label_epsilon or 0.0,))
        found[name] = tuple(check_positive(f"label epsilon of {name} in row {i}", e) for i, e in enumerate(own, 1))
    return found


def _most_flips(epsilons: Mapping[str, Sequence[float]]) -> float:
    return 1.0 / (1.0 + math.exp(min(min(own) for own in epsilons.values())))


# --- noise -------------------------------------------------------------------------------------------


def _decaying(first: float, decay: float, rounds: int) -> list[float]:
    return [first * decay ** ((t - 1) / 2) for t in range(1, rounds + 1)]


def _numbers(node: NodeBounds, first: float, objective: float) -> NodeNumbers:
    largest = math.sqrt(node.size) * objective
    return node.numbers(TYPICAL * (math.sqrt(node.size) * first + largest / node.modulus), noises=(largest,))


def _pairs(node: NodeBounds, sds: Sequence[float], objective: float) -> list[tuple[float, float]]:
    """(deviation, sensitivity on its grid) of each round, the distance from an exact minimiser included."""
    exact = node.sensitivity + 2 * _numbers(node, sds[0], objective).tolerance / node.modulus
    return [(sd, grid_sensitivity(exact, sd, node.size)) for sd in sds]


def _first_sd(node: NodeBounds, privacy: Privacy, options: PaperOptions, rounds: int, objective: float) -> float:
    """V, as given, or the smallest with which the run spends no more than was asked."""
    if options.first_sd is not None:
        return options.first_sd
    asked = papers.needed_epsilon("pdml", papers.calm(privacy))
    mu = accountant.gdp_mu(asked, privacy.delta)
    squares = math.fsum(options.decay ** -(t - 1) for t in range(1, rounds + 1))
    first = node.sensitivity * math.sqrt(squares) / mu
    for _ in range(100):
        pairs = _pairs(node, _decaying(first, options.decay, rounds), objective)
        events = papers.gaussian_events(pairs, "", node.name, privacy)
        if papers.spent(privacy, events) <= (privacy.epsilon or math.inf):
            return first
        first *= 1 + 1e-6
    raise InputError(f"epsilon={asked:g} cannot be reached with decay={options.decay:g}: give fewer rounds, or decay=1")


# --- what is claimed ---------------------------------------------------------------------------------


def _unprotected(name: str, privacy: Privacy) -> NotPrivate:
    reason = f"the rows of {name} but for their labels: models leave without noise, since no epsilon was asked"
    return NotPrivate(reason, released="models", party=name, neighbours=privacy.neighbours)


def _certificate(
    privacy: Privacy,
    sizes: GraphSizes,
    rounds: int,
    events: Mapping[str, Sequence[Event]],
    epsilons: Mapping[str, Sequence[float]],
    objective: float,
    before: bool,
) -> Certificate:
    records = privacy.epsilon is not None or not any(isinstance(e, NotPrivate) for own in events.values() for e in own)
    claims = label_claims(epsilons, privacy.neighbours)
    others = MESSAGES if sizes.published else OTHERS
    if records:
        claims += [Claim("record", n, privacy.neighbours, others, tuple(own), THEOREM) for n, own in events.items()]
    who = BEFORE if before else CONTRIBUTORS
    asked = privacy.epsilon is not None and records and not sizes.published
    return paper_certificate(
        privacy,
        sizes,
        claims,
        rounds=rounds,
        theorem=THEOREM if records else LABEL_THEOREM,
        said=_said(epsilons),
        covers=_covers(records, rounds, before),
        missing=_missing(sizes.published, records, objective),
        assumed=(who, ARITHMETIC) if records else (who,),
        asked=asked,
        adversary=others if records else ANYBODY,
        unit="record" if records else "label",
    )


def _said(epsilons: Mapping[str, Sequence[float]]) -> str:
    low, high = min(min(own) for own in epsilons.values()), max(max(own) for own in epsilons.values())
    size = f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}, as each contributor chose"
    return (
        f"{size}-local differential privacy of each label, and dynamic differential privacy of each round; over all "
        "rounds it would trust the bounded noise in the objective"
    )


def _covers(records: bool, rounds: int, before: bool) -> list[str]:
    dropped = RANDOMIZED_LABELS
    covered = [COVERED if before else dropped]
    if records:
        covered.append(
            f"the rows, against other nodes: {rounds} models left each node with noise; the epsilon is that of "
            f"{rounds} rounds, and would grow geometrically with more"
        )
    return covered


def _missing(published: bool, records: bool, objective: float) -> list[str]:
    missing = ["the features of a row, against the node that collects it: it holds them as they are"]
    if not records:
        missing.append("the features of a row, against other nodes: models leave without noise")
    if objective:
        missing.append(
            "nothing is claimed for the bounded noise in the objective: it is drawn once, and cancels in the "
            "difference of two rounds"
        )
    if published:
        missing.append("the averaged classifier: it is a mean of models without noise, so it must stay with its node")
    return missing
