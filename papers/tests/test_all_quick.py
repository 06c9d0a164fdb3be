"""`tacit reproduce all --quick`, the whole way: every figure listed, every claim judged, pages with their pictures."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from reproduction import Reproduced
from tacit_papers.claims import FAILS, HOLDS, OPEN, read_expected

PAPERS = ("sharing", "dynamic", "pdml")


@pytest.fixture
def folder(reproduced: Reproduced) -> Path:
    return reproduced.pages


@pytest.mark.parametrize("paper", PAPERS)
def test_every_item_is_judged_and_every_figure_is_there_or_has_a_reason(folder: Path, paper: str) -> None:
    expected = read_expected(paper)
    judged = json.loads((folder / "verdicts.json").read_text())[paper]
    assert [one["id"] for one in judged] == [item.id for item in expected.items]
    assert {one["verdict"] for one in judged} <= {HOLDS, FAILS, OPEN}
    assert all(one["reason"] for one in judged if one["verdict"] == OPEN)
    page = (folder / f"{paper}.html").read_text()
    for figure in expected.figures:
        assert figure.number in page
    drawn = sorted(path.stem for path in (folder / paper).glob("*.svg"))
    assert drawn == sorted(path.stem for path in (folder / paper).glob("*.png"))
    assert len(re.findall(r"data:image/svg\+xml", page)) == len(drawn) > 0
    assert not re.findall(r'(?:href|src)="https?:', page)


def test_with_the_real_rows_the_joint_model_is_the_pooled_one(folder: Path) -> None:
    if not os.environ.get("TACIT_DATA"):
        pytest.skip("needs the public data sets: set TACIT_DATA to their folder")
    judged = {one["id"]: one for one in json.loads((folder / "verdicts.json").read_text())["sharing"]}
    same = [one for one in judged.values() if "scikit-learn" in str(one["ours"]) and one["where"] == "Fig. 3(a)"]
    assert [one["verdict"] for one in same] == [HOLDS]
