"""Measures and curves, against scikit-learn and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ks_2samp
from sklearn import metrics

from tacit.run.measures import (
    GROUPS,
    MOST_POINTS,
    WIDE,
    calibration,
    deciles,
    estimates,
    headline,
    intervals,
    measure,
    roc,
    spread,
)


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
    assert found["gini"] == pytest.approx(2 * metrics.roc_auc_score(labels, scores) - 1)
    assert found["ks"] == pytest.approx(ks_2samp(scores[labels > 0], scores[labels < 0]).statistic)
    assert found["pr_auc"] == pytest.approx(metrics.average_precision_score(labels, scores))
    assert found["brier"] == pytest.approx(metrics.brier_score_loss(labels > 0, probability))
    base = metrics.log_loss(labels, np.full(5000, np.mean(labels > 0)))
    assert found["skill"] == pytest.approx(1 - found["log_loss"] / base)
    top = np.argsort(-scores)[:500]
    assert found["lift"] == pytest.approx(np.mean(labels[top] > 0) / np.mean(labels > 0))
    assert set(measure(scores, labels, "hinge")) == {
        "auc", "gini", "ks", "pr_auc", "lift", "accuracy", "base_rate",
    }  # fmt: skip
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
    assert counts["d2"] == pytest.approx(metrics.d2_tweedie_score(labels, np.exp(scores), power=1))
    assert "r2" not in measure(scores, np.ones(200), "squared")
    assert [headline(one) for one in (found, counts)] == ["r2", "deviance"]


def test_ties_are_measured_as_sklearn_does() -> None:
    rng = np.random.default_rng(2)
    scores = rng.integers(0, 4, size=300).astype(float)
    labels = np.where(scores + rng.normal(size=300) > 2, 1.0, -1.0)
    found = measure(scores, labels, "logistic")
    assert found["auc"] == pytest.approx(metrics.roc_auc_score(labels, scores))
    assert found["pr_auc"] == pytest.approx(metrics.average_precision_score(labels, scores))
    order = rng.permutation(300)
    assert deciles(scores[order], labels[order]) == [pytest.approx(one) for one in deciles(scores, labels)]
    assert measure(scores[order], labels[order], "logistic") == pytest.approx(found)


@pytest.mark.parametrize("loss", ["logistic", "squared", "poisson"])
def test_errors_are_those_of_leaving_one_row_out(loss: str) -> None:
    """The jackknife by brute force: every measure again without each of the rows; KS and lift have kinks."""
    rng = np.random.default_rng(3)
    scores = rng.normal(size=300) / (1 if loss == "logistic" else 2)
    drawn = {
        "logistic": lambda: np.where(scores + rng.logistic(size=300) > 0.7, 1.0, -1.0),
        "squared": lambda: scores + rng.normal(size=300),
        "poisson": lambda: rng.poisson(np.exp(scores)).astype(float),
    }
    labels = drawn[loss]()
    found = estimates(scores, labels, loss)
    left = [measure(np.delete(scores, k), np.delete(labels, k), loss) for k in range(300)]
    for name, one in found.items():
        values = np.array([own[name] for own in left])
        brute = np.sqrt(299 / 300 * np.sum((values - values.mean()) ** 2))
        near = 0.35 if name in ("ks", "lift") else 0.05
        assert one.error == pytest.approx(brute, rel=near), name
        assert one.influence.sum() == pytest.approx(0, abs=1e-9), name


def test_the_error_of_the_auc_is_that_of_delong() -> None:
    rng = np.random.default_rng(4)
    scores = np.round(rng.normal(size=90), 1)
    labels = np.where(scores + rng.logistic(size=90) > 0, 1.0, -1.0)
    above, below = scores[labels > 0], scores[labels < 0]
    wins = (above[:, None] > below) + 0.5 * (above[:, None] == below)
    variance = wins.mean(axis=1).var(ddof=1) / len(above) + wins.mean(axis=0).var(ddof=1) / len(below)
    assert estimates(scores, labels, "hinge")["auc"].error == pytest.approx(np.sqrt(variance), rel=0.02)


def test_intervals_hold_the_value_and_stay_in_their_range() -> None:
    rng = np.random.default_rng(5)
    scores = 3 * rng.normal(size=60)
    labels = np.where(scores + rng.logistic(size=60) > 0, 1.0, -1.0)
    found, pairs = measure(scores, labels, "logistic"), intervals(scores, labels, "logistic")
    assert set(pairs) == set(found)
    assert all(low < found[name] < high for name, (low, high) in pairs.items())
    assert all(pairs[name][0] >= 0 and pairs[name][1] <= 1 for name in ("auc", "ks", "pr_auc", "accuracy"))
    numbers = scores + rng.normal(size=60)
    error = np.abs(scores - numbers)
    low, high = intervals(scores, numbers, "squared")["mae"]
    assert np.sqrt(low * high) == pytest.approx(error.mean())  # the usual error of a mean, on the log scale
    assert np.log(high / low) == pytest.approx(2 * WIDE * error.std(ddof=1) / np.sqrt(60) / error.mean())


def test_no_interval_where_nothing_is_known() -> None:
    scores = np.arange(40.0) - 20
    perfect = np.where(scores > 0, 1.0, -1.0)
    pairs = intervals(scores, perfect, "logistic")
    assert "auc" not in pairs  # no row was ranked wrongly: the method has nothing to go by
    assert pairs["accuracy"][0] < 0.95
    assert intervals(scores[:9], perfect[:9], "logistic") == {}
    few = np.where(np.arange(40) < 3, 1.0, -1.0)
    assert set(intervals(scores, few, "logistic")) == {"accuracy", "base_rate"}
    assert "base_rate" in measure(scores, np.ones(40), "logistic")
    assert deciles(scores, np.ones(40)) == []
    assert intervals(scores, np.full(40, np.nan), "squared") == {}


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
