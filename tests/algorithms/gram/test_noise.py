"""What a private fit says of its own noise is the spread of fits with other noise on the same rows."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tacit.blocks.dense import Block
from tacit.columns.curves import FourierColumn
from tacit.mechanisms.gram.fit import GRADIENT, GRAM, MEAN, TRACE, PrivateFit, private_fit
from tacit.mechanisms.gram.settings import FitSettings, HalfTarget, Randomized, bounds, steps_for
from tacit.mechanisms.gram.sides import fit_from_arrays, fit_to_arrays, fit_to_state
from tacit.types import Vector

ROWS, COLUMNS, PAIRS, RUNS = 3000, 4, 3, 60
CURVES = [FourierColumn(f"x{j}", 0.0, 1.0, PAIRS) for j in range(COLUMNS)]


def settings_for(mu: float) -> FitSettings:
    steps, decay = steps_for(ROWS)
    known = bounds(1.0, 0.5, steps, one_signed=True, neighbours="replace")
    first, second = mu * math.sqrt(0.1), mu * math.sqrt(0.9)
    noise = (known.mean / first, known.trace / first, known.gram / second, known.gradient / second)
    return FitSettings(steps, decay, 1.0, 0.5, True, math.sqrt(COLUMNS), *noise)


class Seeded:
    """Adds noise of the planned deviations from a seed."""

    owner = "party"

    def __init__(self, settings: FitSettings, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.sd = {MEAN: settings.mean_sd, TRACE: settings.trace_sd, GRAM: settings.gram_sd}
        self.sd[GRADIENT] = settings.gradient_sd

    def add(self, name: str, value: Vector) -> Vector:
        exact = np.asarray(value)
        return exact + self.sd[name] * self.rng.normal(size=exact.shape)


@pytest.fixture(scope="module")
def rows() -> tuple[Block, Vector, Vector]:
    rng = np.random.default_rng(0)
    x, offset = rng.uniform(size=(ROWS, COLUMNS)), rng.normal(size=ROWS)
    x[:, 1] = 0.5 * x[:, 1] + 0.5 * x[:, 0]  # columns that go together
    score = offset + 2 * np.sin(3 * x[:, 0]) + 2 * (x[:, 1] > 0.5) - 2
    code = np.hstack([curve.encode(x[:, j]) for j, curve in enumerate(CURVES)])
    return Block(code), offset, np.where(rng.logistic(size=ROWS) < score, 1.0, -1.0)


def values_of(fit: PrivateFit, noise: Vector) -> tuple[Vector, Vector]:
    """The curves, and the deviation that `noise` gives them."""
    values, deviations = [], []
    for j, curve in enumerate(CURVES):
        at = slice(2 * PAIRS * j, 2 * PAIRS * (j + 1))
        code = curve.encode(curve.grid()) - fit.clip.centre[at]
        values.append(code @ fit.coef[at])
        deviations.append(np.sqrt(np.einsum("ij,jk,ik->i", code, noise[at, at], code)))
    return np.concatenate(values), np.concatenate(deviations)


def coverage(found: list[tuple[Vector, Vector]], times: float = 1.0) -> float:
    """How often the band of a run holds the mean over all runs."""
    values, deviations = np.array([v for v, _ in found]), np.array([d for _, d in found])
    apart = np.abs(values - values.mean(axis=0)) * math.sqrt(RUNS / (RUNS - 1))
    return float((apart <= times * 1.96 * deviations).mean())


@pytest.mark.parametrize("mu", [0.3, 1.0])
def test_bands_hold_the_mean_over_runs_about_as_often_as_they_say(
    mu: float, rows: tuple[Block, Vector, Vector]
) -> None:
    block, offset, labels = rows
    settings, found = settings_for(mu), []
    for seed in range(RUNS):
        fit = private_fit(block, HalfTarget(offset, labels), settings, Seeded(settings, seed), ridge=0.3)
        assert fit.noise is not None
        found.append(values_of(fit, fit.noise))
    assert 0.92 < coverage(found) < 0.99
    assert coverage(found, 0.5) < 0.85, "half as wide a band would be seen to be too narrow"


def test_bands_hold_what_randomized_labels_do(rows: tuple[Block, Vector, Vector]) -> None:
    block, offset, labels = rows
    flip = 1 / (1 + math.exp(0.7))
    settings = replace(settings_for(2.0), slope=1 / (1 - 2 * flip))
    excess, found, without = 1 / (1 - 2 * flip) ** 2, [], []
    for seed in range(RUNS):
        seen = np.where(np.random.default_rng(1000 + seed).random(ROWS) < flip, -labels, labels)
        target = Randomized(offset, seen, flip)
        fit = private_fit(block, target, settings, Seeded(settings, seed), ridge=0.3, excess=excess)
        plain = private_fit(block, target, settings, Seeded(settings, seed), ridge=0.3, excess=1.0)
        assert fit.noise is not None
        assert plain.noise is not None
        found.append(values_of(fit, fit.noise))
        without.append(values_of(fit, plain.noise))
    assert 0.92 < coverage(found) < 0.995
    assert coverage(without) < coverage(found) - 0.05


def test_bands_hold_where_a_column_goes_with_the_score_that_was_sent() -> None:
    """Its coefficient and that of the score then move together, which a party's own Gram matrix does not tell."""
    rng = np.random.default_rng(3)
    offset, x = rng.normal(size=ROWS), rng.normal(size=(ROWS, 3))
    x[:, 0] = 0.6 * x[:, 0] + 0.8 * offset
    labels = np.where(rng.logistic(size=ROWS) < offset + x @ [0.5, 0.3, -0.3], 1.0, -1.0)
    settings = replace(settings_for(1.0), row_norm=3.0)
    target, block = HalfTarget(offset, labels), Block(x)
    fits = [private_fit(block, target, settings, Seeded(settings, seed), ridge=0.3) for seed in range(RUNS)]
    coef, wide = np.array([fit.coef for fit in fits]), np.sqrt([np.diag(fit.noise) for fit in fits])
    held = np.abs(coef - coef.mean(axis=0)) * math.sqrt(RUNS / (RUNS - 1)) <= 1.96 * wide
    assert held[:, 0].mean() > 0.75
    assert 0.87 < held.mean() < 0.99
    assert wide[:, 0].mean() > 1.5 * wide[:, 1:].mean()


def test_it_stays_with_the_party(rows: tuple[Block, Vector, Vector]) -> None:
    block, offset, labels = rows
    settings = settings_for(1.0)
    fit = private_fit(block, HalfTarget(offset, labels), settings, Seeded(settings, 0))
    assert set(fit_to_arrays(fit)) == {"coef", "centre", "side", "numbers"}
    assert fit_from_arrays(fit_to_arrays(fit), settings.row_norm).noise is None
    kept = fit_from_arrays(fit_to_state(fit), settings.row_norm).noise
    np.testing.assert_array_equal(kept, fit.noise)
