"""Do times tell of rows? Welch's t of the times on one fixed input against fresh random ones of the same sizes.

Inputs are mixed at random, and both kinds are made, copied and handed over in the same way. |t| up to 4.5 is what
tests of side channels accept. Times have long tails, which hide a small difference of the bulk: t is taken once more
without the slowest tenth.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import numpy as np

from bench.row import Row
from tacit import Privacy, VerticalClassifier
from tacit.privacy.randomness import NoiseSource
from tacit.types import Vector

TITLE = "do times tell of rows? (t of Welch, fixed against random)"
LIMIT = 4.5
SAMPLES, FITS = 100_000, 2_000
QUICK = 50
NUMBERS, ROWS, COLUMNS = 16, 200, 6


def run(quick: bool) -> list[Row]:
    """The noise sampler, and a whole private fit."""
    source, labels = NoiseSource(), np.arange(ROWS) % 2
    model = VerticalClassifier(privacy=Privacy(epsilon=1, row_norm=2.0))

    def fit(rows: Vector) -> None:
        model.fit(rows.reshape(ROWS, COLUMNS), labels)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of models that are no better than nothing
        return [
            *_rows("noise sampler, 16 numbers", QUICK if quick else SAMPLES, NUMBERS, lambda v: source.add(v, 1.0)),
            *_rows(f"private fit, {ROWS} rows", QUICK if quick else FITS, ROWS * COLUMNS, fit),
        ]


def _rows(what: str, samples: int, size: int, work: Callable[[Vector], object]) -> list[Row]:
    times, is_fixed = measured(samples, size, work)
    bulk = times <= np.quantile(times, 0.9)
    found = {"": welch(times[is_fixed], times[~is_fixed])}
    found[", without the slowest tenth"] = welch(times[is_fixed & bulk], times[~is_fixed & bulk])
    rows = [Row(f"{what}: |t|{which}", f"{abs(t):.2f}", abs(t), LIMIT, "at most 4.5") for which, t in found.items()]
    return [*rows, Row(f"{what}: mean of {samples:,}", f"{times.mean() / 1e3:.1f} us")]


def measured(samples: int, size: int, work: Callable[[Vector], object]) -> tuple[Vector, Vector]:
    """Nanoseconds of each try, and whether its input was the fixed one."""
    rng = np.random.default_rng(0)
    fixed, is_fixed = rng.normal(size=size), rng.random(samples) < 0.5
    times = np.empty(samples)
    for _ in range(min(100, samples)):
        work(fixed)
    for at in range(samples):
        fresh = rng.normal(size=size)
        taken = (fixed if is_fixed[at] else fresh).copy()
        began = time.perf_counter_ns()
        work(taken)
        times[at] = time.perf_counter_ns() - began
    return times, is_fixed


def welch(one: Vector, two: Vector) -> float:
    """Welch's t of two samples."""
    return float((one.mean() - two.mean()) / np.sqrt(one.var(ddof=1) / len(one) + two.var(ddof=1) / len(two)))
