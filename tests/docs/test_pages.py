"""Every block of code in README.md and docs/ runs, and prints what the page says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tacit.cli.main import VERBS, main
from tacit.columns.spec import ColumnSpec
from tacit.job import read_job
from tests.docs.blocks import DOCS, NOT_RUN, PAGES, ROOT, Block, blocks_of, commands_of, name_of
from tests.docs.reader_files import FILES

WITH_CODE = [page for page in PAGES if blocks_of(page)]
RUN = ("python", "sh")


@pytest.mark.parametrize("page", WITH_CODE, ids=name_of)
def test_every_block_of_the_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    FILES.get(name_of(page), lambda folder: None)(tmp_path)
    reader = Reader(page, capsys)
    for block in blocks_of(page):
        reader.follow(block)


class Reader:
    """Somebody who does what a page says, block by block, in an empty folder."""

    def __init__(self, page: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.page, self.capsys = page, capsys
        self.names: dict[str, Any] = {}
        self.printed, self.compared = "", False

    def follow(self, block: Block) -> None:
        where = f"{name_of(self.page)}:{block.line}"
        if block.language in RUN and self.compared:
            self.printed, self.compared = "", False
        if block.language == "python":
            names = {} if self.page.name == "README.md" else self.names
            exec(compile(block.text, where, "exec"), names)
        elif block.language == "sh":
            for command in commands_of(block):
                run(command, where)
        elif block.language == "toml":
            write_job(block, where)
        elif block.language == "text":
            self.printed += self.capsys.readouterr().out
            self.compared = True
            compare(block, self.printed, where)
        else:
            pytest.fail(f"{where}: a block of {block.language!r} is neither run nor compared")
        self.printed += self.capsys.readouterr().out


def run(command: str, where: str) -> None:
    if command in NOT_RUN:
        return
    words = shlex.split(command)
    assert words[0] == "tacit", f"{where}: {command!r} is neither run nor in NOT_RUN"
    assert main(words[1:]) == 0, f"{where}: {command}"


def write_job(block: Block, where: str) -> None:
    name = re.match(r"# ([\w-]+\.toml)\n", block.text)
    assert name, f"{where}: the first line of a job names its file, as in # credit.toml"
    Path(name[1]).write_text(block.text)
    read_job(name[1])


def compare(block: Block, printed: str, where: str) -> None:
    for line in block.text.splitlines():
        pattern = ".*".join(re.escape(part) for part in line.rstrip().split("..."))
        assert re.search(rf"^\s*{pattern}", printed, flags=re.M), f"{where}: nothing printed {line!r}"


def test_comparing_finds_a_line_that_was_not_printed() -> None:
    with pytest.raises(AssertionError, match="nothing printed 'rounds 8'"):
        compare(Block("text", "rounds ...\nrounds 8\n", 1), "rounds 9 in all\n", "page")


def test_pages_of_every_kind_have_code_that_was_found() -> None:
    found = {name_of(page) for page in WITH_CODE}
    for folder in ("tutorials", "how-to"):
        assert {name_of(page) for page in (DOCS / folder).glob("*.md")} <= found
    assert "README.md" in found


def test_reasons_are_given_for_what_is_written_somewhere_and_not_run() -> None:
    written = {command for page in WITH_CODE for block in blocks_of(page) for command in commands_of(block)}
    assert set(NOT_RUN) <= written


def test_every_verb_is_in_the_readme() -> None:
    text = (ROOT / "README.md").read_text()
    table = re.findall(r"\| verb \|.*?\n\n", text, flags=re.S)[0]
    assert set(re.findall(r"`(\w+)", table)) - {"JOB"} == set(VERBS)


def test_encode_columns_says_what_is_protected(tmp_path: Path) -> None:
    found = []
    for block in blocks_of(DOCS / "how-to" / "encode-columns.md"):
        if block.language == "toml":
            (tmp_path / "credit.toml").write_text(block.text)
            found.append(read_job(tmp_path / "credit.toml"))
    plain, private = found
    assert plain.parties[0].positive == "yes"
    assert plain.parties[1].columns == (ColumnSpec("since", kind="date"), ColumnSpec("zip", kind="category"))
    assert private.protected == {"phone"}
    assert [column.name for column in private.parties[1].columns] == ["calls", "plan", "since", "zip"]
