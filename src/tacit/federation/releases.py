"""The journal of releases: one line for each that leaves the party, written and on the disk before it does."""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any

from tacit.errors import FaultError, InputError, RunError
from tacit.federation.kit import Kit
from tacit.federation.protocol import Answer, Play, Put, Refused, Resend, Step
from tacit.files import show_path
from tacit.text import one_line, show

# --- The journal of releases: one line for each that leaves the party, written and on the disk before it does


WAY_OUT = "see docs/how-to/keep-a-budget.md, for an older copy would forget what was spent"


class ReleaseJournal:
    """Lines of {"job", "release", "digest"}; each release of a job occurs once.

    The caller holds a lock while it asks or adds. A last line that was cut off by a crash is dropped: the release that
    it was for cannot have left, since `add` had not come back.

    Parameters
    ----------
    path : Path
        The file; it need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._found: dict[tuple[str, int], str] = {}
        self._lines, self._end = 0, 0  # how far the file was read before
        self._named = False  # whether this process has seen to it that the file's name is on the disk

    def read(self) -> dict[tuple[str, int], str]:
        """Digest of every release, by job and number, in order.

        Raises
        ------
        InputError
            Where a line was changed or is there twice.
        """
        try:
            text = self._rest()
        except OSError as error:
            raise InputError(f"cannot read {show_path(self.path)}: {one_line(error)}") from error
        end = _whole(text)
        for line in text[:end].splitlines():
            job, release, digest = self._parse(line, self._lines + 1)
            if (job, release) in self._found:
                raise self._damaged(self._lines + 1, f"release {release} of job {show(job)} is there twice")
            self._found[job, release] = digest
            self._lines += 1
        self._end += end
        return dict(self._found)

    def __len__(self) -> int:
        """How many releases there were when the file was last read."""
        return len(self._found)

    def _rest(self) -> bytes:
        """What was added since the last reading, here or by another process."""
        if not self.path.exists():
            if self._end:
                raise InputError(f"{show_path(self.path)} is missing, though releases were recorded: {WAY_OUT}")
            return b""
        with self.path.open("rb") as file:
            if os.fstat(file.fileno()).st_size < self._end:
                raise InputError(f"{show_path(self.path)} is shorter than it was: {WAY_OUT}")
            file.seek(self._end)
            return file.read()

    def add(self, job: str, release: int, digest: str) -> bool:
        """Record a release before it leaves; False where the same one was recorded before.

        Raises
        ------
        RunError
            Where the number was used for another release, or the disk refuses.
        """
        known = self.read().get((job, release))
        if known == digest:
            return False
        if known is not None:
            raise RunError(
                f"release {release} of job {show(job)} left before with other content: it is not sent a second time"
            )
        self._append(json.dumps({"job": job, "release": release, "digest": digest}) + "\n")
        self.read()
        return True

    def _append(self, line: str) -> None:
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "r+b") as file:
                file.truncate(self._end)  # of a line that a crash cut off
                file.seek(self._end)
                file.write(line.encode())
                file.flush()
                os.fsync(file.fileno())
            if not self._named:  # a process that died may have made the file without
                sync_folder(self.path.parent)
                self._named = True
        except OSError as error:
            raise FaultError(f"cannot write {show_path(self.path)}: {one_line(error)}") from error

    def _parse(self, line: bytes, number: int) -> tuple[str, int, str]:
        try:
            record = json.loads(line)
            job, release, digest = record["job"], record["release"], record["digest"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise self._damaged(number, "it is no whole record") from error
        if not (isinstance(job, str) and type(release) is int and isinstance(digest, str) and len(record) == 3):
            raise self._damaged(number, "it is no whole record")
        return job, release, digest

    def _damaged(self, number: int, reason: str) -> InputError:
        return InputError(f"line {number} of {show_path(self.path)} was changed ({reason}): {WAY_OUT}")


def sync_folder(folder: Path) -> None:
    """See to it that a new name in a folder is on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _whole(text: bytes) -> int:
    """The number of bytes up to the end of the last whole line."""
    return text.rfind(b"\n") + 1


# --- One line of JSON for each step that a site was asked for: who, what, when, how much. No value of any data


STEPS = "steps.jsonl"
MOST_BYTES = 20 * 1024 * 1024


def log_step(
    kit: Kit, run: str, request: Step, reply: Step, caller: str, bytes_in: int, bytes_out: int, seconds: float
) -> None:
    """Add a line about a step that another site asked for."""
    _log(kit, run, request, reply, {"caller": caller}, bytes_in, bytes_out, seconds)


def log_question(
    kit: Kit, run: str, request: Step, reply: Step, asked: str, bytes_in: int, bytes_out: int, seconds: float
) -> None:
    """Add a line about a step that this site asked another one for."""
    _log(kit, run, request, reply, {"asked": asked}, bytes_in, bytes_out, seconds)


def _log(
    kit: Kit,
    run: str,
    request: Step,
    reply: Step,
    who: dict[str, str],
    bytes_in: int,
    bytes_out: int,
    seconds: float,
) -> None:
    """Add a line; a log that cannot be written stops nothing."""
    record = {
        "at": round(time.time(), 3),
        "run": run,
        "step": type(request).__name__,
        **who,
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


def read_steps(logs: Path, run: str) -> list[dict[str, Any]]:
    """The lines about one run, as far as the log goes back; lines that are none are left out."""
    found = []
    for path in (logs / f"{STEPS}.1", logs / STEPS):
        try:
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        for line in lines:
            if f'"{run}"' in line:
                with contextlib.suppress(ValueError):
                    found.append(json.loads(line))
    return [one for one in found if isinstance(one, dict) and one.get("run") == run]


def _number(request: Step) -> int | None:
    """The exchange or round that a step is about, where it says so."""
    if isinstance(request, Answer | Put):
        return request.message.round
    return request.round if isinstance(request, Play | Resend) else None
