"""The comparison on five sets: who holds which rows, what counts as better, and that no row is longer than is said."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from bench.graph_sets import BETTER, NODES, SAME, WORSE, Judged, Measured, _count, held, verdict, with_constant
from bench.sets import adult, raetsch


@pytest.mark.parametrize("spread", ["even", "skewed labels", "sizes 1:20"])
def test_every_row_is_held_once(spread):
    y = np.random.default_rng(0).choice([-1.0, 1.0], 2100)
    parts = held(y, spread, 3)
    assert len(parts) == NODES
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(2100))
    sizes, means = [len(part) for part in parts], [float(y[part].mean()) for part in parts]
    if spread == "sizes 1:20":
        assert sizes == sorted(sizes)
        assert sizes[-1] == 20 * sizes[0] == 400
    else:
        assert max(sizes) - min(sizes) <= 1
    assert (means[-1] - means[0] > 1.2) is (spread == "skewed labels")


def test_better_is_more_than_chance_and_accuracy_counts_upwards():
    rng = np.random.default_rng(0)
    rival = np.column_stack([0.5 + 0.01 * rng.normal(size=20), 0.8 + 0.01 * rng.normal(size=20)])
    own = rival + 0.01 * rng.normal(size=rival.shape)
    for gain, expected in ((-0.1, (BETTER, WORSE)), (0.1, (WORSE, BETTER))):
        assert tuple(verdict(Measured(own + gain), Measured(rival), which) for which in (0, 1)) == expected
    close = rival + 0.01 * np.array([1.0, -1.0] * 10)[:, None]
    assert verdict(Measured(close), Measured(rival), 0) == SAME


def test_where_ours_is_not_as_good_is_said_by_name():
    rows = [Judged("one", "", 0.1, verdicts=(BETTER, SAME)), Judged("two", "", 0.1, verdicts=(WORSE, BETTER))]
    said = _count(list(rows)).measured
    assert said == (
        "log loss: better in 1, level in 0, NOT AS GOOD in 1 (two); accuracy: better in 1, level in 1, NOT AS GOOD in 0"
    )


def test_no_row_of_the_rival_is_longer_than_its_account():
    X = 5 * np.random.default_rng(0).normal(size=(50, 4))
    for one in (X, sparse.csr_array(X)):
        rows = with_constant(one, 2.0)
        rows = rows.toarray() if sparse.issparse(rows) else rows
        norms = np.linalg.norm(rows, axis=1)
        assert norms.max() == pytest.approx(1.0)
        assert rows.shape == (50, 5)


def test_adult_is_within_its_public_bounds():
    found = adult()
    if found.missing:
        pytest.skip("adult is not at hand")
    X, y, X_test, y_test = found.split(0)
    assert (X.shape, X_test.shape) == ((32561, 105), (16281, 105))
    assert ((y > 0).sum(), (y_test > 0).sum()) == (7841, 3846)
    for rows in (X, X_test):
        assert rows.min() >= 0.0
        assert rows.max() <= 1.0
        assert np.sqrt(rows.multiply(rows).sum(axis=1).max()) <= found.row_norm


def test_splits_are_seventy_to_thirty_and_differ():
    found = raetsch("german")
    X, y, X_test, y_test = found.split(0)
    assert (len(y), len(y_test)) == (700, 300)
    assert X.shape[1] == X_test.shape[1] == 20
    assert not np.array_equal(y_test, found.split(1)[3])
