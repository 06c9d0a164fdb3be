"""predictions = "label-holder": the label holder's exact fit treats its rows as its private fit did."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from tacit import Privacy
from tacit.blocks.dense import RowClip
from tacit.run.result import Result
from tacit.run.star import Run
from tacit.types import Shard, Vector
from tests.plans import feature_plan

ROWS = 1500


def heavy(seed: int = 0) -> tuple[Vector, Vector, Vector]:
    """Amounts of which a few are huge and say nothing about the label, as codes and wrong entries in credit files."""
    rng = np.random.default_rng(seed)
    own, other = rng.normal(size=(ROWS, 4)), rng.normal(size=(ROWS, 3))
    score = 2 * own[:, 0] - 2 * own[:, 1] + 1.5 * other[:, 0]
    labels = np.where(score + rng.logistic(size=ROWS) > 0, 1.0, -1.0)
    long = rng.random(ROWS) < 0.03
    own[long] *= rng.uniform(20, 60, size=(int(long.sum()), 1)) * rng.choice([-1, 1], size=(int(long.sum()), 1))
    return own, other, labels


def train(own: object, other: Vector, labels: Vector, predictions: str) -> Result:
    plan = feature_plan(
        loss="logistic", penalty="l2", alpha=1e-4, fit_intercept=True, method="auto", rho="auto", max_rounds=10,
        tol=1e-6, privacy=Privacy(epsilon=4.0, protect="everyone", row_norm=3.0, predictions=predictions, noise_seed=1),
        party_names=("bank", "shop"), rows=len(labels), input_bytes=0, columns=(4, 3),
    )  # fmt: skip
    return Run(plan, [Shard("bank", own), Shard("shop", other)], labels).go()


def log_loss(result: Result, own: object, other: Vector, labels: Vector) -> float:
    scores = result.model.scores([Shard("bank", own), Shard("shop", other)])
    return float(np.mean(np.logaddexp(0, -labels * scores)))


def test_long_rows_do_not_make_the_exact_fit_worse_than_the_noisy_one() -> None:
    """Rows of the training data that are long bent the exact fit; on new rows it lost to the fit with noise."""
    (own, other, labels), new = heavy(), heavy(1)
    noisy, exact = (train(own, other, labels, who) for who in ("anyone", "label-holder"))
    assert log_loss(exact, *new) <= log_loss(noisy, *new) + 0.005


def test_one_huge_row_neither_stops_the_run_nor_changes_the_exact_fit_much() -> None:
    """Whether a run ends with an error told of one row."""
    own, other, labels = heavy()
    huge = own.copy()
    huge[7] = 1e200
    results = [train(rows, other, labels, "label-holder") for rows in (own, huge)]
    assert results[0].model.parts[0].coef == pytest.approx(results[1].model.parts[0].coef, abs=0.2)


def test_rows_to_predict_are_clipped_as_in_training() -> None:
    own, other, labels = heavy()
    part = train(own, other, labels, "label-holder").model.parts[0]
    assert part.clip is not None
    longer = part.score(np.array([[1e6, -1e6, 0, 0], [1e7, -1e7, 0, 0]]))
    assert longer[0] == pytest.approx(longer[1])


def test_sparse_rows_are_clipped_too_and_stay_sparse() -> None:
    own, other, labels = heavy()
    result = train(sparse.csr_array(own), other, labels, "label-holder")
    clip = result.model.parts[0].clip
    assert clip is not None
    assert clip.centre is None
    new = heavy(1)
    noisy = train(own, other, labels, "anyone")
    assert log_loss(result, *new) <= log_loss(noisy, *new) + 0.02


def test_the_exact_constant_stays_in_the_part_of_the_label_holder() -> None:
    """What belongs to no single party is told to all: it must not hold the exact constant."""
    own, other, labels = heavy()
    shifted = np.where(np.random.default_rng(3).random(ROWS) < 0.3, 1.0, labels)
    rows = np.zeros_like(own)  # nothing but the constant is left to fit
    one, two = (train(rows, other, y, "label-holder") for y in (labels, shifted))
    assert one.model.parts[0].constant != pytest.approx(two.model.parts[0].constant, abs=0.05)
    assert one.model.parts[0].constant == pytest.approx(0.0, abs=0.3)
    assert abs(one.model.constant) < 1.0


@pytest.mark.parametrize("centre", [None, np.array([0.5, -0.5])])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_clipped_rows_as_a_matrix_are_those_of_the_products(centre: Vector | None, kind: type) -> None:
    rows = np.array([[1.0, 0.0], [0.0, 0.2], [1e300, 1.0], [30.0, -4.0]])
    clipped = RowClip(2.0, centre, 1.0 if centre is not None else np.inf).apply(kind(rows))
    matrix = clipped.matrix()
    assert sparse.issparse(matrix) is (kind is sparse.csr_array and centre is None)
    for x in (np.array([1.0, 0.0]), np.array([0.3, -2.0])):
        assert matrix @ x == pytest.approx(clipped.predict(x))
