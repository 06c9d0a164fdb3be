"""Attacks on joint predictions: one consent gives the scores of these rows in this order, once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.errors import RunError
from tacit.federation.protocol import (
    Agree,
    Answered,
    Begin,
    Begun,
    Keys,
    Match,
    Numbers,
    Open,
    Prepare,
    Reason,
    Refused,
    Scores,
    Step,
)
from tacit.federation.score_handler import PredictionRequest
from tests.federation.loopback import Loopback, no_waiting_for_the_disk  # noqa: F401
from tests.federation.test_sites_predict import PREDICT, TRAIN, trained
from tests.hostile.test_consent import Says

pytest.importorskip("private_set_intersection", reason="needs tacit[align]")


def predicted(tmp_path: Path, parties: int) -> tuple[dict[str, Path], Loopback, Says]:
    files, loop = trained(tmp_path, parties)
    gate = Says()
    loop.authorizers = {"shop": gate}
    loop.restart("shop")
    loop.run(PredictionRequest(TRAIN, tuple(files)).to_toml(), PREDICT)
    return files, loop, gate


@pytest.mark.parametrize("parties", [2, 3])
def test_one_consent_does_not_serve_again_with_the_rows_in_another_order(tmp_path: Path, parties: int) -> None:
    """The difference of two sums over different orders would be a difference of one party's scores."""
    files, loop, gate = predicted(tmp_path, parties)
    assert [stage for stage, _ in gate.asked if stage != "job"] == ["prepare", "predict"]
    (first,) = [one.reply for one in loop.carried if one.name == "shop" and isinstance(one.asked, Scores)]
    shop = loop.sites["shop"]
    for restarted in (False, True):
        if restarted:
            loop.restart("shop")
            shop = loop.sites["shop"]
            opening = Open(run=PREDICT, job=PredictionRequest(TRAIN, tuple(files)).to_toml(), version=tacit.__version__)
            shop.handle(opening, "bank")
            shop.handle(Prepare(), "bank")
        assert shop.handle(Match(step="size"), "bank") == Refused(reason=Reason.ANSWERED)
        assert shop.handle(Keys(), "bank") == Refused(reason=Reason.ANSWERED)
        again = shop.handle(Scores(), "bank")
        assert isinstance(again, Answered)
        assert tacit_bytes(again) == first  # the same bytes, and nothing else, however often


def tacit_bytes(reply: Answered) -> bytes:
    from tacit.federation.protocol import encode

    return encode(reply)


def test_a_second_alignment_before_the_answer_needs_a_second_consent(tmp_path: Path) -> None:
    files, loop = trained(tmp_path, 2)
    gate = Says()
    loop.authorizers = {"shop": gate}
    loop.restart("shop")
    text = PredictionRequest(TRAIN, tuple(files)).to_toml()
    stopped: list[object] = []

    def stop(caller: str, name: str, request: object) -> None:
        if isinstance(request, Scores) and not stopped:
            stopped.append(loop.sites["shop"].handle(Match(step="size"), "bank"))
            stopped.append(loop.sites["shop"].handle(Scores(), "bank"))
            raise ConnectionError

    loop.disturb = stop
    with pytest.raises(ConnectionError):
        loop.run(text, PREDICT)
    assert stopped[1] == Refused(reason=Reason.NOT_AGREED)
    assert not [one for one in loop.carried if isinstance(one.answered, Answered) and isinstance(one.asked, Scores)]
    assert loop.sites["shop"].handle(Begin(rows=[], columns=[], plan=""), "bank") == Begun(rows=stopped_rows(loop))
    assert [stage for stage, _ in gate.asked].count("predict") == 2


def stopped_rows(loop: Loopback) -> int:
    return len(loop.sites["shop"].handler.matching.rows)  # type: ignore[union-attr]


def test_a_changed_part_of_the_model_needs_another_consent(tmp_path: Path) -> None:
    """Coefficients chosen by another party, such as 1, 1e3 and 1e8, would give whole rows back in one score."""
    files, loop, gate = predicted(tmp_path, 2)
    part = tmp_path / "sites/shop" / TRAIN / "model/shop.json"
    part.write_text(part.read_text().replace('"coef": [', '"coef": [ ', 1))
    loop.restart("shop")
    loop.run(PredictionRequest(TRAIN, tuple(files)).to_toml(), "predict-0002")
    bounds = [bound for stage, bound in gate.asked if stage == "predict"]
    assert bounds[0]["part"] != bounds[1]["part"]  # type: ignore[index]


def test_masks_of_a_prediction_hide_each_partys_scores(tmp_path: Path) -> None:
    _, loop, _ = predicted(tmp_path, 3)
    sent = {one.name: one.answered for one in loop.carried if isinstance(one.asked, Scores)}
    words = [reply.message.arrays["share"].array() for reply in sent.values()]  # type: ignore[attr-defined]
    assert all(array.dtype == np.uint64 for array in words)
    top = np.concatenate([array.reshape(-1) for array in words]) >> np.uint64(63)
    assert 0.3 < top.mean() < 0.7  # the top bit of small numbers without masks would be the same everywhere


def test_keys_that_are_not_the_partys_own_are_refused(tmp_path: Path) -> None:
    files, loop = trained(tmp_path, 3)
    seen: list[object] = []

    def before(caller: str, name: str, request: object) -> None:
        if isinstance(request, Agree) and not seen:
            forged = request.keys.array() ^ np.uint64(1)
            seen.append(loop.sites[name].handle(Agree(keys=Numbers.of(forged)), "bank"))

    loop.disturb = before
    loop.run(PredictionRequest(TRAIN, tuple(files)).to_toml(), PREDICT)
    assert isinstance(seen[0], Refused)


def test_nobody_but_who_led_the_training_is_answered(tmp_path: Path) -> None:
    _, loop = trained(tmp_path, 3)
    with pytest.raises(RunError, match="no finished run of this name"):
        loop.run(PredictionRequest(TRAIN, ("shop", "bank", "phone")).to_toml(), PREDICT)


def test_another_member_does_not_get_the_scores_that_were_sent_to_the_lead(tmp_path: Path) -> None:
    """It knows its own mask with the victim, so the kept answer would show it the victim's scores."""
    files, loop, _ = predicted(tmp_path, 3)
    loop.restart("shop")
    shop, own = loop.sites["shop"], PredictionRequest(TRAIN, ("phone", "shop", "bank")).to_toml()
    opening = Open(run=PREDICT, job=own, version=tacit.__version__)
    assert shop.handle(opening, "phone") == Refused(reason=Reason.OTHER_JOB)
    assert not isinstance(shop.handle(Scores(), "phone"), Answered)
    loop.restart("shop")
    honest = Open(run=PREDICT, job=PredictionRequest(TRAIN, tuple(files)).to_toml(), version=tacit.__version__)
    loop.sites["shop"].handle(honest, "bank")
    assert loop.sites["shop"].handle(Scores(), "bank") == Refused(reason=Reason.TURN)  # not before it was prepared


@pytest.mark.parametrize("parties", [2, 3])
def test_a_prediction_whose_lead_died_after_the_scores_were_sent_ends_with_the_same_bytes(
    tmp_path: Path, parties: int
) -> None:
    files, loop = trained(tmp_path, parties)
    text, last = PredictionRequest(TRAIN, tuple(files)).to_toml(), list(files)[-1]

    def die(caller: str, name: str, request: object, reply: object) -> None:
        if isinstance(request, Scores) and name == last:
            raise ConnectionError

    loop.after = die
    with pytest.raises(ConnectionError):
        loop.run(text, PREDICT)
    loop.after = lambda *_: None
    loop.restart()
    assert loop.run(text, PREDICT) == 1
    sent = [one.reply for one in loop.carried if one.name == last and isinstance(one.asked, Scores)]
    assert len(sent) == 2
    assert sent[0] == sent[1]
    assert (tmp_path / "sites/bank" / PREDICT / "predictions.csv").exists()


def test_huge_scores_are_held_and_not_refused(tmp_path: Path) -> None:
    """A refusal would tell how large the largest score is: an exact function of the rows, by halving the scale."""
    files, loop = trained(tmp_path, 2)
    part = tmp_path / "sites/shop" / TRAIN / "model/shop.json"
    record = json.loads(part.read_text())
    record["coef"] = [1e40 for _ in record["coef"]]
    part.write_text(json.dumps(record))
    loop.restart("shop")
    assert loop.run(PredictionRequest(TRAIN, tuple(files)).to_toml(), PREDICT) == 1


def test_a_lead_that_tells_parties_different_orders_gets_noise(tmp_path: Path) -> None:
    """Moved by one place for one party, the difference of two sums would be the differences of its scores."""
    files, loop, _ = predicted(tmp_path, 3)
    lead = loop.sites["bank"]
    honest = lead.ask

    def lying(names: Sequence[str], request: Step) -> dict[str, Step]:
        if isinstance(request, Match) and request.step == "rows" and names == ["phone"]:
            assert request.positions is not None
            request.positions = Numbers.of(np.roll(request.positions.array(), -1))
        return honest(names, request)

    lead.ask = lying
    with pytest.raises(RunError, match="the masks did not cancel, so the sum is noise"):
        loop.run(PredictionRequest(TRAIN, tuple(files)).to_toml(), "predict-0002")
