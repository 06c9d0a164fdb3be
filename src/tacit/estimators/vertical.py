"""Estimators for features split between parties."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, column_or_1d

from tacit.columns.raw import RawEncoder
from tacit.columns.table import ArrowTable
from tacit.errors import InputError
from tacit.estimators.base import (
    ColumnLayout,
    LinearClassifierMixin,
    LinearRegressorMixin,
    RowExtras,
    checked_offset,
    checked_table,
    checked_weights,
    column_names,
    different_names,
    in_order,
    is_block_list,
    layout_of_blocks,
    layout_of_table,
    names_of,
    nbytes_of,
    own_tables,
    real_labels,
    shards_of_blocks,
    shards_of_table,
    tables_of_blocks,
    tables_of_one,
    unchanged_on_failure,
)
from tacit.estimators.coded import CURVES, OwnTreesAsked, ask_trees, with_trees
from tacit.estimators.encoding import (
    ColumnWishes,
    EncodedTables,
    Encodings,
    PartyCoefficients,
    Setting,
    check_has_curves,
    column_curves,
    encode_columns,
    encoded_again,
    row_norms,
)
from tacit.estimators.fitted import FittedModel, fitted_run
from tacit.plan import FeatureSplit, Plan, TrainingRequest, make_plan
from tacit.privacy.request import Privacy
from tacit.problem.losses import Loss
from tacit.problem.losses.base import RowLoss, with_rows
from tacit.problem.regularizers import Regularizer
from tacit.run.prepare import with_encoding
from tacit.run.progress import progress
from tacit.run.result import Result, TrainedOn, TreePart, joint_scores
from tacit.run.search import settle_dispersion
from tacit.run.star import Run, Start
from tacit.types import Shard, Vector

ENGINES = ("in-process",)


@dataclass(frozen=True, eq=False)
class PreparedParties:
    """What is trained on: the parties' shards and the labels, with a plan; and how columns were encoded."""

    plan: Plan
    shards: list[Shard]
    labels: Vector
    layout: ColumnLayout
    encodings: Encodings
    own_trees: OwnTreesAsked | None = None

    def joint(self, coefs: Sequence[Vector]) -> Vector:
        """The coefficients of all parties: in the order of X's columns, or party after party if encoded."""
        joint = np.concatenate(coefs, axis=-1)
        if not self.encodings.by_party:
            joint[..., np.concatenate(self.layout.columns)] = np.concatenate(coefs, axis=-1)
        return joint


def _rows(table: ArrowTable | Shard) -> int:
    return table.n_rows if isinstance(table, ArrowTable) else int(table.features.shape[0])


class _Vertical(EncodedTables, FittedModel):
    """What the classifier and the regressor share."""

    _tasks: tuple[str, ...] = ()
    own_part = CURVES  # of those that search alpha, which is done without privacy

    def __init__(
        self,
        loss: Any = "logistic",
        penalty: str | Regularizer | None = "l2",
        alpha: float = 1e-4,
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
        warm_start: bool = False,
        secure_aggregation: bool = False,
        terms: str = "linear",
        ranges: Any = None,
        categories: Any = None,
        own_part: str = CURVES,
        class_weight: Any = None,
        costs: Any = None,
    ) -> None:
        self.loss = loss
        self.penalty = penalty
        self.alpha = alpha
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
        self.warm_start = warm_start
        self.secure_aggregation = secure_aggregation
        self.terms = terms
        self.ranges = ranges
        self.categories = categories
        self.own_part = own_part
        self.class_weight = class_weight
        self.costs = costs

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.terms == "linear" and not self.ranges and not self.categories
        return tags

    # --- fitting --------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None, exposure: Any = None) -> Self:
        """Train; a fit that fails leaves the estimator as it was.

        Parameters
        ----------
        X : array, sparse matrix or frame (pandas, polars, Arrow); or one of these per party, in a list, by name, as in
            {"bank": A, "shop": B}, or in PartyTables; the first party holds the labels
        y : array of labels: classes for a classifier, numbers for a regressor
        sample_weight : array or None
        offset : array or None
            Added to the score of each row, with no coefficient; the label holder alone knows it.
        exposure : array or None
            How long or how much each row was observed, above 0; its logarithm is an offset. For "poisson",
            "negative_binomial", "gamma" and "tweedie".
        """
        with unchanged_on_failure(self):
            result = self._fit(X, y, RowExtras(sample_weight, offset, exposure))
            self._run = fitted_run(result, y)
            if not result.converged and result.plan.private is None:
                warnings.warn(_why_not(result), ConvergenceWarning, stacklevel=2)
        return self

    def _fit(self, X: Any, y: Any, extras: RowExtras) -> Result:
        prepared = self._prepare(X, y, extras, self.alpha, self.privacy, self._wishes(self.terms))
        estimated = prepared.plan.estimates_dispersion
        run = Run(prepared.plan, prepared.shards, prepared.labels)
        if self.warm_start and hasattr(self, "coef_by_party_"):
            run.start_from(self._last_model(prepared))
        result = self._go(run, prepared)
        if estimated:
            result = self._settle_dispersion(result, prepared)
        return result

    def _settle_dispersion(self, first: Result, prepared: PreparedParties) -> Result:
        """Fit the dispersion and the model in turn, each model from the last one."""

        def fit(plan: Plan, last: Result) -> Result:
            run = Run(plan, prepared.shards, prepared.labels)
            run.start_from(Start([part.coef for part in last.model.parts], last.model.intercept))
            return run.go()

        found = settle_dispersion(first, fit, prepared.shards, prepared.labels, prepared.plan.problem.row_weights)
        self._keep(found.result, prepared)
        self.dispersion_, self.n_rounds_, self.n_iter_ = found.dispersion, found.rounds, found.rounds
        return found.result

    def _wishes(self, terms: str) -> ColumnWishes:
        return ColumnWishes(terms, self.ranges, self.categories)

    def _prepare(
        self, X: Any, y: Any, extras: RowExtras, alpha: float, privacy: Any, wishes: ColumnWishes
    ) -> PreparedParties:
        """Check what was handed over, encode what is to be encoded, and plan."""
        tables, layout, labels = self._take_in(own_tables(X), y, wishes)
        encoded = self._encode(labels)
        rows = _rows(tables[0])
        if len(encoded) != rows:
            raise InputError(f"y has {len(encoded)} labels for {rows} rows: give one label for each row")
        loss, weights, encodings = self._loss_of(), checked_weights(extras.sample_weight, rows), Encodings()
        weights = self._with_class_weights(weights, encoded)
        shards = [table for table in tables if isinstance(table, Shard)]
        if len(shards) < len(tables):
            asked = privacy if isinstance(privacy, Privacy) else None
            setting = Setting(False, loss, asked, bool(self.secure_aggregation))
            encodings, shards = encode_columns(tables, wishes, setting, weights)
            privacy = encodings.privacy(asked, layout.party_names) if asked is not None else privacy
        trees = None
        if self.own_part != CURVES:
            trees = ask_trees(self.own_part, tables[0], loss, privacy if isinstance(privacy, Privacy) else None)
            shards[0] = with_trees(shards[0], trees, cast("ArrowTable", tables[0]), self.own_part)
        offset = checked_offset(extras.offset, extras.exposure, rows, loss)
        if offset is not None:
            loss, encoded = RowLoss(loss), with_rows(encoded, offset)
        plan = self._plan(shards, loss, weights, alpha, privacy, trees)
        plan.problem.loss.check_labels(encoded)
        return PreparedParties(plan, shards, encoded, layout, encodings, trees)

    def _go(self, run: Run, prepared: PreparedParties) -> Result:
        with progress(run.plan, visible=True) if self.verbose else nullcontext() as observe:
            result = run.go(observe)
        self._keep(result, prepared)
        return result

    def _last_model(self, prepared: PreparedParties) -> Start:
        """The coefficients of the last fit, regrouped where the columns are dealt to other parties now."""
        before, now = self._layout, prepared.layout
        if now.n_columns != before.n_columns:
            raise InputError(
                f"warm_start=True goes on with the columns of the last fit: X has {now.n_columns}, "
                f"it had {before.n_columns}; set warm_start=False"
            )
        several = prepared.plan.problem.loss.outputs
        if np.size(self.intercept_) != several:
            raise InputError(
                f"warm_start=True goes on with the classes of the last fit: y has {len(self.classes_)} now; "
                "set warm_start=False"
            )
        intercept = self.intercept_ if several > 1 else float(np.ravel(self.intercept_)[0])
        if not self.encoders_ and not prepared.encodings.by_party:
            return Start([self._joint[..., columns] for columns in now.columns], intercept)
        # Encoded columns may be others than before: those of the same name go on, the others start at 0.
        own = chain.from_iterable(coef.T for coef in self.coef_by_party_)
        old = zip(self._keys(before, self.coef_by_party_.columns), own, strict=True)
        known = dict(old)
        new = iter(self._keys(now, [shard.columns for shard in prepared.shards]))
        none = 0.0 * intercept
        return Start(
            [np.array([known.get(next(new), none) for _ in shard.columns]).T for shard in prepared.shards], intercept
        )

    @staticmethod
    def _keys(layout: ColumnLayout, columns: Sequence[Sequence[str]]) -> list[tuple[str, str]]:
        """What each coefficient belongs to: its column by name, and by party where names are not enough."""
        names = [name for own in layout.names for name in own]
        apart = len(set(names)) < len(names)
        parts = zip(layout.party_names, columns, strict=True)
        return [(party if apart else "", name) for party, own in parts for name in own]

    def _take_in(
        self, X: Any, y: Any, wishes: ColumnWishes
    ) -> tuple[Sequence[ArrowTable | Shard], ColumnLayout, npt.NDArray[Any]]:
        """Each party's table to encode, or its shard where it is used as it is; and the labels."""
        parties = names_of(X)
        X = X if parties is None else list(X.values())
        if isinstance(y, Mapping):
            raise InputError("y is a mapping: one party holds the labels, so give one array of them")
        if is_block_list(X):
            layout = layout_of_blocks(X, parties)
            self.n_features_in_ = layout.n_columns
            self.__dict__.pop("feature_names_in_", None)
            if layout.named:
                self.feature_names_in_ = np.array([name for names in layout.names for name in names], dtype=object)
            labels = column_or_1d(y, warn=True)
            asked = wishes.asks(X, layout.names, layout.party_names)
            return (tables_of_blocks if asked else shards_of_blocks)(X, layout), layout, labels
        names = different_names(X)
        asked = wishes.asks([X], [names or ()])
        X, labels = checked_table(self, X, y, as_it_is=asked and names is not None)
        layout = layout_of_table(names or column_names(X), self.parties, named=names is not None)
        return (tables_of_one if asked else shards_of_table)(X, layout), layout, column_or_1d(labels, warn=True)

    def _plan(
        self,
        shards: list[Shard],
        loss: Loss,
        weights: Vector | None,
        alpha: float,
        privacy: Any,
        trees: OwnTreesAsked | None,
    ) -> Plan:
        if self.engine == "flare":
            raise InputError(
                "engine='flare' is for jobs between organisations, whose data are not in one process: "
                "write a job and run tacit train JOB --kit KIT"
            )
        if self.engine not in ENGINES:
            raise InputError(f"engine={self.engine!r} is unknown: choose one of {', '.join(ENGINES)}")
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        request = TrainingRequest(
            loss=loss,
            penalty=self.penalty,
            alpha=alpha,
            fit_intercept=self.fit_intercept,
            tol=self.tol,
            method=self.method,
            rho=self.rho,
            max_rounds=self.max_rounds,
            privacy=privacy,
            seed=int(seed),
            secure_aggregation=self.secure_aggregation,
            trees=None if trees is None else trees.settings,
        )
        split = FeatureSplit(
            tuple(shard.name for shard in shards),
            rows=shards[0].features.shape[0],
            columns=tuple(shard.features.shape[1] for shard in shards),
            input_bytes=sum(nbytes_of(shard.features) for shard in shards),
            row_weights=weights,
        )
        return make_plan(request, split)

    def _keep(self, result: Result, prepared: PreparedParties) -> None:
        self._layout, self._encodings = prepared.layout, prepared.encodings
        self._parts = None if all(party.is_linear for party in result.model.parts) else result.model.parts
        self._constant = result.model.constant
        own = result.model.parts[0]
        self.own_trees_ = own if isinstance(own, TreePart) else None
        self._own_trees = None if self.own_trees_ is None else prepared.own_trees
        columns = [() if party is self.own_trees_ else party.columns for party in result.model.parts]
        coefs = [party.linear_coef for party in result.model.parts]
        classes = getattr(self, "classes_", ())
        self.coef_by_party_ = PartyCoefficients(coefs, self._layout.party_names, columns, classes)
        self._joint = prepared.joint(coefs)
        self.n_rounds_ = len(result.trace)
        self.n_iter_ = self.n_rounds_
        self.converged_ = result.converged
        self.trace_ = result.trace
        self.certificate_ = result.certificate
        if prepared.encodings.by_party:
            self.certificate_ = with_encoding(
                result.certificate, prepared.encodings.by_party, shared=False, by="ranges and categories state"
            )
        self.traffic_ = result.traffic
        self.outlook_ = result.outlook
        privacy = None if result.plan.private is None else result.plan.private.privacy
        self._norms = row_norms(privacy, self._layout.party_names, rows_are_split=False)
        self._trained_on = TrainedOn.of_parties(result.plan, prepared.shards, prepared.labels, self.encoders_)
        self._set_model(result)

    def _fitted(self) -> tuple[Sequence[Vector], float]:
        return self.coef_by_party_, float(np.ravel(self.intercept_)[0])

    def _joint_coef(self, result: Result) -> Vector:
        return self._joint

    def _encode(self, labels: npt.NDArray[Any]) -> Vector:
        raise NotImplementedError

    def _loss_of(self) -> Loss:
        raise NotImplementedError

    def _with_class_weights(self, weights: Vector | None, encoded: Vector) -> Vector | None:
        raise NotImplementedError

    def _set_model(self, result: Result) -> None:
        raise NotImplementedError

    # --- predicting -----------------------------------------------------------------------------------

    def _scores(self, X: Any) -> Vector:
        check_is_fitted(self, "coef_by_party_")
        shards = self._new_shards(X)
        if self._parts is not None:
            return joint_scores(self._parts, self._constant, shards)
        constant = self.intercept_ if self._joint.ndim > 1 else float(np.ravel(self.intercept_)[0])
        scores = np.full((shards[0].features.shape[0], *np.shape(constant)), constant)
        for shard, coef in zip(shards, self.coef_by_party_, strict=True):
            scores += np.asarray(shard.features @ coef.T)
        return scores

    def _new_shards(self, X: Any) -> list[Shard]:
        """New rows, encoded as those of the fit."""
        X = own_tables(X)
        X = in_order(X, self._layout.party_names) if names_of(X) else X
        blocks = is_block_list(X)
        if not blocks:
            X = checked_table(self, X, as_it_is=bool(self.encoders_) and different_names(X) is not None)
        if not self.encoders_:
            return shards_of_blocks(X, self._layout) if blocks else shards_of_table(X, self._layout)
        tables = tables_of_blocks(X, self._layout) if blocks else tables_of_one(X, self._layout)
        shards = [encoded_again(table, self.encoders_) for table in tables]
        if self._own_trees is not None:
            shards[0] = self._own_trees.shard(cast("ArrowTable", tables[0]))
        return shards

    def _tree_encoder(self, party: str) -> RawEncoder:
        assert self._own_trees is not None
        return self._own_trees.encoder

    def curves(self) -> dict[str, dict[str, tuple[Any, Vector]]]:
        """By party and column what a cell adds to the score: (cells, values), against the average row.

        The cells of a number go from its least to its largest (or from low to high), those of text are its categories.
        Where a party's rows are protected, values are against the mean of the curve instead. A private model clips long
        rows; these are the curves of rows that are not clipped.

        Raises
        ------
        InputError
            Where columns were not encoded: then the model is linear in them as they are.
        """
        check_is_fitted(self, "coef_by_party_")
        check_has_curves(self.encoders_)
        return {
            name: column_curves(encoder, self.coef_by_party_[name], self._encodings.means.get(name))
            for name, encoder in self.encoders_.items()
            if self._own_trees is None or name != self._layout.party_names[0]
        }


class VerticalClassifier(LinearClassifierMixin, _Vertical):
    """Joint linear classifier of parties that hold different features of the same rows.

    Minimises  (1/N) * sum(loss) + alpha * R(coef)  by ADMM sharing, the intercept not penalised.

    Parameters
    ----------
    loss : str or Loss, default "logistic"
        "logistic" (softmax where there are more than two classes), "hinge", "squared_hinge" or "sigmoid" (smooth, not
        convex), which are for two classes.
    penalty : str, Regularizer or None, default "l2"
        "l2" (1/2 ||coef||^2), "l1", "elastic_net", "group_lasso" (of the encoded columns of each column),
        "nonnegative", "box", "ball" (of each party's coefficients), "none".
    alpha : float, default 1e-4
        Weight of the penalty; without meaning for the constraints "nonnegative", "box" and "ball".
    parties : int, list of sizes, or list of column lists, default 2
        How one X is cut; not used where X is a list with one table per party.
    fit_intercept : bool, default True
        Whether the model has a constant, which no penalty holds down.
    method : str, default "auto"
        "auto" takes "memory" where the loss is smooth and convex and the penalty l2 or none. Else it takes
        "multipliers" for convex losses with kinks ("hinge", "absolute") and, from ten parties on, for every convex
        loss, unless a party has more columns than rows or more than 2000. Else it takes "averaged", which fits all.
        "published" is the paper's own iteration, with a guard; "sgd" is a baseline. Leave it out with privacy, whose
        mechanisms have methods of their own (only randomized labels alone do not).
    rho : float or "auto", default "auto"
        Penalty parameter of "averaged" and "published", and the first one of "multipliers"; "auto" chooses and
        adapts it.
    max_rounds : int, default 200
        Most exchanges of one number per row. With privacy by mechanism "gram" there are one or two, always.
    tol : float, default 1e-4
        Stops when the objective is certified to be within this part of its optimum.
    privacy : Privacy or None, default None
        What the whole run must guarantee, see `Privacy`; the first party holds the labels. None trains without noise,
        and the certificate says so.
    engine : {"in-process"}
    random_state : int, RandomState or None
        For methods that draw rows at random; never for private noise.
    verbose : int, default 0
        1 shows a progress bar in a terminal.
    warm_start : bool, default False
        Start from the coefficients of the last fit.
    secure_aggregation : bool, default False
        Send every party's numbers under masks that cancel in the sum over all parties, so that the coordinator sees
        only sums. Needs at least three parties. It is no differential privacy; the certificate says what it hides.
    terms : {"linear", "spline"}, default "linear"
        What numbers add to the score: a line each, or a smooth curve each. With "spline" an alpha of 1e-4 fits most
        sets; `VerticalClassifierCV` chooses between both.
    ranges : mapping of column to (low, high), or None, default None
        Public ranges of numbers or dates: cells beyond them count as their ends. Curves of protected rows need them.
        Columns of arrays are x0, x1, ... or numbers; names may hold wildcards ("BILL*"). (low, high, "repeats") for a
        protected number whose exact values come again and again, as fees and limits do.
    categories : mapping of column to list, or None, default None
        Public lists of categories, every other one counts as "other". Text of protected rows needs them. Numbers in
        listed columns are categories, too.
    own_part : {"curves", "trees", "auto"}, default "curves"
        With privacy and protect="others": what the label holder's own part of the model is made of; it needs no noise.
        "trees" grows boosted trees on its columns (`pip install "tacit[trees]"`); "auto" takes them where
        their out-of-fold loss on its own rows, by the labels that are sent, is lower by more than a standard error.
        Columns must be encoded (`terms="spline"`).
    class_weight : "balanced", dict or None, default None
        Weight of each class, times `sample_weight`; "balanced" lets every class weigh the same.
    costs : dict or None, default None
        What a wrong answer costs, such as {"false_positive": 1, "false_negative": 5}: `predict` then takes the second
        class where its probability is above false_positive / (false_positive + false_negative), here 1/6.

    Notes
    -----
    An array or a frame of numbers is used as it is where terms="linear" and neither ranges nor categories are given.
    Anything else is encoded as in a job: frames with text, categories, dates (as days) and blanks among it. Numbers are
    then brought to mean 0 and deviation 1, or their range to -1 .. 1. In new rows an unknown category counts as
    "other", a blank where training had none as the mean or as "other".

    Attributes
    ----------
    coef_ : array of shape (1, n_features), or (n_classes, n_features) for more than two classes
        Joint coefficients, in the order of X's columns, or of the encoded columns, party after party. A private model
        clips rows as it did in training; these are its coefficients for rows that are not clipped.
    intercept_ : array of shape (1,), or (n_classes,)
    coef_by_party_ : PartyCoefficients
        Each party's own coefficients: a list, also by name, as in `coef_by_party_["bank"]`; `.columns` names the
        columns, `.to_frame()` makes a table.
    encoders_ : dict of str to Encoder
        How the columns of each party were encoded; empty where they were not.
    row_norms_ : dict of str to float
        With privacy, by protected party: the largest norm of an (encoded) row, the root of its number of columns where
        these are curves and `Privacy(row_norm=...)` says nothing else.
    n_rounds_, converged_, trace_, certificate_, traffic_
        How the run went: rounds, whether the stopping rule held, one record per round, the privacy certificate, bytes.
    own_trees_ : TreePart or None
        The label holder's part where it is trees; its coefficients are then none.
    outlook_ : tuple of str
        In a private run: whether the collaboration is worth it at this much privacy, in plain sentences.
    classes_ : array of the labels, sorted; of two the second is the positive one.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from tacit import VerticalClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = VerticalClassifier(parties=[10, 20], alpha=1e-3).fit(scale(X), y)
    >>> bool(model.score(scale(X), y) > 0.97)
    True
    """

    _tasks = ("classification",)


class VerticalRegressor(LinearRegressorMixin, _Vertical):
    """Joint linear regression of parties that hold different features of the same rows.

    Minimises  (1/N) * sum(loss) + alpha * R(coef)  by ADMM sharing, the intercept not penalised.

    Parameters
    ----------
    loss : str or Loss, default "squared"
        "squared" (1/2 (prediction - y)^2), "huber", "absolute" or "quantile"; with log link, so that exp of the score
        is predicted: "poisson" and "negative_binomial" (counts), "gamma" (positive amounts) and "tweedie" (amounts,
        some of them 0). The last four are half the deviance, as in scikit-learn.
    penalty, alpha, parties, fit_intercept, method, rho, max_rounds, tol, privacy, engine, random_state, verbose, \
warm_start, secure_aggregation, terms, ranges, categories, own_part
        As in VerticalClassifier.
    quantile : float or None
        Of loss "quantile": the share of labels that is to lie below the prediction; None is 0.5.
    power : float or None
        Of loss "tweedie": variance grows as mean^power, above 1 and below 2; None is 1.5.
    dispersion : float or None
        Of loss "negative_binomial": the variance is mean + dispersion mean^2. None estimates it, by maximum likelihood:
        the model and the dispersion are fitted in turn until neither changes.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
    intercept_ : float
    dispersion_ : float
        Where it was estimated.
    coef_by_party_, encoders_, n_rounds_, converged_, trace_, certificate_, traffic_, outlook_
        As in VerticalClassifier.
    """

    _tasks = ("regression", "counts")

    def __init__(
        self,
        loss: Any = "squared",
        penalty: str | Regularizer | None = "l2",
        alpha: float = 1e-4,
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
        warm_start: bool = False,
        secure_aggregation: bool = False,
        terms: str = "linear",
        ranges: Any = None,
        categories: Any = None,
        own_part: str = CURVES,
        quantile: float | None = None,
        power: float | None = None,
        dispersion: float | None = None,
    ) -> None:
        super().__init__(
            loss, penalty, alpha, parties, fit_intercept, method, rho, max_rounds, tol, privacy, engine,
            random_state, verbose, warm_start, secure_aggregation, terms, ranges, categories, own_part,
        )  # fmt: skip
        self.quantile = quantile
        self.power = power
        self.dispersion = dispersion

    def _set_model(self, result: Result) -> None:
        self.coef_ = self._joint
        self.intercept_ = result.model.intercept

    def _encode(self, labels: npt.NDArray[Any]) -> Vector:
        return real_labels(labels, "VerticalClassifier")


def _why_not(result: Result) -> str:
    if result.note:
        return result.note
    return (
        f"not converged to tol={result.plan.problem.tol:g} in {len(result.trace)} rounds: raise max_rounds or tol, "
        "or scale the columns to similar size"
    )
