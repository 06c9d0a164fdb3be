"""The software that computed a run.

What the trace of a private run may hold: public numbers, and functions of what was released; nothing else.

| field | why it may be there |
|---|---|
| round, rho, epsilon | public: of the plan, and of how far the run is |
| bytes_down, bytes_up | sizes of messages, which follow from public sizes |
| seconds | what the clock of whoever writes the trace says, who could look at any clock |
| primal | in the sample split: how far released models are from each other |

Where labels alone are randomized and rows are not protected, the run is an ordinary one on the labels that were drawn,
and so is its trace. Everywhere else an objective, a gap or the residual of a solve is a function of the rows without
noise. A row that holds one of them as a finite number is refused: the mistake is in the program, and it is found in the
first round of any run.
"""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from importlib import metadata
from types import MappingProxyType
from typing import Protocol

from tacit.errors import RunError
from tacit.plan import Plan
from tacit.run.coordinator import Coordinator
from tacit.solvers.base import Progress
from tacit.types import Message, Trace, TraceRow

# --- The software that computed a run


PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "pyarrow", "dp-accounting", "cryptography")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that compute runs."""
    return dict(_found())


@cache
def _found() -> MappingProxyType[str, str]:
    from tacit.version import __version__

    found = {"tacit": __version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "unknown"
    return MappingProxyType(found)


# --- What the trace of a private run may hold: public numbers, and functions of what was released; nothing else


PRIVATE_FIELDS = frozenset({"round", "rho", "epsilon", "bytes_down", "bytes_up", "seconds", "primal"})


def check_private(row: TraceRow) -> TraceRow:
    """The row, unless it holds what a private run must not tell; whether it does is never a matter of the data."""
    told = [one.name for one in fields(TraceRow) if one.name not in PRIVATE_FIELDS]
    found = [name for name in told if math.isfinite(getattr(row, name))]
    if found:
        raise RunError(f"the trace of a private run would hold {found[0]}, which is not released: nothing is written")
    return row


# --- Engines: how messages travel between the coordinator and the parties


class Engine(Protocol):
    """Carries one message to every party and their answers back."""

    def exchange(self, message: Message) -> list[Message]:
        """Send to every party; return the answers in the parties' order, without those of parties that are gone."""

    def close(self) -> None:
        """Release whatever the engine holds."""


# --- The loop of a run: broadcast, answers, combine, trace, stop. Written once for every algorithm and engine


Observer = Callable[[TraceRow], None]


@dataclass
class LoopState:
    """How far a run has come."""

    exchange: int = 0
    rounds: int = 0
    converged: bool = False
    note: str = ""
    seconds: float = 0.0
    down: int = 0  # bytes of the exchanges since the last whole round
    up: int = 0
    trace: Trace = field(default_factory=Trace)


Checkpoint = Callable[[LoopState], None]


def run_loop(
    plan: Plan,
    coordinator: Coordinator,
    engine: Engine,
    state: LoopState,
    observe: Observer | None = None,
    checkpoint: Checkpoint | None = None,
    exchanged: Checkpoint | None = None,
) -> LoopState:
    """Go on from `state` until the stopping rule holds, the rounds are used up, or the method gives up.

    `checkpoint` is called after every round; `exchanged` after every exchange, of which a round may have several, where
    parties in other processes have moved on with each.
    """
    clock = time.perf_counter() - state.seconds
    spent, most = spent_of(plan), plan.most_rounds
    while not state.converged and not state.note and state.rounds < most:
        state.exchange += 1
        message = coordinator.broadcast(state.exchange)
        answers = engine.exchange(message)
        state.down += message.nbytes * len(answers)
        state.up += sum(answer.nbytes for answer in answers)
        progress = coordinator.combine(state.exchange, answers)
        del answers  # their room is needed before the next ones come
        state.seconds = time.perf_counter() - clock
        if progress is not None:
            state.rounds += 1
            _record(plan, state, progress, spent)
            if observe:
                observe(state.trace[-1])
            if checkpoint:
                checkpoint(state)
        if exchanged:
            exchanged(state)
    engine.exchange(coordinator.closing(state.exchange + 1))
    state.seconds = time.perf_counter() - clock
    return state


def begin(coordinator: Coordinator, engine: Engine, intercept: float) -> None:
    """Start from the coefficients that the parties hold (a warm start): one exchange."""
    coordinator.take_start(engine.exchange(coordinator.ask_start()), intercept)


def agree(coordinator: Coordinator, engine: Engine, round_: int) -> None:
    """Let the parties agree on masks, which the coordinator cannot know: two exchanges."""
    keys = engine.exchange(coordinator.ask_keys(round_))
    engine.exchange(coordinator.pass_keys(round_, keys))


def traffic(trace: Sequence[TraceRow]) -> dict[str, int]:
    """Bytes of payload over the whole run."""
    return {
        "bytes_down": sum(row.bytes_down for row in trace),
        "bytes_up": sum(row.bytes_up for row in trace),
        "rounds": len(trace),
    }


def _record(plan: Plan, state: LoopState, progress: Progress, spent: float) -> None:
    state.converged, state.note = progress.done, progress.note
    private = plan.algorithm.noisy  # not where labels alone were randomized beforehand
    if not private and not math.isfinite(progress.objective):
        raise RunError(
            f"round {state.rounds}: the objective is not finite: scale the columns to moderate size "
            "(say, standard deviation 1) or raise alpha"
        )
    row = TraceRow(
        round=state.rounds,
        objective=progress.objective,
        gap=progress.gap,
        primal=progress.primal,
        dual=progress.dual,
        rho=progress.rho,
        stationarity=progress.stationarity,
        seconds=state.seconds,
        bytes_down=state.down,
        bytes_up=state.up,
        epsilon=spent,
    )
    state.trace.append(check_private(row) if private else row)
    state.down = state.up = 0


def spent_of(plan: Plan) -> float:
    """Epsilon of the planned run: its noise is calibrated to the whole, so that no part of it is claimed for less."""
    certificate = plan.certificate()
    return math.inf if certificate.target is None else certificate.epsilon(certificate.target.delta)
