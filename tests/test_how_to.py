"""The job files in the pages of docs/how-to are lawful."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tacit.data.encode.spec import ColumnSpec
from tacit.job import read_job

PAGES = Path(__file__).parents[1] / "docs" / "how-to"


def jobs(page: str) -> list[str]:
    return re.findall(r"```toml\n(.*?)```", (PAGES / page).read_text(), flags=re.S)


def test_encode_columns(tmp_path: Path) -> None:
    found = []
    for text in jobs("encode-columns.md"):
        (tmp_path / "credit.toml").write_text(text)
        found.append(read_job(tmp_path / "credit.toml"))
    plain, private = found
    assert plain.parties[0].positive == "yes"
    assert plain.parties[1].columns == (ColumnSpec("zip", kind="category"),)
    assert private.protected == {"phone"}
    assert [column.name for column in private.parties[1].columns] == ["calls", "plan", "since", "zip"]


@pytest.mark.parametrize("page", sorted(path.name for path in PAGES.glob("*.md")))
def test_links_lead_somewhere(page: str) -> None:
    for link in re.findall(r"\]\(([^)#]+)", (PAGES / page).read_text()):
        assert link.startswith("http") or (PAGES / link).exists()
