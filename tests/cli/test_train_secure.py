"""`tacit train` with secure_aggregation = true: the same model, a killed run that goes on, and refusals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

START = [sys.executable, "-m", "tacit.cli.main", "train"]


def three_parties(files: Any, *, secure: bool, rounds: int = 40) -> Path:
    """The job of the fixture with a third party, whose columns are nobody's yet."""
    files.job = f"rounds = {rounds}\ntol = 1e-15\nsecure_aggregation = {'true' if secure else 'false'}"
    files.model = 'loss = "hinge"\nmethod = "averaged"\nalpha = 0.01'
    path = files.write()
    more = np.random.RandomState(3).normal(size=(files.rows, 2))
    lines = ["customer,t0,t1", *(f"c{i:04d},{a},{b}" for i, (a, b) in enumerate(more))]
    (files.folder / "phone.csv").write_text("\n".join(lines) + "\n")
    path.write_text(path.read_text() + '[[party]]\nname = "phone"\ndata = "phone.csv"\nid = "customer"\n')
    return path


def model(run: Path) -> list[float]:
    parts = [json.loads((run / "model" / f"{name}.json").read_text())["coef"] for name in ("bank", "shop", "phone")]
    return [value for part in parts for value in part]


def test_a_job_with_masks_gives_the_same_model_and_says_so(files: Any, tacit: Any, refused: Any) -> None:
    runs = {secure: files.folder / f"run {secure}" for secure in (True, False)}
    for secure, run in runs.items():
        assert tacit("train", three_parties(files, secure=secure), "--out", run).code == 0
    np.testing.assert_allclose(model(runs[True]), model(runs[False]), rtol=1e-6, atol=1e-8)
    words = [(run / "certificate.txt").read_text() for run in runs.values()]
    assert "under masks" in words[0]
    assert "NOT differentially private" in words[0]
    assert "masks" not in words[1]
    assert json.loads((runs[True] / "plan.json").read_text())["plan"]["secure_aggregation"] is True
    job = three_parties(files, secure=False)
    assert "job.secure_aggregation is False, it began with True" in refused(
        "train", job, "--out", runs[True], "--resume"
    )


def test_two_parties_are_refused(files: Any, refused: Any) -> None:
    files.job = "secure_aggregation = true"
    assert "needs at least 3 parties, not 2" in refused("train", files.write(), "--out", files.folder / "run")
    files.job = "secure_aggregation = 1"
    assert 'job.secure_aggregation = 1 is not allowed: it must be true, false or "auto"' in refused(
        "train", files.write()
    )


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_killed_run_under_masks_goes_on_to_the_same_model(files: Any, tacit: Any) -> None:
    job, whole, broken = three_parties(files, secure=True, rounds=200), files.folder / "whole", files.folder / "broken"
    assert tacit("train", job, "--out", whole).code == 0
    words = [*START, str(job), "--out", str(broken), "--checkpoint-every", "0"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        end = time.monotonic() + 40
        while not (broken / "checkpoint.npz").exists() and process.poll() is None:
            assert time.monotonic() < end
            time.sleep(0.001)
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL
    answer = tacit("train", job, "--out", broken, "--resume")
    assert answer.code == 0
    assert "continuing after round" in answer.out
    np.testing.assert_allclose(model(broken), model(whole), rtol=1e-8, atol=1e-10)
    results = [json.loads((run / "result.json").read_text()) for run in (whole, broken)]
    assert results[0]["rounds"] == results[1]["rounds"]
    assert results[0]["traffic"] == results[1]["traffic"]
