"""Labels of more than two classes under randomized response: the law of the coins, and what may depend on labels."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_iris
from sklearn.preprocessing import scale

from tacit import InputError, Privacy, VerticalClassifier, VerticalRegressor
from tacit.mechanisms.base import COORDINATOR, LABELS
from tacit.plan import FeatureSplit, Plan, TrainingRequest, make_plan
from tacit.privacy.releases import MOST_SYMBOLS, AllowedResponse, Releaser
from tacit.privacy.verify import verify
from tacit.problem.losses import Softmax
from tacit.run.star import Run
from tacit.types import Shard

ROWS, CLASSES = 120, 3


def plan_of(epsilon: float, classes: int = CLASSES, rows: int = ROWS, seed: int | None = 7) -> Plan:
    request = TrainingRequest(
        loss=Softmax(classes), penalty="l2", alpha=0.1, fit_intercept=True, tol=1e-6,
        privacy=Privacy(epsilon=None, label_epsilon=epsilon, noise_seed=seed),
    )  # fmt: skip
    return make_plan(request, FeatureSplit(("bank", "shop"), rows=rows, columns=(2, 2)))


def data(rows: int = ROWS, classes: int = CLASSES) -> tuple[list[Shard], np.ndarray]:
    rng = np.random.default_rng(0)
    tables = [rng.normal(size=(rows, 2)) for _ in range(2)]
    labels = np.digitize(tables[0][:, 0] + 0.3 * rng.normal(size=rows), [-0.4, 0.4]).astype(np.float64)
    return [Shard(name, own, ("a", "b")) for name, own in zip(("bank", "shop"), tables, strict=True)], labels


def responses(planned: AllowedResponse, truth: np.ndarray, seed: int) -> np.ndarray:
    return Releaser([planned], "bank", seed).respond(planned.name, truth)


@pytest.mark.parametrize("classes", [3, 4, 7])
def test_each_class_comes_out_as_often_as_the_theorem_says(classes: int) -> None:
    epsilon, rows = 1.2, 60_000
    truth = np.arange(rows) % classes
    out = responses(AllowedResponse("y", epsilon, classes), truth, 1)
    keep = math.exp(epsilon) / (math.exp(epsilon) + classes - 1)
    for turn in range(classes):
        chance = keep if turn == 0 else (1 - keep) / (classes - 1)
        found = int(np.sum(out == (truth + turn) % classes))
        assert stats.binomtest(found, rows, chance).pvalue > 1e-6


@pytest.mark.parametrize("classes", [2, 3, 5, 6, 7, 10, 100, 1000, MOST_SYMBOLS - 1])
@pytest.mark.parametrize("epsilon", [0.001, 0.5, 1.0, 8.0, 40.0, 800.0])
def test_redraws_are_often_enough_for_the_least_likely_class(classes: int, epsilon: float) -> None:
    """In whole numbers: r (1 + u (e^eps - 1)) >= 1 for the rarest class u of the draw, e^eps rounded up."""
    planned = AllowedResponse("y", epsilon, classes)
    r = Fraction(planned.redraw)
    uneven = classes & (classes - 1) != 0
    u = Fraction(1, classes) - (Fraction(3, 2**52) if uneven else 0)
    factor = Fraction(math.exp(min(epsilon, 700.0))) * (1 - Fraction(1, 10**15))  # the proof needs e^eps at least this
    assert r == 1 or r * (1 + u * (factor - 1)) >= 1
    assert r * (1 + u * (factor - 1)) <= 1 + Fraction(1, 10**8) or r == 1  # and no more noise than that


def test_draws_of_classes_are_within_the_slack_of_the_proof() -> None:
    """At every border of the draw, the products that may be rounded to the other side are at most one on each side."""
    for classes in (3, 5, 6, 7, 10, 999):
        for j in range(1, classes):
            border = (j * 2**52) // classes
            near = np.array([2 * k + 1 for k in range(border - 3, border + 4)], dtype=np.float64) * 2.0**-53
            exact = [(2 * k + 1) * classes // 2**53 for k in range(border - 3, border + 4)]
            assert np.sum(np.floor(near * classes) != exact) <= 1


def epsilon_of(planned: AllowedResponse, rows: int = 40_000) -> float:
    """A lower bound on epsilon, at error 1e-6: how often a class comes out where it is true, and where it is not."""
    same = int(np.sum(responses(planned, np.zeros(rows, dtype=np.int64), 3) == 0))
    other = int(np.sum(responses(planned, np.ones(rows, dtype=np.int64), 4) == 0))
    low = stats.binomtest(same, rows).proportion_ci(1 - 1e-6, "exact").low
    high = stats.binomtest(other, rows).proportion_ci(1 - 1e-6, "exact").high
    return math.log(low / high)


def test_half_the_noise_is_caught() -> None:
    planned = AllowedResponse("y", 1.0, CLASSES)
    assert epsilon_of(planned) <= 1.0

    class Half(AllowedResponse):
        @property
        def redraw(self) -> float:
            return super().redraw / 2

    assert epsilon_of(Half("y", 1.0, CLASSES)) > 1.0


def test_the_plan_the_certificate_and_the_release_say_the_same() -> None:
    plan = plan_of(1.5)
    assert plan.private is not None
    assert plan.private.releases == {COORDINATOR: (AllowedResponse(LABELS, 1.5, CLASSES),)}
    record = json.loads(plan.certificate().to_json())
    assert record["epsilon"] == pytest.approx(1.5)
    assert "theorem 7" in record["theorem"]
    assert verify(plan.certificate().to_json()).agrees
    assert any("each of 3 classes" in line for line in record["does_not_cover"])
    assert isinstance(plan.problem.loss, Softmax)
    assert plan.problem.loss.epsilon == 1.5


def said(plan: Plan, shards: list[Shard], labels: np.ndarray, released: np.ndarray) -> list[np.ndarray]:
    """All that leaves in a run whose randomized labels are given: the broadcasts, answers and the model."""
    run = Run(plan, shards, labels)
    run.coordinator.labels = released
    run.coordinator.side = run.coordinator._make_side()
    told: list[np.ndarray] = []
    engine = run.engine.exchange

    def exchange(message):
        answers = engine(message)
        told.extend(array for one in (message, *answers) for array in one.arrays.values())
        return answers

    run.engine.exchange = exchange
    model = run.go().model
    return [*told, model.coef, np.asarray(model.constant)]


def test_nothing_depends_on_a_label_but_by_its_randomized_form() -> None:
    """The neighbour test: another label, the same coins."""
    shards, labels = data()
    other = labels.copy()
    other[0] = (other[0] + 1) % CLASSES
    plan = plan_of(2.0)
    released = Run(plan, shards, labels).coordinator.labels
    first, second = said(plan, shards, labels, released), said(plan, shards, other, released)
    assert len(first) == len(second) > 20
    for one, two in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, two)


def test_a_run_goes_on_with_the_same_labels() -> None:
    shards, labels = data()
    plan = plan_of(1.0, seed=None)
    run = Run(plan, shards, labels)
    for _ in range(3):
        run.exchange()
    again = Run(plan, shards, labels)
    again.restore(run.snapshot(), replace(run.state))
    np.testing.assert_array_equal(again.coordinator.labels, run.coordinator.labels)
    one, two = run.go().model, again.go().model
    np.testing.assert_allclose(one.coef, two.coef, atol=1e-5)  # rounding may end one of them a round earlier


def test_a_large_epsilon_is_the_fit_of_true_labels_and_a_small_one_is_unbiased() -> None:
    X, y = load_iris(return_X_y=True)
    X = scale(X)
    plain = VerticalClassifier(alpha=0.1, tol=1e-8).fit(X, y)
    sure = VerticalClassifier(alpha=0.1, tol=1e-8, privacy=Privacy(epsilon=None, label_epsilon=50.0)).fit(X, y)
    np.testing.assert_allclose(sure.coef_, plain.coef_, atol=1e-4)
    many, labels = np.tile(X, (40, 1)), np.tile(y, 40)
    asked = Privacy(epsilon=None, label_epsilon=1.0, noise_seed=5)
    noisy = VerticalClassifier(alpha=0.1, tol=1e-8, privacy=asked).fit(many, labels)
    coins = responses(AllowedResponse("y", 1.0, CLASSES), labels, 5)
    naive = VerticalClassifier(alpha=0.1, tol=1e-8).fit(many, coins)
    away = [float(np.linalg.norm(one.coef_ - plain.coef_)) for one in (noisy, naive)]
    assert away[0] < away[1] / 3
    assert noisy.score(X, y) > 0.8


def test_what_no_proof_covers_is_refused() -> None:
    for symbols in (1, MOST_SYMBOLS + 1):
        with pytest.raises(InputError, match="symbols="):
            AllowedResponse("y", 1.0, symbols)
    X, y = load_iris(return_X_y=True)
    with pytest.raises(InputError, match="does not fit label_epsilon with more than two classes"):
        VerticalClassifier(privacy=Privacy(epsilon=1.0, label_epsilon=1.0)).fit(X, y)
    with pytest.raises(InputError, match="no lower bound"):
        VerticalClassifier(penalty="none", privacy=Privacy(epsilon=None, label_epsilon=1.0)).fit(X, y)
    with pytest.raises(InputError):
        VerticalRegressor(privacy=Privacy(epsilon=None, label_epsilon=1.0)).fit(X, y)
