"""Nothing leaves except through the one door: every byte that an engine carries is compared."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

import tacit
from tacit import Privacy
from tacit.plan import Plan
from tacit.run import door as door_module
from tacit.run.masking import point_of
from tacit.run.star import Run, Start
from tacit.types import Message, Shard
from tests.plans import feature_plan
from tests.runtime.recording import Carried, record, watch_door

METHODS = ["memory", "multipliers", "averaged", "published", "sgd"]
SOURCE = Path(tacit.__file__).parent


def problem(
    method: str, *, secure: bool = False, privacy: Privacy | None = None
) -> tuple[Plan, list[Shard], np.ndarray]:
    X, y = load_breast_cancer(return_X_y=True)
    X, labels = scale(X), np.where(y == 1, 1.0, -1.0)
    shards = [Shard("bank", X[:, :10]), Shard("phone", X[:, 10:17]), Shard("shop", X[:, 17:])]
    plan = feature_plan(
        loss="logistic",
        penalty="l2",
        alpha=1e-3,
        tol=1e-8,
        max_rounds=6,
        fit_intercept=True,
        method=method,
        rho="auto",
        privacy=privacy,
        party_names=tuple(shard.name for shard in shards),
        columns=tuple(shard.features.shape[1] for shard in shards),
        rows=len(labels),
        input_bytes=X.nbytes,
        secure_aggregation=secure,
    )
    return plan, shards, labels


# --- bytes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_the_engine_carries_exactly_what_passed_the_door(
    method: str, warm: bool, secure: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = watch_door(monkeypatch)
    plan, shards, labels = problem(method, secure=secure)
    run = Run(plan, shards, labels)
    engine = record(run)
    if warm:
        run.start_from(Start([np.full(shard.features.shape[1], 0.1) for shard in shards], 0.5))
    result = run.go()
    assert engine.up == door.released  # bytes, shapes, types, senders, in order
    kinds = (["keys", "agree"] if secure else []) + (["start"] if warm else [])
    assert [message.kind for message in engine.down][: len(kinds) + 1] == [*kinds, "step"]
    assert engine.down[-1].kind == "finish"
    assert not any(answer.arrays for answer in engine.up if answer.kind in ("agree", "finish"))
    assert sum(answer.nbytes for answer in engine.up if answer.kind == "step") == result.traffic["bytes_up"] > 0
    if not secure:
        bare = [{name: array.tobytes() for name, array in arrays.items()} for arrays in door.bare]
        sent = [{name: content for name, _, _, content in answer.arrays} for answer in engine.up]
        assert bare == sent


PRIVATE = {
    "gram": Privacy(epsilon=1.0),
    "gram with labels": Privacy(epsilon=1.0, label_epsilon=1.0),
    "gram, everyone": Privacy(epsilon=4.0, protect="everyone"),
    "gram, refit": Privacy(epsilon=1.0, refit=True),
    "labels": Privacy(epsilon=None, label_epsilon=2.0),
    "shares": Privacy(epsilon=1.0, mechanism="shares"),
    "shares with labels": Privacy(epsilon=1.0, mechanism="shares", label_epsilon=1.0),
    "published": Privacy(epsilon=1.0, mechanism="published"),
    "published-inverse": Privacy(epsilon=1.0, mechanism="published-inverse"),
}


@pytest.mark.parametrize("asked", PRIVATE.values(), ids=PRIVATE)
def test_private_runs_send_what_passed_the_door_and_release_what_was_planned(
    asked: Privacy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ways, to the byte; and what a protected party sends was computed from its planned releases alone."""
    left: list[Carried] = []
    leave = door_module.leave

    def watched(*parts: Any, **named: Any) -> Message:
        left.append(Carried.of(leave(*parts, **named)))
        return leave(*parts, **named)

    monkeypatch.setattr(door_module, "leave", watched)
    plan, shards, labels = problem("auto", privacy=asked)
    run = Run(plan, shards, labels)
    engine = record(run)
    run.go()
    assert plan.private is not None
    assert sorted(map(str, engine.down + engine.up)) == sorted(map(str, left))
    for party in run.parties:
        if party.releaser is not None:
            assert party.releaser.used == {one.name: one.times for one in plan.private.releases[party.name]}


@pytest.mark.parametrize("method", METHODS)
def test_no_bare_number_leaves_under_secure_aggregation(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No word that is carried is a bare number, be it as a float or in fixed point; no array is sent beside masks."""
    door = watch_door(monkeypatch)
    plan, shards, labels = problem(method, secure=True)
    run = Run(plan, shards, labels)
    engine = record(run)
    run.start_from(Start([np.full(shard.features.shape[1], 0.1) for shard in shards], 0.5))
    run.go()
    compared = 0
    for bare, answer in zip(door.bare, engine.up, strict=True):
        assert all(dtype == "uint64" for _, dtype, _, _ in answer.arrays)
        if answer.kind == "keys":
            continue
        assert [name for name, *_ in answer.arrays] == list(bare)
        for name, array in bare.items():
            masked, point = answer.array(name), point_of(name)
            assert not np.isin(masked, point.encode(array, "x")).any()
            assert not np.isin(masked.view(np.float64).ravel(), array).any()
            compared += masked.size
    assert compared > 1e4


# --- code --------------------------------------------------------------------------------------------


@cache
def trees() -> list[tuple[str, ast.Module]]:
    return [(path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text())) for path in sorted(SOURCE.rglob("*.py"))]


def calls(tree: ast.AST) -> Iterator[str]:
    """Names of what is called: f for f(...), .f for x.f(...)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            match node.func:
                case ast.Name(id=name):
                    yield name
                case ast.Attribute(attr=name):
                    yield f".{name}"


def attributes(tree: ast.AST, base: str) -> set[str]:
    """Attributes taken from a variable of this name."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == base
    }


# these play sides on generated or public rows, and are no part of a run
PLAY = ("audit/",)


def test_messages_are_made_at_the_door_only() -> None:
    assert {file for file, tree in trees() if "Message" in calls(tree) and not file.startswith(PLAY)} == {"run/door.py"}
    leaving = {file for file, tree in trees() if ".leave" in calls(tree) and not file.startswith(PLAY)}
    assert leaving == {
        "run/party.py",
        "run/coordinator.py",
        "run/node.py",
        "federation/score_handler.py",  # scores of rows, which the site was asked for and agreed to
    }
    for own, door in (("run/party.py", "send"), ("run/node.py", "_send")):
        tree = next(tree for file, tree in trees() if file == own)
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        assert [function.name for function in functions if ".leave" in calls(function)] == [door]
    tree = next(tree for file, tree in trees() if file == "run/party.py")
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    answer = next(function for function in functions if function.name == "answer")
    returned = [node.value for node in ast.walk(answer) if isinstance(node, ast.Return)]
    assert returned
    assert all(isinstance(value, ast.Call) and ast.unparse(value.func) == "self.send" for value in returned)


SITES = ("federation/party_handler.py", "federation/node_handler.py")  # they answer for a party at home
# these answer other questions: of ids, of people, and for scores that are under masks or agreed to
OTHER_ANSWERS = (
    "alignment/",
    "federation/matching.py",
    "federation/channel.py",
    "federation/flare.py",
    "federation/score_handler.py",
    "federation/consent.py",
    "federation/questions.py",
    "cli/accept.py",
    "cli/join.py",
    "service/",
)


def test_only_a_party_makes_and_calls_its_side() -> None:
    for file, tree in trees():
        if file.startswith(("solvers/", "mechanisms/", *PLAY)):
            continue
        if file != "run/party.py":
            assert ".party" not in set(calls(tree)), file
            used = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
            sides = {text for text in used if text.endswith(".side")}
            own = ("run/coordinator.py", "run/node.py")
            allowed = {"self.side"} if file in own else {"self.coordinator.side"}
            allowed |= {"self.run.coordinator.side"} if file == "run/search.py" else set()  # it scores rows left out
            allowed |= {"session.coordinator.side"} if file == "federation/leads.py" else set()  # what was released
            assert sides <= allowed, file
        if not file.startswith(("run/star.py", "run/graph.py", *OTHER_ANSWERS)) and file not in SITES:
            assert ".answer" not in set(calls(tree)), file


def test_what_a_run_takes_from_its_parties_is_their_model_and_their_state() -> None:
    """The model is the party's own result, the state goes to its checkpoint; blocks and masks are nobody's business."""
    plain = {"name", "columns", "coef", "model_coef", "offset", "clip", "bend", "is_linear", "linear_coef"}
    for file, tree in trees():
        if not file.startswith("run/") or file in ("run/party.py", "run/masking.py"):
            continue
        taken = attributes(tree, "party") | attributes(tree, "p")
        allowed = {
            "run/star.py": plain
            | {"linear_offset", "state", "restore", "start_from", "retune", "answer", "model", "makes_part"},
            "run/saved.py": plain | {"linear_offset"},  # parts of a model that was read
        }
        assert taken <= allowed.get(file, plain), file


def test_the_recorder_sees_what_goes_around_the_door(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison above can fail: an answer that is made beside the door is found."""
    door = watch_door(monkeypatch)
    plan, shards, labels = problem("memory")
    run = Run(plan, shards, labels)
    engine = record(run)
    honest = run.parties[1].answer

    def leaking(message: Message) -> Message:
        answer = honest(message)
        if message.round == 2:  # one bit of one number tells something of the party's own
            answer.arrays["share"].view(np.uint64)[0] ^= np.uint64(1)
        return answer

    run.parties[1].answer = leaking  # type: ignore[method-assign]
    run.go()
    assert [a.round for a, b in zip(engine.up, door.released, strict=True) if a != b] == [2]
