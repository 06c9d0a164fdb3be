"""Boosted trees for features split between parties."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from tacit.columns.raw import RawEncoder, RawTable
from tacit.columns.table import ArrowTable
from tacit.data.partition import take_columns
from tacit.errors import InputError
from tacit.estimators.base import (
    ColumnLayout,
    check_blocks,
    check_same_rows,
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
    unchanged_on_failure,
)
from tacit.estimators.baselines import columns_of
from tacit.estimators.coded import Codes, encode_protected, protected_tables, protects_rows
from tacit.estimators.encoding import as_table, categorical_columns, is_frame, monotone_columns
from tacit.estimators.fitted import FittedModel, fitted_run
from tacit.job import ModelSection
from tacit.job.trees import TREES, TreesSection
from tacit.mechanisms.base import USUAL_ROUNDS
from tacit.plan import FeatureSplit, Plan, TrainingRequest, make_plan
from tacit.plan.request import CODED_ALPHA, loss_beside_trees
from tacit.privacy.request import Privacy
from tacit.run.explain import Explanation, explain_rows
from tacit.run.folder import serving_loss
from tacit.run.predict import SEVERAL
from tacit.run.progress import progress
from tacit.run.result import Result, TreePart
from tacit.run.star import Run
from tacit.solvers.boosting import TreeSettings
from tacit.solvers.boosting.losses import TreeLoss, make_loss
from tacit.solvers.boosting.settings import LEAST_ROWS
from tacit.solvers.boosting.sides import BoostingHistory
from tacit.text import show
from tacit.types import Shard, Vector

FROM_DTYPE = "from_dtype"
LARGE = 2_000_000  # cells of a party from which several threads pay for its histograms


@dataclass(frozen=True, eq=False)
class PreparedTables:
    """What trees are trained on: each party's columns as they are, and how frames became numbers."""

    shards: list[Shard]
    layout: ColumnLayout
    encoders: dict[str, RawEncoder]
    tables: list[ArrowTable]  # of parties whose rows are protected: their columns become public codes


class _VerticalBoosting(FittedModel):
    """What the classifier and the regressor share."""

    def __init__(
        self,
        loss: str = "log_loss",
        parties: Any = 2,
        learning_rate: float = 0.08,
        max_rounds: int = 15,
        trees_per_round: Sequence[int] = (10, 20, 30),
        max_leaf_nodes: int = 15,
        max_depth: int | None = None,
        min_samples_leaf: int | None = None,
        l2_regularization: float = 5.0,
        max_bins: int = 255,
        categorical_features: Any = FROM_DTYPE,
        monotonic_cst: Any = None,
        early_stopping: bool = True,
        validation_fraction: float | None = 0.15,
        n_iter_no_change: int = 3,
        tol: float = 3e-4,
        min_gain_se: float = 0.0,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: Any = None,
        privacy: Any = None,
        ranges: Any = None,
        categories: Any = None,
        secure_aggregation: bool = False,
    ) -> None:
        self.loss = loss
        self.parties = parties
        self.learning_rate = learning_rate
        self.max_rounds = max_rounds
        self.trees_per_round = trees_per_round
        self.max_leaf_nodes = max_leaf_nodes
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.l2_regularization = l2_regularization
        self.max_bins = max_bins
        self.categorical_features = categorical_features
        self.monotonic_cst = monotonic_cst
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.min_gain_se = min_gain_se
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state
        self.privacy = privacy
        self.ranges = ranges
        self.categories = categories
        self.secure_aggregation = secure_aggregation

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    # --- fitting --------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train; a fit that fails leaves the estimator as it was.

        Parameters
        ----------
        X : array or frame (pandas, polars, Arrow), with NaN or nothing for blanks; or one of these per party, in a
            list, by name, as in {"bank": A, "shop": B}, or in PartyTables; the first party holds the labels
        y : array of labels
        sample_weight : array or None
        """
        with unchanged_on_failure(self):
            self._run = fitted_run(self._fit(own_tables(X), y, sample_weight), y)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Result:
        prepared, labels = self._take_in(X, y)
        rows = prepared.shards[0].features.shape[0]
        if len(labels) != rows:
            raise InputError(f"y has {len(labels)} labels for {rows} rows: give one label for each row")
        if rows < LEAST_ROWS:
            raise InputError(f"X has {rows} rows, {rows} sample(s): trees need at least {LEAST_ROWS}")
        encoded, loss = self._encode(labels)
        weights = checked_weights(sample_weight, rows)
        shards = prepared.shards
        if weights is not None and self.privacy is not None:
            raise InputError("sample_weight is not available with privacy: no bound is proven for weighted rows")
        if weights is not None and not weights.all():  # a row of weight 0 is no row
            kept = np.flatnonzero(weights)
            encoded, weights = encoded[kept], weights[kept]
            shards = [Shard(s.name, s.features.take(kept), s.columns) for s in shards]
        loss.check_labels(encoded)
        codes = Codes(privacy=self.privacy)
        if protects_rows(self.privacy):
            seen = loss_beside_trees(loss, self.privacy)
            wishes = self.ranges, self.categories
            codes, shards = encode_protected(shards[0], prepared.tables, wishes, seen, self.privacy)
        run = Run(self._plan(shards, loss, weights, codes.privacy), shards, encoded)
        with progress(run.plan, visible=True) if self.verbose else nullcontext() as observe:
            result = run.go(observe)
        self._keep(result, prepared, codes)
        return result

    def _take_in(self, X: Any, y: Any) -> tuple[PreparedTables, npt.NDArray[Any]]:
        """Each party's columns as trees take them, and the labels."""
        parties = names_of(X)
        X = X if parties is None else list(X.values())
        if isinstance(y, Mapping):
            raise InputError("y is a mapping: one party holds the labels, so give one array of them")
        if is_block_list(X):
            layout, blocks = layout_of_blocks(X, parties), list(X)
            self.n_features_in_ = layout.n_columns
            self.__dict__.pop("feature_names_in_", None)
            if layout.named:
                self.feature_names_in_ = np.array([name for names in layout.names for name in names], dtype=object)
        else:
            names = different_names(X)
            X, y = checked_table(self, X, y, as_it_is=names is not None)
            layout = layout_of_table(names or column_names(X), self.parties, named=names is not None)
            blocks = _cut(X, layout)
        check_blocks(blocks, layout)
        check_same_rows(blocks, layout.party_names)
        coded = protects_rows(self.privacy)
        tables = protected_tables(blocks, layout) if coded else []
        encoders = self._learn(blocks, layout, coded=coded)
        shards = self._shards(blocks, layout, encoders, coded=coded)
        return PreparedTables(shards, layout, encoders, tables), column_or_1d(y, warn=True)

    def _learn(self, blocks: Sequence[Any], layout: ColumnLayout, *, coded: bool) -> dict[str, RawEncoder]:
        """How frames, and arrays with categories, become numbers; other arrays are used as they are."""
        asked = self.categorical_features
        typed = isinstance(asked, str) and asked == FROM_DTYPE  # their types say which columns hold categories
        categorical = set() if typed else categorical_columns(asked, layout.joint)
        encoders = {}
        for name, block, columns in _open_parties(blocks, layout, coded=coded):
            own = None if typed else [column for column in columns if (name, column) in categorical]
            if is_frame(block) or own:
                encoders[name] = RawEncoder.learn(as_table(block, columns, name), own)
        return encoders

    def _shards(
        self, blocks: Sequence[Any], layout: ColumnLayout, encoders: Mapping[str, Any], *, coded: bool
    ) -> list[Shard]:
        found = monotone_columns(self.monotonic_cst, layout.joint)
        shards = []
        for name, block, columns in _open_parties(blocks, layout, coded=coded):
            monotone = tuple(found[name, column] for column in columns) if found else ()
            if name in encoders:
                table = encoders[name].table(as_table(block, columns, name), monotone)
            else:
                table = RawTable(name, columns, _numbers(block, name), (), monotone)
            shards.append(Shard(name, table, columns))
        return shards

    def _plan(self, shards: list[Shard], loss: TreeLoss, weights: Vector | None, privacy: Privacy | None) -> Plan:
        linear = protects_rows(privacy)  # the parts of protected parties are
        request = TrainingRequest(
            loss=loss.name,
            penalty="l2" if linear else "none",
            alpha=CODED_ALPHA if linear else 0.0,
            fit_intercept=linear,
            tol=self.tol,
            max_rounds=USUAL_ROUNDS if linear else self.max_rounds,
            privacy=privacy,
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
            secure_aggregation=self.secure_aggregation,
            trees=self._settings(shards, loss),
        )
        split = FeatureSplit(
            tuple(shard.name for shard in shards),
            rows=shards[0].features.n,
            columns=tuple(shard.features.shape[1] for shard in shards),
            input_bytes=sum(nbytes_of(shard.features) for shard in shards),
            row_weights=weights,
        )
        return make_plan(request, split)

    def _settings(self, shards: list[Shard], loss: TreeLoss) -> TreeSettings:
        cells = max(shard.features.n * shard.features.d for shard in shards if isinstance(shard.features, RawTable))
        return TreeSettings(
            loss=loss,
            learning_rate=self.learning_rate,
            max_leaf_nodes=self.max_leaf_nodes,
            max_depth=self.max_depth,
            min_samples_leaf=self.min_samples_leaf,
            l2_regularization=self.l2_regularization,
            max_bins=self.max_bins,
            trees=tuple(self.trees_per_round) if isinstance(self.trees_per_round, list | tuple) else (),
            validation_fraction=0.0 if self.validation_fraction is None else self.validation_fraction,
            early_stopping=bool(self.early_stopping),
            tol=self.tol,
            n_iter_no_change=self.n_iter_no_change,
            min_gain_se=self.min_gain_se,
            threads=_threads(self.n_jobs, cells),
        )

    def _keep(self, result: Result, prepared: PreparedTables, codes: Codes) -> None:
        self._layout, self._codes = prepared.layout, codes
        self.encoders_ = {**prepared.encoders, **codes.encodings.encoders}
        self._model, self._parts = result.model, list(result.model.parts)
        self._loss = result.plan.problem.loss
        self.n_rounds_ = self.n_iter_ = len(result.trace)
        self.converged_, self.trace_ = result.converged, result.trace
        self.certificate_ = codes.certificate(result.certificate)
        self.traffic_, self.outlook_ = result.traffic, result.outlook
        self.row_norms_ = codes.row_norms(prepared.layout.party_names)
        self.n_trees_ = {part.name: len(part.model.trees) for part in self._parts if isinstance(part, TreePart)}
        if result.boosting is not None:
            self._keep_history(result.boosting)

    def _keep_history(self, history: BoostingHistory) -> None:
        self.interaction_ = history.interaction
        self.train_loss_, self.validation_loss_ = np.array(history.fitted), np.array(history.held_out)
        self.steps_by_round_ = {name: [row[k] for row in history.steps] for k, name in enumerate(history.parties)}
        self.party_weights_ = {name: float(np.mean(steps)) for name, steps in self.steps_by_round_.items()}

    def _encode(self, labels: npt.NDArray[Any]) -> tuple[Vector, TreeLoss]:
        raise NotImplementedError

    # --- predicting -----------------------------------------------------------------------------------

    def _new_shards(self, X: Any) -> list[Shard]:
        """New rows, as those of the fit."""
        check_is_fitted(self, "n_rounds_")
        X = own_tables(X)
        X = in_order(X, self._layout.party_names) if names_of(X) else X
        if is_block_list(X):
            blocks = list(X)
        else:
            blocks = _cut(checked_table(self, X, as_it_is=different_names(X) is not None), self._layout)
        check_blocks(blocks, self._layout)
        check_same_rows(blocks, self._layout.party_names)
        coded = bool(self._codes.encodings.by_party)
        shards = self._shards(blocks, self._layout, self.encoders_, coded=coded)
        return [*shards, *self._codes.again(protected_tables(blocks, self._layout))] if coded else shards

    def _scores(self, X: Any) -> Vector:
        shards = self._new_shards(X)
        return self._model.scores(shards)

    def _model_section(self, given: Mapping[str, Any]) -> ModelSection:
        loss = serving_loss(self._run.loss)
        classes = len(self.classes_) if loss.name == SEVERAL else None
        return ModelSection(loss=loss.name, kind=TREES, classes=classes, quantile=given.get("quantile"))

    def _trees_section(self, given: Mapping[str, Any]) -> TreesSection:
        known = {one.name: given[one.name] for one in fields(TreesSection)}
        return TreesSection(**known | {"validation_fraction": known["validation_fraction"] or 0.0})

    def explain(self, X: Any) -> Explanation:
        """What each column of each party adds to each score, by TreeSHAP inside the party; a curve adds its own value.

        Returns
        -------
        Explanation
            A dict of party to dict of column to array: one number for each row, or one for each row and class. The sums
            of a row, with `baseline` under "", are its score.
        """
        encoders = [self._codes.encodings.encoders.get(part.name) for part in self._parts]
        names = [part.name for part in self._parts]
        return explain_rows(self._parts, self._new_shards(X), encoders, self._model.constant, names)


class VerticalBoostingClassifier(ClassifierMixin, _VerticalBoosting):
    """Boosted trees of parties that hold different features of the same rows: a classifier.

    The score of a row is a constant plus what each party's trees add to it. In each round every party grows trees on
    its own columns (LightGBM, `pip install 'tacit[trees]'`), and the first party, which holds the labels, keeps a step
    between 0 and 1 of each party's trees: the one that is best on rows that no tree was fitted on. Interactions between
    columns of one party are learnt, those across parties are not (`interaction_`).

    Without `privacy` there is no noise: the answers of a party tell about its rows, and the certificate says so.

    Parameters
    ----------
    loss : {"log_loss"}, default "log_loss"
        Cross-entropy of two classes, or of more.
    parties : int, list of sizes, or list of column lists, default 2
        How one X is cut; not used where X is a list with one table per party.
    learning_rate : float, default 0.08
        What each tree's leaves are multiplied by.
    max_rounds : int, default 15
        Most rounds; each is one exchange of a number per row (of more than two classes: one per row and class).
    trees_per_round : sequence of int, default (10, 20, 30)
        Trees that each party grows in the first, second and each further round; of three parties or more twice, and at
        most four times, as many where its last block was kept whole.
    max_leaf_nodes : int, default 15
    max_depth : int or None, default None
    min_samples_leaf : int or None, default None
        Fewest rows of a leaf; None takes a fiftieth of the fitted rows, at least 5 and at most 40.
    l2_regularization : float, default 5
    max_bins : int, default 255
        Most different values of a number that splits can tell apart.
    categorical_features : "from_dtype", None, or list of names, numbers or booleans, default "from_dtype"
        Columns whose values are categories; by default those of text and of categorical type in frames.
    monotonic_cst : mapping of column to -1, 0 or 1, list of these, or None, default None
        1 where the score must not fall with the column, -1 where it must not rise.
    early_stopping : bool, default True
        Whether training ends when the loss on held-out rows no longer falls.
    validation_fraction : float or None, default 0.15
        The part of the rows that no tree is fitted on. None chooses steps on the fitted rows, which overfits.
    n_iter_no_change : int, default 3
        Rounds without progress after which training ends.
    tol : float, default 3e-4
        Progress is a fall of the held-out loss by more than this part of the loss of a constant.
    min_gain_se : float, default 0
        A party adds nothing until its gain on held-out rows once was above so many standard errors. With 2.5 parties
        without information end with weight 0, and parties with little may, too.
    n_jobs : int or None, default None
        Threads; None takes one for small tables and all for large ones. The model does not depend on it.
    verbose : int, default 0
        1 shows a progress bar in a terminal.
    random_state : int, RandomState or None, default None
        Which rows are held out.
    privacy : Privacy or None, default None
        With `Privacy(epsilon=...)` the rows of all parties but the first are protected: it alone has trees, and the
        others add private curves. With `Privacy(epsilon=None, label_epsilon=...)` labels are randomized once.
    ranges : mapping of column to (low, high), or None, default None
        Public ranges of the protected parties' numbers, where rows are protected. (low, high, "repeats") for a number
        whose exact values come again and again, as fees and limits do.
    categories : mapping of column to list, or None, default None
        Public lists of the protected parties' categories.
    secure_aggregation : bool, default False
        Let all parties but the first answer under masks that cancel in their sum, so that the first reads this sum
        alone: it keeps one step for all of them. From three parties on.

    Notes
    -----
    Frames may hold text, categories, dates (as days) and blanks, which trees use as they are; arrays have NaN for
    blanks. In new rows a category that training did not see counts as a blank.

    Attributes
    ----------
    classes_ : array of labels
    n_rounds_, converged_, trace_, certificate_, traffic_
        How the run went: rounds, whether it ended by itself, one record per round (`objective` is the loss on fitted
        rows), the privacy certificate, bytes.
    train_loss_, validation_loss_ : array
        Mean loss on the fitted and on the held-out rows: of the constant, then after each round. Neither ever rises.
    party_weights_ : dict of str to float
        Who adds what: the mean over rounds of the step of each party, from 0 (nothing was kept) to 1.
    steps_by_round_ : dict of str to list of float
    n_trees_ : dict of str to int
        Trees of each party.
    interaction_ : InteractionTest
        What trees across parties would bring on held-out rows: `gain`, `standard_error`, `p_value` and a `sentence`.
    encoders_ : dict
        By party, how the columns of frames became numbers.
    row_norms_ : dict of str to float
        Where rows are protected: the norm of each protected party's encoded rows, which follows from the code.
    outlook_ : tuple of str
        Where rows are protected: whether the collaboration is worth it, as far as the run can tell.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from tacit import VerticalBoostingClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = VerticalBoostingClassifier(random_state=0).fit({"clinic": X[:, :10], "lab": X[:, 10:]}, y)
    >>> bool(model.score({"clinic": X[:, :10], "lab": X[:, 10:]}, y) > 0.97)
    True
    """

    def _encode(self, labels: npt.NDArray[Any]) -> tuple[Vector, TreeLoss]:
        if self.loss not in ("log_loss", "logistic"):
            raise InputError(f'loss={self.loss!r} is unknown: a classifier of trees has "log_loss"')
        _check_blank_labels(labels)
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise InputError(
                f"y has one class only, {show(self.classes_[0])}: a classifier needs rows of at least 2 classes"
            )
        if len(self.classes_) == 2:
            return np.where(codes > 0, 1.0, -1.0), make_loss("logistic")
        return codes.astype(np.float64), make_loss("softmax", classes=len(self.classes_))

    def decision_function(self, X: Any) -> Vector:
        """Score of each row: log odds of the second of two classes, or one number for each of more."""
        return self._scores(X)

    def predict_proba(self, X: Any) -> Vector:
        """Probability of each class."""
        scores = self._scores(X)
        if scores.ndim == 2:
            return np.asarray(softmax(scores, axis=1))
        positive = expit(scores)
        return np.column_stack([1 - positive, positive])

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Label of each row."""
        scores = self._scores(X)
        codes = scores.argmax(axis=1) if scores.ndim == 2 else (scores > 0).astype(int)
        return np.asarray(self.classes_[codes])


class VerticalBoostingRegressor(RegressorMixin, _VerticalBoosting):
    """Boosted trees of parties that hold different features of the same rows: a regression.

    Parameters
    ----------
    loss : str, default "squared_error"
        "squared_error", "absolute_error", "quantile"; "poisson" (counts) and "gamma" (positive numbers), which predict
        exp of the score.
    parties, learning_rate, max_rounds, trees_per_round, max_leaf_nodes, max_depth, min_samples_leaf, \
l2_regularization, max_bins, categorical_features, monotonic_cst, early_stopping, validation_fraction, \
n_iter_no_change, tol, min_gain_se, n_jobs, verbose, random_state, privacy, ranges, categories, secure_aggregation
        As in VerticalBoostingClassifier.
    quantile : float, default 0.5
        The quantile that loss="quantile" predicts.

    Attributes
    ----------
    n_rounds_, converged_, trace_, certificate_, traffic_, train_loss_, validation_loss_, party_weights_, \
steps_by_round_, n_trees_, interaction_, encoders_, row_norms_, outlook_
        As in VerticalBoostingClassifier.
    """

    def __init__(
        self,
        loss: str = "squared_error",
        parties: Any = 2,
        learning_rate: float = 0.08,
        max_rounds: int = 15,
        trees_per_round: Sequence[int] = (10, 20, 30),
        max_leaf_nodes: int = 15,
        max_depth: int | None = None,
        min_samples_leaf: int | None = None,
        l2_regularization: float = 5.0,
        max_bins: int = 255,
        categorical_features: Any = FROM_DTYPE,
        monotonic_cst: Any = None,
        early_stopping: bool = True,
        validation_fraction: float | None = 0.15,
        n_iter_no_change: int = 3,
        tol: float = 3e-4,
        min_gain_se: float = 0.0,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: Any = None,
        quantile: float = 0.5,
        privacy: Any = None,
        ranges: Any = None,
        categories: Any = None,
        secure_aggregation: bool = False,
    ) -> None:
        super().__init__(
            loss, parties, learning_rate, max_rounds, trees_per_round, max_leaf_nodes, max_depth, min_samples_leaf,
            l2_regularization, max_bins, categorical_features, monotonic_cst, early_stopping, validation_fraction,
            n_iter_no_change, tol, min_gain_se, n_jobs, verbose, random_state, privacy, ranges, categories,
            secure_aggregation,
        )  # fmt: skip
        self.quantile = quantile

    def _encode(self, labels: npt.NDArray[Any]) -> tuple[Vector, TreeLoss]:
        names = {"squared_error": "squared", "absolute_error": "quantile"}
        if self.loss not in (*names, "squared", "poisson", "gamma", "quantile"):
            known = ", ".join((*names, "poisson", "gamma", "quantile"))
            raise InputError(f"loss={self.loss!r} is unknown: a regressor of trees has {known}")
        level = 0.5 if self.loss == "absolute_error" else self.quantile
        return real_labels(labels, "VerticalBoostingClassifier"), make_loss(
            names.get(self.loss, self.loss), quantile=level
        )

    def predict(self, X: Any) -> Vector:
        """Prediction for each row."""
        scores = self._scores(X)
        if self._loss.task != "counts":
            return scores
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(scores))


# --- what users hand over -----------------------------------------------------------------------------


def _open_parties(
    blocks: Sequence[Any], layout: ColumnLayout, *, coded: bool
) -> list[tuple[str, Any, tuple[str, ...]]]:
    """The parties whose columns trees take: all of them, or the first where the others' become codes."""
    parts = list(zip(layout.party_names, blocks, layout.names, strict=True))
    return parts[:1] if coded else parts


def _cut(X: Any, layout: ColumnLayout) -> list[Any]:
    """One table, cut into the columns of each party."""
    if sparse.issparse(X):
        raise InputError("X is sparse: trees take dense arrays and frames, where NaN or nothing is a blank")
    if is_frame(X):
        return [columns_of(X, columns) for columns in layout.columns]
    return [take_columns(X, columns) for columns in layout.columns]


def _numbers(block: Any, party: str) -> npt.NDArray[Any]:
    """A table of numbers, NaN for blanks; infinite ones are refused."""
    if sparse.issparse(block):
        raise InputError(f"{party} is sparse: trees take dense arrays and frames, where NaN or nothing is a blank")
    try:
        values = np.asarray(block)
        values = values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{party} holds something that is no number: give a frame for columns of text") from error
    if np.isinf(values).any():
        row, column = np.argwhere(np.isinf(values))[0]
        raise InputError(
            f"{party} has an infinite value in row {row}, column {column}: fix it, or leave it blank (NaN)"
        )
    return values


def _check_blank_labels(labels: npt.NDArray[Any]) -> None:
    bad = np.array([label is None or label != label for label in labels.tolist()], dtype=np.bool_)
    if labels.dtype.kind == "f":
        bad |= ~np.isfinite(labels)
    if bad.any():
        raise InputError(f"y has NaN or infinity, first in row {np.flatnonzero(bad)[0]}: remove these rows")


def _threads(n_jobs: int | None, cells: int) -> int:
    """Threads of each party: several only where its histograms are large enough to share out."""
    cores = os.cpu_count() or 1
    if n_jobs is None:
        return cores if cells >= LARGE else 1
    return max(1, cores + 1 + n_jobs) if n_jobs < 0 else max(1, n_jobs)
