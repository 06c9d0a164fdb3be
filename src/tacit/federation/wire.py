"""Messages as plain values: what travels between sites, and how it is read without trust."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tacit.errors import RunError
from tacit.runtime import door
from tacit.types import Message

KINDS = frozenset({"keys", "agree", "start", "step", "finish"})
LARGEST = 1e100  # beyond what columns of moderate size can lead to; sums of such numbers overflow
_FIELDS = {"sender", "round", "kind", "arrays"}
_TYPES = (np.dtype(np.float64), np.dtype(np.uint64))


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
