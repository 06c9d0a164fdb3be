"""Measures and curves, against scikit-learn and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics

from tacit.run.measures import GROUPS, MOST_POINTS, calibration, measure, roc, spread


@pytest.fixture
def scored() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    scores = 2 * rng.normal(size=5000)
    return scores, np.where(scores + rng.logistic(size=5000) > 0, 1.0, -1.0)


def test_measures_of_classes_are_those_of_sklearn(scored: tuple[np.ndarray, np.ndarray]) -> None:
    scores, labels = scored
    found = measure(scores, labels, "logistic")
    probability = 1 / (1 + np.exp(-scores))
    assert found["auc"] == pytest.approx(metrics.roc_auc_score(labels, scores))
    assert found["accuracy"] == pytest.approx(metrics.accuracy_score(labels > 0, scores > 0))
    assert found["log_loss"] == pytest.approx(metrics.log_loss(labels, probability))
    assert set(measure(scores, labels, "hinge")) == {"auc", "accuracy"}
    assert "auc" not in measure(scores, np.ones(5000), "hinge")


def test_measures_of_numbers_are_those_of_sklearn() -> None:
    rng = np.random.default_rng(1)
    labels, scores = rng.poisson(3, size=200).astype(float), rng.normal(size=200)
    found = measure(scores, labels, "squared")
    assert found["r2"] == pytest.approx(metrics.r2_score(labels, scores))
    assert found["rmse"] == pytest.approx(metrics.root_mean_squared_error(labels, scores))
    assert found["mae"] == pytest.approx(metrics.mean_absolute_error(labels, scores))
    counts = measure(scores, labels, "poisson")
    assert counts["deviance"] == pytest.approx(metrics.mean_poisson_deviance(labels, np.exp(scores)))
    assert "r2" not in measure(scores, np.ones(200), "squared")


def test_thinned_curve_has_the_same_area(scored: tuple[np.ndarray, np.ndarray]) -> None:
    scores, labels = scored
    false, true = roc(scores, labels)
    assert len(false) <= MOST_POINTS
    assert (false[0], true[0], false[-1], true[-1]) == (0.0, 0.0, 1.0, 1.0)
    assert metrics.auc(false, true) == pytest.approx(metrics.roc_auc_score(labels, scores), abs=3e-3)
    assert roc(scores, np.ones(5000)) == []


def test_groups_of_true_probabilities_are_right(scored: tuple[np.ndarray, np.ndarray]) -> None:
    scores, labels = scored
    groups = calibration(scores, labels, "logistic")
    assert [group["rows"] for group in groups] == [5000 // GROUPS] * GROUPS
    assert all(abs(group["predicted"] - group["observed"]) < 0.08 for group in groups)
    shifted = calibration(scores + 2, labels, "logistic")
    assert any(group["predicted"] - group["observed"] > 0.2 for group in shifted)
    assert calibration(scores, labels, "hinge") == []
    assert calibration(scores[:15], labels[:15], "logistic") == []
    numbers = calibration(np.arange(100.0), 2 * np.arange(100.0), "squared")
    assert numbers[0] == {"predicted": 4.5, "observed": 9.0, "rows": 10}


def test_spread() -> None:
    found = spread(np.arange(101.0))
    assert found["quantiles"] == [5.0, 25.0, 50.0, 75.0, 95.0]
    assert found["deviation"] == pytest.approx(np.arange(101).std())
