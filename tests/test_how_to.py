"""The pages of docs/how-to: their Python runs, their job files are lawful, and their links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tacit.data.encode.spec import ColumnSpec
from tacit.job import SearchSpec, read_job

PAGES = sorted((Path(__file__).parents[1] / "docs" / "how-to").glob("*.md"))


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), flags=re.S)


def named(stem: str) -> Path:
    return next(page for page in PAGES if page.stem == stem)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)", page.read_text()):
        assert link.startswith("http") or (page.parent / link).exists()


def test_encode_columns(tmp_path: Path) -> None:
    found = []
    for text in blocks(named("encode-columns"), "toml"):
        (tmp_path / "credit.toml").write_text(text)
        found.append(read_job(tmp_path / "credit.toml"))
    plain, private = found
    assert plain.parties[0].positive == "yes"
    assert plain.parties[1].columns == (ColumnSpec("zip", kind="category"),)
    assert private.protected == {"phone"}
    assert [column.name for column in private.parties[1].columns] == ["calls", "plan", "since", "zip"]


def test_choose_alpha(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = named("choose-alpha")
    names: dict[str, object] = {}
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), names)
    printed = capsys.readouterr().out
    assert len(printed.splitlines()) == 12
    assert "a search for alpha does not fit privacy" in printed
    (tmp_path / "credit.toml").write_text(blocks(page, "toml")[0])
    assert read_job(tmp_path / "credit.toml").search == SearchSpec()
