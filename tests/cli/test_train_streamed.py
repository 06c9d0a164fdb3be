"""`tacit train --memory`: the model of a run in memory, inside the memory that was stated."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tacit.data import rows_on_disk
from tacit.job import read_job
from tacit.plan.memory import ALWAYS, apart_from_rows
from tacit.run.prepare import prepare
from tacit.run.star import Run
from tests.cli.test_train import wait_for_checkpoints

PARTIES = """
[[party]]
name = "bank"
data = "bank.parquet"
id = "id"
label = "y"
[[party]]
name = "shop"
data = "shop.parquet"
id = "id"
"""


class Pair:
    """The two files of a job."""

    def __init__(self, folder: Path, rows: int = 3000) -> None:
        self.folder, self.rows = folder, rows
        rng = np.random.RandomState(5)
        X = rng.normal(size=(rows, 8)) @ (np.eye(8) + 0.4 * rng.normal(size=(8, 8))) + rng.normal(size=8)
        score = X @ rng.normal(size=8) / 3
        ids, order = np.arange(rows), rng.permutation(rows)
        self.y = np.where(score + rng.logistic(size=rows) > 0.5, 1, 0)
        self.bank = {"id": ids, **{f"a{j}": X[:, j] for j in range(4)}, "y": self.y}
        self.shop = {"id": ids[order], **{f"b{j}": X[order, 4 + j] for j in range(4)}}

    def write(
        self, job: str = "", model: str = "alpha = 1e-3", more: str = "", encode: str = 'scale = "none"', shop: str = ""
    ) -> Path:
        pq.write_table(pa.table(self.bank), self.folder / "bank.parquet", row_group_size=1000)
        pq.write_table(pa.table(self.shop), self.folder / "shop.parquet", row_group_size=700)
        path = self.folder / "pair.toml"
        path.write_text(f"[job]\n{job}\n[model]\n{model}\n[encode]\n{encode}\n{more}\n{PARTIES}{shop}")
        return path


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pair:
    monkeypatch.setattr(rows_on_disk, "BLOCK_BYTES", 10_000)
    monkeypatch.setattr("tacit.solvers.memory.party.ROWS_AT_ONCE", 500)
    monkeypatch.setattr(rows_on_disk, "ROWS_AT_ONCE", 100)
    return Pair(tmp_path)


def model_of(run: Path) -> Any:
    joint = json.loads((run / "model" / "joint.json").read_text())
    parts = [json.loads((run / "model" / f"{name}.json").read_text()) for name in ("bank", "shop")]
    intercept = joint["constant"] - sum(part["offset"] for part in parts)
    return np.concatenate([*(part["coef"] for part in parts), [intercept]])


MODELS = {
    "logistic": "alpha = 1e-3",
    "no intercept": "alpha = 1e-3\nfit_intercept = false",
    "no penalty": 'penalty = "none"',
    "squared": 'loss = "squared"\nalpha = 1e-2',
    "squared hinge": 'loss = "squared_hinge"\nalpha = 1e-2',
    "poisson": 'loss = "poisson"\nalpha = 1e-2',
}


@pytest.mark.parametrize("name", MODELS)
def test_model_is_that_of_a_run_in_memory(pair: Pair, tacit: Any, name: str) -> None:
    job = pair.write("tol = 1e-8", MODELS[name])
    held, on_disk = pair.folder / "held", pair.folder / "on_disk"
    assert tacit("train", job, "--out", held).code == 0
    answer = tacit("train", job, "--out", on_disk, "--memory", "600MB")
    assert answer.code == 0
    np.testing.assert_allclose(model_of(on_disk), model_of(held), rtol=0, atol=1e-9)  # sums in another order
    results = [json.loads((run / "result.json").read_text()) for run in (held, on_disk)]
    assert abs(results[0]["objective"] - results[1]["objective"]) < 1e-12
    assert [results[0][key] for key in ("rounds", "traffic")] == [results[1][key] for key in ("rounds", "traffic")]
    assert "matched by id (bank 3000 kept, 0 dropped" in answer.out
    assert "192 kB of rows" in answer.err


def test_one_past_step_is_enough(pair: Pair, tacit: Any) -> None:
    job = pair.write("tol = 1e-12\nrounds = 200")
    tacit("train", job, "--out", pair.folder / "held")
    least = f"{(apart_from_rows((4, 4)) + 8 * pair.rows * (ALWAYS + 2 + 1)) / 1e6:.6f}MB"
    assert tacit("train", job, "--out", pair.folder / "run", "--memory", least).code == 0
    assert json.loads((pair.folder / "run" / "plan.json").read_text())["plan"]["window"] == 1
    # both are within a gap of 1e-12 of the optimum, which leaves coefficients sqrt(2e-12 / alpha) = 1e-4 at most
    np.testing.assert_allclose(model_of(pair.folder / "run"), model_of(pair.folder / "held"), rtol=0, atol=1e-5)


def test_memory_is_what_the_plan_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers per row: no more vectors than the budget names, or a run of many rows would exceed it."""
    rows, window = 400_000, 3
    monkeypatch.setattr(rows_on_disk, "BLOCK_BYTES", 1 << 18)
    big = Pair(tmp_path, rows)
    path = big.write("rounds = 7\ntol = 0")
    del big
    job = read_job(path)
    amount = f"{(apart_from_rows((4, 4)) + 8 * rows * (ALWAYS + 2 + window)) / 1e6:.6f}MB"
    job = replace(job, memory=amount)
    (tmp_path / "small").mkdir()
    small = read_job(Pair(tmp_path / "small").write("rounds = 7\ntol = 0"))
    begun = prepare(replace(small, memory=amount))
    Run(begun.plan, begun.shards, begun.labels.values).go()  # imports and compiles what the first run in a process does
    tracemalloc.start()
    try:
        begun = prepare(job)
        assert begun.plan.problem.max_window == window
        gc.collect()
        tracemalloc.reset_peak()
        run = Run(begun.plan, begun.shards, begun.labels.values)
        run.go()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(run.state.trace) == 7
    vectors = (peak - 3e6) / (8 * rows)  # beside them: pieces of 65536 rows, buffers
    assert vectors <= ALWAYS + 2 + window


def test_killed_run_goes_on_to_the_same_result(pair: Pair, tacit: Any) -> None:
    job, whole, broken = pair.write("tol = 1e-15\nrounds = 40"), pair.folder / "whole", pair.folder / "broken"
    scratch = pair.folder / "scratch"
    scratch.mkdir()
    tacit("train", job, "--out", whole, "--memory", "600MB")
    words = [sys.executable, "-m", "tacit.cli.main", "train", str(job), "--out", str(broken), "--memory", "600MB"]
    words += ["--checkpoint-every", "0"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, env={**os.environ, "TMPDIR": str(scratch)})
    try:
        wait_for_checkpoints(process, broken / "checkpoint.npz", 4)  # type: ignore[arg-type]
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL
    assert list(scratch.iterdir()) == []
    assert "memory is" in tacit("train", job, "--out", broken, "--resume").err
    answer = tacit("train", job, "--out", broken, "--resume", "--memory", "600MB")
    assert "continuing after round" in answer.out
    np.testing.assert_allclose(model_of(broken), model_of(whole), rtol=0, atol=1e-9)


def test_changed_rows_are_refused_on_resume(pair: Pair, tacit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    job, run = pair.write(), pair.folder / "run"

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("tacit.run.drive._record", stop)
        answer = tacit("train", job, "--out", run, "--memory", "600MB")
    assert answer.err.endswith(f"--out {run} --memory 600MB --resume\n")
    pair.shop["b2"] = pair.shop["b2"] + 1e-9
    pair.write()
    assert 'data of party "shop"' in tacit("train", job, "--out", run, "--memory", "600MB", "--resume").err


def test_key_of_the_job(pair: Pair, tacit: Any) -> None:
    job, run = pair.write('memory = "0.6 GB"'), pair.folder / "run"
    assert "of rows in" in tacit("train", job, "--out", run).err
    assert 'memory = "0.6 GB"' in (run / "job.toml").read_text()
    assert read_job(run / "job.toml").memory == "0.6 GB"


REFUSED = {
    "too little": ({}, "500MB", "give at least 510 MB"),
    "no amount": ({}, "plenty", '--memory "plenty" is not allowed: it must be an amount of memory'),
    "no unit": ({}, "2000", "it must be an amount of memory"),
    "private": ({"more": "[privacy]\nepsilon = 1"}, "2GB", "memory does not go with [privacy]"),
    "masked": ({"job": "secure_aggregation = true"}, "2GB", "memory does not go with secure_aggregation"),
    "other method": ({"model": 'method = "averaged"'}, "2GB", 'memory does not go with method "averaged"'),
    "kinks": ({"model": 'loss = "hinge"'}, "2GB", "choose a smooth convex loss"),
    "search": ({"model": "", "more": "[search]\nalphas = 3"}, "2GB", "memory does not go with [search]"),
    "holdout": ({"job": "holdout = 0.2"}, "2GB", "memory does not go with holdout = 0.2"),
    "columns": (
        {"shop": "[party.columns]\nb1 = { low = 0, high = 1 }"},
        "2GB",
        'party "shop": memory takes columns as the files have them, and columns says otherwise of "b1"',
    ),
    "bad key": ({"job": "memory = 3"}, "2GB", "job.memory = 3 is not allowed"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_one_line(pair: Pair, refused: Any, name: str) -> None:
    texts, memory, expected = REFUSED[name]
    assert expected in refused("train", pair.write(**texts), "--out", pair.folder / "run", "--memory", memory)


@pytest.mark.parametrize("name", ["search", "holdout", "columns"])
def test_the_key_of_the_job_refuses_the_same(pair: Pair, refused: Any, name: str) -> None:
    texts, _, expected = REFUSED[name]
    job = pair.write(**texts)
    job.write_text(job.read_text().replace("[job]", '[job]\nmemory = "2GB"', 1))
    for verb in ("train", "plan"):
        assert expected in refused(verb, job)


def test_text_is_refused_by_name(pair: Pair, refused: Any) -> None:
    pair.shop["b1"] = pair.shop["b1"].astype(str)
    said = refused("train", pair.write(), "--out", pair.folder / "run", "--memory", "600MB")
    assert 'party "shop": column "b1" holds string' in said
    assert 'column "b1" holds string' in refused("plan", pair.write('memory = "600MB"'))


def test_plan_counts_what_the_run_will_have(pair: Pair, tacit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    job = pair.write('memory = "600MB"')
    monkeypatch.setattr("tacit.data.sizes.read_training_table", None)  # which would read all rows into memory
    answer = tacit("plan", job)
    assert answer.code == 0
    assert "at most 3000 rows; bank 4 columns and the labels, shop 4 columns" in answer.out


def test_positive_label_is_the_one_that_was_chosen(pair: Pair, tacit: Any) -> None:
    job, runs = pair.write(), [pair.folder / name for name in ("usual", "held", "on_disk")]
    tacit("train", job, "--out", runs[0], "--memory", "600MB")
    job.write_text(job.read_text().replace('label = "y"', 'label = "y"\npositive = 0'))
    tacit("train", job, "--out", runs[1])
    assert "y: 0 is positive, 1 negative" in tacit("train", job, "--out", runs[2], "--memory", "600MB").out
    np.testing.assert_allclose(model_of(runs[2]), -model_of(runs[0]), rtol=0, atol=1e-8)
    np.testing.assert_allclose(model_of(runs[2]), model_of(runs[1]), rtol=0, atol=1e-8)


def test_what_follows_a_run_on_disk(pair: Pair, tacit: Any) -> None:
    """No figures, as they would take more memory; the report and predictions are those of the run in memory."""
    job, held, on_disk = pair.write("tol = 1e-8"), pair.folder / "held", pair.folder / "on_disk"
    tacit("train", job, "--out", held)
    answer = tacit("train", job, "--out", on_disk, "--memory", "600MB", "--report")
    assert "Nothing was evaluated: the rows stayed on disk" in answer.out
    assert json.loads((on_disk / "evaluation.json").read_text())["models"] == []
    assert "Nothing was evaluated" in (on_disk / "report.html").read_text()
    files = [f"{name}={pair.folder / name}.parquet" for name in ("bank", "shop")]
    for run in (held, on_disk):
        assert tacit("predict", run, *files, "--out", run / "scores.csv").code == 0
    one, other = (np.loadtxt(run / "scores.csv", delimiter=",", skiprows=1) for run in (held, on_disk))
    np.testing.assert_allclose(other, one, rtol=0, atol=1e-9)


def test_a_bad_value_is_refused_before_a_run_begins(pair: Pair, tacit: Any) -> None:
    pair.shop["b1"][2345] = np.nan
    answer = tacit("train", pair.write(), "--out", pair.folder / "run", "--memory", "600MB")
    assert answer.code == 2
    assert 'party "shop": column "b1" is blank or NaN in row 2346' in answer.err
