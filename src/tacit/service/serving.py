"""Listening: a socket, TLS where it is asked for, and the server's own limits on connections and time."""

from __future__ import annotations

import logging
import socket
import ssl
import sys
from collections.abc import Callable
from functools import partial

import uvicorn
from fastapi import FastAPI

from tacit.data.wording import one_line
from tacit.errors import InputError, RunError
from tacit.service.access import Door
from tacit.service.connections import Connections, Listener
from tacit.service.guard import LOG
from tacit.service.protocol import Protocol

BACKLOG, IDLE_SECONDS, LAST_SECONDS, SWEEP_SECONDS = 128, 30, 5, 5


def serve(app: FastAPI, door: Door, ready: Callable[[str], None]) -> None:
    """Answer until stopped; `ready` is told the address once the socket listens."""
    connections = Connections()
    listening = _listen(door, connections)
    host, port = listening.getsockname()[:2]
    config = uvicorn.Config(
        app,
        loop="asyncio",  # it accepts by way of the socket, which counts
        http=partial(Protocol, connections=connections),  # type: ignore[arg-type]
        ws="none",
        proxy_headers=False,  # who calls is who is connected, whatever a header says
        log_config=None,
        access_log=False,  # the guard writes its own lines
        server_header=False,
        callback_notify=connections.sweep,
        timeout_notify=SWEEP_SECONDS,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=LAST_SECONDS,
        ssl_certfile=door.cert,
        ssl_keyfile=door.key,
        ssl_ca_certs=door.ca,
        ssl_cert_reqs=ssl.CERT_NONE if door.ca is None else ssl.CERT_REQUIRED,
    )
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        raise InputError(f"cannot use --cert, --key or --ca: {one_line(error)}") from error
    _log_to_terminal()
    ready(f"{door.scheme}://{f'[{host}]' if ':' in host else host}:{port}")
    uvicorn.Server(config).run(sockets=[listening])


def _listen(door: Door, connections: Connections) -> Listener:
    try:
        family, kind, _, _, address = socket.getaddrinfo(door.host, door.port, type=socket.SOCK_STREAM)[0]
        # Named as TCP, or asyncio would not switch off Nagle's delay: 40 ms for each answer.
        listening = Listener(family, kind, socket.IPPROTO_TCP)
        listening.connections = connections
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
        return listening
    except OSError as error:
        raise RunError(f"cannot listen on {door.host} port {door.port}: {one_line(error)}") from error


def _log_to_terminal() -> None:
    """One line of JSON for each request, on stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    LOG.propagate = False
