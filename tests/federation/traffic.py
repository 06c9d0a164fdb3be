"""For tests: a proxy that keeps what passes, and a search for values in every encoding that they could travel in."""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import struct
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

SHORTEST = 8  # bytes of what is looked for: anything shorter turns up by chance


class Proxy:
    """Passes connections on to a port of this machine, and keeps every byte of both directions in order."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.captured: list[bytearray] = []
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.listening.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._connect, args=(self.listening.accept()[0],), daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        """Pass one connection on until it ends; where the server is not there yet, whoever called calls again."""
        with near, contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.target), 10) as far:
            far.settimeout(None)
            there, back = bytearray(), bytearray()
            self.captured += [there, back]
            answering = threading.Thread(target=self._pass, args=(far, near, back), daemon=True)
            answering.start()
            self._pass(near, far, there)
            answering.join()

    @staticmethod
    def _pass(source: socket.socket, sink: socket.socket, stream: bytearray) -> None:
        with contextlib.suppress(OSError):
            while chunk := source.recv(1 << 16):
                stream += chunk
                sink.sendall(chunk)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def capture(self) -> bytes:
        """Everything so far, one direction of one connection after another."""
        return b"".join(bytes(stream) for stream in self.captured)

    def close(self) -> None:
        """Take no more connections."""
        with contextlib.suppress(OSError):
            self.listening.shutdown(socket.SHUT_RDWR)  # else the thread that waits on it would wait on
        self.listening.close()


# --- what is looked for -------------------------------------------------------------------------------


def of_text(text: str) -> set[bytes]:
    """A text as such, in other Unicode encodings, in hexadecimal and in base64."""
    plain = text.encode()
    return _wrapped(plain) | {text.encode("utf-16-le"), text.encode("utf-16-be")}


def of_number(value: float) -> set[bytes]:
    """A number as 8 bytes in both orders, whole ones as integers too, as decimal text, and all of these wrapped."""
    forms = [struct.pack("<d", value), struct.pack(">d", value)]
    if float(value).is_integer() and abs(value) < 2**62:
        forms += [struct.pack("<q", int(value)), struct.pack(">q", int(value)), str(int(value)).encode()]
    forms += [repr(float(value)).encode(), f"{value:.12g}".encode(), f"{value:.15e}".encode()]
    return set().union(*(_wrapped(form) for form in forms))


def of_row(values: Sequence[float]) -> set[bytes]:
    """Numbers that follow each other, in precisions of which one alone is too short to be looked for."""
    found: set[bytes] = set()
    for kind in ("<f4", ">f4", "<f2", ">f2", "i1", "<i2", "<i4", "<i8", "<f8"):
        with np.errstate(all="ignore"):
            array = np.array(values).astype(kind)
        if np.isfinite(array.astype(np.float64)).all() and np.ptp(array.astype(np.float64)) > 0:
            found |= _wrapped(array.tobytes())
    return found


def _wrapped(plain: bytes) -> set[bytes]:
    """Bytes as such, in hexadecimal, and in base64 at each of the three places that they can begin at."""
    found = {plain, plain.hex().encode(), plain.hex().upper().encode()}
    for before in range(3):
        inside = base64.b64encode(b"\0" * before + plain)
        first, last = -(-8 * before // 6), len(inside) - (0 if not (before + len(plain)) % 3 else 4)
        found.add(inside[first:last])
    return {form for form in found if len(form) >= SHORTEST}


def found_in(place: bytes, wanted: Iterable[bytes]) -> set[bytes]:
    """The byte strings, each of at least 8 bytes, that occur: beginnings are compared all at once, then the rest."""
    by_start: dict[int, list[bytes]] = {}
    for one in wanted:
        by_start.setdefault(int.from_bytes(one[:SHORTEST], "little"), []).append(one)
    starts, hits = np.array(sorted(by_start), dtype=np.uint64), set()
    for shift in range(SHORTEST):
        count = (len(place) - shift) // SHORTEST
        if count > 0:
            words = np.frombuffer(place, dtype="<u8", count=count, offset=shift)
            for at in np.flatnonzero(np.isin(words, starts)):
                begin = shift + SHORTEST * int(at)
                hits |= {one for one in by_start[int(words[at])] if place[begin : begin + len(one)] == one}
    return hits


# --- what the relay passed on -------------------------------------------------------------------------


def relayed(place: Path) -> Iterator[tuple[dict[str, Any], bytes]]:
    """The messages that the hook of the server's process wrote down: headers and payload."""
    with open(place, "rb") as file:
        while line := file.readline():
            headers = json.loads(line)
            yield headers, file.read(headers["length"])
