"""What `tacit status` says, in its three forms."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tacit.cli.main import main
from tacit.federation.kit import Kit
from tacit.federation.progress import write_outcome, write_progress
from tacit.federation.protocol import Answer, Done, Numbers, Open, Packet, Reason, Refused, Step
from tacit.federation.questions import PENDING
from tacit.federation.releases import log_step
from tacit.federation.status import status_of
from tacit.files import write_json
from tests.federation.live import environment
from tests.federation.loopback import Loopback
from tests.federation.test_sites_star import job_text, write_files


def test_a_party_sees_its_runs_budget_and_problems(
    kit: Callable[[str], Kit], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = kit("shop")
    assert "no runs yet" in status_of(shop).lines()
    shop.keep(data="shop.csv", budget={"epsilon": 3.0, "delta": 1e-6, "unit": "record"})
    files = write_files(tmp_path)
    loop = Loopback(files, tmp_path / "sites")
    loop.run(job_text(files, "flare"))
    shutil.copytree(tmp_path / "sites/party0/run-00000001", shop.jobs / "run-00000001")

    def stop(caller: str, name: str, request: Step) -> None:
        if isinstance(request, Answer) and request.message.round == 3:
            raise ConnectionError

    loop.disturb = stop
    with pytest.raises(ConnectionError):
        loop.run(job_text(files, "flare"), "run-00000002")
    shutil.copytree(tmp_path / "sites/party1/run-00000002", shop.jobs / "run-00000002")
    (shop.jobs / "run-00000003").mkdir()
    write_json(shop.jobs / "run-00000003" / PENDING, {"digest": "d", "lines": []})
    for number, name in ((5, "accepted.json"), (6, "scores.sent")):
        (shop.jobs / f"run-0000000{number}").mkdir()
        write_json(shop.jobs / f"run-0000000{number}" / name, {"digests": ["d"]})
    write_json(shop.jobs / "run-00000005" / PENDING, {"digest": "d", "lines": []})  # left by a process that was killed
    (shop.jobs / "run-00000004").mkdir()
    (shop.jobs / "run-00000004" / "problem.txt").write_text("id 7 twice\n")
    assert main(["status", str(shop.path)]) == 0
    said = capsys.readouterr().out
    assert "not running: tacit join" in said
    assert "budget for each record: epsilon 0 of 3 spent" in said
    assert "run run-00000001: ended, step 6" in said
    assert "run run-00000002: stopped, step 2 (tacit train JOB --resume goes on with it)" in said
    assert "run run-00000005: stopped (" in said
    assert "run run-00000006: ended\n" in said
    assert "run run-00000003: waits for your yes" in said
    assert "run run-00000004: failed: id 7 twice" in said
    assert main(["status", str(shop.path), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert {run["state"] for run in record["runs"]} == {"ended", "stopped", "waits for your yes", "failed"}
    ended = next(run for run in record["runs"] if run["state"] == "ended")
    assert ended["bytes"] > 1000
    assert ended["seconds"] > 0
    assert main(["status", str(shop.path), "--prometheus"]) == 0
    told = capsys.readouterr().out
    assert 'tacit_up{federation="credit",site="shop"} 0.0' in told
    assert 'tacit_budget_epsilon{federation="credit",site="shop",unit="record"} 3.0' in told
    assert "id 7" not in told
    assert "# TYPE tacit_run_step gauge" in told


def test_the_server_sees_rounds_and_refusals(kit: Callable[[str], Kit]) -> None:
    server = kit("server")
    folder = server.jobs / "run-00000001"
    folder.mkdir(parents=True)
    write_progress(folder, 7, 1.5)
    assert "run run-00000001: going on, step 7" in status_of(server).lines()
    write_outcome(folder, {"refused": "party 'shop': no"})
    assert "run run-00000001: refused: party 'shop': no" in status_of(server).lines()
    write_outcome(folder, {"done": {"rounds": 9, "objective": 0.123}})
    assert "run run-00000001: ended, step 9" in status_of(server).lines()
    assert "0.123" not in (folder / "outcome.json").read_text()


def test_the_log_of_steps_holds_sizes_and_no_values(kit: Callable[[str], Kit]) -> None:
    shop = kit("shop")
    asked = Answer(message=Packet(3, "step", {"share": Numbers.of(np.full(10, 0.123456789))}))
    log_step(shop, asked, Done(), "bank", 80, 160, 0.25)
    opening = Open(run="run-00000001", job="secret words", version="1")
    log_step(shop, opening, Refused(reason=Reason.JOB), "bank", 12, 4, 0.5)
    lines = [json.loads(line) for line in (shop.logs / "steps.jsonl").read_text().splitlines()]
    assert [(one["number"], one["bytes_in"], one["bytes_out"], one["refused"]) for one in lines] == [
        (3, 80, 160, False),
        (None, 12, 4, True),
    ]
    assert not any(word in (shop.logs / "steps.jsonl").read_text() for word in ("0.123", "secret"))


def test_a_run_goes_on_while_a_process_works_on_it(kit: Callable[[str], Kit]) -> None:
    shop = kit("shop")
    folder = shop.jobs / "run-00000001"
    folder.mkdir(parents=True)
    code = (
        "import sys, pathlib; from tacit.federation.site import RunLock; "
        "held = RunLock(pathlib.Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        assert "run run-00000001: going on" in status_of(shop).lines()
        process.kill()
    assert "run run-00000001: stopped (tacit train JOB --resume goes on with it)" in status_of(shop).lines()
