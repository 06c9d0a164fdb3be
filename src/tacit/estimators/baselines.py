"""Baselines with the same interface: all data together, and one party alone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from scipy import sparse
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone

from tacit.data.partition import take_columns
from tacit.errors import InputError
from tacit.estimators.base import (
    column_names,
    in_order,
    is_block_list,
    layout_of_blocks,
    layout_of_table,
    names_of,
    numbered,
    own_tables,
)
from tacit.estimators.encoding import as_table, column_of, is_frame, is_plain, joined
from tacit.text import listing, nearest, show

E = TypeVar("E", bound=BaseEstimator)


def pooled(estimator: E) -> _View:
    """The same model trained as if one party held every column."""
    return _View(estimator, party=None)


def alone(estimator: E, party: int | str) -> _View:
    """The same model trained by one party, by number (0, 1, ...) or by name, on its own columns and the labels."""
    return _View(estimator, party=party)


def columns_of(X: Any, columns: Any) -> Any:
    """Some columns of one table."""
    if isinstance(X, pa.Table):
        return X.select(columns.tolist())
    return X.iloc[:, columns] if hasattr(X, "iloc") else X[:, columns] if is_frame(X) else take_columns(X, columns)


def _side_by_side(tables: Sequence[Any]) -> Any:
    """The columns of all tables, as one: a frame where all are frames whose columns have different names."""
    if any(sparse.issparse(table) for table in tables):
        return sparse.hstack(tables, format="csr")
    names = [column_names(table) for table in tables]
    if not all(is_frame(table) for table in tables) or (
        all(map(is_plain, tables, names)) and len(set(chain(*names))) < len(list(chain(*names)))
    ):
        return np.hstack([np.asarray(table) for table in tables])
    return joined([as_table(table, own, "X") for table, own in zip(tables, names, strict=True)])


class _View(MetaEstimatorMixin, BaseEstimator):
    """An estimator that sees all columns as one party's, or only one party's columns."""

    def __init__(self, estimator: Any, party: int | str | None = None) -> None:
        self.estimator = estimator
        self.party = party

    def fit(self, X: Any, y: Any, **fit_params: Any) -> _View:
        """Train on what this baseline may see."""
        self._names = names_of(own_tables(X)) or ()
        seen = self._seen(X)
        self.estimator_ = clone(self.estimator).set_params(parties=1, privacy=None)  # nobody to keep a secret from
        self.estimator_.set_params(**self._wishes(column_names(seen) if hasattr(seen, "shape") else ()))
        self.estimator_.fit(seen, y, **fit_params)
        return self

    def _wishes(self, names: Sequence[str]) -> dict[str, Any]:
        """What the estimator was told about columns, of those that are seen here."""
        return {
            key: {name: said for name, said in (getattr(self.estimator, key) or {}).items() if column_of(name, names)}
            for key in ("ranges", "categories")
            if getattr(self.estimator, key, None)
        }

    def _seen(self, X: Any) -> Any:
        X = own_tables(X)
        X = in_order(X, self._names) if names_of(X) else X
        if self.party is None:
            return _side_by_side(X) if is_block_list(X) else X
        if is_block_list(X):
            layout, tables = layout_of_blocks(X), X
        else:
            layout = layout_of_table(column_names(X), self.estimator.parties)
            tables = [columns_of(X, columns) for columns in layout.columns]
        party = self._checked(len(tables))
        if self._wishes(layout.names[party]):  # which are by the names that columns have among all
            return as_table(tables[party], layout.names[party], "X").data
        return tables[party]

    def _checked(self, parties: int) -> int:
        names = self._names or numbered(parties)
        if isinstance(self.party, str):
            if self.party not in names:
                near = nearest(self.party, names)
                raise InputError(f"there is no party {show(self.party)}{near}: the parties are {listing(names)}")
            return names.index(self.party)
        if self.party is None or not 0 <= self.party < parties:
            raise InputError(f"party={self.party!r} is not allowed: the parties are 0 to {parties - 1}")
        return self.party

    def predict(self, X: Any) -> Any:
        """Prediction for each row."""
        return self.estimator_.predict(self._seen(X))

    def predict_proba(self, X: Any) -> Any:
        """Probability of each class."""
        return self.estimator_.predict_proba(self._seen(X))

    def decision_function(self, X: Any) -> Any:
        """Score of each row."""
        return self.estimator_.decision_function(self._seen(X))

    def score(self, X: Any, y: Any) -> float:
        """The estimator's own score."""
        return float(self.estimator_.score(self._seen(X), y))

    def __getattr__(self, name: str) -> Any:
        """Learned attributes (coef_, trace_, ...) are the inner estimator's."""
        if name.startswith("__") or name == "estimator_" or not name.endswith("_"):
            raise AttributeError(name)
        return getattr(self.estimator_, name)
