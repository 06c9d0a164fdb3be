"""Secure aggregation in runs: the same model, nothing but sums to be read, and what the certificate says of it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tacit.errors import RunError
from tacit.run.masking import OTHERS, SHARE, Masks, point_of
from tacit.run.star import Run, Start
from tacit.types import Shard
from tests.runtime.masked_runs import NAMES, ROUNDS, problem, same_model
from tests.runtime.recording import record, watch_door

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


# --- what is claimed ---------------------------------------------------------------------------------


def test_the_certificate_says_what_masks_hide_and_that_it_is_no_differential_privacy() -> None:
    certificate = Run(*problem(max_rounds=1)).go().certificate
    text = str(certificate)
    assert not certificate.private
    assert "This run is NOT differentially private" in text
    assert "only the sums can be read (this is not differential privacy)" in text
    assert "sees only the sum over bank, phone and shop. Together with any one other party it sees" in text
    assert "every party may learn what the coordinator learns" in text
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
