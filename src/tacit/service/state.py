"""What a party remembers: sessions in memory, and over restarts the ids answered per caller and day.

Over restarts it also knows with whom each id was answered. An SQLite file: every rule is checked and noted in one
transaction before an answer leaves. Ids are in it as digests.
"""

from __future__ import annotations

import hmac
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tacit.errors import InputError
from tacit.files import show_path
from tacit.privacy.aggregation import MaskingParty
from tacit.privacy.randomness import pack
from tacit.service.wire import RefusedError
from tacit.text import one_line, plural

# --- Sessions: the keys that some parties agree on, in memory alone, few of each caller, for a while


@dataclass(eq=False)
class ScoreSession:
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


class ScoreSessions:
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
        self._held: dict[str, ScoreSession] = {}
        self._lock = threading.Lock()

    def open(self, name: str, caller: str, make: Callable[[float], ScoreSession]) -> ScoreSession:
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

    def get(self, name: str, caller: str) -> ScoreSession:
        """The caller's session of this name."""
        with self._lock:
            held = self._held.get(name)
        if held is None or held.caller != caller or held.ends <= self._now():
            raise RefusedError(404, "there is no such session, or its time is over: open a new one")
        return held


# --- What a party must remember over restarts: ids answered per caller and day, and with whom each id was answered


DAY = 86400
_AT_ONCE = 500  # variables in one query
_TABLES = """
CREATE TABLE IF NOT EXISTS own (salt BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS spent (day INTEGER, caller TEXT, ids INTEGER NOT NULL, PRIMARY KEY (day, caller));
CREATE TABLE IF NOT EXISTS bound (id BLOB PRIMARY KEY, roster BLOB NOT NULL) WITHOUT ROWID;
"""


class State:
    """The lasting memory of a service.

    Parameters
    ----------
    path : path
        The file; made where there is none.
    now : callable
        Seconds since 1970.
    """

    def __init__(self, path: str | Path, now: Callable[[], float] = time.time) -> None:
        self._now, self._lock = now, threading.Lock()
        try:
            Path(path).touch(mode=0o600)
            self._db = sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")  # on the disk before an answer leaves
            self._db.executescript(_TABLES)
            with self._transaction():
                if self._db.execute("SELECT salt FROM own").fetchone() is None:
                    self._db.execute("INSERT INTO own VALUES (?)", (secrets.token_bytes(32),))
            self._salt: bytes = self._db.execute("SELECT salt FROM own").fetchone()[0]
        except (OSError, sqlite3.Error) as error:
            raise InputError(f"cannot use {show_path(path)} as state: {one_line(error)}; name another file") from error

    def close(self) -> None:
        """Close the database of the service."""
        self._db.close()

    def __del__(self) -> None:
        if hasattr(self, "_db"):
            self._db.close()

    def digest(self, *fields: str | bytes) -> bytes:
        """A digest that nobody without this file can test guesses with."""
        return hmac.digest(self._salt, pack(*fields), "sha256")[:16]

    def take(self, caller: str, ids: Sequence[str], roster: Sequence[str], per_day: int) -> None:
        """Note that these ids are about to be answered together with these parties.

        Raises
        ------
        RefusedError
            409 where an id was answered with another set of parties, 429 where the caller asked enough for today.
        """
        with_whom = self.digest("roster", *sorted(roster))
        keys = [hmac.digest(self._salt, b"id " + one.encode(), "sha256")[:16] for one in ids]
        with self._lock, self._transaction():
            self._refuse_others(keys, with_whom)
            self._spend(caller, len(ids), per_day)
            self._db.executemany("INSERT OR IGNORE INTO bound VALUES (?, ?)", [(key, with_whom) for key in keys])

    def _refuse_others(self, keys: Sequence[bytes], with_whom: bytes) -> None:
        """The sums over two sets of parties would differ by somebody's score."""
        count = 0
        for start in range(0, len(keys), _AT_ONCE):
            part = keys[start : start + _AT_ONCE]
            marks = ",".join("?" * len(part))
            found = self._db.execute(
                f"SELECT count(*) FROM bound WHERE roster <> ? AND id IN ({marks})", (with_whom, *part)
            )
            count += found.fetchone()[0]
        if count:
            raise RefusedError(
                409,
                f"{plural(count, 'id')} of these were answered together with other parties, and the difference of two "
                "sums is somebody's score: ask for them with the same parties as the first time",
            )

    def _spend(self, caller: str, count: int, per_day: int) -> None:
        now = self._now()
        day = int(now // DAY)
        row = self._db.execute("SELECT ids FROM spent WHERE day = ? AND caller = ?", (day, caller)).fetchone()
        spent = row[0] if row else 0
        if spent + count > per_day:
            left = max(0, per_day - spent)
            wait = int((day + 1) * DAY - now) + 1
            raise RefusedError(429, f"{plural(left, 'id')} of {per_day} a day are left: ask tomorrow", wait)
        self._db.execute("INSERT OR REPLACE INTO spent VALUES (?, ?, ?)", (day, caller, spent + count))
        if row is None:
            self._db.execute("DELETE FROM spent WHERE day < ?", (day - 7,))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All or nothing, with the file locked against other processes from the start."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")
