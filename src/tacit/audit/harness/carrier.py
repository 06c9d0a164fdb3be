"""Sites in one process: what they ask of each other is handed over and taken down, and they die when they are told to."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from tacit.audit.harness.recording import Recording
from tacit.errors import FaultError
from tacit.federation.kit import Kit
from tacit.federation.site import OpenGate, Site
from tacit.federation.step_log import log_step, size_of
from tacit.federation.works import lead_name, make_lead

RUN = "run-00000001"
MOST_LIVES = 400


class KilledError(BaseException):
    """A process died; nobody in it can catch that."""


class Carrier:
    """Carries what sites ask of each other.

    Parameters
    ----------
    files : mapping of str to Path
        Each site's own file.
    folder : Path
    record : Recording
    victim : str or None
        All processes are killed whenever this site has done a step for the first time, before its reply arrives.
    """

    def __init__(self, files: Mapping[str, Path], folder: Path, record: Recording, victim: str | None = None) -> None:
        self.files, self.folder, self.record, self.victim = files, folder, record, victim
        self.seen: set[tuple[str, ...]] = set()
        self.lock = threading.Lock()
        self.sites: dict[str, Site] = {}
        self.restart()

    def restart(self) -> None:
        """Start every site anew: what was only in memory is gone."""
        for name, path in self.files.items():
            self.sites[name] = Site(name, path, self.folder / name, OpenGate(), self._asking(name))

    def _asking(self, caller: str) -> Callable[[Sequence[str], str, Mapping[str, Any]], dict[str, dict[str, Any]]]:
        def ask(names: Sequence[str], step: str, payload: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
            return {name: self._carry(caller, name, step, payload) for name in names}

        return ask

    def _carry(self, caller: str, name: str, step: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        asked = copy.deepcopy(dict(payload))
        self.record.add(f"request {caller} -> {name}", step, {**asked, "bytes in all": size_of(asked)})
        reply = self.sites[name].handle(step, asked, caller)
        self.record.add(f"reply {name} -> {caller}", step, {**reply, "bytes in all": size_of(reply)})
        log_step(cast("Kit", SimpleNamespace(logs=self.folder / f"{name}-logs")), step, caller, asked, reply, 0.0)
        self._perhaps_kill(caller, name, step, asked)
        return copy.deepcopy(reply)

    def _perhaps_kill(self, caller: str, name: str, step: str, asked: Mapping[str, Any]) -> None:
        if self.victim not in (caller, name):
            return
        inner = asked.get("message")
        number = inner.get("round") if isinstance(inner, Mapping) else asked.get("round")
        key = (caller, name, step, str(number), str(asked.get("step")))
        with self.lock:
            first = key not in self.seen
            self.seen.add(key)
        if first:
            raise KilledError

    def run(self, text: str) -> dict[str, Any]:
        """Lead the job where it is led, from the start again as often as processes are killed."""
        for _ in range(MOST_LIVES):
            try:
                return make_lead(self.sites[lead_name(text)], RUN, text).go()
            except KilledError:
                self.restart()
        raise FaultError(f"the run did not end in {MOST_LIVES} lives")
