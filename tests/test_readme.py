"""What the README promises: that its code says what it says, and how much it takes. That it runs: tests/docs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tacit.columns.spec import ColumnSpec
from tacit.job import read_job
from tacit.privacy.request import Privacy
from tacit.run.prepare import plan_job

README = (Path(__file__).parents[1] / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.S)


def test_python_blocks_print_what_is_protected(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code = blocks("python")
    assert code
    for block in code:
        exec(compile(block, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "NOT differentially private" in printed
    assert "This run is differentially private: epsilon = 1 at delta = 1e-05." in printed
    assert "joint private model" in printed


def test_the_first_program_is_short() -> None:
    assert len(blocks("python")[0].splitlines()) <= 20


def test_files_become_a_report_in_five_commands() -> None:
    commands = [line.split()[1] for line in blocks("sh")[1].splitlines()]
    assert commands == ["init", "plan", "train", "predict", "explain"]
    assert "--report" in blocks("sh")[1].splitlines()[2]


def test_job_file_is_lawful_and_can_be_planned(tmp_path: Path) -> None:
    (tmp_path / "credit.toml").write_text(blocks("toml")[0])
    job = read_job(tmp_path / "credit.toml")
    assert [party.name for party in job.parties] == ["bank", "phone"]
    assert job.parties[0].positive == "yes"
    assert job.parties[1].columns[0] == ColumnSpec("calls", low=0.0, high=300.0)
    assert (job.model.alpha, job.holdout) == (1e-4, 0.2)
    assert job.privacy == Privacy(epsilon=1.0, delta=1e-6, row_norm=1.0, label_epsilon=2.0)
    plan = plan_job(job, 50_000, (10, 20), 0)
    assert plan.certificate().epsilon(1e-6) == pytest.approx(1.0, rel=1e-6)
