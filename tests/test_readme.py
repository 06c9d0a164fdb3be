"""The README's Python runs, and its job file is one that `read_job` accepts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tacit.job import read_job

README = (Path(__file__).parents[1] / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.S)


def test_python_blocks_run(capsys: pytest.CaptureFixture[str]) -> None:
    code = blocks("python")
    assert code
    for block in code:
        exec(compile(block, "README.md", "exec"), {})
    assert "NOT differentially private" in capsys.readouterr().out


def test_job_file_is_lawful(tmp_path: Path) -> None:
    (tmp_path / "credit.toml").write_text(blocks("toml")[0])
    job = read_job(tmp_path / "credit.toml")
    assert [party.name for party in job.parties] == ["bank", "phone"]
    assert job.model.alpha == 1e-4
