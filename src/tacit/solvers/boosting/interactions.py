"""A test for what a sum over parties cannot learn: interactions between columns of different parties.

After a run the label holder grows two blocks of trees on its own columns and the others' scores, which it has anyway:
one whose trees may combine them, and one whose trees may not. On held-out rows, which neither saw, the paired
difference of their losses is what combining brings, with its standard error; how much of each block is kept is chosen
on the other half of these rows, so that trees which overfit do not hide it. No message is needed. What it cannot see:
interactions between two other parties beyond their scores, and with columns that tell nothing by themselves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr

from tacit.columns.raw import RawTable
from tacit.solvers.boosting.learner import TreeLearner
from tacit.solvers.boosting.losses import TreeLoss
from tacit.solvers.boosting.settings import TreeSettings
from tacit.solvers.boosting.steps import choose_steps
from tacit.types import Vector

TREES = 30
MOST_ROWS = 100_000  # a sample of this size tells enough
LEAST_HELD = 30
SURE = 0.01


@dataclass(frozen=True)
class InteractionTest:
    """What trees across parties would bring, on held-out rows.

    Attributes
    ----------
    gain : float
        By how much the mean loss falls where trees may combine the label holder's columns with the others' scores; NaN
        where it was not tested.
    standard_error, p_value : float
        Of the gain, one-sided.
    loss : float
        Mean loss of the joint model on the same rows.
    """

    gain: float = math.nan
    standard_error: float = math.nan
    p_value: float = math.nan
    loss: float = math.nan

    @property
    def found(self) -> bool:
        """Whether there are such interactions, at the level of 1 %."""
        return self.p_value < SURE

    @property
    def sentence(self) -> str:
        """What it says, in words."""
        if math.isnan(self.gain):
            return "interactions across parties were not tested: there is one party, or too few rows are held out"
        numbers = f"{self.gain:.2g} of {self.loss:.4g}, standard error {self.standard_error:.2g}"
        if self.found:
            return (
                "there are interactions across parties that the joint model, a sum over parties, cannot learn: trees "
                "that combine the label holder's columns with the others' scores lower the held-out loss by "
                f"{numbers}, and perhaps by more if they grew on"
            )
        return (
            "no interaction between the label holder's columns and the others' scores shows (held-out gain "
            f"{numbers}); one with columns that tell nothing by themselves would not show"
        )

    def record(self) -> dict[str, float | bool | str | None]:
        """The test as plain values."""
        numbers = {name: getattr(self, name) for name in ("gain", "standard_error", "p_value", "loss")}
        told = {name: value if math.isfinite(value) else None for name, value in numbers.items()}
        return {**told, "found": self.found, "sentence": self.sentence}


def interactions_across(
    settings: TreeSettings,
    table: RawTable,
    scores: Mapping[str, Vector],
    margin: Vector,
    labels: Vector,
    held: np.ndarray,
    weights: Vector | None,
    seed: int,
) -> InteractionTest:
    """The test, from the label holder's table and what the others added to every row.

    `margin` is the joint margin of every row, and `held` says which are held out.
    """
    rows = _sample(len(labels))
    varying = {name: own[rows].reshape(len(rows), -1) for name, own in scores.items() if np.ptp(own) > 0}
    if not varying or held[rows].sum() < LEAST_HELD:
        return InteractionTest()
    wide = _beside(table, rows, varying)
    apart = [list(range(table.d)), *([place] for place in range(table.d, wide.d))]
    own = None if weights is None else weights[rows]
    settings = replace(settings, min_samples_leaf=settings.least_leaf(int((~held).sum())))
    learners = [TreeLearner(wide, held[rows], settings, seed, own, groups) for groups in (None, apart)]
    fitted, judge = learners[0].fitted, learners[0].held
    z, y, own = margin[rows], labels[rows], None if own is None else own[judge]
    added = [learner.grow(z[fitted], y[fitted], TREES)[judge] for learner in learners]
    free, held_apart = (_cross_fitted(settings.loss, z[judge], y[judge], one, own) for one in added)
    return _paired(held_apart - free, own, settings.loss.mean(z[judge], y[judge], own))


def _cross_fitted(loss: TreeLoss, z: Vector, y: Vector, added: Vector, weights: Vector | None) -> Vector:
    """Loss of each row with as much of a block as is best on the other half of the rows."""
    value = np.empty(len(y))
    for half in (np.arange(len(y)) % 2 == 0, np.arange(len(y)) % 2 == 1):
        other = None if weights is None else weights[~half]
        step = choose_steps(loss, z[~half], y[~half], added[None, ~half], [0.0], other)[0]
        value[half] = loss.value(z[half] + step * added[half], y[half])
    return value


def _sample(rows: int) -> np.ndarray:
    """All rows, or some that lie evenly among them."""
    return np.unique(np.linspace(0, rows - 1, min(rows, MOST_ROWS)).astype(np.int64))


def _beside(table: RawTable, rows: np.ndarray, scores: Mapping[str, Vector]) -> RawTable:
    """The label holder's columns, and the others' scores as further ones."""
    more = np.hstack(list(scores.values()))
    names = (*table.columns, *(f"score {place}" for place in range(more.shape[1])))
    values = np.hstack([table.values[rows].astype(np.float64), more])
    return RawTable(table.party, names, values, table.categorical)


def _paired(gains: Vector, weights: Vector | None, loss: float) -> InteractionTest:
    share = np.full(gains.size, 1 / gains.size) if weights is None else weights / weights.sum()
    gain = float(share @ gains)
    error = math.sqrt(float((share**2) @ (gains - gain) ** 2))
    p_value = float(ndtr(-gain / error)) if error > 0 else (0.0 if gain > 0 else 1.0)
    return InteractionTest(gain, error, p_value, loss)
