"""What the plans of the papers' private methods have in common: options, public bounds, refusals, events, certificates.

| symbol | here | meaning |
|---|---|---|
| C | weight | of a node's mean loss; by default its share of all rows, so that the parts add up to the objective |
| rho | ridge | alpha C: then the nodes' parts together have the estimator's alpha, whatever C is |
| eta | penalty | of the distance from neighbours: the estimator's `rho`, or from public sizes |
| L, c1 | slope, bend | bounds on the first and second derivative of the loss |
| b | length | bound on the norm of a row, its 1 for the intercept included |
| m | modulus | strong convexity of a round: rho + 2 eta N_p, without rho where there is an intercept |

Nothing here depends on the data.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tacit.blocks.dense import ROWS_AT_ONCE
from tacit.errors import InputError
from tacit.mechanisms.base import MechanismRequest
from tacit.mechanisms.perturbed import NodeNumbers
from tacit.privacy import accountant
from tacit.privacy.calibration import Budget
from tacit.privacy.certificate import OTHER_RUNS, Certificate, at_several_parties
from tacit.privacy.claim import Claim, Target
from tacit.privacy.events import Event, GaussianRelease, NormRelease
from tacit.privacy.randomness import grid_sensitivity, sd_for
from tacit.privacy.releases import Planned
from tacit.privacy.request import SEEDED, PaperOptions, Privacy, check_positive
from tacit.records import show
from tacit.solvers.base import Problem
from tacit.topologies import SampleSplit

# --- Options of the papers' private methods beside public sizes: alpha_p(t) of every node and round


def given_alphas(
    options: PaperOptions, request: MechanismRequest, layout: SampleSplit, usual: int
) -> dict[str, tuple[float, ...]] | None:
    """alpha_p(t) by node, one for each round, as they were given; None where they were not."""
    given = options.alphas
    if given is None:
        return None
    by_node = dict(given) if isinstance(given, Mapping) else dict.fromkeys(layout.graph.names, given)
    for name in by_node:
        if name not in layout.graph.names:
            raise InputError(f"alphas name {show(name)}, which is no node: give one entry for each node")
    missing = [name for name in layout.graph.names if name not in by_node]
    if missing:
        raise InputError(f"alphas say nothing about node {missing[0]!r}: give it a number, or one for each round")
    lengths = {len(value) for value in by_node.values() if isinstance(value, Sequence)}
    if options.rounds is not None:
        lengths.add(options.rounds)
    if len(lengths) > 1:
        raise InputError(f"alphas and rounds ask for {sorted(lengths)} rounds: give every node the same number")
    count = lengths.pop() if lengths else min(request.max_rounds, usual)
    if not 1 <= count <= request.max_rounds:
        raise InputError(f"alphas are given for {count} rounds: give 1 to max_rounds={request.max_rounds}")
    return {name: _spread(name, by_node[name], count) for name in layout.graph.names}


def _spread(name: str, value: float | Sequence[float], count: int) -> tuple[float, ...]:
    values = tuple(value) if isinstance(value, Sequence) else (value,) * count
    return tuple(check_positive(f"alpha of {name} in round {t}", one) for t, one in enumerate(values, 1))


# --- What the plans of the papers' private methods have in common: public bounds, refusals, and what is accounted


PRECISION = 1e-11  # gradient norm to be reached, relative to what a gradient is summed from; rounding is near 1e-15
HIDING = 1e-3  # part of the whole mu that noise may take which hides the last digits of a release
UNIT = 2.0**-53
FAR = 10.0  # reach of a model that is taken in, in units of how far a round and its noise can move one
FAR_SCORE = 1e3  # the same in units of the score at which the slope of a loss has changed by all of itself
USUAL_PULL = 0.08  # 2 eta N_p of the mean node without noise, in units of C times loss curvature times squared length
MOST_PULL = 4.0


@dataclass(frozen=True)
class NodeBounds:
    """Public numbers of one node, and what a row can change at it."""

    name: str
    rows: int
    degree: int
    weight: float
    ridge: float
    penalty: float
    modulus: float
    length: float
    slope: float
    bend: float
    size: int

    @property
    def per_row(self) -> float:
        """C/B_p."""
        return self.weight / self.rows

    @property
    def change(self) -> float:
        """How far two gradients of a row's loss can be apart: 2 L b."""
        return 2 * self.slope * self.length

    @property
    def sensitivity(self) -> float:
        """How far replacing a row can move an exact minimiser: (C/B_p) 2 L b / m."""
        return self.per_row * self.change / self.modulus

    def numbers(self, spread: float, extra: tuple[float, ...] = (), noises: tuple[float, ...] = ()) -> NodeNumbers:
        """What the node works with.

        Parameters
        ----------
        spread : float
            Size of the noise in models or, times m, in gradients.
        extra, noises : tuple of float
            phi of each round, and the largest norm of the noise in its objective; one 0 where there is none.
        """
        push, bend = self.weight * self.slope * self.length, self.weight * self.bend * self.length**2
        least = self.modulus + min(extra, default=0.0)
        reach = max(FAR * (push / least + spread), FAR_SCORE * self.slope / (self.bend * self.length))
        most = max(extra, default=0.0)
        rounds = list(zip(extra or (0.0,), noises or (0.0,), strict=True))
        linear = [2 * self.modulus * reach + noise for _, noise in rounds]
        far = [(size + 2 * push) / (self.modulus + phi) for size, (phi, _) in zip(linear, rounds, strict=True)]
        farthest = max(far) * 1.001
        tolerance = max(
            PRECISION * (push + (self.modulus + most) * spread), 2 * self._rounding(farthest, max(linear), most)
        )
        return NodeNumbers(self.weight, self.ridge, self.penalty, tolerance, reach, farthest, push, bend, extra)

    def _rounding(self, far: float, linear: float, extra: float) -> float:
        """Bound on the rounding of a gradient, and of a step along it, up to a norm of `far` (dynamic.md, 2)."""
        push, bend = self.weight * self.slope * self.length, self.weight * self.bend * self.length**2
        held = self.ridge + 2 * self.penalty * self.degree + extra
        scores = 2 * (self.size + 16) * UNIT * bend * far
        sums = (min(self.rows, ROWS_AT_ONCE) + self.rows / ROWS_AT_ONCE + 96) * UNIT * push
        return scores + sums + 64 * UNIT * (held * far + linear) + 4 * UNIT * (bend + held) * far


@dataclass
class PlannedNode:
    """What is planned for one node.

    Attributes
    ----------
    numbers : NodeNumbers
    spread : float
        About how far the noise of a round moves a model.
    planned, events : list
        What may be released, and what that costs.
    """

    numbers: NodeNumbers
    spread: float
    planned: list[Planned] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)


# --- what was asked ----------------------------------------------------------------------------------


def options_of(request: MechanismRequest) -> PaperOptions:
    """The options that were asked for."""
    if request.options is None:
        return PaperOptions()
    if not isinstance(request.options, PaperOptions):
        raise InputError(f"options={show(request.options)} is not allowed: give tacit.PaperOptions(...)")
    return request.options


def refuse(method: str, request: MechanismRequest, layout: SampleSplit, *, labels: bool = False) -> None:
    """Refuse what no theorem covers, in one line."""
    privacy, problem = request.privacy, request.problem
    loss, penalty = problem.loss, problem.regularizer
    instead = "'logistic'" if loss.task == "classification" else "'huber'"
    reasons = (
        (
            labels and loss.task != "classification",
            f"loss={loss.name!r}: labels that are numbers are not randomized, so use mechanism='primal' with "
            "loss='huber'",
        ),
        (privacy.refit, "refit=True: it belongs to the feature split, so leave it out"),
        (privacy.epsilon_by_party is not None, "epsilon_by_party: it belongs to mechanism='gaussian', so leave it out"),
        (privacy.honest is not None, "honest: it belongs to mechanism='gaussian' on a star, so leave it out"),
        (privacy.unit != "record", f"unit={privacy.unit!r}: a row is one record here, so use unit='record'"),
        (not loss.convex or not loss.smooth, f"loss={loss.name!r}: it must be convex and smooth, so use {instead}"),
        (
            not math.isfinite(loss.lipschitz) or not math.isfinite(loss.curvature),
            f"loss={loss.name!r}: its slope has no bound, and a row's influence has none either, so use {instead}",
        ),
        (
            penalty.form != "quadratic",
            f"penalty={penalty.name!r}: it must have a second derivative, so use 'l2' or 'none'",
        ),
        (
            not labels and privacy.label_epsilon is not None,
            "label_epsilon: it does not randomize labels, so use mechanism='pdml', or leave it out",
        ),
        (
            request.published and problem.fit_intercept,
            "fit_intercept=True in the published form: the paper has none, so add a column of ones, or leave it out",
        ),
        (
            layout.graph.nodes == 1 and (problem.fit_intercept or problem.alpha * penalty.l2 == 0),
            "a single node whose objective is not strongly convex: give alpha above 0 and fit_intercept=False",
        ),
    )
    for refused, reason in reasons:
        if refused:
            raise InputError(f"mechanism={method!r} does not fit {reason}")


def row_norm(method: str, privacy: Privacy, layout: SampleSplit) -> float:
    """The one norm of all rows."""
    norms = {privacy.norm_of(name) for name in layout.graph.names}
    if len(norms) > 1:
        raise InputError(f"mechanism={method!r} does not fit row_norm by node: give one number")
    return norms.pop()


def bounds(
    privacy: Privacy, problem: Problem, layout: SampleSplit, method: str, weight: float | None, pull: float = USUAL_PULL
) -> list[NodeBounds]:
    """The public numbers of every node; `pull` is 2 eta N_p of the mean node, where the user gave no rho."""
    length = math.hypot(row_norm(method, privacy, layout), 1.0 if problem.fit_intercept else 0.0) * (1 + 1e-12)
    loss, found = problem.loss, []
    penalty = problem.rho
    if penalty is None:
        mean = sum(layout.graph.degrees) / layout.graph.nodes
        of_mean = weight or 1.0 / layout.graph.nodes
        penalty = min(pull, MOST_PULL) / 2 * of_mean * loss.curvature * length**2 / max(mean, 1.0)
    for name, rows, degree in zip(layout.graph.names, layout.rows, layout.graph.degrees, strict=True):
        own = rows / layout.total if weight is None else weight
        ridge = problem.alpha * problem.regularizer.l2 * own
        modulus = (0.0 if problem.fit_intercept else ridge) + 2 * penalty * degree
        size = layout.columns + int(problem.fit_intercept)
        found.append(
            NodeBounds(name, rows, degree, own, ridge, penalty, modulus, length, loss.lipschitz, loss.curvature, size)
        )
    return found


def gaussian_pull(request: MechanismRequest, layout: SampleSplit, size: int, rounds: int, slope: float = 1.0) -> float:
    """How strongly to pull towards neighbours under Gaussian noise on models.

    The noise of a round has the norm 2 L b sqrt(rounds size) / (rows mu m): this m makes it as long as a model whose
    scores are near 1. Less noise, then, lets nodes move further in a round. Found on generated rows.
    """
    privacy = request.privacy
    if privacy.epsilon is None or request.published:
        return USUAL_PULL
    rows = layout.total / layout.graph.nodes
    return slope * math.sqrt(rounds * size) / (rows * accountant.gdp_mu(privacy.epsilon, privacy.delta))


# --- rounds and the noise that hides digits ----------------------------------------------------------


def rounds_of(options: PaperOptions, request: MechanismRequest, usual: int) -> int:
    """How many rounds to run."""
    return min(request.max_rounds, options.rounds or usual)


def needed_epsilon(method: str, privacy: Privacy) -> float:
    """The epsilon of the whole run; refused where there is none."""
    if privacy.epsilon is None:
        raise InputError(f"mechanism={method!r} needs epsilon: give it, or leave privacy out")
    return privacy.epsilon


def hiding_mu(privacy: Privacy, size: int, rounds: int) -> float:
    """GDP parameter of each release of the noise that hides last digits."""
    whole = accountant.gdp_mu(min(privacy.epsilon or 1.0, 10.0), privacy.delta)
    return max(HIDING * whole / math.sqrt(rounds), 8 * math.sqrt(size) * 2.0**-24)


def hiding(distance: float, mu: float, size: int) -> tuple[float, float]:
    """(deviation, sensitivity on its grid) of noise that hides where within `distance` of its ideal a release is."""
    sd = sd_for(mu, 2 * distance, size)
    return sd, grid_sensitivity(2 * distance, sd, size)


# --- what is accounted -------------------------------------------------------------------------------


def norm_events(parts: Iterable[tuple[float, float]], size: int, party: str, privacy: Privacy) -> list[Event]:
    """One event for each pair of what a row changes the noise by, and the volume."""
    return [
        NormRelease(
            change, size, volume, count,
            released=f"models of {count} rounds", party=party, neighbours=privacy.neighbours,
        )
        for (change, volume), count in sorted(Counter(parts).items())
    ]  # fmt: skip


def gaussian_events(pairs: Iterable[tuple[float, float]], what: str, party: str, privacy: Privacy) -> list[Event]:
    """One event for each pair of deviation and sensitivity."""
    return [
        GaussianRelease(size, sd, count, released=what, party=party, neighbours=privacy.neighbours)
        for (sd, size), count in sorted(Counter(pairs).items())
    ]


def budget_of(privacy: Privacy) -> Budget:
    """What each record may pay."""
    return Budget(math.inf if privacy.epsilon is None else privacy.epsilon, privacy.delta, privacy.accountant)


def check_spent(method: str, privacy: Privacy, events: Mapping[str, Sequence[Event]]) -> None:
    """Refuse a plan that spends more than was asked."""
    for name, own in events.items():
        total = budget_of(privacy).spent(own)
        if privacy.epsilon is not None and total > privacy.epsilon:
            raise InputError(
                f"mechanism={method!r} would spend epsilon {total:.6g} on each record of {name} over the whole run, "
                f"more than epsilon={privacy.epsilon:g}: lower alphas or the number of rounds, or raise epsilon"
            )


def calm(privacy: Privacy) -> Privacy:
    """The same request with a little less epsilon: for rounding, or for a second accountant that rounds upwards."""
    if privacy.epsilon is None:
        return privacy
    return replace(privacy, epsilon=privacy.epsilon * (1 - (1e-9 if privacy.accountant == "gdp" else 5e-3)))


# --- Certificates of the papers' private methods, in words


OTHERS = "all other nodes together, and anyone else who sees the messages of the run or the models"
MESSAGES = "all other nodes together, and anyone else who sees the messages of the run"
ROWS = "row_norm, alpha, rho, and any scaling of the columns before, were chosen without looking at the rows"
SOFTWARE = "the nodes run this software; the random bits of their operating systems are not predictable"
ARITHMETIC = (
    "floating-point sums and products are rounded as IEEE 754 says, in any order (docs/proofs/gram.md, section 7)"
)
LAW = (
    "the noise of density exp(-zeta |e|) is drawn from numbers of 53 bits in floating point: its law is taken "
    "for exact up to rounding"
)
EXACT = "each round sends the exact minimiser, in real numbers: the published form says nothing about rounding"
GENERAL = (
    "which rows took part, and how many: they are public here",
    OTHER_RUNS,
)


def paper_certificate(
    privacy: Privacy,
    layout: SampleSplit,
    claims: Sequence[Claim],
    *,
    rounds: int,
    theorem: str,
    said: str,
    covers: Iterable[str],
    missing: Iterable[str] = (),
    assumed: Iterable[str] = (),
    asked: bool = True,
    adversary: str = OTHERS,
    unit: str = "record",
) -> Certificate:
    """What the planned run proves; `said` is what the paper would have said of it."""
    seeded = () if privacy.noise_seed is None else (SEEDED,)
    sends = f"in each of {rounds} rounds a model of its own, {layout.columns} coefficients, to "
    return Certificate(
        unit=unit,
        adversary=adversary,
        covers=tuple(covers),
        does_not_cover=(*missing, *GENERAL, *at_several_parties(claims, privacy.delta)),
        per_party={name: sends + (", ".join(layout.graph.neighbours(name)) or "nobody") for name in layout.graph.names},
        theorem=theorem,
        published_claim=said,
        claims=tuple(claims),
        target=Target(privacy.epsilon if asked else None, privacy.delta),
        assumptions=(*seeded, ROWS, *assumed, SOFTWARE),
    )


def record_claims(privacy: Privacy, events: Mapping[str, Sequence[Event]], theorem: str) -> list[Claim]:
    """One claim for each node."""
    return [Claim("record", name, privacy.neighbours, OTHERS, tuple(own), theorem) for name, own in events.items()]


def each_round(alphas: Mapping[str, Sequence[float]]) -> str:
    """alpha_p(t) in words."""
    parts = []
    for name, own in alphas.items():
        low, high = min(own), max(own)
        parts.append(f"{low:.4g} at {name}" if low == high else f"{low:.4g} to {high:.4g} at {name}")
    rounds = len(next(iter(alphas.values())))
    kinds = {tuple(own) for own in alphas.values()}
    if len(kinds) == 1 and len(set(next(iter(kinds)))) == 1:
        parts = [f"{next(iter(kinds))[0]:.4g} at every node"]
    return (
        f"dynamic differential privacy with alpha = {', '.join(parts)}, in each of {rounds} rounds on its own; "
        "it does not add the rounds up"
    )
