"""The progress of a run: rounds that are fixed beforehand, and an objective that nobody may know."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tacit.plan import Plan
from tacit.privacy.request import Privacy
from tacit.run import progress
from tacit.types import TraceRow
from tests.plans import feature_plan


def plan_of(privacy: Privacy | None) -> Plan:
    return feature_plan(
        loss="logistic", penalty="l2", alpha=1e-3, fit_intercept=True, method="auto", rho="auto", max_rounds=50,
        tol=1e-4, privacy=privacy, party_names=("a", "b"), rows=500, input_bytes=0, columns=(3, 4),
    )  # fmt: skip


def row(number: int, objective: float = math.nan, gap: float = math.inf) -> TraceRow:
    return TraceRow(number, objective, gap, 0.0, 0.0, 0.0, math.nan, 1.0, 0, 0)


def test_private_rounds_are_counted_against_those_that_are_planned() -> None:
    plan = plan_of(Privacy(epsilon=1.0))
    assert (plan.fixed_rounds, plan.most_rounds) == (True, 2)
    assert [progress.fraction_done(plan, row(number), []) for number in (1, 2)] == [0.5, 1.0]
    assert progress.fraction_done(plan_of(None), row(1, 0.5, 0.1), []) == pytest.approx(1 / 50)


def test_an_unknown_objective_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class Bar:
        def __init__(self, *columns: Any, **options: Any) -> None: ...
        def __enter__(self) -> Bar:
            return self

        def __exit__(self, *error: object) -> None: ...
        def add_task(self, *words: Any, **fields: Any) -> int:
            return 0

        def update(self, task: int, *, completed: float, state: str) -> None:
            shown.append(state)

    monkeypatch.setattr("rich.progress.Progress", Bar)
    monkeypatch.setattr("rich.console.Console.is_terminal", property(lambda self: True))
    with progress.progress(plan_of(Privacy(epsilon=1.0)), visible=True) as observe:
        assert observe is not None
        observe(row(1))
    with progress.progress(plan_of(None), visible=True) as observe:
        assert observe is not None
        observe(row(1, 0.5, 0.1))
    assert shown == ["round 1  1 s left", "round 1  objective 0.5  gap 1.0e-01"]
