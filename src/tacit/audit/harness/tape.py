"""Coins that are the same in two runs, and the releases of the first handed out again in the second.

Keys of noise, masks and private matching follow from a number and a name.

Nothing of this is reachable from a run: it replaces makers of keys for as long as an audit needs, in its own process.

A release is known by its owner, its planned name and how often that name was released before; this is what survives a
restart, too. On the second data set the code computes its own value and draws its own noise, so that whatever goes
wrong there is seen; then the release of the first data set takes its place.
"""

from __future__ import annotations

import hashlib
import math
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from tacit.alignment.aligner import Aligner
from tacit.audit.replay import Cost
from tacit.data.holdout import CommonKey
from tacit.privacy.aggregation import MaskingParty
from tacit.privacy.randomness import NoiseSource
from tacit.privacy.releases import Allowed, AllowedNormNoise, AllowedResponse, Planned, Releaser
from tacit.run import prepare

# --- Coins that are the same in two runs: keys of noise, masks and private matching follow from a number and a name


@contextmanager
def fixed_coins(seed: int) -> Iterator[None]:
    """Inside, every key follows from the seed, its owner's name, and how many the owner has made before."""
    made: Counter[str] = Counter()

    def secret(*words: str) -> bytes:
        what = "/".join(words)
        made[what] += 1
        return hashlib.sha256(f"{seed}/{what}/{made[what]}".encode()).digest()

    with ExitStack() as stack:
        for change in (_noise(secret), _masks(secret), _matching(secret), _holdout(secret)):
            for one in change:
                stack.enter_context(one)
        yield


def _noise(secret: Any) -> list[Any]:
    make = Releaser.__init__

    def init(self: Releaser, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        self._key = secret("noise", self.owner)
        self._source = NoiseSource(key=self._key, stream="start")

    return [patch.object(Releaser, "__init__", init)]


def _masks(secret: Any) -> list[Any]:
    make = MaskingParty.__init__

    def init(self: MaskingParty, name: str, run: str, private_key: X25519PrivateKey | None = None) -> None:
        make(self, name, run, private_key or X25519PrivateKey.from_private_bytes(secret("masks", name, run)))

    return [patch.object(MaskingParty, "__init__", init)]


def _holdout(secret: Any) -> list[Any]:
    return [patch.object(CommonKey, "draw", lambda owner: secret("holdout", owner).hex())]


def _matching(secret: Any) -> list[Any]:
    make = Aligner.__init__

    def init(self: Aligner, name: str, *args: Any, **kwargs: Any) -> None:
        make(self, name, *args, **kwargs)
        assert self._key is not None
        self._key._key = secret("matching", name)

    def order(count: int) -> Any:
        return np.random.default_rng([seed_of(b"order"), count]).permutation(count).astype(np.int64)

    return [
        patch.object(Aligner, "__init__", init),
        patch("tacit.alignment.aligner.secret_order", order),
        patch("tacit.alignment.aligner.secret_order", order),
        patch("tacit.alignment.conversation.secrets.token_hex", lambda count: "0" * 2 * count),
    ]


def seed_of(content: bytes) -> int:
    """A number that follows from some bytes."""
    return int.from_bytes(hashlib.sha256(content).digest()[:8], "big")


# --- Many small runs in little time, in an order that no scheduler decides


THREADED, POOL = ("tacit.federation", "tacit.alignment"), "ThreadPoolExecutor"
PLANNERS = ("plan_job", "plan_nodes")


@contextmanager
def steady_pace(plans: dict[str, Any]) -> Iterator[None]:
    """Inside, sites ask each other one after the other, plans are made once, and no disk is waited for.

    Parameters
    ----------
    plans : dict
        Plans by what they are made from, which are a job and public sizes; kept from run to run.
    """
    with ExitStack() as stack:
        for name, module in list(sys.modules.items()):
            if name.startswith(THREADED) and hasattr(module, POOL):
                stack.enter_context(patch.object(module, POOL, OneByOne))
        for planner in PLANNERS:
            plain = getattr(prepare, planner)
            kept = _remembering(plain, plans)
            for name, module in list(sys.modules.items()):
                if name.startswith("tacit.") and getattr(module, planner, None) is plain:
                    stack.enter_context(patch.object(module, planner, kept))
        stack.enter_context(patch.object(os, "fsync", lambda descriptor: None))  # the folder does not outlive the audit
        yield


def _remembering(plain: Callable[..., Any], plans: dict[str, Any]) -> Callable[..., Any]:
    def plan(job: Any, *sizes: Any, **more: Any) -> Any:
        key = f"{plain.__name__} {job.to_toml('.')} {sizes!r} {sorted(more.items())!r}"
        if key not in plans:
            plans[key] = plain(job, *sizes, **more)
        return plans[key]

    return plan


class OneByOne:
    """A pool of no threads: what is submitted is done at once."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __enter__(self) -> OneByOne:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def submit(self, work: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
        """Do it, and keep what came of it."""
        done: Future[Any] = Future()
        try:
            done.set_result(work(*args, **kwargs))
        except BaseException as error:  # a process that dies dies where the result is taken
            done.set_exception(error)
        return done

    def map(self, work: Callable[..., Any], *parts: Iterable[Any]) -> Iterator[Any]:
        """Do it for each, and yield what came of it."""
        waiting = [self.submit(work, *args) for args in zip(*parts, strict=False)]
        return (done.result() for done in waiting)


# --- What the protected party releases: taken down in a run on the first data set


Key = tuple[str, int]


@dataclass(frozen=True)
class TapedRelease:
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
    first: dict[Key, TapedRelease] = field(default_factory=dict)
    second: dict[Key, TapedRelease] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def play_back(self) -> Tape:
        """The tape for a run on a neighbour."""
        return Tape(self.owner, self.stays, recording=False, first=self.first)

    def take(self, key: Key, made: TapedRelease) -> npt.NDArray[Any]:
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
        return tape.take((name, number), TapedRelease(held, said, self._planned.get(name)))

    return taken


def _uniform(inner: Any, tape: Tape) -> Any:
    def taken(self: Releaser, size: int) -> npt.NDArray[Any]:
        said = np.asarray(inner(self, size))
        if self.owner != tape.owner:
            return said
        made = sum(self._used.values())
        calls = self.__dict__.setdefault("_uniform_calls", {})
        calls[made] = calls.get(made, 0) + 1
        return tape.take((f"uniform numbers {made}", calls[made]), TapedRelease(np.zeros(0), said))

    return taken
