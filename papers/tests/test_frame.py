"""What is around the papers: kept outcomes, processes, verdicts, pages."""

from __future__ import annotations

import dataclasses
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

import toy
from tacit.errors import InputError
from tacit_papers import work as stores
from tacit_papers.claims import FAILS, HOLDS, OPEN
from tacit_papers.pages import Rerun, shown, write_pages
from tacit_papers.work import Piece, Store, key, run_pieces

RESULTS = {"double/1": {"value": 2}, "double/2": {"value": 4}}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "kept")


def test_outcomes_are_kept_and_found(store: Store, tmp_path: Path) -> None:
    trace = tmp_path / "calls"
    pieces = [toy.piece(number, trace=str(trace)) for number in (1, 2)]
    assert run_pieces(pieces, store, jobs=1) == RESULTS
    told: list[tuple[str, bool]] = []
    assert run_pieces(pieces, store, jobs=1, report=lambda piece, kept: told.append((piece.name, kept))) == RESULTS
    assert told == [("double/1", True), ("double/2", True)]
    assert len(trace.read_text().split()) == 2
    run_pieces(pieces, store, jobs=1, fresh=True)
    assert len(trace.read_text().split()) == 4


def test_processes_give_the_same_in_the_order_asked(store: Store) -> None:
    pieces = [dataclasses.replace(toy.piece(number), seconds=number) for number in (3, 1, 2)]
    assert list(run_pieces(pieces, store, jobs=2).items()) == [(f"double/{n}", {"value": 2 * n}) for n in (3, 1, 2)]


def test_what_was_done_before_a_failure_is_kept(store: Store, tmp_path: Path) -> None:
    trace = tmp_path / "calls"
    good = toy.piece(1, trace=str(trace))
    with pytest.raises(ZeroDivisionError):
        run_pieces([good, Piece("broken", toy.broken, {})], store, jobs=1)
    run_pieces([good], store, jobs=1)
    assert len(trace.read_text().split()) == 1


def test_missing_data_are_an_outcome_that_is_not_kept(store: Store) -> None:
    piece = Piece("absent", toy.absent, {})
    assert run_pieces([piece], store, jobs=1) == {"absent": {"missing": "this set is not at hand"}}
    assert store.find(piece) is None


def test_key_follows_settings_data_and_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    piece = toy.piece(1)
    assert key(piece) == key(toy.piece(1))
    others = [
        toy.piece(2),
        dataclasses.replace(piece, run=toy.absent),
        dataclasses.replace(piece, files=("a9a",)),
    ]
    assert len({key(piece), *(key(other) for other in others)}) == 4
    before = key(piece)
    monkeypatch.setattr(stores, "_code", lambda own: "changed")
    assert key(piece) != before


def test_code_sum_sees_what_computes_alone(tmp_path: Path) -> None:
    (tmp_path / "runs.py").write_text("a = 1\n")
    (tmp_path / "figures.py").write_text("b = 1\n")
    sums = [stores._code.__wrapped__(tmp_path)]
    (tmp_path / "figures.py").write_text("b = 2\n")
    sums.append(stores._code.__wrapped__(tmp_path))
    (tmp_path / "runs.py").write_text("a = 2\n")
    sums.append(stores._code.__wrapped__(tmp_path))
    assert sums[0] == sums[1] != sums[2]


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"outcome": 3}'])
def test_damaged_outcome_is_computed_anew(store: Store, content: str) -> None:
    piece = toy.piece(1)
    store.keep(piece, {"value": 99})
    store._path(piece).write_text(content)
    assert run_pieces([piece], store, jobs=1) == {"double/1": {"value": 2}}
    assert store.find(piece) == {"value": 2}


def test_folder_that_cannot_be_written_costs_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert run_pieces([toy.piece(1)], Store(tmp_path / "file" / "kept"), jobs=1) == {"double/1": {"value": 2}}


def test_verdicts() -> None:
    judged = toy.judge(RESULTS, toy.EXPECTED)
    assert [one.verdict for one in judged] == [HOLDS, FAILS, HOLDS, OPEN]
    assert Rerun(toy.PAPER, toy.EXPECTED, RESULTS, judged).counts == {HOLDS: 2, FAILS: 1, OPEN: 1}
    edge = dataclasses.replace(toy.EXPECTED.items[0], published=2.0, tolerance=0.5)
    verdicts = [toy.judge_number(edge, ours).verdict for ours in (1.5, 2.5, 2.51, np.nan)]
    assert verdicts == [HOLDS, HOLDS, FAILS, FAILS]


def test_page_is_whole_in_itself(tmp_path: Path) -> None:
    rerun = Rerun(toy.PAPER, toy.EXPECTED, RESULTS, toy.judge(RESULTS, toy.EXPECTED))
    page, index = write_pages([rerun], tmp_path / "out", quick=True)
    text = page.read_text()
    assert "In &lt;words&gt;." in text
    assert "twice two is &lt;b&gt;five&lt;/b&gt;" in text
    assert "This is the quick version" in text
    assert "a drawing without data" in text
    assert "<script" not in text
    assert all(source.startswith("data:") for source in re.findall(r'src="([^"]*)"', text))
    assert not re.findall(r"(?:href|src|url)\W{0,2}https?:", text)
    assert 'href="toy.html"' in index.read_text()
    own = tmp_path / "out" / "toy"
    assert ET.fromstring((own / "fig-1.svg").read_text()).tag.endswith("svg")
    assert (own / "fig-1.png").read_bytes().startswith(b"\x89PNG")
    record = json.loads((tmp_path / "out" / "verdicts.json").read_text())
    assert [one["verdict"] for one in record["toy"]] == [HOLDS, FAILS, HOLDS, OPEN]
    assert json.loads((own / "outcomes.json").read_text()) == RESULTS


def test_pages_repeat_to_the_byte(tmp_path: Path) -> None:
    rerun = Rerun(toy.PAPER, toy.EXPECTED, RESULTS, toy.judge(RESULTS, toy.EXPECTED))
    first, again = (write_pages([rerun], tmp_path / name, quick=False)[0].read_bytes() for name in ("a", "b"))
    assert first == again


def test_folder_of_pages_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    rerun = Rerun(toy.PAPER, toy.EXPECTED, RESULTS, toy.judge(RESULTS, toy.EXPECTED))
    with pytest.raises(InputError, match=r"cannot write to .* choose another folder with --out"):
        write_pages([rerun], tmp_path / "file" / "out", quick=True)


def test_numbers_as_people_read_them() -> None:
    assert [shown(value) for value in (None, "much", 0.32415, 75.0)] == ["", "much", "0.3241", "75"]
