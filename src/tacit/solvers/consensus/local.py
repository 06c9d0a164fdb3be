"""A node's own problem, solved to a certified gradient norm.

argmin over w of  scale * sum_i s_i loss(row_i . coef + intercept) + ridge/2 ||coef||^2
                      + linear . w + 1/2 (w - centre)' Q (w - centre),        w = (coef, intercept)

| symbol | meaning |
|---|---|
| s | row weights, 1 where there are none |
| Q | the pull towards the centre: one number, one for each coordinate, a matrix, or what can be multiplied like one |
| H | curvature of the first two terms; kept from an earlier point as long as its steps still go well |

Where a row has several scores, one for each class, `coef` has as many numbers for each column and there are as many
intercepts (`tacit.blocks`).

Newton steps with backtracking. Where there are many columns the steps are found by conjugate gradients, without H.

A private round must not stop because of what its rows are, and its proof needs a point within t of the minimiser of an
m-strongly convex function whose gradient is M-Lipschitz. Newton steps find one nearly always and are believed only with
a gradient norm to show for it. Where they have none, steps of length 1/M along the gradient are taken, as many as bring
any start within reach: each shrinks the distance by 1 - m/M, whatever the function is, and rounding adds no more than
the plan has counted (docs/proofs/dynamic.md, theorem 2a).

| symbol | here | meaning |
|---|---|---|
| R | reach | largest norm of what is taken in from others: a longer vector is scaled down |
| m, M | modulus, curvature | least and largest curvature of the whole objective |
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from tacit.blocks import SeveralBlock, scores_of
from tacit.blocks.dense import cholesky, solve_cholesky
from tacit.problem.losses.base import Loss
from tacit.solvers.consensus.base import NodeData
from tacit.types import Arrays, Vector

# --- A node's own problem, solved to a certified gradient norm


MOST_STEPS = 100
MOST_HALVINGS = 40
ENOUGH = 1e-4  # part of the promised decrease that a step must bring
STALLED = 0.9  # a part of the gradient: steps that leave more of it, and bring nothing clear, will not get further
SLOW = 0.3  # a step with an old H that leaves more of the gradient than this makes H anew
WIDE = 1500  # coordinates from which H is not formed
CG_TOL = 1e-2  # of a Newton step
ROUNDING = 1e-13  # of the sum of the losses


@dataclass(frozen=True)
class Solved:
    """A minimiser as found.

    Attributes
    ----------
    point : Vector
    gradient_norm : float
        Euclidean norm of the whole gradient at the point: with Q >= q I the point is within gradient_norm / q of the
        minimiser.
    steps : int
        Newton steps taken.
    """

    point: Vector
    gradient_norm: float
    steps: int


@dataclass(frozen=True, eq=False)
class _Point:
    """A point with the scores of all rows, the sum of their losses, and the gradient of the first two terms."""

    w: Vector
    scores: Vector
    loss: float
    slope: Vector


class LocalProblem:
    """The problem of one node; keeps its curvature from one solve to the next.

    Parameters
    ----------
    data : NodeData
    loss : Loss
        Smooth and convex.
    scale : float
        Weight of the sum of the losses: 1/N for a node's part of the joint objective.
    ridge : float
        Weight of 1/2 ||coef||^2; the intercept is free of it.
    fit_intercept : bool
        Whether the last coordinate of a model is an intercept.
    """

    def __init__(self, data: NodeData, loss: Loss, scale: float, ridge: float, fit_intercept: bool) -> None:
        self.data, self.loss, self.scale, self.fit_intercept = data, loss, scale, fit_intercept
        self.algebra = scores_of(loss.outputs)
        self.columns = data.rows.d
        self.size = self.columns + int(fit_intercept) * loss.outputs
        self.ridge = np.full(self.size, ridge)
        self.ridge[self.columns :] = 0.0
        self.curvature: Vector | None = None
        self._factor: Vector | None = None
        self._factored_pull: Any = None
        self._last: _Point | None = None

    # --- the first two terms ---------------------------------------------------------------------------

    def scores(self, w: Vector) -> Vector:
        """Score of each row."""
        scores = self.data.rows.predict(w[: self.columns])
        if self.fit_intercept:
            constants = w[self.columns] if self.algebra.outputs == 1 else w[self.columns :]
            scores += self.algebra.repeat(constants, self.data.labels.size)
        return scores

    def value(self, w: Vector) -> float:
        """Value of the first two terms."""
        return self._loss(self.scores(w)) + 0.5 * float(self.ridge @ w**2)

    def gradient(self, w: Vector, scores: Vector | None = None) -> Vector:
        """Gradient of the first two terms."""
        scores = self.scores(w) if scores is None else scores
        slope = self.loss.grad(scores, self.data.labels)
        return self._correlate(slope if self._weights is None else self._weights * slope) + self.ridge * w

    def hessian(self, w: Vector, scores: Vector | None = None) -> Vector:
        """Curvature of the first two terms."""
        weights = self._curvature(self.scores(w) if scores is None else scores)
        hessian = np.zeros((self.size, self.size))
        hessian[: self.columns, : self.columns] = self.data.rows.gram(weights)
        if self.fit_intercept:
            rows = self.data.rows
            pull = rows.pull(weights) if isinstance(rows, SeveralBlock) else rows.correlate(weights)[:, None]
            hessian[self.columns :, : self.columns], hessian[: self.columns, self.columns :] = pull.T, pull
            hessian[self.columns :, self.columns :] = self.algebra.total(weights)
        hessian[np.diag_indices(self.size)] += self.ridge
        return hessian

    def hessian_times(self, w: Vector, columns: Vector) -> Vector:
        """Curvature of the first two terms times the columns of a matrix, without forming it."""
        curvature = self._curvature(self.scores(w))
        return np.column_stack([self._curvature_times(curvature, column) for column in columns.T])

    def _curvature_times(self, curvature: Vector, v: Vector) -> Vector:
        along = self.algebra.away(curvature, self.scores(v))
        return self._correlate(curvature / self.scale * along) + self.ridge * v

    def _curvature(self, scores: Vector) -> Vector:
        """Scaled second derivative of each row; of several scores the numbers that it is made of."""
        several = self.algebra.outputs > 1
        own = self.loss.slopes(scores, self.data.labels)[1] if several else self.loss.hess(scores, self.data.labels)
        return self.scale * own if self._weights is None else self._weights * (self.scale * own)

    @cached_property
    def _weights(self) -> Vector | None:
        """The weight of each score."""
        weights = self.data.weights
        return weights if weights is None or self.algebra.outputs == 1 else np.repeat(weights, self.algebra.outputs)

    def _correlate(self, r: Vector) -> Vector:
        product = np.empty(self.size)
        product[: self.columns] = self.data.rows.correlate(r)
        if self.fit_intercept:
            product[self.columns :] = self.algebra.sums(r)
        return self.scale * product

    def state(self) -> Arrays:
        """Arrays from which `restore` goes on: the curvature that is kept."""
        return {} if self.curvature is None else {"local.curvature": self.curvature}

    def restore(self, state: Arrays) -> None:
        """Go on from `state`, in which there may be more."""
        self.curvature, self._factor, self._last = state.get("local.curvature"), None, None

    # --- solving ---------------------------------------------------------------------------------------

    def solve(
        self, linear: Vector, pull: Any, centre: Vector, tau: float, start: Vector | None = None, *, relative: float = 0
    ) -> Solved:
        """The minimiser to a gradient norm of tau, or as near as rounding allows.

        Parameters
        ----------
        linear, centre : Vector
        pull : float, Vector, matrix or LowRankMetric
            Q, positive definite. The same object in the next solve saves a factorisation.
        tau : float
            Largest gradient norm that ends the solve.
        start : Vector or None
            Where to begin; the centre where nothing is said.
        relative : float
            A gradient norm below this part of the first one ends the solve, too (after one step at least).
        """
        here = self._at(np.array(centre if start is None else start))
        gradient = here.slope + linear + times(pull, here.w - centre)
        norm, steps = math.sqrt(gradient @ gradient), 0
        enough = max(tau, relative * norm)
        while norm > enough and steps < MOST_STEPS:
            steps += 1
            fresh = self.curvature is None
            move = self._move(here, gradient, pull)
            length, here, clear = self._line_search(here, gradient, move, linear, pull, centre)
            gradient = here.slope + linear + times(pull, here.w - centre)
            before, norm = norm, math.sqrt(gradient @ gradient)
            if fresh and not clear and length < 1.0 and norm > STALLED * before:
                break  # not even a tiny step along a Newton direction clearly brings less: rounding
            if length < 1.0 or norm > SLOW * before:
                self.curvature = None
        self._last = here
        return Solved(here.w, norm, steps)

    def _at(self, w: Vector) -> _Point:
        """What is known of a point; nothing is computed where the last solve ended there."""
        if self._last is not None and np.array_equal(self._last.w, w):
            return self._last
        scores = self.scores(w)
        return _Point(w, scores, self._loss(scores), self.gradient(w, scores))

    def _loss(self, scores: Vector) -> float:
        return self.scale * self.loss.total(scores, self.data.labels, self.data.weights)

    def _move(self, here: _Point, gradient: Vector, pull: Any) -> Vector:
        """Newton step, with the curvature of an earlier point where that is still good."""
        if self.size > WIDE:
            return self._move_by_cg(gradient, here.scores, pull)
        if self.curvature is None:
            self.curvature, self._factor = self.hessian(here.w, here.scores), None
        if self._factor is None or not (self._factored_pull is pull or np.array_equal(self._factored_pull, pull)):
            self._factor, self._factored_pull = cholesky(_plus(self.curvature, pull), 0.0), pull
        return -solve_cholesky(self._factor, gradient)

    def _line_search(
        self, here: _Point, gradient: Vector, move: Vector, linear: Vector, pull: Any, centre: Vector
    ) -> tuple[float, _Point, bool]:
        """(length, new point, whether it is clearly better) of a step that brings enough; length 0 where none does."""
        w, along, slope = here.w, self.scores(move), float(gradient @ move)
        flat = float((linear + self.ridge * w + times(pull, w - centre)) @ move)
        bent = 0.5 * float(self.ridge @ move**2 + move @ times(pull, move))
        slack = ROUNDING * abs(here.loss)
        length = 1.0
        for _ in range(MOST_HALVINGS):
            scores = here.scores + length * along
            loss = self._loss(scores)
            change, enough = loss - here.loss + length * flat + length**2 * bent, ENOUGH * length * slope
            if change <= enough + slack:
                there = w + length * move
                return length, _Point(there, scores, loss, self.gradient(there, scores)), change < enough - slack
            length *= 0.5
        return 0.0, here, False

    def _move_by_cg(self, gradient: Vector, scores: Vector, pull: Any) -> Vector:
        """Newton step by conjugate gradients, with Q itself as the preconditioner where it can be inverted."""
        curvature = self._curvature(scores)
        whole = _operator(self.size, lambda v: self._curvature_times(curvature, v) + times(pull, v))
        guess = _operator(self.size, pull.solve) if hasattr(pull, "solve") else None
        move, _ = cg(whole, -gradient, rtol=CG_TOL, maxiter=10 * self.size, M=guess)
        return np.asarray(move)


def _operator(size: int, product: Callable[[Vector], Vector]) -> LinearOperator:
    return LinearOperator((size, size), matvec=product, dtype=np.float64)


def times(pull: Any, v: Vector) -> Vector:
    """Q v."""
    return np.asarray(pull @ v if getattr(pull, "ndim", 0) == 2 else pull * v)


def _plus(hessian: Vector, pull: Any) -> Vector:
    """H + Q."""
    if np.ndim(pull) == 2:
        return np.asarray(hessian + (pull.dense() if hasattr(pull, "dense") else pull))
    whole = hessian.copy()
    whole[np.diag_indices(len(whole))] += pull
    return whole


# --- Solves that end near the minimiser for every data set and every message: nothing here is seen to fail


def within(v: Vector, reach: float) -> Vector:
    """The vector scaled down to norm `reach` where it is longer; entries that are no numbers count as 0."""
    found = np.asarray(v, dtype=np.float64)
    if not np.isfinite(found).all():
        found = np.where(np.isfinite(found), found, 0.0)
    largest = float(np.abs(found).max(initial=0.0))
    if largest > reach:  # first so that squares do not overflow
        found = found * (reach / largest)
    norm = float(np.linalg.norm(found))
    return found if norm <= reach else np.asarray(found * (reach / norm))


def steps_for(modulus: float, curvature: float, start: float, end: float) -> int:
    """How many steps bring a distance of `start` below `end`."""
    return max(1, math.ceil(curvature / modulus * math.log(max(start / end, 1.0)))) + 1


def descend(gradient: Callable[[Vector], Vector], start: Vector, curvature: float, steps: int) -> Vector:
    """Steps of length 1/M along the gradient; stops before the last where nothing moves any more."""
    point = np.array(start, dtype=np.float64)
    for _ in range(steps):
        there = point - gradient(point) / curvature
        if np.array_equal(there, point):
            break
        point = there
    return point
