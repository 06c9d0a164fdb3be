"""Private noise: its law, its tails, the grid, and what a repeated key would do. Proofs: docs/proofs/grid.md."""

from __future__ import annotations

import copy
import math
import os
import pickle
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import ndtr, ndtri

from tacit.errors import InputError
from tacit.privacy import randomness
from tacit.privacy.randomness import NoiseSource, grid_sensitivity, grid_step, rounded_gaussian, sd_for

SEEDS = [1, 2, 3]
values = st.floats(-1e6, 1e6)
spreads = st.floats(1e-3, 1e6)


def no_more() -> int:
    raise AssertionError("no further bits were expected")


def bits(*words: int) -> Callable[[], int]:
    return iter(words).__next__


# ---------------------------------------------------------------- the law of the noise


@pytest.mark.parametrize("seed", SEEDS)
def test_moments(seed: int) -> None:
    noise = NoiseSource(seed).gaussian(400_000, 3.0) / 3.0
    for power, moment in ((1, 0.0), (2, 1.0), (3, 0.0), (4, 3.0)):
        spread = np.std(noise**power) / math.sqrt(noise.size)
        assert abs(np.mean(noise**power) - moment) < 4 * spread


@pytest.mark.parametrize("seed", SEEDS)
def test_normal_law_and_half_the_sd_is_caught(seed: int) -> None:
    noise = NoiseSource(seed).gaussian(200_000, 2.5)
    assert stats.kstest(noise / 2.5, "norm").pvalue > 1e-3
    assert stats.kstest(0.5 * noise / 2.5, "norm").pvalue < 1e-100
    assert stats.kstest(0.97 * noise / 2.5, "norm").pvalue < 1e-3


def test_draws_are_independent_of_each_other() -> None:
    noise = NoiseSource(4).gaussian(300_000, 1.0)
    for lag in (1, 2, randomness.CHUNK):
        assert abs(np.mean(noise[lag:] * noise[:-lag])) < 4 / math.sqrt(noise.size)


def test_tails_are_as_heavy_as_they_should_be() -> None:
    noise = np.abs(NoiseSource(5).gaussian(3_000_000, 1.0))
    for reach in (3.0, 4.0, 4.5):
        expected = noise.size * 2 * ndtr(-reach)
        low, high = stats.poisson.interval(1 - 1e-6, expected)
        assert low <= np.sum(noise > reach) <= high


@pytest.mark.parametrize("ratio", [0.4, 1.0, 2.7])
def test_a_coarse_grid_has_exactly_the_rounded_law(ratio: float) -> None:
    source = NoiseSource(6)
    cells = rounded_gaussian(source._words(200_000), ratio, source._word)
    edges = np.arange(-math.ceil(3 * ratio), math.ceil(3 * ratio) + 1) - 0.5
    counts = np.bincount(np.searchsorted(edges, cells), minlength=edges.size + 1)
    expected = np.diff(np.concatenate([[0.0], ndtr(edges / ratio), [1.0]])) * cells.size
    assert stats.chisquare(counts, expected).pvalue > 1e-3


def test_the_computed_quantile_is_as_accurate_as_the_proof_needs() -> None:
    near = NoiseSource(7).uniform(1500)
    tails = np.concatenate([np.ldexp(1.0, -np.arange(2, 53)), 1 - np.ldexp(1.0, -np.arange(2, 53))])
    context = mpmath.MPContext()
    context.prec = 200
    for u in [*near, *tails]:
        z = context.mpf(float(ndtri(u)))
        error = float((context.ncdf(z) - context.mpf(float(u))) / context.npdf(z))
        assert abs(error) <= randomness.NDTRI_ERROR / 8 * (1 + abs(float(z)))


# ---------------------------------------------------------------- cells that the first bits do not decide


def test_the_exact_path_agrees_with_the_fast_one(monkeypatch: pytest.MonkeyPatch) -> None:
    words, ratio = NoiseSource(8)._words(400), 2.0**24 * 1.37
    fast = rounded_gaussian(words, ratio, no_more)
    monkeypatch.setattr(randomness, "FAST_REACH", -1.0)
    monkeypatch.setattr(randomness, "NDTRI_ERROR", 2.0**-22)
    assert np.array_equal(rounded_gaussian(words, ratio, NoiseSource(9)._word), fast)


@pytest.mark.parametrize("cell", [-70_000_000, -1, 0, 12_345_678, 80_000_000])
def test_further_bits_decide_at_the_border_of_a_cell(cell: int) -> None:
    ratio = 2.0**24 * 1.2
    border = randomness._scaled_cdf(cell, ratio, 52)
    words = np.array([border << 12], dtype=np.uint64)
    assert rounded_gaussian(words, ratio, bits(0))[0] == cell
    assert rounded_gaussian(words, ratio, bits(2**64 - 1))[0] == cell + 1


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("offset", [-10, 10])
def test_an_error_of_the_quantile_never_moves_a_draw(sign: int, offset: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cell, ratio = 1_000_000, 2.0**24 * 1.2
    words = np.array([randomness._scaled_cdf(cell, ratio, 52) + offset << 12], dtype=np.uint64)
    monkeypatch.setattr(randomness, "ndtri", lambda u: ndtri(u) + sign * 2.0**-46 * (1 + np.abs(ndtri(u))))
    assert rounded_gaussian(words, ratio, bits(0))[0] == cell + (offset > 0)


def test_a_comparison_goes_on_until_it_is_certain() -> None:
    cell, ratio = 5, 2.0**24
    border = randomness._scaled_cdf(cell, ratio, 52 + 128)
    prefix, middle, last = border >> 128, border >> 64 & (2**64 - 1), border & (2**64 - 1)
    words = np.array([prefix << 12], dtype=np.uint64)
    assert rounded_gaussian(words, ratio, bits(middle, last - 1000))[0] == cell
    assert rounded_gaussian(words, ratio, bits(middle, last + 1000))[0] == cell + 1


@pytest.mark.parametrize(("first", "side"), [(0, -1), (2**64 - 1, 1)])
def test_the_tail_is_not_cut_at_53_bits(first: int, side: int) -> None:
    words = np.array([first], dtype=np.uint64)
    far = rounded_gaussian(words, 2.0**24, bits(first, first ^ 2**44))[0] / 2.0**24
    probability = math.ldexp(1.0, 44 - 52 - 128)
    assert far * side > 13
    assert math.log(ndtr(-abs(far))) == pytest.approx(math.log(probability), abs=1e-4)


def test_cells_beyond_forty_sd_are_merged() -> None:
    words = np.zeros(1, dtype=np.uint64)
    assert rounded_gaussian(words, 2.0**10, lambda: 0)[0] == -40 * 2**10


# ---------------------------------------------------------------- the grid


@given(st.lists(values, min_size=1, max_size=5), spreads)
def test_outputs_are_multiples_of_the_step(value: list[float], sd: float) -> None:
    release = NoiseSource().release(value, sd, 1.0)
    assert sd * 2.0**-25 < release.step <= sd * 2.0**-24
    steps = release.noisy / release.step
    assert np.array_equal(steps, np.rint(steps))
    noise = NoiseSource().gaussian(5, sd) / grid_step(sd)
    assert np.array_equal(noise, np.rint(noise))


@given(st.integers(-(2**40), 2**40), st.floats(-0.499, 0.499), spreads, st.integers(0, 2**32))
def test_low_order_bits_of_the_value_never_show(cell: int, inside: float, sd: float, seed: int) -> None:
    step = grid_step(sd)
    value = (cell + inside) * step
    near = [value, np.nextafter(value, -np.inf), np.nextafter(value, np.inf), cell * step]
    assert len({float(NoiseSource(seed).release([x], sd, 1.0).noisy[0]) for x in near}) == 1


@given(st.integers(-(2**50), 2**50), spreads)
def test_the_noise_does_not_depend_on_the_value(cell: int, sd: float) -> None:
    step = grid_step(sd)
    moved = NoiseSource(1).release(np.full(4, cell * step), sd, 1.0).noisy
    assert np.array_equal(moved, NoiseSource(1).gaussian(4, sd) + cell * step)


@given(st.lists(st.tuples(values, st.floats(-1, 1)), min_size=1, max_size=8), st.floats(1e-3, 1e9))
def test_the_stated_sensitivity_covers_the_rounding(pairs: list[tuple[float, float]], sd: float) -> None:
    first = np.array([x for x, _ in pairs])
    second = first + np.array([move for _, move in pairs])
    step = grid_step(sd)
    rounded = (randomness._to_grid(first, step) - randomness._to_grid(second, step)) * step
    distance = float(np.linalg.norm(first - second)) * (1 + 1e-15)
    assert np.linalg.norm(rounded) <= grid_sensitivity(distance, sd, first.size) * (1 + 1e-15)


def test_the_rounding_can_cost_as_much_as_is_stated() -> None:
    step = grid_step(1.0)
    first, second = np.full(100, 0.4999 * step), np.full(100, 0.5001 * step)
    moved = np.linalg.norm(randomness._to_grid(first, step) - randomness._to_grid(second, step)) * step
    assert moved == pytest.approx(grid_sensitivity(0.0, 1.0, 100), rel=1e-12)


@given(st.floats(0.01, 100), st.floats(0, 1e6), st.integers(1, 10**7))
def test_sd_for_keeps_its_promise(mu: float, sensitivity: float, size: int) -> None:
    sd = sd_for(mu, sensitivity, size)
    assert grid_sensitivity(sensitivity, sd, size) <= mu * sd
    assert sd <= max(1.1 * sensitivity / mu, randomness.SMALLEST_SD)


@pytest.mark.parametrize(
    ("bad", "instead"), [(math.nan, 0.0), (math.inf, 2.0**38), (-math.inf, -(2.0**38)), (-3.7e300, -(2.0**38))]
)
def test_values_beyond_the_grid_are_held_to_it(bad: float, instead: float) -> None:
    """A refusal would be seen. The noise is that of any other value: only the value is exchanged."""
    noisy = NoiseSource(1).release([0.5, bad], 1.0, 1.0).noisy
    assert np.array_equal(noisy, NoiseSource(1).release([0.5, instead], 1.0, 1.0).noisy)


@given(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300))
def test_holding_values_to_the_grid_brings_them_no_further_apart(first: float, second: float) -> None:
    step = grid_step(1.0)
    one, other = (int(randomness._to_grid(np.array([v]), step)[0]) for v in (first, second))
    assert abs(one - other) <= Fraction(abs(Fraction(first) - Fraction(second))) / Fraction(step) + 1


def test_the_largest_value_that_fits() -> None:
    release = NoiseSource(1).release([-math.nextafter(2.0**38, 0.0)], 1.0, 1.0)
    assert release.noisy[0] == pytest.approx(-(2.0**38), abs=10)


@pytest.mark.parametrize("sd", [0.0, -1.0, math.nan, math.inf, 1e-300])
def test_a_bad_sd_is_refused(sd: float) -> None:
    with pytest.raises(InputError, match=r"sd=.* it must be between"):
        NoiseSource(1).gaussian(3, sd)


def test_other_bad_arguments_are_refused() -> None:
    source = NoiseSource(1)
    with pytest.raises(InputError, match="sensitivity=-1"):
        source.release([0.0], 1.0, -1.0)
    with pytest.raises(InputError, match=r"mu=1e-07 is not allowed for 100 entries: .* above 6e-07"):
        sd_for(1e-7, 1.0, 100)
    with pytest.raises(InputError, match="mu=nan"):
        sd_for(math.nan, 1.0, 100)
    with pytest.raises(InputError, match="size=-1"):
        source.uniform(-1)
    with pytest.raises(InputError, match=r"probability=1\.5"):
        source.coin(1.5, 3)
    for seed in (-1, True, 0.5, "a"):
        with pytest.raises(InputError, match="seed="):
            NoiseSource(seed)  # type: ignore[arg-type]


# ---------------------------------------------------------------- shapes, uniforms, coins


def test_shapes() -> None:
    source = NoiseSource(1)
    assert (
        source.gaussian((3, 4), 1.0).shape == source.uniform((3, 4)).shape == source.coin(0.5, (3, 4)).shape == (3, 4)
    )
    assert source.gaussian(0, 1.0).size == source.uniform(0).size == 0
    assert source.release(np.zeros((2, 3)), 1.0, 1.0).noisy.shape == (2, 3)


def test_uniforms() -> None:
    draws = NoiseSource(2).uniform(300_000)
    assert stats.kstest(draws, "uniform").pvalue > 1e-3
    ends = randomness._middle(np.array([0, 2**64 - 1], dtype=np.uint64))
    assert 0 < ends[0] < ends[1] < 1


@pytest.mark.parametrize("probability", [0.0, 1e-3, 0.25, 0.7310585786300049, 1.0])
def test_coin_frequencies(probability: float) -> None:
    heads = int(NoiseSource(3).coin(probability, 400_000).sum())
    assert stats.binomtest(heads, 400_000, probability).pvalue > 1e-3


def test_a_coin_with_another_probability_is_caught() -> None:
    heads = int(NoiseSource(3).coin(0.26, 400_000).sum())
    assert stats.binomtest(heads, 400_000, 0.25).pvalue < 1e-6


@given(st.floats(0, 1))
@settings(max_examples=50)
def test_the_threshold_of_a_coin_is_exact(probability: float) -> None:
    threshold = math.ceil(math.ldexp(probability, 64))
    words = np.array([max(threshold - 1, 0), min(threshold, 2**64 - 1)], dtype=np.uint64)
    source = NoiseSource(1)
    source._words = lambda count: words  # type: ignore[method-assign]
    assert source.coin(probability, 2).tolist() == [threshold > 0, threshold == 2**64]


# ---------------------------------------------------------------- seeds, keys, copies


def test_a_seed_repeats_the_noise_and_says_so() -> None:
    first, second = NoiseSource(11), NoiseSource(11)
    assert first.is_seeded
    assert np.array_equal(first.gaussian(1000, 1.0), second.gaussian(1000, 1.0))
    assert np.array_equal(first.gaussian(10, 1.0), second.gaussian(10, 1.0))
    others = [NoiseSource(12), NoiseSource(11, stream="b"), NoiseSource(11 + 2**64)]
    assert len({float(source.uniform(1)[0]) for source in [NoiseSource(11), *others]}) == 4


def test_without_a_seed_the_noise_differs() -> None:
    first, second = NoiseSource(), NoiseSource()
    assert not first.is_seeded
    assert not np.any(first.uniform(100) == second.uniform(100))
    assert not np.any(first.uniform(100) == first.uniform(100))


def test_a_forked_child_takes_a_key_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = iter([b"a" * 32, b"b" * 32])
    monkeypatch.setattr(os, "urandom", lambda count: next(keys))
    parent = NoiseSource()
    in_parent = parent.uniform(5)
    own = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: own + 1)
    in_child = parent.uniform(5)
    monkeypatch.setattr(os, "urandom", lambda count: b"a" * 32)
    assert not np.any(in_parent == in_child)
    assert not np.any(NoiseSource().uniform(10)[5:] == in_child)
    with pytest.raises(StopIteration):
        next(keys)


def test_a_used_up_key_is_replaced() -> None:
    first, second = NoiseSource(1), NoiseSource(1)
    assert first.uniform(1) == second.uniform(1)
    first._bits.room = second._bits.room = 4
    before, after = first.uniform(3), first.uniform(3)
    assert np.array_equal(after, np.concatenate([second.uniform(3), second.uniform(3)])[3:])
    assert not np.array_equal(before, after)
    assert not np.array_equal(after, NoiseSource(1).uniform(7)[4:])


def test_a_source_cannot_be_copied() -> None:
    for make in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="two copies would add the same noise"):
            make(NoiseSource(1))
