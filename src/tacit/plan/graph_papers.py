"""What the plans of the papers' private methods have in common: public bounds, refusals, and what is accounted.

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

from tacit.algorithms.base import Problem
from tacit.algorithms.block import ROWS_AT_ONCE
from tacit.algorithms.consensus.papers import NodeNumbers
from tacit.errors import InputError
from tacit.plan.private import GraphSizes
from tacit.privacy import accountant
from tacit.privacy.events import Event, GaussianRelease, NormRelease
from tacit.privacy.fields import show
from tacit.privacy.paper_options import PaperOptions
from tacit.privacy.randomness import grid_sensitivity, sd_for
from tacit.privacy.releases import Planned
from tacit.privacy.request import Privacy

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


def options_of(sizes: GraphSizes) -> PaperOptions:
    """The options of a plan."""
    if sizes.options is None:
        return PaperOptions()
    if not isinstance(sizes.options, PaperOptions):
        raise InputError(f"options={show(sizes.options)} is not allowed: give tacit.PaperOptions(...)")
    return sizes.options


def refuse(method: str, privacy: Privacy, problem: Problem, sizes: GraphSizes, *, labels: bool = False) -> None:
    """Refuse what no theorem covers, in one line."""
    loss, penalty = problem.loss, problem.regularizer
    instead = "'logistic'" if loss.task == "classification" else "'huber'"
    reasons = (
        (
            labels and loss.task != "classification",
            f"loss={loss.name!r}: labels that are numbers are not randomized, so use method='primal' with loss='huber'",
        ),
        (
            privacy.mechanism != "auto",
            f"mechanism={privacy.mechanism!r}: it belongs to the feature split, so leave it out",
        ),
        (privacy.refit, "refit=True: it belongs to the feature split, so leave it out"),
        (privacy.epsilon_by_party is not None, "epsilon_by_party: it belongs to method='gaussian', so leave it out"),
        (privacy.honest is not None, "honest: it belongs to method='gaussian' on a star, so leave it out"),
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


def bounds(
    privacy: Privacy, problem: Problem, sizes: GraphSizes, method: str, weight: float | None, pull: float = USUAL_PULL
) -> list[NodeBounds]:
    """The public numbers of every node; `pull` is 2 eta N_p of the mean node, where the user gave no rho."""
    length = math.hypot(row_norm(method, privacy, sizes), 1.0 if problem.fit_intercept else 0.0) * (1 + 1e-12)
    loss, found = problem.loss, []
    penalty = problem.rho
    if penalty is None:
        mean = sum(sizes.graph.degrees) / sizes.graph.nodes
        of_mean = weight or 1.0 / sizes.graph.nodes
        penalty = min(pull, MOST_PULL) / 2 * of_mean * loss.curvature * length**2 / max(mean, 1.0)
    for name, rows, degree in zip(sizes.graph.names, sizes.rows, sizes.graph.degrees, strict=True):
        own = rows / sizes.total if weight is None else weight
        ridge = problem.alpha * problem.regularizer.l2 * own
        modulus = (0.0 if problem.fit_intercept else ridge) + 2 * penalty * degree
        size = sizes.columns + int(problem.fit_intercept)
        found.append(
            NodeBounds(name, rows, degree, own, ridge, penalty, modulus, length, loss.lipschitz, loss.curvature, size)
        )
    return found


def gaussian_pull(privacy: Privacy, sizes: GraphSizes, size: int, rounds: int, slope: float = 1.0) -> float:
    """How strongly to pull towards neighbours under Gaussian noise on models.

    The noise of a round has the norm 2 L b sqrt(rounds size) / (rows mu m): this m makes it as long as a model whose
    scores are near 1. Less noise, then, lets nodes move further in a round. Found on generated rows.
    """
    if privacy.epsilon is None or sizes.published:
        return USUAL_PULL
    rows = sizes.total / sizes.graph.nodes
    return slope * math.sqrt(rounds * size) / (rows * accountant.gdp_mu(privacy.epsilon, privacy.delta))


# --- rounds and the noise that hides digits ----------------------------------------------------------


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
    """The same request with a little less epsilon: for rounding, or for a second accountant that rounds upwards."""
    if privacy.epsilon is None:
        return privacy
    return replace(privacy, epsilon=privacy.epsilon * (1 - (1e-9 if privacy.accountant == "gdp" else 5e-3)))
