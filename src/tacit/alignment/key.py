"""A party's secret key, ids under keys, and lists of them: their form, checked wherever they come from others.

This is the only file that knows the library of private set intersection.

An element is an id that was hashed to a point of the curve P-256 and multiplied by one or more keys, 33 bytes as the
library writes it. The order of the keys does not matter: that is what makes lists comparable.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.asymmetric import ec

from tacit.errors import InputError, RunError
from tacit.text import plural

# --- Lists of encrypted ids and of positions: their form, checked wherever they come from others, and what is common


WIDTH = 33  # bytes of a point of P-256: one for the sign, 32 for the first coordinate
Elements = npt.NDArray[np.uint8]  # one row of WIDTH bytes for each id
Positions = npt.NDArray[np.int64]


def secret_order(count: int) -> Positions:
    """A uniformly random permutation from the operating system's randomness.

    Sorting 128 random bits for each place: that any two are alike has a probability below count^2 / 2^129.
    """
    bits = np.frombuffer(os.urandom(16 * count), dtype=np.uint64).reshape(2, count)
    return np.lexsort(tuple(bits)).astype(np.int64)


def checked_elements(message: Mapping[str, Any], count: int, who: str) -> Elements:
    """The elements of a message, `count` of them, in the form of points; refuse anything else as sent by `who`."""
    elements = message.get("elements") if isinstance(message, Mapping) else None
    if not isinstance(elements, np.ndarray) or elements.dtype != np.uint8 or elements.shape[1:] != (WIDTH,):
        raise RunError(f"{who} sent no list of encrypted ids: its side must run the same version")
    if len(elements) != count:
        raise RunError(
            f"{who} sent {plural(len(elements), 'encrypted id')} where {count} were due: "
            "its side must run the same version"
        )
    return elements


def refuse_repeated(elements: Elements, who: str) -> None:
    """Refuse a list with an element twice: ids are all different, so are they under keys."""
    if len(np.unique(_comparable(elements))) < len(elements):
        raise RunError(f"{who} sent an encrypted id twice: every id may stand in one row only")


def checked_positions(message: Mapping[str, Any], count: int | None, size: int, who: str) -> Positions:
    """The positions of a message: `count` different ones (None: however many) in a list of `size`."""
    positions = message.get("positions") if isinstance(message, Mapping) else None
    if not isinstance(positions, np.ndarray) or positions.dtype != np.int64 or positions.ndim != 1:
        raise RunError(f"{who} sent no positions: its side must run the same version")
    if (count is not None and len(positions) != count) or not _places(positions, size):
        raise RunError(f"{who} sent positions that the list does not have, or not as many as were due")
    return positions


def common_positions(lists: Sequence[Elements]) -> list[Positions]:
    """Where the elements that all lists hold stand in each list, in the order of the elements."""
    columns = [_comparable(elements) for elements in lists]
    common = columns[0]
    for column in columns[1:]:
        common = np.intersect1d(common, column, assume_unique=True)  # sorted
    positions = []
    for column in columns:
        sorter = np.argsort(column)
        positions.append(sorter[np.searchsorted(column, common, sorter=sorter)].astype(np.int64))
    return positions


def _places(positions: Positions, size: int) -> bool:
    """Whether these are different places of a list of this size."""
    within = len(positions) == 0 or (positions.min() >= 0 and positions.max() < size)
    return bool(within and len(np.unique(positions)) == len(positions))


def _comparable(elements: Elements) -> npt.NDArray[np.bytes_]:
    """One value for each element, which sorts by its bytes; all are of one width, so none is cut by its end."""
    return np.ascontiguousarray(elements).view(f"S{WIDTH}").reshape(-1)


# --- A party's secret key, and ids under keys: the only file that knows the library of private set intersection


PART = 1000  # elements that a thread takes at a time


class NotAPointError(ValueError):
    """An element that is no point of the curve."""


class SecretKey:
    """A party's key, which never leaves its machine.

    Parameters
    ----------
    key : bytes, optional
        One that was made before; made anew from the operating system's randomness where it is left out.

    Raises
    ------
    InputError
        Where the library is not installed.
    """

    def __init__(self, key: bytes | None = None) -> None:
        self._library = _library()
        self._key: bytes = key or self._library.client.CreateWithNewKey(True).GetPrivateKeyBytes()

    def to_bytes(self) -> bytes:
        """The key itself, for a file that its owner alone can read."""
        return self._key

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
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _library() -> Any:
    """The library, or one line that says how to get it."""
    try:
        import private_set_intersection.python as library  # of tacit[align], which need not be installed
    except ImportError as error:
        raise InputError(
            "matching ids in private needs the library openmined-psi: pip install 'tacit[align]'"
        ) from error
    return library
