"""Parties, coordinator and loop: one door out, every answer checked, pausing changes nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from tacit.errors import RunError
from tacit.plan import Plan
from tacit.run.star import Run
from tacit.types import Message, Shard
from tests.plans import feature_plan


def problem(method: str = "auto", **changes: object) -> tuple[Plan, list[Shard], np.ndarray]:
    X, y = load_breast_cancer(return_X_y=True)
    X, labels = scale(X), np.where(y == 1, 1.0, -1.0)
    shards = [Shard("bank", X[:, :10]), Shard("phone", X[:, 10:17]), Shard("shop", X[:, 17:])]
    settings = {"loss": "logistic", "penalty": "l2", "tol": 1e-8, "max_rounds": 60, **changes}
    plan = feature_plan(
        **settings,
        alpha=1e-3,
        fit_intercept=True,
        method=method,
        rho="auto",
        privacy=None,
        party_names=tuple(shard.name for shard in shards),
        rows=len(labels),
        input_bytes=X.nbytes,
    )
    return plan, shards, labels


class Recorder:
    """An engine that keeps every byte it carries."""

    def __init__(self, engine) -> None:
        self.engine, self.down, self.up = engine, [], []

    def exchange(self, message: Message) -> list[Message]:
        self.down.append(message)
        answers = self.engine.exchange(message)
        self.up.append(answers)
        return answers

    def close(self) -> None:
        self.engine.close()


@pytest.mark.parametrize("method", ["memory", "averaged"])
def test_one_vector_up_and_one_down_per_round(method: str) -> None:
    plan, shards, labels = problem(method)
    run = Run(plan, shards, labels)
    run.engine = Recorder(run.engine)
    rounds = len(run.go().trace)
    n = len(labels)
    long_down = [sum(a.size == n for a in message.arrays.values()) for message in run.engine.down]
    long_up = [sum(a.size == n for a in answer.arrays.values()) for answers in run.engine.up for answer in answers]
    assert max(long_up) == 1
    assert sum(long_up) == rounds * len(shards)
    checks = rounds // 5 if method == "averaged" else 0  # the dual point, sent in every fifth round
    assert sum(long_down) == rounds + checks


def test_no_feature_column_or_label_travels() -> None:
    """Not a privacy claim: it says only that raw columns, coefficients and labels are not among the messages."""
    plan, shards, labels = problem()
    run = Run(plan, shards, labels)
    run.engine = Recorder(run.engine)
    result = run.go()
    secrets = [column for shard in shards for column in shard.features.T] + [labels]
    secrets += [party.coef for party in result.model.parts]
    sent = [a.ravel() for m in run.engine.down for a in m.arrays.values()]
    sent += [a.ravel() for answers in run.engine.up for m in answers for a in m.arrays.values()]
    for secret in secrets:
        assert not any(a.size == secret.size and np.allclose(a, secret) for a in sent)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda m: replace(m, round=m.round - 1), "party 'phone': expected its answer to round 2"),
        (lambda m: replace(m, sender="stranger"), "party 'phone': expected its answer to round 2, got one from 'stran"),
        (lambda m: replace(m, arrays={**m.arrays, "share": m.arrays["share"][:-1]}), "party 'phone': its answer"),
        (
            lambda m: replace(m, arrays={**m.arrays, "share": m.arrays["share"] * np.nan}),
            "party 'phone': share .* finite",
        ),
        (lambda m: replace(m, arrays={}), "party 'phone': its answer to round 2 has other arrays"),
    ],
)
def test_a_lying_party_is_named_and_the_run_stops(spoil, message) -> None:
    plan, shards, labels = problem()
    run = Run(plan, shards, labels)
    honest = run.parties[1].answer

    def lying(asked: Message) -> Message:
        answer = honest(asked)
        return spoil(answer) if asked.round == 2 else answer

    run.parties[1].answer = lying  # type: ignore[method-assign]
    with pytest.raises(RunError, match=message) as caught:
        run.go()
    assert "\n" not in str(caught.value)
    assert len(run.state.trace) == 1


@pytest.mark.parametrize("method", ["memory", "multipliers", "averaged", "published", "sgd"])
def test_a_run_paused_and_restored_ends_on_the_same_model(method: str) -> None:
    plan, shards, labels = problem(method, max_rounds=12, tol=0.0)
    whole = Run(plan, shards, labels).go()
    snapshots = []

    def keep(run: Run) -> None:
        if run.state.rounds == 7:
            copies = {who: {k: v.copy() for k, v in arrays.items()} for who, arrays in run.snapshot().items()}
            state = replace(run.state, trace=type(run.state.trace)(run.state.trace))
            snapshots.append((copies, state))

    Run(plan, shards, labels).go(checkpoint=keep)
    again = Run(plan, shards, labels)
    again.restore(*snapshots[0])
    resumed = again.go()
    assert len(resumed.trace) == len(whole.trace)
    for a, b in zip(resumed.model.parts, whole.model.parts, strict=True):
        np.testing.assert_allclose(a.coef, b.coef, rtol=1e-8, atol=1e-10)  # rounding may differ with memory layout
    assert resumed.model.intercept == pytest.approx(whole.model.intercept, rel=1e-8)


def test_huge_values_end_in_one_clear_line() -> None:
    plan, shards, labels = problem()
    shards[1] = Shard("phone", shards[1].features * 1e200)
    with pytest.raises(RunError, match="scale") as caught, np.errstate(all="ignore"):
        Run(plan, shards, labels).go()
    assert "\n" not in str(caught.value)
