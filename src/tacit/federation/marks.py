"""What was spent, written down in a second place: a mark in the folder of each run.

A ledger that is put back to an older state, together with the list of releases, agrees with itself and has forgotten
what was spent since. The folders of the runs have not: each holds what its run reserved, and whether anything left. A
mark is written before anything of the run leaves, and removed only where all is given back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tacit.data.wording import one_line, show
from tacit.errors import InputError
from tacit.federation.releases import sync_folder
from tacit.privacy.events import UNITS, Event, from_record, to_record
from tacit.privacy.fields import as_list, as_record, check_names, load
from tacit.runtime.files import show_path, write_text

MARK = "spent.json"
Events = dict[str, tuple[Event, ...]]


@dataclass(frozen=True)
class Mark:
    """What one run has reserved, by unit, and whether anything of it has left."""

    events: Events
    released: bool = False


class Marks:
    """The marks in the folders of all runs.

    Parameters
    ----------
    runs : Path or None
        Holds a folder for each run; None where there is no such place, and nothing is kept.
    """

    def __init__(self, runs: Path | None) -> None:
        self.runs = runs
        self._written: dict[str, Mark] = {}  # by this process: it need not look again

    def check(self, job: str) -> None:
        """Refuse a name that would lead out of the folder of all runs."""
        if self.runs is not None and (self.runs / job).resolve().parent != self.runs.resolve():
            raise InputError(f"{show(job)} names no folder of a run: use letters, digits and -")

    def put(self, job: str, mark: Mark) -> None:
        """Write a mark; it is on the disk when this comes back."""
        if self.runs is None or self._written.get(job) == mark:
            return
        self.check(job)
        folder = self.runs / job
        folder.mkdir(parents=True, exist_ok=True)
        record = {"job": job, "released": mark.released, "events": events_record(mark.events)}
        write_text(folder / MARK, json.dumps(record, indent=1, allow_nan=False) + "\n", secret=True)
        sync_folder(folder)
        sync_folder(self.runs)
        self._written[job] = mark

    def drop(self, job: str) -> None:
        """Remove the mark of a run of which nothing has left."""
        self._written.pop(job, None)
        if self.runs is not None:
            (self.runs / job / MARK).unlink(missing_ok=True)

    def read(self) -> dict[str, Mark]:
        """The mark of each run that has one.

        Raises
        ------
        InputError
            Where one is damaged.
        """
        if self.runs is None or not self.runs.is_dir():
            return {}
        return {path.parent.name: _read(path) for path in sorted(self.runs.glob(f"*/{MARK}"))}


def _read(path: Path) -> Mark:
    try:
        record = load(path.read_bytes())
        check_names(record, "the mark", ("job", "released", "events"))
        if record["job"] != path.parent.name or not isinstance(record["released"], bool):
            raise InputError("it is of another run")
        return Mark(events_of_record(record["events"], record["job"]), record["released"])
    except (ValueError, OSError, AttributeError) as error:
        raise InputError(
            f"cannot read {show_path(path)}, which says what the run has spent: {one_line(error)}; no job is taken "
            "without knowing it"
        ) from error


def events_record(events: Mapping[str, tuple[Event, ...]]) -> dict[str, list[object]]:
    """Events by unit as plain values."""
    return {unit: [to_record(event) for event in own] for unit, own in events.items()}


def events_of_record(value: object, where: str) -> Events:
    """Events by unit again, checked."""
    record = as_record(value, where)
    check_names(record, where, UNITS)
    return {unit: tuple(from_record(one, where) for one in as_list(record[unit], where)) for unit in UNITS}
