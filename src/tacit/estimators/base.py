"""What all estimators share: what users may hand over as X, y and weights, and what fitted linear models answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy import sparse
from scipy.special import expit, log_softmax, softmax
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import column_or_1d, validate_data

from tacit.blocks import check_matrix
from tacit.columns.raw import OwnColumns
from tacit.columns.table import ArrowTable
from tacit.data.labels import check_costs, class_weights, encode_classes, score_threshold
from tacit.data.partition import PartyTables, split_columns, take_columns
from tacit.errors import InputError
from tacit.estimators.encoding import as_table, dense, refuse_twins
from tacit.problem.losses import Logistic, Loss, of_classes
from tacit.problem.registry import get_loss, make_loss
from tacit.text import show
from tacit.types import Curves, Matrix, Shard, Vector

# --- Checks of what users hand over that every estimator shares: names of columns, labels, weights


def different_names(X: Any) -> tuple[str, ...] | None:
    """Names of a frame's columns, none of them twice; None for what is no frame."""
    if not hasattr(X, "columns"):
        return None
    names = column_names(X)
    refuse_twins(names, "X has two columns")
    return names


def checked_names(X: Any) -> tuple[str, ...] | None:
    """Names of a frame's columns, none of them twice and each a column of numbers; None for what is no frame."""
    names = different_names(X)
    if names is None or isinstance(X, pa.Table):
        return names
    for name, own in zip(names, X.columns, strict=True):
        dtype = X[own].dtype
        numeric = getattr(dtype, "is_numeric", None)  # of polars, whose types have no kind
        if getattr(dtype, "kind", "f" if numeric is None or numeric() else "O") in "OUSMmV":
            check_matrix(np.asarray(X[own])[:, None], "X", (name,))
    return names


def checked_table(estimator: Any, X: Any, *y: Any, as_it_is: bool) -> Any:
    """One table, and labels in training, by scikit-learn's rules; with `as_it_is` cells are left for the encoder."""
    reset = bool(y)
    if as_it_is:
        return validate_data(estimator, X, *y, reset=reset, skip_check_array=True)
    checked_names(X)
    floats, more = (np.float64, np.float32), {"y_numeric": False} if reset else {}
    return validate_data(
        estimator, X, *y, reset=reset, accept_sparse="csr", dtype=floats, ensure_all_finite=False, **more
    )


def asked_loss(estimator: Any) -> Loss:
    """The loss of an estimator, with the numbers that it gives."""
    settings = {name: getattr(estimator, name, None) for name in ("quantile", "power", "dispersion")}
    return checked_loss(estimator.loss, estimator._tasks, type(estimator).__name__, **settings)


def checked_loss(name: Any, tasks: tuple[str, ...], estimator: str, **settings: Any) -> Loss:
    """The loss of an estimator, which must be for its task; `settings` are its numbers, None for the usual ones."""
    loss = make_loss(name, **settings)
    if loss.task not in tasks:
        kind = estimator.removesuffix("CV").removesuffix("Classifier").removesuffix("Regressor")
        other = kind + ("Regressor" if loss.task != "classification" else "Classifier")
        raise InputError(f"loss={loss.name!r} is not for {estimator}: use {other}")
    return loss


def real_labels(labels: npt.NDArray[Any], classifier: str) -> Vector:
    """Labels as finite numbers; `classifier` is what to use where they are not."""
    if labels.dtype.kind in "mM":
        raise InputError("the labels are dates or durations: give numbers")
    try:
        numbers = np.asarray(labels, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"the labels are not numbers ({labels[0]!r}, ...): use {classifier}") from error
    bad = np.flatnonzero(~np.isfinite(numbers))
    if bad.size:
        raise InputError(f"y has NaN or infinity, first in row {bad[0]}: fill them in, or remove these rows")
    return numbers


def checked_weights(sample_weight: Any, rows: int) -> Vector | None:
    """One weight of at least 0 for each row; None where all are 1."""
    if sample_weight is None:
        return None
    weights = _one_for_each_row(sample_weight, rows, "sample_weight")
    if not np.isfinite(weights).all() or weights.min(initial=0.0) < 0:
        raise InputError("sample_weight has a negative, NaN or infinite entry: weights must be 0 or above")
    if weights.sum() <= 0:
        raise InputError("sample_weight is zero for every row: give at least one row a positive weight")
    return None if np.all(weights == 1.0) else weights


@dataclass(frozen=True)
class RowExtras:
    """What a user gives for each row beside its label, as it was given; None where it was not."""

    sample_weight: Any = None
    offset: Any = None
    exposure: Any = None

    @property
    def has_offset(self) -> bool:
        """Whether something is added to the scores."""
        return self.offset is not None or self.exposure is not None


def with_class_weights(weights: Vector | None, encoded: Vector, asked: Any, classes: Any) -> Vector | None:
    """Row weights times the weight of the row's class; `asked` as in `class_weights`, None leaves them as they are."""
    if asked is None:
        return weights
    codes = encoded if len(classes) > 2 else encoded > 0
    labels = np.asarray(classes)[codes.astype(int)]
    own = class_weights(labels, asked, weights)
    return own if weights is None else own * weights


def checked_offset(offset: Any, exposure: Any, rows: int, loss: Loss) -> Vector | None:
    """What is added to the score of each row: the offset, and the logarithm of the exposure; None without either."""
    if exposure is not None and loss.task != "counts":
        raise InputError(
            f"exposure does not fit loss={loss.name!r}: its logarithm is added to the logarithm of the mean, which the "
            "losses 'poisson', 'negative_binomial', 'gamma' and 'tweedie' have; use offset"
        )
    if offset is not None:
        refuse_offset(loss)
    parts = [] if offset is None else [_finite_for_each_row(offset, rows, "offset")]
    if exposure is not None:
        exposed = _finite_for_each_row(exposure, rows, "exposure")
        if exposed.min(initial=1.0) <= 0:
            bad = int(np.flatnonzero(exposed <= 0)[0])
            raise InputError(
                f"exposure is {exposed[bad]:g} in row {bad}: it must be above 0; leave out rows that were not exposed"
            )
        parts.append(np.log(exposed))
    return sum(parts[1:], parts[0]) if parts else None


def refuse_offset(loss: Loss) -> None:
    """Refuse offsets of rows that have several scores."""
    if loss.outputs > 1:
        raise InputError(
            f"offset is for two classes or numbers, and the labels have {loss.outputs} classes: leave it out"
        )


def _one_for_each_row(given: Any, rows: int, name: str) -> Vector:
    try:
        values = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} has an entry that is not a number: give one number for each row") from error
    values = np.full(rows, values) if values.ndim == 0 else values
    if values.shape != (rows,):
        raise InputError(f"{name} has shape {values.shape}: give one number for each of the {rows} rows")
    return values


def _finite_for_each_row(given: Any, rows: int, name: str) -> Vector:
    values = _one_for_each_row(given, rows, name)
    if not np.isfinite(values).all():
        bad = int(np.flatnonzero(~np.isfinite(values))[0])
        raise InputError(f"{name} is {values[bad]:g} in row {bad}: give a number")
    return values


# --- What users may hand over as X: one table that is split, or one table for each party, in a list or by name


@dataclass(frozen=True)
class ColumnLayout:
    """Which columns belong to which party, in the order of the joint model."""

    columns: tuple[npt.NDArray[np.int64], ...]
    names: tuple[tuple[str, ...], ...]
    named: bool = False  # the names are the users' own, and not x0, x1, ...
    parties: tuple[str, ...] | None = None  # names of the parties, where they have any

    @property
    def party_names(self) -> tuple[str, ...]:
        """The parties' names; without any they are numbered from 1."""
        return self.parties or numbered(len(self.columns))

    @property
    def joint(self) -> list[tuple[str, str]]:
        """Party and name of each column, in the order of the joint table."""
        names = [(party, name) for party, own in zip(self.party_names, self.names, strict=True) for name in own]
        return [names[place] for place in np.argsort(np.concatenate(self.columns))]

    @property
    def n_columns(self) -> int:
        """Columns of all parties."""
        return sum(len(part) for part in self.columns)


def numbered(count: int) -> tuple[str, ...]:
    """Names of parties that were given none."""
    return tuple(f"party {k}" for k in range(1, count + 1))


def names_of(X: Any) -> tuple[str, ...] | None:
    """Names of the parties where X is a mapping of name to table; None where it is not.

    Raises
    ------
    InputError
        For a mapping that is not one of names to tables.
    """
    if not isinstance(X, Mapping) or hasattr(X, "shape"):  # some of scipy's sparse matrices are mappings, too
        return None
    if not X:
        raise InputError("X is an empty mapping: give the table of at least one party, such as {'bank': A, 'shop': B}")
    for name, table in X.items():
        if not isinstance(name, str) or not name:
            raise InputError(f"X has the key {show(name)}: keys are names of parties, such as {{'bank': A, 'shop': B}}")
        if len(getattr(table, "shape", ())) != 2:
            raise InputError(f"X[{name!r}] is no table of rows and columns: give an array or a frame of two dimensions")
    return tuple(X)


def in_order(given: Any, names: Sequence[str], what: str = "X") -> Any:
    """The values of a mapping in the order of the parties; anything else as it is.

    Raises
    ------
    InputError
        Where the mapping names somebody else, or lacks somebody.
    """
    if not isinstance(given, Mapping):
        return given
    known = ", ".join(repr(name) for name in names)
    for name in given:
        if name not in names:
            raise InputError(f"{what} names {show(name)}, which is no party: the parties are {known}")
    missing = [name for name in names if name not in given]
    if missing:
        raise InputError(f"{what} says nothing about party {missing[0]!r}: give an entry for each of {known}")
    return [given[name] for name in names]


def is_block_list(X: Any) -> bool:
    """True for a list with one table per party (a list of rows is one table)."""
    return isinstance(X, list | tuple) and len(X) > 0 and all(len(getattr(block, "shape", ())) == 2 for block in X)


def column_names(table: Any, first: int = 0) -> tuple[str, ...]:
    """Names of a table's columns: a frame's own, or x0, x1, ..."""
    own = table.column_names if isinstance(table, pa.Table) else getattr(table, "columns", None)
    if own is not None:
        return tuple(str(name) for name in own)
    return tuple(f"x{first + j}" for j in range(table.shape[1]))


def layout_of_blocks(blocks: Sequence[Any], parties: tuple[str, ...] | None = None) -> ColumnLayout:
    """Each table is a party, by name perhaps; the joint model has their columns one after the other."""
    start, columns, names = 0, [], []
    for block in blocks:
        columns.append(np.arange(start, start + block.shape[1]))
        names.append(column_names(block, start))
        start += block.shape[1]
    return ColumnLayout(tuple(columns), tuple(names), all(hasattr(block, "columns") for block in blocks), parties)


def _check_order(blocks: Sequence[Any], names: Sequence[str]) -> None:
    """Refuse frames that hold the same rows in another order: rows are matched by position."""
    indexes = [getattr(block, "index", None) for block in blocks]
    first = indexes[0]
    for name, index in zip(names[1:], indexes[1:], strict=True):
        if first is None or index is None or index.equals(first):
            continue
        if len(index) == len(first) and index.sort_values().equals(first.sort_values()):
            raise InputError(
                f"{name} has the rows of {names[0]} in another order, as their indexes say: sort them alike "
                "(frame.loc[other.index]), or drop the indexes (reset_index(drop=True)) to match by position"
            )


def layout_of_table(names: tuple[str, ...], parties: Any, *, named: bool = False) -> ColumnLayout:
    """One table, cut as `parties` says: a number, sizes, or lists of column numbers or names."""
    columns = split_columns(len(names), _by_number(parties, names))
    return ColumnLayout(tuple(columns), tuple(tuple(names[j] for j in part) for part in columns), named)


def shards_of_blocks(blocks: Sequence[Any], layout: ColumnLayout) -> list[Shard]:
    """Check each party's table; all must have the same number of rows."""
    check_blocks(blocks, layout)
    parts = list(zip(layout.party_names, blocks, layout.names, strict=True))
    shards = [Shard(name, check_matrix(block, name, columns), columns) for name, block, columns in parts]
    check_same_rows(blocks, layout.party_names)
    return shards


def check_blocks(blocks: Sequence[Any], layout: ColumnLayout) -> None:
    """Refuse other parties or columns than those of the layout."""
    if len(blocks) != len(layout.columns):
        raise InputError(f"X has tables of {len(blocks)} parties: the model has {len(layout.columns)}")
    for name, block, columns in zip(layout.party_names, blocks, layout.names, strict=True):
        if block.shape[1] != len(columns) and columns:
            raise InputError(f"{name} has {block.shape[1]} columns: it had {len(columns)} when the model was fitted")
        if layout.named and hasattr(block, "columns"):
            _check_names(name, column_names(block), columns)


def tables_of_blocks(blocks: Sequence[Any], layout: ColumnLayout) -> list[ArrowTable | Shard]:
    """Each party's table of columns that are to be encoded; sparse ones are shards, which stay as they are."""
    check_blocks(blocks, layout)
    check_same_rows(blocks, layout.party_names)
    parts = zip(layout.party_names, blocks, layout.names, strict=True)
    return [_table_of(name, block, columns) for name, block, columns in parts]


def _table_of(name: str, block: Any, columns: tuple[str, ...]) -> ArrowTable | Shard:
    if sparse.issparse(block):
        return Shard(name, check_matrix(block, name, columns), columns)
    return as_table(dense(block, name, columns), columns, name)


def tables_of_one(X: Any, layout: ColumnLayout) -> list[ArrowTable | Shard]:
    """One table, cut into one for each party, whose columns are to be encoded."""
    names = [""] * layout.n_columns
    for columns, own in zip(layout.columns, layout.names, strict=True):
        for column, name in zip(columns, own, strict=True):
            names[column] = name
    whole = as_table(dense(X, "X", tuple(names)), names, "X")
    parts = zip(layout.party_names, layout.names, strict=True)
    return [ArrowTable(party, own, whole.n_rows, whole.data.select(list(own))) for party, own in parts]


def _check_names(party: str, found: tuple[str, ...], wanted: tuple[str, ...]) -> None:
    """Refuse columns of other names, or in another order, than the model was fitted with."""
    missing = [name for name in wanted if name not in found]
    if missing:
        raise InputError(f"{party} has no column {missing[0]!r}: give the columns that the model was fitted with")
    for at, (name, other) in enumerate(zip(wanted, found, strict=True)):
        if name != other:
            raise InputError(f"{party}: column {at} is {other!r}, it was {name!r} when fitted: keep the columns' order")


def shards_of_table(X: Matrix, layout: ColumnLayout) -> list[Shard]:
    """Cut one table; parties with contiguous columns of a dense table see views of it."""
    parts = zip(layout.party_names, layout.columns, layout.names, strict=True)
    return [Shard(name, check_matrix(take_columns(X, columns), name, names), names) for name, columns, names in parts]


def _by_number(parties: Any, names: tuple[str, ...]) -> Any:
    if not isinstance(parties, list | tuple) or not any(_has_text(part) for part in parties):
        return parties
    number = {name: j for j, name in enumerate(names)}
    result = []
    for k, part in enumerate(parties, start=1):
        unknown = [name for name in part if name not in number]
        if unknown:
            raise InputError(f"party {k}: X has no column {unknown[0]!r}: choose from its {len(names)} columns")
        result.append([number[name] for name in part])
    return result


def _has_text(part: Any) -> bool:
    return isinstance(part, list | tuple) and any(isinstance(name, str) for name in part)


def check_same_rows(blocks: Sequence[Any], names: Sequence[str]) -> None:
    """Refuse tables with different numbers of rows, and frames that hold the same rows in another order."""
    counts = {name: block.shape[0] for name, block in zip(names, blocks, strict=True)}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise InputError(
            f"the parties have different numbers of rows ({listed}): align them so that row i is the same sample "
            "at every party"
        )
    _check_order(blocks, names)


def own_tables(X: Any) -> Any:
    """The list or mapping in `PartyTables`; anything else as it is."""
    return X.tables if isinstance(X, PartyTables) else X


# --- Who holds which rows: one table that is dealt out to nodes, or one table for each node


Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Groups:
    """Each node's rows, their labels as given, their weights and offsets; in the order of the nodes."""

    tables: list[Matrix]
    labels: list[npt.NDArray[Any]]
    weights: list[Vector] | None
    offsets: list[Vector] | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """Rows of each node."""
        return tuple(table.shape[0] for table in self.tables)

    def shards(self, names: Sequence[str], columns: tuple[str, ...], curves: Curves = ()) -> list[Shard]:
        """The tables under the nodes' names; `curves` as in a shard."""
        return [Shard(name, table, columns, curves) for name, table in zip(names, self.tables, strict=True)]


def deal_out(
    X: Matrix, y: npt.NDArray[Any], weights: Vector | None, parties: Any, rng: Any, offset: Vector | None = None
) -> Groups:
    """Deal the rows of one table out at random: to a number of nodes, or in groups of given sizes."""
    groups = split_rows(X.shape[0], parties, rng)
    own, moved = (None if one is None else [one[rows] for rows in groups] for one in (weights, offset))
    return Groups([X[rows] for rows in groups], [y[rows] for rows in groups], own, moved)


def split_rows(n_rows: int, parties: Any, rng: Any) -> list[Rows]:
    """Which rows each node holds, at random.

    A number of parties above the number of rows gives as many nodes as there are rows.

    Raises
    ------
    InputError
        Where sizes do not add up, or a node would hold no row.
    """
    order = rng.permutation(n_rows).astype(np.int64)
    if _is_whole(parties):
        if parties < 1:
            raise InputError(f"parties={parties} is not allowed: it must be at least 1")
        return [np.sort(part) for part in np.array_split(order, min(int(parties), n_rows))]
    if isinstance(parties, str) or not hasattr(parties, "__len__") or not all(_is_whole(size) for size in parties):
        raise InputError(f"parties={show(parties)} is not allowed: give a number of parties, or a list of their sizes")
    sizes = [int(size) for size in parties]
    for number, size in enumerate(sizes, start=1):
        if size < 1:
            raise InputError(f"party {number} would hold {size} rows: each party needs at least 1")
    if sum(sizes) != n_rows:
        raise InputError(
            f"the sizes in parties={show(sizes)} sum to {sum(sizes)}: make them sum to {n_rows}, as X has {n_rows} rows"
        )
    return [np.sort(part) for part in np.split(order, np.cumsum(sizes)[:-1])]


def numbers_of_rows(table: Any) -> npt.NDArray[Any]:
    """One column: the number of each row, which stands for it until it is encoded."""
    return np.arange(table.shape[0])[:, None]


def as_given(
    X: Sequence[Any],
    y: Any,
    weights: Any,
    names: tuple[str, ...] | None,
    parties: Sequence[str],
    *,
    as_it_is: bool = False,
) -> Groups:
    """One table and one vector of labels for each node, checked; `names` are the columns where tables have them.

    With `as_it_is` the tables are left for the encoder to check, and numbers of rows stand for them.
    """
    if not isinstance(y, list | tuple) or len(y) != len(X):
        raise InputError(f"X has tables of {len(X)} parties: give y as a list with the labels of each of them")
    if weights is not None and (not isinstance(weights, list | tuple) or len(weights) != len(X)):
        raise InputError(f"X has tables of {len(X)} parties: give sample_weight as a list, with one array for each")
    tables, labels = [], []
    for party, table, own in zip(parties, X, y, strict=True):
        _check_columns(party, table, parties[0], X[0])
        tables.append(numbers_of_rows(table) if as_it_is else check_matrix(table, party, names))
        labels.append(column_or_1d(own, warn=True))
        if len(labels[-1]) != table.shape[0]:
            raise InputError(f"{party} has {len(labels[-1])} labels for {table.shape[0]} rows: give one for each row")
    return Groups(tables, labels, None)


def _check_columns(party: str, table: Any, leader: str, first: Any) -> None:
    """Refuse other columns than those of the first party."""
    if table.shape[1] != first.shape[1]:
        raise InputError(
            f"{party} has {table.shape[1]} columns and {leader} has {first.shape[1]}: "
            "all parties must have the same columns, in the same order"
        )
    if hasattr(table, "columns") and hasattr(first, "columns"):
        for own, other in zip(column_names(table), column_names(first), strict=True):
            if own != other:
                raise InputError(
                    f"{party} has column {own!r} where {leader} has {other!r}: "
                    "all parties must have the same columns, in the same order"
                )


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool | np.bool_)


# --- What fitted linear models answer, whoever trained them: labels and probabilities, or numbers


class _Scoring:
    """What the mixins need of the estimator they are part of: its loss, and a score of each row."""

    loss: Any
    _scores: Any
    _joint_coef: Any

    def _scores_at(self, X: Any, offset: Any, exposure: Any = None) -> Vector:
        """Score of each row, with its offset."""
        scores = np.asarray(self._scores(X))
        loss = of_classes(get_loss(self.loss), 1 if scores.ndim == 1 else scores.shape[1])
        more = checked_offset(offset, exposure, len(scores), loss)
        return scores if more is None else scores + more


class LinearClassifierMixin(ClassifierMixin, _Scoring):
    """Predictions of a classifier with two classes, or with more where the loss is the logistic one."""

    classes_: npt.NDArray[Any]
    class_weight: Any = None
    costs: Any = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = isinstance(get_loss(self.loss), Logistic)
        return tags

    def _encode(self, labels: npt.NDArray[Any]) -> Vector:
        encoded, self.classes_ = encode_classes(labels)
        check_costs(self.costs, self._loss_of(), self.class_weight)
        return encoded

    def _loss_of(self) -> Loss:
        """The loss for as many classes as the labels have."""
        return of_classes(asked_loss(self), len(self.classes_))

    def _with_class_weights(self, weights: Vector | None, encoded: Vector) -> Vector | None:
        return with_class_weights(weights, encoded, self.class_weight, self.classes_)

    def _set_model(self, result: Any) -> None:
        several = len(self.classes_) > 2
        coef = self._joint_coef(result)
        self.coef_ = coef if several else coef[None, :]
        self.intercept_ = result.model.intercept if several else np.array([result.model.intercept])

    def decision_function(self, X: Any, offset: Any = None) -> Vector:
        """Score of each row: positive means the second class. Of more than two classes, a column for each."""
        return self._scores_at(X, offset)

    def predict(self, X: Any, offset: Any = None) -> npt.NDArray[Any]:
        """Label of each row."""
        scores = self._scores_at(X, offset)
        positive = scores > score_threshold(self.costs)
        return np.asarray(self.classes_[positive.astype(int) if scores.ndim == 1 else scores.argmax(axis=1)])

    @available_if(lambda self: get_loss(self.loss).log_odds)
    def predict_proba(self, X: Any, offset: Any = None) -> Vector:
        """Probability of each class; for losses whose best score is the log odds."""
        scores = self._scores_at(X, offset)
        if scores.ndim > 1:
            return np.asarray(softmax(scores, axis=1))
        positive = expit(scores)
        return np.column_stack([1 - positive, positive])

    @available_if(lambda self: get_loss(self.loss).log_odds)
    def predict_log_proba(self, X: Any, offset: Any = None) -> Vector:
        """Logarithm of the probability of each class; for losses whose best score is the log odds."""
        scores = self._scores_at(X, offset)
        if scores.ndim > 1:
            return np.asarray(log_softmax(scores, axis=1))
        return -np.column_stack([np.logaddexp(0, scores), np.logaddexp(0, -scores)])


class LinearRegressorMixin(RegressorMixin, _Scoring):
    """Predictions of a regression."""

    quantile: Any = None
    power: Any = None
    dispersion: Any = None

    def _loss_of(self) -> Loss:
        return asked_loss(self)

    def _with_class_weights(self, weights: Vector | None, encoded: Vector) -> Vector | None:
        return weights

    def predict(self, X: Any, offset: Any = None, exposure: Any = None) -> Vector:
        """Prediction for each row; without `offset` and `exposure` they are 0 and 1, also where the fit had others."""
        scores = self._scores_at(X, offset, exposure)
        if get_loss(self.loss).task != "counts":
            return scores
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(scores))


# --- A fit that fails


@contextmanager
def unchanged_on_failure(estimator: Any) -> Iterator[None]:
    """Around a fit: where it fails or is interrupted, the estimator is what it was before."""
    before = dict(estimator.__dict__)
    try:
        yield
    except BaseException:
        estimator.__dict__.clear()
        estimator.__dict__.update(before)
        raise


# --- How large tables are


def nbytes_of(matrix: Any) -> int:
    """Bytes of a party's columns, in whatever form."""
    if isinstance(matrix, OwnColumns):
        return nbytes_of(matrix.coded) + matrix.raw.nbytes
    if sparse.issparse(matrix):
        return int(matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes)
    return int(matrix.nbytes)
