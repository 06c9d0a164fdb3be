"""The sharing paper's arithmetic, against values computed by hand and against the exact curve."""

from __future__ import annotations

import math

import pytest

from tacit.errors import InputError
from tacit.mechanisms.published import corollary1_epsilon, corollary1_round_epsilon, lemma1_bound, theorem3_sigma
from tacit.privacy.accountant import gaussian_epsilon


def test_lemma1_by_hand() -> None:
    # 3 / (10 * 2) * (0.5 * 4 + (1 + 3 * 2) * 1.5) = 0.15 * 12.5
    assert lemma1_bound(10, 2.0, 0.5, 4.0, 3, 1.5) == pytest.approx(1.875, rel=1e-15)


def test_theorem3_by_hand() -> None:
    # delta = 1.25 e^-8: sqrt(2 * 8) = 4
    assert theorem3_sigma(3.0, 0.5, 1.25 * math.exp(-8)) == pytest.approx(24.0, rel=1e-14)


def test_corollary1_by_hand() -> None:
    # T = 8, delta' = e^-4: sqrt(2 * 8 * 4) = 8; eps = ln 2: 8 ln 2 + 8 ln 2 * 1
    assert corollary1_epsilon(math.log(2), 8, math.exp(-4)) == pytest.approx(16 * math.log(2), rel=1e-14)


@pytest.mark.parametrize("rounds", [1, 5, 19, 200])
@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 4.0])
def test_the_epsilon_of_a_round_inverts_corollary1(rounds: int, epsilon: float) -> None:
    one = corollary1_round_epsilon(epsilon, rounds, 5e-6)
    assert 0 < one < 1
    assert corollary1_epsilon(one, rounds, 5e-6) == pytest.approx(epsilon, rel=1e-12)


def test_the_epsilon_of_a_round_ends_where_the_theorem_does() -> None:
    assert corollary1_round_epsilon(1e9, 19, 5e-6) == 1.0


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, math.nan])
def test_a_delta_out_of_range_is_refused(delta: float) -> None:
    for call in (lambda: theorem3_sigma(1.0, 1.0, delta), lambda: corollary1_epsilon(0.1, 10, delta)):
        with pytest.raises(InputError):
            call()


@pytest.mark.parametrize("rounds", [1, 5, 19, 100])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
def test_corollary1_states_eight_to_ten_times_the_epsilon_of_its_own_noise(rounds: int, epsilon: float) -> None:
    """As if Lemma 1 were true and the noise isotropic; the numbers are in docs/proofs/published.md, section 6."""
    delta = 1e-5
    one = corollary1_round_epsilon(epsilon, rounds, delta / 2)
    sigma = theorem3_sigma(1.0, one, delta / 2 / rounds)
    ratio = epsilon / gaussian_epsilon(math.sqrt(rounds) / sigma, delta)
    assert 8.0 < ratio < 10.3
