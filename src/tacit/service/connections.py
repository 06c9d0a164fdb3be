"""Open connections: how many there may be, who goes when there are too many, and whose connection a request came by.

A connection costs its owner nothing and the service a file descriptor. So a new one is never refused because of others
that say nothing: the one that has been silent longest makes room, of the same address first. A connection is busy from
the moment its whole request has arrived until the answer has left; busy ones are never closed here. The count is kept
where connections are accepted, so it covers those that have not finished, or not begun, their TLS handshake.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cryptography import x509
from uvicorn.protocols.http.h11_impl import H11Protocol

from tacit.service.access import caller_of

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
