"""From the privacy asked of a whole run back to its noise; never less privacy than asked.

Every function asks the accountant about its own answer before it gives it. T Gaussian releases of L2 sensitivity D
and standard deviation s_t are together mu-GDP with mu^2 = sum_t (D/s_t)^2, so a budget is a mu^2 that can be split.
Proofs: docs/proofs/composition.md, sections 2, 3 and 7.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tacit.errors import InputError, RunError
from tacit.privacy import accountant
from tacit.privacy.events import UNITS, Event, GaussianRelease, RandomizedResponse
from tacit.records import as_choice, as_whole, positive, probability

_Key = TypeVar("_Key")
_NUDGE = 1e-12
_MOST_STEPS = 1000


@dataclass(frozen=True)
class Budget:
    """What a run may spend: epsilon at delta, by the accountant that was asked for and by the exact one."""

    epsilon: float
    delta: float
    accountant: str = "gdp"

    def spent(self, events: Sequence[Event]) -> float:
        """Epsilon of some events by the accountant that was asked for, and never below the exact one."""
        own = accountant.epsilon(events, self.delta)
        return own if self.accountant == "gdp" else max(own, accountant.second_opinion(events, self.delta))

    @property
    def step(self) -> float:
        """By how much a search moves at once: rounding errors, or the coarser ones of a second opinion."""
        return _NUDGE if self.accountant == "gdp" else 1e-5


def calibrate(
    events: Callable[[float], Sequence[Event]],
    budget: Budget,
    start: float,
    factor: float,
    *,
    otherwise: Exception,
    most: int = _MOST_STEPS,
) -> float:
    """The first of start, start * factor, start * factor^2, ... whose events stay within a budget.

    Parameters
    ----------
    events : callable
        What a run releases, given the number that is searched for: a noise, or the size of a release.
    budget : Budget
    start, factor : float
        Where to begin, and by how much to move towards more noise; the start is near the answer.
    otherwise : Exception
        What to raise after `most` steps.
    """
    value = start
    for _ in range(most):
        if budget.spent(events(value)) <= budget.epsilon:
            return value
        value *= factor
    raise otherwise


def budget_mu(epsilon: float, delta: float, beside: Sequence[Event] = ()) -> float:
    """Largest mu of all Gaussian releases of a run that is (epsilon, delta)-DP together with the events `beside` them.

    Raises
    ------
    InputError
        Where `beside` alone spends more than was asked, or epsilon or delta is out of range.
    """
    epsilon, delta = _asked(epsilon, delta)
    if not beside:
        return accountant.gdp_mu(epsilon, delta)
    alone = accountant.epsilon(beside, delta)
    if alone >= epsilon:
        raise InputError(
            f"epsilon={epsilon:g} is spent before any noise is calibrated: the other releases take {alone:.6g}; "
            "raise epsilon, or lower theirs"
        )
    mu = accountant.largest(lambda mu: accountant.delta([_gaussian(mu), *beside], epsilon) <= delta, epsilon)
    return _nudge(mu, 1 - _NUDGE, lambda mu: [_gaussian(mu), *beside], epsilon, delta)


def noise_for(
    epsilon: float, delta: float, sensitivity: float, releases: int = 1, beside: Sequence[Event] = ()
) -> float:
    """Standard deviation for each of `releases` Gaussian releases, so that the run is (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon, delta : float
        Asked of the whole run; epsilon > 0 and 0 < delta < 1.
    sensitivity : float
        L2 sensitivity of each release.
    releases : int
        How many, over all rounds.
    beside : sequence of events
        What else is released about the same unit, labels say (`label_events`).

    Returns
    -------
    float
        The smallest such deviation to about 12 digits, rounded up.
    """
    size = positive(sensitivity, "sensitivity")
    count = as_whole(releases, "releases", 1)
    noise = size * math.sqrt(count) / budget_mu(epsilon, delta, beside)
    return _nudge(noise, 1 + _NUDGE, lambda s: [GaussianRelease(size, s, count), *beside], epsilon, delta)


def largest_for(epsilon: float, delta: float, events: Callable[[float], Sequence[Event]]) -> float:
    """Largest size x with which the run of `events(x)`, whose loss grows with x, is (epsilon, delta)-DP.

    Raises
    ------
    InputError
        Where no x is small enough, or epsilon or delta is out of range.
    """
    epsilon, delta = _asked(epsilon, delta)
    size = accountant.largest(lambda x: accountant.delta(events(x), epsilon) <= delta if x > 0 else True, epsilon, 1e-7)
    if size < 1e-12 * epsilon:
        raise InputError(f"epsilon={epsilon:g} is spent before any noise is calibrated: raise epsilon")
    return _nudge(size, 1 - _NUDGE, events, epsilon, delta)


def split_mu(mu: float, weights: Mapping[_Key, float]) -> dict[_Key, float]:
    """Split mu^2 between groups of releases in proportion to their weights: sum of the mu_g^2 <= mu^2."""
    mu = positive(mu, "mu")
    if not weights:
        raise InputError("no weights were given: give one for each group of releases")
    shares = {key: positive(weight, f"weight of {key!r}") for key, weight in weights.items()}
    total = math.fsum(shares.values())
    parts = {key: mu * math.sqrt(share / total) for key, share in shares.items()}
    while math.fsum(part * part for part in parts.values()) > mu * mu:
        parts = {key: part * (1 - 1e-15) for key, part in parts.items()}
    return parts


def label_events(label_epsilon: float | None, unit: str, party: str = "") -> tuple[Event, ...]:
    """What randomized labels add to a unit of rows held elsewhere: a person has a label, such a row has none."""
    as_choice(unit, "unit", UNITS)
    if label_epsilon is None or unit != "person":
        return ()
    size = positive(label_epsilon, "label_epsilon")
    return (RandomizedResponse(size, released="the label, randomized once", party=party, unit="label"),)


def _asked(epsilon: float, delta: float) -> tuple[float, float]:
    return positive(epsilon, "epsilon"), positive(probability(delta, "delta"), "delta")


def _gaussian(mu: float) -> GaussianRelease:
    return GaussianRelease(mu, 1.0)


def _nudge(
    value: float, factor: float, events: Callable[[float], Sequence[Event]], epsilon: float, delta: float
) -> float:
    """Move `value` by rounding errors until the accountant agrees that the run spends no more than asked."""
    refused = RunError(f"no noise could be proven to give epsilon={epsilon:g} at delta={delta:g}: ask for other values")
    return calibrate(events, Budget(epsilon, delta), value, factor, otherwise=refused)
