"""A lead chooses every number of a job: with none of them may a claim become false by underflow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tacit import Privacy
from tacit.errors import InputError
from tacit.plan import Plan
from tacit.privacy.releases import Releaser
from tacit.run.party import Party
from tacit.types import Message, Shard, Vector
from tests.plans import feature_plan

ROWS = 400


def plan_of(**privacy: Any) -> Plan:
    return feature_plan(
        loss="logistic", penalty="l2", alpha=1e-3, fit_intercept=True, method="auto", rho="auto", max_rounds=3,
        tol=1e-4, privacy=Privacy(epsilon=1.0, mechanism="shares", **privacy), party_names=("a", "b", "c"), rows=ROWS,
        input_bytes=0, columns=(3, 1, 3),
    )  # fmt: skip


def moved(plan: Plan, norm: float, monkeypatch: pytest.MonkeyPatch) -> float:
    """How far one row moves the share before noise, in units of the largest share of a row."""
    seen: list[Vector] = []

    def add(self: Releaser, name: str, value: Vector) -> Vector:
        seen.append(np.array(value))
        return np.zeros(ROWS)

    monkeypatch.setattr(Releaser, "add", add)
    for own in (1e-3, 1.0):
        rows = np.full((ROWS, 1), 1e-3 * norm)
        rows[0] = own * norm
        party = Party(Shard("b", rows), plan, None)
        with np.errstate(all="ignore"):
            party.answer(Message("coordinator", 1, {"q": np.full(ROWS, -1e90), "control": np.array([1e100])}))
    assert plan.private is not None
    bound = plan.private.settings.bound
    return float(np.linalg.norm(seen[0] / bound - seen[1] / bound))


@pytest.mark.parametrize(("row_norm", "coef_norm"), [(1.0, 1e-165), (3e-162, 1.0), (1e150, 1.0), (1.0, 1e150)])
def test_norms_whose_squares_are_lost_are_refused(row_norm: float, coef_norm: float) -> None:
    """The attack: a coef_norm whose square is 0, so that no solution is held to its ball: 5 times the claim."""
    with pytest.raises(InputError, match=r"norm=.* between 1e-50 and 1e\+50") as refusal:
        plan_of(row_norm=row_norm, coef_norm=coef_norm)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("coef_norm", [1e-50, 1.0, 1e50])
@pytest.mark.parametrize("row_norm", [1e-50, 1.0, 1e50])
def test_no_norm_that_is_taken_lets_a_row_move_more_than_is_claimed(
    row_norm: float, coef_norm: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(row_norm=row_norm, coef_norm=coef_norm)
    assert moved(plan, row_norm, monkeypatch) <= 2.001
