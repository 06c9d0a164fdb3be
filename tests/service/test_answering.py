"""The rules of a party that answers: what is hidden, and what is refused."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.errors import InputError, RunError
from tacit.privacy.aggregation import SHARE, MaskingParty, unmask_sum
from tacit.service.answering import Answerer, Rules
from tacit.service.identity import Identity, statement
from tacit.service.state import DAY, State
from tacit.service.wire import RefusedError, SessionKey, to_text, words_from_text
from tests.service.sides import IDS, NAMES, SESSION, meet, own_scores, parties


def ask(
    side: Answerer, number: int = 0, ids: list[str] | None = None, session: str = SESSION, who: str = "bank"
) -> str:
    answer, _ = side.answer(who, session, number, IDS if ids is None else ids)
    assert answer.masked is not None
    assert answer.scores is None
    return answer.masked


def total(answers: dict[str, str], count: int) -> np.ndarray:
    words = {name: words_from_text(text, count, SHARE.words) for name, text in answers.items()}
    return unmask_sum(words, sorted(answers), SHARE)


def refused(status: int, call: Any, *words: Any, **named: Any) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        call(*words, **named)
    assert caught.value.status == status, caught.value
    return caught.value


def test_the_sum_comes_out_and_no_answer_shows_its_scores(tmp_path: Path) -> None:
    sides = parties(tmp_path)
    meet(sides)
    answers = {name: ask(side) for name, side in sides.items()}
    exact = sum(side.own.of(IDS)[0] for side in sides.values())
    np.testing.assert_allclose(total(answers, len(IDS)), exact, rtol=0, atol=1e-15)
    for name, side in sides.items():
        scores = side.own.of(IDS)[0]
        sent = base64.b64decode(answers[name])
        forms = [(SHARE.encode(scores, name).astype("<u8"), 8), (scores, 8), (scores.astype(np.float32), 4)]
        for form, width in forms:
            bare = form.tobytes()
            pieces = {bare[start : start + width] for start in range(0, len(bare), width)}
            pieces -= {bytes(8), b"\xff" * 8}  # the upper words of small numbers
            assert not [piece for piece in pieces if piece in sent]
        assert not any(repr(score)[:8] in answers[name] for score in scores.tolist())
        assert not _in_bounds(sent)  # taken for bare numbers it is beyond all bounds
    assert _in_bounds(SHARE.encode(np.ones(3), "shop").astype("<u8").tobytes())


def _in_bounds(sent: bytes) -> bool:
    words = np.frombuffer(sent, dtype="<u8").astype(np.uint64).reshape(2, -1)
    try:
        SHARE.decode_sum(words, 1)
    except RunError:
        return False
    return True


def test_bytes_of_one_answer_are_uniform_whatever_the_scores(tmp_path: Path) -> None:
    sides = parties(tmp_path, per_day=10**6, most_ids=10_000)
    meet(sides)
    sent = np.frombuffer(base64.b64decode(ask(sides["shop"], ids=["nobody"] * 10_000)), dtype=np.uint8)
    counts = np.bincount(sent, minlength=256)
    assert np.sum((counts - counts.mean()) ** 2 / counts.mean()) < 400  # chi-square, 255 degrees: p = 1e-8


def test_masks_cancel_only_where_all_were_asked_for_the_same_ids(tmp_path: Path) -> None:
    sides = parties(tmp_path)
    meet(sides)
    answers = {name: ask(side, ids=["c1"] if name == "shop" else ["nobody"]) for name, side in sides.items()}
    with pytest.raises(RunError, match="masks"):
        total(answers, 1)


def test_the_same_request_gets_the_same_bytes_and_costs_nothing(tmp_path: Path) -> None:
    sides = parties(tmp_path, per_day=len(IDS))
    meet(sides)
    first = ask(sides["shop"])
    assert ask(sides["shop"]) == first
    assert "was for other ids" in str(refused(409, ask, sides["shop"], ids=IDS[::-1]))
    assert refused(429, ask, sides["shop"], 1).retry_after is not None


def test_the_same_ids_under_the_next_number_have_another_mask(tmp_path: Path) -> None:
    sides = parties(tmp_path)
    meet(sides)
    first, second = ask(sides["shop"], 3), ask(sides["shop"], 7)
    assert first != second
    assert "numbers grow" in str(refused(409, ask, sides["shop"], 3))
    both = [words_from_text(text, len(IDS), 2) for text in (first, second)]
    difference = both[0].copy()
    SHARE.add_masks(difference, [(both[1], True)])
    assert np.count_nonzero(difference) > len(IDS)


def test_an_id_is_answered_with_one_set_of_parties_alone(tmp_path: Path) -> None:
    sides = parties(tmp_path, least=2)
    meet(sides)
    for side in sides.values():
        ask(side, ids=IDS[:5])
    fewer = {name: sides[name] for name in NAMES[:2]}
    meet(fewer, "another-session-01")
    for side in fewer.values():
        assert "3 ids" in str(refused(409, ask, side, ids=[f" {IDS[2]} ", *IDS[3:8]], session="another-session-01"))
        assert ask(side, 1, IDS[5:8], "another-session-01")  # new ones are answered
    meet(sides, "a-third-session-01")
    assert "3 ids" in str(refused(409, ask, sides["phone"], ids=IDS[:8], session="a-third-session-01"))
    assert ask(sides["phone"], ids=IDS[:5], session="a-third-session-01")


def test_who_answers_with_whom_survives_a_restart(tmp_path: Path) -> None:
    sides = parties(tmp_path, least=2)
    meet(sides)
    ask(sides["shop"], ids=IDS[:2])
    for side in sides.values():
        side.state.close()
    fewer = parties(tmp_path, NAMES[:2])
    meet(fewer)
    refused(409, ask, fewer["shop"], ids=IDS[1:3])
    ask(fewer["shop"], ids=IDS[2:3])


def test_unknown_ids_count_as_average_and_are_bound_like_others(tmp_path: Path) -> None:
    sides = parties(tmp_path, least=2)
    meet(sides)
    answers = {name: ask(side, ids=["nobody", "c3"]) for name, side in sides.items()}
    exact = sum(side.own.of(["c3"])[0][0] for side in sides.values())
    np.testing.assert_allclose(total(answers, 2), [0.0, exact], rtol=0, atol=1e-15)
    meet({name: sides[name] for name in NAMES[:2]}, "another-session-01")
    refused(409, ask, sides["shop"], ids=["nobody"], session="another-session-01")


# ---------------------------------------------------------------- keys


def test_keys_that_whoever_asks_made_up_are_refused(tmp_path: Path) -> None:
    sides = parties(tmp_path)
    keys = [side.open("bank", SESSION, list(NAMES)) for side in sides.values()]
    false = MaskingParty("phone", SESSION)
    made_up = Identity()
    signature = made_up.sign(statement(SESSION, "phone", NAMES, false.public_bytes))
    forged = SessionKey(party="phone", key=to_text(false.public_bytes), signature=to_text(signature))
    assert "not signed" in str(refused(403, sides["shop"].agree, "bank", SESSION, [forged, *keys[1:]]))
    borrowed = SessionKey(party="phone", key=forged.key, signature=keys[0].signature)
    refused(403, sides["shop"].agree, "bank", SESSION, [borrowed, *keys[1:]])
    refused(409, ask, sides["shop"])  # nothing was agreed on


def test_a_key_of_another_session_is_refused(tmp_path: Path) -> None:
    sides = parties(tmp_path, least=2)
    old = sides["phone"].open("bank", "an-earlier-session", list(NAMES))
    smaller = sides["phone"].open("bank", "a-smaller-session", list(NAMES[:2]))
    keys = [side.open("bank", SESSION, list(NAMES)) for side in sides.values()]
    fresh = MaskingParty("phone", SESSION).public_bytes  # signed by phone itself, for this name and other parties
    signature = sides["phone"].identity.sign(statement(SESSION, "phone", NAMES[:2], fresh))
    narrow = SessionKey(party="phone", key=to_text(fresh), signature=to_text(signature))
    for key in (old, smaller, narrow):
        refused(403, sides["shop"].agree, "bank", SESSION, [key, *keys[1:]])


def test_own_keys_and_lists_of_keys_are_checked(tmp_path: Path) -> None:
    sides = parties(tmp_path)
    keys = [side.open("bank", SESSION, list(NAMES)) for side in sides.values()]
    phone, shop, water = keys
    own_false = SessionKey(party="shop", key=water.key, signature=shop.signature)
    assert "as its own" in str(refused(403, sides["shop"].agree, "bank", SESSION, [phone, own_false, water]))
    for wrong in ([phone, shop], [phone, shop, water, water], [shop, shop, shop]):
        refused(409, sides["shop"].agree, "bank", SESSION, wrong)
    sides["shop"].agree("bank", SESSION, keys)
    assert sides["shop"].agree("bank", SESSION, keys[::-1])  # again is no harm


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["shop", "thief"], "identity"),
        (["phone", "water"], "once"),
        (["shop", "shop"], "once"),
        (["shop", "phone"], "least 2"),
    ],
)
def test_sets_of_parties_that_are_refused(tmp_path: Path, names: list[str], reason: str) -> None:
    assert reason in str(refused(403, parties(tmp_path)["shop"].open, "bank", SESSION, names))


def test_a_session_belongs_to_who_opened_it(tmp_path: Path) -> None:
    sides = parties(tmp_path)
    keys = meet(sides)
    refused(409, sides["shop"].open, "thief", SESSION, list(NAMES))
    refused(404, sides["shop"].agree, "thief", SESSION, keys)
    refused(404, ask, sides["shop"], who="thief")
    assert sides["shop"].open("bank", SESSION, list(NAMES)[::-1]) == keys[1]


def test_sessions_end_and_are_few(tmp_path: Path) -> None:
    sides = parties(tmp_path, seconds=0.0, sessions=2)
    keys = [side.open("bank", SESSION, list(NAMES)) for side in sides.values()]
    refused(404, sides["shop"].agree, "bank", SESSION, keys)
    assert sides["shop"].open("bank", SESSION, list(NAMES)) != keys[1]  # another key, never the same again
    few = parties(tmp_path, sessions=2)["shop"]
    for number in range(2):
        few.open("bank", f"session-of-many-{number}", list(NAMES))
    assert refused(429, few.open, "bank", "session-of-many-2", list(NAMES)).retry_after == 900


# ---------------------------------------------------------------- alone, budgets, files


def test_alone_scores_are_in_the_clear(tmp_path: Path) -> None:
    side = Answerer(own_scores(0, "shop"), State(tmp_path / "a.db"), Rules(1), Identity())
    answer, unknown = side.answer("bank", None, 0, ["c1", "nobody"])
    assert answer.scores == [side.own.of(["c1"])[0][0], 0.0]
    assert (answer.masked, unknown) == (None, 1)
    refused(403, side.answer, "bank", SESSION, 0, ["c1"])
    refused(403, side.open, "bank", SESSION, ["shop", "phone"])
    together = parties(tmp_path)["shop"]
    refused(403, together.answer, "bank", None, 0, ["c1"])


def test_a_day_is_over_at_midnight(tmp_path: Path) -> None:
    clock = [5.5 * DAY]
    state = State(tmp_path / "a.db", now=lambda: clock[0])
    state.take("bank", ["a", "b"], ("shop",), 3)
    assert refused(429, state.take, "bank", ["c", "d"], ("shop",), 3).retry_after == DAY // 2 + 1
    state.take("other", ["c", "d"], ("shop",), 3)
    clock[0] += DAY
    state.take("bank", ["c", "d"], ("shop",), 3)


def test_a_refused_request_binds_nothing(tmp_path: Path) -> None:
    state = State(tmp_path / "a.db")
    refused(429, state.take, "bank", ["a"], ("shop", "phone"), 0)
    state.take("bank", ["a"], ("shop", "phone", "water"), 1)


def test_two_processes_share_one_budget(tmp_path: Path) -> None:
    first, second = State(tmp_path / "a.db"), State(tmp_path / "a.db")
    first.take("bank", ["a", "b"], ("shop",), 3)
    refused(429, second.take, "bank", ["c", "d"], ("shop",), 3)
    assert first.digest("a") == second.digest("a") != State(tmp_path / "b.db").digest("a")


def test_no_id_is_in_the_file(tmp_path: Path) -> None:
    state = State(tmp_path / "a.db")
    state.take("bank", ["somebody-known"], ("shop",), 3)
    state.close()
    assert not [path for path in tmp_path.iterdir() if b"somebody" in path.read_bytes()]
    assert (tmp_path / "a.db").stat().st_mode & 0o077 == 0


def test_the_card_tells_nothing_of_the_part(tmp_path: Path) -> None:
    sides, elsewhere = parties(tmp_path), tmp_path / "elsewhere"
    elsewhere.mkdir()
    card = json.loads(sides["shop"].card.model_dump_json())
    of_the_job = {"outputs"}  # how many classes there are, which all parties know
    rules = {"version", "party", "fingerprint", "identity", "least", "most_ids", "per_day"}
    assert set(card) == rules | of_the_job
    assert card["fingerprint"] != parties(elsewhere)["shop"].card.fingerprint  # the same part: no guess can be tested


@pytest.mark.parametrize("rules", [{"least": 0}, {"least": 1, "per_day": 0}, {"least": 1, "most_ids": 10_001}])
def test_rules_that_make_no_sense(rules: dict[str, int]) -> None:
    with pytest.raises(InputError, match="must be from 1"):
        Rules(**rules)


def test_a_file_of_peers_with_another_identity_of_oneself_is_refused(tmp_path: Path) -> None:
    sides = parties(tmp_path)
    peers = {"shop": Identity().key.public_key()}
    with pytest.raises(InputError, match="another identity"):
        Answerer(own_scores(0, "shop"), sides["shop"].state, Rules(1), Identity(), peers)
    with pytest.raises(InputError, match="with its peers there are 1"):
        Answerer(own_scores(0, "shop"), sides["shop"].state, Rules(2), Identity(), {})
