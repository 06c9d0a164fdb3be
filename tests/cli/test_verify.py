"""`tacit verify`: exit codes and what is printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tacit.privacy.certificate import not_private
from tests.privacy.conftest import make_certificate


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "certificate.json"
    path.write_text(make_certificate().to_json())
    return path


def test_an_honest_certificate_agrees(tacit: Any, path: Path) -> None:
    for where in (path, path.parent):
        answer = tacit("verify", where)
        assert answer.code == 0, answer
        assert "The certificate agrees: epsilon 1" in answer.out
        assert "second accountant: privacy loss distributions (dp_accounting)" in answer.out
        assert max(len(line) for line in answer.out.splitlines()) <= 80


def test_an_edited_certificate_does_not(tacit: Any, path: Path) -> None:
    record = json.loads(path.read_text())
    record["claims"][0]["events"].pop()
    path.write_text(json.dumps(record))
    answer = tacit("verify", path)
    assert answer.code == 1
    assert answer.err == ""
    assert "- record of shop: states epsilon 1, more than the 0.94" in answer.out
    assert answer.out.endswith("The certificate does NOT agree with its own releases.\n")


def test_no_privacy_is_said(tacit: Any, path: Path) -> None:
    path.write_text(not_private(("bank", "shop"), 5).to_json())
    answer = tacit("verify", path)
    assert answer.code == 0
    assert answer.out == "The certificate agrees: it claims no privacy, and epsilon is infinite.\n"


def test_the_certificate_of_a_run(tacit: Any, files: Any, tmp_path: Path) -> None:
    assert tacit("train", files.write(), "--out", tmp_path / "run", "--quiet").code == 0
    assert tacit("verify", tmp_path / "run").code == 0


def test_a_party_named_like_markup_is_shown_as_it_is(tacit: Any, path: Path) -> None:
    path.write_text(path.read_text().replace('"party": "shop"', '"party": "[red]"'))
    assert "record of [red]" in tacit("verify", path).out


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 7}', "\x00"])
def test_what_cannot_be_read_is_refused(refused: Any, path: Path, text: str) -> None:
    path.write_text(text)
    assert f"cannot read the certificate {path}: " in refused("verify", path)


def test_a_missing_file_is_refused(refused: Any, tmp_path: Path) -> None:
    for where in (tmp_path / "none.json", tmp_path, "a\0b"):
        assert "give a certificate.json, or the directory of a run" in refused("verify", where)
