"""Events: what they refuse, and the way to JSON and back."""

from __future__ import annotations

import dataclasses
import json

import pytest

from tacit.errors import InputError
from tacit.privacy.accountant import second_opinion
from tacit.privacy.events import (
    BucketedResponse,
    Composed,
    Event,
    GaussianRelease,
    NotPrivate,
    PureRelease,
    RandomizedResponse,
    from_record,
    to_record,
)

ALL = [
    GaussianRelease(1.0, 2.0, 3, released="a share", party="shop", round=4, unit="record"),
    PureRelease(0.1, 2, unit="person", neighbours="zero-out"),
    RandomizedResponse(1.0, 4, unit="label"),
    BucketedResponse(0.5, 1.0, 4),
    NotPrivate("sent in clear", unit="column"),
]


@pytest.mark.parametrize("event", [*ALL, Composed(tuple(ALL))])
def test_events_are_frozen_and_survive_json(event: Event) -> None:
    assert from_record(json.loads(json.dumps(to_record(event)))) == event
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.party = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GaussianRelease(-1.0, 1.0), "sensitivity=-1.0"),
        (lambda: GaussianRelease(1.0, 0.0), "NotPrivate"),
        (lambda: GaussianRelease(1.0, -2.0), "noise=-2.0"),
        (lambda: GaussianRelease(1.0, 1.0, 0), "count=0"),
        (lambda: GaussianRelease(1.0, 1.0, 1.5), "count=1.5"),
        (lambda: GaussianRelease(float("nan"), 1.0), "sensitivity=nan"),
        (lambda: PureRelease(float("inf")), "epsilon=inf"),
        (lambda: RandomizedResponse(1.0, 1), "symbols=1"),
        (lambda: BucketedResponse(-0.1, 1.0), "mu=-0.1"),
        (lambda: PureRelease(1.0, unit="row"), "unit='row' is not allowed: choose one of"),
        (lambda: PureRelease(1.0, neighbours="add"), "neighbours='add'"),
        (lambda: PureRelease(1.0, round=-1), "round=-1"),
        (lambda: Composed([PureRelease(1.0)]), "tuple of events"),
        (lambda: PureRelease(True), "epsilon=True"),
    ],
)
def test_impossible_events_are_refused(make, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_a_field_of_a_record_is_named() -> None:
    record = to_record(ALL[0])
    for name in record:
        with pytest.raises(InputError, match=name):
            from_record({key: value for key, value in record.items() if key != name})
    with pytest.raises(InputError, match="unknown field 'sampling'"):
        from_record({**record, "sampling": 0.01})
    with pytest.raises(InputError, match=r"event: noise=-1 is not allowed"):
        from_record({**record, "noise": -1})


def test_events_nested_without_end_are_refused() -> None:
    record = to_record(PureRelease(0.1))
    for _ in range(50):
        record = {**to_record(Composed(())), "events": [record]}
    with pytest.raises(InputError, match="nested more than 20 deep"):
        from_record(record)


def test_a_large_whole_number_is_read_as_a_float() -> None:
    record = {**to_record(GaussianRelease(1.0, 2.0)), "noise": 3 * 10**30}
    event = from_record(record)
    assert isinstance(event, GaussianRelease)
    assert event.noise == 3e30
    assert second_opinion([event, GaussianRelease(0.5, 1.0)], 1e-5) > 0
    with pytest.raises(InputError, match="noise"):
        from_record({**record, "noise": 10**400})
