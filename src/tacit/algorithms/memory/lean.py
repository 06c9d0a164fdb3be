"""What keeps vectors of one number per row few: steps formed some rows at a time, and one window for all sides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacit.types import Arrays, Vector

if TYPE_CHECKING:
    from tacit.algorithms.memory.window import Window

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
