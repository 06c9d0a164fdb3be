"""What every party can compute from the broadcasts alone, where steps and metric are always sent."""

from __future__ import annotations

import numpy as np

from tacit.algorithms.base import Problem
from tacit.algorithms.memory.outlook import Outlook
from tacit.algorithms.multipliers.control import Control
from tacit.types import Arrays

WINDOW = 32


def window_size(problem: Problem) -> int:
    """How many past steps to keep: kinks need many even for two parties."""
    return max(1, min(WINDOW, problem.max_window))


class SentOutlook(Outlook):
    """The steps of z and the metric, as they were sent: a slope with kinks does not give them away."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.steps = np.zeros((problem.rows, window_size(problem)), order="F")

    def read(self, round_: int, inbox: Arrays) -> None:
        """Take in one broadcast; a second call for the same round does nothing."""
        if round_ == self.round:
            return
        slot = Control.unpack(inbox["control"]).slot
        self.step = inbox.get("step")
        if self.step is not None:
            self.steps[:, slot] = self.step
            self.used = max(self.used, slot + 1)
        self.metric = inbox.get("metric", self.metric)
        self.round = round_
