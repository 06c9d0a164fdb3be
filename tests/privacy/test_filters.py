"""Budgets over jobs that are chosen by earlier results: costs against a library, and the attack that the rule stops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting.rdp import rdp_privacy_accountant
from scipy import integrate, stats

from tacit.errors import InputError
from tacit.privacy import accountant, curves, direction
from tacit.privacy.events import GaussianRelease, NormRelease, NotPrivate, PureRelease, RandomizedResponse
from tacit.privacy.filters import ORDERS, Scale, allowance, choose_scale, cost, fits, scale_from_record, share

EPSILON, DELTA = 3.0, 1e-6
GAUSSIAN = Scale("gaussian")


def gaussian(mu: float) -> list[GaussianRelease]:
    return [GaussianRelease(mu, 1.0)]


def test_choosing_by_results_breaks_the_exact_accountant_and_not_the_rule() -> None:
    first = gaussian(0.3)
    pure = accountant.largest(lambda e: accountant.delta([*first, RandomizedResponse(e)], EPSILON) <= DELTA, 1.0)
    mu = accountant.largest(lambda m: accountant.delta([*first, *gaussian(m)], EPSILON) <= DELTA, 1.0)
    second, other = [RandomizedResponse(pure)], gaussian(mu)
    for job in (second, other):  # each by itself fits, to the exact accountant
        assert accountant.epsilon([*first, *job], DELTA) <= EPSILON * (1 + 1e-9)

    z = np.linspace(-12, 14, 200_001)
    left = EPSILON - (0.3 * z + 0.045)
    response = curves.response(pure, 2, 1)
    assert response is not None
    by_response = sum(
        m * -np.expm1(np.minimum(left - v, 0)) for v, m in zip(response.values, response.masses, strict=True)
    )
    by_gaussian = np.exp(curves.gaussian_log_delta(left, mu))
    reached = integrate.simpson(stats.norm.pdf(z) * np.maximum(by_response, by_gaussian), x=z)
    assert reached / DELTA == pytest.approx(1.985, abs=0.001)  # docs/proofs/budget.md, 1

    scale = choose_scale(first, EPSILON, DELTA)
    assert not all(fits([first, job], scale, EPSILON, DELTA) for job in (second, other))


@pytest.mark.parametrize(("epsilon", "delta"), [(3.0, 1e-6), (1.0, 1e-5), (8.0, 1e-9)])
def test_for_gaussian_jobs_nothing_is_lost(epsilon: float, delta: float) -> None:
    mu = accountant.gdp_mu(epsilon, delta)
    job = gaussian(mu / 2)
    scale = choose_scale(job, epsilon, delta)
    assert scale == GAUSSIAN
    assert fits([job] * 4, scale, epsilon, delta)
    assert not fits([job] * 4 + [gaussian(mu / 1000)], scale, epsilon, delta)
    assert share([job] * 3, scale, epsilon, delta) == pytest.approx(0.75)


@pytest.mark.parametrize("order", [ORDERS[0], 2.0, 14.454342644059432, ORDERS[-1]])
def test_allowance_of_an_order_is_that_of_the_library(order: float) -> None:
    room = allowance(Scale("renyi", order), 80.0, DELTA)
    found, best = rdp_privacy_accountant.compute_epsilon(np.array([order]), np.array([room]), DELTA)
    assert best == order
    assert found == pytest.approx(80.0, rel=1e-9)
    assert found <= 80.0


@pytest.mark.parametrize("order", [1.5, 4.0, 33.0])
@pytest.mark.parametrize(("epsilon", "symbols"), [(0.3, 2), (1.0, 2), (2.0, 4)])
def test_renyi_cost_of_randomized_response(order: float, epsilon: float, symbols: int) -> None:
    q = 1 / (math.exp(epsilon) + symbols - 1)
    p = math.exp(epsilon) * q
    moment = p**order * q ** (1 - order) + q**order * p ** (1 - order) + (symbols - 2) * q
    exact = math.log(moment) / (order - 1)
    found = cost([RandomizedResponse(epsilon, symbols)] * 3, Scale("renyi", order))
    assert 3 * exact <= found <= 3 * exact * (1 + 1e-9) + 1e-9


@pytest.mark.parametrize("order", [2.0, 10.0])
def test_renyi_cost_of_noise_with_a_direction_is_above_its_divergence(order: float) -> None:
    # Gamma noise in `size` dimensions on a value that moves by 1: the divergence by integration over the angle
    size, rate = 5, 0.8
    rng = np.random.default_rng(0)
    way = rng.normal(size=(400_000, size))
    way *= (rng.gamma(size, 1 / rate, size=len(way)) / np.linalg.norm(way, axis=1))[:, None]
    moved = way.copy()
    moved[:, 0] += 1
    loss = rate * (np.linalg.norm(moved, axis=1) - np.linalg.norm(way, axis=1))
    sampled = math.log(np.mean(np.exp((order - 1) * loss))) / (order - 1)
    found = cost([NormRelease(rate, size)], Scale("renyi", order))
    assert sampled < found <= rate * (1 + 1e-9)
    assert direction.losses(rate, 0.0, size, 1) is not None


@pytest.mark.parametrize(("epsilon", "symbols"), [(0.1, 2), (1.0, 2), (3.0, 2), (1.0, 4), (2.0, 8), (20.0, 2)])
def test_the_gaussian_of_a_response_dominates_it_and_a_smaller_one_does_not(epsilon: float, symbols: int) -> None:
    mu = math.sqrt(cost([RandomizedResponse(epsilon, symbols)], GAUSSIAN))
    response = curves.response(epsilon, symbols, 1)
    assert response is not None
    at = np.linspace(-2 * epsilon, 2 * epsilon, 4001)

    def least_margin(parameter: float) -> float:
        exact = [float(response.masses @ -np.expm1(np.minimum(e - response.values, 0))) for e in at]
        return float(np.min(np.exp(curves.gaussian_log_delta(at, parameter)) - exact))

    assert least_margin(mu) >= -1e-12
    if epsilon < 10:
        assert least_margin(mu * 0.99) < 0


def test_pure_jobs_add_up_beside_every_scale() -> None:
    for scale in (GAUSSIAN, Scale("renyi", 10.5), Scale("once")):
        assert fits([[PureRelease(1.0)]] * 3, scale, EPSILON, DELTA)
    assert fits([[PureRelease(1.0)]] * 3, Scale("once"), EPSILON, 0.0)
    assert not fits([[PureRelease(1.0)]] * 4, choose_scale([PureRelease(1.0)], EPSILON, DELTA), EPSILON, DELTA)
    assert not fits([gaussian(1e-3)], choose_scale(gaussian(1e-3), EPSILON, 0.0), EPSILON, 0.0)


def test_a_job_that_fits_exactly_and_on_no_scale_is_taken_once() -> None:
    mu = accountant.gdp_mu(1.0, DELTA) / 2
    job = [*gaussian(mu), RandomizedResponse(0.5)]
    scale = choose_scale(job, 1.0, DELTA)
    assert scale == Scale("once")
    assert fits([job], scale, 1.0, DELTA)
    assert not fits([job, [PureRelease(1e-6)]], scale, 1.0, DELTA)
    assert fits([job, []], scale, 1.0, DELTA)


def test_what_proves_nothing_never_fits() -> None:
    nothing = [NotPrivate("no noise")]
    for scale in (GAUSSIAN, Scale("once"), choose_scale(nothing, EPSILON, DELTA)):
        assert not fits([nothing], scale, EPSILON, DELTA)
        assert share([nothing], scale, EPSILON, DELTA) == math.inf


@pytest.mark.parametrize(
    "job",
    [
        gaussian(0.2),
        [RandomizedResponse(0.4)],
        [*gaussian(0.2), RandomizedResponse(0.3)],
        [NormRelease(0.5, 123, 0.01, count=5)],
        [NormRelease(0.05, 4, 0.0, count=20), *gaussian(0.1)],
    ],
)
def test_what_fits_is_within_the_budget_of_a_second_accountant(job: list[GaussianRelease]) -> None:
    scale = choose_scale(job, EPSILON, DELTA)
    count = 0
    while fits([job] * (count + 1), scale, EPSILON, DELTA):
        count += 1
    assert count >= 2
    assert accountant.second_opinion(job * count, DELTA) <= EPSILON * 1.001


def test_a_scale_is_read_as_it_was_written() -> None:
    for scale in (GAUSSIAN, Scale("renyi", ORDERS[7]), Scale("once")):
        assert scale_from_record(scale.record(), "scale") == scale
    with pytest.raises(InputError, match=r"scale\.order=0\.5"):
        scale_from_record({"kind": "renyi", "order": 0.5}, "scale")
