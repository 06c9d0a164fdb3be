"""One line of JSON for each step that a site was asked for: who, what, when, how much. No value of any data."""

from __future__ import annotations

import json
import os
import time

from tacit.federation.kit import Kit
from tacit.federation.protocol import Answer, Play, Put, Refused, Resend, Step

STEPS = "steps.jsonl"
MOST_BYTES = 20 * 1024 * 1024


def log_step(kit: Kit, request: Step, reply: Step, caller: str, bytes_in: int, bytes_out: int, seconds: float) -> None:
    """Add a line; a log that cannot be written stops nothing."""
    record = {
        "at": round(time.time(), 3),
        "step": type(request).__name__,
        "caller": caller,
        "number": _number(request),
        "seconds": round(seconds, 4),
        "bytes_in": bytes_in,
        "bytes_out": bytes_out,
        "refused": isinstance(reply, Refused),
    }
    path = kit.logs / STEPS
    try:
        kit.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > MOST_BYTES:
            path.replace(path.with_suffix(".jsonl.1"))
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(descriptor, (json.dumps(record) + "\n").encode())
        finally:
            os.close(descriptor)
    except OSError:
        return


def _number(request: Step) -> int | None:
    """The exchange or round that a step is about, where it says so."""
    if isinstance(request, Answer | Put):
        return request.message.round
    return request.round if isinstance(request, Play | Resend) else None
