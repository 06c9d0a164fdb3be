"""From a private value to a released one: planned releases only, each as often as planned, each with its noise."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.errors import InputError, RunError
from tacit.privacy.randomness import KEY_BYTES, NoiseSource, derive_key, norm_noise
from tacit.types import Arrays, Message, Vector

Symbols = npt.NDArray[np.int64]
MOST_SYMBOLS = 2**20
KEY, USED, SEEN = "releases.key", "releases.used", "releases.seen"


@dataclass(frozen=True)
class Allowed:
    """A planned release: Gaussian noise of deviation `sd` on a vector, at most `times` times."""

    name: str
    sd: float
    times: int = 1


@dataclass(frozen=True)
class AllowedResponse:
    """A planned randomized response of every row, once: one of `symbols` symbols with `epsilon`."""

    name: str
    epsilon: float
    symbols: int = 2
    times: int = 1

    def __post_init__(self) -> None:
        if not 2 <= self.symbols <= MOST_SYMBOLS:
            raise InputError(f"symbols={self.symbols} is not allowed: it must be from 2 to {MOST_SYMBOLS}")

    @property
    def redraw(self) -> float:
        """Probability with which a symbol is drawn anew, uniformly: k q, q = 1 / (e^epsilon + k - 1), rounded up.

        A draw is uniform to the last bit where k is a power of two. Elsewhere no symbol is rarer than 1 - k 2^-50 times
        as often as it should be, which more draws make up for (docs/proofs/labels.md, theorem 7).
        """
        uneven = 0.0 if self.symbols & (self.symbols - 1) == 0 else self.symbols * 2.0**-49
        exact = self.symbols / (math.exp(min(self.epsilon, 700.0)) + self.symbols - 1)
        return min(1.0, exact * (1 + 1e-14 + uneven))


@dataclass(frozen=True)
class AllowedNormNoise:
    """Planned noise of density proportional to exp(-rate |e|), for an objective, drawn at most `times` times."""

    name: str
    rate: float
    times: int = 1


Planned = Allowed | AllowedResponse | AllowedNormNoise


class Releaser:
    """Adds the planned noise, and refuses a release that was not planned.

    Noise is drawn from a secret key, from the message that is answered and from how much was released before. A run
    that goes on after a crash answers the same message with the same noise, so that nothing more is given away; another
    message, or the same one a second time, gets independent noise.

    Parameters
    ----------
    planned : sequence of Allowed, AllowedResponse and AllowedNormNoise
    owner : str
        The party, for messages; with `seed`, also the name of its stream.
    seed : int or None
        Repeatable noise, for tests and papers only.
    """

    def __init__(self, planned: Sequence[Planned], owner: str, seed: int | None = None) -> None:
        self.owner = owner
        self._planned = {one.name: one for one in planned}
        self._used = dict.fromkeys(self._planned, 0)
        self._key = os.urandom(KEY_BYTES) if seed is None else derive_key(str(seed).encode(), "releases", owner)
        self._seen = b""  # fingerprint of all rounds so far, for `begin_round`
        self._source = NoiseSource(key=self._key, stream="start")

    @property
    def used(self) -> dict[str, int]:
        """How often each planned release was made."""
        return dict(self._used)

    def begin(self, message: Message) -> None:
        """Draw the noise of the next releases for this message."""
        before = sum(self._used.values())
        self._source = NoiseSource(key=self._key, stream=f"{message.kind} {message.round} {before} {digest(message)}")

    def begin_round(self, round_: int, inbox: Mapping[str, Message]) -> None:
        """Draw the noise of the next releases for a round and all messages of neighbours so far, by sender.

        A node may use in one round what it was told rounds before: noise for other messages must be other noise then,
        too, or the difference of two releases would be bare.
        """
        seen = " ".join(f"{len(name)} {name} {digest(inbox[name])}" for name in sorted(inbox))
        self._seen = hashlib.sha256(self._seen + f"round {round_} {seen}".encode()).digest()
        self._source = NoiseSource(key=self._key, stream=f"round {round_} {self._seen.hex()}")

    def add(self, name: str, value: npt.ArrayLike) -> Vector:
        """The value on a grid, with the noise planned under this name."""
        planned = self._claim(name, Allowed)
        assert isinstance(planned, Allowed)
        return self._source.add(value, planned.sd)

    def respond(self, name: str, symbols: npt.ArrayLike) -> Symbols:
        """Each symbol 0 .. k-1 kept, or drawn anew with the planned probability."""
        planned = self._claim(name, AllowedResponse)
        assert isinstance(planned, AllowedResponse)
        truth = np.asarray(symbols, dtype=np.int64)
        if truth.size and not 0 <= truth.min() <= truth.max() < planned.symbols:
            raise RunError(f"{self.owner}: {name} has a symbol outside 0 .. {planned.symbols - 1}")
        anew = self._source.coin(planned.redraw, truth.shape)
        drawn = np.floor(self._source.uniform(truth.shape) * planned.symbols).astype(np.int64)
        return np.where(anew, drawn, truth)

    def draw(self, name: str, size: int) -> Vector:
        """The noise planned under this name, for an objective or a value that is released with it."""
        planned = self._claim(name, AllowedNormNoise)
        assert isinstance(planned, AllowedNormNoise)
        return norm_noise(self._source, size, planned.rate)

    def uniform(self, size: int) -> Vector:
        """Uniform numbers in (0, 1), to round a value at random before it is released."""
        return self._source.uniform(size)

    def _claim(self, name: str, kind: type) -> Planned:
        planned = self._planned.get(name)
        if planned is None or not isinstance(planned, kind):
            raise RunError(f"{self.owner}: {name} was not planned as a release, so it does not leave")
        if self._used[name] >= planned.times:
            raise RunError(f"{self.owner}: {name} was released {planned.times} times as planned: not once more")
        self._used[name] += 1
        return planned

    def state(self) -> Arrays:
        """What a run that goes on needs: the key is as secret as the data."""
        used = np.array([self._used[name] for name in sorted(self._used)], dtype=np.float64)
        seen = {SEEN: np.frombuffer(self._seen, np.uint8).astype(np.float64)} if self._seen else {}
        return {KEY: np.frombuffer(self._key, np.uint8).astype(np.float64), USED: used, **seen}

    def restore(self, state: Arrays) -> None:
        """Go on from `state`, in which there may be more."""
        self._key = state[KEY].astype(np.uint8).tobytes()
        self._seen = state[SEEN].astype(np.uint8).tobytes() if SEEN in state else b""
        self._used = {name: int(count) for name, count in zip(sorted(self._planned), state[USED], strict=True)}
        made = sum(self._used.values())  # what no message asks for is repeated too, and never under other noise's words
        self._source = NoiseSource(key=self._key, stream=f"start {made}" if made else "start")


def digest(message: Message) -> str:
    """A fingerprint of what a message carries."""
    return arrays_digest(message.arrays)


def arrays_digest(arrays: Mapping[str, npt.NDArray[Any]]) -> str:
    """A fingerprint of named arrays, which tells any two of them apart.

    Names have no blanks, and a type and a shape say how many bytes follow: what is hashed can be read in one way only.

    Raises
    ------
    RunError
        For a name with a blank.
    """
    if any(not name.isprintable() or " " in name for name in arrays):
        raise RunError("a name of an array has a blank or a control character: no fingerprint tells it apart")
    total = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        total.update(f"{name} {array.dtype} {array.shape} ".encode())
        total.update(array.tobytes())
    return total.hexdigest()
