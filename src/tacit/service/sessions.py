"""Sessions: the keys that some parties agree on, in memory alone, few of each caller, for a while."""

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
        So many of one caller at a time: one that has used up its own locks nobody else out.
    seconds : float
        So long each.
    now : callable
        A clock that never goes back.
    """

    def __init__(self, most: int, seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        self._most, self._seconds, self._now = most, seconds, now
        self._held: dict[str, Session] = {}
        self._lock = threading.Lock()

    def open(self, name: str, caller: str, make: Callable[[float], Session]) -> Session:
        """The caller's session of this name; a new one where there is none."""
        with self._lock:
            now = self._now()
            self._held = {key: held for key, held in self._held.items() if held.ends > now}
            if name not in self._held:
                own = [held.ends for held in self._held.values() if held.caller == caller]
                if len(own) >= self._most:
                    wait = int(min(own) - now) + 1
                    raise RefusedError(429, f"{self._most} sessions of yours are open, as many as there may be", wait)
                self._held[name] = make(now + self._seconds)
            held = self._held[name]
        if held.caller != caller:
            raise RefusedError(409, "a session of this name is open: take a fresh name")
        return held

    def get(self, name: str, caller: str) -> Session:
        """The caller's session of this name."""
        with self._lock:
            held = self._held.get(name)
        if held is None or held.caller != caller or held.ends <= self._now():
            raise RefusedError(404, "there is no such session, or its time is over: open a new one")
        return held
