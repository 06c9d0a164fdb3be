"""Boosted trees over FLARE: the trees of one process, where a party's job is killed on the way; and predictions."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from tacit.cli.main import main
from tacit.federation.kit import ENVIRONMENT, Kit
from tests.federation.live import Live, environment
from tests.federation.test_sites_trees import job_text, predicted, texts, write_files

pytestmark = pytest.mark.slow
pytest.importorskip("private_set_intersection", reason="needs tacit[align]")
pytest.importorskip("lightgbm", reason="needs tacit[trees]")

NAMES = ("bank", "shop")
SECONDS = 240
LONG = {
    "top": "rounds = 12\ntol = 0",
    "model": 'loss = "softmax"\nclasses = 3',  # a number for each row and class
    "label": "size",
    "more": "[trees]\nn_iter_no_change = 20",
}


@contextlib.contextmanager
def own_files(live: Live, files: dict[str, Path]) -> Iterator[None]:
    """Give every party its file for a while, and let it take every job."""
    before = {name: live.kits[name].settings() for name in files}
    try:
        for name, path in files.items():
            live.kits[name].keep(data=str(path), accept="always", budget=None, id=None)
        yield
    finally:
        for name, known in before.items():
            live.kits[name].keep(**{"accept": None, "budget": None, **known})


def start(live: Live, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tacit.cli.main", *words, "--kit", str(live.kits["server"].path)]
    return subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def kill_worker(kit: Kit) -> None:
    """Kill the process of a job as soon as its journal holds two answers."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        if len(list(kit.jobs.glob("trees-*/journal/step-*.npz"))) > 1:
            for process in psutil.process_iter():
                with contextlib.suppress(psutil.Error, OSError):
                    own = process.environ().get(ENVIRONMENT) == str(kit.path)
                    if own and any("worker_process" in word for word in process.cmdline()):
                        os.kill(process.pid, signal.SIGKILL)
                        return
        time.sleep(0.01)
    raise AssertionError("no job of this party came so far")


def test_trees_over_flare_are_those_of_one_process(
    live: Live, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {name: path for name, path in write_files(tmp_path).items() if name in NAMES}
    (tmp_path / "one.toml").write_text(job_text(files, "in-process", **LONG))
    assert main(["train", str(tmp_path / "one.toml"), "--out", str(tmp_path / "one"), "--quiet"]) == 0
    (tmp_path / "trees.toml").write_text(job_text(files, "flare", **LONG))
    with own_files(live, files):
        training = start(live, "train", str(tmp_path / "trees.toml"))
        kill_worker(live.kits["shop"])
        said = training.communicate(timeout=SECONDS)[0]
        assert training.returncode == 0, said
        run = said.split("run ", 1)[1].split(":")[0]
        for name in NAMES:
            home = live.kits[name].jobs / run
            assert (home / "model" / f"{name}.txt").read_text() == texts(tmp_path / "one", (name,))[name]
            assert len(list((home / "model").glob("*.txt"))) == 1  # nobody else's
        predicting = start(live, "predict", run)
        said = predicting.communicate(timeout=SECONDS)[0]
        assert predicting.returncode == 0, said
    capsys.readouterr()
    assert main(["predict", str(tmp_path / "one"), *map(str, files.values())]) == 0
    wanted = predicted(capsys.readouterr().out)
    (written,) = live.kits["bank"].jobs.glob(f"predict-{run}*/predictions.csv")
    got = predicted(written.read_text())
    np.testing.assert_allclose([got[key] for key in wanted], list(wanted.values()), rtol=0, atol=1e-9)
