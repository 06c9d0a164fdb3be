"""x-updates: every solve satisfies the optimality condition of its own problem."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.blocks.dense import Block
from tacit.problem.registry import REGULARIZERS, get_regularizer
from tacit.solvers.sharing.party import ShareSolver


def objective(name: str, X: np.ndarray, s: np.ndarray, target: np.ndarray, weight: float, x: np.ndarray) -> float:
    return weight * get_regularizer(name).value(x) + 0.5 * float(s @ (X @ x - target) ** 2)


@pytest.mark.parametrize("name", sorted(REGULARIZERS))
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), wide=st.booleans(), weight=st.sampled_from([1e-6, 0.1, 3.0, 1e4]))
def test_no_nearby_or_random_point_is_better(name: str, seed: int, wide: bool, weight: float) -> None:
    rng = np.random.default_rng(seed)
    n, d = (8, 15) if wide else (40, 6)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-1, 1, size=d)
    X[:, 0] = X[:, 1]  # singular
    s = rng.random(n)
    solver = ShareSolver(Block(X), s, get_regularizer(name))
    base, q = rng.normal(size=d), rng.normal(size=n) * 3
    x, certificate = solver.solve(base, q, solver.correlate(q), weight)
    target = X @ base - q
    best = objective(name, X, s, target, weight, x)
    assert np.isfinite(best)
    assert certificate <= 1e-5
    regularizer = get_regularizer(name)
    for scale in (1e-4, 1e-2, 1.0):
        for _ in range(10):
            other = regularizer.prox(x + scale * rng.normal(size=d), 1e-12)
            assert objective(name, X, s, target, weight, other) >= best - 1e-7 * (1 + abs(best))


def test_changing_the_weight_reuses_the_factorisation(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    solver = ShareSolver(Block(rng.normal(size=(30, 5))), None, get_regularizer("l2"))
    monkeypatch.setattr("scipy.linalg.eigh", lambda *a, **k: pytest.fail("factorised again"))
    q = rng.normal(size=30)
    results = [solver.solve(np.zeros(5), q, solver.correlate(q), weight)[0] for weight in (0.1, 1.0, 10.0)]
    assert np.linalg.norm(results[0]) > np.linalg.norm(results[1]) > np.linalg.norm(results[2])


def test_zero_column_gets_the_coefficient_nearest_zero() -> None:
    X = np.column_stack([np.zeros(20), np.arange(20.0)])
    for name in REGULARIZERS:
        solver = ShareSolver(Block(X), None, get_regularizer(name))
        q = np.ones(20)
        x, _ = solver.solve(np.array([5.0, 0.1]), q, solver.correlate(q), 0.1)
        assert x[0] == pytest.approx(0.0, abs=1e-12)
