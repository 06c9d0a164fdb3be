"""The HTTP side: who may come in, what a request may be, and a search for requests that break it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from fastapi.testclient import TestClient
from schemathesis import engine
from schemathesis.engine import events

from tacit.errors import InputError
from tacit.service import connections
from tacit.service.access import ServiceAccess, Tokens, read_tokens
from tacit.service.app import make_app
from tests.service.sides import IDS, NAMES, SESSION, parties

TOKEN = "a-token-that-is-long-enough-for-anybody"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
OPEN = {"session": SESSION, "parties": list(NAMES)}
ASK = {"session": SESSION, "number": 0, "ids": IDS[:3]}


@pytest.fixture
def clients(tmp_path: Path) -> dict[str, TestClient]:
    door = ServiceAccess(tokens=Tokens({"bank": TOKEN, "other": TOKEN[::-1]}))
    return {name: TestClient(make_app(side, door), headers=HEADERS) for name, side in parties(tmp_path).items()}


@pytest.fixture
def shop(clients: dict[str, TestClient]) -> TestClient:
    return clients["shop"]


def meet(clients: dict[str, TestClient]) -> None:
    keys = [client.post("/v1/sessions", json=OPEN).json() for client in clients.values()]
    for client in clients.values():
        assert client.post(f"/v1/sessions/{SESSION}/keys", json={"keys": keys}).status_code == 200


PROTECTED = [
    ("GET", "/v1/model", None),
    ("GET", "/v1/metrics", None),
    ("POST", "/v1/sessions", OPEN),
    ("POST", f"/v1/sessions/{SESSION}/keys", {"keys": []}),
    ("POST", "/v1/scores", ASK),
]


@pytest.mark.parametrize(("method", "path", "body"), PROTECTED)
@pytest.mark.parametrize(
    "token", ["", "Bearer ", "Bearer wrong", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x", f"Basic {TOKEN}"]
)
def test_without_a_right_token_nobody_is_heard(shop: TestClient, method: str, path: str, body: Any, token: str) -> None:
    answer = shop.request(method, path, json=body, headers={"Authorization": token})
    assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert "token" in answer.json()["detail"]


def test_health_is_open_and_pages_that_load_from_elsewhere_are_not_there(shop: TestClient) -> None:
    assert shop.get("/v1/health", headers={"Authorization": ""}).json() == {"status": "ok"}
    assert [shop.get(path).status_code for path in ("/docs", "/redoc", "/openapi.json")] == [404] * 3


def test_scores_over_http_and_counts(clients: dict[str, TestClient]) -> None:
    shop = clients["shop"]
    assert shop.post("/v1/scores", json=ASK).status_code == 404
    meet(clients)
    first = shop.post("/v1/scores", json=ASK)
    assert (first.status_code, set(first.json())) == (200, {"party", "number", "masked"})
    assert shop.post("/v1/scores", json=ASK).content == first.content
    assert shop.post("/v1/scores", json={**ASK, "ids": IDS[3:6]}).status_code == 409
    other = shop.post("/v1/scores", json=ASK, headers={"Authorization": f"Bearer {TOKEN[::-1]}"})
    assert other.status_code == 404
    lines = shop.get("/v1/metrics").text.splitlines()
    assert 'tacit_requests_total{path="/v1/scores",status="200"} 2.0' in lines
    assert 'tacit_requests_total{path="/v1/scores",status="409"} 1.0' in lines
    assert not [line for line in lines if "unknown" in line]


def test_metrics_count_an_answer_once(clients: dict[str, TestClient]) -> None:
    meet(clients)
    clients["shop"].post("/v1/scores", json=ASK)
    assert "tacit_ids_total 3.0" in clients["shop"].get("/v1/metrics").text.splitlines()


def test_logs_have_numbers_of_ids_and_neither_ids_nor_scores(
    clients: dict[str, TestClient], caplog: pytest.LogCaptureFixture
) -> None:
    meet(clients)
    with caplog.at_level(logging.INFO, connections.LOG.name):
        answer = clients["shop"].post("/v1/scores", json={**ASK, "ids": [*IDS[:3], "somebody-else"]})
        clients["shop"].post("/v1/scores", json={**ASK, "ids": [7, "somebody-else"]})
        clients["shop"].get("/v1/somebody-else")
    lines = [json.loads(record.getMessage()) for record in caplog.records if record.name == connections.LOG.name]
    assert [(line["path"], line["status"]) for line in lines] == [
        ("/v1/scores", 200),
        ("/v1/scores", 422),
        ("other", 404),
    ]
    assert (lines[0]["ids"], lines[0]["unknown"], lines[0]["caller"]) == (4, 1, "bank")
    assert "somebody" not in caplog.text
    assert answer.json()["masked"] not in caplog.text


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b"\xff",
        b"null",
        json.dumps({**ASK, "ids": []}).encode(),
        json.dumps({**ASK, "ids": [" "]}).encode(),
        json.dumps({**ASK, "ids": "c1"}).encode(),
        json.dumps({**ASK, "ids": IDS * 300}).encode(),
        json.dumps({**ASK, "number": -1}).encode(),
        json.dumps({**ASK, "number": 2**70}).encode(),
        json.dumps({**ASK, "session": "short"}).encode(),
        json.dumps({**ASK, "ids": ["\ud800"]}).encode(),
        json.dumps({**ASK, "more": 1}).encode(),
        b"[" * 5000,
    ],
)
def test_requests_that_are_not_as_described(clients: dict[str, TestClient], body: bytes) -> None:
    meet(clients)
    answer = clients["shop"].post("/v1/scores", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422), answer.text
    assert list(answer.json()) == ["detail"]
    assert isinstance(answer.json()["detail"], str)


def test_a_request_that_is_too_large_is_not_read(shop: TestClient) -> None:
    answer = shop.post("/v1/scores", content=b" " * (connections.MOST_BYTES + 1))
    assert answer.status_code == 413


def test_a_request_that_does_not_arrive_is_given_up(shop: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "BODY_SECONDS", 0.05)
    sent: list[Any] = []

    async def receive() -> Any:
        await asyncio.sleep(60)

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"authorization", f"Bearer {TOKEN}".encode())]
    scope = {"type": "http", "method": "POST", "path": "/v1/scores", "headers": headers, "query_string": b""}
    asyncio.run(shop.app(scope, receive, send))  # type: ignore[arg-type]
    assert sent[0]["status"] == 408


def test_a_mistake_of_ours_says_nothing(
    shop: TestClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("score 1.5 of c1")

    monkeypatch.setattr(shop.app.state.answerer, "answer", fail)  # type: ignore[attr-defined]
    answer = shop.post("/v1/scores", json=ASK)
    assert (answer.status_code, answer.json()) == (500, {"detail": "the service failed"})
    assert '{"failed": "RuntimeError"}' in caplog.text
    assert "c1" not in caplog.text


@pytest.mark.parametrize(
    ("named", "match"),
    [
        ({}, "--token-file"),
        ({"host": "0.0.0.0", "insecure": True}, "without TLS"),
        ({"host": "0.0.0.0", "tokens": Tokens({"a": TOKEN})}, "without TLS"),
        ({"host": "0.0.0.0", "cert": "c", "key": "k", "insecure": True}, "nobody is asked"),
        ({"cert": "c"}, "both"),
        ({"ca": "c"}, "needs TLS"),
    ],
)
def test_doors_that_would_be_open(named: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=match):
        ServiceAccess(**named)


def test_doors_that_are_fine() -> None:
    assert ServiceAccess(insecure=True).caller(None, None) == "local"
    assert ServiceAccess("0.0.0.0", cert="c", key="k", ca="a").caller("any", "certificate CN=a") == "certificate CN=a"
    assert ServiceAccess("0.0.0.0", cert="c", key="k", ca="a").caller("any", None) is None
    assert ServiceAccess("::1", tokens=Tokens({"a": TOKEN})).caller(TOKEN, None) == "a"
    assert ServiceAccess("::1", tokens=Tokens({"a": TOKEN})).caller(None, "certificate CN=a") is None


@pytest.mark.parametrize("text", ["", "bank", f"bank {TOKEN} more", "bank short", f"bank {TOKEN}\nbank {TOKEN}x"])
def test_files_of_tokens_that_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tokens.txt"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(InputError, match="token"):
        read_tokens(path)
    path.write_text(f"bank {TOKEN} # ours\n")
    assert read_tokens(path) == {"bank": TOKEN}
    path.chmod(0o644)
    with pytest.raises(InputError, match="chmod 600"):
        read_tokens(path)


# ---------------------------------------------------------------- a search for requests that break it


def test_no_request_breaks_it_and_answers_are_as_described(tmp_path: Path) -> None:
    side = parties(tmp_path, per_day=10**6)["shop"]
    side.open("bank", SESSION, list(NAMES))
    app = make_app(side, ServiceAccess(tokens=Tokens({"bank": TOKEN})))
    schema = schemathesis.openapi.from_asgi("/v1/openapi.json", app)
    schema.config.update(headers=HEADERS)
    schema.config.generation.update(max_examples=20)
    schema.config.seed = 1
    passed: Counter[str] = Counter()
    for event in engine.from_schema(schema).execute():
        assert not isinstance(event, events.NonFatalError | events.FatalError), event
        for checks in getattr(getattr(event, "recorder", None), "checks", {}).values():
            for check in checks:
                assert check.failure_info is None, (check.name, check.failure_info)
                passed[check.name] += 1
    needed = ("not_a_server_error", "status_code_conformance", "response_schema_conformance", "ignored_auth")
    assert all(passed[name] >= 100 for name in needed), passed
