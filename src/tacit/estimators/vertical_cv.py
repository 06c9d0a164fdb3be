"""Estimators for features split between parties that choose alpha themselves, by cross-validation."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import check_cv

from tacit.columns.spec import AUTO, LINEAR, SPLINE, TERMS
from tacit.data.holdout import Splits, deal_folds
from tacit.errors import InputError
from tacit.estimators.base import RowExtras, asked_loss
from tacit.estimators.encoding import ColumnWishes
from tacit.estimators.vertical import PreparedParties, VerticalClassifier, VerticalRegressor, _Vertical
from tacit.plan import Plan
from tacit.problem.alphas import CURVE_ALPHAS, alpha_grid, check_rule
from tacit.problem.losses.base import bare_labels
from tacit.problem.regularizers import Regularizer
from tacit.run.result import Result
from tacit.run.search import AlphaSearch, TermsSearch, check_not_private, search_alpha
from tacit.run.star import Run
from tacit.text import one_line
from tacit.types import Vector

LINE_ALPHAS = 10  # how many are tried for lines


class _Search(_Vertical):
    """What both add to a fit at one alpha: the search before it."""

    def __init__(
        self,
        loss: Any = "logistic",
        penalty: str | Regularizer | None = "l2",
        alphas: Any = "auto",
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
        class_weight: Any = None,
        costs: Any = None,
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
        self.class_weight = class_weight
        self.costs = costs

    def _fit(self, X: Any, y: Any, extras: RowExtras) -> Result:
        check_not_private(self.privacy)
        check_rule(self.rule)
        if asked_loss(self).leaves_open:
            raise InputError("a search for alpha needs the dispersion of loss='negative_binomial': give dispersion")
        if self.terms not in (*TERMS, AUTO):
            raise InputError(f"terms={self.terms!r} is unknown: choose one of {', '.join((*TERMS, AUTO))}")
        codes = TERMS if self.terms == AUTO else (self.terms,)
        tried = [self._prepare(X, y, extras, 1.0, None, self._wishes(terms)) for terms in codes]
        splits = self._splits(tried[0].plan, tried[0].labels)
        # Curves without any bend are lines: there is nothing to choose.
        first, *others = [self._searched(one, splits) for one in tried if one is tried[0] or one.encodings.have_bends]
        found = TermsSearch(first, others[0] if others else None) if self.terms == AUTO else first
        taken = found.taken if isinstance(found, TermsSearch) else found
        prepared = tried[0] if taken is first else tried[1]
        _warn_unfinished([first, *others], prepared.plan)
        last = replace(prepared.plan, problem=replace(prepared.plan.problem, alpha=taken.alpha))
        result = self._go(Run(last, prepared.shards, prepared.labels), prepared)
        self.search_, self._terms = found, codes[0] if taken is first else SPLINE
        self._keep_search(taken, [first, *others])
        return result

    @property
    def terms_(self) -> str:
        """What was taken: "linear" or "spline"."""
        return str(self._terms)

    def _wishes(self, terms: str) -> ColumnWishes:
        return ColumnWishes(terms, self.ranges, self.categories, always=self.terms == AUTO)

    def _searched(self, prepared: PreparedParties, splits: Splits) -> AlphaSearch:
        """Search alpha for one code of the columns."""
        plan = prepared.plan
        usual: Any = LINE_ALPHAS if self.terms == LINEAR else CURVE_ALPHAS
        asked = usual if isinstance(self.alphas, str) and self.alphas == AUTO else self.alphas
        grid = alpha_grid(asked, plan.problem.total)
        return search_alpha(plan, prepared.shards, prepared.labels, grid, splits, self.rule)

    def _splits(self, plan: Plan, encoded: Vector) -> Splits:
        """Folds of the rows that weigh anything, dealt out by class; or those that scikit-learn's `cv` makes."""
        encoded = bare_labels(encoded)
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

    def _keep_search(self, found: AlphaSearch, all_searches: Sequence[AlphaSearch]) -> None:
        self.alpha_, self.alphas_ = found.alpha, np.array(found.alphas)
        self.loss_path_, self.rounds_path_ = found.losses, found.rounds_by_fit.astype(int)
        self.n_rounds_ += sum(search.rounds for search in all_searches)
        self.n_iter_ = self.n_rounds_
        self.traffic_ = {
            key: count + sum(search.traffic[key] for search in all_searches) for key, count in self.traffic_.items()
        }


class VerticalClassifierCV(_Search, VerticalClassifier):
    """`VerticalClassifier` that chooses alpha by cross-validation.

    Each fold follows the alphas from the largest to the least in one run, which keeps its metric and every past step,
    so that a further alpha takes a few rounds. Then all rows are fitted at the alpha taken: the model is that of
    `VerticalClassifier(alpha=model.alpha_)`, to the last bit. Not with privacy: every fit would be a release.

    Parameters
    ----------
    alphas : "auto", int or list of float, default "auto"
        What to try; a number stands for so many at even ratios, from 1 to 1e-4 or, where that is less, 0.01 / rows.
        "auto" is 10, and 11 from 1 to 1e-5 where curves are tried.
    cv : int, splitter or list of (train, test), default 5
        How many folds, dealt out at random with an even share of each class; or as in scikit-learn.
    rule : {"best", "one-standard-error"}, default "best"
        Take the alpha of least mean loss on rows left out; or the largest whose mean loss exceeds that by at most one
        standard error.
    privacy : None
        Anything else is refused.
    random_state : int, RandomState or None
        Deals out the folds too.
    terms : {"linear", "spline", "auto"}, default "linear"
        As in `VerticalClassifier`; "auto" searches alpha for lines and for curves on the same folds, and takes curves
        where their loss is lower by more than one standard error of the folds' differences. Columns are encoded then,
        also for lines: numbers are brought to mean 0 and deviation 1. It takes the rounds of two searches.
    loss, penalty, parties, fit_intercept, method, rho, max_rounds, tol, engine, verbose, secure_aggregation, ranges, \
categories
        As in `VerticalClassifier`; `max_rounds` and `tol` of each fit. The penalty must be l2, l1 or elastic_net.

    Attributes
    ----------
    alpha_ : float
        The alpha taken.
    terms_ : {"linear", "spline"}
        What was taken.
    alphas_ : array of shape (n_alphas,)
        From the largest.
    loss_path_ : array of shape (n_alphas, n_folds)
        Mean loss of the rows left out; less is better.
    rounds_path_ : array of shape (n_alphas, n_folds)
    n_rounds_ : int
        Of all searches and the last fit; messages of different folds travel together.
    traffic_ : dict
        Bytes of all fits.
    search_ : AlphaSearch, or TermsSearch with terms="auto"
        All of it, with a remark where the alpha taken is at the end of those tried; `search_.linear`, `search_.curve`
        and `search_.gain` with terms="auto".
    coef_, intercept_, coef_by_party_, encoders_, classes_, converged_, trace_, certificate_, outlook_
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
        alphas: Any = "auto",
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
        quantile: float | None = None,
        power: float | None = None,
        dispersion: float | None = None,
    ) -> None:
        super().__init__(
            loss, penalty, alphas, cv, rule, parties, fit_intercept, method, rho, max_rounds, tol, privacy, engine,
            random_state, verbose, secure_aggregation, terms, ranges, categories,
        )  # fmt: skip
        self.quantile = quantile
        self.power = power
        self.dispersion = dispersion


def _warn_unfinished(searches: Sequence[AlphaSearch], plan: Plan) -> None:
    unfinished, fits = sum(search.unfinished for search in searches), sum(search.losses.size for search in searches)
    if unfinished:
        warnings.warn(
            f"{unfinished} of the {fits} fits of the search did not converge to tol={plan.problem.tol:g}: "
            "raise max_rounds or tol, or scale the columns to similar size",
            ConvergenceWarning,
            stacklevel=4,
        )
