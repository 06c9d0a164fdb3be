"""`tacit train --resume` between organisations: a run that ended while nobody looked on has ended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tacit.cli.main import main
from tacit.federation.kit import Kit
from tacit.federation.progress import write_outcome

JOB = '[job]\nname = "joint"\nengine = "flare"\n[[party]]\nname = "bank"\nlabel = "y"\n[[party]]\nname = "shop"\n'


def test_resume_of_a_run_that_ended_says_so(
    kit: Callable[[str], Kit], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, job = kit("server"), tmp_path / "job.toml"
    job.write_text(JOB)
    command = ["train", str(job), "--kit", str(server.path), "--resume"]
    assert main(command) == 2
    assert "there is no run of 'joint' to go on with" in capsys.readouterr().err
    monkeypatch.setattr("tacit.federation.driver.Driver.go", lambda driver: {"rounds": 4})
    assert main(command[:-1]) == 0
    folder = next(server.jobs.iterdir())
    write_outcome(folder, {"done": {"rounds": 9}})
    monkeypatch.setattr("tacit.federation.driver.Driver.go", lambda driver: pytest.fail("it was run again"))
    capsys.readouterr()
    assert main(command) == 0
    assert f"run {folder.name} ended after 9 rounds" in capsys.readouterr().out
