"""What a party has spent of its budget, on its own disk and in two places, so that an older copy of one is noticed.

The ledger: one file, for one process at a time, written whole or not at all; damage is refused. The lock file beside it
counts how often the ledger was written and how many releases were listed. It is never behind what it counts for long,
and never ahead: a ledger or a list that is behind it was put back to an older state.

A ledger that is put back to an older state, together with the list of releases, agrees with itself and has forgotten
what was spent since. The folders of the runs have not: each holds what its run reserved, and whether anything left.
This is written before anything of the run leaves, and removed only where all is given back.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tacit.errors import FaultError, InputError
from tacit.federation.releases import ReleaseJournal, sync_folder
from tacit.files import open_lock, show_path, text_digest, wait_for_lock, write_text
from tacit.privacy.events import UNITS, Event, from_record, to_record
from tacit.privacy.filters import Scale, scale_from_record
from tacit.records import as_list, as_record, as_whole, check_names, load
from tacit.text import one_line, show

# --- What each run has reserved, in its own folder


SPENT = "spent.json"
Events = dict[str, tuple[Event, ...]]


@dataclass(frozen=True)
class Reservation:
    """What one run has reserved, by unit, and whether anything of it has left."""

    events: Events
    released: bool = False


class Reservations:
    """What all runs have reserved, each in its own folder.

    Parameters
    ----------
    runs : Path or None
        Holds a folder for each run; None where there is no such place, and nothing is kept.
    """

    def __init__(self, runs: Path | None) -> None:
        self.runs = runs
        self._written: dict[str, Reservation] = {}  # by this process: it need not look again

    def check(self, job: str) -> None:
        """Refuse a name that would lead out of the folder of all runs."""
        if self.runs is not None and (self.runs / job).resolve().parent != self.runs.resolve():
            raise InputError(f"{show(job)} names no folder of a run: use letters, digits and -")

    def put(self, job: str, reservation: Reservation) -> None:
        """Write what a run reserves; it is on the disk when this comes back."""
        if self.runs is None or self._written.get(job) == reservation:
            return
        self.check(job)
        folder = self.runs / job
        folder.mkdir(parents=True, exist_ok=True)
        record = {"job": job, "released": reservation.released, "events": events_record(reservation.events)}
        write_text(folder / SPENT, json.dumps(record, indent=1, allow_nan=False) + "\n", secret=True)
        sync_folder(folder)
        sync_folder(self.runs)
        self._written[job] = reservation

    def drop(self, job: str) -> None:
        """Remove what a run reserved of which nothing has left."""
        self._written.pop(job, None)
        if self.runs is not None:
            (self.runs / job / SPENT).unlink(missing_ok=True)

    def read(self) -> dict[str, Reservation]:
        """What each run has reserved, by its name.

        Raises
        ------
        InputError
            Where one is damaged.
        """
        if self.runs is None or not self.runs.is_dir():
            return {}
        return {path.parent.name: _read(path) for path in sorted(self.runs.glob(f"*/{SPENT}"))}


def _read(path: Path) -> Reservation:
    try:
        record = load(path.read_bytes())
        check_names(record, "the mark", ("job", "released", "events"))
        if record["job"] != path.parent.name or not isinstance(record["released"], bool):
            raise InputError("it is of another run")
        return Reservation(events_of_record(record["events"], record["job"]), record["released"])
    except (ValueError, OSError, AttributeError) as error:
        raise InputError(
            f"cannot read {show_path(path)}, which says what the run has spent: {one_line(error)}; no job is taken "
            "without knowing it"
        ) from error


def events_record(events: Mapping[str, tuple[Event, ...]]) -> dict[str, list[object]]:
    """The events of a job by unit, as the ledger writes them."""
    return {unit: [to_record(event) for event in own] for unit, own in events.items()}


def events_of_record(value: object, where: str) -> Events:
    """The events of a job by unit, read from a ledger and checked."""
    record = as_record(value, where)
    check_names(record, where, UNITS)
    return {unit: tuple(from_record(one, where) for one in as_list(record[unit], where)) for unit in UNITS}


# --- The file of a party's budget ledger: one process at a time, written whole or not at all, damage refused


FORMAT = 1
RELEASES = "releases.jsonl"
AGAIN = -1, "counted again"  # number and digest, in the list, of a run whose releases the list has lost
_COUNTS = re.compile(rb"begun(?: (\d{12}) (\d{12}))?\n")  # in the lock file, once there was a ledger


@dataclass(frozen=True)
class LedgerContent:
    """The events of each job by unit, in the order of acceptance; the scale of each unit; which jobs released.

    `written` counts how often the ledger was written.
    """

    jobs: dict[str, dict[str, tuple[Event, ...]]] = field(default_factory=dict)
    scales: dict[str, Scale] = field(default_factory=dict)
    released: frozenset[str] = frozenset()
    written: int = 0


class LedgerFile:
    """The file, its lock, and the journal of releases beside it.

    Parameters
    ----------
    path : Path
        The file; it need not exist, its folder must.
    party : str
        Whose it is.
    runs : Path or None
        Holds the folders of the runs, where each says what it has reserved.
    """

    def __init__(self, path: Path, party: str, runs: Path | None = None) -> None:
        self.path, self.party = path, party
        self.reservations = Reservations(runs)
        self.journal = ReleaseJournal(path.with_name(RELEASES))
        self._lock = path.with_name(f"{path.name}.lock")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep every other process out; all else is done inside."""
        try:
            descriptor = open_lock(self._lock)
        except OSError as error:
            raise FaultError(f"{self.party}: cannot write beside {show_path(self.path)}: {one_line(error)}") from error
        with os.fdopen(descriptor, "r+b") as lock:
            wait_for_lock(lock)
            yield

    def read(self) -> LedgerContent:
        """The content; damage is refused, and never taken for an empty ledger.

        Raises
        ------
        InputError
            With the reason, and the way out.
        """
        content = self.read_alone()
        for job, reservation in self.reservations.read().items():
            if content.jobs.get(job) != reservation.events:
                raise self._older(f"run {show(job)} has reserved what is not in it")
            if reservation.released and job not in content.released:
                raise self._older(f"run {show(job)} has released, and it does not say so")
        return content

    def read_alone(self) -> LedgerContent:
        """The content, checked against the list of releases and the counts, and not against the folders of the runs."""
        listed = self.journal.read()
        released = {job for job, _ in listed}
        written, lines = self._counts() or (0, 0)
        if not self.path.exists():
            if released or self._counts() is not None:
                raise self._damaged("it is missing, though jobs were taken before")
            return LedgerContent()
        try:
            content = self._parse(load(self.path.read_bytes()))
        except (ValueError, OSError, AttributeError) as error:
            raise self._damaged(one_line(error)) from error
        if not released <= set(content.jobs):
            raise self._older(f"job {show(sorted(released - set(content.jobs))[0])} has released, and is not in it")
        if content.written < written:
            raise self._older(f"it was written {written} times and is a copy from time {content.written}")
        if not content.released <= released:  # which is written after the list
            lost = show(sorted(content.released - released)[0])
            raise self._older(f"{RELEASES} beside it has lost the releases of job {lost}")
        if len(listed) < lines:
            raise self._older(f"{RELEASES} beside it has lost {lines - len(listed)} of {lines} releases")
        return content

    def _counts(self) -> tuple[int, int] | None:
        """How often the ledger was written, and how many releases were listed; None before the first time."""
        text = self._lock.read_bytes()
        found = _COUNTS.fullmatch(text)
        if found is None and text:
            raise self._damaged(f"{self._lock.name} beside it was changed")
        return None if found is None else (int(found[1] or 0), int(found[2] or 0))

    def count(self, content: LedgerContent, *, sync: bool = False) -> None:
        """Bring the counts up to what is on the disk; called after it is there, so they are never ahead of it."""
        text = b"begun %012d %012d\n" % (content.written, len(self.journal))
        if self._lock.read_bytes() == text:
            return
        descriptor = os.open(self._lock, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.pwrite(descriptor, text, 0)  # of one length, in place
            if sync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _parse(self, record: dict[str, Any]) -> LedgerContent:
        if record.pop("digest", None) != _digest(record):
            raise InputError("its content was changed")
        record.setdefault("written", 0)  # the first ledgers did not count
        check_names(record, "the ledger", ("format", "party", "scales", "jobs", "released", "written"))
        if record["format"] != FORMAT or record["party"] != self.party:
            raise InputError(f"it is of format {show(record['format'])} and party {show(record['party'])}")
        return LedgerContent(
            jobs={name: events_of_record(own, name) for name, own in record["jobs"].items()},
            scales={unit: scale_from_record(scale, unit) for unit, scale in record["scales"].items()},
            released=frozenset(as_list(record["released"], "released")),
            written=as_whole(record["written"], "written", 0),
        )

    def write(self, content: LedgerContent) -> LedgerContent:
        """Put new content in the place of the old, and count that; it is on the disk when this comes back."""
        content = replace(content, written=content.written + 1)
        record: dict[str, Any] = {
            "format": FORMAT,
            "party": self.party,
            "scales": {unit: scale.record() for unit, scale in content.scales.items()},
            "jobs": {name: events_record(own) for name, own in content.jobs.items()},
            "released": sorted(content.released),
            "written": content.written,
        }
        record["digest"] = _digest(record)
        write_text(self.path, json.dumps(record, indent=1, allow_nan=False) + "\n", secret=True)
        sync_folder(self.path.parent)
        self.count(content, sync=True)
        return content

    def count_again(self) -> list[str]:
        """Count as spent what the folders of the runs say; return the runs that an older ledger had forgotten.

        Raises
        ------
        InputError
            Where the folders do not account for everything that was written since.
        """
        try:
            content = self._parse(load(self.path.read_bytes()))
        except (ValueError, OSError, AttributeError) as error:
            raise self._damaged(one_line(error)) from error
        reserved, listed = self.reservations.read(), {job for job, _ in self.journal.read()}
        found = [job for job, reservation in reserved.items() if content.jobs.get(job) != reservation.events]
        jobs = {**content.jobs, **{job: reserved[job].events for job in found}}
        released = {job for job, reservation in reserved.items() if reservation.released} | content.released | listed
        written, _ = self._counts() or (0, 0)
        if written - content.written > len(found) + len(released - content.released) or not released <= set(jobs):
            raise self._damaged("more was spent than the folders of the runs say")
        for job in sorted(released - listed):
            self.journal.add(job, *AGAIN)
        self.write(LedgerContent(jobs, content.scales, frozenset(released), max(content.written, written)))
        return found

    def _older(self, reason: str) -> InputError:
        return InputError(
            f"{self.party}: the budget ledger {show_path(self.path)} is an older copy: {reason}; no job is taken, as "
            "it forgets what was spent: count that again with tacit status KIT --count-again"
        )

    def _damaged(self, reason: str) -> InputError:
        return InputError(
            f"{self.party}: cannot use the budget ledger {show_path(self.path)}: {reason}; no job is taken without "
            "knowing what was spent: see docs/how-to/keep-a-budget.md, for an older copy would forget some of it"
        )


def _digest(record: Mapping[str, Any]) -> str:
    return text_digest(json.dumps(record, sort_keys=True, allow_nan=False))
