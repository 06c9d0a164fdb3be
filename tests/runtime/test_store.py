"""Run directories: exact round trips, refusals of what differs or is damaged, cheap checkpoints."""

from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from tacit.data.labels import Labels
from tacit.errors import InputError, RunError
from tacit.files import plain_number, write_atomically
from tacit.job import Job, ModelSection, PartySpec
from tacit.run import checkpoint
from tacit.run.checkpoint import Checkpoints, fingerprint, read_checkpoint, write_checkpoint
from tacit.run.folder import PreparedRun, RunFolder
from tacit.run.predict import load_model
from tacit.run.star import Run
from tacit.types import Shard
from tests.plans import feature_plan


def make(seed: int = 0, method: str = "memory", rounds: int = 8, alpha: float = 1e-3, **changes: Any) -> PreparedRun:
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(60, 5))
    y = np.where(X.sum(axis=1) + rng.normal(size=60) > 0, 1.0, -1.0)
    shards = [Shard("a", X[:, :2], ("a0", "a1")), Shard("b", sparse.csr_array(X[:, 2:]), ("b0", "b1", "b2"))]
    loss = "hinge" if method == "averaged" else "logistic"
    model = ModelSection(loss=loss, alpha=alpha, method=method)
    parties = (PartySpec("a", "a.csv", id="k", label="y"), PartySpec("b", "b.csv", id="k"))
    job = Job("test", parties, model, rounds=rounds, tol=1e-15)
    plan = feature_plan(
        loss=loss, penalty="l2", alpha=alpha, fit_intercept=True, method=method, rho="auto", max_rounds=rounds,
        tol=1e-15, privacy=None, party_names=("a", "b"), rows=60, input_bytes=2400,
    )  # fmt: skip
    return dataclasses.replace(PreparedRun(job, plan, shards, Labels(y, (False, True))), **changes)


def new_run(begun: PreparedRun) -> Run:
    return Run(begun.plan, begun.shards, begun.labels.values)


class KilledError(Exception):
    """Stands for the end of the process."""


def run_until(begun: PreparedRun, directory: RunFolder, rounds: int) -> None:
    """Train with a checkpoint after each round, and die after so many."""
    save = Checkpoints(directory.checkpoint, every=0)

    def save_and_die(run: Run) -> None:
        save(run)
        if run.state.rounds == rounds:
            raise KilledError

    with directory.locked(resume=directory.path.exists()):
        directory.begin(begun)
        run = new_run(begun)
        directory.restore(run)
        with pytest.raises(KilledError):
            run.go(checkpoint=save_and_die)


@pytest.mark.parametrize("method", ["memory", "averaged", "published", "sgd"])
def test_resumed_run_is_the_same_run(tmp_path: Path, method: str) -> None:
    begun = make(method=method)
    whole = new_run(begun).go()
    directory = RunFolder(tmp_path / "run")
    for rounds in (1, 2, 5):
        run_until(begun, directory, rounds)
    with directory.locked(resume=True):
        directory.begin(begun)
        run = new_run(begun)
        assert directory.restore(run)
        result = run.go()
        directory.finish(result, begun)
    model = load_model(directory.path)
    for saved, party in zip(model.parties, whole.model.parts, strict=True):
        np.testing.assert_allclose(saved.coef, party.coef, rtol=1e-12)
        assert saved.columns == party.columns
    np.testing.assert_allclose(model.constant, whole.model.constant, rtol=1e-12)
    assert [row.round for row in result.trace] == [row.round for row in whole.trace]
    assert result.traffic == whole.traffic
    assert model.classes == (False, True)
    assert not directory.checkpoint.exists()


def test_coefficients_are_saved_exactly(tmp_path: Path) -> None:
    begun, directory = make(), RunFolder(tmp_path / "run")
    result = new_run(begun).go()
    with directory.locked(resume=False):
        directory.begin(begun)
        directory.finish(result, begun)
    model = load_model(directory.path)
    for saved, party in zip(model.parties, result.model.parts, strict=True):
        assert saved.coef.tobytes() == np.asarray(party.coef).tobytes()
        assert saved.offset == party.offset


def test_checkpoint_reads_back_exactly(tmp_path: Path) -> None:
    begun, directory = make(), RunFolder(tmp_path / "run")
    run = new_run(begun)
    run.go()
    write_checkpoint(tmp_path / "c.npz", run)
    states, state = read_checkpoint(tmp_path / "c.npz")
    assert repr(state) == repr(run.state)
    for who, arrays in run.snapshot().items():
        for name, array in arrays.items():
            np.testing.assert_array_equal(states[who][name], array)
    assert not directory.path.exists()


def test_killed_before_the_first_checkpoint_starts_again(tmp_path: Path) -> None:
    begun, directory = make(), RunFolder(tmp_path / "run")
    with directory.locked(resume=False):
        pass
    for _ in range(2):
        with directory.locked(resume=True):
            directory.begin(begun)
            assert not directory.restore(new_run(begun))


def change_labels(begun: PreparedRun) -> PreparedRun:
    return dataclasses.replace(begun, labels=Labels(-begun.labels.values, begun.labels.classes))


def change_data(begun: PreparedRun) -> PreparedRun:
    other = begun.shards[1].features.copy()
    other[0, 0] = np.nextafter(other[0, 0], 1e9)
    return dataclasses.replace(begun, shards=[begun.shards[0], Shard("b", other, begun.shards[1].columns)])


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (make(alpha=1e-2), "model.alpha is 0.01, it began with 0.001"),
        (make(rounds=9), "job.rounds is 9"),
        (change_data(make()), 'the data of party "b"'),
        (change_labels(make()), "the labels are not those"),
        (dataclasses.replace(make(), labels=Labels(make().labels.values, (0, 1))), "the labels are not those"),
    ],
)
def test_going_on_with_something_else_is_refused(tmp_path: Path, other: PreparedRun, words: str) -> None:
    directory = RunFolder(tmp_path / "run")
    run_until(make(), directory, 2)
    with directory.locked(resume=True), pytest.raises(InputError, match=words):
        directory.begin(other)


def test_fingerprint_tells_label_epsilons_apart() -> None:
    shards, values = [Shard("a", np.eye(2), ("x", "y"))], np.array([1.0, -1.0])
    found = [
        fingerprint(shards, Labels(values, ("no", "yes"), epsilons)) for epsilons in (None, values + 2, 2 - values)
    ]
    assert len({print_["labels"] for print_ in found}) == 3


def test_fingerprint_tells_dense_from_sparse_and_shapes_apart() -> None:
    labels = Labels(np.ones(2))
    prints = {
        json.dumps(fingerprint([Shard("a", features, columns)], labels))
        for features, columns in [
            (np.zeros((2, 3)), ("x", "y", "z")),
            (np.zeros((2, 3), dtype=np.float32), ("x", "y", "z")),
            (np.zeros((2, 3)), ("x", "z", "y")),
            (np.zeros((2, 2)), ("x", "y")),
            (sparse.csr_array((2, 3)), ("x", "y", "z")),
        ]
    }
    assert len(prints) == 5
    assert fingerprint([Shard("a", np.eye(3)[:2])], labels) == fingerprint(
        [Shard("a", np.asfortranarray(np.eye(3))[:2])], labels
    )


@pytest.mark.parametrize("name", ["checkpoint.npz", "plan.json", "job.toml"])
def test_damaged_files_are_named_and_never_a_traceback(tmp_path: Path, name: str) -> None:
    begun, directory = make(), RunFolder(tmp_path / "run")
    run_until(begun, directory, 3)
    path, rng = directory.path / name, random.Random(name)
    good = path.read_bytes()
    messages = []
    for turn in range(60):
        bad = bytearray(good)
        if turn % 3 == 0:
            del bad[rng.randrange(len(bad)) :]
        for _ in range(1 if turn % 3 else 0):
            bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
        path.write_bytes(bytes(bad))
        with directory.locked(resume=True):
            try:
                directory.begin(begun)
                directory.restore(new_run(begun))
            except InputError as error:
                messages.append(str(error))
    assert len(messages) >= 20
    assert all(str(directory.path) in message and "\n" not in message for message in messages)
    path.unlink()
    with directory.locked(resume=True):
        if name != "checkpoint.npz":
            with pytest.raises(InputError, match=name):
                directory.begin(begun)


def test_pickles_are_not_loaded(tmp_path: Path) -> None:
    begun, directory = make(), RunFolder(tmp_path / "run")
    run_until(begun, directory, 1)
    np.savez(directory.checkpoint, loop=np.array([print], dtype=object), trace=np.zeros((0, 11)))
    with directory.locked(resume=True), pytest.raises(InputError, match=r"checkpoint\.npz"):
        directory.restore(new_run(begun))


def test_only_one_may_hold_the_directory(tmp_path: Path) -> None:
    directory = RunFolder(tmp_path / "run")
    with directory.locked(resume=False):
        other = RunFolder(tmp_path / "run")
        with pytest.raises(InputError, match="another process is training"), other.locked(resume=False):
            pass
    with directory.locked(resume=True):
        pass


def test_checkpoints_cost_a_tenth_of_the_time_at_most(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    now, written = [0.0], []

    def write(path: Path, run: Any) -> None:
        written.append(now[0])
        now[0] += 3.0

    monkeypatch.setattr(checkpoint.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(checkpoint, "write_checkpoint", write)
    save = Checkpoints(tmp_path / "c.npz", every=2.0)
    run: Any = None
    while now[0] < 300:
        now[0] += 0.5
        save(run)
    assert written[0] == 2.0
    assert 3.0 * len(written) <= 0.1 * now[0] + 3.0
    assert len(written) > 5


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def fail(file: Any) -> None:
        file.write(b"half")
        raise OSError("disk full")

    with pytest.raises(RunError, match="disk full"):
        write_atomically(path, fail)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_numbers_of_strict_json() -> None:
    assert [plain_number(v) for v in (1.5, np.inf, -np.inf, np.nan)] == [1.5, "infinity", "-infinity", "nan"]
