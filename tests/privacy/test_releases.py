"""Planned releases have the law that the certificate counts on, and what was not planned is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binomtest, chisquare, kstest

from tacit.errors import InputError, RunError
from tacit.privacy.releases import Allowed, AllowedResponse, Releaser

DRAWS = 200_000


def answers(planned: AllowedResponse) -> np.ndarray:
    return Releaser([planned], "shop", seed=5).respond(planned.name, np.ones(DRAWS, dtype=np.int64))


@pytest.mark.parametrize("symbols", [2, 4, 8])
@pytest.mark.parametrize("epsilon", [0.35, 0.7, 2.8])
def test_a_symbol_is_kept_as_often_as_the_theorem_says(symbols: int, epsilon: float) -> None:
    """Kept with e^eps / (e^eps + k - 1), else each other symbol alike; a quarter more epsilon fails the same test."""

    def fits(planned: AllowedResponse) -> float:
        counts = np.bincount(answers(planned), minlength=symbols)
        share = np.full(symbols, 1 / (math.exp(epsilon) + symbols - 1))
        share[1] *= math.exp(epsilon)
        return float(chisquare(counts, DRAWS * share).pvalue)

    assert fits(AllowedResponse("symbol", epsilon, symbols)) > 1e-4
    assert fits(AllowedResponse("symbol", 1.25 * epsilon, symbols)) < 1e-6


def test_rounding_never_keeps_a_symbol_too_often() -> None:
    for epsilon in np.geomspace(1e-3, 700, 200):
        for symbols in (2, 8):
            redraw = AllowedResponse("symbol", float(epsilon), symbols).redraw
            assert redraw >= symbols / (math.exp(epsilon) + symbols - 1)
    at_most = binomtest(int((answers(AllowedResponse("bit", 1.0)) == 1).sum()), DRAWS, math.e / (1 + math.e))
    assert at_most.pvalue > 1e-4


def test_added_noise_has_the_planned_deviation() -> None:
    noisy = Releaser([Allowed("sum", 3.0)], "shop", seed=1).add("sum", np.zeros(20_000))
    assert kstest(noisy, "norm", args=(0.0, 3.0)).pvalue > 1e-4
    assert kstest(noisy, "norm", args=(0.0, 3.3)).pvalue < 1e-6


def test_nothing_is_released_that_was_not_planned_or_more_often() -> None:
    releaser = Releaser([Allowed("sum", 1.0, times=2), AllowedResponse("bit", 1.0)], "shop", seed=1)
    releaser.add("sum", [1.0])
    releaser.add("sum", [1.0])
    with pytest.raises(RunError, match="released 2 times as planned: not once more"):
        releaser.add("sum", [1.0])
    for wrong in (lambda: releaser.add("mean", [1.0]), lambda: releaser.add("bit", [1.0])):
        with pytest.raises(RunError, match="was not planned"):
            wrong()
    with pytest.raises(RunError, match=r"outside 0 \.\. 1"):
        releaser.respond("bit", [2])
    with pytest.raises(InputError, match="must be from 2"):
        AllowedResponse("symbol", 1.0, symbols=1)
