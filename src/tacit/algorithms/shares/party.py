"""The party's side of noisy shares: what it releases depends on its rows, the inbox and its own releases alone."""

from __future__ import annotations

import numpy as np

from tacit.algorithms.base import Problem, Release
from tacit.algorithms.block import Block
from tacit.algorithms.rows import RowClip
from tacit.algorithms.shares.settings import (
    LEAST_RIDGE,
    MOST_RIDGE,
    SHARE,
    SharesSettings,
    certifiable,
)
from tacit.algorithms.shares.solver import BallRidge
from tacit.errors import RunError
from tacit.types import Arrays, Vector


class SharesParty:
    """One ridge regression within a ball per round; its share leaves with noise."""

    def __init__(self, problem: Problem, block: Block, settings: SharesSettings, release: Release) -> None:
        self.problem, self.settings, self.release = problem, settings, release
        if not certifiable(block.n, block.d):
            raise RunError(
                f"{block.n} rows of {block.d} columns are too many for mechanism='shares': rounding is not bounded"
            )
        self.clip = RowClip(settings.row_norm)
        self.solver = BallRidge(self.clip.apply(block))
        self.coef = np.zeros(block.d)
        self.trained = np.zeros(block.d)  # of the last release, or of all steps; never part of the next release
        self.released = np.zeros(block.n)

    def start_at(self, coef: Vector) -> Arrays:
        """Refuse: a start that depends on the data has no bound."""
        raise RunError("mechanism='shares' starts from zero: leave warm_start out")

    def step(self, round_: int, inbox: Arrays) -> Arrays:
        """Answer q with the noisy share of new coefficients."""
        ridge, bound = self._ridge(inbox), self.settings.bound
        past = 0.0 if self.settings.steps else self.released  # a past that masks hide must not enter
        target = np.clip(past - inbox["q"], -bound, bound)
        solution = self.solver.solve(target, ridge, bound)
        self.released = self.release.add(SHARE, solution.share)
        self.trained = self.trained + solution.x if self.settings.steps else solution.x
        self.coef = self.trained / self.settings.row_norm
        return {"share": self.released}

    def finish(self, inbox: Arrays) -> None:
        """Solve once more for the model that stays here: own exact share, no ball, no clipping."""
        target = self.solver.predict(self.trained) - inbox["q"]
        found = self.solver.solve(target, self._ridge(inbox)).x / self.settings.row_norm
        self.coef = found if np.isfinite(found).all() else self.coef

    def _ridge(self, inbox: Arrays) -> float:
        """The penalty in units of the row norm; what arrives is checked, since the bound holds for finite vectors."""
        rho, q = float(inbox["control"][0]), inbox["q"]
        fits = q.dtype == np.float64 and q.shape == self.released.shape
        if not 0 < rho < np.inf or not fits or not np.all(np.isfinite(q)):
            raise RunError("the broadcast to a party is not one finite number for each row: the run cannot go on")
        wanted = self.problem.alpha * self.problem.regularizer.l2 * self.problem.total / rho
        rows = self.released.size
        return min(max(wanted / self.settings.row_norm**2, LEAST_RIDGE * rows), MOST_RIDGE * rows)

    def state(self) -> Arrays:
        """Everything needed to go on after a restart, except what the data give again."""
        return {name: getattr(self, name) for name in ("coef", "trained", "released")}

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        self.coef, self.trained, self.released = (state[name] for name in ("coef", "trained", "released"))
