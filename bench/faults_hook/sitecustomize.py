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
FOLDER = Path(os.environ.get("TACIT_DRILL", "."))


class Disturber:
    """Stands between a member and what carries its sealed messages."""

    def __init__(self, ask: Any, carry: Any) -> None:
        self.ask_, self.carry_, self.lock, self.asks = ask, carry, threading.Lock(), threading.local()
        self.old: tuple[str, Any, Any] | None = None

    def ask(self, member: Any, name: str, content: bytes, *how: Any) -> Any:
        """Ask as usual; what asks for an answer of a round may be disturbed."""
        from tacit.federation.protocol import Answer, Match, Play, decode_request

        asked = decode_request(content)
        if not isinstance(asked, Answer | Play | Match):
            return self.ask_(member, name, content, *how)
        pace = FOLDER / "pace"
        if pace.exists():
            time.sleep(float(pace.read_text()))
        if isinstance(asked, Match):  # matching is slowed, not disturbed
            return self.ask_(member, name, content, *how)
        with self.lock:  # the others of this exchange wait: one is disturbed at a time
            self.asks.kind = self._armed(name)
            try:
                reply = self.ask_(member, name, content, *how)
            finally:
                self.asks.kind = ""
            if self.old is not None and self.old[0] == name and self.old[2] is not None:
                self._send_old(member)
            elif self.old is not None and self.old[0] == name:
                self.old = (name, self.old[1], reply)
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

    def carry(self, member: Any, name: str, request: Any, wait: float) -> Any:
        """Carry a sealed request; twice at once and once more, or to be remembered, where that is asked for."""
        kind, self.asks.kind = getattr(self.asks, "kind", ""), ""
        if kind == "duplicated":
            with ThreadPoolExecutor(2) as pool:
                first, second = pool.map(lambda _: self.carry_(member, name, request, 60.0), range(2))
            third = self.carry_(member, name, request, 60.0)
            written("duplicated", first == second == third and "salt" in first, "" if "salt" in first else str(first))
            return first
        if kind == "reordered":
            self.old = (name, request, None)
        return self.carry_(member, name, request, wait)

    def _send_old(self, member: Any) -> None:
        """A message of the exchange before, after the new one: it is refused, as nobody awaits its answer."""
        assert self.old is not None
        (name, request, _), self.old = self.old, None
        again = self.carry_(member, name, request, 60.0)
        written("reordered", again == {"refused": True}, str(sorted(again)))


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
        disturber = Disturber(member._ask_one, member._carry)
        member._ask_one = lambda self, *asked: disturber.ask(self, *asked)
        member._carry = lambda self, *carried: disturber.carry(self, *carried)


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
