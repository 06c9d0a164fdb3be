"""Around every request: limits on size and time before it is looked at, one line of log and the metrics after."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter as Tally
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tacit.service.access import ServiceAccess
from tacit.service.connections import Connection

LOG = logging.getLogger("tacit.service")
MOST_BYTES, BODY_SECONDS = 2**22, 10.0
SEND_SECONDS = 30.0  # for a caller that does not read its answer
AT_ONCE = 16  # requests of one caller that arrive or are answered at the same time


class Metrics:
    """Counts of one service; nothing that depends on ids or scores."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "tacit_requests", "Requests by path and status", ["path", "status"], registry=self.registry
        )
        self.seconds = Histogram("tacit_request_seconds", "Time to answer", ["path"], registry=self.registry)
        self.ids = Counter("tacit_ids", "Ids answered", registry=self.registry)


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
        self._running = Tally[str]()

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
