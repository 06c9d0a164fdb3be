"""Rows that are needed, by hand, by what they must do, and the one bound with all constants against simulated noise."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tacit.errors import InputError
from tacit_papers.dynamic.sample_sizes import (
    Goal,
    dual_excess,
    rows_for_dual,
    rows_for_primal,
    rows_for_released_primal,
    rows_without_privacy,
)

GOAL = Goal(reference=2.0, accuracy=0.5, alpha=0.1, columns=10, failure=0.1, weight=3.0, pull=0.2)


def test_by_hand():
    log1, log, log2 = math.log(10), math.log(100), math.log(200)
    assert rows_without_privacy(GOAL) == pytest.approx(3 * 4 * log1 / 0.25)
    assert rows_for_dual(GOAL) == pytest.approx(3 * 2 * 10 * log / 0.05)
    assert rows_for_dual(GOAL, published=True) == pytest.approx(2 * 10 * log1 / 0.05)
    assert rows_for_primal(GOAL) == pytest.approx(3 * 8 * 0.2 * 10 * log2 / (0.25 * 0.1))
    assert rows_for_primal(GOAL, published=True) == pytest.approx(3 * 8 * 0.2 * 10 * log / 0.025)
    bent = 4 * 3**1.5 * 4 * 10 * log / (0.5**1.5 * 0.1)
    assert rows_for_released_primal(replace(GOAL, pull=0.0)) == pytest.approx(
        max(4 * 3 * 2 * 10 * log / 0.05, bent / 2)
    )
    printed = rows_for_released_primal(replace(GOAL, pull=0.0), published=True)
    assert printed == pytest.approx(max(4 * 3 * 2 * 10 * log**2 / 0.05, bent))
    curved = replace(GOAL, bend=1e4)
    assert rows_for_dual(curved) == pytest.approx(3 * 1e4 * 4 / 0.05)


@pytest.mark.parametrize("needed", [rows_for_dual, rows_for_primal, rows_for_released_primal])
def test_more_is_needed_for_more(needed):
    assert needed(replace(GOAL, alpha=0.2)) < needed(GOAL) < needed(replace(GOAL, accuracy=0.4))
    assert needed(GOAL) < needed(replace(GOAL, reference=3.0))
    assert needed(GOAL) < needed(replace(GOAL, columns=11))
    assert needed(replace(GOAL, constant=7.0)) == pytest.approx(7 * needed(GOAL))


def test_alpha_above_one_is_refused():
    with pytest.raises(InputError, match="alpha <= 1"):
        replace(GOAL, alpha=1.5)


def test_excess_holds_as_often_as_it_says_and_is_not_far_off():
    """Quadratic Z: a linear term h costs exactly |h|^2/(2 curvature), so the bound is reached as often as it may be."""
    rows, columns, rate, ridge, weight = 500, 4, 0.3, 0.1, 2.0
    rng = np.random.default_rng(0)
    norms = rng.gamma(columns, 1 / rate, size=20_000)
    bound = dual_excess(rows, columns, rate, ridge, weight, failure=0.1)
    above = np.mean((weight / rows * norms) ** 2 / (2 * ridge) > bound)
    assert above == pytest.approx(0.1, abs=0.01)
    printed = (weight / rows * columns * math.log(columns / 0.1) / rate) ** 2 / ridge
    assert bound < printed
