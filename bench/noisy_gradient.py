"""Noisy gradient descent with an exact account: the plain rival of every private method on a graph.

| symbol | meaning |
|---|---|
| b | bound on the norm of a row; the logistic loss has slope at most 1 |
| sd | deviation of the noise on a sum of gradients, on every coordinate |
| mu | GDP parameter of the whole run: sqrt(steps) 2 b / sd |

Replacing a row of a node changes the sum of its gradients by at most 2 b, whatever was released before. "nodes": every
node adds the noise to its own sum, so that nobody is trusted. "server": one trusted server adds it once to the sum of
all. Steps and rate are chosen on generated data of the same sizes (`tuned`), never on the rows that are fitted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import expit

from bench.data import ALPHA, generated_a9a
from tacit.privacy import accountant
from tacit.privacy.events import GaussianRelease
from tacit.types import Matrix, Vector

STEPS, RATES = (3, 6, 12, 25, 50, 100, 200), (1.0, 4.0, 12.0)
LENGTH = math.sqrt(14)  # of a row of a9a: 14 attributes, one column of each


@dataclass(frozen=True)
class Descent:
    """A run with its settings.

    Attributes
    ----------
    epsilon, delta : float
        Of the whole run, for one row (replace-one).
    noises : int
        How many parties add noise to each sum: the nodes, or 1 for a trusted server.
    steps : int
    rate : float
    """

    epsilon: float
    delta: float
    noises: int
    steps: int
    rate: float

    @property
    def sd(self) -> float:
        """Deviation of each party's noise, for rows of norm 1 at most."""
        return 2.0 * math.sqrt(self.steps) / accountant.gdp_mu(self.epsilon, self.delta)

    def spent(self) -> float:
        """Epsilon of the run, by the accountant."""
        return accountant.epsilon([GaussianRelease(2.0, self.sd, self.steps)], self.delta)

    def fit(self, X: Matrix, y: Vector, seed: int) -> Vector:
        """Coefficients after the last step; rows longer than 1 are scaled down."""
        rng = np.random.default_rng(seed)
        X, rows = clipped(X), X.shape[0]
        coef = np.zeros(X.shape[1])
        for _ in range(self.steps):
            total = -(X.T @ (y * expit(-y * (X @ coef))))
            noise = self.sd * math.sqrt(self.noises) * rng.standard_normal(coef.size)  # the sum of all their noises
            coef -= self.rate * ((total + noise) / rows + ALPHA * coef)
        return np.asarray(coef)


def clipped(X: Matrix) -> Matrix:
    """The rows, scaled down to norm 1 where they are longer."""
    from scipy import sparse

    squares = X.multiply(X).sum(axis=1) if sparse.issparse(X) else (X * X).sum(axis=1)
    scale = 1.0 / np.maximum(np.sqrt(np.asarray(squares).ravel()), 1.0)
    if scale.min() >= 1.0 - 1e-12:
        return X
    return sparse.diags_array(scale) @ X if sparse.issparse(X) else scale[:, None] * X


@cache
def tuned(epsilon: float, delta: float, noises: int) -> Descent:
    """The steps and the rate that are best on generated rows with the sizes of a9a: these are public."""
    data = generated_a9a()
    X, X_test = data.X_train / LENGTH, data.X_test / LENGTH
    choices = [Descent(epsilon, delta, noises, steps, rate) for steps in STEPS for rate in RATES]
    return min(choices, key=_loss_on(X, data.y_train, X_test, data.y_test))


def _loss_on(X: Matrix, y: Vector, X_test: Matrix, y_test: Vector) -> Callable[[Descent], float]:
    return lambda one: float(np.logaddexp(0.0, -y_test * (X_test @ one.fit(X, y, seed=0))).mean())
