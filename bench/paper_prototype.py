"""Seconds per round against the published iteration written plainly with general-purpose solvers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from threadpoolctl import threadpool_limits

from bench.clock import Timing, time_rounds, timed
from bench.data import ALPHA, Task, a9a
from bench.progress import say
from bench.row import Row, seconds
from tacit.types import Matrix, Vector

TITLE = "a9a, two parties: seconds per round against a plain prototype of the published iteration"
RATIO = 1 / 300
MOST_SECONDS = 60.0
PROBE_ROWS = 500
TURNS = 3
ROUNDS = 30
METHODS = ("averaged", "memory")
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
    """Time rounds of the prototype and runs of ours in turns."""
    task = a9a()
    n, blocks = task.y.size, [task.X[:, :66], task.X[:, 66:]]
    timed_rows = PROBE_ROWS if quick or _expected_seconds(task, blocks) > MOST_SECONDS else n
    prototype = Prototype(blocks, task.y)
    _time_round(prototype, timed_rows)  # the first round starts from zero, where there is nothing to do for x
    plain: list[float] = []
    ours: dict[str, list[Timing]] = {method: [] for method in METHODS}
    for turn in range(TURNS):
        say(f"turn {turn + 1} of {TURNS}")
        plain.append(_time_round(prototype, timed_rows))
        for method in METHODS:
            ours[method].append(time_rounds(blocks, task.y, method, ROUNDS))
    how = "whole rounds" if timed_rows == n else f"z timed on {timed_rows} of {n} rows and scaled up"
    per_round = float(np.median(plain))
    judged = task.is_real and not quick
    rows = [Row("prototype", f"{seconds(per_round)} per round (median of {TURNS}, {how})", per_round)]
    return [*task.remark(), *rows, *(_ours(method, ours[method], per_round, judged) for method in METHODS)]


def _expected_seconds(task: Task, blocks: Sequence[Matrix]) -> float:
    """What a whole z-update of the prototype will take, from some rows of one."""
    prototype = Prototype(blocks, task.y)
    prototype.update_x()
    return timed(lambda: prototype.update_z(PROBE_ROWS)) * task.y.size / PROBE_ROWS


def _time_round(prototype: Prototype, rows: int) -> float:
    """Seconds of a round, z counted for all rows where only some are updated; one BLAS thread, as our runs take."""
    with threadpool_limits(1, user_api="blas"):
        x_seconds = timed(prototype.update_x)
    z_seconds = timed(lambda: prototype.update_z(rows)) * prototype.labels.size / rows
    return x_seconds + z_seconds + timed(prototype.update_dual)


def _ours(method: str, timings: Sequence[Timing], per_round: float, judged: bool) -> Row:
    mean = float(np.median([timing.total / timing.rounds.size for timing in timings]))
    median = float(np.median(np.concatenate([timing.rounds for timing in timings])))
    ratio = mean / per_round
    measured = f"1/{1 / ratio:.0f} ({seconds(mean)} per round, set-up shared out; median {seconds(median)})"
    limits = {"limit": RATIO, "target": "at most 1/300"} if judged else {}
    return Row(f"{method} / prototype", measured, ratio, **limits)
