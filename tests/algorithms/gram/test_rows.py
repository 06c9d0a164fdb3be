"""Clipped rows: never too long, whatever the data; and sums over many rows within the rounding that is accounted."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from tacit.blocks.dense import LONGEST, ROWS_AT_ONCE, Block, RowClip
from tacit.mechanisms.gram.fit import LEAST_SPREAD, _sums, private_fit
from tacit.mechanisms.gram.settings import RADIUS, HalfTarget, rounding
from tests.algorithms.gram.cases import COLUMNS, ROWS, case
from tests.algorithms.gram.replay import Recorder, deviations

SHAPES = [(dtype, is_sparse) for dtype in (np.float32, np.float64) for is_sparse in (False, True)]


def made(rows, dtype, is_sparse):
    rows = np.asarray(rows, dtype=dtype)
    return sparse.csr_array(rows) if is_sparse else rows


def exact_norm2(row, shrink, centre, factor) -> Fraction:
    """Squared norm of factor (shrink row - centre), without rounding."""
    terms = (
        Fraction(float(shrink)) * Fraction(float(v)) - Fraction(float(c)) for v, c in zip(row, centre, strict=True)
    )
    return Fraction(float(factor)) ** 2 * sum(term * term for term in terms)


@pytest.mark.parametrize(("dtype", "is_sparse"), SHAPES)
def test_no_row_is_longer_than_its_bound(dtype, is_sparse):
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(60, 50)) * 10.0 ** rng.integers(-3, 5, (60, 1))
    rows[0], rows[1] = 0.0, 1e30
    rows[2:20] = rows[20] / np.linalg.norm(rows[20]) + 1e-4 * rng.normal(size=(18, 50))  # at the bound, near the centre
    data = made(rows, dtype, is_sparse)
    stored = np.asarray(rows, dtype=dtype).astype(float)
    way = rows[20] / np.linalg.norm(rows[20])
    for norm in (1.0, 3e-7, 1e20):
        for centre, radius in ((0.0, 1.0), (1.0, RADIUS * LEAST_SPREAD**0.5), (0.3, 0.5)):
            clipped = RowClip(norm, centre * norm * way, radius * norm).apply(data)
            for i in range(60):
                zero = np.zeros(50)
                assert exact_norm2(stored[i], clipped.shrink[i], zero, 1.0) <= Fraction(norm) ** 2
                size = exact_norm2(stored[i], clipped.shrink[i], clipped.clip.centre, clipped.factor[i])
                assert size <= Fraction(radius * norm) ** 2


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("long", [1e61, 1e154, 1e200, 1.7e308])
def test_a_row_too_long_for_floats_counts_as_zeros(is_sparse, long):
    rows = np.random.default_rng(0).normal(size=(4, 3))
    rows[1] = long, -long, long
    zeros = rows.copy()
    zeros[1] = 0.0
    clip = RowClip(1.0, np.array([0.2, 0.1, 0.0]), 0.7)
    one, other = clip.apply(made(rows, float, is_sparse)), clip.apply(made(zeros, float, is_sparse))
    x, w = np.array([1e3, -2.0, 5e2]), np.arange(1.0, 5.0)
    assert np.array_equal(one.predict(x), other.predict(x))
    assert np.array_equal(one.correlate(w), other.correlate(w))
    assert np.array_equal(one.gram(w), other.gram(w))
    assert np.array_equal(one.squares(), other.squares())
    assert LONGEST < 1e61


def test_a_row_is_clipped_by_itself_alone():
    rng = np.random.default_rng(2)
    rows, other = rng.normal(size=(2, 9, 4))
    other[3] = rows[3]
    clip = RowClip(1.0, rng.normal(size=4) / 4, 0.4)
    one, two = clip.apply(rows), clip.apply(other)
    assert (one.shrink[3], one.factor[3]) == (two.shrink[3], two.factor[3])


@pytest.mark.parametrize("is_sparse", [False, True])
def test_sums_round_less_than_is_accounted(is_sparse):
    """Against sums in long double, at the worst centre and radius; the allowance is for two data sets."""
    rng = np.random.default_rng(3)
    count, norm = 3 * ROWS_AT_ONCE + 17, 1.0
    way = np.ones(6) / np.sqrt(6)
    rows = way + 0.05 * rng.normal(size=(count, 6))
    clip = RowClip(norm, norm * way, RADIUS * LEAST_SPREAD**0.5 * norm)
    clipped = clip.apply(made(rows, float, is_sparse))
    r, w = rng.uniform(0.5, 1.0, count), np.full(count, 0.5)
    exact = (clipped.factor[:, None] * (clipped.shrink[:, None] * rows - clip.centre)).astype(
        np.longdouble
    ) / clip.radius
    gradient = np.abs(clipped.correlate(r) / clip.radius - (exact * r[:, None]).sum(axis=0))
    gram = clipped.gram(w) / clip.radius**2 - (exact * w[:, None]).T @ exact
    allowed = rounding(count, ROWS_AT_ONCE)
    assert 2 * np.linalg.norm(gradient.astype(float)) / 2 <= allowed
    assert 2 * np.linalg.norm(gram.astype(float)) / (np.sqrt(8) * 0.5) <= allowed


def test_sums_of_side_columns_are_pairwise():
    """Adding a million equal numbers one by one would lose four digits more."""
    slopes = np.full(2**20, 0.1)
    side = np.column_stack([np.ones(slopes.size), np.full(slopes.size, 0.7)])
    exact = [float(slopes.size * Fraction(0.1)), float(slopes.size * Fraction(0.7 * 0.1))]
    assert np.allclose(_sums(side, slopes), exact, rtol=1e-14, atol=0)


def test_the_centre_stays_in_the_ball_of_the_rows_and_the_radius_is_not_too_small():
    """Section 7 counts on both, whatever the noise says."""
    rng = np.random.default_rng(4)
    for seed in range(30):
        one = case("half", rng, wide=float(10 ** rng.uniform(-1, 2)))
        release = Recorder("guest", deviations(one.plan, "guest"), np.random.default_rng(seed), {}, 100.0)
        settings = one.plan.private.settings.fits["guest"]
        target = HalfTarget(one.inbox["offset"], one.inbox["labels"])
        clip = private_fit(Block(rng.normal(size=(ROWS, COLUMNS))), target, settings, release).clip
        assert np.linalg.norm(clip.centre) <= clip.norm * (1 + 1e-15)
        assert clip.radius >= RADIUS * LEAST_SPREAD**0.5 * clip.norm
