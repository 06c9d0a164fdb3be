"""The gap of sharing with memory is a bound: never below the true gap, and tighter than the gradient alone."""

import numpy as np
import pytest

from tacit import VerticalClassifier, VerticalRegressor
from tacit.solvers.memory import coordinator as side


def _drawn(loss: str) -> tuple[np.ndarray, np.ndarray]:
    """Columns of two parties that nearly depend on each other."""
    rng = np.random.default_rng(1)
    common = rng.normal(size=(400, 12))
    x = np.hstack([common + 0.1 * rng.normal(size=common.shape), common @ rng.normal(size=(12, 12)) / 3])
    score = x @ rng.normal(size=24) / 5
    if loss == "poisson":
        return x, rng.poisson(np.exp(np.clip(score, -3, 3))).astype(float)
    return x, np.where(score + rng.logistic(size=400) > 0, 1, 0) if loss == "logistic" else score + rng.normal(size=400)


def _fit(loss: str, tol: float, weighted: bool):  # type: ignore[no-untyped-def]
    x, y = _drawn(loss)
    kind = VerticalClassifier if loss == "logistic" else VerticalRegressor
    weights = np.linspace(0, 2, 400) if weighted else None
    return kind(parties=2, loss=loss, alpha=1e-4, tol=tol, max_rounds=400).fit(x, y, sample_weight=weights)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", ["logistic", "squared", "poisson"])
def test_the_gap_is_a_bound_and_ends_runs_sooner(loss: str, weighted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    best = _fit(loss, 1e-12, weighted).trace_[-1].objective
    found = _fit(loss, 1e-5, weighted).trace_
    for row in found:
        assert row.gap >= row.objective - best - 1e-11 * abs(best)
    assert found[-1].objective - best <= 1e-5 * abs(best)
    plain = side.best_dual_point
    monkeypatch.setattr(side, "best_dual_point", lambda *given: plain(*given)._replace(model=np.inf))
    assert len(found) <= len(_fit(loss, 1e-5, weighted).trace_)
