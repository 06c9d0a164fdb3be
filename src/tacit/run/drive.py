"""The one loop of a run, and the session that it drives: exchange, trace, stop.

The trace of a private run holds public numbers and functions of what was released, and nothing else:

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
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, Protocol, TypeVar

from scipy import sparse
from threadpoolctl import ThreadpoolController

from tacit.columns.compact import CurveMatrix
from tacit.data.cluster import ClusterRows
from tacit.data.rows_on_disk import RowsOnDisk
from tacit.errors import RunError
from tacit.plan import Plan
from tacit.solvers.base import Progress
from tacit.types import Arrays, Shard, Trace, TraceRow

# --- What the trace of a private run may hold: public numbers, and functions of what was released; nothing else


PRIVATE_FIELDS = frozenset({"round", "rho", "epsilon", "bytes_down", "bytes_up", "seconds", "primal"})


def check_private(row: TraceRow) -> TraceRow:
    """The row, unless it holds what a private run must not tell; whether it does is never a matter of the data."""
    told = [one.name for one in fields(TraceRow) if one.name not in PRIVATE_FIELDS]
    found = [name for name in told if math.isfinite(getattr(row, name))]
    if found:
        raise RunError(f"the trace of a private run would hold {found[0]}, which is not released: nothing is written")
    return row


# --- A session: one run, star or graph, in this process or between sites


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


Ending_co = TypeVar("Ending_co", covariant=True)


class Session(Protocol[Ending_co]):
    """One run as the loop sees it; it ends in a `Result`, or in nothing where the parts of the model stay elsewhere.

    Attributes
    ----------
    plan : Plan
    state : LoopState
        How far it has come. `exchange` counts exchanges and bytes in it; `drive` does the rest.
    knows_objective : bool
        Whether this process knows the objective: where nodes of a graph run at their sites, nobody does.
    """

    knows_objective: bool

    @property
    def plan(self) -> Plan:
        """What is run."""

    @property
    def state(self) -> LoopState:
        """How far it has come."""

    def running(self) -> AbstractContextManager[Any]:
        """What holds while the run goes on: its masks are agreed on, and linear algebra has its threads."""

    def exchange(self) -> Progress | None:
        """One exchange with everybody; None where no round ended with it."""

    def close(self) -> None:
        """The closing exchange, after which every party has its part of the model."""

    def result(self) -> Ending_co:
        """What came out, after the end."""

    def snapshot(self) -> dict[str, Arrays]:
        """Everything needed to go on later, by who holds it."""

    def restore(self, states: dict[str, Arrays], state: LoopState) -> None:
        """Go on from a snapshot."""


# --- The loop of a run: exchange, trace, stop. Written once for every session


QUIET: dict[str, Any] = {"over": "ignore", "invalid": "ignore", "divide": "ignore"}  # what overflows is refused by name
Observer = Callable[[TraceRow], None]
Checkpoint = Callable[[Any], None]  # takes the session
Ending = TypeVar("Ending")


def drive(
    session: Session[Ending],
    observe: Observer | None = None,
    checkpoint: Checkpoint | None = None,
    exchanged: Checkpoint | None = None,
) -> Ending:
    """Go on from the session's state until the stopping rule holds, the rounds are used up, or the method gives up.

    `observe` sees the row of the trace after every round, and `checkpoint` the session. `exchanged` sees the session
    after every exchange, of which a round may have several, where parties in other processes have moved on with each.
    """
    state, spent = session.state, spent_of(session.plan)
    with session.running():
        clock = time.perf_counter() - state.seconds
        while not state.converged and not state.note and state.rounds < session.plan.most_rounds:
            progress = session.exchange()
            state.seconds = time.perf_counter() - clock
            if progress is not None:
                row = _record(session, progress, spent)
                if observe:
                    observe(row)
                if checkpoint:
                    checkpoint(session)
            if exchanged:
                exchanged(session)
        session.close()
        state.seconds = time.perf_counter() - clock
    return session.result()


def _record(session: Session[Any], progress: Progress, spent: float) -> TraceRow:
    """Count a round, write its row of the trace, and see whether the run is over."""
    state, planned = session.state, session.plan.private
    state.rounds += 1
    state.converged, state.note = progress.done, progress.note
    private = planned is not None and planned.solver is not None  # not where labels alone were randomized beforehand
    if not private and session.knows_objective and not math.isfinite(progress.objective):
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
    return row


def spent_of(plan: Plan) -> float:
    """Epsilon of the planned run: its noise is calibrated to the whole, so that no part of it is claimed for less."""
    certificate = plan.certificate()
    return math.inf if certificate.target is None else certificate.epsilon(certificate.target.delta)


# --- How many threads linear algebra gets: one where the products are too small to share out. On a busy machine, waking
# threads for products of microseconds costs ten times the products themselves


LARGE = 20_000_000  # entries of one dense block from which threads pay for products with vectors
WIDE, WIDE_LARGE = 200, 4_000_000  # columns and entries from which they pay for its Gram matrix


def fitting_threads(shards: Sequence[Shard]) -> AbstractContextManager[Any]:
    """Context in which a run on these shards should be made and run."""
    held = [shard.features for shard in shards if not sparse.issparse(shard.features)]
    elsewhere = (RowsOnDisk, ClusterRows, CurveMatrix)  # these come in pieces, or are not here
    shapes = [features.shape for features in held if not isinstance(features, elsewhere)]
    if any(n * d >= LARGE or (d >= WIDE and n * d >= WIDE_LARGE) for n, d in shapes):
        return nullcontext()
    context: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return context


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
