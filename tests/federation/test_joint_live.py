"""Joint jobs over FLARE through `tacit train --kit`: the models of one process, consent, refusals and budgets."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import psutil
import pytest

from tacit.cli.main import main
from tacit.federation.kit import ENVIRONMENT, Kit
from tacit.federation.parts import read_masks
from tacit.federation.questions import questions
from tests.federation import test_one_job, test_sites_graph, test_sites_star
from tests.federation.live import Live, Process, environment, live_federation
from tests.federation.test_one_job import PRIVACY, SEARCH, assert_same_run
from tests.federation.test_sites_star import coef

pytest.importorskip("private_set_intersection", reason="needs tacit[align]")

NAMES = ("bank", "shop", "phone")
SECONDS = 240
MASKS = 'secure_aggregation = "auto"\nrounds = 1'
PATH = [["bank", "shop"], ["shop", "phone"]]
PRIVATE = "[privacy]\nepsilon = 1\n[encode]\nscale = 'none'"


@pytest.fixture(scope="module")
def joint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Three parties that take every job, unless a test says otherwise."""
    with live_federation(tmp_path_factory.mktemp("joint"), NAMES) as running:
        yield running


def set_up(live: Live, files: Mapping[str, Path], **settings: object) -> None:
    """Give every party its file; settings are of shop, the others take every job."""
    for name, path in files.items():
        others: dict[str, object] = {"accept": "always", "budget": None, "id": None}
        live.kits[name].keep(data=str(path), **{**others, **(settings if name == "shop" else {})})


def start(live: Live, folder: Path, text: str, name: str = "joint.toml") -> subprocess.Popen[str]:
    """Hand a job in, as a user would."""
    (folder / name).write_text(text)
    command = [sys.executable, "-m", "tacit.cli.main", "train", str(folder / name)]
    command += ["--kit", str(live.kits["server"].path)]
    return subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def ended(training: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Its exit code, what it said, and the run's name."""
    said = training.communicate(timeout=SECONDS)[0]
    return training.returncode, said, said.split("run ", 1)[1].split(":")[0]


def in_process(folder: Path, text: str) -> Path:
    (folder / "one.toml").write_text(text)
    assert main(["train", str(folder / "one.toml"), "--out", str(folder / "one"), "--quiet"]) == 0
    return folder / "one"


def assert_same_model(live: Live, run: str, one: Path, names: tuple[str, ...] = NAMES) -> None:
    for name in names:
        np.testing.assert_allclose(coef(live.kits[name].jobs / run, name), coef(one, name), rtol=0, atol=1e-10)


def test_a_feature_split_with_ids_asks_for_consent_and_trains_the_model_of_one_process(
    joint: Live, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where a worker is stopped meanwhile: it is named within half a minute, and the run goes on with it.

    Rows are held out, alpha is searched, columns are curves, and the model is evaluated.
    """
    files = test_one_job.write_files(tmp_path, NAMES)
    set_up(joint, files, accept="ask")
    training, shop = start(joint, tmp_path, test_one_job.job_text(files, "flare", SEARCH)), joint.kits["shop"]
    said: list[str] = []
    assert training.stdout is not None
    listening = threading.Thread(target=lambda: said.extend(iter(training.stdout.readline, "")), daemon=True)
    listening.start()
    for stage in ("preparation", "you send"):
        wait_for(lambda stage=stage: any(stage in line for one in questions(shop.home) for line in one.lines))
        run = shop.jobs.iterdir().__next__().name
        assert not list((joint.kits["phone"].jobs / run).glob("model/*"))  # nobody trains before the last one agrees
        assert (shop.jobs / run / "matching.json").exists() == (stage == "you send")  # nor is an id matched
        if stage == "preparation":
            stop_for_a_while(shop, said)
            wait_for(lambda: questions(shop.home))
        assert main(["accept", str(shop.path), "--yes"]) == 0
        assert "accepted: " + run in capsys.readouterr().out
    assert training.wait(SECONDS) == 0, said
    listening.join(10)
    training.stdout.close()
    assert f"run {run}:" in "".join(said)
    assert not any("going on in" in line for line in said)  # nothing was handed in again
    one = in_process(tmp_path, test_one_job.job_text(files, "in-process", SEARCH))
    assert_same_run(one, {name: joint.kits[name].jobs / run for name in NAMES}, SEARCH)


def test_a_private_job_with_curves_and_an_evaluation_is_that_of_one_process(joint: Live, tmp_path: Path) -> None:
    """With the same coins, which sites allow for such tests alone: model, figures and claims are the same."""
    files = test_one_job.write_files(tmp_path)
    set_up(joint, files, allow_noise_seed=True)
    joint.kits["bank"].keep(allow_noise_seed=True)
    code, said, run = ended(start(joint, tmp_path, test_one_job.job_text(files, "flare", PRIVACY)))
    assert code == 0, said
    one = in_process(tmp_path, test_one_job.job_text(files, "in-process", PRIVACY))
    assert_same_run(one, {name: joint.kits[name].jobs / run for name in files}, PRIVACY)
    for name in files:
        joint.kits[name].keep(allow_noise_seed=None)


def stop_for_a_while(kit: Kit, said: list[str]) -> None:
    """Stop the process of a site's job until whoever trains has named the site."""
    assert len(workers(kit)) == 1
    worker = workers(kit)[0]
    worker.suspend()
    stopped = time.monotonic()
    try:
        wait_for(lambda: any(f"waiting for '{kit.name}'" in line and "does not answer" in line for line in said))
        assert time.monotonic() - stopped < 90  # 30 where the machine is not busy
    finally:
        worker.resume()


def test_of_two_jobs_at_once_the_one_that_fits_is_taken_and_no_other_after_a_restart(
    joint: Live, tmp_path: Path
) -> None:
    files = dict(zip(NAMES[:2], test_sites_star.write_files(tmp_path, 2).values(), strict=True))
    set_up(joint, files, budget={"epsilon": 1.2, "delta": 1e-5})
    text, shop = test_sites_star.job_text(files, "flare", extra=PRIVATE), joint.kits["shop"]
    outcomes = [ended(one) for one in [start(joint, tmp_path, text, f"{k}.toml") for k in range(2)]]
    assert sorted(code for code, *_ in outcomes) == [0, 1], outcomes
    refused = next(said for code, said, _ in outcomes if code)
    assert "'shop': the job does not fit its privacy budget" in refused
    taken = next(run for code, _, run in outcomes if not code)
    assert list(json.loads(shop.ledger.read_text())["jobs"])[-1] == taken
    assert joint.processes["shop"].stop() == 0
    joint.processes["shop"] = Process.start(shop)
    assert joint.processes["shop"].wait_for("ready:")
    code, said, run = ended(start(joint, tmp_path, text))
    assert code == 1
    assert "does not fit its privacy budget" in said
    assert not list(joint.kits["bank"].jobs.glob(f"{run}/model/*"))
    assert joint.admin(["sites"]) == [sorted(NAMES)]  # and the next test trains
    assert list(json.loads(shop.ledger.read_text())["jobs"])[-1] == taken


def test_a_sample_split_trains_the_models_of_one_process(joint: Live, tmp_path: Path) -> None:
    written = test_sites_graph.write_files(tmp_path)
    files = dict(zip(NAMES, written.values(), strict=False))
    text = test_sites_graph.job_text(files, "flare", top="rounds = 6")
    set_up(joint, files)
    code, said, run = ended(start(joint, tmp_path, text))
    assert code == 0, said
    one = in_process(tmp_path, test_sites_graph.job_text(files, "in-process", top="rounds = 6"))
    assert_same_model(joint, run, one)


def test_a_sample_split_under_masks_ends_with_one_model_and_keys_that_were_checked(joint: Live, tmp_path: Path) -> None:
    """Nodes of a path, the middle of which does not lead; the noise is drawn anew, so no other run has this model."""
    files = dict(zip(NAMES, test_sites_graph.write_files(tmp_path).values(), strict=False))
    text = test_sites_graph.job_text(files, "flare", extra="[privacy]\nepsilon = 4", top=MASKS)
    set_up(joint, files)
    code, said, run = ended(start(joint, tmp_path, text.replace('kind = "ring"', f"edges = {PATH}")))
    assert code == 0, said
    first, *others = (coef(joint.kits[name].jobs / run, name) for name in NAMES)
    assert np.abs(first).max() > 0
    for other in others:
        np.testing.assert_array_equal(other, first)
    prints = [read_masks(joint.kits[name].jobs / run) for name in NAMES]
    assert all(unchecked == [] for _, unchecked in prints)
    assert len({tuple(found) for found, _ in prints}) == 1


def workers(kit: Kit) -> list[psutil.Process]:
    """The processes of jobs of a site."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            own = process.environ().get(ENVIRONMENT) == str(kit.path)
            if own and any("worker_process" in word for word in process.cmdline()):
                found.append(process)
    return found


def wait_for(condition: Callable[[], object]) -> None:
    until = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.1)
