"""What the first node of a sample split does to lead it: it keeps the rounds in step, and sees no message of others.

Every node finds out for itself that the run is over, and tells the lead so. The trace holds what nodes tell of their
own progress; the objective of the joint model is known to nobody.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import tacit
from tacit.errors import RunError
from tacit.federation.lead import Replies, ask_all
from tacit.federation.node_work import NodeWork
from tacit.federation.site import Site, plan_print, read_text
from tacit.plan import GraphPlan
from tacit.plan.from_job import plan_nodes
from tacit.runtime.checkpoint import read_checkpoint, write_checkpoint
from tacit.runtime.files import read_json, write_json, write_text
from tacit.runtime.loop import LoopState, Observer, spent_of, traffic
from tacit.runtime.saved import FORMAT
from tacit.runtime.store import CHECKPOINT, JOB, RESULT, TRACE
from tacit.runtime.trace_file import growing_trace, write_trace
from tacit.types import Arrays, TraceRow


class GraphLead:
    """Leads one run of a sample split at its first node."""

    def __init__(self, site: Site, run: str, job_text: str) -> None:
        self.site, self.run, self.text = site, run, job_text
        self.state = LoopState()

    def go(self, observe: Observer | None = None) -> dict[str, Any]:
        """Run to the end, or go on from where the run was; what the lead may tell of it."""
        opening = {"run": self.run, "job": self.text, "version": tacit.__version__}
        names, folder = read_text(self.text).names, self.site.folder / self.run
        opened = self._ask(names, "open", opening)
        if (folder / RESULT).is_file():
            self._ask(names, "forget", {})
            return {"rounds": int(read_json(self.site.folder / self.run / RESULT)["rounds"])}
        work = self.site.work
        assert isinstance(work, NodeWork)
        self.task = work.task
        plan = self._plan(names, opened)
        self._go_on(plan, names)
        self._agree(plan, names)
        with growing_trace(folder / TRACE, self.state.trace) as add:
            self._ask(names, "again", {"round": self.state.rounds})
            self._rounds(plan, names, [add, *([observe] if observe else [])])
            self._ask(names, "finish", {"round": self.state.rounds + 1})
        self._ask(names, "end", {})
        state = self.state
        write_trace(folder / TRACE, state.trace)
        told = {"converged": state.converged, "note": state.note, "rounds": state.rounds}
        record = {"format": FORMAT, **told, "seconds": state.seconds, "traffic": traffic(state.trace)}
        write_json(folder / RESULT, record)
        (folder / CHECKPOINT).unlink(missing_ok=True)
        self._ask(names, "forget", {})
        return told

    def _ask(self, names: Sequence[str], step: str, payload: Mapping[str, Any]) -> Replies:
        return ask_all(self.site, names, step, payload)

    def _plan(self, names: Sequence[str], opened: Replies) -> GraphPlan:
        """The plan of the sizes that the nodes told; every node makes it again for itself."""
        first = opened[names[0]]
        for name in names:
            if opened[name]["names"] != first["names"]:
                raise RunError(f"party {name!r} has other columns than {names[0]!r}: all need the same, by name")
        rows = tuple(int(opened[name]["rows"]) for name in names)
        plan = plan_nodes(self.task.job, rows, int(first["columns"]), {})
        sizes = {"rows": list(rows), "columns": int(first["columns"]), "plan": plan_print(plan)}
        replies = self._ask(names, "begin", sizes)
        self.standing = {name: int(replies[name]["at"]) for name in names}
        return plan

    def _go_on(self, plan: GraphPlan, names: Sequence[str]) -> None:
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
        replies = self._ask(names, "keys", {})
        keys = [replies[name].get("key") for name in plan.graph.names if name != middle]
        if any(key is None for key in keys):
            raise RunError("a party sent no key for its masks")
        self._ask(names, "agree", {"keys": np.stack(keys)})  # type: ignore[arg-type]

    def _rounds(self, plan: GraphPlan, names: Sequence[str], observers: Sequence[Observer]) -> None:
        state, spent = self.state, spent_of(plan)
        clock = time.perf_counter() - state.seconds
        while not state.converged and not state.note and state.rounds < plan.most_rounds:
            told = list(self._ask(names, "play", {"round": state.rounds + 1}).values())
            state.exchange = state.rounds = state.rounds + 1
            done = [bool(one["done"]) for one in told]
            if any(done) != all(done):
                raise RunError(f"round {state.rounds}: {done.count(True)} of {len(done)} nodes would stop, others not")
            state.converged, state.note = all(done), next((str(one["note"]) for one in told if one["note"]), "")
            state.seconds = time.perf_counter() - clock
            row = TraceRow(
                round=state.rounds,
                objective=math.nan,
                gap=math.inf,
                primal=math.nan,
                dual=max(float(one["dual"]) for one in told),
                rho=float(told[0]["rho"]),
                stationarity=math.nan,
                seconds=state.seconds,
                bytes_down=0,
                bytes_up=sum(int(one["bytes"]) for one in told),
                epsilon=spent,
            )
            state.trace.append(row)
            for observe in observers:
                observe(row)
            write_checkpoint(self.task.folder / CHECKPOINT, self)  # type: ignore[arg-type]
