"""Adding up privacy events: the whole-run epsilon at a delta, and the delta at an epsilon.

`epsilon` and `delta` are the smallest of the bounds below; each holds for adaptive composition, so the smallest does.

| bound | holds for | proof |
|---|---|---|
| the exact curve of a Gaussian of mu^2 = sum mu_t^2 | Gaussian events | composition.md, 2 and 3 |
| the same, mixed over the discrete losses | all | composition.md, 4 to 7 |
| the sum of the epsilons | all but Gaussian events | composition.md, 4 |
| rho + 2 sqrt(rho log(1/delta)), rho = sum of mu^2/2 and epsilon^2/2 | all | composition.md, 8 |

`second_opinion` computes the same by other means: the privacy loss distributions of the library dp_accounting, or
numerical integration where delta is too small for these. The proofs are in docs/proofs/composition.md.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from tacit.errors import InputError
from tacit.privacy import curves, direction
from tacit.privacy.events import (
    BucketedResponse,
    Event,
    GaussianRelease,
    NormRelease,
    NotPrivate,
    PureRelease,
    RandomizedResponse,
    leaves,
)
from tacit.records import at_least, positive, probability, show
from tacit.types import Vector

# --- Events sorted into what can be added up: Gaussian releases, discrete losses, and what allows no claim


Events = Event | Iterable[Event]


@dataclass
class Sums:
    """The leaves of some events, sorted into what can be added up."""

    gaussian: Counter[tuple[float, float]] = field(default_factory=Counter)  # (sensitivity, noise) -> how often
    response: Counter[tuple[float, int]] = field(default_factory=Counter)  # (epsilon, symbols) -> how often
    norm: Counter[tuple[float, float, int]] = field(default_factory=Counter)  # (change, volume, size) -> how often
    reasons: list[str] = field(default_factory=list)  # why nothing can be claimed

    @property
    def mu(self) -> float:
        """GDP parameter of all Gaussian events together, rounded up."""
        try:
            square = math.fsum(count * (size / noise) ** 2 for (size, noise), count in self.gaussian.items())
        except OverflowError:
            return math.inf
        return math.sqrt(square) * (1 + 1e-15)

    @property
    def discrete(self) -> bool:
        """Whether anything beside Gaussian events was released."""
        return bool(self.response or self.norm)

    @property
    def epsilons(self) -> list[tuple[float, int]]:
        """Pure epsilons of all events but the Gaussian ones, and how often."""
        norm = [((change + volume) * (1 + 2**-52), count) for (change, volume, _), count in self.norm.items()]
        return [(epsilon, count) for (epsilon, _), count in self.response.items()] + norm

    @property
    def pure(self) -> float:
        """Sum of the epsilons of all events but the Gaussian ones, rounded up."""
        exact = sum((count * Fraction(epsilon) for epsilon, count in self.epsilons), Fraction(0))
        try:
            near = float(exact)
        except OverflowError:
            return math.inf
        return near if near >= exact else math.nextafter(near, math.inf)

    @property
    def rho(self) -> float:
        """Parameter of everything in zero-concentrated differential privacy, rounded up."""
        try:
            square = math.fsum(count * epsilon**2 for epsilon, count in self.epsilons)
            return (self.mu**2 + square) / 2 * (1 + 1e-14)
        except OverflowError:
            return math.inf


def add_up(events: Events) -> Sums:
    """Sort the leaves of the events; an event of an unknown type is refused."""
    sums = Sums()
    for event in (events,) if isinstance(events, Event) else _iterate(events):
        for leaf in leaves(event):
            _ADD[type(leaf)](sums, leaf)
    return sums


def _iterate(events: object) -> Iterable[object]:
    if isinstance(events, str | bytes) or not isinstance(events, Iterable):
        raise InputError(f"events={show(events)} is not allowed: give an event or a list of events")
    return events


def _add_gaussian(sums: Sums, event: Any) -> None:
    if event.sensitivity == 0:
        return
    if event.mu == math.inf:
        sums.reasons.append(f"noise={event.noise:g} is too small beside sensitivity={event.sensitivity:g}")
    else:
        sums.gaussian[(event.sensitivity, event.noise)] += event.count


def _add_response(sums: Sums, epsilon: float, symbols: int, count: int) -> None:
    if epsilon > 0:
        sums.response[(epsilon, symbols)] += count


def _add_norm(sums: Sums, event: Any) -> None:
    sums.norm[(event.change, event.volume, event.size)] += event.count


def _add_bucketed(sums: Sums, event: Any) -> None:
    if event.mu > 0:
        sums.gaussian[(event.mu, 1.0)] += 1
    _add_response(sums, event.epsilon, event.symbols, 1)


_ADD: dict[type[Event], Callable[[Sums, Any], None]] = {
    GaussianRelease: _add_gaussian,
    PureRelease: lambda sums, event: _add_response(sums, event.epsilon, 2, event.count),
    NormRelease: _add_norm,
    RandomizedResponse: lambda sums, event: _add_response(sums, event.epsilon, event.symbols, 1),
    BucketedResponse: _add_bucketed,
    NotPrivate: lambda sums, event: sums.reasons.append(event.reason),
}


# --- Adding up privacy events: the whole-run epsilon at a delta, and the delta at an epsilon


RESOLVED = 1e-12  # loss distributions are composed by Fourier transforms, which lose smaller deltas in rounding
STEPS = 32  # grid steps in the smallest loss of one event, for the library
LARGEST_GRID = 2**20
LARGEST_MU = 30.0
LARGEST_LOSS = 1e6


# --- the accountant ----------------------------------------------------------------------------------


def epsilon(events: Events, delta: float) -> float:
    """Smallest epsilon that can be proven for all events together at `delta`, rounded up.

    Parameters
    ----------
    events : event or iterable of events
        Everything that was released about one unit. Each may depend on what the others released before it.
    delta : float
        0 <= delta < 1; at 0 only pure events have a finite epsilon.

    Raises
    ------
    InputError
        For an event of an unknown type, or a delta out of range.
    """
    delta = probability(delta, "delta")
    sums = add_up(events)
    if sums.reasons:
        return math.inf
    bounds = [zcdp_epsilon(events, delta)]
    if not sums.gaussian:
        bounds.append(sums.pure)
    if delta > 0:
        bounds.append(_exact_epsilon(sums.mu, _key(sums.response), _key(sums.norm), delta))
    return min(bounds)


def delta(events: Events, epsilon: float) -> float:
    """Smallest delta that can be proven for all events together at `epsilon` >= 0, rounded up; never rounded to 0."""
    epsilon = at_least(epsilon, "epsilon", 0)
    sums = add_up(events)
    if sums.reasons:
        return 1.0
    if not sums.gaussian and epsilon >= sums.pure:
        return 0.0
    bounds = [_zcdp_delta(sums.rho, epsilon)]
    losses = _losses(sums)
    if losses is not None:
        bounds.append(_curve_delta(sums.mu, losses, epsilon))
    return max(min(bounds), 5e-324)


def pure_epsilon(events: Events) -> float:
    """Sum of the epsilons; infinite where an event has none."""
    sums = add_up(events)
    return math.inf if sums.gaussian or sums.reasons else sums.pure


def zcdp_epsilon(events: Events, delta: float) -> float:
    """Epsilon by zero-concentrated differential privacy; never below `epsilon`, kept to compare."""
    sums = add_up(events)
    delta = probability(delta, "delta")
    if sums.rho == 0 and not sums.reasons:
        return 0.0
    if sums.reasons or delta == 0:
        return math.inf
    return (sums.rho + 2 * math.sqrt(-sums.rho * math.log(delta))) * (1 + 1e-14)


def total_mu(events: Events) -> float:
    """GDP parameter of all events together, which must all be Gaussian."""
    sums = add_up(events)
    if sums.discrete:
        raise InputError("these events are not all Gaussian: ask for their epsilon at a delta instead")
    return math.inf if sums.reasons else sums.mu


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Epsilon at `delta` of a mu-GDP mechanism, rounded up."""
    mu, delta = at_least(mu, "mu", 0), probability(delta, "delta")
    if mu == 0 or delta == 0:
        return 0.0 if mu == 0 else math.inf
    return _curve_epsilon(mu, curves.NO_LOSS, delta)


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Delta at `epsilon` >= 0 of a mu-GDP mechanism, rounded up."""
    mu, epsilon = at_least(mu, "mu", 0), at_least(epsilon, "epsilon", 0)
    return 0.0 if mu == 0 else max(_curve_delta(mu, curves.NO_LOSS, epsilon), 5e-324)


def gdp_mu(epsilon: float, delta: float) -> float:
    """Largest mu whose Gaussian curve is (epsilon, delta)-DP, rounded down."""
    return _gdp_mu(at_least(epsilon, "epsilon", 0), positive(probability(delta, "delta"), "delta"))


@lru_cache(maxsize=512)
def _gdp_mu(epsilon: float, delta: float) -> float:
    """Kept, since every party of a run makes the same plan, and makes it again when the run goes on."""
    limit = math.log(delta)
    mu = largest(lambda mu: _gaussian_log_delta(mu, epsilon) <= limit, max(epsilon, delta))
    while gaussian_epsilon(mu, delta) > epsilon:
        mu *= 1 - 1e-13
    return mu


@lru_cache(maxsize=2**14)
def _gaussian_log_delta(mu: float, epsilon: float) -> float:
    """Kept, too: a search for noise asks at the same points as the last one for the same privacy."""
    return float(curves.gaussian_log_delta(np.array([epsilon]), mu)[0])


def _losses(sums: Sums) -> curves.Losses | None:
    """The discrete losses added up; None where they are too many, or too large, to be exact."""
    return None if sums.pure > LARGEST_LOSS else _summed(_key(sums.response), _key(sums.norm))


@lru_cache(maxsize=64)
def _summed(response: tuple[Any, ...], norm: tuple[Any, ...]) -> curves.Losses | None:
    """Kept, since the same releases are asked about beside other noise and at other deltas."""
    total = curves.NO_LOSS
    for (size, symbols), count in response:
        loss = curves.response(size, symbols, count)
        if loss is None:
            return None
        total = curves.together(total, loss)
    for (change, volume, dimensions), count in norm:
        loss = direction.losses(change, volume, dimensions, count)
        if loss is None:
            return None
        total = curves.together(total, loss)
    return total


def _key(counts: Counter[Any]) -> tuple[Any, ...]:
    return tuple(sorted(counts.items()))


@lru_cache(maxsize=512)
def _exact_epsilon(mu: float, response: tuple[Any, ...], norm: tuple[Any, ...], delta: float) -> float:
    """Epsilon by the exact curve; kept, since the nodes of a graph often release the same. Infinite without a curve."""
    losses = _losses(Sums(response=Counter(dict(response)), norm=Counter(dict(norm))))
    return math.inf if losses is None else _curve_epsilon(mu, losses, delta)


def _curve_epsilon(mu: float, losses: curves.Losses, delta: float) -> float:
    if mu == math.inf:
        return math.inf
    start = float(losses.values.max()) + mu * mu / 2 + mu
    if losses is curves.NO_LOSS:
        limit = math.log(delta)
        return smallest(lambda x: _gaussian_log_delta(mu, x) <= limit, start)
    return smallest(lambda x: curves.mixed_delta(x, mu, losses) <= delta, start)


def _curve_delta(mu: float, losses: curves.Losses, epsilon: float) -> float:
    if losses is curves.NO_LOSS:
        return math.exp(_gaussian_log_delta(mu, epsilon)) * (1 + 1e-15)
    return curves.mixed_delta(epsilon, mu, losses)


def _zcdp_delta(rho: float, epsilon: float) -> float:
    if rho == math.inf or epsilon <= rho:
        return 1.0
    return math.exp(-((epsilon - rho) ** 2) / (4 * rho)) * (1 + 1e-12) if rho > 0 else 0.0


# --- the second opinion ------------------------------------------------------------------------------


def second_opinion(events: Events, delta: float) -> float:
    """Epsilon at `delta` by another accountant, rounded towards less privacy; `opinion_by` says which."""
    delta = probability(delta, "delta")
    sums = add_up(events)
    if sums.reasons or (delta == 0 and sums.gaussian):
        return math.inf
    if delta == 0:
        return float(sum(count * size for size, count in sums.epsilons))
    if not sums.gaussian and not sums.discrete:
        return 0.0
    if not _beyond_library(sums, delta):
        return _library_epsilon(_key(sums.gaussian), _key(sums.response), _key(sums.norm), delta)
    losses = _losses(sums)
    return math.inf if losses is None else integrated_epsilon(sums.mu, losses, delta)


def opinion_by(events: Events, delta: float) -> str:
    """Which accountant gives the second opinion."""
    if delta == 0:
        return "the sum of the pure epsilons"
    if _beyond_library(add_up(events), delta):
        return "numerical integration"
    return "privacy loss distributions (dp_accounting)"


def _beyond_library(sums: Sums, delta: float) -> bool:
    return delta < RESOLVED or sums.mu > LARGEST_MU


@lru_cache(maxsize=512)
def _library_epsilon(
    gaussian: tuple[Any, ...], response: tuple[Any, ...], norm: tuple[Any, ...], delta: float
) -> float:
    """Compose the loss distributions of dp_accounting, each rounded towards less privacy; kept as `_exact_epsilon`."""
    from dp_accounting.pld import privacy_loss_distribution

    sums = Sums(gaussian=Counter(dict(gaussian)), response=Counter(dict(response)), norm=Counter(dict(norm)))
    step = _grid_step(sums)
    releases = sum(sums.gaussian.values()) + sum(count for _, count in sums.epsilons)
    cut = math.log(delta) - 20 - math.log(releases)
    total = privacy_loss_distribution.identity(value_discretization_interval=step)
    for (size, noise), count in sums.gaussian.items():
        one = privacy_loss_distribution.from_gaussian_mechanism(
            noise, sensitivity=size, value_discretization_interval=step, log_mass_truncation_bound=cut
        )
        total = total.compose(one.self_compose(count))
    for (size, symbols), count in sums.response.items():
        total = total.compose(_library_response(size, symbols, step).self_compose(count))
    for (change, volume, dimensions), count in sums.norm.items():
        total = total.compose(_library_norm(change, volume, dimensions, step).self_compose(count))
    return float(total.get_epsilon_for_delta(delta))


def _grid_step(sums: Sums) -> float:
    """Fine enough for the smallest event, coarse enough for the range of the total."""
    sizes = [size / noise for size, noise in sums.gaussian] + [size for size, _ in sums.response]
    sizes += [change / math.sqrt(64 * dimensions) for change, _, dimensions in sums.norm]  # how far its loss is spread
    reach = sums.pure + sums.mu**2 / 2 + 10 * sums.mu
    return max(min(sizes) / STEPS, 2 * reach / LARGEST_GRID)


def _library_response(size: float, symbols: int, step: float) -> Any:
    """Randomized response as a loss distribution on the grid, by the library's pessimistic rounding."""
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    above = math.ceil(size / step)
    points = sorted({-above, 1 - above, 0, above - 1, above})
    at = step * np.array(points, dtype=float)
    other = math.exp(-size) / (1 + (symbols - 1) * math.exp(-size))
    kept = 1 - (symbols - 1) * other
    deltas = (
        kept * -np.expm1(np.minimum(at - size, 0))
        + other * -np.expm1(np.minimum(at + size, 0))
        + (symbols - 2) * other * -np.expm1(np.minimum(at, 0))
    )
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots(step, points, np.clip(deltas, 0.0, 1.0))
    return privacy_loss_distribution.PrivacyLossDistribution(pmf)


def _library_norm(change: float, volume: float, size: int, step: float) -> Any:
    """Noise with a uniform direction in the same way; its curve is integrated, and not from the first's atoms."""
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    above = math.ceil((change + volume) / step)
    points = np.arange(-above, above + 1)
    deltas = direction.delta_curve(np.float64(step) * points.astype(np.float64), change, volume, size)
    deltas = np.maximum(deltas, 1e-100)  # the library divides by differences of them
    deltas[-1] = 0.0
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots(step, points.tolist(), np.clip(deltas, 0.0, 1.0))
    return privacy_loss_distribution.PrivacyLossDistribution(pmf)


# --- Epsilon by numerical integration of the densities, to check the closed form where delta is very small


def integrated_epsilon(mu: float, losses: curves.Losses, delta: float) -> float:
    """Epsilon by integrating the densities: delta(eps) = sum_j p_j int_0^inf phi(c + t) (1 - e^(-mu t)) dt.

    Here c = (eps - l_j)/mu - mu/2; 0.01 % is added to delta for the accuracy of the integral.
    """
    values, masses = losses.values, losses.masses
    start = float(values.max()) + mu * mu / 2 + mu
    if mu == 0:
        return smallest(lambda x: float(masses @ -np.expm1(np.minimum(x - values, 0.0))) <= delta, start)
    return smallest(lambda x: _integral(x - values, masses, mu) * 1.0001 <= delta, start, 1e-7)


def _integral(shifted: Vector, masses: Vector, mu: float) -> float:
    """The mixture of the integrals above, by Gauss-Legendre on pieces that halve towards 0."""
    nodes, weights = np.polynomial.legendre.leggauss(16)
    c = shifted / mu - mu / 2
    begin = np.maximum(0.0, -c - 40.0)  # before that phi is below 1e-347
    edges = np.concatenate([[0.0], 0.5 ** np.arange(14.0, 0.0, -1.0), np.arange(1.0, 81.0)])
    total = 0.0
    for left, right in pairwise(edges):
        t = begin[:, None] + (right - left) / 2 * nodes + (right + left) / 2
        with np.errstate(over="ignore", under="ignore"):
            inner = np.exp(-((c[:, None] + t) ** 2) / 2) * -np.expm1(-mu * t)
        total += float(masses @ (inner @ weights)) * (right - left) / 2
    return total / math.sqrt(2 * math.pi)


# --- Searches for the point at which a condition begins or ends to hold


CLOSE = 1e-13  # relative width at which a search ends
_HALVINGS = 200


def smallest(holds: Callable[[float], bool], start: float, close: float = CLOSE) -> float:
    """Least x >= 0 (within `close` of itself, rounded up) from which on `holds` is true; infinity where it never is."""
    if holds(0.0):
        return 0.0
    low, high = 0.0, max(start, 1e-300)
    while not holds(high):
        low, high = high, 2 * high
        if high > 1e300:
            return math.inf
    return _halve(low, high, holds, close)[1]


def largest(holds: Callable[[float], bool], start: float, close: float = CLOSE) -> float:
    """Largest x >= 0 (within `close` of itself, rounded down) up to which `holds` is true; 0 where it never is."""
    low, high = 0.0, max(start, 1e-300)
    while holds(high):
        low, high = high, 2 * high
    return _halve(low, high, lambda x: not holds(x), close)[0]


def _halve(low: float, high: float, holds: Callable[[float], bool], close: float = CLOSE) -> tuple[float, float]:
    """Bracket the point at which `holds` becomes true: false at `low`, true at `high`."""
    for _ in range(_HALVINGS):
        if high - low <= close * high or high < 1e-290:
            break
        middle = low + (high - low) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low, high
