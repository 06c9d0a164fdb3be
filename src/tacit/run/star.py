"""A plan of a feature split with all its parties in this process: begin, go on, pause, finish."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tacit.blocks import block_of
from tacit.data.holdout import HeldOut
from tacit.errors import InputError, RunError
from tacit.mechanisms.base import UNMEASURED, about_curves
from tacit.plan import Plan
from tacit.run.coordinator import Coordinator
from tacit.run.drive import QUIET, Checkpoint, LoopState, Observer, drive, fitting_threads
from tacit.run.party import Party
from tacit.run.result import Model, PartyModel, Result, make_part, traffic, with_versions
from tacit.solvers.base import Progress
from tacit.solvers.memory.party import WindowView
from tacit.types import Arrays, Message, Shard, Vector

# --- Engines: how messages travel between the coordinator and the parties


class Engine(Protocol):
    """Carries one message to every party and their answers back."""

    def exchange(self, message: Message) -> list[Message]:
        """Send to every party; return the answers in the parties' order, without those of parties that are gone."""

    def close(self) -> None:
        """Release whatever the engine holds."""


# --- All parties in this process: messages are handed over, not copied


class InProcess:
    """The default engine.

    Parameters
    ----------
    parties : sequence of Party
    at_once : bool
        Whether parties answer at the same time, in threads: those that read their rows from disk wait for each other
        otherwise.
    """

    def __init__(self, parties: Sequence[Party], *, at_once: bool = False) -> None:
        self.parties = list(parties)
        self.threads = min(len(self.parties), os.cpu_count() or 1) if at_once else 1

    def exchange(self, message: Message) -> list[Message]:
        """Let every party answer, in turn or at once."""
        if self.threads == 1:
            return [party.answer(message) for party in self.parties]
        contexts = [copy_context() for _ in self.parties]  # with what numpy was told about overflow
        with ThreadPoolExecutor(self.threads) as pool:
            answer = [pool.submit(c.run, p.answer, message) for c, p in zip(contexts, self.parties, strict=True)]
            return [coming.result() for coming in answer]

    def close(self) -> None:
        """Nothing is held open."""


# --- A star: the coordinator and its parties, wherever these are


class Star:
    """What a session of the feature split does in each exchange: broadcast, answers, combine."""

    knows_objective = True

    def __init__(self, plan: Plan, coordinator: Coordinator, engine: Engine, state: LoopState) -> None:
        self.plan, self.coordinator, self.engine, self.state = plan, coordinator, engine, state

    def agree(self) -> None:
        """Let the parties agree on masks, which the coordinator cannot know, where the run has them: two exchanges."""
        if self.plan.secure:
            keys = self.engine.exchange(self.coordinator.ask_keys(self.state.exchange))
            self.engine.exchange(self.coordinator.pass_keys(self.state.exchange, keys))

    def exchange(self) -> Progress | None:
        """One broadcast and the answers to it."""
        state = self.state
        state.exchange += 1
        message = self.coordinator.broadcast(state.exchange)
        answers = self.engine.exchange(message)
        state.down += message.nbytes * len(answers)
        state.up += sum(answer.nbytes for answer in answers)
        return self.coordinator.combine(state.exchange, answers)

    def close(self) -> None:
        """The closing broadcast."""
        self.engine.exchange(self.coordinator.closing(self.state.exchange + 1))


# --- A star with all its parties in this process


@dataclass(frozen=True)
class Start:
    """Coefficients by party and the intercept of the joint model to start from."""

    coefs: Sequence[Vector]
    intercept: Any


class Run(Star):
    """The session of a plan with its parties and coordinator in this process: begin, go on, pause, finish."""

    def __init__(self, plan: Plan, shards: Sequence[Shard], labels: Vector, held: HeldOut | None = None) -> None:
        self.shards = shards
        aside = {} if held is None else {shard.name: shard for shard in held.shards}
        self.shared = plan.solver.make_shared(plan.problem)
        asked = [shard for shard in shards if shard.name in plan.asked_parties]
        self.holder = next((shard for shard in shards if shard.name not in plan.asked_parties), None)
        with fitting_threads(shards), np.errstate(**QUIET):
            self.parties = [Party(shard, plan, self.shared, held=aside.get(shard.name)) for shard in asked]
            own = None if self.holder is None else block_of(self.holder)
            rows = None
            if held is not None and self.holder is not None:
                rows = HeldOut((aside[self.holder.name],), held.labels)
            coordinator = Coordinator(plan, labels, own, rows)
        super().__init__(plan, coordinator, InProcess(self.parties, at_once=plan.problem.low_memory), LoopState())
        if isinstance(self.shared, WindowView):
            self.shared.watch(self.coordinator.side.window)
        self._agreed = False
        self._broken = False

    def start_from(self, start: Start) -> None:
        """Warm start: begin from coefficients that the parties then hold, by one exchange."""
        if self.plan.private is not None:
            raise InputError("warm_start=True is not available with privacy: a start must not depend on the data")
        for party, coef in zip(self.parties, start.coefs, strict=True):
            party.start_from(coef)
        self.agree()
        self.coordinator.take_start(self.engine.exchange(self.coordinator.ask_start()), start.intercept)

    def retune(self, plan: Plan) -> None:
        """Go on from the end of the last run with another alpha, where the method follows it."""
        self.plan = plan
        for party in self.parties:
            party.retune(plan)
        self.coordinator.retune(plan)
        self.state = LoopState(exchange=self.state.exchange + 1)  # the closing broadcast had a number too

    def agree(self) -> None:
        """Draw masks where the run has them: once, and again after every `restore`."""
        if not self._agreed:
            super().agree()
            self._agreed = True

    def go(self, observe: Observer | None = None, checkpoint: Checkpoint | None = None) -> Result:
        """Run to the end."""
        return drive(self, observe, checkpoint)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Agree on masks, with the threads that fit; a run that stops inside goes on from a snapshot only."""
        if self._broken:
            raise RunError("this run stopped in the middle of a round: make a new Run, and restore its last snapshot")
        self._broken = True  # until the end is reached
        self.agree()
        with fitting_threads(self.shards), np.errstate(**QUIET):
            yield
        self._broken = False
        self.engine.close()

    def result(self) -> Result:
        """The model by party, the trace and the certificate."""
        state, more = self.state, () if self.plan.problem.trees is None else ("lightgbm",)
        return Result(
            plan=self.plan,
            model=self._model(),
            trace=state.trace,
            certificate=with_versions(self.plan.certificate(), *more),
            converged=state.converged,
            note=state.note,
            seconds=state.seconds,
            traffic=traffic(state.trace),
            outlook=self._outlook(),
            boosting=getattr(self.coordinator.side, "history", None),
            tried=getattr(self.coordinator.side, "tried", None),
        )

    def _outlook(self) -> tuple[str, ...]:
        """What the run itself can tell about its use, before what the sizes said; functions of what was released."""
        if self.plan.private is None:
            return ()
        told, planned = getattr(self.coordinator.side, "outlook", ""), self.plan.private.outlook
        remarks, more = getattr(self.coordinator.side, "remarks", ()), about_curves(self.shards)
        if not told:
            return (*remarks, *planned, *more)
        return (told, *remarks, *(line for line in planned if not line.startswith(UNMEASURED)), *more)

    def _model(self) -> Model:
        """Every party's part, in the order of the plan, and what is added to their scores."""
        side, private = self.coordinator.side, self.plan.private
        if self.holder is None:
            parts = tuple(PartyModel(p.name, p.columns, p.model_coef, p.offset, p.clip) for p in self.parties)
        else:
            made, scale = side.parts(), float(getattr(side, "part_scale", 1.0))
            own = {p.name: p.model(scale) for p in self.parties if p.makes_part}
            parts = tuple(
                own.get(shard.name) or make_part(shard.name, shard.columns, made[shard.name]) for shard in self.shards
            )
        constant = side.intercept if np.ndim(side.intercept) else float(side.intercept)
        return Model(parts, constant, predictions_for=None if private is None else private.predictions_for)

    def snapshot(self) -> dict[str, Arrays]:
        """Everything needed to go on later, by who holds it."""
        states = {f"party:{party.name}": party.state() for party in self.parties}
        states["coordinator"] = self.coordinator.state()
        if self.shared is not None:
            states["shared"] = self.shared.state()
        return states

    def restore(self, states: dict[str, Arrays], state: LoopState) -> None:
        """Go on from a snapshot."""
        if self.shared is not None:
            self.shared.restore(states.get("shared", {}))
        self.coordinator.restore(states["coordinator"])  # first: parties may look at its window
        for party in self.parties:
            party.restore(states[f"party:{party.name}"])
        self.state, self._agreed, self._broken = state, False, False
