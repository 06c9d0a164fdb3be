"""Sensitivity by replay: the same transcript on neighbouring data, and how much the noise had to hide.

A mechanism that draws Gaussian noise of deviation s_t on values v_t, each a function of the data and of what was
released before, is mu-GDP where sum_t |v_t - v'_t|^2 / s_t^2 <= mu^2 for all neighbours and every transcript
(docs/proofs/composition.md, section 3). A replay computes this sum for one pair and one transcript: the first pass
records, and the second, on the neighbour, is handed the noisy values of the first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.errors import RunError
from tacit.privacy.releases import Allowed, AllowedResponse, Planned
from tacit.solvers.base import Release
from tacit.types import Vector

Symbols = npt.NDArray[np.int64]


@dataclass
class Cost:
    """What the noise had to hide between two data sets.

    Attributes
    ----------
    squares : float
        Sum of |v - v'|^2 / sd^2 over the Gaussian releases: the square of the mu that they need.
    response : float
        Sum of the epsilons of the randomized responses whose true symbol changed.
    evidence : float
        Log likelihood of the transcript on the second data set, less that on the first.
    densities : dict of str to float
        By name, for noise with a density that falls with its norm: how far the logarithms of densities are apart.
    """

    squares: float = 0.0
    response: float = 0.0
    evidence: float = 0.0
    densities: dict[str, float] = field(default_factory=dict)

    @property
    def mu(self) -> float:
        """The mu that the Gaussian releases need for this pair and transcript."""
        return math.sqrt(self.squares)

    def ratio(self, mu: float, response: float, pure: float = 0.0) -> float:
        """Largest part of what was claimed that is used: at most 1 where the claim is true.

        A changed symbol always uses its whole epsilon, so that responses count only where they use more than that.
        """
        responded = _part(self.response, response)
        used = max(_part(self.mu, mu), _part(sum(self.densities.values()), pure))
        return max(used, responded) if responded > 1 or mu == 0 else used


class Replay:
    """A `Release` that records a first pass, and hands its transcript to later ones.

    Parameters
    ----------
    inner : Release
        What draws the noise in the first pass.
    planned : iterable of Allowed and AllowedResponse
        The planned deviations: `inner` may use others, which is what an audit is after.

    Examples
    --------
    >>> from tacit.privacy.releases import Allowed, Releaser
    >>> planned = [Allowed("sum", sd=2.0)]
    >>> replay = Replay(Releaser(planned, "shop", seed=1), planned)
    >>> first = replay.add("sum", [3.0])
    >>> replay.rewind()
    >>> bool(replay.add("sum", [4.0]) == first), replay.cost.mu
    (True, 0.5)
    """

    def __init__(self, inner: Release, planned: Iterable[Planned]) -> None:
        self._inner = inner
        self.owner = inner.owner
        self._planned = {one.name: one for one in planned}
        self._log: list[tuple[str, Any, Any]] = []
        self._at: int | None = None
        self.cost = Cost()

    def rewind(self) -> None:
        """Begin another pass: the next calls are compared with the first pass and given its transcript."""
        self._at, self.cost = 0, Cost()

    @property
    def length(self) -> int:
        """Releases in the first pass."""
        return len(self._log)

    @property
    def complete(self) -> bool:
        """Whether a later pass made all the releases of the first."""
        return self._at == len(self._log)

    def add(self, name: str, value: npt.ArrayLike) -> Vector:
        """A Gaussian release, recorded or replayed."""
        sd = self._sd(name)
        now = np.array(value, dtype=np.float64)
        if self._at is None:
            noisy = self._inner.add(name, now)
            self._log.append((name, now, np.array(noisy)))
            return noisy
        before, noisy = self._next(name, now.shape)
        self.cost.squares += float(np.sum(np.square((now - before) / sd)))
        self.cost.evidence += float(np.sum((now - before) * (2 * noisy - now - before))) / (2 * sd**2)
        return np.array(noisy)

    def respond(self, name: str, symbols: npt.ArrayLike) -> Symbols:
        """A randomized response of every row, recorded or replayed."""
        epsilon = self._epsilon(name)
        now = np.array(symbols, dtype=np.int64)
        if self._at is None:
            released = self._inner.respond(name, now)
            self._log.append((name, now, np.array(released)))
            return released
        before, released = self._next(name, now.shape)
        self.cost.response += epsilon * float(np.sum(now != before))
        self.cost.evidence += epsilon * float(np.sum(now == released) - np.sum(before == released))
        return np.array(released)

    def uniform(self, size: int) -> Vector:
        """Uniform numbers, the same in every pass: they do not depend on the data."""
        if self._at is None:
            drawn = self._inner.uniform(size)
            self._log.append(("", np.zeros(size), np.array(drawn)))
            return drawn
        return np.array(self._next("", (size,))[1])

    def draw(self, name: str, size: int) -> Vector:
        """Noise inside an objective moves what is released in no fixed direction: its replay would prove nothing."""
        raise RunError(f"{name} is noise inside an objective: compare densities instead of replaying it")

    def _next(self, name: str, shape: tuple[int, ...]) -> tuple[Any, Any]:
        """The release of the first pass that this one answers."""
        assert self._at is not None
        if self._at >= len(self._log):
            raise RunError(f"the neighbour releases {name or 'random numbers'} once more: how often is not planned")
        earlier, before, noisy = self._log[self._at]
        if earlier != name or before.shape != shape:
            raise RunError(
                f"the neighbour releases {name or 'random numbers'} of shape {shape} where the first data set released "
                f"{earlier or 'random numbers'} of shape {before.shape}: what is released depends on the data"
            )
        self._at += 1
        return before, noisy

    def _sd(self, name: str) -> float:
        planned = self._planned.get(name)
        if not isinstance(planned, Allowed):
            raise RunError(f"{name} was not planned as a Gaussian release")
        return planned.sd

    def _epsilon(self, name: str) -> float:
        planned = self._planned.get(name)
        if not isinstance(planned, AllowedResponse):
            raise RunError(f"{name} was not planned as a randomized response")
        return planned.epsilon


def _part(used: float, claimed: float) -> float:
    if used == 0:
        return 0.0
    return used / claimed if claimed > 0 else math.inf
