"""Seconds per round against the published iteration written plainly with general-purpose solvers."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from bench.clock import time_rounds
from bench.data import ALPHA, Task, a9a
from bench.progress import say
from bench.row import Row, seconds
from tacit.types import Matrix, Vector

TITLE = "a9a, two parties: seconds per round against a plain prototype of the published iteration"
RATIO = 1 / 300
MOST_SECONDS = 60.0
PROBE_ROWS = 500
RHO = 0.5  # on the sum of the losses: the default of the published form with two parties


class Prototype:
    """Jacobi sharing ADMM: L-BFGS-B for each x, one scalar minimisation per row for z."""

    def __init__(self, blocks: Sequence[Matrix], labels: Vector) -> None:
        self.blocks, self.labels = blocks, labels
        self.coefs = [np.zeros(block.shape[1]) for block in blocks]
        self.z, self.dual = np.zeros(labels.size), np.zeros(labels.size)

    def update_x(self) -> None:
        """Every party corrects the whole residual, from the same start."""
        shares = [block @ coef for block, coef in zip(self.blocks, self.coefs, strict=True)]
        residual = sum(shares) - self.z + self.dual / RHO
        parts = zip(self.blocks, self.coefs, shares, strict=True)
        self.coefs = [self._least(block, coef, share - residual) for block, coef, share in parts]
        self.total = sum(block @ coef for block, coef in zip(self.blocks, self.coefs, strict=True))

    def _least(self, block: Matrix, start: Vector, aim: Vector) -> Vector:
        ridge = ALPHA * self.labels.size

        def value_and_slope(x: Vector) -> tuple[float, Vector]:
            miss = block @ x - aim
            return 0.5 * ridge * x @ x + 0.5 * RHO * miss @ miss, ridge * x + RHO * (block.T @ miss)

        return np.asarray(minimize(value_and_slope, start, jac=True, method="L-BFGS-B").x)

    def update_z(self, rows: int) -> None:
        """One scalar minimisation for each of the first `rows` rows."""
        for i in range(rows):
            label, centre = self.labels[i], self.total[i] + self.dual[i] / RHO
            self.z[i] = minimize_scalar(_row_objective, args=(label, centre)).x

    def update_dual(self) -> None:
        """Add what is left of the constraint."""
        self.dual += RHO * (self.total - self.z)


def _row_objective(z: float, label: float, centre: float) -> float:
    margin = label * z
    loss = math.log1p(math.exp(-abs(margin))) + max(-margin, 0.0)
    return loss + 0.5 * RHO * (z - centre) ** 2


def run(quick: bool = False) -> list[Row]:
    """Time one or two rounds of the prototype, and thirty of ours."""
    task = a9a()
    blocks = [task.X[:, :66], task.X[:, 66:]]
    per_round, how = _prototype_round(task, blocks, quick)
    rows = [*task.remark(), Row("prototype", f"{seconds(per_round)} per round ({how})", per_round)]
    judged = task.is_real and not quick
    return rows + [_ours(task, blocks, method, per_round, judged) for method in ("averaged", "memory")]


def _prototype_round(task: Task, blocks: Sequence[Matrix], quick: bool) -> tuple[float, str]:
    """Seconds of a round: whole where that is quick enough, else with z timed on some rows and scaled."""
    prototype, n = Prototype(blocks, task.y), task.y.size
    say("prototype, one z-update on some rows")
    prototype.update_x()
    start = time.perf_counter()
    prototype.update_z(PROBE_ROWS)
    expected = (time.perf_counter() - start) * n / PROBE_ROWS
    whole = not quick and expected < MOST_SECONDS
    rows = n if whole else PROBE_ROWS
    prototype = Prototype(blocks, task.y)
    times = []
    for round_ in range(2):
        say(f"prototype, round {round_ + 1} of 2")
        times.append(_time_round(prototype, rows))
    how = "the faster of two whole rounds" if whole else f"z timed on {rows} of {n} rows and scaled up"
    return min(times), how


def _time_round(prototype: Prototype, rows: int) -> float:
    start = time.perf_counter()
    prototype.update_x()
    middle = time.perf_counter()
    prototype.update_z(rows)
    end = time.perf_counter()
    prototype.update_dual()
    return (middle - start) + (end - middle) * prototype.labels.size / rows + (time.perf_counter() - end)


def _ours(task: Task, blocks: Sequence[Matrix], method: str, per_round: float, judged: bool) -> Row:
    say(method)
    timing = time_rounds(blocks, task.y, method, 30)
    mean, median = timing.total / timing.rounds.size, float(np.median(timing.rounds))
    ratio = mean / per_round
    measured = f"1/{1 / ratio:.0f} ({seconds(mean)} per round, set-up shared out; median {seconds(median)})"
    limits = {"limit": RATIO, "target": "at most 1/300"} if judged else {}
    return Row(f"{method} / prototype", measured, ratio, **limits)
