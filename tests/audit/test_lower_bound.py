"""Lower bounds on epsilon: never above the truth too often, and large enough to catch half the noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from tacit.audit.game import FEWEST, Guesses, LowerBound, lower_bound, lower_rate, upper_rate
from tacit.errors import InputError
from tacit.privacy.accountant import gdp_mu

DELTA = 1e-5
MU = gdp_mu(1.0, DELTA)


def gaussian(mu: float, runs: int, seed: int) -> Guesses:
    """What the best score of a mu-GDP mechanism looks like."""
    rng = np.random.default_rng(seed)
    truths = rng.random(runs) < 0.5
    return Guesses(truths, rng.normal(size=runs) + mu * truths)


def response(epsilon: float, runs: int, seed: int) -> Guesses:
    rng = np.random.default_rng(seed)
    truths = rng.random(runs) < 0.5
    flips = rng.random(runs) < 1 / (1 + math.exp(epsilon))
    return Guesses(truths, np.where(truths ^ flips, 1.0, -1.0))


def share(bounds: list[LowerBound], name: str, above: float) -> float:
    return float(np.mean([getattr(bound, name) > above for bound in bounds]))


def test_a_sound_mechanism_is_not_accused() -> None:
    bounds = [lower_bound(gaussian(MU, 2000, seed), DELTA) for seed in range(100)]
    assert share(bounds, "epsilon_curve", 1.0) <= 0.1  # 0.05 is promised, and 100 games are 100 games
    assert share(bounds, "epsilon_any", 1.0) <= 0.05
    assert share(bounds, "mu", MU) <= 0.1
    sure = [lower_bound(gaussian(MU, 2000, seed), DELTA, 0.999) for seed in range(100)]
    assert share(sure, "epsilon_curve", 1.0) == 0


def test_half_the_noise_is_caught_by_the_curve() -> None:
    bounds = [lower_bound(gaussian(2 * MU, 4000, seed), DELTA, 0.999) for seed in range(60)]
    assert share(bounds, "epsilon_curve", 1.0) > 0.95


def test_half_the_noise_is_caught_without_any_curve_in_more_runs() -> None:
    bounds = [lower_bound(gaussian(2 * MU, 32_000, seed), DELTA) for seed in range(20)]
    assert share(bounds, "epsilon_any", 1.0) > 0.8


def test_randomized_response_is_bounded_closely_and_soundly() -> None:
    bounds = [lower_bound(response(1.0, 4000, seed), 0.0) for seed in range(100)]
    assert share(bounds, "epsilon_any", 1.0) <= 0.12
    assert np.mean([bound.epsilon_any for bound in bounds]) > 0.85
    caught = [lower_bound(response(2.0, 4000, seed), 0.0, 0.999) for seed in range(20)]
    assert share(caught, "epsilon_any", 1.0) == 1.0


def test_a_large_delta_takes_its_part_off() -> None:
    free = lower_bound(response(1.0, 4000, 1), 0.0).epsilon_any
    assert lower_bound(response(1.0, 4000, 1), 0.2).epsilon_any < free - 0.2
    assert lower_bound(response(1.0, 4000, 1), 0.9).epsilon_any == 0.0


def test_scores_that_say_nothing_show_nothing() -> None:
    bound = lower_bound(gaussian(0.0, 4000, 4), DELTA)
    assert bound.epsilon_any < 0.15
    assert bound.mu < 0.1
    constant = Guesses(gaussian(0.0, 400, 4).truths, np.zeros(400))
    assert lower_bound(constant, DELTA).epsilon_any < 0.5


def test_no_noise_at_all_shows() -> None:
    truths = gaussian(0.0, 2000, 2).truths
    for scores in (np.where(truths, 1.0, -1.0), np.where(truths, np.inf, -np.inf)):
        bound = lower_bound(Guesses(truths, scores), DELTA)
        assert bound.epsilon_any > 4
        assert bound.epsilon_curve > 10
        assert bound.guessed_right == 1.0


def test_more_confidence_is_a_smaller_bound() -> None:
    guesses = gaussian(1.0, 3000, 6)
    low, high = lower_bound(guesses, DELTA, 0.999), lower_bound(guesses, DELTA, 0.9)
    assert low.mu < high.mu
    assert low.epsilon_any < high.epsilon_any
    assert high.mu == pytest.approx(1.0, abs=0.15)
    assert high.distance == pytest.approx(2 * norm.cdf(high.mu / 2) - 1)


@pytest.mark.parametrize(("events", "trials"), [(0, 50), (7, 50), (50, 50)])
def test_clopper_pearson(events: int, trials: int) -> None:
    high, low = upper_rate(events, trials, 0.05), lower_rate(events, trials, 0.05)
    if events < trials:
        assert binom.cdf(events, trials, high) == pytest.approx(0.05)
    if events > 0:
        assert binom.sf(events - 1, trials, low) == pytest.approx(0.05)
    assert low <= events / trials <= high


def test_wrong_input_is_refused() -> None:
    good = gaussian(1.0, 100, 1)
    with pytest.raises(InputError, match="do not fit"):
        Guesses(good.truths, good.scores[1:])
    with pytest.raises(InputError, match=f"make at least {FEWEST}"):
        Guesses(good.truths[:10], good.scores[:10])
    with pytest.raises(InputError, match="a score is NaN"):
        Guesses(good.truths, good.scores * np.nan)
    with pytest.raises(InputError, match="confidence=1"):
        lower_bound(good, DELTA, 1.0)
    with pytest.raises(InputError, match="delta=1"):
        lower_bound(good, 1.0)
