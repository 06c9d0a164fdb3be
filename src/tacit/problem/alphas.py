"""Which alphas to try, and which of them to take, from the losses of rows that were left out."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from tacit.errors import InputError
from tacit.problem.regularizers import Regularizer
from tacit.types import Vector

RULES = ("best", "one-standard-error")
LARGEST, LEAST = 1.0, 1e-4  # of the grid where only its length is given ...
LEAST_WEIGHT = 0.01  # ... or alpha times rows, where that is less: a prior sd of 10 for each coefficient, hardly a pull
LEAST_EVER = 1e-12
MOST_ALPHAS = 1000
CURVE_ALPHAS = (1.0, 0.316, 0.1, 0.0316, 0.01, 0.00316, 0.001, 0.000316, 0.0001, 0.0000316, 0.00001)  # with curves


def alpha_grid(alphas: Any, total: float) -> tuple[float, ...]:
    """The alphas to try, from the largest.

    Parameters
    ----------
    alphas : list of float, or int
        Numbers above 0; or how many, at even ratios from 1 to 1e-4 or, where that is less, 0.01 / total.
    total : float
        Rows, or the sum of their weights.

    Raises
    ------
    InputError
        For what is neither.
    """
    if isinstance(alphas, int | np.integer) and not isinstance(alphas, bool):
        if not 2 <= alphas <= MOST_ALPHAS:
            raise InputError(f"alphas={alphas} is not allowed: give a number from 2 to {MOST_ALPHAS}, or a list")
        least = max(min(LEAST, LEAST_WEIGHT / total), LEAST_EVER)
        return tuple(float(value) for value in np.geomspace(LARGEST, least, int(alphas)))
    if isinstance(alphas, str) or np.ndim(alphas) != 1 or not 1 <= np.size(alphas) <= MOST_ALPHAS:
        raise InputError(f"alphas={alphas!r} is not allowed: give how many to try, or a list of numbers above 0")
    for value in alphas:
        real = isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)
        if not real or not math.isfinite(value) or value <= 0:
            raise InputError(f"alphas holds {value!r}: every alpha must be a number above 0")
    return tuple(sorted({float(value) for value in alphas}, reverse=True))


def check_rule(rule: Any) -> None:
    """Refuse an unknown rule."""
    if rule not in RULES:
        raise InputError(f"rule={rule!r} is unknown: choose one of {', '.join(RULES)}")


def has_alpha(regularizer: Regularizer) -> bool:
    """Whether the weight of a penalty changes anything: it does not where there is none, or a constraint."""
    return bool(regularizer.l1 or regularizer.l2)


def check_has_alpha(regularizer: Regularizer) -> None:
    """Refuse a penalty whose weight changes nothing."""
    if not has_alpha(regularizer):
        raise InputError(f"penalty={regularizer.name!r} has no alpha to choose: use l2, l1 or elastic_net")


def mean_losses(losses: Vector, sizes: Vector) -> Vector:
    """Mean loss of all rows that were left out, for each alpha; infinite where it is not a number."""
    held = sizes > 0
    means = losses[:, held] @ sizes[held] / sizes[held].sum()
    return np.where(np.isnan(means), np.inf, means)


def choose(losses: Vector, sizes: Vector, rule: str) -> int:
    """Index of the alpha to take; alphas fall, and of equal losses the larger alpha wins.

    Parameters
    ----------
    losses : array of shape (alphas, folds)
        Mean loss of the rows left out.
    sizes : array of shape (folds,)
        Their weight.
    rule : str
        "best": least mean loss. "one-standard-error": the largest alpha whose mean loss exceeds it by at most one
        standard error of the folds' losses there.
    """
    means = mean_losses(losses, sizes)
    best = int(np.argmin(means))
    held = losses[best, sizes > 0]
    if rule == "best" or held.size < 2 or not math.isfinite(means[best]):
        return best
    bar = means[best] + float(np.std(held, ddof=1)) / math.sqrt(held.size)
    return int(np.flatnonzero(means <= bar)[0])


def curve_gain(linear_losses: Vector, curve_losses: Vector, sizes: Vector) -> tuple[float, float]:
    """By how much the mean loss of curves is lower than that of lines, and the standard error of it over the folds.

    Parameters
    ----------
    linear_losses, curve_losses : array of shape (folds,)
        Mean loss of the rows that each fold leaves out, each code at the alpha taken for it, on the same folds.
    sizes : array of shape (folds,)
        Their weight.

    Returns
    -------
    (float, float)
        Infinite and 0 where only curves have a finite loss, minus infinity and 0 where they have none; the error is
        infinite where there are fewer than two folds.
    """
    held = np.asarray(sizes) > 0
    lines, curves = (np.asarray(losses, dtype=np.float64)[held] for losses in (linear_losses, curve_losses))
    if not np.isfinite(curves).all():
        return -math.inf, 0.0
    shares = np.asarray(sizes, dtype=np.float64)[held] / np.sum(sizes)
    if len(shares) < 2:
        return float(shares @ (lines - curves)), math.inf
    if not np.isfinite(lines).all():
        return math.inf, 0.0
    gain = float(shares @ (lines - curves))
    return gain, math.sqrt(float(shares @ (lines - curves - gain) ** 2) / (len(shares) - 1))


def prefer_curves(linear_losses: Vector, curve_losses: Vector, sizes: Vector) -> bool:
    """Whether curves are better than lines by more than chance: by over one standard error of the folds' differences.

    Parameters
    ----------
    linear_losses, curve_losses, sizes : array of shape (folds,)
        See `curve_gain`.
    """
    gain, error = curve_gain(linear_losses, curve_losses, sizes)
    return gain > error


def edge_remark(alphas: Sequence[float], alpha: float) -> str:
    """A remark where the alpha taken is the first or the last that was tried; empty otherwise."""
    if len(alphas) < 3 or alpha not in (alphas[0], alphas[-1]):
        return ""
    which, beyond = ("largest", "larger") if alpha == alphas[0] else ("least", "smaller")
    return f"alpha = {alpha:.3g} is the {which} that was tried: try {beyond} ones too"
