"""Disturbs what the leading site of a drill sends: messages twice, old ones after new ones, or slowly.

Python imports this file where it lies on PYTHONPATH, which the drill sets for the leading site alone. It waits for a
file `arm` in the folder TACIT_DRILL, disturbs the next answer that is asked for, and writes down what came of it.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

TARGET = "tacit.federation.flare"
DISTURBED = ("answer", "play")  # the exchanges of a feature split, and the rounds of a sample split
SLOWED = (*DISTURBED, "align")
FOLDER = Path(os.environ.get("TACIT_DRILL", "."))


class Disturber:
    """Stands between a member and the others."""

    def __init__(self, original: Any) -> None:
        self.original, self.lock = original, threading.Lock()
        self.old: tuple[str, int, str, dict[str, Any], Any] | None = None

    def ask(self, member: Any, name: str, step: str, payload: dict[str, Any]) -> Any:
        if step not in SLOWED:
            return self.original(member, name, step, payload)
        pace = FOLDER / "pace"
        if pace.exists():
            time.sleep(float(pace.read_text()))
        if step not in DISTURBED:
            return self.original(member, name, step, payload)
        with self.lock:  # the others of this exchange wait: one is disturbed at a time
            kind = self._armed(name)
            if kind == "duplicated":
                return self._twice(member, name, step, payload)
            if kind == "reordered":
                return self._remember(member, name, step, payload)
            reply = self.original(member, name, step, payload)
            if self.old is not None and self.old[0] == name:
                self._send_old(member, *self.old)
                self.old = None
        return reply

    def _armed(self, name: str) -> str:
        try:
            kind, who = (FOLDER / "arm").read_text().split()
        except (OSError, ValueError):
            return ""
        if who != name:
            return ""
        (FOLDER / "arm").unlink()
        return kind

    def _twice(self, member: Any, name: str, step: str, payload: dict[str, Any]) -> Any:
        """The same message twice at once, and once more as a new question."""
        number = next(member._numbers[name])
        with ThreadPoolExecutor(2) as pool:
            first, second = pool.map(lambda _: take(member, name, number, step, payload), range(2))
        third = self.original(member, name, step, payload)
        said = str(first) if "error" in first or "fault" in first else ""
        written("duplicated", plain(first) == plain(second) == plain(third), said)
        return first

    def _remember(self, member: Any, name: str, step: str, payload: dict[str, Any]) -> Any:
        number = next(member._numbers[name])
        reply = take(member, name, number, step, payload)
        self.old = (name, number, step, payload, reply)
        return reply

    def _send_old(self, member: Any, name: str, number: int, step: str, payload: dict[str, Any], reply: Any) -> None:
        """A message of the exchange before, after the new one: as it was, and as a new question."""
        again = take(member, name, number, step, payload)
        asked = self.original(member, name, step, payload)
        fine = plain(again) == plain(reply) and "old message" in str(asked.get("error"))
        written("reordered", fine, str(asked.get("error")))


def take(member: Any, name: str, number: int, step: str, payload: dict[str, Any]) -> Any:
    from tacit.federation.wire import pack, unpack

    call = member._proxies[name](timeout=60.0, secure=True)
    return unpack(call.take(number=number, step=step, payload=pack(payload)))


def plain(reply: dict[str, Any]) -> Any:
    arrays = reply.get("message", {}).get("arrays", {})
    return sorted((key, array.tobytes()) for key, array in arrays.items()) or str(reply)


def written(kind: str, fine: bool, said: str) -> None:
    with open(FOLDER / "done.jsonl", "a") as file:
        file.write(json.dumps({"kind": kind, "fine": fine, "said": said}) + "\n")


class Wrapped(importlib.abc.Loader):
    """Loads a module as usual, then puts the disturber into it."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        created: ModuleType | None = self.loader.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        member: Any = vars(module)["Member"]
        disturber = Disturber(member._ask_one)
        member._ask_one = lambda self, name, step, payload: disturber.ask(self, name, step, payload)


class Finder(importlib.abc.MetaPathFinder):
    """Finds one module."""

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> Any:
        if name != TARGET:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None:
            spec.loader = Wrapped(spec.loader)
        return spec


if "TACIT_DRILL" in os.environ:
    sys.meta_path.insert(0, Finder())
