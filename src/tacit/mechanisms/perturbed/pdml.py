"""Randomized labels, a bounded noise in the objective, and decaying Gaussian noise on every model (pdml).

Each label is randomized once, with the epsilon that its contributor chose; the true ones are dropped, and the unbiased
loss of randomized labels is minimised (docs/proofs/labels.md). w_p + theta_p(t), of variance r^(t-1) V^2, goes to the
neighbours and enters the node's own next round. eta_p, each entry within R, is drawn once and put into the objective of
every round: it cancels in the difference of two rounds, and earns nothing (docs/proofs/pdml.md).

The node keeps the mean of its models: of the released ones, or, in the published form, of the models without noise.

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
from dataclasses import dataclass, field, replace

import numpy as np

from tacit.errors import InputError
from tacit.mechanisms.base import Mechanism, MechanismRequest, PrivatePlan
from tacit.mechanisms.labels import ANYBODY, BEFORE, COVERED, label_claims
from tacit.mechanisms.labels import GIVEN_THEOREM as LABEL_THEOREM
from tacit.mechanisms.perturbed import LABELS, MODEL, NodeNumbers, PaperNode, PaperSettings, at_round
from tacit.mechanisms.perturbed import plan as papers
from tacit.mechanisms.perturbed.plan import ARITHMETIC, MESSAGES, OTHERS, NodeBounds, PlannedNode, paper_certificate
from tacit.privacy import accountant
from tacit.privacy.calibration import calibrate
from tacit.privacy.certificate import Certificate
from tacit.privacy.claim import Claim
from tacit.privacy.events import Event, NotPrivate
from tacit.privacy.randomness import grid_sensitivity
from tacit.privacy.releases import Allowed, AllowedResponse
from tacit.privacy.request import PaperOptions, Privacy, check_positive
from tacit.problem.losses.modified import modified, modified_rows
from tacit.records import show
from tacit.solvers.base import Problem, Release
from tacit.solvers.consensus.base import NodeData, Place, PrivateConsensus
from tacit.topologies import SampleSplit
from tacit.types import Arrays, Vector

# --- Randomized labels, a bounded noise in the objective, and decaying Gaussian noise on every model (pdml)


@dataclass(frozen=True)
class PdmlSettings(PaperSettings):
    """Public numbers of a run.

    Attributes
    ----------
    label_epsilon : float
        Of every label for which no other is given.
    label_epsilons : mapping of str to tuple of float
        By node, one for each of its rows.
    objective_noise : float
        R.
    perturbed : bool
        Whether models are released with noise; without it labels alone are protected.
    randomized : bool
        Whether the labels came randomized already, so that they are used as they are.
    """

    label_epsilon: float = 1.0
    label_epsilons: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    objective_noise: float = 0.0
    perturbed: bool = True
    randomized: bool = False


def labels_at(epsilon: float) -> str:
    """Name of the release of all labels that are randomized with this epsilon."""
    return f"{LABELS} at {epsilon!r}"


class PdmlNode(PaperNode):
    """One node's side; nothing of the true labels outlives its first round."""

    settings: PdmlSettings

    def __init__(
        self, problem: Problem, place: Place, data: NodeData, settings: PdmlSettings, release: Release
    ) -> None:
        super().__init__(problem, place, data, settings, release)
        self.objective_noise = np.zeros(self.size)
        self.sum, self.rounds = np.zeros(self.size), 0

    @property
    def answer(self) -> Vector:
        """The mean of the node's models."""
        return self.sum / max(self.rounds, 1)

    def step(self, round_: int, inbox: Mapping[str, Arrays]) -> Arrays:
        """From the neighbours' models to the node's next one."""
        if round_ == 1:
            self._begin()
        others = self._take_in(inbox)
        self._minimise(round_, self.released, others, self.objective_noise / self.place.graph.nodes)
        perturbed = self.settings.perturbed
        self.released = self.release.add(at_round(MODEL, round_), self.model) if perturbed else self.model
        self.sum = self.sum + (self.model if self.settings.published else self.released)
        self.rounds += 1
        return {MODEL: self.released}

    def _begin(self) -> None:
        """Randomize the labels, unless they came so, and draw the noise of the objective."""
        self._use(self.data.labels if self.settings.randomized else self._randomized())
        if self.settings.objective_noise:
            spread = 2.0 * self.release.uniform(self.size) - 1.0
            self.objective_noise = self.settings.objective_noise * spread

    def _randomized(self) -> Vector:
        """Each label, randomized once with its own epsilon."""
        own = self.settings.label_epsilons.get(self.place.name)
        epsilons = np.full(self.data.rows.n, self.settings.label_epsilon) if own is None else np.array(own)
        outcome = np.empty(self.data.rows.n)
        for epsilon in np.unique(epsilons):
            group = epsilons == epsilon
            symbols = (self.data.labels[group] > 0).astype(np.int64)
            outcome[group] = 2.0 * self.release.respond(labels_at(float(epsilon)), symbols) - 1.0
        return outcome

    def _use(self, outcome: Vector) -> None:
        """Go on with randomized labels alone."""
        own = self.settings.label_epsilons.get(self.place.name)
        loss = self.problem.loss
        self.loss = modified(loss, self.settings.label_epsilon) if own is None else modified_rows(loss, np.array(own))
        self.data = NodeData(self.data.rows, outcome)

    def state(self) -> Arrays:
        """Arrays from which `restore` goes on; randomized labels, never true ones."""
        state = {**super().state(), "sum": self.sum, "rounds": np.array([float(self.rounds)])}
        if self.rounds:
            state |= {"labels": self.data.labels, "objective_noise": self.objective_noise}
        return state

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        super().restore(state)
        self.sum, self.rounds = state["sum"], int(state["rounds"][0])
        if self.rounds:
            self.objective_noise = state["objective_noise"]
            self._use(state["labels"])


PDML = PrivateConsensus("pdml", PdmlNode)


# --- Randomized labels and decaying noise (pdml): from what was asked to noise, planned releases and a certificate


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
GIVEN = "labels that were randomized by their contributors, and decaying noise on each node's model"
THEOREM = "decaying noise on models (docs/proofs/pdml.md, theorem 2)"


class Pdml(Mechanism[SampleSplit]):
    """Labels that are randomized once, and decaying noise on each node's model."""

    name = "pdml"
    split = SampleSplit.split
    noise_at_nodes = True
    summary = "labels that are randomized once, and decaying noise on each node's model"
    takes_given_labels = True

    def plan(self, request: MechanismRequest, layout: SampleSplit) -> PrivatePlan:
        """Plan the method; refuse what no theorem covers."""
        return _plan(self, request, layout)

    def is_default(self, privacy: Privacy, *, given_labels: bool) -> bool:
        """It is what a sample split gets whose labels are randomized, or came so."""
        return given_labels or privacy.label_epsilon is not None

    def describe(self, *, given_labels: bool = False) -> str:
        """What it does, in one line; labels that came randomized are used as they are."""
        return GIVEN if given_labels else self.summary


def _plan(mechanism: Pdml, request: MechanismRequest, layout: SampleSplit) -> PrivatePlan:
    privacy, problem = request.privacy, request.problem
    papers.refuse("pdml", request, layout, labels=True)
    options = papers.options_of(request)
    options.refuse("pdml", "objective_noise", "first_sd", "decay", "label_epsilons", "randomized")
    epsilons = _label_epsilons(privacy, options, layout)
    weight = options.loss_weight or (1.0 if request.published else None)
    rounds = papers.rounds_of(options, request, ROUNDS)
    slopes = {name: modified(problem.loss, min(own)).lipschitz for name, own in epsilons.items()}
    size = layout.columns + int(problem.fit_intercept)
    pull = papers.gaussian_pull(request, layout, size, rounds, max(slopes.values()))
    nodes = papers.bounds(privacy, problem, layout, "pdml", weight, pull)
    nodes = [replace(one, slope=slopes[one.name]) for one in nodes]
    perturbed = privacy.epsilon is not None or options.first_sd is not None
    objective = options.objective_noise if options.objective_noise is not None else float(request.published)
    found = {node.name: _plan_node(node, epsilons[node.name], rounds, objective, privacy, options) for node in nodes}
    events = {name: one.events for name, one in found.items()}
    if perturbed and not request.published:
        papers.check_spent("pdml", privacy, events)
    given = {
        name: tuple(own) for name, own in epsilons.items() if options.label_epsilons and name in options.label_epsilons
    }
    settings = PdmlSettings(
        papers.row_norm("pdml", privacy, layout),
        rounds,
        {name: one.numbers for name, one in found.items()},
        request.published,
        privacy.label_epsilon or 1.0,
        given,
        objective,
        perturbed,
        options.randomized,
    )
    return PrivatePlan(
        privacy=privacy,
        mechanism=mechanism,
        solver=PDML,
        settings=settings,
        releases={name: tuple(one.planned) for name, one in found.items()},
        certificate=_certificate(request, layout, rounds, events, epsilons, objective, options.randomized),
        rounds=rounds,
        noise={f"model of {name}: first deviation": one.spread for name, one in found.items()},
        outlook=(f"labels are flipped with probability up to {_most_flips(epsilons):.3g}",),
        models_are_released=not request.published,
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


def _label_epsilons(privacy: Privacy, options: PaperOptions, layout: SampleSplit) -> dict[str, tuple[float, ...]]:
    """By node: the epsilon of each row's label, or one for all."""
    given = options.label_epsilons or {}
    if options.randomized and set(given) != set(layout.graph.names):
        raise InputError("randomized=True needs label_epsilons of every node: give those at which they were randomized")
    for name, own in given.items():
        if name not in layout.graph.names:
            raise InputError(f"label_epsilons name {show(name)}, which is no node: give one entry for each node")
        rows = layout.rows[layout.graph.number(name)]
        if len(own) != rows:
            raise InputError(f"label_epsilons of {name} are {len(own)}: the node has {rows} rows, give one for each")
    missing = [name for name in layout.graph.names if name not in given]
    if missing and privacy.label_epsilon is None:
        raise InputError(
            f"mechanism='pdml' needs label_epsilon: nothing says how to randomize the labels of {missing[0]}"
        )
    found = {}
    for name in layout.graph.names:
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
    start = node.sensitivity * math.sqrt(squares) / mu

    def events(first: float) -> list[Event]:
        pairs = _pairs(node, _decaying(first, options.decay, rounds), objective)
        return papers.gaussian_events(pairs, "", node.name, privacy)

    refused = InputError(
        f"epsilon={asked:g} cannot be reached with decay={options.decay:g}: give fewer rounds, or decay=1"
    )
    return calibrate(events, papers.budget_of(privacy), start, 1 + 1e-6, otherwise=refused, most=100)


# --- what is claimed ---------------------------------------------------------------------------------


def _unprotected(name: str, privacy: Privacy) -> NotPrivate:
    reason = f"the rows of {name} but for their labels: models leave without noise, since no epsilon was asked"
    return NotPrivate(reason, released="models", party=name, neighbours=privacy.neighbours)


def _certificate(
    request: MechanismRequest,
    layout: SampleSplit,
    rounds: int,
    events: Mapping[str, Sequence[Event]],
    epsilons: Mapping[str, Sequence[float]],
    objective: float,
    before: bool,
) -> Certificate:
    privacy = request.privacy
    records = privacy.epsilon is not None or not any(isinstance(e, NotPrivate) for own in events.values() for e in own)
    claims = label_claims(epsilons, privacy.neighbours)
    others = MESSAGES if request.published else OTHERS
    if records:
        claims += [Claim("record", n, privacy.neighbours, others, tuple(own), THEOREM) for n, own in events.items()]
    who = BEFORE if before else CONTRIBUTORS
    asked = privacy.epsilon is not None and records and not request.published
    return paper_certificate(
        privacy,
        layout,
        claims,
        rounds=rounds,
        theorem=THEOREM if records else LABEL_THEOREM,
        said=_said(epsilons),
        covers=_covers(records, rounds, before),
        missing=_missing(request.published, records, objective),
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
