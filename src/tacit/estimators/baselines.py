"""Baselines with the same interface: all data together, and one party alone."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone

from tacit.data.partition import take_columns
from tacit.errors import InputError
from tacit.estimators.base import column_names, in_order, is_block_list, layout_of_table, names_of
from tacit.estimators.encoding import as_table, is_frame, joined
from tacit.estimators.party_tables import own_tables

E = TypeVar("E", bound=BaseEstimator)


def pooled(estimator: E) -> _View:
    """The same model trained as if one party held every column."""
    return _View(estimator, party=None)


def alone(estimator: E, party: int) -> _View:
    """The same model trained by one party (0, 1, ...) on its own columns and the labels."""
    return _View(estimator, party=party)


class _View(MetaEstimatorMixin, BaseEstimator):
    """An estimator that sees all columns as one party's, or only one party's columns."""

    def __init__(self, estimator: Any, party: int | None = None) -> None:
        self.estimator = estimator
        self.party = party

    def fit(self, X: Any, y: Any, **fit_params: Any) -> _View:
        """Train on what this baseline may see."""
        self._names = names_of(own_tables(X)) or ()
        self.estimator_ = clone(self.estimator).set_params(parties=1, privacy=None)  # nobody to keep a secret from
        self.estimator_.fit(self._seen(X), y, **fit_params)
        return self

    def _seen(self, X: Any) -> Any:
        X = own_tables(X)
        X = in_order(X, self._names) if names_of(X) else X
        if is_block_list(X):
            if self.party is None:
                if all(is_frame(block) for block in X):
                    return joined([as_table(block, column_names(block), "X") for block in X])
                if any(sparse.issparse(block) for block in X):
                    return sparse.hstack(X, format="csr")
                return np.hstack([np.asarray(block) for block in X])
            return X[self._checked(len(X))]
        if self.party is None:
            return X
        layout = layout_of_table(column_names(X), self.estimator.parties)
        columns = layout.columns[self._checked(len(layout.columns))]
        return X.iloc[:, columns] if hasattr(X, "iloc") else take_columns(X, columns)

    def _checked(self, parties: int) -> int:
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
