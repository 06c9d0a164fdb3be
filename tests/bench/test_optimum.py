"""A certified gap is one: scikit-learn, with all columns in one place, finds no objective that is lower by more."""

from __future__ import annotations

import numpy as np
import pytest

from bench import optimum
from bench.terms import LOSSES
from tacit.solvers.memory import coordinator


@pytest.mark.parametrize("loss", list(LOSSES.values()))
def test_the_true_gap_is_below_the_certified_one(loss: str) -> None:
    for one in optimum.compare(*optimum.drawn(loss), loss).values():
        assert one.ratio <= 1.0
        assert 0.0 < one.certified <= optimum.TOL * abs(one.objective) * (1 + 1e-6)
        assert one.true == pytest.approx(one.told, abs=1e-11 * abs(one.objective))  # the trace tells the same objective
        assert one.true > -1e-10 * abs(one.objective)  # scikit-learn is at the optimum itself


def test_a_gap_that_claims_too_much_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    told = coordinator.MemoryCoordinator._gap_at_broadcast
    monkeypatch.setattr(
        coordinator.MemoryCoordinator, "_gap_at_broadcast", lambda *given: 1e-9 * min(1.0, told(*given))
    )
    found = optimum.compare(*optimum.drawn("squared"), "squared").values()
    assert np.max([one.ratio for one in found]) > 1.0
