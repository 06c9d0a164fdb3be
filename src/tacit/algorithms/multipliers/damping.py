"""How much curvature to add where the penalty's model promised too much."""

from __future__ import annotations

import math

import numpy as np

from tacit.types import Vector

FIRST = 1 / 64


class Damping:
    """Least curvature of the penalty's envelope as a part of its stiffness: 0 is Newton's, 1 never promises too much.

    The loss is followed exactly, so only the penalty can miss.
    """

    def __init__(self) -> None:
        self.level = 0.0
        self.expected, self.gain = math.nan, math.nan

    def expect(self, value: float, gain: float) -> None:
        """Note the penalty that the step should arrive at, and by how much the whole should fall."""
        self.expected, self.gain = value, gain

    def judge(self, arrived: float) -> None:
        """Compare with the penalty at which the step arrived (once: later calls do nothing)."""
        miss = arrived - self.expected
        self.expected = math.nan
        if miss > 0.5 * self.gain:
            self.level = min(1.0, max(4 * self.level, FIRST))
        elif miss < 0.25 * self.gain:
            self.level = self.level / 2 if self.level > FIRST else 0.0

    def state(self) -> Vector:
        """Numbers from which `restore` goes on."""
        return np.array([self.level, self.expected, self.gain])

    def restore(self, state: Vector) -> None:
        """Go on from `state`."""
        self.level, self.expected, self.gain = (float(number) for number in state)
