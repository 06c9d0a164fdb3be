"""The rivals of the private methods: that they spend what they say, and that the picture is drawn."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from bench.graph_methods import METHODS, Scored, draw
from bench.noisy_gradient import Descent, clipped


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("steps", [1, 50])
def test_descent_spends_what_was_asked(epsilon, steps):
    run = Descent(epsilon, 1e-5, 10, steps, 1.0)
    assert 0.999 * epsilon < run.spent() <= epsilon * (1 + 1e-9)


def test_no_row_moves_a_sum_of_gradients_by_more_than_is_accounted():
    """From 0, where the slope of every row is 1/2: turning the label of a row that is too long moves the sum by 1."""
    rng = np.random.default_rng(0)
    X, y = 9 * rng.normal(size=(50, 3)), np.ones(50)
    other, labels = X.copy(), y.copy()
    other[0], labels[0] = X[0], -1.0
    run = Descent(1.0, 1e-5, 1, 1, 1.0)
    moved = 50 * np.linalg.norm(run.fit(X, y, 0) - run.fit(other, labels, 0))
    assert moved == pytest.approx(1.0)
    assert np.linalg.norm(clipped(X), axis=1).max() <= 1 + 1e-12
    assert abs(clipped(sparse.csr_array(X)) - clipped(X)).max() < 1e-12


def test_noise_is_that_of_all_nodes():
    X, y = np.zeros((1, 20_000)), np.ones(1)
    for noises in (1, 10):
        run = Descent(1.0, 1e-5, noises, 1, 1.0)
        assert run.fit(X, y, 0).std() == pytest.approx(run.sd * np.sqrt(noises), rel=0.02)


def test_picture(tmp_path):
    pytest.importorskip("matplotlib")
    levels = [
        Scored(n, "", 0.3, method=n, losses=(v,), accuracies=(1 - v,))
        for n, v in (("not private", 0.2), ("shares of the labels", 0.5))
    ]
    lines = [
        Scored(m.name, "", 0.3, method=m.name, epsilon=e, losses=(0.3, 0.4), accuracies=(0.6, 0.7))
        for m in METHODS
        for e in (1.0, 2.0)
    ]
    assert draw([*levels, *lines], tmp_path / "a.png").startswith("drawn")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
