"""Secure aggregation in runs: what is refused, who is named when a round fails, and how a run goes on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tacit.errors import InputError, RunError
from tacit.mechanisms import MECHANISMS
from tacit.mechanisms.base import MechanismRequest
from tacit.mechanisms.gram.plan import Gram
from tacit.plan import FeatureSplit, PrivatePlan
from tacit.privacy.certificate import not_private
from tacit.privacy.request import Privacy
from tacit.run.masking import HEARD
from tacit.run.star import Run
from tacit.solvers.base import PrivateSolver
from tacit.types import Message, Shard
from tests.plans import feature_plan
from tests.runtime.masked_runs import NAMES, copied, problem, same_model
from tests.runtime.recording import record

# --- refusals ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2])
def test_too_few_parties_are_refused(count: int) -> None:
    with pytest.raises(InputError, match=f"secure_aggregation=True needs at least 3 parties, not {count}") as caught:
        problem(party_names=NAMES[:count])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [1, "yes", None])
def test_secure_aggregation_is_true_or_false(value: object) -> None:
    with pytest.raises(InputError, match=r"secure_aggregation=.* is not allowed: it must be True or False"):
        problem(secure=value)  # type: ignore[arg-type]


@pytest.mark.parametrize("gathers", [True, False])
def test_a_mechanism_that_gathers_has_no_sum_to_hide(gathers: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    class Toy(Gram):
        def plan(self, request: MechanismRequest, layout: FeatureSplit) -> PrivatePlan:
            nobody: Any = None
            algorithm = PrivateSolver("toy", party=nobody, coordinator=nobody, reads_each_answer=gathers)
            known = not_private(layout.parties, layout.rows)
            return PrivatePlan(request.privacy, self, algorithm, None, {}, known, 3, {}, holder=layout.holder)

    monkeypatch.setitem(MECHANISMS, "gram", Toy())
    settings: dict[str, Any] = {
        "loss": "logistic", "penalty": "l2", "alpha": 1e-2, "fit_intercept": True, "method": "auto", "rho": "auto",
        "max_rounds": 3, "tol": 1e-4, "party_names": NAMES, "rows": 10, "input_bytes": 100,
        "privacy": Privacy(epsilon=1.0, delta=1e-5), "secure_aggregation": True,
    }  # fmt: skip
    if gathers:
        with pytest.raises(InputError, match="does not fit mechanism='gram', which reads every party's answer by its"):
            feature_plan(**settings)
    else:
        assert feature_plan(**settings).secure


@pytest.mark.parametrize(
    ("loss", "columns", "labels", "message"),
    [
        ("logistic", 1e12, 1.0, "party 'phone': gradient_dots of round 1 has numbers beyond 1.18e.21"),
        ("squared", 1.0, 1e17, "party 'bank': share of round 1 has numbers beyond 1.13e.15"),
    ],
)
def test_numbers_too_large_for_the_masks_end_in_one_line(
    loss: str, columns: float, labels: float, message: str
) -> None:
    plan, shards, y = problem(loss=loss)
    shards[1] = Shard("phone", shards[1].features * columns)
    run = Run(plan, shards, y * labels)
    engine = record(run)
    with pytest.raises(RunError, match=message) as caught:
        run.go()
    assert "\n" not in str(caught.value)
    assert "scale the party's columns" in str(caught.value)
    assert all(answer.kind != "step" for answer in engine.up)  # the round was given up before anything was carried


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda m: replace(m, round=m.round - 1), "party 'phone': expected its answer to round 2"),
        (lambda m: replace(m, arrays={}), "party 'phone': its answer to round 2 has other arrays"),
        (
            lambda m: replace(m, arrays={k: a.astype(np.float64) for k, a in m.arrays.items()}),
            "party 'phone': share in its answer to round 2 has numbers of type float64: this run sends uint64, under",
        ),
        (
            lambda m: replace(m, arrays={**m.arrays, "share": m.arrays["share"] ^ np.uint64(2**62)}),
            "the masks did not cancel",
        ),
    ],
)
def test_a_lying_party_ends_the_run(spoil: Any, message: str) -> None:
    run = Run(*problem())
    honest = run.parties[1].answer

    def lying(asked: Message) -> Message:
        answer = honest(asked)
        return spoil(answer) if asked.round == 2 else answer

    run.parties[1].answer = lying  # type: ignore[method-assign]
    with pytest.raises(RunError, match=message) as caught:
        run.go()
    assert "\n" not in str(caught.value)
    assert len(run.state.trace) == 1


def test_a_bare_run_refuses_words() -> None:
    run = Run(*problem(secure=False))
    honest = run.parties[1].answer
    words = lambda m: replace(m, arrays={k: a.view(np.uint64) for k, a in m.arrays.items()})  # noqa: E731
    run.parties[1].answer = lambda asked: words(honest(asked))  # type: ignore[method-assign]
    with pytest.raises(RunError, match="party 'phone': share in its answer to round 1 has numbers of type uint64"):
        run.go()


def test_changed_keys_are_noticed_by_their_owner() -> None:
    run = Run(*problem())
    run.parties[2].answer(Message("coordinator", 0, {}, kind="keys"))
    keys = np.stack([party.answer(Message("coordinator", 0, {}, kind="keys")).arrays["key"] for party in run.parties])
    keys[1, 0] ^= np.uint64(1)
    with pytest.raises(RunError, match="party 'phone' was passed a key as its own that is not"):
        run.parties[1].answer(Message("coordinator", 0, {"keys": keys}, kind="agree"))
    with pytest.raises(RunError, match=r"keys of shape \(2, 4\): one for each party is needed"):
        run.parties[0].answer(Message("coordinator", 0, {"keys": keys[:2]}, kind="agree"))
    run.parties[0].answer(Message("coordinator", 0, {"keys": keys}, kind="agree"))
    plain = Run(*problem(secure=False))
    with pytest.raises(RunError, match="party 'bank' was asked for keys in a run without masks"):
        plain.parties[0].answer(Message("coordinator", 0, {}, kind="keys"))


def test_no_answer_leaves_before_keys_are_agreed_on() -> None:
    run = Run(*problem())
    with pytest.raises(RunError, match="bank has no keys of the other parties yet"):
        run.engine.exchange(run.coordinator.broadcast(1))


# --- a party that is gone, and going on --------------------------------------------------------------


class Interrupted:
    """An engine to which one party is lost from some exchange on."""

    def __init__(self, engine: Any, party: str, exchange: int, *, raises: bool = False) -> None:
        self.engine, self.party, self.left, self.raises = engine, party, exchange, raises

    def exchange(self, message: Message) -> list[Message]:
        answers = self.engine.exchange(message)
        self.left -= 1
        if self.left > 0:
            return answers
        if self.raises:
            raise RunError(f"party {self.party!r} cannot be reached")
        return [answer for answer in answers if answer.sender != self.party]

    def close(self) -> None:
        self.engine.close()


@pytest.mark.parametrize("secure", [True, False])
@pytest.mark.parametrize("raises", [True, False])
@pytest.mark.parametrize("method", ["memory", "multipliers", "averaged"])
def test_a_missing_party_ends_the_round_by_name_and_the_run_goes_on(method: str, raises: bool, secure: bool) -> None:
    whole = Run(*problem(method, secure=secure)).go()
    run = Run(*problem(method, secure=secure))
    run.engine = Interrupted(run.engine, "phone", 5, raises=raises)
    snapshots: list[tuple[Any, Any]] = []
    with pytest.raises(RunError, match=r"party 'phone' (did not answer in round|cannot be reached)") as caught:
        run.go(checkpoint=lambda run: snapshots.append(copied(run)))
    assert "\n" not in str(caught.value)
    assert len(snapshots) == (2 if secure else 4)
    with pytest.raises(RunError, match="make a new Run, and restore its last snapshot"):
        run.go()
    again = Run(*problem(method, secure=secure))
    again.restore(*snapshots[-1])
    resumed = again.go()
    assert len(resumed.trace) == len(whole.trace)
    same_model(resumed, whole, 1e-8)


def test_a_party_missing_at_the_keys_is_named() -> None:
    run = Run(*problem())
    run.engine = Interrupted(run.engine, "shop", 1)
    with pytest.raises(RunError, match="party 'shop' did not answer in round 0"):
        run.go()


@pytest.mark.parametrize("fresh", [True, False])
def test_a_run_that_goes_on_draws_new_keys_and_plays_no_round_under_old_masks(fresh: bool) -> None:
    plan, shards, labels = problem()
    run = Run(plan, shards, labels)
    first = record(run)
    snapshots: list[tuple[Any, Any]] = []
    whole = run.go(checkpoint=lambda run: snapshots.append(copied(run)))
    again = Run(plan, shards, labels) if fresh else run
    again.restore(*snapshots[3])
    again.engine = again.engine if fresh else first.engine
    second = record(again)
    resumed = again.go()
    same_model(resumed, whole, 1e-9)
    assert [message.kind for message in second.down][:3] == ["keys", "agree", "step"]
    assert second.down[2].round == 5
    keys = [{answer.array("key").tobytes() for answer in engine.up[:3]} for engine in (first, second)]
    assert len(keys[0] | keys[1]) == 6
    seen = {word for answer in first.up if answer.kind == "step" for word in answer.array("share").ravel().tolist()}
    for answer in second.up:
        if answer.kind == "step":
            assert seen.isdisjoint(answer.array("share").ravel().tolist())


def test_a_snapshot_holds_no_key() -> None:
    run = Run(*problem())
    engine = record(run)
    snapshots: list[tuple[Any, Any]] = []
    run.go(checkpoint=lambda run: snapshots.append(copied(run)))
    plain = Run(*problem(secure=False))
    plain.go()
    names = {who: set(state) - {HEARD} for who, state in snapshots[-1][0].items()}  # a fingerprint of broadcasts
    assert names == {who: set(state) for who, state in plain.snapshot().items()}
    assert sum(answer.kind == "keys" for answer in engine.up) == 3
