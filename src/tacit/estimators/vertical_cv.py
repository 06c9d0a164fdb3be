"""Estimators for features split between parties that choose alpha themselves, by cross-validation."""

from __future__ import annotations

import numbers
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import check_cv

from tacit.data.holdout import Splits, deal_folds
from tacit.errors import InputError
from tacit.estimators.vertical import VerticalClassifier, VerticalRegressor, _Vertical
from tacit.plan import Plan
from tacit.problem.alphas import alpha_grid, check_rule
from tacit.problem.regularizers import Regularizer
from tacit.run.result import Result
from tacit.run.search import AlphaSearch, check_not_private, search_alpha
from tacit.run.star import Run
from tacit.text import one_line
from tacit.types import Vector


class _Search(_Vertical):
    """What both add to a fit at one alpha: the search before it."""

    def __init__(
        self,
        loss: Any = "logistic",
        penalty: str | Regularizer | None = "l2",
        alphas: Any = 10,
        cv: Any = 5,
        rule: str = "best",
        parties: Any = 2,
        fit_intercept: bool = True,
        method: str = "auto",
        rho: float | str = "auto",
        max_rounds: int = 200,
        tol: float = 1e-4,
        privacy: Any = None,
        engine: str = "in-process",
        random_state: Any = None,
        verbose: int = 0,
        secure_aggregation: bool = False,
        terms: str = "linear",
        ranges: Any = None,
        categories: Any = None,
    ) -> None:
        self.loss = loss
        self.penalty = penalty
        self.alphas = alphas
        self.cv = cv
        self.rule = rule
        self.parties = parties
        self.fit_intercept = fit_intercept
        self.method = method
        self.rho = rho
        self.max_rounds = max_rounds
        self.tol = tol
        self.privacy = privacy
        self.engine = engine
        self.random_state = random_state
        self.verbose = verbose
        self.secure_aggregation = secure_aggregation
        self.terms = terms
        self.ranges = ranges
        self.categories = categories

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Result:
        check_not_private(self.privacy)
        check_rule(self.rule)
        prepared = self._prepare(X, y, sample_weight, 1.0, None, self._wishes(self.terms))
        plan, labels = prepared.plan, prepared.labels
        alphas = alpha_grid(self.alphas, plan.problem.total)
        found = search_alpha(plan, prepared.shards, labels, alphas, self._splits(plan, labels), self.rule)
        if found.unfinished:
            warnings.warn(_why_unfinished(found, plan), ConvergenceWarning, stacklevel=3)
        last = replace(plan, problem=replace(plan.problem, alpha=found.alpha))
        result = self._go(Run(last, prepared.shards, labels), prepared)
        self._keep_search(found)
        return result

    def _splits(self, plan: Plan, encoded: Vector) -> Splits:
        """Folds of the rows that weigh anything, dealt out by class; or those that scikit-learn's `cv` makes."""
        problem, kinds = plan.problem, encoded if plan.problem.loss.task == "classification" else None
        if isinstance(self.cv, numbers.Integral):
            weights = problem.row_weights
            rows = np.arange(problem.rows) if weights is None else np.flatnonzero(weights)
            dealt = deal_folds(self.cv, len(rows), problem.seed, None if kinds is None else kinds[rows], name="cv")
            return [(rows[seen], rows[left_out]) for seen, left_out in dealt]
        if self.cv is None:
            raise InputError("cv=None is not allowed: give a number of folds, a splitter of scikit-learn, or splits")
        try:
            own = check_cv(self.cv).split(np.zeros((problem.rows, 1)), encoded)
            return [(np.arange(problem.rows)[seen], np.arange(problem.rows)[left_out]) for seen, left_out in own]
        except (IndexError, TypeError, ValueError) as error:
            raise InputError(f"cv does not split these {problem.rows} rows: {one_line(error)}") from error

    def _keep_search(self, found: AlphaSearch) -> None:
        self.search_ = found
        self.alpha_, self.alphas_ = found.alpha, np.array(found.alphas)
        self.loss_path_, self.rounds_path_ = found.losses, found.rounds_by_fit.astype(int)
        self.n_rounds_ += found.rounds
        self.n_iter_ = self.n_rounds_
        self.traffic_ = {key: count + found.traffic[key] for key, count in self.traffic_.items()}


class VerticalClassifierCV(_Search, VerticalClassifier):
    """`VerticalClassifier` that chooses alpha by cross-validation.

    Each fold follows the alphas from the largest to the least in one run, which keeps its metric and every past step,
    so that a further alpha takes a few rounds. Then all rows are fitted at the alpha taken: the model is that of
    `VerticalClassifier(alpha=model.alpha_)`, to the last bit. Not with privacy: every fit would be a release.

    Parameters
    ----------
    alphas : int or list of float, default 10
        What to try; a number stands for so many at even ratios, from 1 to 1e-4 or, where that is less, 0.01 / rows.
    cv : int, splitter or list of (train, test), default 5
        How many folds, dealt out at random with an even share of each class; or as in scikit-learn.
    rule : {"best", "one-standard-error"}, default "best"
        Take the alpha of least mean loss on rows left out; or the largest whose mean loss exceeds that by at most one
        standard error.
    privacy : None
        Anything else is refused.
    random_state : int, RandomState or None
        Deals out the folds too.
    loss, penalty, parties, fit_intercept, method, rho, max_rounds, tol, engine, verbose, secure_aggregation
        As in `VerticalClassifier`; `max_rounds` and `tol` of each fit. The penalty must be l2, l1 or elastic_net.

    Attributes
    ----------
    alpha_ : float
        The alpha taken.
    alphas_ : array of shape (n_alphas,)
        From the largest.
    loss_path_ : array of shape (n_alphas, n_folds)
        Mean loss of the rows left out; less is better.
    rounds_path_ : array of shape (n_alphas, n_folds)
    n_rounds_ : int
        Of the whole search and the last fit; messages of different folds travel together.
    traffic_ : dict
        Bytes of all fits.
    search_ : Found
        All of it, with a remark where the alpha taken is at the end of those tried.
    coef_, intercept_, coef_by_party_, classes_, converged_, trace_, certificate_, outlook_
        As in `VerticalClassifier`, of the last fit.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from tacit import VerticalClassifierCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = VerticalClassifierCV(parties=[10, 20], random_state=0).fit(scale(X), y)
    >>> bool(1e-3 < model.alpha_ < 1e-1)
    True
    """


class VerticalRegressorCV(_Search, VerticalRegressor):
    """`VerticalRegressor` that chooses alpha by cross-validation; parameters and attributes as `VerticalClassifierCV`.

    Parameters
    ----------
    loss : str or Loss, default "squared"
        As in `VerticalRegressor`.
    """

    def __init__(
        self,
        loss: Any = "squared",
        penalty: str | Regularizer | None = "l2",
        alphas: Any = 10,
        cv: Any = 5,
        rule: str = "best",
        parties: Any = 2,
        fit_intercept: bool = True,
        method: str = "auto",
        rho: float | str = "auto",
        max_rounds: int = 200,
        tol: float = 1e-4,
        privacy: Any = None,
        engine: str = "in-process",
        random_state: Any = None,
        verbose: int = 0,
        secure_aggregation: bool = False,
        terms: str = "linear",
        ranges: Any = None,
        categories: Any = None,
    ) -> None:
        super().__init__(
            loss, penalty, alphas, cv, rule, parties, fit_intercept, method, rho, max_rounds, tol, privacy, engine,
            random_state, verbose, secure_aggregation, terms, ranges, categories,
        )  # fmt: skip


def _why_unfinished(found: AlphaSearch, plan: Plan) -> str:
    return (
        f"{found.unfinished} of the {found.losses.size} fits of the search did not converge to "
        f"tol={plan.problem.tol:g}: raise max_rounds or tol, or scale the columns to similar size"
    )
