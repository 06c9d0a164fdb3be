"""Messages as plain values: what travels between sites, and how it is read without trust.

Arrays travel as bytes inside the message (`pack`, `unpack`). FLARE would leave them out of it, and have the receiver
fetch them from the sender by further messages.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.errors import RunError
from tacit.runtime import door
from tacit.types import Message

KINDS = frozenset({"keys", "agree", "start", "step", "finish"})
LARGEST = 1e100  # beyond what columns of moderate size can lead to; sums of such numbers overflow
_FIELDS = {"sender", "round", "kind", "arrays"}
_TYPES = (np.dtype(np.float64), np.dtype(np.uint64))
MOST_SIDES = 8  # of an array
_PACKED = {"array", "shape", "bytes"}
_NUMBERS = frozenset(f"{kind}{size}" for kind in "iuf" for size in (1, 2, 4, 8)) - {"f1"} | {"b1"}


def pack(value: Any) -> Any:
    """A payload with every array as its bytes."""
    if isinstance(value, np.ndarray):
        kind = value.dtype.str[1:]
        if kind not in _NUMBERS:
            raise RunError(f"arrays of type {value.dtype} do not travel between sites")
        little = np.ascontiguousarray(value, dtype=f"<{kind}")
        return {"array": kind, "shape": list(value.shape), "bytes": little.tobytes()}
    if isinstance(value, Mapping):
        return {key: pack(item) for key, item in value.items()}
    return [pack(item) for item in value] if isinstance(value, (list, tuple)) else value


def unpack_reply(reply: Any, sender: str) -> dict[str, Any]:
    """A reply with its arrays; where it is none, the line that says so."""
    try:
        return unpack(reply) if isinstance(reply, dict) else {"error": f"{sender!r} sent something that is no answer"}
    except RunError as error:
        return {"error": str(error)}


def unpack(value: Any) -> Any:
    """The payload that `pack` made, its arrays new ones that may be written to.

    Raises
    ------
    RunError
        Where the bytes are not those of such an array.
    """
    if isinstance(value, Mapping):
        return _array(value) if set(value) == _PACKED else {key: unpack(item) for key, item in value.items()}
    return [unpack(item) for item in value] if isinstance(value, (list, tuple)) else value


def _array(packed: Mapping[Any, Any]) -> npt.NDArray[Any]:
    kind, shape, content = packed["array"], packed["shape"], packed["bytes"]
    whole = (
        isinstance(shape, list) and len(shape) <= MOST_SIDES and all(type(side) is int and side >= 0 for side in shape)
    )
    if not isinstance(kind, str) or kind not in _NUMBERS or not whole or not isinstance(content, bytes):
        raise RunError("an array came that is none")
    if math.prod(shape) * np.dtype(kind).itemsize != len(content):
        raise RunError(f"an array came with {len(content)} bytes, which are not those of its shape")
    return np.frombuffer(content, dtype=f"<{kind}").astype(kind).reshape(shape)


def to_plain(message: Message) -> dict[str, Any]:
    """A message as a dictionary of plain values and arrays."""
    arrays = {name: np.ascontiguousarray(array) for name, array in message.arrays.items()}
    return {"sender": message.sender, "round": message.round, "kind": message.kind, "arrays": arrays}


def from_plain(plain: object, sender: str) -> Message:
    """The message that `sender` sent.

    Raises
    ------
    RunError
        Where it is no message, or not this sender's: the line names the sender.
    """
    if not isinstance(plain, Mapping) or set(plain) != _FIELDS:
        raise RunError(f"{sender!r} sent something that is no message")
    arrays, round_, kind = plain["arrays"], plain["round"], plain["kind"]
    if plain["sender"] != sender:
        raise RunError(f"{sender!r} sent a message in the name of {str(plain['sender'])[:80]!r}")
    if isinstance(round_, bool) or not isinstance(round_, int) or round_ < 0 or kind not in KINDS:
        raise RunError(f"{sender!r} sent a message of no known kind or round")
    if not isinstance(arrays, Mapping) or not all(isinstance(name, str) for name in arrays):
        raise RunError(f"{sender!r} sent a message without named arrays")
    for name, array in arrays.items():
        _check_array(sender, name, array)
    return door.arrive(sender, round_, dict(arrays), str(kind))


def _check_array(sender: str, name: str, array: object) -> None:
    what = f"{sender!r} sent {name[:80]!r}"
    if not isinstance(array, np.ndarray) or array.dtype not in _TYPES:
        raise RunError(f"{what} as something that is no array of float64 or uint64 numbers")
    if array.dtype == np.float64 and array.size and not np.abs(array).max() <= LARGEST:  # NaN is not below anything
        raise RunError(f"{what} with a number that is NaN, infinite or beyond {LARGEST:g}")
