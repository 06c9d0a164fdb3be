"""Whether one more job fits a budget of (epsilon, delta), where jobs may be chosen after seeing what earlier ones gave.

The exact accountant adds up releases whose bounds were fixed beforehand. Over jobs that people choose by looking at
earlier results it is no sound stopping rule: which curve is added next may depend on what was seen. So a budget is kept
on a scale on which costs add up as numbers, and whatever is chosen next, the sum stays below a fixed allowance:

| scale | cost of a release | allowance | proof |
|---|---|---|---|
| pure | its pure epsilon | epsilon, at delta 0 | budget.md, 2 |
| gaussian | mu^2 of a Gaussian that dominates it | the mu^2 whose curve passes (epsilon, delta) | budget.md, 3 |
| renyi | its Renyi divergence of one order | that which implies (epsilon, delta) | budget.md, 4 |
| once | - | one job, by the exact accountant | budget.md, 5 |

The scale is a function of the budget and of the first job alone. "pure" is always tried beside it: its delta is 0.

| symbol | meaning |
|---|---|
| mu | parameter of a Gaussian: sensitivity over standard deviation |
| p, q | probabilities of randomized response: of the true symbol, of each other one |
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special

from tacit.privacy import accountant, curves, direction
from tacit.privacy.accountant import Sums, add_up
from tacit.privacy.events import Event
from tacit.records import Record, as_choice, as_number, as_record, at_least, check_names, probability

KINDS = ("gaussian", "renyi", "once")
ORDERS = tuple(1 + 2 ** (step / 4) for step in range(-8, 41))  # of a Renyi divergence: 1.25 to 1025
COMPANY = 0.25  # part of the allowance, as Gaussian releases, that a scale should serve beside the first job
UPWARDS = 1 + 1e-14  # covers the rounding of a correctly rounded sum
QUANTILE = 1e-12  # covers the rounding of quantiles of a normal law

PROMISE = (
    "the budget holds whatever jobs are chosen by looking at the results of earlier ones; the epsilon on the way is "
    "that of the same jobs, had all been fixed beforehand"
)

Job = Sequence[Event]


@dataclass(frozen=True)
class Scale:
    """On what costs add up.

    Attributes
    ----------
    kind : {"gaussian", "renyi", "once"}
    order : float
        Of the Renyi divergence; 0 for the others.
    """

    kind: str
    order: float = 0.0

    def record(self) -> Record:
        """The kind and order of the filter as plain values, for the ledger."""
        return {"kind": self.kind, "order": self.order}


def scale_from_record(value: object, where: str) -> Scale:
    """The scale that `Scale.record` wrote."""
    record = as_record(value, where)
    check_names(record, where, ("kind", "order"))
    kind = as_choice(record["kind"], f"{where}.kind", KINDS)
    order = as_number(record["order"], f"{where}.order")
    return Scale(kind, at_least(order, f"{where}.order", ORDERS[0]) if kind == "renyi" else 0.0)


def choose_scale(first: Job, epsilon: float, delta: float) -> Scale:
    """The scale of a budget whose first job is `first`: the one that leaves most for jobs after it.

    Of the scales on which the first job fits, it is the one on which the job and some Gaussian company take the
    smallest part. Where it fits on none, but fits by the exact accountant, the budget is for this job alone.
    """
    if delta == 0:
        return Scale("once")  # nothing but "pure" can hold at delta 0
    scales = [Scale("gaussian"), *(Scale("renyi", order) for order in ORDERS)]
    rooms = {scale: allowance(scale, epsilon, delta) for scale in scales}
    usable = [scale for scale in scales if rooms[scale] > 0]
    fitting = [scale for scale in usable if cost(first, scale) <= rooms[scale]]
    if not fitting and accountant.pure_epsilon(first) > epsilon:
        return Scale("once")
    company = COMPANY * accountant.gdp_mu(epsilon, delta) ** 2
    return min(
        fitting or usable,
        key=lambda scale: (cost(first, scale) + _gaussian_cost(company, scale)) / rooms[scale],
        default=Scale("once"),
    )


def fits(jobs: Sequence[Job], scale: Scale, epsilon: float, delta: float) -> bool:
    """Whether all jobs together stay within (epsilon, delta), however each was chosen by the results before it."""
    epsilon, delta = at_least(epsilon, "epsilon", 0), probability(delta, "delta")
    together = [event for job in jobs for event in job]
    if add_up(together).reasons:
        return False
    if accountant.pure_epsilon(together) <= epsilon:
        return True
    exact = scale.kind == "once" and sum(spends(job) for job in jobs) <= 1
    if exact or (scale.kind == "gaussian" and not add_up(together).discrete):  # whose epsilon grows with the cost alone
        return accountant.epsilon(together, delta) <= epsilon
    return scale.kind != "once" and delta > 0 and cost(together, scale) <= allowance(scale, epsilon, delta)


def spends(job: Job) -> bool:
    """Whether anything about a unit can be learnt from the job."""
    sums = add_up(job)
    return bool(sums.reasons or sums.gaussian or sums.discrete)


def share(jobs: Sequence[Job], scale: Scale, epsilon: float, delta: float) -> float:
    """Part of the budget that the jobs take: at most 1 where they fit, infinite where nothing bounds them."""
    together = [event for job in jobs for event in job]
    if not spends(together):
        return 0.0
    parts = [accountant.pure_epsilon(together) / epsilon if epsilon > 0 else math.inf]
    room = allowance(scale, epsilon, delta) if delta > 0 and scale.kind != "once" else 0.0
    if room > 0:
        parts.append(cost(together, scale) / room)
    return min(*parts, 1.0) if fits(jobs, scale, epsilon, delta) else min(parts)


# --- costs and allowances ----------------------------------------------------------------------------


def cost(events: Job, scale: Scale) -> float:
    """What events cost on a scale, rounded up; infinite where nothing is proven of one of them."""
    sums = add_up(events)
    if sums.reasons:
        return math.inf
    parts = [_gaussian_cost(sums.mu**2, scale)]
    if scale.kind == "gaussian":
        parts += [count * _response_mu(size, symbols) ** 2 for (size, symbols), count in sums.response.items()]
        parts += [
            count * _response_mu((change + volume) * UPWARDS, 2) ** 2
            for (change, volume, _), count in sums.norm.items()
        ]
    else:
        parts += _renyi_parts(sums, scale.order)
    return math.fsum(parts) * UPWARDS


def allowance(scale: Scale, epsilon: float, delta: float) -> float:
    """The largest sum of costs that implies (epsilon, delta), rounded down; 0 or less where there is none."""
    if scale.kind == "gaussian":
        return accountant.gdp_mu(epsilon, delta) ** 2 / UPWARDS
    order = scale.order
    room = epsilon + (math.log(delta) + math.log(order)) / (order - 1) - math.log1p(-1 / order)
    return room - 1e-12 * (epsilon - math.log(delta)) / min(order - 1, 1.0)


def _gaussian_cost(square: float, scale: Scale) -> float:
    """Of Gaussian releases with this sum of mu^2."""
    return square if scale.kind == "gaussian" else scale.order * square / 2


@lru_cache(maxsize=512)
def _response_mu(epsilon: float, symbols: int) -> float:
    """The least mu whose Gaussian dominates randomized response, rounded up (budget.md, lemma 1)."""
    other = math.exp(-epsilon) / (1 + (symbols - 1) * math.exp(-epsilon))
    kept = 1 / (1 + (symbols - 1) * math.exp(-epsilon))
    if other < 1e-300:
        return math.inf
    # by p + (k - 1) q = 1 the quantile of p is that of the rest, which keeps its digits where p is near 1
    above = -special.ndtri((symbols - 1) * other) if kept > 0.5 else special.ndtri(kept)
    return float(above - special.ndtri(other)) * (1 + QUANTILE) + (QUANTILE if epsilon > 0 else 0.0)


def _renyi_parts(sums: Sums, order: float) -> list[float]:
    """Costs of all that is not Gaussian."""
    parts = [count * _renyi(curves.response(size, k, 1), size, order) for (size, k), count in sums.response.items()]
    for (change, volume, size), count in sums.norm.items():
        pure = (change + volume) * UPWARDS
        parts.append(count * _renyi(direction.losses(change, volume, size, 1), pure, order))
    return parts


def _renyi(losses: curves.Losses | None, pure: float, order: float) -> float:
    """Renyi divergence of a dominating pair, from its loss; never above the pure epsilon."""
    if losses is None:
        return pure
    masses = losses.masses * (1 + curves.SLACK) + curves.TINY
    total = float(special.logsumexp((order - 1) * losses.values + np.log(masses)))
    return min(pure, max(total / (order - 1), 0.0) * (1 + 1e-13))
