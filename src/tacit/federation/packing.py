"""Small arrays as bytes on their way: FLARE fetches every array apart, which takes it a quarter of a second each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tacit.errors import RunError

SMALL = 1 << 20  # bytes: larger arrays are fetched apart, in pieces
MARK = "packed array"
TYPES = ("<f8", "<u8", "<i8", "|u1")


def pack(value: Any) -> Any:
    """The same value with its small arrays as bytes."""
    if isinstance(value, np.ndarray) and value.nbytes <= SMALL and value.dtype.str in TYPES:
        return {MARK: [value.dtype.str, list(value.shape), value.tobytes()]}
    if isinstance(value, Mapping):
        return {key: pack(item) for key, item in value.items()}
    return [pack(item) for item in value] if isinstance(value, list) else value


def unpack(value: Any) -> Any:
    """The value that was packed.

    Raises
    ------
    RunError
        Where bytes came that are no such array.
    """
    if isinstance(value, Mapping):
        return _array(value[MARK]) if MARK in value else {key: unpack(item) for key, item in value.items()}
    return [unpack(item) for item in value] if isinstance(value, list) else value


def _array(packed: Any) -> np.ndarray[Any, Any]:
    try:
        kind, shape, content = packed
        if kind not in TYPES or not isinstance(content, bytes) or not all(type(size) is int for size in shape):
            raise ValueError
        return np.frombuffer(content, kind).reshape(shape).copy()
    except (ValueError, TypeError) as error:
        raise RunError("something came that is no array") from error
