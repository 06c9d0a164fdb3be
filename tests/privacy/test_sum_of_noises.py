"""The sum of several parties' rounded Gaussian noises (docs/proofs/grid.md, theorem 3)."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

from tacit.privacy.aggregation import SHARE, MaskingParty, unmask_sum
from tacit.privacy.randomness import NoiseSource, grid_step, rounded_gaussian
from tacit.privacy.releases import Allowed, Releaser

REACH = 40


def cells(centres: np.ndarray, sd: float) -> np.ndarray:
    """Probability of the cell of width 1 around each centre under N(0, sd^2)."""
    return np.asarray(ndtr((centres + 0.5) / sd) - ndtr((centres - 0.5) / sd))


def sum_law(r: float, n: int) -> np.ndarray:
    """P(M_1 + ... + M_n = k) for |k| <= REACH, added up."""
    one = cells(np.arange(-REACH, REACH + 1.0), r)
    total = one
    for _ in range(n - 1):
        total = np.convolve(total, one)
    middle = total.size // 2
    return total[middle - REACH : middle + REACH + 1]


def rounded_law(sd: float, n: int) -> np.ndarray:
    """P([sd Z + U_1 + ... + U_(n-1)] = k), integrated over the uniform numbers."""
    nodes, weights = np.polynomial.legendre.leggauss(24)
    shifts, mass = np.zeros(1), np.ones(1)
    for _ in range(n - 1):
        shifts, mass = np.add.outer(shifts, nodes / 2).ravel(), np.multiply.outer(mass, weights / 2).ravel()
    return np.array([mass @ cells(k - shifts, sd) for k in range(-REACH, REACH + 1)])


def aliases(r: float, n: int) -> np.ndarray:
    """The Fourier integral of c^n - C."""
    t = np.linspace(-math.pi, math.pi, 4096, endpoint=False)
    terms = np.array(
        [np.exp(-((r * w) ** 2) / 2) * np.sinc(w / (2 * math.pi)) for m in range(-9, 10) for w in [t + 2 * math.pi * m]]
    )
    difference = terms.sum(axis=0) ** n - (terms**n).sum(axis=0)
    return np.array([np.mean(difference * np.cos(k * t)) for k in range(-REACH, REACH + 1)])


def alias_bound(r: float, n: int) -> float:
    return (n + 1) * 2.001 * math.exp(-((math.pi * r) ** 2) / 2)


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("r", [0.5, 0.6, 0.75, 1.0, 2.0, 3.0])
def test_the_sum_is_a_rounded_gaussian_but_for_the_aliases(r: float, n: int) -> None:
    difference = sum_law(r, n) - rounded_law(r * math.sqrt(n), n)
    np.testing.assert_allclose(difference, aliases(r, n), rtol=0, atol=2e-15)
    assert np.abs(difference).max() <= alias_bound(r, n) + 2e-15
    wrong = sum_law(r, n) - rounded_law(r * math.sqrt(n) * 1.001, n)
    assert np.abs(wrong - aliases(r, n)).max() > 1e-5


def test_on_a_coarse_grid_the_aliases_are_seen() -> None:
    assert np.abs(sum_law(0.5, 2) - rounded_law(0.5 * math.sqrt(2), 2)).max() > 0.02


@pytest.mark.parametrize("n", [2, 10, 2**64])
@pytest.mark.parametrize("r", [2**24, 2**25])
def test_the_distance_stated_for_one_entry(r: int, n: int) -> None:
    context = mpmath.MPContext()
    context.prec = 200
    reach = n * (40 * context.mpf(r) + 0.5)
    e = 2.001 * context.exp(-(context.pi**2) * context.mpf(r) ** 2 / 2)
    tails = 4 * n * context.ncdf(-40)
    assert (2 * reach + 1) * (n + 1) * e + tails < n * context.mpf(2) ** -1157
    assert tails > n * context.mpf(2) ** -1159  # so that the statement is not off by much


# --- what is drawn -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3, 7])
def test_drawn_sums_have_the_gaussian_law_of_all_their_noise(n: int) -> None:
    sd, size = 0.37, 200_000
    total = sum(NoiseSource(11, stream=f"party {j}").gaussian(size, sd) for j in range(n))
    assert np.all(total / grid_step(sd) == np.rint(total / grid_step(sd)))

    def p_value(noise: float) -> float:
        uniform = ndtr(total / noise)
        return float(stats.chisquare(np.histogram(uniform, bins=200, range=(0, 1))[0]).pvalue)

    assert p_value(sd * math.sqrt(n)) > 1e-3
    for wrong in (sd * math.sqrt(n - 1), 1.05 * sd * math.sqrt(n), sd):
        assert p_value(wrong) < 1e-6


def test_drawn_sums_on_a_coarse_grid_have_the_stated_law() -> None:
    n, r, size = 3, 1.0, 200_000
    total = np.zeros(size, dtype=np.int64)
    for j in range(n):
        source = NoiseSource(5, stream=f"party {j}")
        total += rounded_gaussian(source._words(size), r, source._word)
    counts = np.bincount(np.clip(total, -6, 6) + 6, minlength=13)
    law = rounded_law(r * math.sqrt(n), n)
    expected = law[REACH - 6 : REACH + 7].copy()
    expected[0], expected[-1] = law[: REACH - 5].sum(), law[REACH + 6 :].sum()
    assert stats.chisquare(counts, expected / expected.sum() * size).pvalue > 1e-3
    once = cells(np.arange(-REACH, REACH + 1.0), r * math.sqrt(n))  # the law of [R Z] without the uniform numbers
    expected = once[REACH - 6 : REACH + 7].copy()
    expected[0], expected[-1] = once[: REACH - 5].sum(), once[REACH + 6 :].sum()
    assert stats.chisquare(counts, expected / expected.sum() * size).pvalue < 1e-6


# --- nothing rounds on the way -----------------------------------------------------------------------


def masked_sum(vectors: dict[str, np.ndarray]) -> np.ndarray:
    parties = {name: MaskingParty(name, "run") for name in vectors}
    for name, party in parties.items():
        party.agree({other: parties[other].public_bytes for other in vectors if other != name})
    return unmask_sum({n: p.mask(0, "share", vectors[n], SHARE) for n, p in parties.items()}, list(vectors), SHARE)


@pytest.mark.parametrize(("sd", "exact"), [(2.0**-36, True), (1.0, True), (1e6, True), (2.0**-38, False)])
def test_what_is_on_the_grid_passes_the_masks_unrounded(sd: float, exact: bool) -> None:
    names = ("ann", "bob", "cem")
    rng = np.random.default_rng(0)
    noisy = {n: Releaser([Allowed("share", sd)], n, 3).add("share", rng.uniform(-1, 1, 200) * sd) for n in names}
    counted = {n: [Fraction(float(v)) * 2**60 for v in vector] for n, vector in noisy.items()}
    assert all(number.denominator == 1 for numbers in counted.values() for number in numbers) is exact
    true = np.array([float(sum(numbers) / 2**60) for numbers in zip(*counted.values(), strict=True)])
    assert bool(np.all(masked_sum(noisy) == true)) is exact
