"""What the first node of a sample split does to lead it: it keeps the rounds in step, and sees no message of others.

Every node finds out for itself that the run is over, and tells the lead so. The trace holds what nodes tell of their
own progress, which is nothing in a private run; the objective of the joint model is known to nobody.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence

import numpy as np

import tacit
from tacit.errors import RunError
from tacit.federation.lead import ask_all
from tacit.federation.node_handler import NodeHandler
from tacit.federation.protocol import (
    Agree,
    Begin,
    Begun,
    End,
    Finish,
    Forget,
    Key,
    Keys,
    Numbers,
    Open,
    Opened,
    Play,
    Played,
    Prepare,
    Prepared,
    Resend,
)
from tacit.federation.site import Site, plan_print, read_text, required
from tacit.plan import GraphPlan
from tacit.plan.from_job import plan_nodes
from tacit.runtime.checkpoint import read_checkpoint, write_checkpoint
from tacit.runtime.files import read_json, write_json, write_text
from tacit.runtime.loop import LoopState, Observer, spent_of, traffic
from tacit.runtime.private_trace import check_private
from tacit.runtime.saved import FORMAT
from tacit.runtime.store import CHECKPOINT, JOB, RESULT, TRACE
from tacit.runtime.trace_file import growing_trace, write_trace
from tacit.types import Arrays, TraceRow


class GraphLead:
    """Leads one run of a sample split at its first node."""

    def __init__(self, site: Site, run: str, job_text: str) -> None:
        self.site, self.run, self.text = site, run, job_text
        self.state = LoopState()

    def go(self, observe: Observer | None = None) -> int:
        """Run to the end, or go on from where the run was; the number of rounds."""
        site, names, folder = self.site, read_text(self.text).names, self.site.folder / self.run
        ask_all(site, names, Open(run=self.run, job=self.text, version=tacit.__version__), Opened)
        if (folder / RESULT).is_file():
            ask_all(site, names, Forget())
            return int(read_json(folder / RESULT)["rounds"])
        handler = site.handler
        if not isinstance(handler, NodeHandler):
            raise RunError("the job is not open here")
        self.handler, self.task = handler, handler.task
        plan = self._plan(names, ask_all(site, names, Prepare(), Prepared))
        self._go_on(names)
        self._agree(plan, names)
        with growing_trace(folder / TRACE, self.state.trace) as add:
            ask_all(site, names, Resend(round=self.state.rounds))
            self._rounds(plan, names, [add, *([observe] if observe else [])])
            ask_all(site, names, Finish(round=self.state.rounds + 1))
        ask_all(site, names, End())
        state = self.state
        write_trace(folder / TRACE, state.trace)
        told = {"converged": state.converged, "note": state.note, "rounds": state.rounds}
        record = {"format": FORMAT, **told, "seconds": state.seconds, "traffic": traffic(state.trace)}
        write_json(folder / RESULT, record)
        (folder / CHECKPOINT).unlink(missing_ok=True)
        ask_all(site, names, Forget())
        return state.rounds

    def _plan(self, names: Sequence[str], prepared: Mapping[str, Prepared]) -> GraphPlan:
        """The plan of the sizes that the nodes told; every node makes it again for itself."""
        first = prepared[names[0]]
        for name in names:
            if (prepared[name].names, prepared[name].columns) != (first.names, first.columns):
                raise RunError(f"party {name!r} has different columns than {names[0]!r}: all need the same, by name")
        rows = tuple(prepared[name].rows for name in names)
        plan = plan_nodes(self.task.job, rows, first.columns, {})
        sizes = Begin(rows=list(rows), columns=[first.columns], plan=plan_print(plan))
        replies = ask_all(self.site, names, sizes, Begun)
        self.standing = {name: replies[name].at for name in names}
        return plan

    def _go_on(self, names: Sequence[str]) -> None:
        checkpoint = self.task.folder / CHECKPOINT
        if checkpoint.exists():
            self.state = read_checkpoint(checkpoint)[1]
        else:
            write_text(self.task.folder / JOB, self.text)
            write_checkpoint(checkpoint, self)  # type: ignore[arg-type]
        for name, at in self.standing.items():
            if at not in (self.state.rounds, self.state.rounds + 1):
                raise RunError(
                    f"party {name!r} stands at round {at}, the lead at {self.state.rounds}: one of them lost what it "
                    "had written; run the job again from the beginning"
                )

    def snapshot(self) -> dict[str, Arrays]:
        """The lead has no arrays of its own."""
        return {}

    def _agree(self, plan: GraphPlan, names: Sequence[str]) -> None:
        """Pass the keys of masks on, where the run has them."""
        if plan.private is None or not plan.private.masked:
            return
        middle = plan.graph.names[plan.graph.centre]
        replies = ask_all(self.site, names, Keys(), Key)
        keys = [key.array() for name in plan.graph.names if name != middle and (key := replies[name].key) is not None]
        if len(keys) < len(names) - 1:
            raise RunError("a party sent no key for its masks")
        ask_all(self.site, names, Agree(keys=Numbers.of(np.stack(keys))))

    def _rounds(self, plan: GraphPlan, names: Sequence[str], observers: Sequence[Observer]) -> None:
        state, spent = self.state, spent_of(plan)
        clock = time.perf_counter() - state.seconds
        while not state.converged and not state.note and state.rounds < plan.most_rounds:
            told = list(ask_all(self.site, names, Play(round=state.rounds + 1), Played).values())
            state.exchange = state.rounds = state.rounds + 1
            done = [one.done for one in told]
            if any(done) != all(done):
                raise RunError(f"round {state.rounds}: {done.count(True)} of {len(done)} nodes would stop, others not")
            state.converged = all(done)
            state.seconds = time.perf_counter() - clock
            residuals = [one.residual for one in told if one.residual is not None]
            row = TraceRow(
                round=state.rounds,
                objective=math.nan,
                gap=math.inf,
                primal=math.nan,
                dual=max(residuals) if len(residuals) == len(told) else math.nan,
                rho=required(self.handler.node).progress.rho,
                stationarity=math.nan,
                seconds=state.seconds,
                bytes_down=0,
                bytes_up=sum(one.sent for one in told),
                epsilon=spent,
            )
            state.trace.append(row if plan.private is None else check_private(row))
            for observe in observers:
                observe(row)
            write_checkpoint(self.task.folder / CHECKPOINT, self)  # type: ignore[arg-type]
