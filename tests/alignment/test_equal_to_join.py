"""A private alignment finds what the plain join finds, in one order for all parties."""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.alignment import Aligner, align, align_here, converse
from tacit.columns.table import ArrowTable
from tacit.data.align import align as plain_align
from tacit.errors import InputError
from tests.alignment.recorder import Recorder, common_ids

NAMES = ("bank", "shop", "clinic", "school")
LETTERS = st.characters(exclude_categories=("Cs", "Zs", "Cc", "Zl", "Zp"))
ID = st.text(LETTERS, min_size=1, max_size=5)


def plain(sets: dict[str, Any]) -> dict[str, set[int]]:
    """The rows that the plain join keeps, by party."""
    tables = [
        ArrowTable(party=name, columns=("id",), n_rows=len(ids), data=pa.table({"id": ids}))
        for name, ids in sets.items()
    ]
    found = plain_align(tables, ["id"] * len(tables))
    return {name: set(rows.tolist()) for name, rows in zip(sets, found.rows, strict=True)}


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("chunk", [7, 50_000])
@pytest.mark.parametrize("at_once", [False, True])
def test_same_ids_as_the_join_in_one_order(count: int, chunk: int, at_once: bool) -> None:
    rng = np.random.default_rng(count)
    sets = {name: rng.permutation(90)[: 50 + 7 * place].tolist() for place, name in enumerate(NAMES[:count])}
    recorder = Recorder(sets)
    counts = recorder.run(chunk, at_once)
    lists = common_ids(recorder, sets)
    assert all(ids == lists[0] for ids in lists)
    assert {name: set(recorder.rows(name)) for name in sets} == plain(sets)
    assert counts.kept == len(lists[0]) > 10
    assert counts.dropped == {name: len(ids) - counts.kept for name, ids in sets.items()}
    sizes = [len(part) for message in recorder.messages for part in arrays(message)]
    assert max(sizes) <= chunk


def arrays(message: tuple[Any, ...]) -> list[np.ndarray]:
    return [value for part in message[2:] for value in part.values() if isinstance(value, np.ndarray)]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sets(ID, min_size=1, max_size=12), min_size=2, max_size=4), ID)
def test_text_of_every_script(held: list[set[str]], shared: str) -> None:
    sets = {name: sorted({*ids, shared}) for name, ids in zip(NAMES, held, strict=False)}
    recorder = Recorder(sets)
    recorder.run(chunk=5)
    lists = common_ids(recorder, sets)
    assert all(ids == lists[0] for ids in lists)
    assert {name: set(recorder.rows(name)) for name in sets} == plain(sets)


@pytest.mark.parametrize(
    ("left", "right", "common"),
    [
        ([7, 8, 9], ["7", " 9 ", "x"], 2),
        (["07", "7"], [7, 70], 1),
        (["007"], ["007"], 1),
        ([7.0, 8.0], pa.array([8, 7], pa.uint8()), 2),
        (["Zoë", "Zoe"], ["Zoë"], 1),
        (pa.array([2**63 + 1, 5], pa.uint64()), [str(2**63 + 1)], 1),
        (pa.chunked_array([["a"], ["b"]]), np.array(["b", "c"], dtype=object), 1),
    ],
)
def test_ids_of_all_kinds_match_as_in_the_join(left: Any, right: Any, common: int) -> None:
    recorder = Recorder({"bank": left, "shop": right})
    assert recorder.run().kept == common
    as_join = plain({"bank": left, "shop": right})
    assert {name: set(recorder.rows(name)) for name in as_join} == as_join


def test_one_id_each() -> None:
    recorder = Recorder({name: ["only"] for name in NAMES})
    assert recorder.run().kept == 1
    assert [recorder.rows(name) for name in NAMES] == [[0]] * 4


@pytest.mark.parametrize("count", [2, 3])
def test_nothing_in_common_is_one_line(count: int) -> None:
    sets = {name: [place, 10 + place, 5 if place else 6] for place, name in enumerate(NAMES[:count])}
    recorder = Recorder(sets)
    with pytest.raises(InputError, match=r"^no id is held by every party: check that the id columns mean the same$"):
        recorder.run()
    assert all(aligner.alignment is None for aligner in recorder.aligners.values())


def test_blank_and_repeated_ids_are_refused_as_in_the_join() -> None:
    with pytest.raises(InputError, match='party "bank": id column "customer" has 2 repeated ids: "b", "c": keep one'):
        Aligner("bank", ["b", "c", "b", "c"], NAMES, column="customer")
    with pytest.raises(InputError, match='party "bank": id column "id" has 2 blank ids, in row 2, 3: fill them in'):
        Aligner("bank", ["b", " ", None], NAMES)
    for ids in ([0.5], [[1]], [1, "a"], [object()], [2**70]):
        with pytest.raises(InputError, match="must be whole numbers or text"):
            Aligner("bank", ids, NAMES)
    with pytest.raises(InputError, match='party "bank" has no ids'):
        Aligner("bank", [], NAMES)


def test_parties_must_be_two_and_different() -> None:
    with pytest.raises(InputError, match="nobody to align with"):
        Aligner("bank", [1], ["bank"])
    with pytest.raises(InputError, match="have one name"):
        Aligner("bank", [1], ["bank", "bank"])
    with pytest.raises(InputError, match='"bank" is not among'):
        Aligner("bank", [1], ["shop", "clinic"])
    with pytest.raises(InputError, match="nobody to align with"):
        next(converse([]))


def test_all_questions_come_from_the_callers_thread_unless_asked_at_once() -> None:
    aligners = {name: Aligner(name, [1, 2], NAMES[:2]) for name in NAMES[:2]}
    threads = set()

    def ask(party: str, step: str, payload: dict[str, Any]) -> dict[str, Any]:
        threads.add(threading.get_ident())
        return aligners[party].answer(step, payload)

    align(NAMES[:2], ask)
    assert threads == {threading.get_ident()}


def test_progress_ends_at_the_whole() -> None:
    seen: list[float] = []
    names = NAMES[:3]
    align_here([Aligner(name, [1, 2, 3], names) for name in names], chunk=2, observe=lambda _, part: seen.append(part))
    assert seen == sorted(seen)
    assert seen[0] > 0
    assert seen[-1] == 1.0


def test_runs_have_names_of_their_own_and_parties_the_same() -> None:
    runs = []
    for _ in range(2):
        recorder = Recorder({"bank": [1, 2], "shop": [2, 3]})
        recorder.run()
        found = {aligner.alignment.run for aligner in recorder.aligners.values() if aligner.alignment}
        assert len(found) == 1
        runs.append(found.pop())
    assert runs[0] != runs[1]


def test_without_the_library_one_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "private_set_intersection.python", None)
    with pytest.raises(InputError, match=r"needs the library openmined-psi: pip install 'tacit\[align\]'"):
        Aligner("bank", [1], ["bank", "shop"])
