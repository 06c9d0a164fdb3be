"""The last steps of z, every small matrix that belongs to them, and one window for all sides where memory is short."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack

from tacit.types import Arrays, Vector

# --- The last steps of z, and every small matrix that belongs to them


TOO_SMALL = 1e-4  # of the largest step: the rounding of a difference of z so small would be blown up by a large step,
DEPENDENT = 1e-6  # and so would that of a step of which the others leave less than this part (of its square)


class Window:
    """S with its Gram matrices: T = S' W_f S, G = sum_m X_m' X_m, and S' w_f.

    A step sits in a slot; when all are used the oldest is overwritten. With `project` the products are taken
    after removing the weighted mean, because an intercept has been minimised out.
    """

    def __init__(self, rows: int, slots: int, *, project: bool) -> None:
        self.project = project
        self.steps = np.zeros((rows, slots), order="F")
        self.intercepts = np.zeros(slots)
        self.gram, self.curvature_gram = np.zeros((0, 0)), np.zeros((0, 0))
        self.sums: Vector = np.zeros(0)
        self.metric: Vector = np.zeros(0)
        self.slot, self.next_slot = -1, 0

    @property
    def used(self) -> int:
        """How many slots hold a step."""
        return len(self.gram)

    @property
    def columns(self) -> Vector:
        """The steps, one column each."""
        return self.steps[:, : self.used]

    @property
    def newest(self) -> Vector:
        """The step added last."""
        return self.steps[:, self.slot]

    def refresh(self, metric: Vector) -> None:
        """Take another metric."""
        self.metric, self.metric_sum = metric, float(metric.sum())
        self.curvature_gram = _weighted_gram(self.columns, metric)
        self.sums = self.columns.T @ metric

    def add(self, step: Vector | Combination, intercept: float, gram_row: Vector, gram_own: float) -> None:
        """Keep a step, with its part that moved b and its products in the parties' coefficients."""
        self.slot = self.next_slot
        self.next_slot = (self.slot + 1) % len(self.intercepts)
        for rows in row_slices(len(self.steps)):
            self.steps[rows, self.slot] = step[rows]
        self.intercepts[self.slot] = intercept
        self.gram = with_row(self.gram, gram_row, gram_own, self.slot)
        products, own, total = self.products(self.newest)
        self.curvature_gram = with_row(self.curvature_gram, products, own, self.slot)
        if self.slot == self.sums.size:
            self.sums = np.append(self.sums, 0.0)
        self.sums[self.slot] = total

    def products(self, column: Vector) -> tuple[Vector, float, float]:
        """S' W_f column, column' W_f column and the sum of W_f column, some rows at a time."""
        products, own, total = np.zeros(self.used), 0.0, 0.0
        for rows in row_slices(column.size):
            weighted = self.metric[rows] * column[rows]
            products += self.columns[rows].T @ weighted
            own += float(column[rows] @ weighted)
            total += float(weighted.sum())
        return products, own, total

    def thin(self) -> Vector:
        """Forget the newest step, and those that are nearly rounding; return the slots of the others, oldest first."""
        slots = len(self.intercepts)
        size = np.sqrt(np.diag(self.curvature_gram))
        large = np.flatnonzero((size > TOO_SMALL * size.max(initial=0.0)) & (np.arange(self.used) != self.slot))
        scaled = self.curvature_gram[np.ix_(large, large)] / np.outer(size[large], size[large])
        kept = sorted(large[_independent(scaled)], key=lambda j: (j - self.next_slot) % slots)
        self.steps[:, : len(kept)] = self.columns[:, kept]
        self.intercepts[: len(kept)] = self.intercepts[kept]
        self.gram, self.curvature_gram = (a[np.ix_(kept, kept)] for a in (self.gram, self.curvature_gram))
        self.sums = self.sums[kept]
        self.slot, self.next_slot = -1, len(kept) % slots
        return np.array(kept, dtype=np.float64)

    def correct(self, products: Vector) -> None:
        """Replace the newest row of G by what the parties measured, so that no rounding builds up."""
        if self.slot >= 0:
            self.gram[self.slot, :] = self.gram[:, self.slot] = products

    def projected(self, gram: Vector, sums: Vector) -> Vector:
        """A Gram matrix in the metric that is left once b is minimised out."""
        return gram - np.outer(sums, sums) / self.metric_sum if self.project else gram

    def state(self) -> Arrays:
        """Arrays from which `restore` goes on."""
        return {name: getattr(self, name) for name in _ARRAYS} | {
            "slots": np.array([self.slot, self.next_slot], dtype=np.float64)
        }

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        for name in _ARRAYS:
            setattr(self, name, state[name])
        self.steps = np.asfortranarray(self.steps)
        self.metric_sum = float(self.metric.sum())
        self.slot, self.next_slot = (int(value) for value in state["slots"])


_ARRAYS = ("steps", "intercepts", "gram", "curvature_gram", "sums", "metric")


def bordered(gram: Vector, row: Vector, corner: float) -> Vector:
    """A symmetric matrix with one more row and column."""
    return np.block([[gram, row[:, None]], [row[None, :], np.array([[corner]])]])


def with_row(gram: Vector, row: Vector, own: float, slot: int) -> Vector:
    """Put a row and its column into place `slot`, growing the matrix where the slot is new."""
    grown = bordered(gram, np.zeros(len(gram)), 0.0) if slot == len(gram) else gram.copy()
    full = np.zeros(len(grown))
    full[: row.size] = row[: len(grown)]
    full[slot] = own
    grown[slot, :] = full
    grown[:, slot] = full
    return grown


def _independent(gram: Vector) -> npt.NDArray[np.intp]:
    """Columns that span the others, by their Gram matrix of unit diagonal: a Cholesky factorisation with pivots."""
    if not len(gram):
        return np.zeros(0, dtype=np.intp)
    _, pivots, rank, _ = lapack.dpstrf(gram, tol=DEPENDENT)
    return np.asarray(pivots[:rank] - 1, dtype=np.intp)


def _weighted_gram(columns: Vector, weights: Vector) -> Vector:
    gram = np.zeros((columns.shape[1],) * 2)
    for rows in row_slices(len(weights)):
        part = np.sqrt(weights[rows, None]) * columns[rows]
        gram += part.T @ part
    return gram


# --- What keeps vectors of one number per row few: steps formed some rows at a time, and one window for all sides


ROWS_AT_ONCE = 65536


def row_slices(rows: int) -> Iterator[slice]:
    """Slices that cover so many rows."""
    return (slice(start, start + ROWS_AT_ONCE) for start in range(0, rows, ROWS_AT_ONCE))


@dataclass(frozen=True)
class Combination:
    """The vector [columns, share] weights + shift, of which some rows are formed where they are asked for."""

    columns: Vector
    share: Vector
    weights: Vector
    shift: float

    def __getitem__(self, rows: slice) -> Vector:
        return np.asarray(self.columns[rows] @ self.weights[:-1] + self.weights[-1] * self.share[rows] + self.shift)


class WindowView:
    """Stands for `Outlook` where the coordinator is in the same process: its own steps and metric, kept once.

    A party could compute all of it from the broadcasts, up to rounding, and sees nothing else.
    """

    def __init__(self) -> None:
        self.window: Window | None = None

    def watch(self, window: Window) -> None:
        """Look at the coordinator's window from now on."""
        self.window = window

    def read(self, round_: int, inbox: Arrays) -> None:
        """Nothing: the coordinator has what the broadcast says."""

    @property
    def _window(self) -> Window:
        assert self.window is not None, "nobody told the view which window to watch"
        return self.window

    @property
    def steps(self) -> Vector:
        """The past steps of z, one column each."""
        return self._window.steps

    @property
    def used(self) -> int:
        """How many of the columns hold a step."""
        return self._window.used

    @property
    def metric(self) -> Vector:
        """The frozen weights."""
        return self._window.metric

    @property
    def step(self) -> Vector | None:
        """The newest step."""
        return self._window.newest if self._window.slot >= 0 else None

    def state(self) -> Arrays:
        """Nothing: the coordinator saves it."""
        return {}

    def restore(self, state: Arrays) -> None:
        """Nothing: the coordinator restores it."""
