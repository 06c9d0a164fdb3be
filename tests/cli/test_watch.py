"""`tacit watch`: a run seen from another process, while it goes on, after it was killed, and after its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tacit.cli import watch
from tacit.run import watching
from tacit.run.folder import RunFolder
from tacit.run.watching import FINISHED, READING, STOPPED, TRAINING, Watcher
from tests.cli.test_samples import Nodes

COMMAND = [sys.executable, "-m", "tacit.cli.main"]


def long_run(files: Any) -> Path:
    """A job that does not end by itself while a test lasts."""
    files.model, files.job = 'method = "sgd"\nalpha = 0.01', "rounds = 1000000\ntol = 0"
    return Path(files.write())


def start(job: Path, out: Path, *options: str) -> subprocess.Popen[str]:
    words = ["train", str(job), "--out", str(out), "--quiet", *options]
    return subprocess.Popen([*COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def stop(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=120)


def wait_for(condition: Any, process: subprocess.Popen[str], limit: float = 60.0) -> None:
    end = time.monotonic() + limit
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_run_in_progress_a_killed_one_and_one_that_goes_on(files: Any, tacit: Any) -> None:
    job, out = long_run(files), files.folder / "run"
    process = start(job, out, "--checkpoint-every", "0")
    try:
        wait_for(lambda: (out / "trace.jsonl").exists() and (out / "checkpoint.npz").exists(), process)
        watcher = Watcher(out)
        wait_for(lambda: len(watcher.look().trace) > 5, process)
        seen = watcher.look()
        assert (seen.state, seen.name, seen.most_rounds) == (TRAINING, "credit", 1000000)
        assert [row.round for row in seen.trace] == list(range(1, len(seen.trace) + 1))
        assert seen.speed > 0
        wait_for(lambda: len(watcher.look().trace) > len(seen.trace), process)
        answer = tacit("watch", out, "--once")
        assert answer.code == 0
        assert "credit: training" in answer.out
        assert "of at most 1000000" in answer.out
        assert "rounds/s" in answer.out
    finally:
        stop(process)
    assert watcher.look().state == STOPPED
    answer = tacit("watch", out)
    assert answer.code == 1
    assert f"nobody is training it: go on with tacit train JOB.toml --out {out} --resume" in answer.out
    assert "the run is not finished" in tacit("verify", out).err
    with open(out / "trace.jsonl", "a") as file:
        file.write('{"round": 9999999, "obj')  # a line that the killed process did not finish
    process = start(job, out, "--resume", "--checkpoint-every", "0")
    try:
        before = len(watcher.look().trace)
        wait_for(lambda: watcher.look().state == TRAINING and len(watcher.look().trace) > before, process)
        rounds = [row.round for row in watcher.look().trace]
        assert rounds == list(range(1, len(rounds) + 1))
    finally:
        stop(process)


def test_watching_ends_with_the_run(files: Any) -> None:
    files.model, files.job = 'loss = "hinge"\nmethod = "averaged"\nalpha = 0.01', "rounds = 600\ntol = 1e-15"
    job, out = files.write(), files.folder / "run"
    process = start(job, out)
    try:
        wait_for(lambda: (out / "run.lock").exists(), process)
        done = subprocess.run(
            [*COMMAND, "watch", str(out), "--every", "0.05"], capture_output=True, text=True, timeout=120, check=False
        )
    finally:
        process.communicate(timeout=60)
    assert process.returncode == 0
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[-1] == f"report     tacit report {out}"
    assert "run        credit: finished" in lines
    rounds = json.loads((out / "result.json").read_text())["rounds"]
    assert f"round      {rounds} of at most 600" in lines


def test_a_finished_run(files: Any, tacit: Any) -> None:
    out = files.folder / "run"
    tacit("train", files.write(), "--out", out, "--quiet")
    result = json.loads((out / "result.json").read_text())
    answer = tacit("watch", out)
    assert (answer.code, answer.err) == (0, "")
    assert f"round      {result['rounds']} of at most 200" in answer.out
    assert f"gap {result['gap']:.1e}" in answer.out
    assert "none: epsilon is infinite" in answer.out
    assert Watcher(out).look().state == FINISHED
    assert not RunFolder(out).training


def test_a_private_run_shows_epsilon_and_no_objective(files: Any, tacit: Any) -> None:
    files.privacy = "epsilon = 3"
    tacit("train", files.write(), "--out", files.folder / "run", "--quiet")
    out = tacit("watch", files.folder / "run", "--once").out
    assert "epsilon 3, planned for all rounds together" in out
    assert "round      2 of at most 2" in out
    assert "objective" not in out


def test_other_rows(tmp_path: Path, tacit: Any) -> None:
    nodes = Nodes(tmp_path)
    tacit("train", nodes.write(), "--out", tmp_path / "run", "--quiet")
    out = tacit("watch", tmp_path / "run", "--once").out
    assert "between neighbours" in out
    assert "residuals" in out


def test_in_a_terminal_it_is_shown_in_place(files: Any, tacit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    out = files.folder / "run"
    tacit("train", files.write(), "--out", out, "--quiet")
    states = iter([TRAINING, TRAINING, FINISHED])
    monkeypatch.setattr(watching.Watcher, "_state", lambda self: next(states))
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(watch, "EVERY", 0.01)
    answer = tacit("watch", out)
    assert answer.code == 0
    assert "credit: training" in answer.out
    assert answer.out.rstrip().endswith(f"tacit report {out}")


def test_watching_does_not_keep_anybody_from_training(files: Any) -> None:
    out = files.folder / "run"
    directory = RunFolder(out)
    with directory.locked(resume=False):
        assert RunFolder(out).training
        assert Watcher(out).look().state == READING
    with open(out / "run.lock", "rb") as lock:
        import fcntl
        import threading

        fcntl.flock(lock, fcntl.LOCK_SH)  # as a watcher holds it for an instant
        later = threading.Timer(0.1, lambda: fcntl.flock(lock, fcntl.LOCK_UN))
        later.start()
        with directory.locked(resume=False):
            assert RunFolder(out).training
        later.join()


def test_what_is_refused(files: Any, refused: Any) -> None:
    assert "there is no run" in refused("watch", files.folder)
    assert "there is no run" in refused("watch", files.folder / "nowhere")
    assert "--every" in refused("watch", files.folder, "--every", "0")


def test_ctrl_c_leaves_the_run_alone(files: Any, tacit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    out = files.folder / "run"
    tacit("train", files.write(), "--out", out, "--quiet")

    def interrupt(*words: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(watch, "_follow", interrupt)
    answer = tacit("watch", out)
    assert (answer.code, answer.err) == (130, "tacit: no longer watching; the run is left alone\n")
