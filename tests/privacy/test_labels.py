"""Randomized labels: the law of the flips, the estimates from them, and what is refused."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import stats

from tacit.errors import InputError
from tacit.privacy import accountant
from tacit.privacy.calibration import label_events
from tacit.privacy.randomness import (
    NoiseSource,
    _flip_probability,
    debiased,
    keep_probability,
    label_noise,
    randomize_labels,
)

ROWS = 400_000
EPSILONS = [0.05, 0.5, 1.0, 2.0, 4.0]


def flips(labels: np.ndarray, epsilon: float, seed: int = 11) -> int:
    return int(np.sum(randomize_labels(labels, epsilon, NoiseSource(seed)) != labels))


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_each_kind_of_label_is_flipped_as_often_as_it_must(epsilon: float, sign: float) -> None:
    count = flips(np.full(ROWS, sign), epsilon)
    assert stats.binomtest(count, ROWS, 1 / (1 + math.exp(epsilon))).pvalue > 1e-3


@pytest.mark.parametrize("epsilon", EPSILONS[1:])  # so many rows cannot tell 0.05 from 0.055
def test_a_wrong_flip_probability_is_caught(epsilon: float) -> None:
    """The test above has the power to see another epsilon, and the usual mistake 1 / (2 (1 + e^eps))."""
    count = flips(np.ones(ROWS), epsilon)
    for wrong in (1 / (1 + math.exp(1.1 * epsilon)), 1 / (1 + math.exp(0.9 * epsilon)), 0.5 / (1 + math.exp(epsilon))):
        assert stats.binomtest(count, ROWS, wrong).pvalue < 1e-3


def test_flips_of_different_rows_are_independent() -> None:
    flipped = randomize_labels(np.ones(ROWS), 1.0, NoiseSource(2)) < 0
    probability = 1 / (1 + math.e)
    for lag in (1, 2, 7):
        both = int(np.sum(flipped[lag:] & flipped[:-lag]))
        sd = math.sqrt(ROWS * probability**2 * (1 - probability) * (1 + 3 * probability))
        assert abs(both - (ROWS - lag) * probability**2) < 4 * sd


@pytest.mark.parametrize("epsilon", [1e-300, 1e-17, 1e-9, 0.1, 0.7, 1.0, 3.0, 7.6, 12.0, 44.0, 45.0, 700.0, 1e4, 1e300])
def test_no_label_is_flipped_less_often_than_promised(epsilon: float) -> None:
    """The threshold that the coin compares its 64 bits with, against 1 / (1 + e^eps) in 120 digits."""
    probability = _flip_probability(epsilon)
    flip = Fraction(math.ceil(math.ldexp(probability, 64)), 2**64)
    with mp.workdps(120):
        wanted = 1 / (1 + mp.exp(mpf(min(epsilon, 2000.0))))
        drawn = mpf(flip.numerator) / flip.denominator
        assert drawn >= wanted
        assert drawn <= wanted * (1 + mpf(2) ** -51) + mpf(2) ** -64
        assert drawn <= mpf(1) / 2


def test_the_ratio_of_the_two_laws_is_the_stated_epsilon() -> None:
    """What the accountant says of one release is what the coin does."""
    (event,) = label_events(1.5, "person")
    flip = _flip_probability(1.5)
    assert math.log((1 - flip) / flip) <= accountant.epsilon([event], 0.0) + 1e-12
    assert math.log((1 - flip) / flip) == pytest.approx(1.5, rel=1e-12)


def test_labels_are_left_alone_and_repeatable_only_with_a_seed() -> None:
    labels = np.where(np.arange(1000) % 3 == 0, 1.0, -1.0)
    kept = labels.copy()
    labels.flags.writeable = False
    first, second = (randomize_labels(labels, 1.0, NoiseSource(4)) for _ in range(2))
    np.testing.assert_array_equal(labels, kept)
    np.testing.assert_array_equal(first, second)
    assert set(np.unique(first)) == {-1.0, 1.0}
    assert np.any(randomize_labels(labels, 1.0, NoiseSource()) != randomize_labels(labels, 1.0, NoiseSource()))
    assert randomize_labels(np.zeros(0), 1.0, NoiseSource(4)).shape == (0,)


@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 1.0, 5.0, 40.0])
def test_the_estimate_is_unbiased_with_the_stated_variance(epsilon: float) -> None:
    """Exactly, by summing both outcomes of the flip."""
    keep = keep_probability(epsilon)
    flip = 1 / (1 + math.exp(epsilon))
    high, low = debiased(np.array([1.0, -1.0]), epsilon)
    for true, same, other in ((1.0, high, low), (0.0, low, high)):
        assert keep * same + flip * other == pytest.approx(true, abs=1e-12 * abs(high))
        spread = keep * (same - true) ** 2 + flip * (other - true) ** 2
        assert label_noise(epsilon) == pytest.approx(spread, rel=1e-9)
    assert high == pytest.approx((1 - flip) / (1 - 2 * flip), rel=1e-9)
    assert label_noise(epsilon) == pytest.approx(flip * (1 - flip) / (1 - 2 * flip) ** 2, rel=1e-9)


def test_a_class_share_is_found_again() -> None:
    labels = np.where(np.arange(ROWS) < 0.2 * ROWS, 1.0, -1.0)
    share = debiased(randomize_labels(labels, 1.0, NoiseSource(9)), 1.0).mean()
    assert abs(share - 0.2) < 4 * math.sqrt(label_noise(1.0) / ROWS)


def test_keep_probability_goes_from_a_half_to_one() -> None:
    assert keep_probability(1e-12) == pytest.approx(0.5)
    assert keep_probability(math.log(3)) == pytest.approx(0.75)
    assert keep_probability(1e5) == 1.0
    assert label_noise(1e5) == 0.0


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan, True, "1"])
def test_epsilon_out_of_range_is_refused(epsilon: object) -> None:
    for function in (keep_probability, label_noise):
        with pytest.raises(InputError, match="epsilon="):
            function(epsilon)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="epsilon="):
        randomize_labels(np.ones(2), epsilon, NoiseSource(1))  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [0.0, 2.0, math.nan, 0.7351])
def test_other_labels_are_refused_without_being_shown(bad: float) -> None:
    with pytest.raises(InputError, match="row 3 is neither") as caught:
        randomize_labels(np.array([1.0, -1.0, bad]), 1.0, NoiseSource(1))
    assert "0.7351" not in str(caught.value)
    with pytest.raises(InputError, match="shape"):
        randomize_labels(np.ones((2, 2)), 1.0, NoiseSource(1))
