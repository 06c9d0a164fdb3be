"""The curves against other arithmetic: 60 digits, and numerical integration of the densities."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate

from tacit.privacy import accountant, curves
from tacit.privacy.accountant import gaussian_delta, gaussian_epsilon, gdp_mu

MUS = (1e-8, 1e-5, 1e-3, 0.05, 0.3, 1.0, 3.0, 10.0, 50.0)


def exact_log_delta(epsilon: float, mu: float) -> float:
    with mpmath.workdps(60):
        e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)

        def phi(x: mpmath.mpf) -> mpmath.mpf:
            return mpmath.erfc(-x / mpmath.sqrt(2)) / 2

        return float(mpmath.log(phi(-e / m + m / 2) - mpmath.exp(e) * phi(-e / m - m / 2)))


@pytest.mark.parametrize("mu", MUS)
def test_gaussian_curve_is_the_exact_one_rounded_up(mu: float) -> None:
    """From the middle of the curve to deltas of 1e-300 and negative epsilons."""
    at = np.concatenate([mu * np.linspace(-6, 35, 80) + mu * mu / 2, [0.0]])
    ours = curves.gaussian_log_delta(at, mu)
    exact = np.array([exact_log_delta(float(e), mu) for e in at])
    assert np.all(ours >= exact)
    assert np.all(ours - exact <= 1e-11 + 1e-13 / mu)


def test_gaussian_curve_is_the_integral_of_the_densities() -> None:
    for mu, epsilon in ((0.2, 0.5), (1.0, 1.0), (1.0, 8.0), (4.0, 20.0)):
        start = epsilon / mu + mu / 2

        def excess(x: float, mu: float = mu, epsilon: float = epsilon) -> float:
            return (math.exp(-((x - mu) ** 2) / 2) - math.exp(epsilon - x * x / 2)) / math.sqrt(2 * math.pi)

        value, _ = integrate.quad(excess, start, start + 20, epsabs=0, epsrel=1e-11, limit=200)
        assert gaussian_delta(mu, epsilon) == pytest.approx(value, rel=1e-8)


def test_tiny_delta_is_never_rounded_to_zero() -> None:
    assert 0 < gaussian_delta(0.01, 100.0) < 1e-300


@pytest.mark.parametrize("delta", [1e-300, 1e-100, 1e-15, 1e-5, 0.1, 0.9])
@pytest.mark.parametrize("mu", [1e-6, 0.01, 1.0, 20.0, 1e3])
def test_epsilon_is_the_inverse_rounded_up(mu: float, delta: float) -> None:
    epsilon = gaussian_epsilon(mu, delta)
    assert gaussian_delta(mu, epsilon) <= delta * (1 + 1e-12)
    if epsilon > 0:
        assert exact_log_delta(epsilon * (1 - 1e-6), mu) > math.log(delta)


@settings(deadline=None, max_examples=60)
@given(st.floats(1e-4, 60), st.floats(-14, -0.5))
def test_gdp_mu_is_the_inverse_rounded_down(epsilon: float, log10_delta: float) -> None:
    delta = 10**log10_delta
    mu = gdp_mu(epsilon, delta)
    assert gaussian_epsilon(mu, delta) <= epsilon
    assert gaussian_epsilon(mu * (1 + 1e-6), delta) > epsilon


def test_gdp_mu_of_known_pairs() -> None:
    """Analytic Gaussian mechanism of Balle and Wang (2018): sigma = 3.7306 for epsilon 1, delta 1e-5."""
    assert 1 / gdp_mu(1.0, 1e-5) == pytest.approx(3.730632, abs=1e-6)
    assert gaussian_epsilon(1.0, 1e-5) == pytest.approx(4.377178, abs=1e-6)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**31), st.floats(0.05, 3), st.floats(0, 2))
def test_coarser_losses_are_never_more_private(seed: int, spread: float, mu: float) -> None:
    rng = np.random.default_rng(seed)
    first, second = (curves.Losses(spread * rng.normal(size=200), rng.dirichlet(np.ones(200))) for _ in range(2))
    values, masses = np.add.outer(first.values, second.values), np.multiply.outer(first.masses, second.masses)
    fine = curves.Losses(values.ravel(), masses.ravel())
    coarse = curves.together(first, second)
    assert len(fine.values) > curves.MOST_ATOMS
    assert len(coarse.values) == curves.GRID + 1
    assert np.exp(-coarse.values) @ coarse.masses == pytest.approx(np.exp(-fine.values) @ fine.masses, rel=1e-9)
    for epsilon in (0.0, 0.3, spread, 2 * spread):
        own, rounded = curves.mixed_delta(epsilon, mu, fine), curves.mixed_delta(epsilon, mu, coarse)
        assert own * (1 - 1e-9) - 1e-15 <= rounded <= own * 1.001 + 1e-9


def test_negligible_masses_are_counted_at_the_largest_loss() -> None:
    values = np.linspace(-1.0, 2.0, 200)
    masses = np.where(np.arange(200) % 2, 0.01, 1e-31)
    masses[-1] = 1e-40
    loss = curves.Losses(values, masses)
    kept = curves._without_negligible(loss)
    assert kept.values.tolist() == values[1::2].tolist()
    assert kept.masses.tolist() == [0.01] * 99 + [pytest.approx(100 * 1e-31 + 1e-40)]
    fine = curves.Losses(np.add.outer(values, values).ravel(), np.multiply.outer(masses, masses).ravel())
    for epsilon in (0.0, 1.0, 3.9):
        assert curves.mixed_delta(epsilon, 0.5, curves.together(loss, loss)) >= curves.mixed_delta(epsilon, 0.5, fine)


def test_losses_that_are_all_the_same_need_no_grid() -> None:
    same = curves.Losses(np.full(200, 0.3), np.full(200, 0.004))
    total = curves.together(same, same)
    assert total.values.tolist() == [0.6]
    assert total.masses == pytest.approx([0.64])


def test_searches_end() -> None:
    assert accountant.smallest(lambda x: False, 1.0) == math.inf
    assert accountant.smallest(lambda x: True, 1.0) == 0.0
    assert accountant.largest(lambda x: False, 1.0) < 1e-280
