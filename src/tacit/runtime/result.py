"""What a run leaves behind, and the one function that runs a plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.plan import Plan
from tacit.privacy.certificate import Certificate
from tacit.runtime.coordinator import Coordinator
from tacit.runtime.engines.in_process import InProcess
from tacit.runtime.loop import LoopState, Observer, begin, run_loop, traffic
from tacit.runtime.party import Party
from tacit.runtime.threads import fitting_threads
from tacit.types import Arrays, Shard, Trace, Vector

QUIET: dict[str, Any] = {"over": "ignore", "invalid": "ignore", "divide": "ignore"}  # what overflows is refused by name


@dataclass(frozen=True)
class PartyModel:
    """One party's part of the model: its score of a row is row . coef - offset."""

    name: str
    columns: tuple[str, ...]
    coef: Vector
    offset: float


@dataclass(frozen=True)
class RunResult:
    """A finished run: the model by party, its trace and its certificate."""

    plan: Plan
    parties: tuple[PartyModel, ...]
    constant: float
    trace: Trace
    certificate: Certificate
    converged: bool
    note: str
    seconds: float

    @property
    def intercept(self) -> float:
        """Intercept of the joint linear model."""
        return self.constant - sum(party.offset for party in self.parties)

    @property
    def traffic(self) -> dict[str, int]:
        """Bytes sent over the whole run."""
        return traffic(self.trace)


@dataclass(frozen=True)
class Start:
    """Coefficients by party and the intercept of the joint model to start from."""

    coefs: Sequence[Vector]
    intercept: float


class Run:
    """A plan with its parties and coordinator in this process: begin, go on, pause, finish."""

    def __init__(self, plan: Plan, shards: Sequence[Shard], labels: Vector) -> None:
        self.plan, self.shards = plan, shards
        make_shared = plan.algorithm.shared
        self.shared = make_shared(plan.problem) if make_shared else None
        with fitting_threads(shards), np.errstate(**QUIET):
            self.parties = [Party(shard, plan, self.shared) for shard in shards]
            self.coordinator = Coordinator(plan, labels)
        self.engine = InProcess(self.parties)
        self.state = LoopState()

    def start_from(self, start: Start) -> None:
        """Warm start."""
        for party, coef in zip(self.parties, start.coefs, strict=True):
            party.start_from(coef)
        centring = sum(
            float(p.block.centre @ c)
            for p, c in zip(self.parties, start.coefs, strict=True)
            if p.block.centre is not None
        )
        intercept = start.intercept + centring if self.plan.problem.fit_intercept else 0.0
        begin(self.coordinator, self.engine, intercept)

    def go(self, observe: Observer | None = None, checkpoint: Callable[[Run], None] | None = None) -> RunResult:
        """Run to the end."""
        keep = None if checkpoint is None else lambda _: checkpoint(self)
        with fitting_threads(self.shards), np.errstate(**QUIET):
            state = run_loop(self.plan, self.coordinator, self.engine, self.state, observe, keep)
        self.engine.close()
        models = tuple(PartyModel(p.name, p.columns, p.coef, p.offset) for p in self.parties)
        return RunResult(
            plan=self.plan,
            parties=models,
            constant=self.coordinator.side.intercept,
            trace=state.trace,
            certificate=self.plan.certificate(),
            converged=state.converged,
            note=state.note,
            seconds=state.seconds,
        )

    def snapshot(self) -> dict[str, Arrays]:
        """Everything needed to go on later, by who holds it."""
        states = {f"party:{party.name}": party.side.state() for party in self.parties}
        states["coordinator"] = self.coordinator.side.state()
        if self.shared is not None:
            states["shared"] = self.shared.state()
        return states

    def restore(self, states: dict[str, Arrays], state: LoopState) -> None:
        """Go on from a snapshot."""
        if self.shared is not None:
            self.shared.restore(states["shared"])
        for party in self.parties:
            party.side.restore(states[f"party:{party.name}"])
        self.coordinator.side.restore(states["coordinator"])
        self.state = state
