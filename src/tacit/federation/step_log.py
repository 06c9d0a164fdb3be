"""One line of JSON for each step that a site was asked for: who, what, when, how much. No value of any data."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from tacit.federation.kit import Kit

STEPS = "steps.jsonl"
MOST_BYTES = 20 * 1024 * 1024


def log_step(kit: Kit, step: str, caller: str, asked: Any, answered: Any, seconds: float) -> None:
    """Add a line; a log that cannot be written stops nothing."""
    record = {
        "at": round(time.time(), 3),
        "step": str(step)[:40],
        "caller": caller,
        "number": _number(asked),
        "seconds": round(seconds, 4),
        "bytes_in": size_of(asked),
        "bytes_out": size_of(answered),
        "refused": isinstance(answered, Mapping) and "error" in answered,
    }
    path = kit.logs / STEPS
    try:
        kit.logs.mkdir(mode=0o700, exist_ok=True)
        if path.exists() and path.stat().st_size > MOST_BYTES:
            path.replace(path.with_suffix(".jsonl.1"))
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(descriptor, (json.dumps(record) + "\n").encode())
        finally:
            os.close(descriptor)
    except OSError:
        return


def _number(asked: Any) -> int | None:
    """The exchange or round that a step is about, where it says so."""
    if not isinstance(asked, Mapping):
        return None
    inner = asked.get("message")
    value = inner.get("round") if isinstance(inner, Mapping) else asked.get("round")
    return value if isinstance(value, int) else None


def size_of(value: Any) -> int:
    """Bytes of the arrays in a payload, however deep they lie."""
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, Mapping):
        return sum(size_of(item) for item in value.values())
    return 0
