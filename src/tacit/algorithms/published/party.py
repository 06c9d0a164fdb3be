"""A party's round as published: the x-update over a ball, noise on x, and the share of the noisy x."""

from __future__ import annotations

import numpy as np
from scipy import optimize

from tacit.algorithms.base import Problem, Release
from tacit.algorithms.block import Block
from tacit.algorithms.inbox import Inbox
from tacit.algorithms.linear import eigen
from tacit.algorithms.published.settings import NOISY, PublishedSettings
from tacit.algorithms.rows import RowClip
from tacit.errors import RunError
from tacit.types import Arrays, Vector

LARGEST = 1e100  # of a number that arrives
RANK_CUTOFF = 1e-12  # eigenvalues of D'D below this part of the largest are rounding, and treated as zero


class PublishedParty:
    """Holds the rows and the noisy coefficients; releases D x~ in every round."""

    def __init__(self, problem: Problem, block: Block, settings: PublishedSettings, release: Release) -> None:
        self.settings, self.release = settings, release
        self.clip = RowClip(settings.row_norm)
        self.rows = self.clip.apply(block)
        self.ridge = problem.alpha * problem.total * problem.regularizer.l2 / settings.rho
        values, vectors = eigen(self.rows.gram(np.ones(block.n)), relatively_robust=True)
        kept = values > RANK_CUTOFF * max(float(values[-1]), 0.0)
        self.values, self.vectors = values[kept], vectors[:, kept]  # D'D = vectors diag(values) vectors'
        self.coef: Vector = np.zeros(block.d)
        self.exact: Vector = np.zeros(block.d)

    def start_at(self, coef: Vector) -> Arrays:
        """Refused: the published run starts at zero, and a share without noise must not leave."""
        raise RunError("the published mechanism starts at zero: a start from coefficients is not available")

    def step(self, round_: int, inbox: Arrays) -> Arrays:
        """Answer (s - z, y) with the share of the new noisy coefficients."""
        residual, dual = (
            _bounded(Inbox(inbox, self.release.owner).numbers(name, self.rows.n)) for name in ("residual", "dual")
        )
        others = residual - self.rows.predict(self.coef)
        self.exact = self._solve(-self.rows.correlate(others + dual / self.settings.rho))
        self.coef = self._noisy(self.exact)
        return {"share": self.rows.predict(self.coef)}

    def _solve(self, pull: Vector) -> Vector:
        """The argmin of ridge/2 ||x||^2 + 1/2 x'D'D x - pull'x over ||x|| <= b1; of least norm where there are more."""
        rotated, radius = self.vectors.T @ pull, self.settings.radius

        def at(shift: float) -> Vector:
            return np.asarray(rotated / (self.values + self.ridge + shift))

        if np.linalg.norm(at(0.0)) <= radius:
            return np.asarray(self.vectors @ at(0.0))
        top = float(np.linalg.norm(rotated)) / radius  # at this shift the norm is at most the radius

        def excess(shift: float) -> float:
            return 1 / radius - 1 / float(np.linalg.norm(at(shift)))

        try:
            shift = float(optimize.brentq(excess, 0.0, top * (1 + 1e-12), xtol=1e-300, rtol=1e-14, maxiter=500))
        except (ArithmeticError, ValueError, RuntimeError):  # rounding turned a sign
            shift = top
        inside = min(1.0, radius / max(float(np.linalg.norm(at(shift))), 1e-300))
        return np.asarray(self.vectors @ (inside * at(shift)))

    def _noisy(self, x: Vector) -> Vector:
        """The noisy x: noise on x itself, or on R x with R'R = D'D, which is N(0, sigma^2 (D'D)^-1) on x."""
        if not self.settings.inverse:
            return self.release.add(NOISY, x)
        root = np.sqrt(self.values)
        return np.asarray(self.vectors @ (self.release.add(NOISY, root * (self.vectors.T @ x)) / root))

    def finish(self, inbox: Arrays) -> None:
        """Nothing changes: the model is the last noisy one."""

    def state(self) -> Arrays:
        """Everything needed to go on after a restart, except what the data give again."""
        return {"coef": self.coef, "exact": self.exact}

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        self.coef, self.exact = state["coef"], state["exact"]


def _bounded(numbers: Vector) -> Vector:
    """Numbers with which nothing overflows: 0 for what is none, and none beyond 1e100."""
    return np.clip(np.where(np.isnan(numbers), 0.0, numbers), -LARGEST, LARGEST)
