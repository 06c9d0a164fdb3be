"""Estimators for rows split between the nodes of a graph."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, column_or_1d

from tacit.blocks import check_finite, check_matrix
from tacit.columns.constants import Part
from tacit.columns.table import ArrowTable
from tacit.errors import InputError
from tacit.estimators.base import (
    Groups,
    LinearClassifierMixin,
    LinearRegressorMixin,
    RowExtras,
    as_given,
    asked_loss,
    checked_names,
    checked_offset,
    checked_table,
    checked_weights,
    column_names,
    deal_out,
    different_names,
    in_order,
    is_block_list,
    names_of,
    numbered,
    numbers_of_rows,
    real_labels,
    refuse_offset,
    unchanged_on_failure,
)
from tacit.estimators.encoding import (
    ColumnWishes,
    EncodedTables,
    Encodings,
    PartyCoefficients,
    Setting,
    as_table,
    check_has_curves,
    column_curves,
    dense,
    encode_rows,
    row_norms,
)
from tacit.estimators.fitted import FittedModel, fitted_run
from tacit.mechanisms import names_for
from tacit.plan import Plan, SampleSplit, TrainingRequest, make_plan
from tacit.plan.splits import GRAPH_SOLVERS
from tacit.privacy.request import Privacy
from tacit.problem.losses import Loss
from tacit.problem.losses.base import RowLoss, with_rows
from tacit.problem.regularizers import Regularizer
from tacit.run.graph import GraphRun
from tacit.run.prepare import with_encoding
from tacit.run.progress import progress
from tacit.run.result import Result, TrainedOn
from tacit.run.search import settle_dispersion
from tacit.topologies import make_graph
from tacit.types import Shard, Vector

ENGINES = ("in-process",)


class _Horizontal(EncodedTables, FittedModel):
    """What the classifier and the regressor share."""

    _tasks: tuple[str, ...] = ()

    def __init__(
        self,
        loss: Any = "logistic",
        penalty: str | Regularizer | None = "l2",
        alpha: float = 1e-4,
        parties: Any = 10,
        graph: Any = "random",
        method: str = "auto",
        published: bool = False,
        fit_intercept: bool = True,
        rho: float | str = "auto",
        max_rounds: int = 1000,
        tol: float = 1e-12,
        privacy: Any = None,
        engine: str = "in-process",
        random_state: Any = None,
        verbose: int = 0,
        secure_aggregation: bool | str = False,
        options: Any = None,
        terms: str = "linear",
        ranges: Any = None,
        categories: Any = None,
        class_weight: Any = None,
        costs: Any = None,
    ) -> None:
        self.loss = loss
        self.penalty = penalty
        self.alpha = alpha
        self.parties = parties
        self.graph = graph
        self.method = method
        self.published = published
        self.fit_intercept = fit_intercept
        self.rho = rho
        self.max_rounds = max_rounds
        self.tol = tol
        self.privacy = privacy
        self.engine = engine
        self.random_state = random_state
        self.verbose = verbose
        self.secure_aggregation = secure_aggregation
        self.options = options
        self.terms = terms
        self.ranges = ranges
        self.categories = categories
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
        X : array, sparse matrix or frame (pandas, polars, Arrow), dealt out at random; or one of these per party, in a
            list or by name, as in {"north": A, "south": B}
        y : array of labels, classes for a classifier, numbers for a regressor; or one array per party, as X
        sample_weight : array, or one per party, as X; or None
        offset : array, or one per party, as X; or None
            Added to the score of each row, with no coefficient; it stays with the row.
        exposure : array, or one per party, as X; or None
            How long or how much each row was observed, above 0; its logarithm is an offset. For "poisson",
            "negative_binomial", "gamma" and "tweedie".
        """
        with unchanged_on_failure(self):
            result = self._fit(X, y, RowExtras(sample_weight, offset, exposure))
            self._run = fitted_run(result, _first(y))
            if not result.converged and result.plan.private is None:
                warnings.warn(_why_not(result), ConvergenceWarning, stacklevel=2)
        return self

    def _fit(self, X: Any, y: Any, extras: RowExtras) -> Result:
        rng = check_random_state(self.random_state)
        groups, columns, tables = self._take_in(X, y, extras, rng, asked_loss(self))
        encoded = self._encode(np.concatenate(groups.labels))
        loss, groups = self._loss_of(), self._class_weighted(groups, encoded)
        if groups.offsets is not None:
            refuse_offset(loss)
            loss, encoded = RowLoss(loss), with_rows(encoded, np.concatenate(groups.offsets))
        labels = np.split(encoded, np.cumsum(groups.sizes)[:-1])
        parties = names_of(X) or numbered(len(groups.tables))
        groups, encodings, privacy = self._encoded(groups, tables, parties, loss)
        encoder = next(iter(encodings.encoders.values()), None)
        columns, curves = (columns, ()) if encoder is None else (encoder.names, encoder.curves)
        plan = self._plan(groups, len(columns), int(rng.randint(2**31 - 1)), parties, loss, privacy)
        plan.problem.loss.check_labels(encoded)
        shards = groups.shards(plan.graph.names, columns, curves)
        estimated = plan.estimates_dispersion
        with progress(plan, visible=True) if self.verbose else nullcontext() as observe:
            result = GraphRun(plan, shards, labels, groups.weights).go(observe)
        self.graph_ = plan.graph
        if estimated:
            joint = None if groups.weights is None else np.concatenate(groups.weights)
            found = settle_dispersion(
                result, lambda plan, _: GraphRun(plan, shards, labels, groups.weights).go(), shards, encoded, joint
            )
            result = found.result
        self._keep(result, columns, encodings)
        if estimated:
            self.dispersion_, self.n_rounds_, self.n_iter_ = found.dispersion, found.rounds, found.rounds
        self._trained_on = TrainedOn.of_nodes(result.plan, shards, encoded, encoder, groups.weights)
        return result

    def _class_weighted(self, groups: Groups, encoded: Vector) -> Groups:
        """Each node's rows, weighted by their class too where that is asked for."""
        joint = None if groups.weights is None else np.concatenate(groups.weights)
        weights, ends = self._with_class_weights(joint, encoded), np.cumsum(groups.sizes)[:-1]
        return groups if weights is None else replace(groups, weights=np.split(weights, ends))

    def _take_in(
        self, X: Any, y: Any, extras: RowExtras, rng: Any, loss: Loss
    ) -> tuple[Groups, tuple[str, ...], list[ArrowTable] | None]:
        """Each node's rows, and the columns; where these are to be encoded, numbers of rows and the whole tables."""
        parties, wishes = names_of(X), ColumnWishes(self.terms, self.ranges, self.categories)
        if parties is not None:
            X, y = in_order(X, parties), in_order(y, parties, "y")
            extras = RowExtras(**{name: in_order(own, parties, name) for name, own in vars(extras).items()})
        elif isinstance(y, Mapping) or any(isinstance(own, Mapping) for own in vars(extras).values()):
            raise InputError("y or sample_weight is a mapping and X is not: give X by party too, or all as lists")
        if is_block_list(X):
            return self._take_in_blocks(X, y, extras, parties or numbered(len(X)), wishes, loss)
        names = different_names(X)
        asked = wishes.asks([X], [names or ()])
        X, labels = checked_table(self, X, y, as_it_is=asked and names is not None)
        if not asked:
            check_finite(X, "X", names)
        labels, columns = column_or_1d(labels, warn=True), names or column_names(X)
        if len(labels) != X.shape[0]:
            raise InputError(f"y has {len(labels)} labels for {X.shape[0]} rows: give one label for each row")
        weights = checked_weights(extras.sample_weight, X.shape[0])
        offset = checked_offset(extras.offset, extras.exposure, X.shape[0], loss)
        held = numbers_of_rows(X) if asked else X
        if weights is not None and not weights.all():  # rows that count for nothing go to nobody
            kept = weights > 0
            held, labels, weights = held[kept], labels[kept], weights[kept]
            offset = None if offset is None else offset[kept]
        groups = deal_out(held, labels, weights, self.parties, rng, offset)
        return groups, columns, [as_table(dense(X, "X", columns), columns, "X")] * len(groups.tables) if asked else None

    def _take_in_blocks(
        self, X: Any, y: Any, extras: RowExtras, parties: tuple[str, ...], wishes: ColumnWishes, loss: Loss
    ) -> tuple[Groups, tuple[str, ...], list[ArrowTable] | None]:
        """The same where each node has a table of its own."""
        names, own = different_names(X[0]), column_names(X[0])
        asked = wishes.asks(X, [column_names(table) for table in X], parties)
        if not asked:
            checked_names(X[0])
        groups = as_given(X, y, extras.sample_weight, names, parties, as_it_is=asked)
        groups = replace(groups, offsets=_offsets(groups, extras, loss))
        self.n_features_in_ = X[0].shape[1]
        self.__dict__.pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        if extras.sample_weight is not None:
            groups = _weighted(groups, extras.sample_weight)
        if not asked:
            return groups, own, None
        return (
            groups,
            own,
            [as_table(dense(table, name, own), own, name) for table, name in zip(X, parties, strict=True)],
        )

    def _encoded(
        self, groups: Groups, tables: list[ArrowTable] | None, parties: tuple[str, ...], loss: Loss
    ) -> tuple[Groups, Encodings, Any]:
        """Each node's rows, encoded where they are to be, and the privacy asked of them."""
        if tables is None:
            return groups, Encodings(), self.privacy
        weights: Sequence[Vector | None] = groups.weights or [None] * len(tables)
        parts = [
            Part(replace(table, party=name), rows[:, 0], own)
            for table, name, rows, own in zip(tables, parties, groups.tables, weights, strict=True)
        ]
        asked = self.privacy if isinstance(self.privacy, Privacy) else None
        setting = Setting(True, loss, asked, self.secure_aggregation)
        wishes = ColumnWishes(self.terms, self.ranges, self.categories)
        encodings, matrices = encode_rows(parts, wishes, setting)
        privacy = self.privacy if asked is None else encodings.privacy(asked, parties)
        return replace(groups, tables=matrices), encodings, privacy

    def _plan(self, groups: Groups, columns: int, seed: int, names: tuple[str, ...], loss: Loss, privacy: Any) -> Plan:
        if self.engine == "flare":
            raise InputError(
                "engine='flare' is for jobs between organisations, whose data are not in one process: "
                "write a job and run tacit train JOB --kit KIT"
            )
        if self.engine not in ENGINES:
            raise InputError(f"engine={self.engine!r} is unknown: choose one of {', '.join(ENGINES)}")
        if self.method not in GRAPH_SOLVERS and self.method in names_for(SampleSplit.split):
            warnings.warn(
                f"method={self.method!r} names a mechanism, which the next version refuses: give "
                f"privacy=Privacy(mechanism={self.method!r}), and leave method out",
                FutureWarning,
                stacklevel=3,
            )
        weights = groups.weights
        request = TrainingRequest(
            loss=loss,
            penalty=self.penalty,
            alpha=self.alpha,
            fit_intercept=self.fit_intercept,
            tol=self.tol,
            method=self.method,
            rho=self.rho,
            max_rounds=self.max_rounds,
            privacy=privacy,
            options=self.options,
            published=self.published,
            seed=seed,
            secure_aggregation=self.secure_aggregation,
        )
        counted = None if weights is None else tuple(float(own.sum()) for own in weights)
        return make_plan(request, SampleSplit(make_graph(self.graph, names, seed), groups.sizes, columns, counted))

    def _keep(self, result: Result, columns: tuple[str, ...], encodings: Encodings) -> None:
        self._model, names = result.model, self.graph_.names
        self._encodings = encodings
        coefs = [node.coef for node in result.model.parts]
        self.coef_by_party_ = PartyCoefficients(coefs, names, [columns] * len(coefs), getattr(self, "classes_", ()))
        self.intercept_by_party_ = [-node.offset for node in result.model.parts]
        self.n_rounds_ = len(result.trace)
        self.n_iter_ = self.n_rounds_
        self.converged_ = result.converged
        self.trace_ = result.trace
        self.certificate_ = result.certificate
        if encodings.by_party:
            self.certificate_ = with_encoding(
                result.certificate, encodings.by_party, shared=True, by="ranges and categories state"
            )
        self.traffic_ = result.traffic
        self.outlook_ = result.outlook
        privacy = None if result.plan.private is None else result.plan.private.privacy
        self._norms = row_norms(privacy, names, rows_are_split=True)
        self._set_model(result)

    def _fitted(self) -> tuple[Sequence[Vector], float]:
        return [self._model.coef], float(np.ravel(self.intercept_)[0])

    def _joint_coef(self, result: Result) -> Vector:
        return result.model.coef

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
        return self._model.scores(self._new_shards(X))

    def _new_shards(self, X: Any) -> list[Shard]:
        """New rows, encoded as those of the fit."""
        if is_block_list(X) or names_of(X):
            raise InputError("X holds several tables: predict for one table at a time, every party has the same model")
        names = different_names(X)
        X = checked_table(self, X, as_it_is=bool(self.encoders_) and names is not None)
        if not self.encoders_:
            return [Shard("", check_matrix(X, "X", names))]
        encoder = next(iter(self.encoders_.values()))
        table = as_table(dense(X, "X", encoder.sources), encoder.sources, "X")
        return [Shard("", encoder.predicting(table)[0])]

    def curves(self) -> dict[str, tuple[Any, Vector]]:
        """By column what a cell adds to the score of the consensus model: (cells, values), against the average row.

        As `VerticalClassifier.curves`, for columns that all parties have.
        """
        check_is_fitted(self, "coef_by_party_")
        check_has_curves(self.encoders_)
        name, encoder = next(iter(self.encoders_.items()))
        return column_curves(encoder, self._model.coef, self._encodings.means.get(name))


class HorizontalClassifier(LinearClassifierMixin, _Horizontal):
    """Linear classifier of parties that hold different rows with the same columns, and talk to neighbours only.

    Minimises  (1/N) * sum(loss) + alpha * R(coef)  by consensus ADMM over a graph, the intercept not penalised. There
    is no server: every party is a node that sends messages to its neighbours, and finds out for itself when to stop.

    Parameters
    ----------
    loss : str or Loss, default "logistic"
        "logistic" (softmax where there are more than two classes), or "squared_hinge" for two classes.
    penalty : str, Regularizer or None, default "l2"
        "l2" (1/2 ||coef||^2) or "none".
    alpha : float, default 1e-4
        Weight of the penalty.
    parties : int or list of sizes, default 10
        How the rows of one X are dealt out, at random; fewer where there are fewer rows. Not used where X is a list
        with one table per party.
    graph : str, list of pairs, or networkx graph, default "random"
        Who talks to whom: "ring", "complete", "star" (party 1 in the middle), "grid", or "random" (connected, three
        more edges than parties); or edges between "party 1", "party 2", ... (or the names that
        X gives them), or between their numbers from 0.
    method : {"auto", "none"}, default "auto"
        The solver: consensus ADMM, or the one that the mechanism of `privacy` has; "none" refuses privacy. Names of
        mechanisms belong to `Privacy(mechanism=...)`; here they are taken for one more release, with a FutureWarning.
    published : bool, default False
        The paper's exact form of "dual", "primal" or "pdml", whose certificate says what is not proven.
    fit_intercept : bool, default True
    rho : float or "auto", default "auto"
        Penalty of the parties' disagreement, relative to the joint curvature; "auto" takes the best one for the graph.
    max_rounds : int, default 1000
        Most messages from each party to each neighbour.
    tol : float, default 1e-12
        Stops when the parties estimate that the objective is within this part of its optimum. It is small because the
        objective settles long before the parties' models agree: at 1e-12 they agree to about 1e-6.
    privacy : Privacy or None, default None
        What the whole run must guarantee, see `Privacy`. None trains without noise, and the certificate says so.
    engine : {"in-process"}
    random_state : int, RandomState or None
        Deals out the rows and draws the random graph; never for private noise.
    verbose : int, default 0
        1 shows a progress bar in a terminal.
    secure_aggregation : bool or "auto", default False
        With privacy, on any graph of three parties or more: nobody can read but the sum over all parties, and these
        share one noise. `Privacy(honest=h)` says how many keep to themselves: all but one where it does not. "auto":
        masks wherever they are possible. The default counts on no other party: each adds all of its noise.
    options : PaperOptions or None, default None
        Numbers of the papers' mechanisms "dual", "primal" and "pdml", alpha_p(t) of each round among them; see
        `tacit.PaperOptions`. None takes what the sizes suggest.
    terms : {"linear", "spline"}, default "linear"
    ranges : mapping of column to (low, high), or None, default None
    categories : mapping of column to list, or None, default None
        As in `VerticalClassifier`: curves, text, dates and blanks. All parties use the same constants. Without privacy
        these come from the rows of all parties; with privacy from `ranges` and `categories` alone.

    Attributes
    ----------
    coef_ : array of shape (1, n_features), or (n_classes, n_features) for more than two classes
        The consensus model: the mean of the parties' models.
    intercept_ : array of shape (1,), or (n_classes,)
    coef_by_party_ : PartyCoefficients
        Each party's model: a list, also by name; `.columns` names the columns.
    encoders_ : dict of str to Encoder
        How columns were encoded, the same for each party; empty where they were not.
    row_norms_ : dict of str to float
        With privacy, by protected party: the largest norm of an (encoded) row, the root of its number of columns where
        these are curves and `Privacy(row_norm=...)` says nothing else.
    intercept_by_party_ : list of float, or of arrays of shape (n_classes,)
    graph_ : Graph
    n_rounds_, converged_, trace_, certificate_, traffic_
        How the run went: rounds, whether the stopping rule held, one record per round (as who watches the simulation
        sees it: no party knows it), the privacy certificate, bytes.
    outlook_ : tuple of str
        In a private run: whether the collaboration is worth it at this much privacy, in plain sentences.
    classes_ : array of the labels, sorted; of two the second is the positive one. A party may lack rows of some.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from tacit import HorizontalClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = HorizontalClassifier(parties=5, graph="ring", alpha=1e-3, random_state=0).fit(scale(X), y)
    >>> bool(model.score(scale(X), y) > 0.97)
    True
    """

    _tasks = ("classification",)


class HorizontalRegressor(LinearRegressorMixin, _Horizontal):
    """Linear regression of parties that hold different rows with the same columns, and talk to neighbours only.

    Minimises  (1/N) * sum(loss) + alpha * R(coef)  by consensus ADMM over a graph, the intercept not penalised.

    Parameters
    ----------
    loss : str or Loss, default "squared"
        "squared" (1/2 (prediction - y)^2) or "huber"; "poisson", "negative_binomial", "gamma" or "tweedie", as in
        VerticalRegressor.
    penalty, alpha, parties, graph, method, published, fit_intercept, rho, max_rounds, tol, privacy, engine, \
random_state, verbose, secure_aggregation, options, terms, ranges, categories
        As in HorizontalClassifier.
    power, dispersion : float or None
        Of loss "tweedie" and "negative_binomial", as in VerticalRegressor.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
    intercept_ : float
    coef_by_party_, encoders_, intercept_by_party_, graph_, n_rounds_, converged_, trace_, certificate_, traffic_
        As in HorizontalClassifier.
    """

    _tasks = ("regression", "counts")

    def __init__(
        self,
        loss: Any = "squared",
        penalty: str | Regularizer | None = "l2",
        alpha: float = 1e-4,
        parties: Any = 10,
        graph: Any = "random",
        method: str = "auto",
        published: bool = False,
        fit_intercept: bool = True,
        rho: float | str = "auto",
        max_rounds: int = 1000,
        tol: float = 1e-12,
        privacy: Any = None,
        engine: str = "in-process",
        random_state: Any = None,
        verbose: int = 0,
        secure_aggregation: bool | str = False,
        options: Any = None,
        terms: str = "linear",
        ranges: Any = None,
        categories: Any = None,
        power: float | None = None,
        dispersion: float | None = None,
    ) -> None:
        super().__init__(
            loss, penalty, alpha, parties, graph, method, published, fit_intercept, rho, max_rounds, tol, privacy,
            engine, random_state, verbose, secure_aggregation, options, terms, ranges, categories,
        )  # fmt: skip
        self.power = power
        self.dispersion = dispersion

    def _set_model(self, result: Result) -> None:
        self.coef_ = result.model.coef
        self.intercept_ = result.model.intercept

    def _encode(self, labels: npt.NDArray[Any]) -> Vector:
        return real_labels(labels, "HorizontalClassifier")


def _first(labels: Any) -> Any:
    """The labels of the first party, where each has its own."""
    if isinstance(labels, Mapping) and not hasattr(labels, "shape"):
        labels = list(labels.values())
    return labels[0] if isinstance(labels, list | tuple) and labels else labels


def _weighted(groups: Groups, sample_weight: Any) -> Groups:
    """The groups with their weights, without the rows that count for nothing."""
    lengths = groups.sizes
    for k, (own, rows) in enumerate(zip(sample_weight, lengths, strict=True), start=1):
        if np.shape(own) != (rows,):
            raise InputError(f"party {k}: sample_weight has shape {np.shape(own)}: give one number for each row")
    joint = checked_weights(np.concatenate([np.asarray(own) for own in sample_weight]), sum(lengths))
    if joint is None:
        return groups
    weights = np.split(joint, np.cumsum(lengths)[:-1])
    for k, own in enumerate(weights, start=1):
        if not own.any():
            raise InputError(f"party {k}: sample_weight is zero for every row: leave the party out")
    keep = [own > 0 for own in weights]
    return Groups(
        [table[rows] for table, rows in zip(groups.tables, keep, strict=True)],
        [labels[rows] for labels, rows in zip(groups.labels, keep, strict=True)],
        [own[rows] for own, rows in zip(weights, keep, strict=True)],
        None if groups.offsets is None else [own[rows] for own, rows in zip(groups.offsets, keep, strict=True)],
    )


def _offsets(groups: Groups, extras: RowExtras, loss: Loss) -> list[Vector] | None:
    """What is added to the scores of each node's rows; None where nothing is."""
    given: list[list[Any]] = []
    for name in ("offset", "exposure"):
        own = getattr(extras, name)
        if own is not None and (not isinstance(own, list | tuple) or len(own) != len(groups.tables)):
            raise InputError(f"X has tables of {len(groups.tables)} parties: give {name} as a list, an array for each")
        given.append([None] * len(groups.tables) if own is None else list(own))
    found = [checked_offset(own, exposed, rows, loss) for own, exposed, rows in zip(*given, groups.sizes, strict=True)]
    return [own for own in found if own is not None] or None


def _why_not(result: Result) -> str:
    return (
        result.note
        or f"not converged to tol={result.plan.problem.tol:g} in {len(result.trace)} rounds: raise max_rounds or tol, "
        "or scale the columns to similar size"
    )
