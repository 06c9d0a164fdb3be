"""The party's side of sharing ADMM: argmin over x of  weight R(x) + 1/2 x'A x - b'x,  A the party's Gram matrix.

Each solve comes with a certificate: how far the optimality condition is from holding, relative to the size of b.
The eigendecomposition of A is made once, so that no change of the penalty costs a factorisation.
"""

from __future__ import annotations

import numpy as np
import scipy
from numba import njit
from scipy import linalg

from tacit.blocks.dense import Block, cholesky, solve_cholesky
from tacit.problem.regularizers import Regularizer
from tacit.solvers.base import Problem
from tacit.solvers.duality import conjugate_terms
from tacit.solvers.sharing.coordinator import Form
from tacit.types import Arrays, Vector

# --- The x-update of sharing ADMM: argmin over x of  weight R(x) + 1/2 x'A x - b'x,  A the party's Gram matrix


RANK_CUTOFF = 1e-12  # eigenvalues below this part of the largest are rounding, and treated as zero
SWEEPS, MOST_MOVES = 30, 100
INNER_TOL = 1e-11  # of the largest entry of b


class ShareSolver:
    """x-updates of one party: argmin weight R(x) + 1/2 ||D x - (D base - q)||_s^2."""

    def __init__(self, block: Block, row_weights: Vector | None, regularizer: Regularizer) -> None:
        self.block, self.row_weights, self.regularizer = block, row_weights, regularizer
        self.is_dual = regularizer.form == "quadratic" and block.d > block.n
        if self.is_dual:
            root = np.ones(block.n) if row_weights is None else np.sqrt(row_weights)
            self.root = root
            self.values, self.vectors = _spectrum(root[:, None] * block.outer() * root)
        else:
            self.gram = block.gram(row_weights)
            self.values, self.vectors = _spectrum(self.gram)

    def correlate(self, q: Vector) -> Vector:
        """D' diag(s) q."""
        return self.block.correlate(q if self.row_weights is None else self.row_weights * q)

    def times(self, x: Vector) -> Vector:
        """A x."""
        return self.correlate(self.block.predict(x)) if self.is_dual else self.gram @ x

    def solve(self, base: Vector, q: Vector, pull: Vector, weight: float) -> tuple[Vector, float]:
        """The minimiser and its certificate; `pull` is D' diag(s) q, already computed."""
        if self.is_dual:
            return self._solve_dual(base, q, weight), 0.0
        b = self.gram @ base - pull
        if self.regularizer.form == "quadratic":
            return self._solve_quadratic(b, weight * self.regularizer.l2), 0.0
        if self.regularizer.form == "ball":
            return self._solve_ball(b), 0.0
        return self._solve_separable(b, base, weight)

    def _solve_dual(self, base: Vector, q: Vector, weight: float) -> Vector:
        target = self.vectors.T @ (self.root * (self.block.predict(base) - q))
        inner = self.vectors @ _divide(target, self.values, weight * self.regularizer.l2)
        return self.block.correlate(self.root * inner)

    def _solve_quadratic(self, b: Vector, ridge: float) -> Vector:
        return self.vectors @ _divide(self.vectors.T @ b, self.values, ridge)

    def _solve_ball(self, b: Vector) -> Vector:
        """||x|| <= radius: the free solution, or the root of the secular equation ||x(shift)|| = radius."""
        radius = self.regularizer.radius
        rotated = np.where(self.values > 0, self.vectors.T @ b, 0.0)  # b lies in the range of A, up to rounding
        free = _divide(rotated, self.values, 0.0)
        if np.linalg.norm(free) <= radius:
            return self.vectors @ free
        top = float(np.linalg.norm(rotated)) / radius  # at this shift the norm is at most the radius

        def excess(shift: float) -> float:
            # the reciprocal of the norm is nearly linear in the shift, so the root is found in a few steps
            return 1 / radius - 1 / float(np.linalg.norm(_divide(rotated, self.values, shift)))

        shift = scipy.optimize.brentq(excess, 0.0, top * (1 + 1e-12), xtol=1e-300, rtol=1e-14, maxiter=500)
        x = self.vectors @ _divide(rotated, self.values, float(shift))
        return np.asarray(x * min(1.0, radius / float(np.linalg.norm(x))))

    def _solve_separable(self, b: Vector, start: Vector, weight: float) -> tuple[Vector, float]:
        """Coordinate descent, with Newton moves on the free coordinates where it is slow."""
        r = self.regularizer
        l1, l2 = weight * r.l1, weight * r.l2
        x = np.clip(start, r.low, r.high)
        size = float(np.abs(b).max(initial=0.0)) or 1.0
        for _ in range(MOST_MOVES):
            miss = _descend(self.gram, b, x, l1, l2, r.low, r.high, INNER_TOL * size, SWEEPS)
            if miss <= INNER_TOL * size:
                break
            _move_free(self.gram, b, x, l1, l2, r.low, r.high)
        return x, miss / size


def _move_free(gram: Vector, b: Vector, x: Vector, l1: float, l2: float, low: float, high: float) -> None:
    """Minimise over the coordinates that are off their kinks and bounds, as far as they stay so; in place."""
    free = (x > low) & (x < high) & ((x != 0) | (l1 == 0))
    if not free.any():
        return
    part = gram[np.ix_(free, free)]
    slope = gram[free] @ x - b[free] + l1 * np.sign(x[free]) + l2 * x[free]
    move = -solve_cholesky(cholesky(part, l2), slope)
    edges = np.where(move > 0, high, low) - x[free]
    if l1 > 0:  # zero is an edge too
        edges = np.where(move * x[free] < 0, -x[free], edges)
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = np.where(move != 0, edges / move, np.inf)
    x[free] += min(1.0, float(reach.min())) * move
    np.clip(x, low, high, out=x)


def _spectrum(gram: Vector) -> tuple[Vector, Vector]:
    values, vectors = linalg.eigh(gram, check_finite=False)
    values[values < RANK_CUTOFF * max(float(values[-1]), 0.0)] = 0.0
    return values, vectors


def _divide(rotated: Vector, values: Vector, ridge: float) -> Vector:
    """Rotated / (values + ridge), and 0 where both are zero: the solution of least norm."""
    denominator = values + ridge
    return np.divide(rotated, denominator, out=np.zeros_like(rotated), where=denominator > 0)


@njit(cache=True, nogil=True)  # pragma: no cover - compiled
def _descend(gram, b, x, l1, l2, low, high, tol, sweeps):  # type: ignore[no-untyped-def]
    """Coordinate descent in place; returns the largest miss of the optimality condition that is left."""
    d = b.size
    slope = gram @ x - b
    miss = 0.0
    for _ in range(sweeps):
        miss = 0.0
        for j in range(d):
            a = gram[j, j] + l2
            old = x[j]
            if a > 0.0:
                v = old * gram[j, j] - slope[j]
                new = max(abs(v) - l1, 0.0) / a * (1.0 if v > 0 else -1.0)
            else:
                new = 0.0
            new = min(max(new, low), high)
            change = new - old
            if change != 0.0:
                x[j] = new
                for k in range(d):
                    slope[k] += gram[k, j] * change
                miss = max(miss, abs(change) * max(a, 1e-300))
        if miss <= tol:
            break
    return miss


# --- The party's side: one regularised least-squares problem per round


class SharingParty:
    """The party's side: one regularised least-squares problem per round."""

    def __init__(self, problem: Problem, block: Block, form: Form) -> None:
        self.problem, self.block, self.total = problem, block, problem.total
        self.solver = ShareSolver(block, problem.row_weights, problem.regularizer)
        self.coef = np.zeros(block.d)
        self.best = np.zeros(block.d)
        self.results, self.residuals = (np.zeros((block.d, form.window)) for _ in range(2))
        self.start = np.zeros(block.d)
        self.certificate = 0.0  # of the last x-update: how far its optimality condition is from holding

    def start_at(self, coef: Vector) -> Arrays:
        """Begin from given coefficients."""
        if self.problem.regularizer.constraint:
            coef = self.problem.regularizer.prox(coef, 1.0)
        self.coef, self.start, self.best = coef.copy(), coef.copy(), coef.copy()
        return {"share": self.block.predict(coef), "numbers": np.array([self._penalty()])}

    def step(self, round_: int, inbox: Arrays) -> Arrays:
        """Answer q with the share of the new coefficients."""
        rho, relaxation, slot, keep = (float(v) for v in inbox["control"])
        mixture = inbox["mixture"]
        if keep:
            self.best = self.coef
        base = self.results[:, : mixture.size] @ mixture if mixture.size else self.start
        pull = self.solver.correlate(inbox["q"])
        weight = self.problem.alpha * self.total / rho
        self.coef, self.certificate = self.solver.solve(base, inbox["q"], pull, weight)
        result = relaxation * self.coef + (1 - relaxation) * base
        products = self._store(int(slot), result, result - base)
        return {
            "share": self.block.predict(self.coef),
            "products": products,
            "numbers": np.array([self._penalty(), self._stationarity(base, rho * pull) ** 2]),
            **(conjugate_terms(self.problem, self.solver.correlate(inbox["dual"])) if "dual" in inbox else {}),
        }

    def _store(self, slot: int, result: Vector, residual: Vector) -> Vector:
        self.results[:, slot], self.residuals[:, slot] = result, residual
        return self.residuals.T @ self.solver.times(residual)

    def _penalty(self) -> float:
        return self.problem.alpha * self.problem.regularizer.value(self.coef)

    def _stationarity(self, x: Vector, pull: Vector) -> float:
        """||x - prox(x - gradient)||, the x-part of the Lyapunov function of the convergence analysis, eq. (13)."""
        regularizer, gradient = self.problem.regularizer, pull / self.total
        if regularizer.form == "quadratic":
            return float(np.linalg.norm(gradient + self.problem.alpha * regularizer.l2 * x))
        return float(np.linalg.norm(x - regularizer.prox(x - gradient, self.problem.alpha or 1.0)))

    def finish(self, inbox: Arrays) -> None:
        """End on the best coefficients found."""
        if inbox["control"][0]:
            self.coef = self.best

    def state(self) -> Arrays:
        """Everything needed to go on after a restart, except what the data give again."""
        names = ("coef", "best", "start", "results", "residuals")
        return {name: getattr(self, name) for name in names}

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
        for name, value in state.items():
            setattr(self, name, value)
