"""The README's Python runs, and its job file is one that `read_job` accepts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tacit.cli.main import VERBS
from tacit.cli.train import plan_job
from tacit.job import read_job
from tacit.privacy.request import Privacy

README = (Path(__file__).parents[1] / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.S)


def test_python_blocks_run(capsys: pytest.CaptureFixture[str]) -> None:
    code = blocks("python")
    assert code
    for block in code:
        exec(compile(block, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "NOT differentially private" in printed
    assert "This run is differentially private: epsilon = 1 at delta = 1e-05." in printed
    assert "joint private model" in printed


def test_job_file_is_lawful(tmp_path: Path) -> None:
    (tmp_path / "credit.toml").write_text(blocks("toml")[0])
    job = read_job(tmp_path / "credit.toml")
    assert [party.name for party in job.parties] == ["bank", "phone"]
    assert job.model.alpha == 1e-4


def test_job_file_of_the_sample_split_is_lawful(tmp_path: Path) -> None:
    (tmp_path / "wards.toml").write_text(blocks("toml")[1])
    job = read_job(tmp_path / "wards.toml")
    assert job.split == "samples"
    assert job.make_graph().edges == ((0, 1),)


def test_privacy_section_is_lawful_and_can_be_planned(tmp_path: Path) -> None:
    (tmp_path / "credit.toml").write_text(blocks("toml")[0] + blocks("toml")[2])
    job = read_job(tmp_path / "credit.toml")
    assert job.privacy == Privacy(epsilon=1.0, delta=1e-6, row_norm=1.0, label_epsilon=2.0)
    plan = plan_job(job, 50_000, (10, 20), 0)
    assert plan.certificate().epsilon(1e-6) == pytest.approx(1.0, rel=1e-6)


def test_commands_have_a_verb(tmp_path: Path) -> None:
    commands = re.findall(r"^tacit (\w+)", README, flags=re.M)
    assert {"plan", "train", "watch", "report", "predict", "explain", "verify"} <= set(commands) <= set(VERBS)
