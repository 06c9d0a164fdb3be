"""What the server knows of a run: how far it is, and how it ended. No number of the run itself."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tacit.errors import InputError
from tacit.files import read_json, write_json
from tacit.text import duration

KEYS, PREPARE, TRAIN, COMPUTING = "keys", "preparation", "training", "an answer"  # what somebody is waited for
STAGES = (KEYS, PREPARE, TRAIN, COMPUTING)
OUTCOME, PROGRESS, FAULT, MATCHING = "outcome.json", "progress.json", "fault.json", "matching-progress.json"
EVERY = 1.0  # seconds between two words about matching
BAR = 20  # characters of its bar


def write_outcome(folder: Path, told: dict[str, Any]) -> None:
    """Keep how the run ended: done, or refused with a line."""
    done = told.get("done")
    record = {"refused": str(told["refused"])} if "refused" in told else {"rounds": _whole(done, "rounds")}
    write_json(folder / OUTCOME, {**record, "at": time.time()})


def _whole(told: object, key: str) -> int | None:
    value = told.get(key) if isinstance(told, dict) else None
    return value if isinstance(value, int) else None


def read_outcome(folder: Path) -> dict[str, Any] | None:
    """How the run ended; None where it has not."""
    return read_json(folder / OUTCOME) if (folder / OUTCOME).is_file() else None


def write_fault(folder: Path, line: str) -> None:
    """Keep why the run was interrupted, though nobody refused it."""
    write_json(folder / FAULT, {"fault": line, "at": time.time()})


def take_fault(folder: Path) -> str:
    """Why the run was interrupted, once; empty where it was not."""
    if not (folder / FAULT).is_file():
        return ""
    line = str(read_json(folder / FAULT).get("fault"))
    (folder / FAULT).unlink(missing_ok=True)
    return line


def write_progress(
    folder: Path, round_: int, seconds: float, waiting: Mapping[str, Sequence[Any]] | None = None
) -> None:
    """Keep how far the run is; for whom the lead has waited how long, whether they answer at all, and for what."""
    who = {name: list(value) for name, value in (waiting or {}).items()}
    write_json(folder / PROGRESS, {"round": round_, "seconds": seconds, "waiting": who, "at": time.time()})


def read_progress(folder: Path) -> dict[str, Any] | None:
    """How far the run is; None before its first round."""
    return read_json(folder / PROGRESS) if (folder / PROGRESS).is_file() else None


class MatchingProgress:
    """Keeps at the leading site how far private matching is, for `tacit status` there; sent to nobody.

    Parameters
    ----------
    folder : Path
        Of the run; what stands there about matching is deleted when it has ended.
    """

    def __init__(self, folder: Path) -> None:
        self.path, self.last = folder / MATCHING, 0.0

    def __enter__(self) -> MatchingProgress:
        return self

    def __exit__(self, *_: object) -> None:
        self.path.unlink(missing_ok=True)

    def __call__(self, text: str, part: float) -> None:
        """Take down what is done now, and the part of all."""
        if time.monotonic() - self.last >= EVERY:
            self.last = time.monotonic()
            write_json(self.path, {"text": text, "part": part, "at": time.time()})


def matching_line(folder: Path) -> list[str]:
    """A bar of how far matching is, where it goes on."""
    try:
        told = read_json(folder / MATCHING)
        part = min(max(float(told["part"]), 0.0), 1.0)
        return [f"matching ids: [{'#' * round(BAR * part):.<{BAR}}] {part:.0%}, {told['text']}"]
    except (InputError, KeyError, ValueError):  # it is not there, or has just ended
        return []


def as_waiting(value: object) -> list[Any]:
    """What was told of one who is waited for, each part of its kind: seconds, whether they answer, and for what."""
    since, answers, stage = value if isinstance(value, list | tuple) and len(value) == 3 else (0.0, True, COMPUTING)
    return [float(since), bool(answers), stage if stage in STAGES else COMPUTING]


def waiting_line(name: str, value: object, lead: str) -> str:
    """For whom the lead waits, since when, for what, and what to do about it."""
    seconds, answers, stage = as_waiting(value)
    since = f"waiting for {name!r} for {duration(seconds)}"
    if not answers:
        return (
            f"{since}: its process does not answer: look there with tacit status KIT; where it was stopped, let it go "
            "on (kill -CONT) or start tacit join again"
        )
    what = {
        KEYS: f"{name!r} and {lead!r} have not both confirmed each other's key: each runs tacit federation members KIT",
        PREPARE: "somebody there must agree to the preparation (ids, sizes): tacit accept KIT there",
        TRAIN: "somebody there must agree to what is sent, after seeing it: tacit accept KIT there",
        COMPUTING: f"it is computing, or a person must answer: run tacit status KIT there and at {lead!r}",
    }
    return f"{since}: {what[stage]}"
