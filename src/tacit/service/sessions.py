"""Sessions: the keys that some parties agree on for a while, in memory alone, few and for a limited time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tacit.privacy.aggregation import MaskingParty
from tacit.service.refusals import RefusedError


@dataclass(eq=False)
class Session:
    """One session at one party; its masks come from a key that exists nowhere else."""

    caller: str
    roster: tuple[str, ...]
    masks: MaskingParty
    signature: bytes
    ends: float
    fingerprint: str = ""  # of all keys, once they were passed on
    number: int = -1  # of the last request answered
    digest: bytes = b""  # of its ids
    answer: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)


class Sessions:
    """All sessions of a service.

    Parameters
    ----------
    most : int
        So many at a time.
    seconds : float
        So long each.
    now : callable
        A clock that never goes back.
    """

    def __init__(self, most: int, seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        self._most, self._seconds, self._now = most, seconds, now
        self._held: dict[str, Session] = {}
        self._lock = threading.Lock()

    def open(self, name: str, make: Callable[[float], Session]) -> Session:
        """The session of this name; a new one where there is none."""
        with self._lock:
            now = self._now()
            self._held = {key: held for key, held in self._held.items() if held.ends > now}
            if name not in self._held:
                if len(self._held) >= self._most:
                    wait = int(min(held.ends for held in self._held.values()) - now) + 1
                    raise RefusedError(429, f"{self._most} sessions are open, as many as there may be: wait", wait)
                self._held[name] = make(now + self._seconds)
            return self._held[name]

    def get(self, name: str, caller: str) -> Session:
        """The caller's session of this name."""
        with self._lock:
            held = self._held.get(name)
        if held is None or held.caller != caller or held.ends <= self._now():
            raise RefusedError(404, "there is no such session, or its time is over: open a new one")
        return held
