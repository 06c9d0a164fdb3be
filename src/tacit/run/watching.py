"""A run as seen from another process: how far it is, and whether anybody is training it."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.errors import InputError
from tacit.files import read_json, show_path
from tacit.run.folder import JOB, LOCK, PLAN, RESULT, TRACE
from tacit.run.trace_file import TraceReader
from tacit.types import Trace

READING, TRAINING, FINISHED, STOPPED = "reading its data", "training", "finished", "stopped"
RECENT = 20  # rounds whose speed is said


@dataclass(frozen=True)
class RunView:
    """A run at one moment.

    Attributes
    ----------
    state : str
        "reading its data", "training", "finished", or "stopped" where it is not finished and nobody trains it.
    name : str
        The job's name, where it is known yet.
    most_rounds : int
        Rounds at most; 0 where they are not known yet.
    trace : Trace
    """

    state: str
    name: str
    most_rounds: int
    trace: Trace

    @property
    def gap(self) -> float:
        """The last distance to the optimum that was certified; infinite where none was."""
        return next((row.gap for row in reversed(self.trace) if math.isfinite(row.gap)), math.inf)

    @property
    def speed(self) -> float:
        """Rounds per second, of late; NaN where there are too few to tell."""
        recent = self.trace[-RECENT - 1 :]
        if len(recent) < 2 or recent[-1].seconds <= recent[0].seconds:
            last = self.trace[-1] if self.trace else None
            return last.round / last.seconds if last and last.seconds > 0 else math.nan
        return (len(recent) - 1) / (recent[-1].seconds - recent[0].seconds)


class Watcher:
    """Looks at the directory of a run, which it does not change.

    Raises
    ------
    InputError
        Where no run was ever begun there.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._reader = TraceReader(self.path / TRACE)
        self._plan: dict[str, Any] = {}
        try:
            begun = any((self.path / name).exists() for name in (LOCK, PLAN, RESULT))
        except (OSError, ValueError) as error:
            raise InputError(f"cannot open {show_path(path)}: check the path of the run") from error
        if not begun:
            raise InputError(f"there is no run in {show_path(path)}: give the directory that tacit train writes")

    def look(self) -> RunView:
        """The run as it is now."""
        state = self._state()  # before the trace: of a finished run all rounds are read
        if not self._plan and (self.path / PLAN).exists():
            plan = read_json(self.path / PLAN).get("plan")
            self._plan = plan if isinstance(plan, dict) else {}
        private = self._plan.get("privacy")
        rounds = (private if isinstance(private, dict) else self._plan).get("rounds" if private else "max_rounds")
        if not isinstance(rounds, int) or not 0 <= rounds <= 10**9:
            rounds = 0  # a damaged plan does not keep anybody from watching
        return RunView(state, self._name(), rounds, Trace(self._reader.read()))

    def _state(self) -> str:
        if (self.path / RESULT).exists():
            return FINISHED
        if not is_training(self.path):
            return FINISHED if (self.path / RESULT).exists() else STOPPED  # it may just have ended
        return TRAINING if (self.path / PLAN).exists() else READING

    def _name(self) -> str:
        from tacit.job import read_job

        try:
            return read_job(self.path / JOB).name
        except InputError:  # it is not written yet
            return ""


def is_training(run: Path) -> bool:
    """Whether a process holds the directory's lock, as one that trains does."""
    if sys.platform == "win32":  # there are no such locks
        return True
    import fcntl

    try:
        with open(run / LOCK, "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)  # let go at once, when the file is closed
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
