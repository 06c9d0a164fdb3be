"""What the plans of the papers' private methods have in common: their options, public bounds, refusals, and checks.

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
import numbers
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tacit.algorithms.base import Problem
from tacit.algorithms.consensus.papers import NodeNumbers
from tacit.errors import InputError
from tacit.plan.graph import GraphSizes
from tacit.privacy import accountant
from tacit.privacy.events import Event, GaussianRelease, PureRelease
from tacit.privacy.fields import show
from tacit.privacy.randomness import grid_sensitivity, sd_for
from tacit.privacy.request import Privacy

PRECISION = 1e-11  # gradient norm to be reached, relative to what a gradient is summed from; rounding is near 1e-15
HIDING = 1e-3  # part of the whole mu that noise may take which hides the last digits of a release
AUTO_PENALTY = 0.05  # eta N_p of the mean node, in units of C times the loss curvature times the squared row length

Alphas = float | Sequence[float] | Mapping[str, float | Sequence[float]]


@dataclass(frozen=True)
class PaperOptions:
    """Parameters of the papers' methods, all public; what is left open follows from `Privacy` and public sizes.

    Attributes
    ----------
    alphas : float, sequence of float, or mapping of node to either, optional
        alpha_p(t) of dynamic: the pure epsilon of one round, of each round, or of each node's rounds. By default one
        number, from the epsilon and delta asked of the whole run. For "dual" and "primal".
    rounds : int, optional
        Rounds, where fewer than `max_rounds` are wanted; a sequence in `alphas` says it, too.
    loss_weight : float, optional
        C of dynamic (1 in pdml): weight of each node's mean loss.
    noise : {"gaussian", "norm"}, optional
        "primal": Gaussian noise on models, or the paper's, of density exp(-zeta |e|), which `alphas` ask for.
    last_round : {"dual", "primal"}, optional
        "primal": whether the last round is one of dual variable perturbation, as in the paper.
    objective_noise : float, optional
        R of pdml: bound on each entry of the noise that is drawn once. It earns nothing. 0, or 1 in the published form.
    first_sd : float, optional
        V of pdml: deviation of the noise of the first round; by default from the epsilon and delta that were asked.
    decay : float, default 0.9
        r of pdml: factor of the variance from one round to the next, up to 1.
    label_epsilons : mapping of node to sequence of float, optional
        pdml: the epsilon that each contributor chose for their own label, one for each row of the node. Nodes that are
        not named take `Privacy.label_epsilon`.
    """

    alphas: Alphas | None = None
    rounds: int | None = None
    loss_weight: float | None = None
    noise: str | None = None
    last_round: str | None = None
    objective_noise: float | None = None
    first_sd: float | None = None
    decay: float = 0.9
    label_epsilons: Mapping[str, Sequence[float]] | None = None

    def __post_init__(self) -> None:
        for name, allowed in (("noise", ("gaussian", "norm")), ("last_round", ("dual", "primal"))):
            value = getattr(self, name)
            if value is not None and value not in allowed:
                raise InputError(f"{name}={show(value)} is unknown: choose one of {', '.join(allowed)}")
        for name in ("loss_weight", "first_sd"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name))
        if self.objective_noise != 0 and self.objective_noise is not None:
            check_positive("objective_noise", self.objective_noise)
        if check_positive("decay", self.decay) > 1:
            raise InputError(f"decay={self.decay!r} is not allowed: it must be at most 1")
        if self.rounds is not None and (isinstance(self.rounds, bool) or not isinstance(self.rounds, int)):
            raise InputError(f"rounds={show(self.rounds)} is not allowed: it must be a whole number of at least 1")
        if self.rounds is not None and self.rounds < 1:
            raise InputError(f"rounds={self.rounds} is not allowed: it must be at least 1")

    def refuse(self, method: str, *allowed: str) -> None:
        """Refuse an option that belongs to another method."""
        defaults = PaperOptions()
        for name in self.__dataclass_fields__:
            if name not in allowed and name not in ("rounds", "loss_weight") and getattr(self, name) != getattr(defaults, name):
                raise InputError(f"option {name} does not belong to method={method!r}: leave it out")


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

    def numbers(self, spread: float, extra: tuple[float, ...] = ()) -> NodeNumbers:
        """What the node works with; `spread` is the size of the noise in models or, times m, in gradients."""
        scale = self.weight * self.slope * self.length + (self.modulus + max(extra, default=0.0)) * spread
        return NodeNumbers(self.weight, self.ridge, self.penalty, PRECISION * scale, extra)


# --- what was asked ----------------------------------------------------------------------------------


def options_of(sizes: GraphSizes) -> PaperOptions:
    """The options of a plan."""
    if sizes.options is None:
        return PaperOptions()
    if not isinstance(sizes.options, PaperOptions):
        raise InputError(f"options={show(sizes.options)} is not allowed: give tacit.plan.graph_papers.PaperOptions(...)")
    return sizes.options


def refuse(method: str, privacy: Privacy, problem: Problem, sizes: GraphSizes, *, labels: bool = False) -> None:
    """Refuse what no theorem covers, in one line."""
    loss, penalty = problem.loss, problem.regularizer
    reasons = (
        (privacy.mechanism != "auto", f"mechanism={privacy.mechanism!r}: it belongs to the feature split, so leave it out"),
        (privacy.refit, "refit=True: it belongs to the feature split, so leave it out"),
        (privacy.unit != "record", f"unit={privacy.unit!r}: a row is one record here, so use unit='record'"),
        (not loss.convex or not loss.smooth, f"loss={loss.name!r}: it must be convex and smooth, so use 'logistic'"),
        (
            not math.isfinite(loss.lipschitz) or not math.isfinite(loss.curvature),
            f"loss={loss.name!r}: its slope has no bound, and a row's influence has none either, so use 'logistic'",
        ),
        (penalty.form != "quadratic", f"penalty={penalty.name!r}: it must have a second derivative, so use 'l2'"),
        (
            not labels and privacy.label_epsilon is not None,
            "label_epsilon: it does not randomize labels, so use method='pdml', or leave it out",
        ),
        (
            sizes.published and problem.fit_intercept,
            "fit_intercept=True in the published form: the paper has none, so add a column of ones, or leave it out",
        ),
        (
            sizes.graph.nodes == 1 and (problem.fit_intercept or problem.alpha * penalty.l2 == 0),
            "a single node whose objective is not strongly convex: give alpha above 0 and fit_intercept=False",
        ),
    )
    for refused, reason in reasons:
        if refused:
            raise InputError(f"method={method!r} does not fit {reason}")


def row_norm(method: str, privacy: Privacy, sizes: GraphSizes) -> float:
    """The one norm of all rows."""
    norms = {privacy.norm_of(name) for name in sizes.graph.names}
    if len(norms) > 1:
        raise InputError(f"method={method!r} does not fit row_norm by node: give one number")
    return norms.pop()


def bounds(privacy: Privacy, problem: Problem, sizes: GraphSizes, method: str, weight: float | None) -> list[NodeBounds]:
    """The public numbers of every node."""
    length = math.hypot(row_norm(method, privacy, sizes), 1.0 if problem.fit_intercept else 0.0) * (1 + 1e-12)
    loss, found = problem.loss, []
    penalty = problem.rho
    if penalty is None:
        mean = sum(sizes.graph.degrees) / sizes.graph.nodes
        of_mean = weight or 1.0 / sizes.graph.nodes
        penalty = AUTO_PENALTY * of_mean * loss.curvature * length**2 / max(mean, 1.0)
    for name, rows, degree in zip(sizes.graph.names, sizes.rows, sizes.graph.degrees, strict=True):
        own = rows / sizes.total if weight is None else weight
        ridge = problem.alpha * problem.regularizer.l2 * own
        modulus = (0.0 if problem.fit_intercept else ridge) + 2 * penalty * degree
        size = sizes.columns + int(problem.fit_intercept)
        found.append(
            NodeBounds(name, rows, degree, own, ridge, penalty, modulus, length, loss.lipschitz, loss.curvature, size)
        )
    return found


def check_positive(name: str, value: object) -> float:
    """A finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 < float(value) < math.inf:
        raise InputError(f"{name}={show(value)} is not allowed: it must be a finite number above 0")
    return float(value)


# --- alpha_p(t) --------------------------------------------------------------------------------------


def given_alphas(options: PaperOptions, sizes: GraphSizes, usual: int) -> dict[str, tuple[float, ...]] | None:
    """alpha_p(t) by node, one for each round, as they were given; None where they were not."""
    given = options.alphas
    if given is None:
        return None
    by_node = dict(given) if isinstance(given, Mapping) else dict.fromkeys(sizes.graph.names, given)
    for name in by_node:
        if name not in sizes.graph.names:
            raise InputError(f"alphas name {show(name)}, which is no node: give one entry for each node")
    missing = [name for name in sizes.graph.names if name not in by_node]
    if missing:
        raise InputError(f"alphas say nothing about node {missing[0]!r}: give it a number, or one for each round")
    lengths = {len(value) for value in by_node.values() if isinstance(value, Sequence)}
    if options.rounds is not None:
        lengths.add(options.rounds)
    if len(lengths) > 1:
        raise InputError(f"alphas and rounds ask for {sorted(lengths)} rounds: give every node the same number")
    count = lengths.pop() if lengths else min(sizes.max_rounds, usual)
    if not 1 <= count <= sizes.max_rounds:
        raise InputError(f"alphas are given for {count} rounds: give 1 to max_rounds={sizes.max_rounds}")
    return {name: _spread(name, by_node[name], count) for name in sizes.graph.names}


def _spread(name: str, value: float | Sequence[float], count: int) -> tuple[float, ...]:
    values = tuple(value) if isinstance(value, Sequence) else (value,) * count
    return tuple(check_positive(f"alpha of {name} in round {t}", one) for t, one in enumerate(values, 1))


def rounds_of(options: PaperOptions, sizes: GraphSizes, usual: int) -> int:
    """How many rounds to run."""
    return min(sizes.max_rounds, options.rounds or usual)


def needed_epsilon(method: str, privacy: Privacy) -> float:
    """The epsilon of the whole run; refused where there is none."""
    if privacy.epsilon is None:
        raise InputError(f"method={method!r} needs epsilon: give it, or leave privacy out")
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


def pure_events(alphas: Iterable[float], party: str, privacy: Privacy) -> list[Event]:
    """One event for each value of alpha_p(t)."""
    return [
        PureRelease(value, count, released=f"models of {count} rounds", party=party, neighbours=privacy.neighbours)
        for value, count in sorted(Counter(alphas).items())
    ]


def gaussian_events(pairs: Iterable[tuple[float, float]], what: str, party: str, privacy: Privacy) -> list[Event]:
    """One event for each pair of deviation and sensitivity."""
    return [
        GaussianRelease(size, sd, count, released=what, party=party, neighbours=privacy.neighbours)
        for (sd, size), count in sorted(Counter(pairs).items())
    ]


def spent(privacy: Privacy, events: Sequence[Event]) -> float:
    """Epsilon of some events by the accountant that was asked for, and never below the exact one."""
    own = accountant.epsilon(events, privacy.delta)
    return own if privacy.accountant == "gdp" else max(own, accountant.second_opinion(events, privacy.delta))


def check_spent(method: str, privacy: Privacy, events: Mapping[str, Sequence[Event]]) -> None:
    """Refuse a plan that spends more than was asked."""
    for name, own in events.items():
        total = spent(privacy, own)
        if privacy.epsilon is not None and total > privacy.epsilon:
            raise InputError(
                f"method={method!r} would spend epsilon {total:.6g} on each record of {name} over the whole run, more "
                f"than epsilon={privacy.epsilon:g}: lower alphas or the number of rounds, or raise epsilon"
            )


def calm(privacy: Privacy) -> Privacy:
    """The same request with a little less epsilon: for a second accountant that rounds upwards."""
    if privacy.epsilon is None or privacy.accountant == "gdp":
        return privacy
    return replace(privacy, epsilon=privacy.epsilon * (1 - 2e-3))

