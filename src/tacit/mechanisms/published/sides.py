"""The paper's two sides as written: a party with noise on x, and the central node."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy

from tacit.blocks.dense import Block, RowClip, eigen
from tacit.errors import RunError
from tacit.mechanisms.base import Inbox
from tacit.solvers.base import Problem, Progress, Release, best_constant, constant_loss, private_progress
from tacit.solvers.sharing.coordinator import DIVERGED, GROWING_ROUNDS
from tacit.types import Arrays, Vector

# --- The public numbers of the published mechanism


NOISY = "noisy coefficients"  # the name under which the noise of every round is planned


@dataclass(frozen=True)
class PublishedSettings:
    """What both sides use.

    Attributes
    ----------
    rho : float
        Penalty of the augmented Lagrangian of the summed loss, never adapted.
    radius : float
        b1: largest norm of a party's coefficients before noise.
    row_norm : float
        Longer rows are scaled down to it.
    inverse : bool
        True for noise of covariance sigma^2 (D'D)^-1, False for sigma^2 I.
    """

    rho: float
    radius: float
    row_norm: float
    inverse: bool


# --- A party's round as published: the x-update over a ball, noise on x, and the share of the noisy x


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
            shift = float(scipy.optimize.brentq(excess, 0.0, top * (1 + 1e-12), xtol=1e-300, rtol=1e-14, maxiter=500))
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


# --- The central node as published: z-update, dual update, and both sent to every party


class PublishedCoordinator:
    """Holds the labels, s, z and y; hears only the sum of the noisy shares."""

    def __init__(self, problem: Problem, labels: Vector, settings: PublishedSettings) -> None:
        self.problem, self.labels, self.rho = problem, labels, settings.rho
        self.s, self.z, self.y = (np.zeros(labels.size) for _ in range(3))
        self.intercept = 0.0
        self.level = constant_loss(problem, labels, best_constant(problem, labels))
        self.last_residual, self.growing, self.round = math.inf, 0, 0

    def start_at(self, total: Arrays, intercept: float) -> None:
        """Never reached: the parties refuse."""

    def broadcast(self) -> Arrays:
        """What the paper distributes: s - z and y."""
        self.round += 1
        return {"residual": self.s - self.z, "dual": self.y}

    def combine(self, total: Arrays) -> Progress:
        """Take in the noisy shares: intercept, z and y."""
        if self.problem.fit_intercept:  # the x-update of a column of ones, from the same broadcast as the others
            self.intercept -= float(np.mean(self.s - self.z + self.y / self.rho))
        old, self.s = self.z, total["share"] + self.intercept
        self.z = self.problem.loss.prox(self.s + self.y / self.rho, self.labels, 1.0 / self.rho)
        self.y = self.y + self.rho * (self.s - self.z)
        size = max(_size(self.z), _size(self.s), 1e-15)
        primal, dual = _size(self.s - self.z) / size, self.rho * _size(self.z - old) / max(_size(self.y), 1e-15)
        return private_progress(rho=self.rho / self.problem.total, note=self._divergence(max(primal, dual)))

    def _divergence(self, residual: float) -> str:
        """Why a diverging run must stop; the loss of round 1, whose shares are noise alone, is not divergence."""
        loss = self.problem.loss.total(self.s, self.labels) / self.problem.total
        if self.round == 1:
            self.level = max(self.level, loss)
        self.growing = self.growing + 1 if residual > self.last_residual else 0
        self.last_residual = residual
        if loss < DIVERGED * self.level and self.growing < GROWING_ROUNDS:
            return ""
        return (
            f"the published mechanism diverges at rho={self.rho / self.problem.total:.3g}: every party corrects the "
            'whole residual at once; use mechanism="gram", or a larger rho'
        )

    def closing(self) -> Arrays:
        """Nothing: every party keeps its last noisy coefficients."""
        return {}

    def state(self) -> Arrays:
        """Everything needed to go on after a restart."""
        numbers = np.array([float(getattr(self, name)) for name in _NUMBERS])
        return {"s": self.s, "z": self.z, "y": self.y, "numbers": numbers}

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        self.s, self.z, self.y = state["s"], state["z"], state["y"]
        for name, value in zip(_NUMBERS, state["numbers"], strict=True):
            setattr(self, name, type(getattr(self, name))(value))


_NUMBERS = ("intercept", "level", "last_residual", "growing", "round")


def _size(values: Vector) -> float:
    """Root mean square."""
    return math.sqrt(float(values @ values) / values.size)
