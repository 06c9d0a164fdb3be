"""What the replay is for: a mechanism that is broken in one place costs more than is certified, and is caught."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tacit.blocks import dense as rows_module
from tacit.blocks.dense import Block
from tacit.mechanisms.gram import settings as targets
from tacit.mechanisms.gram.fit import GRADIENT, GRAM, LOSS_CHANGE, MEAN, TRACE, private_fit
from tacit.mechanisms.gram.settings import CONSTANT
from tests.algorithms.gram.cases import ROWS, case, still, turned
from tests.algorithms.gram.replay import Recorder, Replayer, certified, deviations

COSINES = ((-1.0, 1.0), (-0.25, 1.0), (0.0, 1.0), (-1.0, 0.25))


def worst(one, offset: float = 0.0) -> float:
    """The largest ratio over directed pairs."""
    rng, best = np.random.default_rng(0), 0.0
    one.inbox["offset"][:], one.inbox["labels"][:] = offset, 1.0
    for cosine, second in COSINES:
        best = max(best, *one.compare(*turned(cosine, 1.0, second), rng).values())
    return best


def test_nothing_is_caught_without_a_mutation():
    assert worst(case("half", np.random.default_rng(0), script=still())) <= 1 + 1e-9


@pytest.mark.parametrize(
    ("name", "part"), [(MEAN, 0.5), (TRACE, 0.25), (GRAM, 0.5), (GRADIENT, 0.5), (LOSS_CHANGE, 0.5)]
)
def test_less_noise_on_one_release_is_caught(name, part):
    """Half of it; the trace alone may have as little as 0.43 of its noise for nothing (gram.md, theorem 3)."""
    rng = np.random.default_rng(0)
    sds = deviations(case("half", rng).plan, "guest")
    one = case("half", rng, script=still(push=1e6 * np.ones(5)), sds={**sds, name: part * sds[name]})
    other = case("half", rng, script=still(), sds=one.sds)
    assert max(worst(one), worst(other)) > 1.05


def test_a_side_column_without_its_factor_on_the_gram_matrix_is_caught():
    rng = np.random.default_rng(0)
    one = case("symbols", rng, script=still())
    sds = deviations(one.plan, "holder")
    honest = _holder_fit_ratio(one, sds, 1 / (1 + CONSTANT**2))
    broken = _holder_fit_ratio(one, {**sds, GRAM: sds[GRAM] / np.sqrt(1 + CONSTANT**2)}, 1 / (1 + CONSTANT**2))
    assert honest <= 1 + 1e-9
    assert broken == pytest.approx(1.0017, abs=2e-4)


def _holder_fit_ratio(one, sds, cosine) -> float:
    """Cost of the Gram matrix and the gradients of a label holder, row turned and label flipped, over 95 % of mu^2."""
    rows, other = turned(cosine)
    labels, changed = np.ones(ROWS), np.append(-1.0, np.ones(ROWS - 1))
    recorder = Recorder("holder", sds, np.random.default_rng(0), one.script, 1.0)
    one.holder(rows, labels, recorder)
    replayer = Replayer("holder", sds, recorder.transcript)
    one.holder(other, changed, replayer)
    return replayer.cost["fit"] / (0.95 * certified(one.plan, "holder")["all"])


def test_rows_that_are_not_clipped_are_caught(monkeypatch):
    class Unclipped(rows_module.ClippedRows):
        def __init__(self, block, clip):
            super().__init__(block, clip)
            self.shrink, self.factor = np.ones(block.n), np.ones(block.n)

    monkeypatch.setattr(rows_module, "ClippedRows", Unclipped)
    one = case("half", np.random.default_rng(0), script=still())
    one.inbox["offset"][:], one.inbox["labels"][:] = -1.0, 1.0
    rows, other = turned(-1.0, 3.0, 3.0)
    assert max(one.compare(rows, other, np.random.default_rng(0)).values()) > 5


def test_weights_that_depend_on_the_row_are_caught():
    """The curvature of the loss at the row's own score is such a weight; here the corner 1/2 against 0."""
    one = case("half", np.random.default_rng(0), script=still())
    settings, sds = one.plan.private.settings.fits["guest"], deviations(one.plan, "guest")

    def run(rows, release, *, own: bool) -> None:
        target = targets.HalfTarget(-np.ones(ROWS), np.ones(ROWS))
        target.weight = 0.5 * np.where(own & (rows[:, 0] < 0), 0.0, 1.0)
        private_fit(Block(rows), target, settings, release)

    ratio = {}
    for own in (False, True):
        rows, other = turned(-1.0)
        recorder = Recorder("guest", sds, np.random.default_rng(0), one.script, 1.0)
        run(rows, recorder, own=own)
        replayer = Replayer("guest", sds, recorder.transcript)
        run(other, replayer, own=own)
        ratio[own] = replayer.cost["fit"] / certified(one.plan, "guest")["fit"]
    assert ratio[False] <= 1 + 1e-9
    assert ratio[True] > 1.1


def test_a_bound_for_rows_of_zeros_that_forgets_the_centre_is_caught():
    """A row of zeros, centred, is as long as any other: zero-out may not have less noise in the fit."""
    rng, way = np.random.default_rng(0), np.eye(3)[0]
    one = case("half", rng, neighbours="zero-out")
    one.inbox["offset"][:], one.inbox["labels"][:] = -1.0, 1.0
    rows, zeros = np.zeros((2, ROWS, 3))
    rows[0] = way
    sds = deviations(one.plan, "guest")
    less = {name: sds[name] * np.sqrt(7 / 8) for name in (GRAM, GRADIENT)}  # enough if zeros stayed zeros
    honest = broken = 0.0
    for above in np.geomspace(1e-4, 1, 60):  # somewhere the released mean puts the centre between the two rows
        size = np.sqrt(3) * sds[MEAN] * (1 + above)
        script = {**still(), MEAN: lambda value, time, size=size: size * way}
        honest = max(honest, dataclasses.replace(one, script=script).compare(rows, zeros, rng)["fit"])
        mutated = dataclasses.replace(one, script=script, sds={**sds, **less})
        broken = max(broken, mutated.compare(rows, zeros, rng)["fit"])
    assert 0.99 < honest <= 1 + 1e-9
    assert broken > 1.1
