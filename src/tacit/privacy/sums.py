"""Events sorted into what can be added up: Gaussian releases, discrete losses, and what allows no claim."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from tacit.errors import InputError
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
from tacit.privacy.fields import show

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
