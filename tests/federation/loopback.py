"""Sites in one process, for tests: messages are handed over as over a network, and may be disturbed on the way."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tacit.federation.site import Gate, OpenGate, Site
from tacit.federation.works import lead_name, make_lead

Disturb = Callable[[str, str, str, Mapping[str, Any]], None]


class Loopback:
    """Carries what sites ask of each other; `disturb(caller, name, step, payload)` may raise what a network raises."""

    def __init__(self, files: Mapping[str, Path], folder: Path, gates: Mapping[str, Gate] | None = None) -> None:
        self.files, self.folder, self.gates = files, folder, gates or {}
        self.disturb: Disturb = lambda *_: None
        self.after: Disturb = lambda *_: None
        self.carried: list[tuple[str, str, str, Any, Any]] = []
        self.sites: dict[str, Site] = {}
        self.restart()

    def restart(self, *names: str) -> None:
        """Kill sites and start them anew: what was only in memory is gone."""
        for name in names or self.files:
            gate = self.gates.get(name, OpenGate())
            self.sites[name] = Site(name, self.files[name], self.folder / name, gate, self._asking(name))

    def _asking(self, caller: str) -> Callable[[Sequence[str], str, Mapping[str, Any]], dict[str, dict[str, Any]]]:
        def ask(names: Sequence[str], step: str, payload: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
            return {name: self._carry(caller, name, step, payload) for name in names}

        return ask

    def _carry(self, caller: str, name: str, step: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        self.disturb(caller, name, step, payload)
        reply = self.sites[name].handle(step, copy.deepcopy(dict(payload)), caller)
        self.carried.append((caller, name, step, copy.deepcopy(dict(payload)), copy.deepcopy(reply)))
        self.after(caller, name, step, reply)
        return reply

    def run(self, text: str, run: str = "run-00000001", **options: Any) -> dict[str, Any]:
        """Lead the job where it is led."""
        return make_lead(self.sites[lead_name(text)], run, text).go(**options)


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes die in these tests, machines do not: what was written need not be on the disk."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
