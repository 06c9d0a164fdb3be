"""The Python of the how-to pages runs from top to bottom, and their job files are ones that `read_job` accepts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tacit.job import SearchSpec, read_job

PAGES = sorted((Path(__file__).parents[1] / "docs" / "how-to").glob("*.md"))


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), flags=re.S)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_python_blocks_run(page: Path) -> None:
    code = blocks(page, "python")
    assert code
    names: dict[str, object] = {}
    for block in code:
        exec(compile(block, page.name, "exec"), names)


def test_choose_alpha(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = next(page for page in PAGES if page.stem == "choose-alpha")
    names: dict[str, object] = {}
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), names)
    printed = capsys.readouterr().out
    assert len(printed.splitlines()) == 12
    assert "a search for alpha does not fit privacy" in printed
    (tmp_path / "credit.toml").write_text(blocks(page, "toml")[0])
    assert read_job(tmp_path / "credit.toml").search == SearchSpec()
