"""Attacks on `tacit answer`: strangers that open connections and say nothing, and callers that take all there is."""

from __future__ import annotations

import contextlib
import gzip
import json
import math
import shutil
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient

from tacit.errors import RunError
from tacit.service import asking, connections
from tacit.service.access import ServiceAccess, Tokens
from tacit.service.app import make_app
from tacit.service.asking import PartyClient
from tacit.service.connections import Connections
from tacit.service.wire import ModelCard, RefusedError, ScoresReply
from tests.service.certificates import make_certificates
from tests.service.company import IDS, TOKEN, Company, secret_file
from tests.service.conftest import company, trained  # noqa: F401
from tests.service.sides import NAMES, parties

SILENT, SOON = 200, 2.0  # connections of the attacker, and seconds in which an honest caller is answered
TOKENS = {"bank": TOKEN, "thief": "s" * 40}


def address(url: str) -> tuple[str, int]:
    host, port = url.split("://")[1].rsplit(":", 1)
    return host, int(port)


@contextlib.contextmanager
def opened(url: str, count: int, say: bytes = b"", tls: ssl.SSLContext | None = None) -> Iterator[list[socket.socket]]:
    """Connections of a stranger, which says something or nothing."""
    links: list[socket.socket] = []
    try:
        for _ in range(count):
            link = socket.create_connection(address(url), timeout=5)
            links.append(link)
            with contextlib.suppress(OSError):  # it may have been closed to make room
                if tls is not None:
                    links[-1] = link = tls.wrap_socket(link)
                link.sendall(say)
        yield links
    finally:
        for link in links:
            link.close()


def ask(url: str, ids: list[str], token: str = TOKEN, **how: Any) -> httpx.Response:
    headers = {"Authorization": f"Bearer {token}"}
    body = {"number": 0, "ids": ids}
    return httpx.post(f"{url}/v1/scores", json=body, headers=headers, timeout=10, trust_env=False, **how)


def answered_soon(url: str, **how: Any) -> None:
    """Five requests over connections of their own, each answered in time."""
    for number in range(5):
        start = time.monotonic()
        assert asked_again(url, IDS[number : number + 1], start + SOON, **how).status_code == 200
        assert time.monotonic() - start < SOON


def asked_again(url: str, ids: list[str], until: float, **how: Any) -> httpx.Response:
    """The answer to an honest caller, who asks again where its connection is closed while a flood is being refused."""
    while True:
        try:
            return ask(url, ids, **how)
        except httpx.TransportError:
            if time.monotonic() > until:
                raise


HEAD = b"POST /v1/scores HTTP/1.1\r\nHost: shop\r\nContent-Type: application/json\r\n"
BEGINNINGS = {
    "nothing": b"",
    "part of a line": b"POST /v1/sco",
    "part of the headers": HEAD + b"X-Slow: ",
    "a body that never comes": HEAD + b"Content-Length: 1000\r\n\r\n{",
    "a body that never comes, with a token": HEAD
    + f"Authorization: Bearer {TOKENS['thief']}\r\n".encode()
    + b"Content-Length: 1000\r\n\r\n{",
}


@pytest.fixture(scope="module")
def served(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Company]:  # noqa: F811
    """A company with one service, which bears one wave of silent connections after the other."""
    folder = tmp_path_factory.mktemp("served")
    shutil.copytree(trained, folder, dirs_exist_ok=True)
    found = Company(folder)
    tokens = secret_file(folder / "callers.txt", "".join(f"{who} {own}\n" for who, own in TOKENS.items()))
    found.start("shop", "--alone", "--token-file", tokens)
    yield found
    found.close()


@pytest.mark.parametrize("said", list(BEGINNINGS))
def test_connections_that_say_nothing_stop_nobody(served: Company, said: str) -> None:
    with opened(served.urls["shop"], SILENT, BEGINNINGS[said]):
        answered_soon(served.urls["shop"])


def test_tls_connections_that_say_nothing_stop_nobody(company: Company) -> None:  # noqa: F811
    """Before the handshake, and after it."""
    made = make_certificates(company.folder / "made")
    tokens = secret_file(company.folder / "callers.txt", f"bank {TOKEN}\n")
    words = ("--alone", "--token-file", tokens, "--cert", made.server, "--key", made.server_key)
    url = company.start("shop", *words)
    blind = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    blind.check_hostname, blind.verify_mode = False, ssl.CERT_NONE
    for shaken in (None, blind):
        with opened(url, SILENT, tls=shaken):
            answered_soon(url, verify=ssl.create_default_context(cafile=str(made.ca)))


def test_an_answer_is_not_cut_off_by_connections_that_come_later(company: Company) -> None:  # noqa: F811
    """Busy connections are never closed to make room: a caller that reads slowly gets all of its answer."""
    url = company.start("shop", "--alone", "--insecure", "--per-day", 100_000, "--most-ids", 10_000)
    body = json.dumps({"number": 0, "ids": IDS * 100}).encode()
    with socket.create_connection(address(url), timeout=10) as link:
        link.sendall(HEAD + f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        first = link.recv(100)
        with opened(url, SILENT):
            whole = first + b"".join(iter(lambda: link.recv(2**16), b""))
    assert whole.startswith(b"HTTP/1.1 200")
    assert len(json.loads(whole.split(b"\r\n\r\n", 1)[1])["scores"]) == 100 * len(IDS)


# ---------------------------------------------------------------- the rule for connections


class Link:
    def __init__(self) -> None:
        self.ended = False

    def shutdown(self, how: int) -> None:
        self.ended = True


def test_the_silent_make_room_and_the_busy_stay() -> None:
    clock = iter(range(1000))
    one = Connections(most=4, most_of_one=3, now=lambda: next(clock))
    links = [Link() for _ in range(8)]
    for port in range(3):
        assert one.add(("evil", port), links[port])  # type: ignore[arg-type]
    found = one.find(("evil", 0))
    assert found is not None
    found.begin()
    assert one.add(("evil", 3), links[3])  # type: ignore[arg-type]
    assert [link.ended for link in links[:4]] == [False, True, False, False]  # the oldest that is not busy
    assert one.add(("good", 0), links[4])  # type: ignore[arg-type]
    assert one.add(("fair", 0), links[5])  # type: ignore[arg-type]
    assert [link.ended for link in links[:6]] == [False, True, True, False, False, False]
    assert len(one) == 4
    for peer in (("evil", 3), ("good", 0), ("fair", 0)):
        busy = one.find(peer)
        assert busy is not None
        busy.begin()
    assert not one.add(("late", 0), links[6])  # type: ignore[arg-type]
    found.end()
    assert one.add(("late", 0), links[6])  # type: ignore[arg-type]
    assert links[0].ended


def test_an_old_link_does_not_take_a_new_one_off_the_list() -> None:
    all_, old, new = Connections(), Link(), Link()
    all_.add(("a", 1), old)  # type: ignore[arg-type]
    all_.remove(("a", 1), old)  # type: ignore[arg-type]
    all_.add(("a", 1), new)  # type: ignore[arg-type]
    all_.remove(("a", 1), old)  # type: ignore[arg-type]
    assert len(all_) == 1


# ---------------------------------------------------------------- one caller and the others


def test_one_callers_sessions_lock_nobody_else_out(tmp_path: Path) -> None:
    shop = parties(tmp_path)["shop"]

    def take_all() -> None:
        for number in range(2000):
            shop.open("thief", f"a-session-of-a-thief-{number}", list(NAMES))

    with pytest.raises(RefusedError, match="sessions of yours are open") as refused:
        take_all()
    assert refused.value.status == 429
    assert shop.open("bank", "a-session-of-the-bank", list(NAMES)).party == "shop"


def test_callers_with_certificates_have_sessions_and_days_of_their_own(company: Company) -> None:  # noqa: F811
    made = make_certificates(company.folder / "made", clients=("bank", "thief"))
    words = ("--alone", "--cert", made.server, "--key", made.server_key, "--ca", made.ca, "--per-day", 3)
    url = company.start("shop", *words)

    def tls(who: str) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(made.ca))
        context.load_cert_chain(made.ca.with_name(f"{who}.pem"), made.ca.with_name(f"{who}-key.pem"))
        return context

    assert ask(url, IDS[:3], verify=tls("thief")).status_code == 200
    assert ask(url, IDS[:1], verify=tls("thief")).status_code == 429
    assert ask(url, IDS[:3], verify=tls("bank")).status_code == 200
    assert ask(url, IDS[:1], verify=tls("bank")).status_code == 429
    log = (company.folder / "shop.log").read_text()
    assert '"caller": "certificate CN=thief"' in log
    assert '"caller": "certificate CN=bank"' in log


def test_requests_of_one_caller_that_never_end_leave_room_for_others(company: Company) -> None:  # noqa: F811
    tokens = secret_file(company.folder / "callers.txt", "".join(f"{who} {own}\n" for who, own in TOKENS.items()))
    url = company.start("shop", "--alone", "--token-file", tokens)
    with opened(url, connections.AT_ONCE, BEGINNINGS["a body that never comes, with a token"]):
        time.sleep(0.3)
        refused = ask(url, IDS[:1], TOKENS["thief"])
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
        assert ask(url, IDS[:1]).status_code == 200


# ---------------------------------------------------------------- messages


@pytest.fixture
def clients(tmp_path: Path) -> dict[str, TestClient]:
    door = ServiceAccess(tokens=Tokens(TOKENS))
    headers = {"Authorization": f"Bearer {TOKEN}"}
    return {name: TestClient(make_app(side, door), headers=headers) for name, side in parties(tmp_path).items()}


SESSION = "a-session-of-the-bank"


def meet(clients: dict[str, TestClient], session: str = SESSION) -> list[Any]:
    opening = {"session": session, "parties": list(NAMES)}
    keys = [client.post("/v1/sessions", json=opening).json() for client in clients.values()]
    for client in clients.values():
        assert client.post(f"/v1/sessions/{session}/keys", json={"keys": keys}).status_code == 200
    return keys


def test_another_callers_session_is_of_no_use(clients: dict[str, TestClient]) -> None:
    keys = meet(clients)
    thief = {"Authorization": f"Bearer {TOKENS['thief']}"}
    shop = clients["shop"]
    opening = {"session": SESSION, "parties": list(NAMES)}
    asked = {"session": SESSION, "number": 0, "ids": ["c1"]}
    assert shop.post("/v1/sessions", json=opening, headers=thief).status_code == 409
    assert shop.post(f"/v1/sessions/{SESSION}/keys", json={"keys": keys}, headers=thief).status_code == 404
    assert shop.post("/v1/scores", json=asked, headers=thief).status_code == 404
    assert shop.post("/v1/scores", json=asked).status_code == 200


def test_old_messages_of_a_session_say_nothing_new(clients: dict[str, TestClient]) -> None:
    keys = meet(clients)
    shop = clients["shop"]
    first = {"session": SESSION, "number": 0, "ids": ["c1", "c2"]}
    answer = shop.post("/v1/scores", json=first)
    assert shop.post("/v1/scores", json=first).content == answer.content  # replayed at once: the same bytes
    assert shop.post("/v1/scores", json={**first, "number": 1}).status_code == 200
    assert shop.post("/v1/scores", json=first).status_code == 409  # replayed late
    assert shop.post("/v1/scores", json={**first, "number": 1, "ids": ["c2", "c1"]}).status_code == 409
    other = "another-session-of-the-bank"
    opening = {"session": other, "parties": list(NAMES)}
    assert shop.post("/v1/sessions", json=opening).status_code == 200
    assert shop.post(f"/v1/sessions/{other}/keys", json={"keys": keys}).status_code == 403  # keys of the first


HUGE = (2**53, 2**63, 2**64, 2**200, 10**4000, -1, 1e300, 0.5, True, "0", None)


@pytest.mark.parametrize("number", HUGE, ids=[str(one)[:12] for one in HUGE])
def test_numbers_that_are_no_numbers_of_requests(clients: dict[str, TestClient], number: object) -> None:
    meet(clients)
    text = json.dumps({"session": SESSION, "number": number, "ids": ["c1"]})
    refused = clients["shop"].post("/v1/scores", content=text)
    assert refused.status_code == 422
    assert len(refused.json()["detail"]) < 200


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999", "9" * 5000, "[" * 5000])
def test_texts_that_are_no_numbers(clients: dict[str, TestClient], text: str) -> None:
    meet(clients)
    body = f'{{"session": "{SESSION}", "number": {text}, "ids": ["c1"]}}'
    assert clients["shop"].post("/v1/scores", content=body).status_code in (400, 422)


def test_more_ids_than_the_limit_are_refused_and_cost_nothing(clients: dict[str, TestClient]) -> None:
    meet(clients)
    shop = clients["shop"]
    for count, status in ((10_001, 422), (10_000, 403), (1001, 403)):
        ids = [f"x{number}" for number in range(count)]
        refused = shop.post("/v1/scores", json={"session": SESSION, "number": 0, "ids": ids})
        assert refused.status_code == status
    all_of_a_day = [f"x{number}" for number in range(1000)]
    assert shop.post("/v1/scores", json={"session": SESSION, "number": 0, "ids": all_of_a_day}).status_code == 200


NAMES_OF_SESSIONS = (
    "../../../etc/passwd",
    "..%2f..%2fshop.db",
    "a" * 65,
    "short",
    "sixteen-letters\n1",
    "\x1b]0;owned\x07" * 2,
)


@pytest.mark.parametrize("name", NAMES_OF_SESSIONS)
def test_names_of_sessions_are_no_paths(clients: dict[str, TestClient], tmp_path: Path, name: str) -> None:
    before = sorted(path.name for path in tmp_path.iterdir())
    opening = {"session": name, "parties": list(NAMES)}
    assert clients["shop"].post("/v1/sessions", json=opening).status_code == 422
    asked = {"session": name, "number": 0, "ids": ["c1"]}
    assert clients["shop"].post("/v1/scores", json=asked).status_code == 422
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_what_is_refused_is_told_without_raw_control_characters(clients: dict[str, TestClient]) -> None:
    opening = {"session": SESSION, "parties": ["shop", "\x1b]0;owned\x07", "\u202eevil"]}
    refused = clients["shop"].post("/v1/sessions", json=opening)
    assert refused.status_code == 403
    assert refused.json()["detail"].isprintable()


# ---------------------------------------------------------------- a party that answers with nonsense


@pytest.mark.parametrize("score", [1e300, -1e100, 2.0**51, math.inf, math.nan])
def test_a_huge_score_of_a_party_that_answers_alone_is_refused(score: float) -> None:
    with pytest.raises(RunError, match="shop did not answer with 2 scores"):
        asking._plain(ScoresReply.model_construct(party="shop", number=0, scores=[0.0, score]), (2,))


def endless(head: bytes, part: bytes, pause: float) -> tuple[str, threading.Thread, socket.socket]:
    """A party whose answer never ends."""
    listening = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        link, _ = listening.accept()
        with link, contextlib.suppress(OSError):
            link.recv(2**16)
            link.sendall(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n")
            while True:
                link.sendall(part)
                time.sleep(pause)

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    return f"http://127.0.0.1:{listening.getsockname()[1]}", thread, listening


def packed() -> tuple[bytes, bytes, float]:
    content = gzip.compress(b" " * 2**28)
    return b"Content-Encoding: gzip\r\nContent-Length: %d\r\n" % len(content), content, 0.0


ANSWERS = {
    "without end": lambda: (b"", b" " * 2**16, 0.0),
    "slowly": lambda: (b"", b" ", 0.05),
    "packed": packed,
}


@pytest.mark.parametrize("kind", list(ANSWERS))
def test_an_answer_without_end_is_not_waited_for(kind: str) -> None:
    url, thread, listening = endless(*ANSWERS[kind]())
    line, start = PartyClient("shop", url, seconds=1.0), time.monotonic()
    with pytest.raises(RunError, match="is it this service"):
        line.get("/v1/model", ModelCard)
    assert time.monotonic() - start < 15  # not for ever, on a busy machine
    line.close()
    thread.join(5)
    assert not thread.is_alive()
    listening.close()
