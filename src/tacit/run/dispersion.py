"""The dispersion of a negative binomial model that is estimated: the model and the dispersion are fitted in turn.

Each step is the best for the other's last value, so that the likelihood never falls, and it ends where neither moves:
at the maximum of both. Who holds labels and scores fits the dispersion; for the others it is a number of the loss.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from tacit.errors import InputError
from tacit.plan import Plan
from tacit.problem.losses import NegativeBinomial
from tacit.problem.losses.families import LEAST_DISPERSION, MOST_DISPERSION, fit_dispersion
from tacit.problem.losses.rows import ROW, RowLoss, bare_labels
from tacit.run.result import Result
from tacit.types import Shard, Vector

MOST_TURNS = 50
SETTLED = 1e-9  # of the dispersion

Fit = Callable[[Plan, Result], Result]


@dataclass(frozen=True)
class SettledDispersion:
    """The dispersion, the last fit, which used it, and the rounds of all fits."""

    dispersion: float
    result: Result
    rounds: int


def with_dispersion(plan: Plan, dispersion: float) -> Plan:
    """The plan with a loss of this dispersion."""
    loss, made = plan.problem.loss, NegativeBinomial(dispersion)
    seen = RowLoss(made, weighted=loss.weighted) if isinstance(loss, RowLoss) else made
    return replace(plan, problem=replace(plan.problem, loss=seen))


def settle_dispersion(
    first: Result, fit: Fit, shards: Sequence[Shard], labels: Any, weights: Vector | None = None
) -> SettledDispersion:
    """Fit in turn until the dispersion does not change.

    Parameters
    ----------
    first : Result
        Of a fit with any dispersion.
    fit : callable
        (plan, last result) -> result.
    shards : sequence of Shard
        All rows: what the scores are made of, in the order of the labels.
    labels : array
        As they are trained on.
    weights : array, optional
        Of each row, beside those that the labels carry.

    Raises
    ------
    InputError
        In a run with privacy: how often it is fitted depends on the rows.
    """
    if first.plan.private is not None:
        raise InputError("privacy does not fit a dispersion that is estimated: give dispersion")
    result, before, rounds = first, np.inf, len(first.trace)
    for _ in range(MOST_TURNS):
        now = _fitted(result, shards, labels, weights)
        if abs(now - before) <= SETTLED * now:
            break
        result, before = fit(with_dispersion(first.plan, now), result), now
        rounds += len(result.trace)
    else:
        warnings.warn(f"the dispersion still changed after {MOST_TURNS} fits", ConvergenceWarning, stacklevel=4)
    if not LEAST_DISPERSION < now < MOST_DISPERSION:
        found = (
            "vary no more than Poisson counts: use loss='poisson'" if now < 1 else "vary without bound: give dispersion"
        )
        warnings.warn(
            f"dispersion={now:g} is at the end of its range: the counts {found}", ConvergenceWarning, stacklevel=4
        )
    return SettledDispersion(now, result, rounds)


def _fitted(result: Result, shards: Sequence[Shard], labels: Any, weights: Vector | None) -> float:
    if result.model.mean is None:
        scores = result.model.scores(shards)
    else:
        scores = np.concatenate([result.model.scores([shard]) for shard in shards])
    both = weights
    if labels.dtype == ROW:
        scores, both = scores + labels["offset"], labels["weight"] * (1.0 if weights is None else weights)
    with np.errstate(over="ignore"):
        return fit_dispersion(bare_labels(labels), np.exp(np.minimum(scores, 700.0)), both)
