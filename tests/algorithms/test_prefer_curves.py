"""When curves are taken in place of lines."""

import numpy as np
import pytest
from scipy.stats import sem

from tacit.problem.alphas import prefer_curves

EVEN = np.full(5, 100.0)


def test_a_gain_beyond_one_standard_error_of_the_differences_is_taken() -> None:
    lines = np.array([0.50, 0.60, 0.40, 0.55, 0.45])  # folds differ far more than codes do
    assert prefer_curves(lines, lines - [0.010, 0.012, 0.008, 0.011, 0.009], EVEN)


@pytest.mark.parametrize("curves", [0.0, 0.01, [0.02, -0.01, 0.02, -0.01, -0.015]])
def test_equal_worse_and_doubtful_curves_are_not_taken(curves: object) -> None:
    assert not prefer_curves(np.full(5, 0.5), 0.5 + np.asarray(curves) * np.ones(5), EVEN)


@pytest.mark.parametrize("seed", range(20))
def test_the_bar_is_the_standard_error_of_scipy_where_folds_are_equal(seed: int) -> None:
    gains = np.random.default_rng(seed).normal(0.3, 1.0, 5)
    lines = np.arange(5.0)
    assert prefer_curves(lines, lines - gains, EVEN) == (gains.mean() > sem(gains))


def test_a_fold_counts_by_its_size() -> None:
    lines, curves = np.array([0.5, 0.5, 0.5]), np.array([0.4, 0.4, 0.8])
    assert not prefer_curves(lines, curves, np.ones(3))
    assert prefer_curves(lines, curves, np.array([100.0, 100.0, 1.0]))


def test_folds_of_weight_zero_do_not_count() -> None:
    lines, curves = np.array([0.5, 0.6, np.nan]), np.array([0.4, 0.5, np.nan])
    assert prefer_curves(lines, curves, np.array([10.0, 10.0, 0.0]))


def test_one_fold_shows_no_error_and_is_not_enough() -> None:
    assert not prefer_curves(np.array([0.5]), np.array([0.1]), np.array([10.0]))


def test_a_code_without_a_finite_loss_is_not_taken() -> None:
    finite, infinite = np.array([0.5, 0.5]), np.array([0.1, np.inf])
    assert not prefer_curves(finite, infinite, np.ones(2))
    assert prefer_curves(infinite, finite, np.ones(2))
