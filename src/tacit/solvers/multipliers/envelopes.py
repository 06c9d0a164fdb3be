"""Envelopes: a loss or a penalty with kinks made smooth around a multiplier."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from tacit.blocks.dense import Block
from tacit.problem.regularizers import GroupLasso
from tacit.solvers.base import Problem, label_spread
from tacit.types import Vector

# --- The loss's envelope: a loss with kinks made smooth around a multiplier


FLOOR = 1e-3  # of the metric, where the loss is flat


@dataclass(frozen=True)
class SmoothLoss:
    """The envelope at one z: its sum over the rows, and slope and curvature of each row (without row weights)."""

    value: float
    slope: Vector
    curvature: Vector


class LossEnvelope:
    """l_e with its multiplier and stiffness; a smooth loss is its own envelope."""

    def __init__(self, problem: Problem, labels: Vector) -> None:
        self.loss, self.labels, self.weights = problem.loss, labels, problem.row_weights
        spread = 1.0 if problem.loss.task == "classification" else label_spread(labels)
        self.stiffness = problem.rho or (1.0 if problem.loss.smooth else problem.loss.lipschitz / spread)
        self.multiplier = np.zeros(labels.size)

    def weigh(self, values: Vector) -> Vector:
        """Values times row weights."""
        return values if self.weights is None else self.weights * values

    def sum(self, values: Vector) -> float:
        """Weighted sum over the rows."""
        return float(values.sum() if self.weights is None else self.weights @ values)

    def at(self, z: Vector) -> SmoothLoss:
        """Value, slope and curvature at z."""
        loss, labels, stiffness = self.loss, self.labels, self.stiffness
        if loss.smooth:
            return SmoothLoss(loss.total(z, labels, self.weights), *loss.slopes(z, labels))
        centre = z + self.multiplier / stiffness
        nearest = loss.prox(centre, labels, 1 / stiffness)
        low, high = loss.slope_range(labels)
        slope = np.clip(stiffness * (centre - nearest), low, high)
        value = loss.total(nearest, labels, self.weights)
        value += self.sum(slope * slope - self.multiplier**2) / (2 * stiffness)
        on_kink = (np.abs(slope) > 1e-12) & (slope > (1 - 1e-9) * low) & (slope < (1 - 1e-9) * high)
        return SmoothLoss(value, slope, np.where(on_kink, stiffness, 0.0))

    def metric(self, curvature: Vector) -> Vector:
        """The curvature with row weights, kept off zero where the loss is flat."""
        top = float(curvature.max(initial=0.0)) or self.stiffness
        return self.weigh(np.maximum(curvature, FLOOR * top))

    def infeasibility(self, here: SmoothLoss) -> float:
        """Sum of sigma (t - z)^2: how far the envelope's minimiser is from the predictions."""
        return 0.0 if self.loss.smooth else self.sum((self.multiplier - here.slope) ** 2) / self.stiffness

    def move_multiplier(self, here: SmoothLoss, growth: float) -> None:
        """Take the slope as the new multiplier."""
        if not self.loss.smooth:
            self.multiplier = here.slope
            self.stiffness *= growth


# --- The penalty's envelope: a penalty with kinks or bounds made smooth around a multiplier


STIFFNESS = 0.1  # of the envelope, beside sigma times the squares of the column
LEAST_SQUARES = 1e-3  # a column with fewer squares, beside the largest, counts as having that many


@dataclass(frozen=True)
class SmoothPenalty:
    """The envelope at one x.

    Attributes
    ----------
    model : array
        k, the minimiser inside the envelope: it has exact zeros and keeps to its bounds.
    slope : array
    diagonal, edge : array
        The curvature is diag(diagonal) + edge edge'.
    value : float
    infeasibility : float
        |x - k|^2 in the metric of the stiffness.
    """

    model: Vector
    slope: Vector
    diagonal: Vector
    edge: Vector
    value: float
    infeasibility: float

    def damped(self, least: Vector) -> SmoothPenalty:
        """The same with at least this diagonal; with the whole stiffness the model is never below the envelope."""
        return replace(self, diagonal=np.maximum(self.diagonal, least))

    def products(self, columns: Vector) -> Vector:
        """Columns' (diag(diagonal) + edge edge') columns."""
        row = self.edge @ columns
        return np.asarray(columns.T @ (self.diagonal[:, None] * columns) + np.outer(row, row))


class PenaltyEnvelope:
    """R_e of one party with its multiplier and stiffness; a quadratic penalty is its own envelope."""

    def __init__(self, problem: Problem, block: Block) -> None:
        self.problem, self.regularizer = problem, problem.regularizer
        self.weight = problem.alpha * problem.total
        self.quadratic = self.regularizer.form == "quadratic"
        self.multiplier = np.zeros(block.d)
        self.stiffness: Vector = np.zeros(0)
        self._block = block

    def objective(self, model: Vector) -> float:
        """Alpha R, as it enters the objective."""
        return self.problem.alpha * self.regularizer.value(model)

    def set_stiffness(self, sigma: float) -> None:
        """Take the first stiffness from the columns' squares; a ball needs one that is the same for all.

        A block of constant columns has none: one that is nearly 0 would let rounding move them without end.
        """
        squares = np.diag(self._block.gram(self.problem.row_weights))
        top = float(squares.max(initial=0.0)) or self.problem.total
        squares = np.maximum(squares, LEAST_SQUARES * top)
        if self.regularizer.form == "ball":
            squares = np.full_like(squares, squares.mean())
        if isinstance(self.regularizer, GroupLasso):
            squares = self.regularizer.spread(self.regularizer.means(squares), squares.size)
        self.stiffness = STIFFNESS * sigma * squares

    def at(self, x: Vector) -> SmoothPenalty:
        """Model, slope, curvature and value at x."""
        nothing = np.zeros_like(x)
        if self.quadratic:
            ridge = self.weight * self.regularizer.l2
            return SmoothPenalty(x, ridge * x, np.full(x.size, ridge), nothing, 0.5 * ridge * float(x @ x), 0.0)
        centre = x + self.multiplier / self.stiffness
        nearest = {"ball": self._project_ball, "group": self._shorten}.get(self.regularizer.form, self._shrink)
        model, diagonal, edge = nearest(centre)
        slope = self.stiffness * (centre - model)
        value = 0.0 if self.regularizer.constraint else self.weight * self.regularizer.value(model)
        value += 0.5 * float((slope**2 - self.multiplier**2) @ (1 / self.stiffness))
        return SmoothPenalty(model, slope, diagonal, edge, value, float(self.stiffness @ (x - model) ** 2))

    def _project_ball(self, centre: Vector) -> tuple[Vector, Vector, Vector]:
        """Nearest point of the ball, and the curvature diag(d) + e e' of half the squared distance to it."""
        size = float(np.linalg.norm(centre))
        if size <= self.regularizer.radius:
            return centre, np.zeros_like(centre), np.zeros_like(centre)
        part = self.regularizer.radius / size
        return centre * part, self.stiffness * (1 - part), np.sqrt(self.stiffness * part) * (centre / size)

    def _shrink(self, centre: Vector) -> tuple[Vector, Vector, Vector]:
        """Soft threshold and bounds, with Newton's curvature, or that of the secant to 0 where it is larger.

        The secant counts on the straight parts of |x|, where Newton's curvature is 0.
        """
        r, stiffness, weight = self.regularizer, self.stiffness, self.weight
        free = np.sign(centre) * np.maximum(np.abs(centre) * stiffness - weight * r.l1, 0.0)
        free /= stiffness + weight * r.l2
        model = np.clip(free, r.low, r.high)
        newton = np.where((model != free) | (free == 0), 0.0, stiffness / (stiffness + weight * r.l2))
        secant = np.divide(model, centre, out=np.ones_like(centre), where=centre != 0)
        curvature = stiffness * np.clip(1 - np.minimum(newton, secant), 0.0, 1.0)
        return model, curvature, np.zeros_like(centre)

    def _shorten(self, centre: Vector) -> tuple[Vector, Vector, Vector]:
        """Groups shortened, with the curvature of the secant to 0, which is never below Newton's.

        In a group the stiffness is the same for all, as the norm of the group decides.
        """
        groups = cast("GroupLasso", self.regularizer)
        norms, least = groups.norms(centre), self.weight * groups.factors(centre.size) / groups.means(self.stiffness)
        kept = np.divide(np.maximum(norms - least, 0.0), norms, out=np.zeros_like(norms), where=norms > 0)
        factor = groups.spread(kept, centre.size)
        return centre * factor, self.stiffness * (1.0 - factor), np.zeros_like(centre)

    def move_multiplier(self, here: SmoothPenalty, growth: float) -> None:
        """Take the slope as the new multiplier."""
        if not self.quadratic:
            self.multiplier = here.slope
            self.stiffness = self.stiffness * growth
