"""A replay that knows noise inside objectives: it finds the noise that leads to the same model on other rows.

| symbol | meaning |
|---|---|
| x | noise of density proportional to exp(-zeta |x|) |
| F, k | what a round minimises without noise; C/B, the factor of x in it |
| f_0, f | the model without noise, and the one that was released |
| J | Jacobian of f -> x |

At a minimiser grad F(f) + k x = 0, so x = (grad F(f_0) - grad F(f)) / k: all terms that do not depend on f cancel. The
node itself says where f_0 is, so that whatever it puts into its objective is counted, released or not. The density of f
is exp(-zeta |x|) |det J|. Noise on a value is the difference of the released value and f_0.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.audit.replay import Replay, Symbols
from tacit.audit.scene import PartyData
from tacit.errors import RunError
from tacit.mechanisms.perturbed import NOISE, NodeNumbers, PaperNode, at_round
from tacit.privacy.releases import AllowedNormNoise, Planned
from tacit.solvers.base import Problem, Release
from tacit.solvers.consensus.base import NodeProgress, NodeSide, Sent
from tacit.types import Arrays, Vector


@dataclass(frozen=True)
class Objective:
    """A round's objective as far as it depends on the model, from the definition.

    Attributes
    ----------
    rows : array
        As they enter: scaled down, and with a 1 for the intercept.
    labels : array
    problem : Problem
    numbers : NodeNumbers
    degree, columns : int
    """

    rows: Vector
    labels: Vector
    problem: Problem
    numbers: NodeNumbers
    degree: int
    columns: int

    @classmethod
    def of(cls, side: PaperNode, held: PartyData) -> Objective:
        """That of a node with these rows."""
        norms = np.maximum(np.linalg.norm(held.rows, axis=1), 1e-300)
        rows = held.rows * np.minimum(1.0, side.settings.row_norm / norms)[:, None]
        if side.problem.fit_intercept:
            rows = np.column_stack([rows, np.ones(len(rows))])
        return cls(rows, held.labels, side.problem, side.numbers, side.degree, side.place.columns)

    @property
    def per_row(self) -> float:
        """C/B."""
        return self.numbers.weight / len(self.labels)

    def _curvatures(self, round_: int) -> Vector:
        """Of everything but the rows, one for each entry of the model."""
        extra = self.numbers.extra[round_ - 1] if self.numbers.extra else 0.0
        found = np.full(self.rows.shape[1], 2 * self.numbers.penalty * self.degree + extra)
        found[: self.columns] += self.numbers.ridge
        return found

    def gradient(self, model: Vector, round_: int) -> Vector:
        """Of the terms that are not linear in the model."""
        slopes = self.problem.loss.grad(self.rows @ model, self.labels)
        return np.asarray(self.per_row * (self.rows.T @ slopes) + self._curvatures(round_) * model)

    def log_volume(self, model: Vector, round_: int) -> float:
        """Logarithm of |det J|."""
        bends = self.problem.loss.hess(self.rows @ model, self.labels)
        jacobian = (self.rows.T * bends) @ self.rows + np.diag(self._curvatures(round_)) / self.per_row
        return float(np.linalg.slogdet(jacobian)[1])

    def noise(self, bare: Vector, model: Vector, round_: int) -> Vector:
        """The noise with which a round ends at `model`, where it ends at `bare` without any."""
        return np.asarray((self.gradient(bare, round_) - self.gradient(model, round_)) / self.per_row)


class NodeReplay(Replay):
    """A replay of one node, which is told when a round begins and ends.

    Parameters
    ----------
    inner : Release
        What draws the noise in the first pass.
    planned : iterable of planned releases
    script : mapping of str to array, optional
        What is released in the first pass, by name, in place of what `inner` would draw. A claim holds for every
        transcript, and a chosen one may be worse than those that are likely.
    """

    def __init__(self, inner: Release, planned: Iterable[Planned], script: Mapping[str, Vector] | None = None) -> None:
        super().__init__(inner, planned)
        self._script = dict(script or {})
        self._side: Any = None
        self._held: PartyData | None = None
        self._round, self._probe = 0, _Probe()
        self._open: int | None = None  # where in the log the noise of an objective waits for its model

    @property
    def drawn(self) -> dict[str, Vector]:
        """By name: the noise of the first pass that has a density."""
        return {name: what[0] for name, what, _ in self._log if isinstance(self._planned.get(name), AllowedNormNoise)}

    def watch(self, side: NodeSide, held: PartyData) -> None:
        """From now on this side makes the releases, from these rows."""
        self._side, self._held = side, held

    def begin(self, round_: int, inbox: Mapping[str, Arrays]) -> None:
        """A round begins: see where it would end without noise."""
        self._round, self._open = round_, None
        if at_round(NOISE, round_) in self._planned:
            self._probe = _Probe.of(self._side, round_, inbox)

    def end(self) -> None:
        """A round has ended: the first pass learns the model that its noise led to."""
        if self._open is not None:
            name, (noise, objective), _ = self._log[self._open]
            self._log[self._open] = (name, (noise, objective), np.array(self._side.model))

    def add(self, name: str, value: npt.ArrayLike) -> Vector:
        """A Gaussian release, recorded or replayed; what is scripted is released as it is."""
        if self._at is None and name in self._script:
            now, noisy = np.array(value, dtype=np.float64), np.array(self._script[name])
            self._sd(name)
            self._log.append((name, now, noisy))
            return np.array(noisy)
        return super().add(name, value)

    def respond(self, name: str, symbols: npt.ArrayLike) -> Symbols:
        """Randomized symbols, which never leave a node: any two outcomes of the record that changed are compared."""
        self._epsilon(name)
        now = np.array(symbols, dtype=np.int64)
        if self._at is None:
            said = self._inner.respond(name, now)
            self._log.append((name, now, np.array(said)))
            return said
        before, said = self._next(name, now.shape)
        return np.asarray(np.where(now == before, said, 1 - said))

    def draw(self, name: str, size: int) -> Vector:
        """Noise of a density: recorded, or the one that leads to the same release."""
        rate, probe = self._rate(name), self._probe
        objective = Objective.of(self._side, self._held) if self._held and probe.inside else None
        if self._at is None:
            return self._first_draw(name, size, probe, objective)
        (noise, before), released = self._next(name, ())
        if objective is None:
            found = np.asarray(released - probe.model)
            # the next release may lie anywhere: further along the line of the two models, it tells them apart best
            self.cost.densities[name] = rate * float(np.linalg.norm(probe.model - before))
            self.cost.evidence += rate * (float(np.linalg.norm(noise)) - float(np.linalg.norm(found)))
            return found
        found = objective.noise(probe.model, released, self._round)
        change = rate * (float(np.linalg.norm(noise)) - float(np.linalg.norm(found)))
        change += objective.log_volume(released, self._round) - before.log_volume(released, self._round)
        self.cost.densities[name] = abs(change)
        self.cost.evidence += change
        return found

    def _first_draw(self, name: str, size: int, probe: _Probe, objective: Objective | None) -> Vector:
        wanted = self._script.get(name)
        if wanted is None:
            noise = self._inner.draw(name, size)
        else:
            noise = wanted - probe.model if objective is None else objective.noise(probe.model, wanted, self._round)
        if objective is None:
            self._log.append((name, (noise, np.array(probe.model)), probe.model + noise))
        else:
            self._open = len(self._log)
            self._log.append((name, (noise, objective), None))
        return np.array(noise)

    def _next(self, name: str, shape: tuple[int, ...]) -> tuple[Any, Any]:
        if isinstance(self._planned.get(name), AllowedNormNoise):
            assert self._at is not None
            if self._at >= len(self._log) or self._log[self._at][0] != name:
                raise RunError(f"the neighbour draws {name} out of turn: what is released depends on the data")
            self._at += 1
            return self._log[self._at - 1][1:]
        return super()._next(name, shape)

    def _rate(self, name: str) -> float:
        planned = self._planned.get(name)
        if not isinstance(planned, AllowedNormNoise):
            raise RunError(f"{name} was not planned as noise of an objective")
        return planned.rate


class _Probe:
    """A release without noise: where a round ends without it, and whether noise is drawn before it is solved."""

    def __init__(self) -> None:
        self.owner, self.model, self.inside = "", np.zeros(0), False
        self._side: Any = None
        self._before: Any = None

    @classmethod
    def of(cls, side: Any, round_: int, inbox: Mapping[str, Arrays]) -> _Probe:
        """Of one round of a side, which stays as it is: its state is replaced in a round, never written into."""
        probe, other = cls(), copy.copy(side)
        other.release = probe
        probe._side, probe._before = other, other.model
        other.step(round_, inbox)
        probe.model = np.array(other.model)
        return probe

    def draw(self, name: str, size: int) -> Vector:
        """Zeros in place of noise; note whether the round is not solved yet."""
        self.inside = self._side.model is self._before
        return np.zeros(size)

    def add(self, name: str, value: npt.ArrayLike) -> Vector:
        """The value as it is."""
        return np.array(value, dtype=np.float64)


class TappedSide:
    """A node's side that tells a replay when its rounds begin and end."""

    def __init__(self, side: NodeSide, replay: NodeReplay) -> None:
        self._side, self._replay = side, replay

    @property
    def coef(self) -> Vector:
        """The coefficients of the node whose side this is."""
        return self._side.coef

    @property
    def intercept(self) -> Any:
        """The intercept of the node whose side this is."""
        return self._side.intercept

    @property
    def progress(self) -> NodeProgress:
        """How far the node has come."""
        return self._side.progress

    def step(self, round_: int, inbox: Mapping[str, Arrays]) -> Arrays | Sent:
        """Play a round, and tell the replay when it begins and ends."""
        self._replay.begin(round_, inbox)
        sent = self._side.step(round_, inbox)
        self._replay.end()
        return sent

    def finish(self, inbox: Mapping[str, Arrays]) -> None:
        """Take in the messages of the last round, as the side itself does."""
        self._side.finish(inbox)

    def state(self) -> Arrays:
        """The state of the side that is told about."""
        return self._side.state()

    def restore(self, state: Arrays) -> None:
        """Put the side back into an earlier state."""
        self._side.restore(state)
