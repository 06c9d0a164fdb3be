"""Private learners that trust one place with all rows: the rivals of `private-peers`.

All spend (epsilon, delta) over the whole run on one row that is replaced, with an exact account of Gaussian noise (a
run is mu-GDP; squares of mu add up). Rows have norm 1 at most, a constant beside them included.

| peer | releases | noise at mu = 1 |
|---|---|---|
| noisy gradients (DP-SGD with full batches) | the sum of all rows' gradients, T times | 2 sqrt(T) on a sum |
| Newton with double noise (Ganesh et al. 2023) | T times a gradient, and a Newton step by it | see `newton_sds` |
| AdaSSP (Wang 2018), squared loss | least eigenvalue, Gram matrix, products with labels | sqrt(3) (1, sqrt(2), 2) |

Each function gives the loss on test rows for every setting of its grid, so that the best one can be picked: that is
more than anybody has in earnest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from bench import diffprivlib_peer
from bench.curve_peers import DELTA, dp_ebm, own_epsilon
from bench.curve_sets import CurveSet, Cut
from bench.graph_sets import with_constant
from tacit.columns.curves import FourierColumn
from tacit.privacy import accountant
from tacit.types import Vector

LINES, PAIRS = 0, (2, 4, 8)  # pairs of frequencies of a number; Tacit has 2 to 8, by its rule
SCALES = (1.0, 2.0, 4.0)  # lines: rows are multiplied by this and clipped to norm 1, the tuned clip of DP-SGD
STEPS, RATES = (10, 40, 150), (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
RESIDUALS = (0.5, 1.0, 2.0)  # noisy gradients of the squared loss: clip of a residual, in half ranges of the labels
NEWTON_STEPS, RIDGES, SHARES = (3, 8), (1e-3, 3e-3, 1e-2, 3e-2, 1e-1), (0.5, 0.8)
FACTORS = (0.03, 0.1, 0.3, 1.0)  # of AdaSSP's penalty; 1 is the paper's
FAILS = 0.05  # probability with which AdaSSP's bounds may fail, as in the paper
PENALTIES = (1e-3, 1e-2, 1e-1)  # diffprivlib
EBM_RATES = {"its own rate": None, "rate 0.05": 0.05}
LOGARITHMS = 1000.0  # numbers from 0 to at least this are taken by their logarithm, as the software does
Losses = dict[str, float]  # by setting
FLATTEST = 4.0  # 1 over the largest curvature of the logistic loss


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of norm 1 at most with a constant beside them, labels, and where predictions stand.

    Labels are -1 and +1, or numbers in [-1, 1]: then a prediction is middle + half * score.
    """

    X: Vector
    y: Vector
    X_test: Vector
    y_test: Vector
    task: str
    middle: float = 0.0
    half: float = 1.0

    def losses(self, coefs: Vector) -> Vector:
        """Log loss or root mean squared error on the test rows, of each column of coefficients."""
        scores = self.X_test @ coefs.astype(self.X_test.dtype)
        if self.task == "classification":
            return np.asarray(np.logaddexp(0.0, -self.y_test[:, None] * scores).mean(axis=0))
        return np.sqrt(np.square(self.middle + self.half * scores - self.y_test[:, None]).mean(axis=0))


def table(one: CurveSet, cut: Cut, pairs: int, scale: float = 1.0) -> Table:
    """A set by public ranges and lists: numbers as lines or curves, words one-hot; blanks are the middle of a range."""
    norm = math.sqrt(len(one.ranges) + len(one.lists)) / scale
    X, X_test = (with_constant(_coded(one, frame, pairs), norm).astype(np.float32) for frame in (cut.train, cut.test))
    if one.task == "classification":
        return Table(X, cut.y, X_test, cut.y_test, one.task)
    low, high = one.target_range or (-1.0, 1.0)
    middle, half = (low + high) / 2, (high - low) / 2
    return Table(X, np.clip((cut.y - middle) / half, -1, 1), X_test, cut.y_test, one.task, middle, half)


def _coded(one: CurveSet, frame: object, pairs: int) -> Vector:
    blocks = []
    for name, (low, high) in one.ranges.items():
        column = FourierColumn(name, low, high, pairs, log=low >= 0 and high >= LOGARITHMS)
        blocks.append(column.encode(np.asarray(frame[name], dtype=float)))  # type: ignore[index]
    for name, words in one.lists.items():
        cells = np.asarray(frame[name], dtype=object)[:, None]  # type: ignore[index]
        blocks.append((cells == np.array(words, dtype=object)).astype(float))
    return np.hstack(blocks)


# --- noisy gradients -----------------------------------------------------------------------------------


def gradient_sd(epsilon: float, steps: int) -> float:
    """Deviation of the noise on a sum of gradients of norm 1 at most: one row replaced moves it by 2."""
    return 2.0 * math.sqrt(steps) / accountant.gdp_mu(epsilon, DELTA)


def gradients(one: Table, epsilons: Sequence[float], seed: int) -> dict[float, Losses]:
    """Noisy gradient descent with full batches, for every number of steps, rate and kind of averaging."""
    found: dict[float, Losses] = {epsilon: {} for epsilon in epsilons}
    for clip in (1.0,) if one.task == "classification" else RESIDUALS:
        for steps in STEPS:
            for kind, losses in _descend(one, epsilons, steps, clip, seed).items():
                for epsilon, row in zip(epsilons, losses, strict=True):
                    word = "" if one.task == "classification" else f", residuals up to {clip:g}"
                    names = [f"{steps} steps of {rate:g}, {kind}{word}" for rate in RATES]
                    found[epsilon] |= dict(zip(names, map(float, row), strict=True))
    return found


def _descend(one: Table, epsilons: Sequence[float], steps: int, clip: float, seed: int) -> dict[str, Vector]:
    """Losses by epsilon and rate, all of them at once; the noise of an epsilon is the same for all rates."""
    rng, (n, d) = np.random.default_rng(seed), one.X.shape
    sds, rates = np.array([gradient_sd(e, steps) for e in epsilons]), np.tile(RATES, len(epsilons))
    coef = np.zeros((d, rates.size))
    mean = np.zeros_like(coef)
    for step in range(1, steps + 1):
        noise = np.repeat(rng.standard_normal((d, len(epsilons))) * sds, len(RATES), axis=1)
        slopes = _slopes(one, one.X @ coef.astype(one.X.dtype), clip)
        coef = coef - rates / n * (one.X.T @ slopes.astype(one.X.dtype) + noise)
        if step > steps // 2:
            mean += (coef - mean) / (step - steps // 2)
    shape = (len(epsilons), len(RATES))
    return {kind: one.losses(x).reshape(shape) for kind, x in (("last", coef), ("half averaged", mean))}


def _slopes(one: Table, scores: Vector, clip: float) -> Vector:
    """Derivatives of each row's loss, at most 1."""
    y = one.y[:, None]
    if one.task == "classification":
        return np.asarray(-y * expit(-y * scores))
    return np.clip(scores - y, -clip, clip) / clip


# --- Newton with double noise --------------------------------------------------------------------------


def newton_sds(epsilon: float, rows: int, steps: int, ridge: float, share: float) -> tuple[float, float]:
    """Deviation of a mean gradient's noise, and of a step's over the norm of the noisy gradient.

    One row replaced moves a mean gradient by 2/n. The Hessian of the other rows is P >= ridge; with a row x of norm 1
    and curvature h <= 1/4 its inverse falls by u u' (h/n)/(1 + (h/n) x'P^-1 x), u = P^-1 x: by at most 1/(4 n ridge^2 +
    ridge) in norm, as the paper has it for a row that is added. For one that is replaced two such matrices are
    subtracted, each of them positive: the norm of the difference is at most the larger norm.
    """
    mu = accountant.gdp_mu(epsilon, DELTA)
    first, second = (mu * math.sqrt(part / steps) for part in (share, 1 - share))
    return 2.0 / (rows * first), 1.0 / (FLATTEST * rows * ridge**2 + ridge) / second


def newton(one: Table, epsilon: float, seed: int) -> Losses:
    """The double noise of Ganesh et al. with the Hessian plus a ridge, for every number of steps, ridge and share."""
    return {
        f"{steps} steps, ridge {ridge:g}, share {share:g}": float(
            one.losses(newton_coef(one, epsilon, steps, ridge, share, seed)[:, None])[0]
        )
        for steps in NEWTON_STEPS
        for ridge in RIDGES
        for share in SHARES
    }


def newton_coef(one: Table, epsilon: float, steps: int, ridge: float, share: float, seed: int) -> Vector:
    """The coefficients after the last step."""
    rng, (n, d) = np.random.default_rng(seed), one.X.shape
    first, second = newton_sds(epsilon, n, steps, ridge, share)
    coef = np.zeros(d)
    for _ in range(steps):
        p = expit(-one.y * (one.X @ coef.astype(one.X.dtype)))
        gradient = -(one.X.T @ (one.y * p).astype(one.X.dtype)) / n + first * rng.standard_normal(d)
        hessian = (one.X.T * (p * (1 - p)).astype(one.X.dtype)) @ one.X / n + ridge * np.eye(d)
        noise = second * float(np.linalg.norm(gradient)) * rng.standard_normal(d)
        coef = coef - np.linalg.solve(hessian, gradient) + noise
    return coef


# --- AdaSSP ----------------------------------------------------------------------------------------------


def adassp_sds(epsilon: float) -> tuple[float, float, float]:
    """Deviations for the least eigenvalue, the Gram matrix (on its diagonal) and the products with labels.

    One row of norm 1 replaced moves them by 1, sqrt(2) (Frobenius) and 2; a third of mu^2 is for each.
    """
    mu = accountant.gdp_mu(epsilon, DELTA) / math.sqrt(3)
    return 1.0 / mu, math.sqrt(2) / mu, 2.0 / mu


def adassp(one: Table, epsilon: float, seed: int) -> Losses:
    """Adaptive sufficient statistics perturbation, for every factor on its penalty."""
    coefs = np.column_stack([adassp_coef(one, epsilon, factor, seed) for factor in FACTORS])
    return dict(zip((f"factor {factor:g}" for factor in FACTORS), map(float, one.losses(coefs)), strict=True))


def adassp_coef(one: Table, epsilon: float, factor: float, seed: int) -> Vector:
    """Ridge regression from noisy sums; the penalty is what makes up for the noise of the Gram matrix."""
    rng, d = np.random.default_rng(seed), one.X.shape[1]
    least_sd, gram_sd, product_sd = adassp_sds(epsilon)
    gram = (one.X.T @ one.X).astype(float)
    least = max(0.0, float(np.linalg.eigvalsh(gram)[0]) + least_sd * (rng.standard_normal() - 1.64))
    noise = np.triu(rng.standard_normal((d, d)), 1) / math.sqrt(2)
    gram = gram + gram_sd * (noise + noise.T + np.diag(rng.standard_normal(d)))
    product = one.X.T @ one.y + product_sd * rng.standard_normal(d)
    penalty = max(0.0, factor * gram_sd * math.sqrt(d * math.log(2 * d**2 / FAILS)) - least)
    return np.asarray(np.linalg.lstsq(gram + penalty * np.eye(d), product)[0])


# --- libraries -------------------------------------------------------------------------------------------


def ebm(one: CurveSet, cut: Cut, epsilon: float, seed: int) -> Losses:
    """DP-EBM with the epsilon that it spends on one row replaced, at two rates."""
    from bench.curve_fits import loss_of

    own = own_epsilon(epsilon)
    return {name: loss_of(one, cut, dp_ebm(one, cut, own, seed, rate)) for name, rate in EBM_RATES.items()}


def diffprivlib(one: Table, epsilons: Sequence[float], seed: int) -> dict[float, Losses]:
    """The logistic regression of diffprivlib, (epsilon, 0), for every penalty."""
    asked = [(epsilon, alpha) for epsilon in epsilons for alpha in PENALTIES]
    losses = one.losses(diffprivlib_peer.fit_many(one.X, one.y, asked, seed).T)
    found: dict[float, Losses] = {epsilon: {} for epsilon in epsilons}
    for (epsilon, alpha), loss in zip(asked, losses, strict=True):
        found[epsilon][f"alpha {alpha:g}"] = float(loss)
    return found
