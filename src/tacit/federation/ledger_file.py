"""The file of a party's budget ledger: one process at a time, written whole or not at all, damage refused."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tacit.data.wording import one_line, show
from tacit.errors import FaultError, InputError
from tacit.federation.releases import ReleaseJournal, sync_folder
from tacit.privacy.events import UNITS, Event, from_record, to_record
from tacit.privacy.fields import as_list, as_record, check_names, load
from tacit.privacy.filters import Scale, scale_from_record
from tacit.runtime.files import show_path, write_text

FORMAT = 1
RELEASES = "releases.jsonl"
BEGUN = b"begun\n"  # in the lock file, once there was a ledger: one that is gone then was removed


@dataclass(frozen=True)
class Content:
    """The events of each job by unit, in the order of acceptance; the scale of each unit; which jobs released."""

    jobs: dict[str, dict[str, tuple[Event, ...]]] = field(default_factory=dict)
    scales: dict[str, Scale] = field(default_factory=dict)
    released: frozenset[str] = frozenset()


class LedgerFile:
    """The file, its lock, and the journal of releases beside it.

    Parameters
    ----------
    path : Path
        The file; it need not exist, its folder must.
    party : str
        Whose it is.
    """

    def __init__(self, path: Path, party: str) -> None:
        self.path, self.party = path, party
        self.journal = ReleaseJournal(path.with_name(RELEASES))
        self._lock = path.with_name(f"{path.name}.lock")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep every other process out; all else is done inside."""
        import fcntl

        try:
            descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise FaultError(f"{self.party}: cannot write beside {show_path(self.path)}: {one_line(error)}") from error
        with os.fdopen(descriptor, "r+b") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # let go when the file is closed
            yield

    def read(self) -> Content:
        """The content; damage is refused, and never taken for an empty ledger.

        Raises
        ------
        InputError
            With the reason, and the way out.
        """
        released = {job for job, _ in self.journal.read()}
        if not self.path.exists():
            if released or self._lock.read_bytes() == BEGUN:
                raise self._damaged("it is missing, though jobs were taken before")
            return Content()
        try:
            content = self._parse(load(self.path.read_bytes()))
        except (ValueError, OSError, AttributeError) as error:
            raise self._damaged(one_line(error)) from error
        if not released <= set(content.jobs):
            raise self._damaged(f"job {show(sorted(released - set(content.jobs))[0])} has released, and is not in it")
        if not content.released <= released:  # which is written after the journal
            lost = show(sorted(content.released - released)[0])
            raise self._damaged(f"{RELEASES} beside it has lost the releases of job {lost}")
        return content

    def _parse(self, record: dict[str, Any]) -> Content:
        check_names(record, "the ledger", ("format", "party", "scales", "jobs", "released", "digest"))
        if record.pop("digest") != _digest(record):
            raise InputError("its content was changed")
        if record["format"] != FORMAT or record["party"] != self.party:
            raise InputError(f"it is of format {show(record['format'])} and party {show(record['party'])}")
        return Content(
            jobs={name: _events(own, name) for name, own in record["jobs"].items()},
            scales={unit: scale_from_record(scale, unit) for unit, scale in record["scales"].items()},
            released=frozenset(as_list(record["released"], "released")),
        )

    def write(self, content: Content) -> None:
        """Put new content in the place of the old; it is on the disk when this comes back."""
        record: dict[str, Any] = {
            "format": FORMAT,
            "party": self.party,
            "scales": {unit: scale.record() for unit, scale in content.scales.items()},
            "jobs": {
                name: {unit: [to_record(event) for event in events] for unit, events in own.items()}
                for name, own in content.jobs.items()
            },
            "released": sorted(content.released),
        }
        record["digest"] = _digest(record)
        write_text(self.path, json.dumps(record, indent=1, allow_nan=False) + "\n", secret=True)
        if self._lock.read_bytes() != BEGUN:
            self._lock.write_bytes(BEGUN)
        sync_folder(self.path.parent)

    def _damaged(self, reason: str) -> InputError:
        return InputError(
            f"{self.party}: cannot use the budget ledger {show_path(self.path)}: {reason}; restore it from a backup, "
            "as no job is taken without knowing what was spent"
        )


def _digest(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True, allow_nan=False).encode()).hexdigest()


def _events(value: object, where: str) -> dict[str, tuple[Event, ...]]:
    record = as_record(value, where)
    check_names(record, where, UNITS)
    return {unit: tuple(from_record(one, where) for one in as_list(record[unit], where)) for unit in UNITS}
