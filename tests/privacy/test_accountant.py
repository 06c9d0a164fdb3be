"""Totals: closed forms, golden numbers, monotonicity, and two accountants against each other."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import trapezoid

from tacit.errors import InputError
from tacit.privacy import accountant
from tacit.privacy.accountant import delta, epsilon, gaussian_delta, gaussian_epsilon, second_opinion
from tacit.privacy.events import (
    BucketedResponse,
    Composed,
    Event,
    GaussianRelease,
    NotPrivate,
    PureRelease,
    RandomizedResponse,
)


@dataclass(frozen=True)
class Unheard(Event):
    """An event that no accountant knows."""

    epsilon: float = 0.1


@pytest.mark.parametrize("rounds", [1, 2, 10, 100, 10_000])
def test_gaussian_rounds_compose_to_mu_sqrt_t(rounds: int) -> None:
    many = GaussianRelease(0.3, 2.0, count=rounds)
    assert accountant.total_mu(many) == pytest.approx(0.15 * math.sqrt(rounds), rel=1e-14)
    assert epsilon(many, 1e-6) == pytest.approx(gaussian_epsilon(0.15 * math.sqrt(rounds), 1e-6), rel=1e-11)


def test_uneven_gaussian_rounds_compose_by_squares() -> None:
    events = [GaussianRelease(1.0, noise) for noise in (2.0, 3.0, 6.0)]
    assert accountant.total_mu(events) == pytest.approx(math.sqrt(1 / 4 + 1 / 9 + 1 / 36), rel=1e-14)
    assert epsilon(Composed(tuple(events)), 1e-5) == epsilon(events, 1e-5)


def test_a_hundred_pure_rounds() -> None:
    """The figure of a published experiment, 100 rounds at 0.5: 50 by summing, 36.5 by zCDP, 31.2 exactly."""
    rounds = PureRelease(0.5, count=100)
    assert accountant.pure_epsilon(rounds) == 50.0
    assert epsilon(rounds, 0.0) == 50.0
    assert accountant.zcdp_epsilon(rounds, 1e-5) == pytest.approx(36.49, abs=0.01)
    assert epsilon(rounds, 1e-5) == pytest.approx(31.17286, abs=1e-5)
    assert second_opinion(rounds, 1e-5) == pytest.approx(31.17286, abs=1e-3)


@pytest.mark.parametrize(("size", "symbols"), [(0.1, 2), (1.0, 2), (1.0, 4), (3.0, 10)])
def test_randomized_response_has_its_epsilon_and_its_curve(size: float, symbols: int) -> None:
    event = RandomizedResponse(size, symbols)
    keep = math.exp(size) / (math.exp(size) + symbols - 1)
    assert epsilon(event, 0.0) == size
    assert delta(event, size) == 0.0
    for at in (0.0, size / 3, size / 2):
        assert delta(event, at) == pytest.approx(keep * (1 - math.exp(at - size)), rel=1e-10)


@pytest.mark.parametrize("symbols", [2, 4, 7])
def test_bucketed_response_has_the_stated_curve(symbols: int) -> None:
    mu, size = 0.6, 1.1
    event = BucketedResponse(mu, size, symbols)
    other = 1 / (math.exp(size) + symbols - 1)
    for at in (1.2, 2.0, 4.0):
        stated = (
            math.exp(size) * other * gaussian_delta(mu, at - size)
            + other * gaussian_delta(mu, at + size)
            + (symbols - 2) * other * gaussian_delta(mu, at)
        )
        assert delta(event, at) == pytest.approx(stated, rel=1e-9)
    parts = [GaussianRelease(mu, 1.0), RandomizedResponse(size, symbols)]
    assert epsilon(event, 1e-5) == pytest.approx(epsilon(parts, 1e-5), rel=1e-12)


def test_bucketed_response_by_brute_force() -> None:
    """The hockey-stick divergence of the joint law of (Gaussian, symbol), integrated on a fine grid."""
    mu, size, symbols, at = 0.8, 0.9, 4, 1.5
    x = np.linspace(-12, 13, 400_001)
    kept, other = np.array([math.exp(size), 1.0]) / (math.exp(size) + symbols - 1)
    total = 0.0
    for ours, theirs in ((kept, other), (other, kept)) + ((other, other),) * (symbols - 2):
        excess = ours * np.exp(-((x - mu) ** 2) / 2) - math.exp(at) * theirs * np.exp(-x * x / 2)
        total += float(trapezoid(np.maximum(excess, 0.0), x)) / math.sqrt(2 * math.pi)
    assert delta(BucketedResponse(mu, size, symbols), at) == pytest.approx(total, rel=1e-7)


MIXTURES = {
    "gaussian": [GaussianRelease(1.0, 4.0, count=7)],
    "uneven": [GaussianRelease(1.0, 5.0 + t) for t in range(12)],
    "pure": [PureRelease(0.2, count=30)],
    "uneven pure": [PureRelease(0.05 * (1 + t % 17), count=2) for t in range(17)],
    "response": [RandomizedResponse(1.5, 5)],
    "bucketed": [BucketedResponse(0.5, 1.0, 4)],
    "all": [GaussianRelease(1.0, 2.0, count=3), PureRelease(0.3, count=4), RandomizedResponse(1.0, 3)],
    "small beside large": [GaussianRelease(1e-3, 1.0), PureRelease(1.0)],
}


@pytest.mark.parametrize("at", [1e-2, 1e-5, 1e-9, 1e-14, 1e-30])
@pytest.mark.parametrize("name", MIXTURES)
def test_two_accountants_agree(name: str, at: float) -> None:
    ours, other = epsilon(MIXTURES[name], at), second_opinion(MIXTURES[name], at)
    assert ours <= other * (1 + 1e-9)
    assert other <= ours * 1.001 + 1e-12


@pytest.mark.parametrize("name", MIXTURES)
def test_the_exact_curve_is_the_smallest_bound(name: str) -> None:
    events = MIXTURES[name]
    assert epsilon(events, 1e-5) <= accountant.zcdp_epsilon(events, 1e-5)
    assert epsilon(events, 1e-5) <= accountant.pure_epsilon(events)
    assert delta(events, epsilon(events, 1e-5)) <= 1e-5 * (1 + 1e-9)


def test_too_many_losses_fall_back_on_other_bounds() -> None:
    events = PureRelease(1e-3, count=10**6)
    assert epsilon(events, 1e-5) == accountant.zcdp_epsilon(events, 1e-5)
    assert epsilon(PureRelease(1e300, count=10**9), 1e-5) == math.inf
    assert delta(PureRelease(1.0, count=10**9), 1.0) == 1.0


EVENTS = st.one_of(
    st.builds(GaussianRelease, st.floats(0, 2), st.floats(0.5, 50), st.integers(1, 20)),
    st.builds(PureRelease, st.floats(0, 1), st.integers(1, 5)),
    st.builds(RandomizedResponse, st.floats(0, 2), st.integers(2, 6)),
    st.builds(BucketedResponse, st.floats(0, 1), st.floats(0, 1), st.integers(2, 6)),
)


@settings(deadline=None, max_examples=60)
@given(st.lists(EVENTS, max_size=4), EVENTS, st.floats(-12, -1), st.floats(0, 1))
def test_more_releases_and_smaller_deltas_cost_more(events: list[Event], more: Event, low: float, step: float) -> None:
    at = 10**low
    spent = epsilon(events, at)
    assert epsilon([*events, more], at) >= spent * (1 - 1e-9)
    assert epsilon(events, at * 10**-step) >= spent * (1 - 1e-9)
    assert delta([*events, more], 0.7) >= delta(events, 0.7) * (1 - 1e-9)
    assert delta(events, 0.7 + step) <= delta(events, 0.7) * (1 + 1e-9)


@settings(deadline=None, max_examples=40)
@given(st.floats(0.01, 5), st.floats(0.1, 20), st.integers(1, 50), st.floats(1.001, 3))
def test_less_noise_costs_more(size: float, noise: float, count: int, factor: float) -> None:
    assert epsilon(GaussianRelease(size, noise / factor, count), 1e-5) > epsilon(
        GaussianRelease(size, noise, count), 1e-5
    )


def test_nothing_released_costs_nothing() -> None:
    for events in ([], [GaussianRelease(0.0, 1.0)], [PureRelease(0.0)]):
        assert epsilon(events, 1e-5) == 0.0
        assert delta(events, 0.0) == 0.0
        assert second_opinion(events, 1e-5) == 0.0


def test_not_private_is_infinite_whatever_else() -> None:
    for bad in (NotPrivate("sent in clear"), GaussianRelease(1.0, 1e-308)):
        events = [PureRelease(0.1), Composed((bad,))]
        assert epsilon(events, 0.5) == math.inf
        assert delta(events, 100.0) == 1.0
        assert second_opinion(events, 0.5) == math.inf
    assert epsilon(GaussianRelease(1.0, 1.0), 0.0) == math.inf
    assert second_opinion(GaussianRelease(1.0, 1.0), 0.0) == math.inf


@pytest.mark.parametrize(
    "ask",
    [
        lambda events: epsilon(events, 1e-5),
        lambda events: delta(events, 1.0),
        lambda events: second_opinion(events, 1e-5),
        accountant.pure_epsilon,
        accountant.total_mu,
        lambda events: accountant.zcdp_epsilon(events, 1e-5),
    ],
)
@pytest.mark.parametrize("event", [Unheard(), Composed((Unheard(),)), "text", 3.0])
def test_an_unknown_event_is_refused_by_every_accountant(ask, event) -> None:
    with pytest.raises(InputError, match="not a known privacy event"):
        ask([PureRelease(0.1), event])


@pytest.mark.parametrize("at", [-0.1, 1.0, 2.0, math.nan, math.inf, True, "a"])
def test_delta_out_of_range_is_refused(at) -> None:
    with pytest.raises(InputError, match="delta="):
        epsilon(PureRelease(0.1), at)


@pytest.mark.parametrize("events", ["text", 3, None])
def test_what_is_no_list_of_events_is_refused(events) -> None:
    with pytest.raises(InputError, match="give an event or a list of events"):
        epsilon(events, 1e-5)
