"""Noise from the privacy that was asked: never less privacy, hardly more, and half the noise is caught."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import InputError
from tacit.privacy.accountant import epsilon, second_opinion
from tacit.privacy.calibration import budget_mu, label_events, noise_for, split_mu
from tacit.privacy.events import GaussianRelease, PureRelease, RandomizedResponse

EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
ROUNDS = (1, 2, 5, 10, 50, 100)
DELTA = 1e-5


@pytest.mark.parametrize("asked", EPSILONS)
@pytest.mark.parametrize("rounds", ROUNDS)
def test_noise_is_tight_and_never_too_small(asked: float, rounds: int) -> None:
    noise = noise_for(asked, DELTA, 2.0, rounds)
    spent = epsilon(GaussianRelease(2.0, noise, rounds), DELTA)
    assert 0.99 * asked <= spent <= asked
    assert epsilon(GaussianRelease(2.0, noise / 2, rounds), DELTA) > 1.5 * asked
    assert second_opinion(GaussianRelease(2.0, noise, rounds), DELTA) == pytest.approx(spent, rel=0.01)


@pytest.mark.parametrize(("asked", "labels"), [(1.0, 0.5), (2.0, 1.0), (4.0, 3.9), (8.0, 0.1)])
def test_labels_are_composed_in_for_a_person(asked: float, labels: float) -> None:
    beside = label_events(labels, "person", "bank")
    noise = noise_for(asked, DELTA, 2.0, 10, beside)
    assert 0.99 * asked <= epsilon([GaussianRelease(2.0, noise, 10), RandomizedResponse(labels)], DELTA) <= asked
    assert noise > noise_for(asked, DELTA, 2.0, 10)


def test_labels_are_no_part_of_rows_held_elsewhere() -> None:
    assert label_events(1.0, "record") == ()
    assert label_events(None, "person") == ()


def test_composing_labels_exactly_beats_subtracting_them() -> None:
    assert budget_mu(2.0, DELTA, [PureRelease(1.0)]) > budget_mu(1.0, DELTA)


@settings(deadline=None, max_examples=40)
@given(st.floats(1e-3, 50), st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=12))
def test_split_never_exceeds_the_whole(mu: float, weights: list[float]) -> None:
    parts = split_mu(mu, dict(enumerate(weights)))
    square = math.fsum(part * part for part in parts.values())
    assert mu * mu * (1 - 1e-12) <= square <= mu * mu


@settings(deadline=None, max_examples=40)
@given(st.floats(0.01, 20), st.floats(-12, -1), st.floats(1e-3, 1e3), st.integers(1, 500))
def test_noise_anywhere(asked: float, log10_delta: float, size: float, rounds: int) -> None:
    at = 10**log10_delta
    spent = epsilon(GaussianRelease(size, noise_for(asked, at, size, rounds), rounds), at)
    assert 0.99 * asked <= spent <= asked


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0, 1e-5, 1.0), "epsilon=0.0 is not allowed: it must be positive"),
        ((-1, 1e-5, 1.0), "epsilon=-1 is not allowed"),
        ((1.0, 0.0, 1.0), "delta=0.0 is not allowed: it must be positive"),
        ((1.0, 1.0, 1.0), "delta=1.0 is not allowed"),
        ((1.0, 1e-5, 0.0), "sensitivity=0.0 is not allowed"),
        ((1.0, 1e-5, 1.0, 0), "releases=0 is not allowed"),
        ((math.nan, 1e-5, 1.0), "epsilon=nan is not allowed"),
        ((1.0, 1e-5, 1.0, 1, [PureRelease(1.5)]), "spent before any noise is calibrated"),
    ],
)
def test_what_cannot_be_calibrated_is_refused(arguments, message: str) -> None:
    with pytest.raises(InputError, match=message):
        noise_for(*arguments)


def test_weights_must_be_positive() -> None:
    with pytest.raises(InputError, match="weight of 1=0 is not allowed"):
        split_mu(1.0, {0: 1, 1: 0})
    with pytest.raises(InputError, match="no weights were given"):
        split_mu(1.0, {})
