"""What fitted linear models answer, whoever trained them: labels and probabilities, or numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if

from tacit.problem.registry import get_loss
from tacit.types import Vector


class _Scoring:
    """What a face needs of the estimator behind it: its loss, and a score of each row."""

    loss: Any
    _scores: Any


class BinaryFace(ClassifierMixin, _Scoring):
    """Predictions of a classifier with two classes."""

    classes_: npt.NDArray[Any]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def decision_function(self, X: Any) -> Vector:
        """Score of each row: positive means the second class."""
        return np.asarray(self._scores(X))

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Label of each row."""
        scores = self._scores(X)
        return np.asarray(self.classes_[(scores > 0).astype(int)])

    @available_if(lambda self: get_loss(self.loss).log_odds)
    def predict_proba(self, X: Any) -> Vector:
        """Probability of each class; for losses whose best score is the log odds."""
        positive = expit(self._scores(X))
        return np.column_stack([1 - positive, positive])

    @available_if(lambda self: get_loss(self.loss).log_odds)
    def predict_log_proba(self, X: Any) -> Vector:
        """Logarithm of the probability of each class; for losses whose best score is the log odds."""
        scores = self._scores(X)
        return -np.column_stack([np.logaddexp(0, scores), np.logaddexp(0, -scores)])


class RegressionFace(RegressorMixin, _Scoring):
    """Predictions of a regression."""

    def predict(self, X: Any) -> Vector:
        """Prediction for each row."""
        scores = np.asarray(self._scores(X))
        if get_loss(self.loss).task != "counts":
            return scores
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(scores))
