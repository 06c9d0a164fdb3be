"""Open connections: how many there may be, who goes when there are too many, and whose connection a request came by.

A connection costs its owner nothing and the service a file descriptor. So a new one is never refused because of others
that say nothing: the one that has been silent longest makes room, of the same address first. A connection is busy from
the moment its whole request has arrived until the answer has left; busy ones are never closed here. The count is kept
where connections are accepted, so it covers those that have not finished, or not begun, their TLS handshake.

Around every request there are limits on size and time before it is looked at, and a line of log and the metrics after.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cryptography import x509
from prometheus_client import CollectorRegistry, Histogram
from prometheus_client import Counter as CounterMetric
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from tacit.service.access import ServiceAccess, caller_of

# --- Open connections: how many there may be, and who goes when there are too many


MOST, MOST_OF_ONE, SILENT_SECONDS = 512, 128, 30.0


@dataclass(eq=False)
class Connection:
    """An open connection of one caller: since when it has been silent, and whether it was ever answered."""

    address: str
    link: socket.socket
    now: Callable[[], float]
    served: bool = False  # whether it ever got an answer
    busy: bool = False

    def __post_init__(self) -> None:
        self.since = self.now()  # when it was accepted, or its last answer left

    def begin(self) -> None:
        """A whole request has arrived: it is answered, whoever else comes."""
        self.busy = True

    def end(self) -> None:
        """Note that the answer has left: from now on the connection is silent."""
        self.busy, self.served, self.since = False, True, self.now()


class Connections:
    """All connections of a service.

    Parameters
    ----------
    most, most_of_one : int
        So many at a time, and so many from one address.
    seconds : float
        A connection on which no whole request arrives for so long is closed.
    now : callable
        A clock that never goes back.
    """

    def __init__(
        self,
        most: int = MOST,
        most_of_one: int = MOST_OF_ONE,
        seconds: float = SILENT_SECONDS,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most, self._most_of_one, self._seconds, self._now = most, most_of_one, seconds, now
        self._open: dict[Any, Connection] = {}
        self._of = Counter[str]()

    def __len__(self) -> int:
        return len(self._open)

    def add(self, peer: Any, link: socket.socket) -> bool:
        """Take a new connection in; False where all others are busy, so that there is no room."""
        address = str(peer[0])
        room = self._of[address] < self._most_of_one or self._close_one(address)
        if not room or (len(self._open) >= self._most and not self._close_one(None)):
            return False
        self._open[peer] = Connection(address, link, self._now)
        self._of[address] += 1
        return True

    def remove(self, peer: Any, link: socket.socket) -> None:
        """A connection is closed; another of the same peer may be open by now, and stays."""
        gone = self._open.get(peer)
        if gone is None or gone.link is not link:
            return
        del self._open[peer]
        self._of[gone.address] -= 1
        if not self._of[gone.address]:
            del self._of[gone.address]

    def find(self, peer: Any) -> Connection | None:
        """The open connection with the peer of this address and port; None where it was closed."""
        return self._open.get(peer)

    async def sweep(self) -> None:
        """Close what has been silent for too long."""
        oldest = self._now() - self._seconds
        for peer, one in list(self._open.items()):
            if not one.busy and one.since < oldest:
                self._close(peer)

    def _close_one(self, address: str | None) -> bool:
        """Close the one that has been silent longest, of one address or of all; those never answered go first."""
        silent = [peer for peer, one in self._open.items() if not one.busy and address in (None, one.address)]
        if not silent:
            return False
        self._close(min(silent, key=lambda peer: (self._open[peer].served, self._open[peer].since)))
        return True

    def _close(self, peer: Any) -> None:
        """End it for both sides; the event loop, which holds the socket, sees the end and lets go of it."""
        link = self._open[peer].link
        with contextlib.suppress(OSError):
            link.shutdown(socket.SHUT_RDWR)
        self.remove(peer, link)


class Listener(socket.socket):
    """A socket that listens and counts what it accepts."""

    connections: Connections

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection that there is room for; BlockingIOError where none waits."""
        while True:
            plain, peer = super().accept()
            link = AcceptedSocket(self.family, self.type, self.proto, fileno=plain.detach())
            link.connections, link.peer = self.connections, peer
            if self.connections.add(peer, link):
                return link, peer
            link.close()


class AcceptedSocket(socket.socket):
    """The socket of an accepted connection; it is taken off the list when it is closed."""

    connections: Connections | None = None
    peer: Any = None

    def close(self) -> None:
        """Close the socket, and make room for another connection."""
        if self.connections is not None:
            self.connections.remove(self.peer, self)
            self.connections = None
        super().close()


# --- HTTP over one connection: uvicorn's own protocol, which also tells the service whose connection it is


CONNECTION, CERTIFICATE = "connection", "certificate"  # in the state of every request


class ServiceProtocol(H11Protocol):
    """Puts the connection, and the name in the caller's certificate, into the state of every request.

    Parameters
    ----------
    connections : Connections
        All that are open.
    """

    def __init__(self, *arguments: Any, connections: Connections, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._all = connections

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A connection is open, and its TLS handshake is done."""
        super().connection_made(transport)
        self.app_state = {
            **self.app_state,
            CONNECTION: self._all.find(transport.get_extra_info("peername")),
            CERTIFICATE: _certificate(transport),
        }


def _certificate(transport: asyncio.Transport) -> str | None:
    """The name of the caller, from a certificate that was checked; None without one."""
    tls = transport.get_extra_info("ssl_object")
    raw = None if tls is None else tls.getpeercert(binary_form=True)  # None unless the context asked for one
    return None if raw is None else caller_of(x509.load_der_x509_certificate(raw))


# --- Around every request: limits before it is looked at, one line of log and the metrics after


LOG = logging.getLogger("tacit.service")
MOST_BYTES, BODY_SECONDS = 2**22, 10.0
SEND_SECONDS = 30.0  # for a caller that does not read its answer
AT_ONCE = 16  # requests of one caller that arrive or are answered at the same time


class Metrics:
    """Counts of one service; nothing that depends on ids or scores."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = CounterMetric(
            "tacit_requests", "Requests by path and status", ["path", "status"], registry=self.registry
        )
        self.seconds = Histogram("tacit_request_seconds", "Time to answer", ["path"], registry=self.registry)
        self.ids = CounterMetric("tacit_ids", "Ids answered", registry=self.registry)


class Guard:
    """ASGI middleware.

    Parameters
    ----------
    app : ASGIApp
    metrics : Metrics
    access : ServiceAccess
        Who may come in: of anybody else no body is read, and no caller takes up more than its share.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, access: ServiceAccess) -> None:
        self._app, self._metrics, self._access = app, metrics, access
        self._running = Counter[str]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to the app where its caller may come in and has room; count it and write its line."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), 0

        async def note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            async with asyncio.timeout(SEND_SECONDS):
                await send(message)

        try:
            await self._share(scope, receive, note)
        except Exception as error:  # a mistake of ours: its kind goes to the log, for its words may hold data
            LOG.error(json.dumps({"failed": type(error).__name__}))
            if not status:
                await _refuse(note, 500, "the service failed")
        finally:
            self._count(scope, status, time.perf_counter() - start)

    async def _share(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on where its caller does not have too many under way."""
        caller = self._caller(scope)
        if caller is None:  # who is refused or gets what is open to all: nothing of the body is needed
            with _busy(scope):
                await self._app(scope, _nothing, send)
        elif self._running[caller] >= AT_ONCE:
            await _refuse(send, 429, f"{AT_ONCE} requests of yours are under way: wait for an answer", b"1")
        else:
            self._running[caller] += 1
            try:
                await self._pass_on(scope, receive, send)
            finally:
                self._running[caller] -= 1

    def _caller(self, scope: Scope) -> str | None:
        given = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
        scheme, _, token = given.partition(" ")
        shown = (scope.get("state") or {}).get("certificate")
        return self._access.caller(token.strip() if scheme.lower() == "bearer" else None, shown)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await _whole(receive)
        except TimeoutError:
            await _refuse(send, 408, f"the request took longer than {BODY_SECONDS:.0f} s to arrive")
            return
        if body is None:
            await _refuse(send, 413, f"the request is larger than {MOST_BYTES} bytes: ask in parts")
            return
        left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return left.pop() if left else await receive()

        with _busy(scope):
            await self._app(scope, replay, send)

    def _count(self, scope: Scope, status: int, seconds: float) -> None:
        path = getattr(scope.get("route"), "path", "other")
        state: dict[str, Any] = scope.get("state") or {}
        self._metrics.requests.labels(path, str(status)).inc()
        self._metrics.seconds.labels(path).observe(seconds)
        if not LOG.isEnabledFor(logging.INFO):
            return
        line = {"time": round(time.time(), 3), "path": path, "status": status, "seconds": round(seconds, 6)}
        line |= {key: state[key] for key in ("caller", "ids", "unknown") if key in state}  # ids: how many
        LOG.info(json.dumps(line))


@contextmanager
def _busy(scope: Scope) -> Iterator[None]:
    """The connection of this request is not closed for the sake of others meanwhile."""
    connection: Connection | None = (scope.get("state") or {}).get("connection")
    if connection is None:  # not over a socket
        yield
        return
    connection.begin()
    try:
        yield
    finally:
        connection.end()


async def _nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _whole(receive: Receive) -> bytes | None:
    """The body; None where it is too large."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return b"".join(parts)
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MOST_BYTES:
            return None
        if not message.get("more_body", False):
            return b"".join(parts)


async def _refuse(send: Send, status: int, text: str, wait: bytes | None = None) -> None:
    body = json.dumps({"detail": text}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [] if wait is None else [(b"retry-after", wait)]
    headers.append((b"connection", b"close"))  # the rest of the request is not read
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
