"""A party or coordinator that does not keep to the protocol is named and refused, wherever it can be noticed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tacit.alignment import Aligner
from tacit.errors import RunError
from tests.alignment.recorder import Recorder

SETS = {"bank": list(range(12)), "shop": list(range(4, 16)), "clinic": list(range(2, 14))}
NO_POINT = np.frombuffer(b"\x02" + b"\xff" * 32, np.uint8)


def shortened(elements: np.ndarray) -> np.ndarray:
    return elements[:-1]


def no_points(elements: np.ndarray) -> np.ndarray:
    return np.vstack([elements[:-1], NO_POINT[None]])


def repeated(elements: np.ndarray) -> np.ndarray:
    return np.vstack([elements[:-1], elements[:1]])


def narrow(elements: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(elements[:, :-1])


def as_text(elements: np.ndarray) -> Any:
    return "elements"


LIES = {
    shortened: "sent 11 encrypted ids where 12 were due",
    no_points: "sent an encrypted id that is no point of the curve",
    repeated: "sent an encrypted id twice",
    narrow: "sent no list of encrypted ids",
    as_text: "sent no list of encrypted ids",
}


@pytest.mark.parametrize("liar", SETS)
@pytest.mark.parametrize("step", ["list", "mixed"])
@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("count", [2, 3])
def test_lists_that_cannot_be_are_refused_by_name(liar: str, step: str, lie: Any, count: int) -> None:
    def tamper(party: str, asked: str, answer: dict[str, Any]) -> dict[str, Any]:
        return {"elements": lie(answer["elements"])} if (party, asked) == (liar, step) else answer

    sets = {name: ids for name, ids in SETS.items() if count == 3 or name in ("bank", "shop")}
    recorder = Recorder(sets, tamper)
    if liar not in sets:
        assert recorder.run().kept == 8
        return
    with pytest.raises(RunError, match=f'^party "{liar}" {LIES[lie]}') as caught:
        recorder.run()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("step", ["size", "list", "mixed", "back"])
def test_answers_of_another_kind_are_refused_by_name(step: str) -> None:
    def tamper(party: str, asked: str, answer: dict[str, Any]) -> Any:
        return None if (party, asked) == ("shop", step) else answer

    with pytest.raises(RunError, match=r'^party "shop" '):
        Recorder(SETS, tamper).run()


@pytest.mark.parametrize("size", [0, -3, "12", None, True, 1.5])
def test_sizes_that_cannot_be_are_refused(size: Any) -> None:
    def tamper(party: str, asked: str, answer: dict[str, Any]) -> dict[str, Any]:
        return {"size": size} if (party, asked) == ("clinic", "size") else answer

    with pytest.raises(RunError, match=r'^party "clinic" did not say how many ids it has'):
        Recorder(SETS, tamper).run()


@pytest.mark.parametrize(
    "change",
    [lambda p: p[:-1], lambda p: p + 100, lambda p: p - 100, lambda p: np.repeat(p[:1], len(p)), lambda p: p * 1.0],
)
@pytest.mark.parametrize("chunk", [3, 100])
def test_positions_that_cannot_be_are_refused_by_name(change: Any, chunk: int) -> None:
    def tamper(party: str, asked: str, answer: dict[str, Any]) -> dict[str, Any]:
        return {"positions": change(answer["positions"])} if (party, asked) == ("shop", "back") else answer

    with pytest.raises(RunError, match=r'^party "shop" sent (no )?positions'):
        Recorder(SETS, tamper).run(chunk)


def ready() -> tuple[Aligner, np.ndarray]:
    """A party, and the list of another one."""
    elements = Aligner("shop", [1, 2, 3], ["shop", "bank"]).answer("list", {"start": 0, "stop": 3})["elements"]
    return Aligner("bank", [2, 3, 4, 5], ["shop", "bank"]), elements


def given(elements: np.ndarray, start: int = 0, size: int = 3, owner: str = "shop") -> dict[str, Any]:
    return {"owner": owner, "size": size, "start": start, "stop": start + len(elements), "elements": elements}


def test_questions_out_of_turn_are_refused() -> None:
    party, elements = ready()
    with pytest.raises(RunError, match='"ids" was asked out of turn'):
        party.answer("ids", {})
    with pytest.raises(RunError, match="cannot be read"):
        party.answer("mixed", {"owner": "shop", "start": 0, "stop": 3})
    with pytest.raises(RunError, match="cannot be read"):
        party.answer("list", {"start": -1, "stop": 3})
    for owner in ("bank", "stranger"):
        with pytest.raises(RunError, match=f'no list of "{owner}" is due here'):
            party.answer("add", given(elements, owner=owner))
    with pytest.raises(RunError, match="1 to 4 came where 0 of 3 were taken"):
        party.answer("add", given(elements, start=1))
    party.answer("add", given(elements[:2]))
    with pytest.raises(RunError, match="asked for when 2 of 3 were taken"):
        party.answer("mixed", {"owner": "shop", "start": 0, "stop": 3})
    for step in ("back", "rows"):
        with pytest.raises(RunError, match="not all lists came here"):
            party.answer(step, {"owner": "shop", "run": "r", "total": 1, "positions": np.array([0])})


def test_more_common_ids_than_the_shortest_list_has_are_refused() -> None:
    party, elements = ready()
    party.answer("list", {"start": 0, "stop": 4})
    party.answer("add", given(elements))
    party.answer("mixed", {"owner": "shop", "start": 0, "stop": 3})
    with pytest.raises(RunError, match="more ids are said to be common"):
        party.answer("rows", {"run": "r", "total": 4, "positions": np.arange(4)})


def test_a_list_with_an_element_twice_is_not_given_on() -> None:
    party, elements = ready()
    party.answer("add", given(elements[[0, 1, 0]]))
    with pytest.raises(RunError, match='party "shop" sent an encrypted id twice'):
        party.answer("mixed", {"owner": "shop", "start": 0, "stop": 3})


def test_a_list_passes_once_and_no_key_is_lent_after_the_comparison() -> None:
    party, elements = ready()
    party.answer("list", {"start": 0, "stop": 4})
    party.answer("add", given(elements))
    assert party.answer("add", given(elements)) == {}  # the same words again: they were lost, and nothing is done
    with pytest.raises(RunError, match="came where 3 of 3 were taken"):
        party.answer("add", given(elements[::-1].copy()))
    party.answer("mixed", {"owner": "shop", "start": 0, "stop": 3})
    party.answer("back", {"owner": "shop", "total": 1, "positions": np.array([0])})
    again = party.answer("back", {"owner": "shop", "total": 1, "positions": np.array([0])})
    assert again["positions"].shape == (1,)
    with pytest.raises(RunError, match="2 positions came back where at most 1 are due"):
        party.answer("back", {"owner": "shop", "total": 1, "positions": np.array([1])})
    with pytest.raises(RunError, match="1 ids were common to all, and now 2"):
        party.answer("rows", {"run": "r", "total": 2, "positions": np.array([0, 1])})
    with pytest.raises(RunError, match="compared already"):
        party.answer("list", {"start": 0, "stop": 1})
    with pytest.raises(RunError, match="the coordinator sent positions that the list does not have"):
        party.answer("rows", {"run": "r", "total": 1, "positions": np.array([4])})
    assert party.answer("rows", {"run": "r", "total": 1, "positions": np.array([3])}) == {}
    with pytest.raises(RunError, match="out of turn"):
        party.answer("size", {})
