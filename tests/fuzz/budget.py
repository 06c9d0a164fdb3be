"""How many inputs are tried, in which parts, and what each of them may cost."""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from tacit.errors import TacitError

SHARDS = 4
INPUTS = {  # of each kind in a run of all tests; FUZZ=100000 asks for so many in all
    "tables": 3200,
    "sparse tables": 1600,
    "jobs": 3200,
    "models": 1600,
    "certificates": 1200,
    "runs": 240,
    "commands": 160,
    "readers": 1200,
}
LEAST = 10_000
SECONDS = 60  # on a busy machine; none takes more than a few by itself
MEMORY = 700 * 2**20  # by which a part may raise the most memory ever used


def seeds(kind: str, shard: int) -> range:
    """The seeds of one part of a kind."""
    each = share(kind) // SHARDS
    return range(shard * each, (shard + 1) * each)


def share(kind: str) -> int:
    """How many inputs of a kind are tried."""
    wanted = int(os.environ.get("FUZZ", "0") or "0")
    return max(INPUTS[kind], wanted * INPUTS[kind] // sum(INPUTS.values()))


@contextmanager
def limited() -> Iterator[None]:
    """Fail where an input takes too long."""

    def stop(number: int, frame: Any) -> NoReturn:
        raise AssertionError(f"it took more than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def bounded_memory() -> Iterator[None]:
    """Fail where a part needs much more memory than anything before it."""
    before = _most_memory()
    yield
    assert _most_memory() - before < MEMORY


def refusal(call: Callable[[], Any]) -> tuple[Any, str]:
    """What a call returns, or its refusal of one line; anything else that it raises is a failure."""
    with limited():
        try:
            return call(), ""
        except TacitError as error:
            text = str(error)
    assert text.strip(), "a refusal without words"
    assert text.isprintable(), f"a refusal of more than one line: {text!r}"
    assert len(text) < 3000, "a refusal longer than anybody reads"
    return None, text


def _most_memory() -> int:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
