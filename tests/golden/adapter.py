"""The only place of the golden record that knows where things are inside the package.

A restructuring that moves or renames what is used here changes this file, and neither a record nor anything else in
this folder.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np

from tacit.audit.harness.tape import fixed_coins, steady_pace
from tacit.cli.main import main
from tacit.federation.loopback import Loopback
from tacit.privacy.releases import Releaser
from tacit.run.graph import GraphRun, Neighbours
from tacit.run.result import versions
from tacit.run.star import InProcess, Run

__all__ = ["Sites", "Watched", "command_line", "plan_values", "repeatable", "stopped_at", "versions", "watched"]

SEED = 11
NUMBERS = ("f8", "u8", "i8", "u1")


def command_line(words: Sequence[str]) -> int:
    """Run the command line in this process; its exit code."""
    return main(words)


# --- the same coins and clocks in every run --------------------------------------------------------------


@contextmanager
def repeatable() -> Iterator[None]:
    """Inside, random bits are the same each time, clocks stand still, and sites ask one after the other.

    Keys of masks and of matching follow from their owners' names, all other random bits from their turn.
    """
    with ExitStack() as stack:
        seeded = Releaser.__init__  # keys of noise come from noise_seed by the package's own derivation, so keep it
        stack.enter_context(fixed_coins(SEED))
        stack.enter_context(patch.object(Releaser, "__init__", seeded))
        stack.enter_context(patch("os.urandom", _coins()))
        stack.enter_context(patch("time.perf_counter", lambda: 0.0))
        stack.enter_context(steady_pace({}))
        yield


def _coins() -> Callable[[int], bytes]:
    made = 0

    def urandom(count: int) -> bytes:
        nonlocal made
        made += 1
        return hashlib.shake_256(f"{SEED}/{made}".encode()).digest(count)

    return urandom


# --- runs in one process ---------------------------------------------------------------------------------


@dataclass
class Watched:
    """What runs in this process planned and said: plans in the order of runs, messages in the order of rounds."""

    plans: list[Any] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)

    def say(self, message: Any, **places: str) -> None:
        """Take a message down as it is now."""
        arrays = {name: np.array(array) for name, array in message.arrays.items()}
        head = {"sender": message.sender, **places, "kind": message.kind, "round": message.round}
        self.messages.append({**head, "arrays": arrays})


@contextmanager
def watched() -> Iterator[Watched]:
    """Inside, runs of both splits are taken down."""
    seen = Watched()
    with ExitStack() as stack:
        for kind in (Run, GraphRun):
            stack.enter_context(patch.object(kind, "__init__", _noting(kind.__init__, seen)))
        stack.enter_context(patch.object(InProcess, "exchange", _hearing(InProcess.exchange, seen)))
        stack.enter_context(patch.object(Neighbours, "exchange", _overhearing(Neighbours.exchange, seen)))
        yield seen


def _noting(make: Any, seen: Watched) -> Any:
    def init(self: Any, plan: Any, *args: Any, **kwargs: Any) -> None:
        seen.plans.append(plan)
        make(self, plan, *args, **kwargs)

    return init


def _hearing(exchange: Any, seen: Watched) -> Any:
    """The star of the feature split: one message to all, and an answer from each."""

    def heard(self: Any, message: Any) -> list[Any]:
        seen.say(message)
        answers: list[Any] = exchange(self, message)
        for answer in answers:
            seen.say(answer)
        return answers

    return heard


def _overhearing(exchange: Any, seen: Watched) -> Any:
    """The graph of the sample split: what lies in every inbox after a round."""

    def heard(self: Any, round_: int) -> int:
        carried: int = exchange(self, round_)
        for receiver, inbox in self.inboxes.items():
            for message in inbox.values():
                seen.say(message, receiver=receiver)
        return carried

    return heard


def plan_values(plan: Any) -> dict[str, Any]:
    """A plan as it is kept, described and printed."""
    return {"record": plan.record(), "describe": plan.describe(), "text": str(plan)}


@contextmanager
def stopped_at(exchange: int) -> Iterator[None]:
    """Inside, whoever trains is interrupted before the exchange of this number, counted from 1."""
    with ExitStack() as stack:
        for engine in (InProcess, Neighbours):
            stack.enter_context(patch.object(engine, "exchange", _stopping(engine.exchange, exchange)))
        yield


def _stopping(inner: Any, at: int) -> Any:
    count = 0

    def counted(self: Any, what: Any) -> Any:
        nonlocal count
        count += 1
        if count == at:
            raise KeyboardInterrupt
        return inner(self, what)

    return counted


# --- runs between sites ----------------------------------------------------------------------------------


class Sites:
    """Sites in this process, each with its own file and folder."""

    def __init__(self, files: Mapping[str, Path], folder: Path) -> None:
        self._loop = Loopback(files, folder)

    def train(self, text: str, run: str) -> int:
        """Lead the job of a text to its end; the number of rounds."""
        return self._loop.run(text, run)

    def train_until(self, text: str, run: str, step: int) -> None:
        """Lead a job until its request of this number, and start all sites anew."""
        count = 0

        def disturb(*_: Any) -> None:
            nonlocal count
            count += 1
            if count == step:
                raise ConnectionError

        self._loop.disturb = disturb
        with suppress(ConnectionError):
            self._loop.run(text, run)
        self._loop.disturb = lambda *_: None
        self._loop.restart()

    def exchanged(self) -> list[dict[str, Any]]:
        """Every request and its reply: who asked whom, the bytes, and what they say."""
        return [
            {
                "caller": one.caller,
                "asked": one.name,
                "request": {"raw": one.request, "says": _said(one.request)},
                "reply": {"raw": one.reply, "says": _said(one.reply)},
            }
            for one in self._loop.carried
        ]


def _said(content: bytes) -> Any:
    """The number of the message, and its fields as they travel."""
    return {"number": content[0], "fields": _numbers(msgspec.msgpack.decode(content[1:]))}


def _numbers(value: Any) -> Any:
    """The same with arrays in place of their type, shape and bytes."""
    if isinstance(value, dict):
        return {str(key): _numbers(item) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    if len(value) == 3 and value[0] in NUMBERS and isinstance(value[2], bytes):
        return np.frombuffer(value[2], dtype=f"<{value[0]}").reshape(value[1])
    return [_numbers(item) for item in value]
