"""Sharing with memory at the limits of rounding."""

from __future__ import annotations

import numpy as np

from tacit import VerticalClassifier
from tests.conftest import correlated


def test_a_run_that_asks_for_more_than_rounding_allows_ends_on_the_optimum() -> None:
    """With tol=0 the window used to fill with rounding, and the model to leave the optimum again."""
    X, y = correlated("classification", columns=30)
    model = VerticalClassifier(parties=[10, 10, 10], alpha=1e-2, tol=0.0, max_rounds=60).fit(X, y)
    loss = np.logaddexp(0, -y * model.decision_function(X)).mean()
    objective = loss + 0.5e-2 * float((model.coef_**2).sum())
    assert model.converged_
    assert model.trace_[-1].objective == min(row.objective for row in model.trace_)
    assert abs(objective - model.trace_[-1].objective) < 1e-12
    assert model.trace_[-1].gap < 1e-13
