"""A run as seen from another process: how far it is, and whether anybody is training it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.errors import InputError
from tacit.files import show_path
from tacit.run.checkpoint import TraceReader
from tacit.run.folder import RunFolder
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
        self.folder = RunFolder(path)
        self._reader = TraceReader(self.folder.trace)
        self._plan: dict[str, Any] = {}
        try:
            begun = self.folder.begun
        except (OSError, ValueError) as error:
            raise InputError(f"cannot open {show_path(path)}: check the path of the run") from error
        if not begun:
            raise InputError(f"there is no run in {show_path(path)}: give the directory that tacit train writes")

    def look(self) -> RunView:
        """The run as it is now."""
        state = self._state()  # before the trace: of a finished run all rounds are read
        if not self._plan and self.folder.planned:
            plan = self.folder.read_plan().get("plan")
            self._plan = plan if isinstance(plan, dict) else {}
        private = self._plan.get("privacy")
        rounds = (private if isinstance(private, dict) else self._plan).get("rounds" if private else "max_rounds")
        if not isinstance(rounds, int) or not 0 <= rounds <= 10**9:
            rounds = 0  # a damaged plan does not keep anybody from watching
        return RunView(state, self._name(), rounds, Trace(self._reader.read()))

    def _state(self) -> str:
        if self.folder.finished:
            return FINISHED
        if not self.folder.training:
            return FINISHED if self.folder.finished else STOPPED  # it may just have ended
        return TRAINING if self.folder.planned else READING

    def _name(self) -> str:
        try:
            return self.folder.read_job().name
        except InputError:  # it is not written yet
            return ""
