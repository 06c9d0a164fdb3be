"""`tacit train --dask`: the model of a run in memory, also where workers are killed."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.cli.main import main
from tacit.data import cluster
from tacit.data import cluster as cluster_rows
from tests.cluster.local import Pair, local_cluster, pids


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pair:
    monkeypatch.setattr(cluster_rows, "BLOCK_ROWS", 600)
    return Pair(tmp_path)


def train(job: Path, out: Path, *words: str) -> int:
    return main(["train", str(job), "--out", str(out), *words])


def model_of(run: Path) -> Any:
    joint = json.loads((run / "model" / "joint.json").read_text())
    parts = [json.loads((run / "model" / f"{name}.json").read_text()) for name in ("bank", "shop")]
    return np.concatenate([*(part["coef"] for part in parts), [joint["constant"] - sum(p["offset"] for p in parts)]])


MODELS = {
    "logistic": "alpha = 1e-3",
    "no intercept": "alpha = 1e-3\nfit_intercept = false",
    "no penalty": 'penalty = "none"',
    "squared": 'loss = "squared"\nalpha = 1e-2',
    "poisson": 'loss = "poisson"\nalpha = 1e-2',
    "averaged": 'method = "averaged"\nalpha = 1e-2',
    "multipliers": 'loss = "hinge"\npenalty = "l1"\nalpha = 1e-2',
    "published": 'method = "published"\nrho = 1.0\nalpha = 1e-2',
}


@pytest.mark.parametrize("name", MODELS)
def test_model_is_that_of_a_run_in_memory(pair: Pair, address: str, name: str, capfd: Any) -> None:
    job, held, there = pair.write("rounds = 8", MODELS[name]), pair.folder / "held", pair.folder / "there"
    assert train(job, held) == 0
    capfd.readouterr()
    assert train(job, there, "--dask", address) == 0
    said = capfd.readouterr()
    np.testing.assert_allclose(model_of(there), model_of(held), rtol=0, atol=1e-10)
    results = [json.loads((run / "result.json").read_text()) for run in (held, there)]
    assert abs(results[0]["objective"] - results[1]["objective"]) < 1e-12
    assert results[0]["rounds"] == results[1]["rounds"]
    assert "matched by id (bank 2900 kept, 100 dropped" in said.out
    assert "Nothing was evaluated: the rows stayed on a Dask cluster" in said.out
    assert f"the workers at {address} read up to" in said.err


def test_two_runs_are_the_same_to_the_last_bit(pair: Pair, address: str) -> None:
    job, runs = pair.write("rounds = 6"), [pair.folder / name for name in ("one", "two")]
    for run in runs:
        assert train(job, run, "--dask", address, "--quiet") == 0
    one, two = ((run / "model" / "bank.json").read_bytes() for run in runs)
    assert one == two


def kill_in_round(monkeypatch: pytest.MonkeyPatch, number: int, action: Any) -> None:
    """Do something once, when a round of that number has ended."""
    from tacit.run import drive

    record, done = drive._record, []

    def recorded(*arguments: Any, **named: Any) -> Any:
        found = record(*arguments, **named)
        done.append(None)
        if len(done) == number:
            action()
        return found

    monkeypatch.setattr(drive, "_record", recorded)


def test_a_killed_worker_changes_nothing(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    job, calm, killed = pair.write("tol = 1e-12"), pair.folder / "calm", pair.folder / "killed"
    with local_cluster() as own:
        before = pids(own)
        assert train(job, calm, "--dask", own.scheduler_address, "--quiet") == 0
        with monkeypatch.context() as patched:
            kill_in_round(patched, 2, lambda: os.kill(next(iter(before.values())), signal.SIGKILL))
            assert train(job, killed, "--dask", own.scheduler_address, "--quiet") == 0
        assert next(iter(before.values())) not in pids(own).values()
    assert (calm / "model" / "bank.json").read_bytes() == (killed / "model" / "bank.json").read_bytes()
    assert (calm / "model" / "shop.json").read_bytes() == (killed / "model" / "shop.json").read_bytes()


def test_a_worker_killed_while_it_works(pair: Pair) -> None:
    """Blocks that one worker held are read again by the other, in the middle of a pass."""
    from tacit.blocks import make_block
    from tacit.data.load import PartySpec

    pair.write()
    file = cluster_rows.ClusterFile(PartySpec("shop", str(pair.folder / "shop.parquet"), id="id"), ".", "")
    with local_cluster() as own, cluster.connect(cluster.ClusterAddress(own.scheduler_address)) as found:
        rows = cluster_rows.ClusterRows(found, file)
        weights, victim = np.random.RandomState(0).rand(rows.shape[0]), next(iter(pids(own).values()))
        before = make_block(rows).gram(weights)
        timer = threading.Timer(0.02, os.kill, (victim, signal.SIGKILL))
        timer.start()
        for _ in range(20):
            np.testing.assert_array_equal(make_block(rows).gram(weights), before)
        timer.join()
        assert victim not in pids(own).values()


def test_cluster_that_is_gone_is_one_line_and_the_run_goes_on(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, capfd: Any, address: str
) -> None:
    job, whole, broken = pair.write("tol = 1e-12"), pair.folder / "whole", pair.folder / "broken"
    assert train(job, whole, "--dask", address, "--quiet") == 0
    began = time.monotonic()
    with local_cluster() as own, monkeypatch.context() as patched:

        def end() -> None:
            here = cluster._OPEN[cluster.ClusterAddress(own.scheduler_address)]
            here._client._timeout = 1.0  # that it looks for a scheduler which is gone
            own.close()

        kill_in_round(patched, 3, end)
        capfd.readouterr()
        assert train(job, broken, "--dask", own.scheduler_address, "--quiet", "--checkpoint-every", "0") == 1
    said = capfd.readouterr().err.splitlines()
    assert len(said) == 2, said
    assert said[1].startswith(f"tacit: error: the Dask cluster at {own.scheduler_address} cannot go on")
    assert said[1].endswith("go on with --resume")
    assert time.monotonic() - began < 180  # not for ever, on a busy machine
    assert train(job, broken, "--dask", address, "--resume") == 0
    assert "continuing after round" in capfd.readouterr().out
    np.testing.assert_allclose(model_of(broken), model_of(whole), rtol=0, atol=1e-9)


def test_workers_that_are_all_gone_are_waited_for_and_not_for_ever(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.setattr(cluster, "LOOK_SECONDS", 0.5)
    monkeypatch.setattr(cluster, "ALONE_SECONDS", 2.0)
    job = pair.write("tol = 1e-12")
    with local_cluster() as own:
        kill_in_round(monkeypatch, 2, lambda: own.scale(0))
        assert train(job, pair.folder / "run", "--dask", own.scheduler_address, "--quiet") == 1
    assert "(no worker for 2 s)" in capfd.readouterr().err


def test_an_interrupted_run_says_how_to_go_on(
    pair: Pair, address: str, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tacit.run.drive._record", stop)
    assert train(pair.write(), pair.folder / "run", "--dask", address) == 130
    assert capfd.readouterr().err.endswith(f"--dask {address} --resume\n")


def test_changed_rows_are_refused_on_resume(
    pair: Pair, address: str, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    run = pair.folder / "run"
    with monkeypatch.context() as patched:
        patched.setattr("tacit.run.drive._record", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        train(pair.write(), run, "--dask", address)
    pair.shop["b2"] = pair.shop["b2"] + 1e-9
    assert train(pair.write(), run, "--dask", address, "--resume") == 2
    assert 'data of party "shop" are not those' in capfd.readouterr().err


REFUSED = {
    "private": ({"more": "[privacy]\nepsilon = 1"}, "--dask does not go with [privacy]"),
    "single rows": ({"model": 'method = "sgd"'}, '--dask does not go with method "sgd": choose one of memory'),
    "search": ({"model": "", "more": "[search]\nalphas = 3"}, "--dask does not go with [search]"),
    "holdout": ({"job": "holdout = 0.2"}, "--dask does not go with holdout = 0.2"),
    "scaled": ({"encode": ""}, 'write scale = "none" under [encode]'),
    "memory": ({"job": 'memory = "2GB"'}, "--dask and memory both"),
    "flare": ({"job": 'engine = "flare"'}, '--dask is not for engine = "flare"'),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_one_line(pair: Pair, address: str, capfd: Any, name: str) -> None:
    texts, expected = REFUSED[name]
    job = pair.write(**texts)
    if name == "flare":
        job.write_text("\n".join(line for line in job.read_text().splitlines() if not line.startswith("data")))
    assert train(job, pair.folder / "run", "--dask", address) == 2
    said = capfd.readouterr().err
    assert expected in said
    assert said.count("\n") == 1


def test_words_about_no_cluster_are_refused(pair: Pair, capfd: Any) -> None:
    assert train(pair.write(), pair.folder / "run", "--dask-insecure") == 2
    assert "give --dask ADDRESS too" in capfd.readouterr().err
    assert train(pair.write(), pair.folder / "run", "--dask", "tcp://10.0.0.7:8786") == 2
    assert "is not encrypted" in capfd.readouterr().err


def test_text_is_refused_by_name(pair: Pair, address: str, capfd: Any) -> None:
    pair.shop["b1"] = pair.shop["b1"].astype(str)
    assert train(pair.write(), pair.folder / "run", "--dask", address) == 2
    assert 'column "b1" holds string, and with --dask' in capfd.readouterr().err


def test_without_dask_one_line_names_the_extra(pair: Pair, address: str, monkeypatch: Any, capfd: Any) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "distributed", None)
    assert train(pair.write(), pair.folder / "run", "--dask", address) == 2
    assert "pip install 'tacit[dask]'" in capfd.readouterr().err
