"""The search for alpha: each fold follows the falling alphas in one run, and the rows it leaves out judge them.

Where the job leaves it open whether numbers are lines or curves (terms = "auto"), both are searched, on the same folds.

Only the method "memory" can follow; with others each alpha is a run of its own.
A row that is left out has weight zero, so that no row is copied; where the method keeps the joint scores, those of the
rows left out come without a message. Folds wait for nothing of each other, so their messages travel together: the
search takes the rounds of its longest fold. Every byte of every fold is counted.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from tacit.columns.spec import LINEAR, SPLINE
from tacit.data.holdout import Splits, deal_folds
from tacit.data.labels import Labels
from tacit.errors import InputError, RunError
from tacit.job import SearchSpec
from tacit.plan import Plan
from tacit.problem.alphas import (
    CURVE_ALPHAS,
    alpha_grid,
    check_has_alpha,
    check_rule,
    choose,
    curve_gain,
    edge_remark,
    mean_losses,
)
from tacit.problem.losses import NegativeBinomial
from tacit.problem.losses.base import ROW, RowLoss, bare_labels
from tacit.problem.losses.families import LEAST_DISPERSION, MOST_DISPERSION, fit_dispersion
from tacit.run.result import Result
from tacit.run.star import Run
from tacit.types import Shard, Vector

Watch = Callable[[int, int], None]
MakeRun = Callable[[Plan], "FoldRun"]


class FoldRun(Protocol):
    """A run of one fold, wherever its parties are: a session of a star that goes on with another alpha."""

    coordinator: Any

    def go(self) -> Result:
        """Run to the end."""

    def retune(self, plan: Plan) -> None:
        """Go on from the end with the alpha of another plan."""


class KeptFolds(Protocol):
    """Where what folds found is kept, so that a search goes on after a crash."""

    def read_fold(self, number: int) -> dict[str, Any] | None:
        """What a fold found; None where it was not done."""

    def write_fold(self, number: int, record: dict[str, Any]) -> None:
        """Keep what a fold found."""


@dataclass(frozen=True, eq=False)
class AlphaSearch:
    """What a search found.

    Attributes
    ----------
    alpha : float
        The one that was taken.
    alphas : tuple of float
        All, from the largest.
    losses : array of shape (alphas, folds)
        Mean loss of the rows left out.
    sizes : array of shape (folds,)
        Their weight.
    rounds_by_fit : array of shape (alphas, folds)
    rounds : int
        Those of the longest fold: the folds' messages travel together.
    bytes_down, bytes_up : int
        Of all fits.
    unfinished : int
        Fits whose stopping rule did not come to hold.
    seconds : float
    rule : str
    """

    alpha: float
    alphas: tuple[float, ...]
    losses: Vector
    sizes: Vector
    rounds_by_fit: Vector
    rounds: int
    bytes_down: int
    bytes_up: int
    unfinished: int
    seconds: float
    rule: str

    @property
    def mean_losses(self) -> Vector:
        """Mean loss over all rows left out, for each alpha."""
        return mean_losses(self.losses, self.sizes)

    @property
    def remark(self) -> str:
        """A remark on the grid where its end was taken; empty otherwise.

        Beyond the least of the alphas that are tried with curves nothing was gained in trials.
        """
        if self.alphas == CURVE_ALPHAS and self.alpha == CURVE_ALPHAS[-1]:
            return ""
        return edge_remark(self.alphas, self.alpha)

    @property
    def taken_losses(self) -> Vector:
        """Mean loss of the rows that each fold leaves out, at the alpha taken."""
        return np.asarray(self.losses[self.alphas.index(self.alpha)])

    @property
    def traffic(self) -> dict[str, int]:
        """Bytes of payload and rounds."""
        return {"bytes_down": self.bytes_down, "bytes_up": self.bytes_up, "rounds": self.rounds}

    def record(self) -> dict[str, Any]:
        """As plain values, for search.json; a loss that is not finite is None."""
        return {
            "alpha": self.alpha,
            "rule": self.rule,
            "folds": len(self.sizes),
            "alphas": list(self.alphas),
            "mean_losses": _plain(self.mean_losses),
            "losses": [_plain(row) for row in self.losses],
            "rounds_by_fit": self.rounds_by_fit.astype(int).tolist(),
            "unfinished": self.unfinished,
            "seconds": self.seconds,
            "traffic": self.traffic,
            "remark": self.remark,
        }


@dataclass(frozen=True, eq=False)
class TermsSearch:
    """What a search over two codes of the same columns found: curves only where they are better by more than chance.

    Attributes
    ----------
    linear, curve : AlphaSearch
        Of lines and of curves, on the same folds, each with its own alpha. `curve` is None where no column has a curve.
    """

    linear: AlphaSearch
    curve: AlphaSearch | None

    @property
    def gain(self) -> tuple[float, float]:
        """By how much the loss of curves is lower, and the standard error of that; see `curve_gain`."""
        if self.curve is None:
            return -math.inf, 0.0
        return curve_gain(self.linear.taken_losses, self.curve.taken_losses, self.linear.sizes)

    @property
    def terms(self) -> str:
        """What was taken, "linear" or "spline"."""
        gain, error = self.gain
        return SPLINE if gain > error else LINEAR

    @property
    def taken(self) -> AlphaSearch:
        """The search of the code that was taken."""
        return self.curve if self.curve is not None and self.terms == SPLINE else self.linear

    def record(self) -> dict[str, Any]:
        """That of the code that was taken, with what both cost together, one after the other; and both."""
        both = [search for search in (self.linear, self.curve) if search is not None]
        gain, error = (value if math.isfinite(value) else None for value in self.gain)
        return {
            **self.taken.record(),
            "unfinished": sum(search.unfinished for search in both),
            "seconds": sum(search.seconds for search in both),
            "traffic": {key: sum(search.traffic[key] for search in both) for key in self.linear.traffic},
            "terms": self.terms,
            "gain": {"mean": gain, "error": error},
            "linear": self.linear.record(),
            "curve": None if self.curve is None else self.curve.record(),
        }


def search_alpha(
    plan: Plan,
    shards: Sequence[Shard],
    labels: Vector,
    alphas: tuple[float, ...],
    splits: Splits,
    rule: str,
    watch: Watch | None = None,
    make: MakeRun | None = None,
    kept: KeptFolds | None = None,
) -> AlphaSearch:
    """Try every alpha on every fold and take one.

    Parameters
    ----------
    plan : Plan
        Of a fit to all rows, at any alpha.
    alphas : tuple of float
        From the largest, see `tacit.problem.alphas.alpha_grid`.
    splits : list of pairs
        Rows to train on and rows to test on, for each fold.
    rule : str
        One of `tacit.problem.alphas.RULES`.
    watch : callable or None
        Called after each fit with how many are done, and of how many.
    make : callable or None
        Begins the run of a fold, given its plan; None where all parties are in this process.
    kept : KeptFolds, optional
        Where folds that are done are kept: these are not made again.

    Raises
    ------
    InputError
        For a private plan, a penalty without alpha, an unknown rule, or a fold without rows of any weight.
    RunError
        Where no alpha has a finite loss.
    """
    check_not_private(plan.private)
    check_rule(rule)
    if len(alphas) > 1:
        check_has_alpha(plan.problem.regularizer)
    clock, fits = time.perf_counter(), len(alphas) * len(splits)
    losses, rounds = np.empty((len(alphas), len(splits))), np.empty((len(alphas), len(splits)))
    sizes, sent, unfinished = np.empty(len(splits)), np.zeros(2, dtype=np.int64), 0
    for k, (seen, left_out) in enumerate(splits):
        done = kept.read_fold(k) if kept else None
        if done is None:
            fold = _Fold(plan, shards, labels, seen, left_out, make)
            done = _tried(fold, alphas, watch and partial(_watched, watch, k * len(alphas), fits))
            if kept:
                kept.write_fold(k, done)
        losses[:, k], rounds[:, k], sizes[k] = done["losses"], done["rounds"], done["size"]
        sent += done["sent"]
        unfinished += done["unfinished"]
    if not sizes.any():
        raise InputError("the rows that the folds leave out have weight zero: give other folds, or leave weights out")
    taken = choose(losses, sizes, rule)
    if not np.isfinite(mean_losses(losses, sizes)[taken]):
        raise RunError("no alpha has a finite loss on rows left out: scale the columns, or try larger alphas")
    return AlphaSearch(
        alpha=alphas[taken],
        alphas=alphas,
        losses=losses,
        sizes=sizes,
        rounds_by_fit=rounds,
        rounds=int(rounds.sum(axis=0).max()),
        bytes_down=int(sent[0]),
        bytes_up=int(sent[1]),
        unfinished=unfinished,
        seconds=time.perf_counter() - clock,
        rule=rule,
    )


def _watched(watch: Watch, before: int, fits: int, done: int) -> None:
    watch(before + done, fits)


def _tried(fold: _Fold, alphas: Sequence[float], after: Callable[[int], None] | None) -> dict[str, Any]:
    """Every alpha on one fold, as plain values."""
    losses, rounds, sent, unfinished = [], [], np.zeros(2, dtype=np.int64), 0
    for i, alpha in enumerate(alphas):
        result = fold.fit(alpha)
        losses.append(fold.loss(result))
        rounds.append(len(result.trace) + fold.more_rounds)
        sent += [result.traffic["bytes_down"], result.traffic["bytes_up"] + fold.more_bytes]
        unfinished += not result.converged
        if after:
            after(i + 1)
    return {"size": fold.size, "losses": losses, "rounds": rounds, "sent": sent.tolist(), "unfinished": unfinished}


def search_job(
    plan: Plan,
    shards: Sequence[Shard],
    labels: Labels,
    spec: SearchSpec,
    watch: Watch | None = None,
    make: MakeRun | None = None,
    kept: KeptFolds | None = None,
) -> AlphaSearch:
    """The search that a job asks for: the same alphas and folds for every plan of the same rows and seed."""
    kinds = bare_labels(labels.values) if labels.classes else None
    splits = deal_folds(
        spec.folds_of(plan.problem.rows), plan.problem.rows, plan.problem.seed, kinds, name="search.folds"
    )
    alphas = alpha_grid(spec.alphas, plan.problem.total)
    return search_alpha(plan, shards, labels.values, alphas, splits, spec.rule, watch, make, kept)


def check_not_private(privacy: object) -> None:
    """Refuse a search that would release more than it pays for."""
    if privacy is not None:
        raise InputError(
            "a search for alpha does not fit privacy: every fit it tries is a release of its own, and so is the "
            "choice; give one alpha that these rows did not choose (from public rows, or the default)"
        )


class _Fold:
    """One fold: the same rows left out, at one alpha after the other."""

    def __init__(
        self, plan: Plan, shards: Sequence[Shard], labels: Vector, seen: Any, left_out: Any, make: MakeRun | None
    ) -> None:
        self.make: MakeRun = make or (lambda plan: Run(plan, shards, labels))
        whole = np.ones(len(labels)) if plan.problem.row_weights is None else plan.problem.row_weights
        self.weights = np.zeros(len(labels))
        self.weights[seen] = whole[seen]
        if not self.weights.any():
            raise InputError("a fold has no row of any weight to train on: give other folds, or leave weights out")
        self.plan, self.shards, self.labels = plan, shards, labels
        self.left_out, self.test_weights = left_out, whole[left_out]
        self.size = float(self.test_weights.sum())
        self.run: FoldRun | None = None
        self.supports_path = plan.solver.supports_path
        # other methods are asked for the scores of the rows left out
        self.more_rounds = 0 if self.supports_path else 1
        self.more_bytes = 0 if self.supports_path else 8 * len(shards) * len(left_out)

    def fit(self, alpha: float) -> Result:
        """Fit to the rows of the fold: from where the last alpha ended, or anew where the method cannot follow.

        A start from the last coefficients alone saves such a method no rounds, as measured: its multipliers are lost.
        """
        plan = self._plan(alpha)
        if self.run is not None and self.supports_path:
            self.run.retune(plan)
        else:
            self.run = self.make(plan)
        return self.run.go()

    def loss(self, result: Result) -> float:
        """Mean loss of the rows left out; NaN where they weigh nothing, infinite where the method gave up."""
        if result.note and not result.converged:
            return float("inf")
        assert self.run is not None
        if self.supports_path:
            scores = self.run.coordinator.side.scores
        else:
            scores = result.model.scores(self.shards)
        with np.errstate(over="ignore"):
            losses = result.plan.problem.loss.value(scores[self.left_out], self.labels[self.left_out])
        return float(self.test_weights @ losses) / self.size if self.size else float("nan")

    def _plan(self, alpha: float) -> Plan:
        return fold_plan(self.plan, alpha, self.weights)


def fold_plan(plan: Plan, alpha: float, weights: Vector) -> Plan:
    """The plan with another alpha, and rows that are left out by weights of 0; rho is in units of the total weight."""
    problem = plan.problem
    rho = None if problem.rho is None else problem.rho * float(weights.sum()) / problem.total
    return replace(plan, problem=replace(problem, alpha=alpha, row_weights=weights, rho=rho))


def with_alpha(plan: Plan, alpha: float) -> Plan:
    """The plan of a fit to all rows with the alpha that was taken."""
    return replace(plan, problem=replace(plan.problem, alpha=alpha))


def _plain(values: Vector) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]


# --- The dispersion of a negative binomial model that is estimated: the model and the dispersion are fitted in turn
#
# Each step is the best for the other's last value, so that the likelihood never falls, and it ends where neither moves:
# at the maximum of both. Who holds labels and scores fits the dispersion; for the others it is a number of the loss.


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
    """
    from sklearn.exceptions import ConvergenceWarning  # slow to import, for this alone

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
