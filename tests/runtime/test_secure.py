"""Secure aggregation in runs: the same model, nothing but sums to be read, and every failure named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tacit.algorithms.base import PrivateAlgorithm
from tacit.errors import InputError, RunError
from tacit.plan import Plan, PrivatePlan, make_plan
from tacit.plan import private as private_plans
from tacit.privacy.certificate import not_private
from tacit.privacy.request import Privacy
from tacit.runtime.masking import OTHERS, SHARE, Masks, point_of
from tacit.runtime.result import Run, Start
from tacit.types import Message, Shard
from tests.conftest import correlated
from tests.runtime.recording import record, watch_door

ROUNDS = 8  # before any of the methods has nothing left to do but rounding
NAMES = ("bank", "phone", "shop")
CASES = [
    ("memory", "logistic", "l2"),
    ("memory", "squared", "none"),
    ("memory", "huber", "l2"),
    ("memory", "poisson", "l2"),
    ("multipliers", "hinge", "l2"),
    ("multipliers", "hinge", "l1"),
    ("multipliers", "absolute", "elastic_net"),
    ("multipliers", "logistic", "ball"),
    ("averaged", "logistic", "l2"),
    ("averaged", "hinge", "l1"),
    ("averaged", "squared", "nonnegative"),
    ("averaged", "sigmoid", "l2"),
    ("published", "squared", "l2"),
    ("sgd", "logistic", "elastic_net"),
]
TASKS = {"squared": "regression", "huber": "regression", "absolute": "regression", "poisson": "counts"}


def problem(
    method: str = "memory", loss: str = "logistic", penalty: str = "l2", *, secure: bool = True, **changes: Any
) -> tuple[Plan, list[Shard], np.ndarray]:
    X, labels = correlated(TASKS.get(loss, "classification"), columns=34)
    X = np.delete(X, np.s_[::10], axis=1)  # constant columns, whose coefficients nothing determines
    shards = [Shard(name, X[:, 10 * i : 10 * i + 10]) for i, name in enumerate(NAMES)]
    settings = {"tol": 0.0, "max_rounds": ROUNDS, "party_names": NAMES, "rows": len(labels), **changes}
    plan = make_plan(
        loss=loss,
        penalty=penalty,
        alpha=1e-2,
        fit_intercept=True,
        method=method,
        rho="auto",
        privacy=None,
        input_bytes=X.nbytes,
        secure_aggregation=secure,
        **settings,
    )
    return plan, shards, labels


def same_model(a: Any, b: Any, tolerance: float) -> None:
    for one, other in zip(a.parties, b.parties, strict=True):
        scale = max(1e-3, float(np.abs(other.coef).max()))
        np.testing.assert_allclose(one.coef, other.coef, rtol=0, atol=tolerance * scale)
    assert a.intercept == pytest.approx(b.intercept, rel=tolerance, abs=tolerance)


# --- the same model ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "loss", "penalty"), CASES)
def test_the_model_is_that_of_the_run_without_masks(method: str, loss: str, penalty: str) -> None:
    """To 1e-8 after eight rounds: a sum is exact to 1e-18 and an answer to 2^-53 of itself, which rounds amplify."""
    secure = Run(*problem(method, loss, penalty)).go()
    plain = Run(*problem(method, loss, penalty, secure=False)).go()
    assert len(secure.trace) == len(plain.trace) == ROUNDS
    same_model(secure, plain, 1e-8)
    for a, b in zip(secure.trace, plain.trace, strict=True):
        assert a.objective == pytest.approx(b.objective, rel=1e-9)


@pytest.mark.parametrize(("method", "penalty"), [("memory", "l2"), ("averaged", "l2"), ("averaged", "l1")])
def test_runs_with_masks_converge(method: str, penalty: str) -> None:
    secure = Run(*problem(method, penalty=penalty, tol=1e-6, max_rounds=1000)).go()
    plain = Run(*problem(method, penalty=penalty, tol=1e-8, max_rounds=2000, secure=False)).go()
    assert secure.converged
    assert secure.trace[-1].objective == pytest.approx(plain.trace[-1].objective, rel=1e-5)
    assert np.isfinite(secure.trace[-1].gap) == (penalty == "l2")  # the bound for l1 alone needs more than sums


def test_a_warm_start_goes_under_masks_too() -> None:
    rng = np.random.default_rng(1)
    start = Start([rng.normal(size=10) for _ in NAMES], 0.7)
    ends = []
    for secure in (True, False):
        run = Run(*problem(secure=secure, max_rounds=3))
        engine = record(run)
        run.start_from(start)
        ends.append(run.go())
        begun = [answer for answer in engine.up if answer.kind == "start"]
        assert len(begun) == 3
        assert all((dtype == "uint64") == secure for answer in begun for _, dtype, _, _ in answer.arrays)
    same_model(*ends, 1e-10)
    assert ends[0].trace[0].objective < Run(*problem(max_rounds=1)).go().trace[0].objective * 10


# --- what can be read --------------------------------------------------------------------------------


def p_value(content: bytes) -> float:
    """Of a chi-square test that all byte values are equally likely."""
    return float(stats.chisquare(np.bincount(np.frombuffer(content, np.uint8), minlength=256)).pvalue)


@pytest.mark.parametrize("name", NAMES)
def test_what_one_party_sends_looks_uniform_and_bare_it_would_not(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    door = watch_door(monkeypatch)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40_000, 6))
    labels = np.where(X.sum(axis=1) + rng.normal(size=len(X)) > 0, 1.0, -1.0)
    plan, _, _ = problem(max_rounds=2, rows=len(labels))
    shards = [Shard(party, X[:, 2 * i : 2 * i + 2]) for i, party in enumerate(NAMES)]
    run = Run(plan, shards, labels)
    engine = record(run)
    run.go()
    pairs = [(a, b) for a, b in zip(engine.up, door.bare, strict=True) if a.sender == name and a.kind == "step"]
    masked = b"".join(content for answer, _ in pairs for *_, content in answer.arrays)
    bare = b"".join(point_of(key).encode(array, name).tobytes() for _, arrays in pairs for key, array in arrays.items())
    assert len(masked) == len(bare) > 1e6
    assert p_value(masked) > 1e-6
    assert p_value(bare) < 1e-300


def test_the_same_numbers_look_different_each_time() -> None:
    first, second = (Masks(name, ("a", "b")) for name in ("a", "b"))
    keys = np.stack([first.key, second.key])
    first.agree(keys)
    second.agree(keys)
    numbers = {"share": np.ones(50)}
    sent = [masks.hide(round_, numbers)["share"] for round_ in (1, 2) for masks in (first, second)]
    assert len({int(word) for words in sent for word in words.ravel()}) == 4 * 100
    assert first.fingerprint == second.fingerprint != ""
    with pytest.raises(RunError, match="a mask is never used twice"):
        first.hide(2, numbers)


def test_two_runs_share_no_word(monkeypatch: pytest.MonkeyPatch) -> None:
    door = watch_door(monkeypatch)
    words = []
    for _ in range(2):
        run = Run(*problem(max_rounds=1))
        engine = record(run)
        run.go()
        words.append(
            {int(word) for answer in engine.up if answer.kind == "step" for word in answer.array("share").flat}
        )
    assert not words[0] & words[1]
    half = len(door.bare) // 2
    for one, other in zip(door.bare[:half], door.bare[half:], strict=True):
        if "share" in one:
            np.testing.assert_array_equal(one["share"], other["share"])  # the same number sent twice


def test_the_parties_agree_on_one_fingerprint_and_the_coordinator_holds_no_secret() -> None:
    run = Run(*problem(max_rounds=2))
    run.go()
    prints = {party.fingerprint for party in run.parties}
    assert len(prints) == 1
    assert len(prints.pop()) == 39
    assert Run(*problem(secure=False)).parties[0].fingerprint == ""
    assert not [name for name in vars(run.coordinator) if "mask" in name or "key" in name or "secret" in name]


def test_only_sums_travel() -> None:
    run = Run(*problem("averaged", "logistic", "elastic_net"))
    engine = record(run)
    run.go()
    names = {name for answer in engine.up for name, *_ in answer.arrays}
    assert "conjugate" in names
    assert not [name for name in names if name.startswith(("min_", "max_"))]
    masks = Masks("a", ("a", "b"))
    with pytest.raises(RunError, match="party 'a': min_shrink is no sum, so masks cannot hide it: it does not leave"):
        masks.hide(1, {"min_shrink": np.ones(1)})


# --- refusals ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2])
def test_too_few_parties_are_refused(count: int) -> None:
    with pytest.raises(InputError, match=f"secure_aggregation=True needs at least 3 parties, not {count}") as caught:
        problem(party_names=NAMES[:count])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [1, "yes", None])
def test_secure_aggregation_is_true_or_false(value: object) -> None:
    with pytest.raises(InputError, match="secure_aggregation=.* is not allowed: it must be True or False"):
        problem(secure=value)  # type: ignore[arg-type]


@pytest.mark.parametrize("gathers", [True, False])
def test_a_mechanism_that_gathers_has_no_sum_to_hide(gathers: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def planner(privacy: Privacy, problem_: Any, sizes: Any) -> PrivatePlan:
        nobody: Any = None
        algorithm = PrivateAlgorithm("toy", party=nobody, coordinator=nobody, gathers=gathers)
        known = not_private(sizes.parties, sizes.rows)
        return PrivatePlan(privacy, "gram", algorithm, None, {}, known, sizes.holder, 3, {})

    monkeypatch.setattr(private_plans, "_planners", lambda: {"gram": planner})
    settings: dict[str, Any] = {
        "loss": "logistic", "penalty": "l2", "alpha": 1e-2, "fit_intercept": True, "method": "auto", "rho": "auto",
        "max_rounds": 3, "tol": 1e-4, "party_names": NAMES, "rows": 10, "input_bytes": 100,
        "privacy": Privacy(epsilon=1.0, delta=1e-5), "secure_aggregation": True,
    }  # fmt: skip
    if gathers:
        with pytest.raises(InputError, match="does not fit mechanism='gram', which reads every party's answer by its"):
            make_plan(**settings)
    else:
        assert make_plan(**settings).secure


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


def copied(run: Run) -> tuple[Any, Any]:
    copies = {who: {k: v.copy() for k, v in arrays.items()} for who, arrays in run.snapshot().items()}
    return copies, replace(run.state, trace=type(run.state.trace)(run.state.trace))


@pytest.mark.parametrize("secure", [True, False])
@pytest.mark.parametrize("raises", [True, False])
@pytest.mark.parametrize("method", ["memory", "multipliers", "averaged"])
def test_a_missing_party_ends_the_round_by_name_and_the_run_goes_on(method: str, raises: bool, secure: bool) -> None:
    whole = Run(*problem(method, secure=secure)).go()
    run = Run(*problem(method, secure=secure))
    run.engine = Interrupted(run.engine, "phone", 5, raises=raises)
    snapshots: list[tuple[Any, Any]] = []
    with pytest.raises(RunError, match="party 'phone' (did not answer in round|cannot be reached)") as caught:
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
    names = {who: set(state) for who, state in snapshots[-1][0].items()}
    assert names == {who: set(state) for who, state in plain.snapshot().items()}
    assert sum(answer.kind == "keys" for answer in engine.up) == 3


# --- what is claimed ---------------------------------------------------------------------------------


def test_the_certificate_says_what_masks_hide_and_that_it_is_no_differential_privacy() -> None:
    certificate = Run(*problem(max_rounds=1)).go().certificate
    text = str(certificate)
    assert not certificate.private
    assert "This run is NOT differentially private" in text
    assert "only the sums can be read (this is not differential privacy)" in text
    assert "sees only the sum over bank, phone and shop. Together with any one other party it sees" in text
    assert "every party may know the sums too" in text
    assert all("only the sum over all parties can be read" in what for what in certificate.per_party.values())
    assert "the public keys that the coordinator passes on are genuine" in text
    assert type(certificate).from_json(certificate.to_json()) == certificate
    plain = str(Run(*problem(secure=False, max_rounds=1)).go().certificate)
    assert "masks" not in plain


def test_bits_and_bytes() -> None:
    """The table in the module's docstring, and what a round costs on the wire."""
    assert (SHARE.words, OTHERS.words) == (2, 3)
    for point in (SHARE, OTHERS):
        point.check_room(["p"] * 1000)
    sizes = []
    for secure in (True, False):
        run = Run(*problem(secure=secure, max_rounds=1))
        engine = record(run)
        run.go()
        sizes.append([answer.nbytes for answer in engine.up if answer.kind == "step"])
    rows, others = 200, 6
    assert sizes[1] == [8 * (rows + others)] * 3
    assert sizes[0] == [16 * rows + 24 * others] * 3
