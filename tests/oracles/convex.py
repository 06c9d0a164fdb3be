"""The pooled problem, solved by an outside solver (cvxpy)."""

from __future__ import annotations

import cvxpy as cp
import numpy as np

LOSSES = {
    "logistic": lambda z, y: cp.sum(cp.logistic(-cp.multiply(y, z))),
    "squared": lambda z, y: cp.sum_squares(z - y) / 2,
    "hinge": lambda z, y: cp.sum(cp.pos(1 - cp.multiply(y, z))),
    "squared_hinge": lambda z, y: cp.sum_squares(cp.pos(1 - cp.multiply(y, z))) / 2,
    "huber": lambda z, y: cp.sum(cp.huber(z - y, 1.35)) / 2,
    "absolute": lambda z, y: cp.norm1(z - y),
    "quantile": lambda z, y: cp.norm1(z - y) / 2,
    "gamma": lambda z, y: cp.sum(z + cp.multiply(y, cp.exp(-z))) - float(np.sum(np.log(y) + 1)),
    "tweedie": lambda z, y: 2 * cp.sum(cp.exp(z / 2) + cp.multiply(y, cp.exp(-z / 2))) - 4 * float(np.sum(np.sqrt(y))),
    "negative_binomial": lambda z, y: cp.sum(cp.multiply(y + 1, cp.logistic(z)) - cp.multiply(y, z)) + _binomial(y),
    "poisson": lambda z, y: cp.sum(cp.exp(z) - cp.multiply(y, z)) + _poisson_constant(y),
}


def _poisson_constant(y: np.ndarray) -> float:
    positive = y[y > 0]
    return float(np.sum(positive * np.log(positive)) - y.sum())


def _binomial(y: np.ndarray) -> float:
    """Least value of the negative binomial loss at dispersion 1, without its constant."""
    positive = y[y > 0]
    return float(np.sum(positive * np.log(positive)) - np.sum((y + 1) * np.log1p(y)))


def optimum(loss: str, penalty: str, X: np.ndarray, y: np.ndarray, alpha: float, blocks: list[np.ndarray]) -> float:
    """Optimal value of (1/N) sum loss + alpha R, the intercept free; balls are of each block."""
    x, b = cp.Variable(X.shape[1]), cp.Variable()
    terms = {
        "none": 0.0,
        "l2": alpha * cp.sum_squares(x) / 2,
        "l1": alpha * cp.norm1(x),
        "group_lasso": alpha * cp.norm1(x),  # groups of one
        "elastic_net": alpha * (cp.norm1(x) / 2 + cp.sum_squares(x) / 4),
    }
    constraints = {
        "nonnegative": [x >= 0],
        "box": [x >= -1, x <= 1],
        "ball": [cp.norm2(x[block]) <= 1 for block in blocks],
    }
    objective = LOSSES[loss](X @ x + b, y) / len(y) + terms.get(penalty, 0.0)
    problem = cp.Problem(cp.Minimize(objective), constraints.get(penalty, []))
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    assert problem.status in ("optimal", "optimal_inaccurate"), problem.status
    return float(problem.value)
