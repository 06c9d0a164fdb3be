"""A party's secret key, and ids under keys: the only file that knows the library of private set intersection.

An element is an id that was hashed to a point of the curve P-256 and multiplied by one or more keys, 33 bytes as the
library writes it. The order of the keys does not matter: that is what makes lists comparable.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from tacit.alignment.elements import WIDTH, Elements
from tacit.errors import InputError

PART = 1000  # elements that a thread takes at a time


class NotAPointError(ValueError):
    """An element that is no point of the curve."""


class SecretKey:
    """A key that never leaves this object, made anew from the operating system's randomness.

    Raises
    ------
    InputError
        Where the library is not installed.
    """

    def __init__(self) -> None:
        self._library = _library()
        self._key: bytes = self._library.client.CreateWithNewKey(True).GetPrivateKeyBytes()

    def encrypt(self, ids: Sequence[str]) -> Elements:
        """Hash ids to points and multiply them by the key; the order is kept."""

        def one(part: Sequence[str]) -> bytes:
            client = self._library.client.CreateFromKey(self._key, True)
            return b"".join(client.CreateRequest(list(part)).encrypted_elements)

        return _in_threads(one, [ids[start : start + PART] for start in range(0, len(ids), PART)])

    def add_to(self, elements: Elements) -> Elements:
        """Multiply elements by the key; the order is kept.

        Raises
        ------
        NotAPointError
            For an element that is no point of the curve.
        """

        def one(part: Elements) -> bytes:
            server = self._library.server.CreateFromKey(self._key, True)
            listed = [row.tobytes() for row in part]
            request = self._library.Request(reveal_intersection=True, encrypted_elements=listed)
            try:
                return b"".join(server.ProcessRequest(request).encrypted_elements)
            except RuntimeError as error:
                raise NotAPointError("an element is no point of the curve") from error

        return _in_threads(one, [elements[start : start + PART] for start in range(0, len(elements), PART)])


def check_points(elements: Elements) -> None:
    """Raise NotAPointError unless every element is a point of the curve."""
    from cryptography.hazmat.primitives.asymmetric import ec

    curve = ec.SECP256R1()
    try:
        for row in elements:
            ec.EllipticCurvePublicKey.from_encoded_point(curve, row.tobytes())
    except ValueError as error:
        raise NotAPointError("an element is no point of the curve") from error


def _in_threads(work: Callable[[Any], bytes], parts: Sequence[Any]) -> Elements:
    """Let all cores work on the parts: the library lets other threads run, but its objects must not be shared."""
    with ThreadPoolExecutor(max(1, min(_cores(), len(parts)))) as pool:
        joined = b"".join(pool.map(work, parts))
    return np.frombuffer(joined, dtype=np.uint8).reshape(-1, WIDTH)


def _cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _library() -> Any:
    """The library, or one line that says how to get it."""
    try:
        import private_set_intersection.python as library
    except ImportError as error:
        raise InputError(
            "matching ids in private needs the library openmined-psi: pip install 'tacit[align]'"
        ) from error
    return library
