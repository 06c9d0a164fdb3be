"""Several rows at once: what is proven when k rows change together, from the events that bound one row.

| event | of one row | of k rows |
|---|---|---|
| Gaussian | mu-GDP | k mu-GDP |
| pure, norm noise | epsilon | k epsilon |
| randomized response | one symbol of the row | k symbols, each with its own epsilon |
| bucketed response | mu-GDP, then one symbol | k mu-GDP, then k symbols |

Epsilon at a fixed delta grows faster than k: with Gaussian noise, 10 rows at epsilon 4 and delta 1e-5 have epsilon
81.41, not 40. The proof is docs/proofs/composition.md, theorem 8.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tacit.privacy import accountant
from tacit.privacy.events import (
    BucketedResponse,
    Composed,
    Event,
    GaussianRelease,
    NormRelease,
    NotPrivate,
    PureRelease,
    RandomizedResponse,
    leaves,
)
from tacit.privacy.fields import as_whole
from tacit.privacy.sums import Events


def group_epsilon(events: Events, delta: float, rows: int) -> float:
    """Epsilon at `delta` of the same releases, where `rows` rows of one party change together; rounded up."""
    return accountant.epsilon(group_events(events, rows), delta)


def group_events(events: Events, rows: int) -> tuple[Event, ...]:
    """Events that bound a change of `rows` rows, from those that bound a change of one.

    Parameters
    ----------
    events : event or iterable of events
        Everything that was released about one row.
    rows : int
        How many rows of the same party change together; 1 gives the events themselves.
    """
    as_whole(rows, "rows", 1)
    given = (events,) if isinstance(events, Event) else tuple(events)
    if rows == 1:
        return given
    return tuple(part for event in given for leaf in leaves(event) for part in _of_rows(leaf, rows))


def _of_rows(event: Event, rows: int) -> Iterable[Event]:
    if isinstance(event, GaussianRelease):
        return (replace(event, sensitivity=rows * event.sensitivity),)
    if isinstance(event, RandomizedResponse):
        return (event,) * rows
    if isinstance(event, BucketedResponse):
        return (replace(event, mu=rows * event.mu), *_responses(event, rows - 1))
    if isinstance(event, PureRelease):
        return (replace(event, epsilon=rows * event.epsilon),)
    if isinstance(event, NormRelease):  # its direction is uniform for one pair of data sets at a time
        return (_pure(event, rows * event.epsilon),)
    assert isinstance(event, NotPrivate)  # `leaves` lets nothing else through
    assert not isinstance(event, Composed)
    return (event,)


def _responses(event: BucketedResponse, count: int) -> tuple[Event, ...]:
    one = RandomizedResponse(
        event.epsilon,
        event.symbols,
        released=event.released,
        party=event.party,
        round=event.round,
        unit=event.unit,
        neighbours=event.neighbours,
    )
    return (one,) * count


def _pure(event: NormRelease, epsilon: float) -> PureRelease:
    return PureRelease(
        epsilon * (1 + 2**-52),
        event.count,
        released=event.released,
        party=event.party,
        round=event.round,
        unit=event.unit,
        neighbours=event.neighbours,
    )
