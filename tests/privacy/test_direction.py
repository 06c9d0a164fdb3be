"""Noise with a uniform direction: its curve against sampled mechanisms, against pure epsilons, and two accountants."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import expit

from tacit.errors import InputError
from tacit.privacy import accountant, direction
from tacit.privacy.calibration import largest_for
from tacit.privacy.events import GaussianRelease, NormRelease, PureRelease, from_record, to_record

DELTA = 1e-5
DRAWS = 20_000


def draw(rng: np.random.Generator, size: int, rate: float) -> np.ndarray:
    """Noise of density exp(-rate |x|), one row each."""
    normal = rng.normal(size=(DRAWS, size))
    return normal / np.linalg.norm(normal, axis=1)[:, None] * rng.gamma(size, 1 / rate, size=(DRAWS, 1))


def exceeds(loss: np.ndarray, event: NormRelease, epsilons: np.ndarray) -> bool:
    """Whether the sampled privacy loss has more delta than the event at some epsilon, with 5 errors to spare."""
    for epsilon in epsilons:
        found = np.maximum(-np.expm1(epsilon - loss), 0.0)
        if found.mean() - 5 * found.std() / math.sqrt(DRAWS) > accountant.delta([event], float(epsilon)):
            return True
    return False


@pytest.mark.parametrize("size", [1, 2, 5, 40])
@pytest.mark.parametrize("change", [0.5, 2.0, 8.0])
def test_noise_on_a_value_stays_below_its_curve(size: int, change: float) -> None:
    x = draw(np.random.default_rng(size), size, 1.0)
    moved = x.copy()
    moved[:, 0] += change
    loss = np.linalg.norm(moved, axis=1) - np.linalg.norm(x, axis=1)
    epsilons = np.linspace(0.0, change, 9)[:-1]
    assert not exceeds(loss, NormRelease(change, size), epsilons)
    assert exceeds(loss, NormRelease(change / 2, size), epsilons)


class Objective:
    """One round of dual variable perturbation at a node with few rows, solved for many draws of the noise at once."""

    def __init__(self, rows: np.ndarray, labels: np.ndarray, modulus: float) -> None:
        self.rows, self.labels, self.modulus = rows, labels, modulus

    def noise(self, f: np.ndarray) -> np.ndarray:
        """The noise that leads to each model."""
        margins = self.labels * (f @ self.rows.T)
        return (self.labels * expit(-margins)) @ self.rows - self.modulus * f

    def hessian(self, f: np.ndarray) -> np.ndarray:
        margins = self.labels * (f @ self.rows.T)
        bend = expit(margins) * expit(-margins)
        return np.einsum("ni,ij,ik->njk", bend, self.rows, self.rows) + self.modulus * np.eye(self.rows.shape[1])

    def solve(self, x: np.ndarray) -> np.ndarray:
        f = np.zeros_like(x)
        for _ in range(40):
            step = np.linalg.solve(self.hessian(f), (self.noise(f) - x)[:, :, None])[:, :, 0]
            f = f + step * np.minimum(1.0, 2.0 / np.maximum(np.linalg.norm(step, axis=1), 1e-9))[:, None]
        assert np.abs(self.noise(f) - x).max() < 1e-8
        return f

    def log_density(self, f: np.ndarray, rate: float) -> np.ndarray:
        return -rate * np.linalg.norm(self.noise(f), axis=1) + np.linalg.slogdet(self.hessian(f))[1]


@pytest.mark.parametrize("other", ["opposite", "across", "same row, other label"])
def test_noise_in_an_objective_stays_below_its_curve(other: str) -> None:
    """Theorem 1b of dynamic.md, with the exact densities of minimisers; the pull is weak, so that gradients turn."""
    size, rate, modulus = 4, 1.5, 0.5
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(3, size))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    labels = np.array([1.0, -1.0, 1.0])
    changed, turned = rows.copy(), labels.copy()
    if other == "same row, other label":
        turned[0] = -1.0
    elif other == "opposite":
        changed[0] = -rows[0]
    else:
        changed[0] = np.linalg.svd(rows[:1])[2][1]
    first, second = Objective(rows, labels, modulus), Objective(changed, turned, modulus)
    f = first.solve(draw(rng, size, rate))
    loss = first.log_density(f, rate) - second.log_density(f, rate)
    volume = math.log1p(0.25 / modulus)
    epsilons = np.linspace(0.0, 2 * rate, 7)
    assert not exceeds(loss, NormRelease(2 * rate, size, volume), epsilons)
    assert loss.max() <= 2 * rate + volume
    assert exceeds(loss, NormRelease(0.25 * rate, size, 1e-3), epsilons)  # the samples could tell


@pytest.mark.parametrize("size", [1, 2, 21, 123, 2000])
@pytest.mark.parametrize(("change", "count"), [(1.0, 1), (3.0, 4), (0.5, 100)])
def test_two_accountants_agree(size: int, change: float, count: int) -> None:
    events = [NormRelease(change, size, 0.01, count), GaussianRelease(0.01, 1.0)]
    first, second = accountant.epsilon(events, DELTA), accountant.second_opinion(events, DELTA)
    assert first == pytest.approx(second, rel=0.01 if size < 2000 else 0.03)


@pytest.mark.parametrize("size", [1, 2, 9, 300])
@pytest.mark.parametrize("count", [1, 7])
def test_never_worse_than_its_pure_epsilon(size: int, count: int) -> None:
    norm, pure = NormRelease(1.4, size, 0.1, count), PureRelease(1.5, count)
    assert accountant.pure_epsilon([norm]) == pytest.approx(1.5 * count)
    assert accountant.delta([norm], 1.5 * count * (1 + 1e-9)) == 0.0
    for delta in (1e-9, 1e-5, 0.1):
        assert accountant.epsilon([norm], delta) <= accountant.epsilon([pure], delta) * (1 + 1e-5)
    assert accountant.epsilon([norm], 0.0) == pytest.approx(1.5 * count)


def test_many_dimensions_approach_a_gaussian() -> None:
    assert accountant.epsilon([NormRelease(3.0, 123, 0.01)], DELTA) == pytest.approx(1.0674, abs=2e-4)
    assert accountant.epsilon([NormRelease(3.0, 123, 0.01, 4)], DELTA) == pytest.approx(2.682, abs=1e-3)


def test_atoms_have_probability_and_mean_one() -> None:
    loss = direction.losses(2.0, 0.1, 30, 3)
    assert loss is not None
    assert loss.masses.sum() == pytest.approx(1.0, abs=1e-12)
    assert loss.masses @ np.exp(-loss.values) == pytest.approx(1.0, abs=1e-9)
    assert abs(loss.values).max() <= 3 * 2.1 * (1 + 1e-12)


def test_too_many_releases_are_bounded_by_other_means() -> None:
    event = NormRelease(0.01, 50, 0.0, 5000)
    assert direction.losses(0.01, 0.0, 50, 5000) is None
    assert accountant.epsilon([event], DELTA) == accountant.zcdp_epsilon([event], DELTA)


def test_a_huge_epsilon_is_that_of_pure_releases() -> None:
    norm, pure = NormRelease(1000.0, 20, 1.0, 3), PureRelease(1001.0, 3)
    assert accountant.epsilon([norm], DELTA) == pytest.approx(accountant.epsilon([pure], DELTA))


def test_calibration_uses_what_was_asked() -> None:
    size = largest_for(1.0, DELTA, lambda x: [NormRelease(x, 50, 0.01, 2)])
    assert 0.999 < accountant.epsilon([NormRelease(size, 50, 0.01, 2)], DELTA) <= 1.0
    with pytest.raises(InputError, match="is spent before any noise"):
        largest_for(1.0, DELTA, lambda x: [NormRelease(x, 50, 0.01, 2), PureRelease(2.0)])


def test_record_comes_back() -> None:
    event = NormRelease(1.0, 3, 0.2, 4, released="models", party="node 1")
    assert from_record(to_record(event)) == event
    with pytest.raises(InputError, match="change"):
        NormRelease(0.0, 3)
