"""What `tacit status` says, in its three forms."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tacit.cli.main import main
from tacit.federation.kit import Kit
from tacit.federation.progress import (
    COMPUTING,
    KEYS,
    PREPARE,
    STAGES,
    TRAIN,
    MatchingProgress,
    as_waiting,
    matching_line,
    waiting_line,
    write_outcome,
    write_progress,
)
from tacit.federation.protocol import Answer, Done, Numbers, Open, Packet, Prepare, Reason, Refused, Step
from tacit.federation.questions import PENDING
from tacit.federation.releases import log_question, log_step, read_steps
from tacit.federation.site import OWNER
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
    write_progress(folder, 7, 1.5, {"shop": [61.0, True, TRAIN]})
    assert "run run-00000001: going on, step 7" in status_of(server).lines()
    assert "waiting for 'shop' for 61 s: somebody there must agree to what is sent" in status_of(server).lines()[-1]
    write_outcome(folder, {"refused": "party 'shop': no"})
    assert "run run-00000001: refused: party 'shop': no" in status_of(server).lines()
    write_outcome(folder, {"done": {"rounds": 9, "objective": 0.123}})
    assert "run run-00000001: ended, step 9" in status_of(server).lines()
    assert "0.123" not in (folder / "outcome.json").read_text()


def test_the_log_of_steps_holds_sizes_and_no_values(kit: Callable[[str], Kit]) -> None:
    shop = kit("shop")
    asked = Answer(message=Packet(3, "step", {"share": Numbers.of(np.full(10, 0.123456789))}))
    log_step(shop, "run-00000001", asked, Done(), "bank", 80, 160, 0.25)
    opening = Open(run="run-00000001", job="secret words", version="1")
    log_step(shop, "run-00000001", opening, Refused(reason=Reason.JOB), "bank", 12, 4, 0.5)
    lines = [json.loads(line) for line in (shop.logs / "steps.jsonl").read_text().splitlines()]
    assert [(one["number"], one["bytes_in"], one["bytes_out"], one["refused"]) for one in lines] == [
        (3, 80, 160, False),
        (None, 12, 4, True),
    ]
    assert not any(word in (shop.logs / "steps.jsonl").read_text() for word in ("0.123", "secret"))
    log_question(shop, "run-00000002", asked, Done(), "bank", 5, 7, 0.1)
    with (shop.logs / "steps.jsonl").open("a") as log:
        log.write('half a line of "run-00000002"')
    found = read_steps(shop.logs, "run-00000002")
    assert [(one["asked"], one["bytes_out"]) for one in found] == [("bank", 7)]


@pytest.mark.parametrize("stage", STAGES)
def test_what_is_waited_for_is_said_with_what_to_do(stage: str) -> None:
    line = waiting_line("shop", [75.0, True, stage], "bank")
    assert line.startswith("waiting for 'shop' for 75 s: ")
    wanted = {KEYS: "federation members", PREPARE: "tacit accept", TRAIN: "tacit accept", COMPUTING: "tacit status"}
    assert wanted[stage] in line
    assert "does not answer" in waiting_line("shop", [75.0, False, stage], "bank")


def test_how_far_matching_is_stands_at_the_lead_while_it_goes_on(tmp_path: Path) -> None:
    assert matching_line(tmp_path) == []
    with MatchingProgress(tmp_path) as observe:
        observe("encrypting ids", 0.25)
        observe("adding keys", 0.26)  # too soon to be worth a write
        assert matching_line(tmp_path) == ["matching ids: [#####...............] 25%, encrypting ids"]
    assert list(tmp_path.iterdir()) == []


def test_what_the_lead_says_of_waiting_is_of_few_words() -> None:
    assert as_waiting([3, 1, "secret"]) == [3.0, True, COMPUTING]
    assert as_waiting("nonsense") == [0.0, True, COMPUTING]


def test_a_question_says_since_when_and_about_what(
    kit: Callable[[str], Kit], capsys: pytest.CaptureFixture[str]
) -> None:
    shop = kit("shop")
    folder = shop.jobs / "run-00000001"
    folder.mkdir(parents=True)
    asked = {"digest": "d", "lines": ["all of it"], "stage": PREPARE, "since": time.time() - 130}
    write_json(folder / PENDING, asked)
    assert main(["watch", str(shop.path), "--once"]) == 0
    said = capsys.readouterr().out
    assert "waits for your yes\n  somebody here is asked about the preparation for 2 min 1" in said
    assert f"tacit accept {shop.path} --show shows everything" in said
    assert main(["watch", str(shop.path), "--job", "run-00000009", "--once"]) == 2
    assert 'it has "run-00000001"' in capsys.readouterr().err


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
        assert "nothing was asked yet" in status_of(shop).lines()[-1]
        log_step(shop, "run-00000001", Prepare(), Done(), "bank", 2, 3, 0.1)
        assert "bank asked last 0" in status_of(shop).lines()[-1]
        write_json(folder / OWNER, {"lead": "shop"})
        write_progress(folder, 0, 0.0, {"phone": [42.0, True, PREPARE]})
        assert "waiting for 'phone' for 42 s: somebody there must agree" in status_of(shop).lines()[-1]
        assert json.dumps(status_of(shop).record()["runs"][0]["waits"]).count("phone") == 1
        old = json.loads((folder / "progress.json").read_text())
        write_json(folder / "progress.json", {**old, "at": old["at"] - 100})
        assert "nothing was heard of shop for 1 min 40 s" in status_of(shop).lines()[-1]
        process.kill()
    assert "run run-00000001: stopped (tacit train JOB --resume goes on with it)" in status_of(shop).lines()
