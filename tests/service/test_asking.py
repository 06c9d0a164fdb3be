"""Whoever asks: parties that go away at different times, false addresses, and the two verbs' refusals."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel

from tacit.cli.main import main
from tacit.errors import InputError, RunError
from tacit.run.own_scores import ABSENT, read_own_scores
from tacit.service.answering import Answerer
from tacit.service.asking import Asker, AwayError, PartyClient
from tacit.service.wire import ModelCard, RefusedError, ScoresReply
from tests.service.company import train
from tests.service.sides import IDS, NAMES, parties


class Wire(PartyClient):
    """A line to a party in this process, which may break before some path, and may lose an answer on its way back."""

    def __init__(self, side: Answerer, breaks_at: str = "never", loses: int = 0) -> None:
        super().__init__(side.own.party, "http://127.0.0.1:1")
        self.side, self.breaks_at, self.loses = side, breaks_at, loses
        self.asked: list[int] = []

    def get(self, path: str, kind: type[Any]) -> Any:
        self._cross(path)
        return self.side.card

    def post(self, path: str, body: dict[str, Any], kind: type[Any], *, tries: int = 1) -> Any:
        self._cross(path)
        try:
            answer = self._post(path, body, kind)
        except RefusedError as error:
            raise RunError(f"{self.name} refuses: {error}") from error
        if isinstance(answer, ScoresReply) and self.loses:
            self.loses -= 1
            return self.post(path, body, kind, tries=tries - 1)
        return answer

    def _post(self, path: str, body: dict[str, Any], kind: type[Any]) -> BaseModel:
        if path == "/v1/sessions":
            return self.side.open("bank", body["session"], body["parties"])
        if path == "/v1/scores":
            self.asked.append(len(body["ids"]))
            return self.side.answer("bank", body.get("session"), body["number"], body["ids"])[0]
        from tacit.service.wire import SessionKey

        keys = [SessionKey(**key) for key in body["keys"]]
        return kind(fingerprint=self.side.agree("bank", path.split("/")[3], keys))

    def _cross(self, path: str) -> None:
        if path.endswith(self.breaks_at):
            raise AwayError(f"{self.name} is away")


def exact(sides: dict[str, Answerer], names: tuple[str, ...] = NAMES) -> np.ndarray:
    return np.sum([sides[name].own.of(IDS)[0] for name in names], axis=0)


def test_requests_are_as_small_as_the_strictest_party_wants(tmp_path: Path) -> None:
    sides = parties(tmp_path, most_ids=15)
    lines = {name: Wire(side) for name, side in sides.items()}
    reply = Asker(lines).ask(IDS)
    np.testing.assert_allclose(reply.total, exact(sides), rtol=0, atol=1e-12)
    assert all(line.asked == [15, 15, 10] for line in lines.values())
    assert (reply.replaced, len(reply.fingerprint)) == ((), 39)


@pytest.mark.parametrize("least", [1, 3])
def test_several_classes_have_a_number_each(tmp_path: Path, least: int) -> None:
    sides = parties(tmp_path, outputs=4, least=least, most_ids=15)
    lines = {name: Wire(side) for name, side in sides.items()}
    total = Asker(lines, outputs=4).ask([*IDS[::-1], "nobody"]).total
    assert total.shape == (len(IDS) + 1, 4)
    np.testing.assert_allclose(total[:-1], exact(sides)[::-1], rtol=0, atol=1e-12)
    assert not total[-1].any()
    with pytest.raises(RunError, match=r"^phone answers with 4 numbers for each id, and this model needs 1: "):
        Asker(lines).ask(IDS)
    with pytest.raises(RunError, match=r"^phone answers with 4 numbers for each id, and this model needs 3: "):
        Asker(lines, outputs=3).ask(IDS)
    assert all(line.asked == [15, 15, 11] for line in lines.values())  # nobody was asked for ids in vain


def test_an_answer_of_many_classes_is_no_longer_than_of_one(tmp_path: Path) -> None:
    sides = parties(tmp_path, outputs=700, most_ids=10_000)
    lines = {name: Wire(side) for name, side in sides.items()}
    np.testing.assert_allclose(Asker(lines, outputs=700).ask(IDS).total, exact(sides), rtol=0, atol=1e-12)
    assert all(line.asked == [14, 14, 12] for line in lines.values())
    with pytest.raises(RefusedError, match="15 ids in one request, more than 14"):
        sides["phone"].answer("bank", None, 0, IDS[:15])


@pytest.mark.parametrize(
    "scores", [[0.0, 1.0], [[0.0, 1.0]] * 2, [[0.0, 1.0, 2.0]], [[0.0], [1.0, 2.0, 3.0]], [[np.nan] * 3] * 2, [], None]
)
def test_scores_of_another_shape_are_refused_by_name(tmp_path: Path, scores: Any) -> None:
    side = parties(tmp_path, ("shop",), outputs=3)["shop"]
    line = Wire(side)
    line._post = lambda path, body, kind: ScoresReply(party="shop", number=0, scores=scores)  # type: ignore[method-assign]
    with pytest.raises(RunError, match=r"^shop did not answer with 2 scores$"):
        Asker({"shop": line}, outputs=3).ask(IDS[:2])


def test_an_answer_that_was_lost_is_sent_again(tmp_path: Path) -> None:
    sides = parties(tmp_path, per_day=len(IDS))
    lines = {name: Wire(side, loses=1) for name, side in sides.items()}
    np.testing.assert_allclose(Asker(lines).ask(IDS).total, exact(sides), rtol=0, atol=1e-12)


def test_a_new_session_is_opened_before_the_old_one_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.service.asking.RENEW", -1.0)
    sides = parties(tmp_path, most_ids=15, least=2)
    lines = {name: Wire(side) for name, side in sides.items()}
    np.testing.assert_allclose(Asker(lines).ask(IDS).total, exact(sides), rtol=0, atol=1e-12)
    lines["shop"].breaks_at = "/keys"
    with pytest.raises(RunError, match='"shop" is away'):
        Asker(lines).ask(IDS)


@pytest.mark.parametrize("more", ["", '[encode]\nscale = "none"\n'])
def test_an_average_row_adds_nothing_so_that_0_stands_for_who_is_away(tmp_path: Path, more: str) -> None:
    run = train(tmp_path, ("shop",), more=more)
    scores = read_own_scores(run / "model" / "shop.json", tmp_path / "shop.csv").scores
    assert abs(scores[:-1].mean()) < 1e-12 < 0.1 < scores[:-1].std()
    assert scores[-1] == ABSENT == 0.0


@pytest.mark.parametrize("path", ["/v1/model", "/v1/sessions", "/keys"])
def test_who_is_away_before_anything_was_asked_is_left_out(tmp_path: Path, path: str) -> None:
    sides = parties(tmp_path, least=2)
    lines = {name: Wire(side, path if name == "water" else "never") for name, side in sides.items()}
    with pytest.raises(RunError, match=r'"water" is away: .*--degrade'):
        Asker(lines).ask(IDS)
    reply = Asker(lines, degrade=True).ask(IDS)
    np.testing.assert_allclose(reply.total, exact(sides, NAMES[:2]), rtol=0, atol=1e-12)
    assert reply.replaced == ("water",)


def test_who_goes_away_later_is_waited_for(tmp_path: Path) -> None:
    sides = parties(tmp_path, least=2)
    lines = {name: Wire(side, "/v1/scores" if name == "water" else "never") for name, side in sides.items()}
    with pytest.raises(RunError, match='"water" went away after 0 ids'):
        Asker(lines, degrade=True).ask(IDS)
    lines["water"].breaks_at = "/v1/model"
    with pytest.raises(RunError, match="answered together with other parties"):
        Asker(lines, degrade=True).ask(IDS)  # its score would be the difference
    lines["water"].breaks_at = "never"
    np.testing.assert_allclose(Asker(lines).ask(IDS).total, exact(sides), rtol=0, atol=1e-12)


def test_nobody_there(tmp_path: Path) -> None:
    lines = {name: Wire(side, "/v1/model") for name, side in parties(tmp_path).items()}
    with pytest.raises(RunError, match="nobody is there"):
        Asker(lines, degrade=True).ask(IDS)


def test_an_address_of_somebody_else_is_noticed(tmp_path: Path) -> None:
    sides = parties(tmp_path)
    lines = {"phone": Wire(sides["phone"]), "shop": Wire(sides["water"]), "water": Wire(sides["shop"])}
    with pytest.raises(RunError, match="is water, not shop"):
        Asker(lines).ask(IDS)


def test_scores_that_are_not_what_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = {name: Wire(side) for name, side in parties(tmp_path).items()}
    monkeypatch.setattr(lines["shop"], "_post", _short(lines["shop"]))
    with pytest.raises(RunError, match="shop did not answer with 40 masked scores"):
        Asker(lines).ask(IDS)


def _short(line: Wire) -> Any:
    before = line._post

    def post(path: str, body: dict[str, Any], kind: type[Any]) -> BaseModel:
        answer = before(path, body, kind)
        return answer.model_copy(update={"masked": "AAAA"}) if isinstance(answer, ScoresReply) else answer

    return post


@pytest.mark.parametrize("url", ["shop.example", "ftp://shop.example", "http://shop.example:8443", "http://10.0.0.1"])
def test_addresses_that_are_refused(url: str) -> None:
    with pytest.raises(InputError, match=r"is no address|in the clear"):
        PartyClient("shop", url)


def test_a_reply_of_another_service_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import httpx

    line = PartyClient("shop", "http://127.0.0.1:1")
    monkeypatch.setattr(line, "_whole", lambda *_, **__: httpx.Response(200, text="<html>"))
    with pytest.raises(RunError, match="no ModelCard"):
        line.get("/v1/model", ModelCard)
    monkeypatch.setattr(line, "_whole", lambda *_, **__: httpx.Response(418, text="<html>"))
    with pytest.raises(RunError, match="shop refuses: I'm a teapot"):
        line.get("/v1/model", ModelCard)
    line.close()


# ---------------------------------------------------------------- the verbs


def refused(capsys: pytest.CaptureFixture[str], *words: Any) -> str:
    capsys.readouterr()
    assert main([str(word) for word in words]) == 2
    return capsys.readouterr().err


def test_answer_refuses_what_would_be_open_or_unclear(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, data = trained / "run", trained / "shop.csv"
    start = ("answer", run, "--party", "shop", "--data", data)
    assert "--token-file" in refused(capsys, *start, "--alone")
    assert "without TLS" in refused(capsys, *start, "--alone", "--insecure", "--host", "0.0.0.0")
    assert "--peers FILE" in refused(capsys, *start, "--insecure")
    assert "--party NAME" in refused(capsys, "answer", run, "--data", data, "--alone", "--insecure")
    assert "--data" in refused(capsys, "answer", run, "--party", "shop", "--alone", "--insecure")
    assert "it is missing" in refused(
        capsys, "answer", run, "--party", "nobody", "--data", data, "--alone", "--insecure"
    )
    assert "must be from 1" in refused(capsys, *start, "--alone", "--insecure", "--per-day", 0)
    assert "0 to 65535" in refused(capsys, *start, "--alone", "--insecure", "--port", 70000)
    assert "leave it out" in refused(capsys, *start, "--alone", "--insecure", "--least", 2)


def test_identities_are_kept_and_secret(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "answer",
        str(trained / "run"),
        "--party",
        "shop",
        "--identity",
        str(tmp_path / "a.pem"),
        "--show-identity",
    ]
    capsys.readouterr()
    assert main(words) == main(words) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == second
    peers = tmp_path / "peers.toml"
    start = ("answer", trained / "run", "--party", "shop", "--data", trained / "shop.csv", "--insecure", "--identity")
    own = (tmp_path / "a.pem", "--peers", peers, "--state", tmp_path / "a.db")
    for text, reason in (
        ("", "[peers]"),
        ("[peers]\nphone = 3\n", "no identity"),
        (f'[peers]\nphone = "{first[:-4]}"\n', "no identity"),
        (f'[peers]\nshop = "{first}"\n', "from 2"),
        ("[", "cannot read"),
    ):
        peers.write_text(text)
        assert reason in refused(capsys, *start, *own), text
    (tmp_path / "a.pem").chmod(0o644)
    assert "chmod 600" in refused(capsys, *start, *own)
    (tmp_path / "b.pem").write_text("no key")
    (tmp_path / "b.pem").chmod(0o600)
    assert "is no identity" in refused(capsys, *start, tmp_path / "b.pem", *own[1:])


def test_ask_refuses_addresses_that_do_not_fit_the_model(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start = ("ask", trained / "run", "--data", trained / "bank.csv", "--from")
    urls = [f"{name}=http://127.0.0.1:9" for name in ("shop", "phone", "water")]
    assert 'no party "nobody"' in refused(capsys, *start, *urls, "nobody=http://127.0.0.1:9")
    assert "one of them can be you" in refused(capsys, *start, *urls[:2])
    assert "PARTY=URL" in refused(capsys, *start, "shop")
    assert "twice" in refused(capsys, *start, *urls, urls[0])
    assert "but yourself" in refused(capsys, *start, *urls, "bank=http://127.0.0.1:9")
    assert "in the clear" in refused(capsys, *start, *urls[:2], "water=http://water.example")


def test_a_missing_package_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr("tacit.service.find_spec", lambda name: None if name == "fastapi" else found(name))
    for words in (("answer", "run"), ("ask", "run", "--data", "a.csv", "--from", "a=b")):
        assert "this needs fastapi, not installed here: pip install 'tacit[service]'" in refused(capsys, *words)
