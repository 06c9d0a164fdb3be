"""`tacit reproduce` on a small paper: every claim with its verdict, in lines that fit."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import toy
from tacit_papers.claims import FAILS, HOLDS, OPEN
from tacit_papers.pages import Rerun
from tacit_papers.verdicts import INDENT, claims

RESULTS = {"double/1": {"value": 2}, "double/2": {"value": 4}}


def rerun(**reasons: str) -> Rerun:
    judged = toy.judge(RESULTS, toy.EXPECTED)
    judged = [dataclasses.replace(one, reason=reasons.get(one.item.id, one.reason)) for one in judged]
    return Rerun(toy.PAPER, toy.EXPECTED, RESULTS, judged)


def test_prints_every_claim_and_writes_the_page(tmp_path: Path, tacit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tacit_papers.sharing.paper", SimpleNamespace(PAPER=toy.PAPER))
    monkeypatch.setattr("tacit_papers.claims.read_expected", lambda name: toy.EXPECTED)
    monkeypatch.setattr("tacit_papers.work.cache_folder", lambda: tmp_path / "cache")
    answer = tacit("reproduce", "sharing", "--quick", "--jobs", 1, "--out", tmp_path / "pages")
    assert answer.code == 0
    lines = answer.out.splitlines()
    found = [(line[:INDENT].strip(), line[INDENT:]) for line in lines]
    assert [pair for pair in found if pair[0] in (HOLDS, FAILS, OPEN)] == [
        (HOLDS, "Fig. 1: twice one is two"),
        (FAILS, "Fig. 1: twice two is <b>five</b>"),
        (HOLDS, "Sec. 2: it grows"),
        (OPEN, "Sec. 3: it is liked"),
    ]
    assert [words for label, words in found if not label and words.startswith("published: ")] == [
        "published: 2 | here: 2",
        "published: 5 | here: 4",
        "published: it grows | here: 2 to 4",
        "published: - | here: -",
    ]
    assert ("rerun", "Fig. 1") in found
    assert ("not rerun", "Fig. 2: a drawing without data") in found
    assert "toy: 2 holds, 1 does not hold, 1 cannot be checked" in lines
    assert (tmp_path / "pages" / "toy.html").is_file()


def test_reasons_are_given_where_a_claim_does_not_simply_hold() -> None:
    text = [line.plain for line in claims(rerun(two="as it should", five="it is four", open="nobody"), 100)]
    assert not any("as it should" in line for line in text)
    assert [line.strip() for line in text if "why" in line] == ["why: it is four", "why: nobody"]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_lines_fit_and_long_texts_are_cut(width: int) -> None:
    lines = [line.plain for line in claims(rerun(five="because " * 200), width)]
    assert max(map(len, lines)) <= width
    reason = [line for line in lines if "because" in line]
    assert len(reason) == 3
    assert reason[-1].endswith(" ...")


def test_unknown_paper_is_refused(refused: Any) -> None:
    assert 'there is no paper "foo": choose one of sharing, dynamic, pdml, all' in refused("reproduce", "foo")
    assert 'did you mean "pdml"?' in refused("reproduce", "pmdl")
