"""What the protected party releases: taken down in a run on the first data set, handed out again in one on the second.

A release is known by its owner, its planned name and how often that name was released before; this is what survives a
restart, too. On the second data set the code computes its own value and draws its own noise, so that whatever goes
wrong there is seen; then the release of the first data set takes its place.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

from tacit.audit.replay import Cost
from tacit.privacy.releases import Allowed, AllowedNormNoise, AllowedResponse, Planned, Releaser

Key = tuple[str, int]


@dataclass(frozen=True)
class Release:
    """One release: the value, what left, and its plan (None for uniform numbers, which no data enter)."""

    value: npt.NDArray[Any]
    said: npt.NDArray[Any]
    planned: Planned | None = None


@dataclass
class Tape:
    """Releases of one owner.

    Attributes
    ----------
    owner : str
        Whose releases are taken down; everybody else releases as in any run.
    stays : bool
        Whether randomized symbols stay with their owner. Then a claim holds for any two outcomes of a changed record.
    recording : bool
        Whether this is the run on the first data set.
    """

    owner: str
    stays: bool = False
    recording: bool = True
    first: dict[Key, Release] = field(default_factory=dict)
    second: dict[Key, Release] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def play_back(self) -> Tape:
        """The tape for a run on a neighbour."""
        return Tape(self.owner, self.stays, recording=False, first=self.first)

    def take(self, key: Key, made: Release) -> npt.NDArray[Any]:
        """What leaves for this release."""
        with self.lock:
            if self.recording:
                self.first.setdefault(key, made)  # what is drawn anew after a restart must not leave: see `sent_twice`
                return made.said
            self.second[key] = made
            before = self.first.get(key)
            if before is None or before.said.shape != made.said.shape:
                self.faults.append(f"{key[0]} (number {key[1] + 1}) is released on one of two neighbours alone")
                return made.said
            if self.stays and isinstance(made.planned, AllowedResponse):
                return np.where(made.value == before.value, before.said, 1 - before.said)
            return np.array(before.said)

    def missing(self) -> list[str]:
        """Releases that the first run made and the second did not."""
        return sorted({key[0] for key in self.first.keys() - self.second.keys()})

    def cost(self, honest: int = 1) -> Cost:
        """What the noise had to hide; rounds whose noise has a density are left to the replay of densities."""
        cost = Cost()
        drawn = {_round(key[0]) for key, one in self.first.items() if isinstance(one.planned, AllowedNormNoise)}
        for key in self.first.keys() & self.second.keys():
            before, after = self.first[key], self.second[key]
            if before.value.shape != after.value.shape:
                continue
            if isinstance(before.planned, Allowed) and _round(key[0]) not in drawn:
                apart = float(np.linalg.norm(after.value - before.value))
                cost.squares += (apart / before.planned.sd) ** 2 / honest
            elif isinstance(before.planned, AllowedResponse) and not self.stays:
                cost.response += before.planned.epsilon * int(np.sum(before.value != after.value))
        return cost

    def deepest(self) -> Mapping[str, float]:
        """By release: the largest difference of values in deviations of its noise."""
        found: dict[str, float] = {}
        for key in self.first.keys() & self.second.keys():
            before, after = self.first[key], self.second[key]
            if isinstance(before.planned, Allowed) and before.value.shape == after.value.shape:
                apart = float(np.linalg.norm(after.value - before.value)) / before.planned.sd
                found[key[0]] = max(found.get(key[0], 0.0), apart)
        return found


def _round(name: str) -> str:
    """The number at the end of a name, for methods that name a release in each round; else something unique."""
    last = name.rsplit(" ", 1)[-1]
    return last if last.isdigit() else f"{name} {math.nan}"


@contextmanager
def on_tape(tape: Tape) -> Iterator[None]:
    """Inside, what the owner of the tape releases goes onto it, or comes from it."""
    with ExitStack() as stack:
        for name in ("add", "respond", "draw"):
            stack.enter_context(patch.object(Releaser, name, _release(getattr(Releaser, name), tape)))
        stack.enter_context(patch.object(Releaser, "uniform", _uniform(Releaser.uniform, tape)))
        yield


def _release(inner: Any, tape: Tape) -> Any:
    def taken(self: Releaser, name: str, value: Any) -> npt.NDArray[Any]:
        number = self._used.get(name, 0)
        said = np.asarray(inner(self, name, value))
        if self.owner != tape.owner:
            return said
        held = np.zeros(0) if np.ndim(value) == 0 else np.array(value)  # noise is drawn by its size
        return tape.take((name, number), Release(held, said, self._planned.get(name)))

    return taken


def _uniform(inner: Any, tape: Tape) -> Any:
    def taken(self: Releaser, size: int) -> npt.NDArray[Any]:
        said = np.asarray(inner(self, size))
        if self.owner != tape.owner:
            return said
        made = sum(self._used.values())
        calls = self.__dict__.setdefault("_uniform_calls", {})
        calls[made] = calls.get(made, 0) + 1
        return tape.take((f"uniform numbers {made}", calls[made]), Release(np.zeros(0), said))

    return taken
