"""HTTP over one connection: uvicorn's own protocol, which also tells the service whose connection it is."""

from __future__ import annotations

import asyncio
from typing import Any

from cryptography import x509
from uvicorn.protocols.http.h11_impl import H11Protocol

from tacit.service.access import caller_of
from tacit.service.connections import Connections

CONNECTION, CERTIFICATE = "connection", "certificate"  # in the state of every request


class Protocol(H11Protocol):
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
