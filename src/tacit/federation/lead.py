"""What the site that holds the labels does to lead a feature split: it asks the others, and runs the coordinator.

The loop, the coordinator and the parties are those of a run in one process; only the engine differs. After every
exchange the coordinator's state is on the lead's own disk, and the answers are on the disks of those who gave them: at
most one exchange is asked for again, with the same numbers, and the same answers come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import tacit
from tacit.algorithms.make_block import make_block
from tacit.alignment import align
from tacit.errors import FaultError, RunError
from tacit.federation.parts import part_to_plain
from tacit.federation.party_work import UNASKED, PartyWork
from tacit.federation.shelf import Shelf
from tacit.federation.site import Site, plan_print, read_text
from tacit.federation.wire import from_plain, to_plain
from tacit.plan import Plan
from tacit.plan.from_job import plan_job
from tacit.privacy.releases import digest
from tacit.runtime.checkpoint import checkpoint_arrays, from_arrays
from tacit.runtime.coordinator import Coordinator
from tacit.runtime.files import read_json, write_json, write_text
from tacit.runtime.loop import LoopState, Observer, agree, run_loop, traffic
from tacit.runtime.result import QUIET
from tacit.runtime.saved import FORMAT, JOINT, MODEL
from tacit.runtime.store import JOB, RESULT, TRACE
from tacit.runtime.threads import fitting_threads
from tacit.runtime.trace_file import growing_trace, write_trace
from tacit.types import Arrays, Message

Replies = dict[str, dict[str, Any]]
LEAD = "lead"  # the folder of the coordinator's states
QUESTIONS = 500_000_000  # from here on the lead's book numbers what the coordinator sends; below, what its party answers


def ask_all(site: Site, names: Sequence[str], step: str, payload: Mapping[str, Any]) -> Replies:
    """Ask this site and others at once; raise where one of them does not answer as asked, with its name.

    Raises
    ------
    RunError
        Where one refuses.
    FaultError
        Where one was interrupted, and none refuses.
    """
    others = [name for name in names if name != site.name]
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(site.ask, others, step, payload) if others else None
        replies = {site.name: site.handle(step, payload, site.name)} if site.name in names else {}
        if coming is not None:
            replies |= coming.result()
    for key, kind in (("error", RunError), ("fault", FaultError)):
        for name in names:
            if replies[name].get(key):
                raise kind(f"party {name!r}: {replies[name][key]}")
    return replies


def align_sites(site: Site, names: Sequence[str], opened: Replies) -> None:
    """Let sites find their common rows by private alignment, where they have not all done so in this run before."""
    runs = {opened[name].get("aligned") for name in names}
    if len(runs) == 1 and runs != {""}:
        return

    def ask(name: str, step: str, payload: dict[str, Any]) -> Any:
        return ask_all(site, [name], "align", {"step": step, "payload": payload})[name]["reply"]

    align(names, ask, at_once=True)


class Sites:
    """The engine between organisations: the lead's own party answers here, the others where they are."""

    def __init__(self, site: Site, run: str, plan: Plan) -> None:
        self.site, self.run, self.names = site, run, list(plan.asked_parties)
        self.private = plan.private is not None

    def exchange(self, message: Message) -> list[Message]:
        """Ask every party; their answers in the parties' order."""
        if self.private and message.kind not in UNASKED:  # what the labels say with noise is a release too: once
            self.site.gate.released(self.run, QUESTIONS + message.round, digest(message))
        replies = ask_all(self.site, self.names, "answer", {"message": to_plain(message)})
        return [from_plain(replies[name].get("message"), name) for name in self.names]

    def close(self) -> None:
        """Nothing is held open."""


class StarLead:
    """Leads one run of a feature split at the site that holds the labels."""

    def __init__(self, site: Site, run: str, job_text: str) -> None:
        self.site, self.run, self.text = site, run, job_text
        self.state = LoopState()

    def go(self, observe: Observer | None = None) -> dict[str, Any]:
        """Run to the end, or go on from where the run was; what the lead may tell of it."""
        names = read_text(self.text).names
        opening = {"run": self.run, "job": self.text, "version": tacit.__version__}
        opened = self._ask(names, "open", opening)
        if (self.site.folder / self.run / RESULT).is_file():
            self._ask(names, "forget", {})
            return {"rounds": int(read_json(self.site.folder / self.run / RESULT)["rounds"])}
        work = self.site.work
        assert isinstance(work, PartyWork)
        self.work, self.task = work, work.task
        self._align(names, opened)
        plan = self._plan(names, self._ask(names, "shape", {}))
        coordinator = self._coordinator(plan)
        result = self._train(plan, coordinator, observe)
        self._end(plan, coordinator, names)
        self._ask(names, "forget", {})
        return result

    def _align(self, names: Sequence[str], opened: Replies) -> None:
        """Find the common rows by private alignment, where the job names ids and all have not done so before."""
        by_id = {party.name: party.id is not None for party in self.task.job.parties}
        if not any(by_id.values()) or len(names) < 2:
            return
        if not all(by_id.values()):
            name = next(name for name, known in by_id.items() if not known)
            raise RunError(f"party {name!r} has no id column in the job, others have: give each one, or none")
        align_sites(self.site, names, opened)

    def _ask(self, names: Sequence[str], step: str, payload: Mapping[str, Any]) -> Replies:
        return ask_all(self.site, names, step, payload)

    def _plan(self, names: Sequence[str], shapes: Replies) -> Plan:
        """The plan of the sizes that the parties told; every party makes it again for itself."""
        rows = {name: int(shapes[name]["rows"]) for name in names}
        if len(set(rows.values())) > 1:
            held = ", ".join(f"{name!r} has {count}" for name, count in rows.items())
            raise RunError(f"the parties have different numbers of rows ({held}): name an id column for each party")
        columns = tuple(int(shapes[name]["columns"]) for name in names)
        size = sum(int(shapes[name]["bytes"]) for name in names)
        plan = plan_job(self.task.job, next(iter(rows.values())), columns, size)
        sizes = {"rows": plan.problem.rows, "columns": list(columns), "bytes": size, "plan": plan_print(plan)}
        replies = self._ask(names, "begin", sizes)
        self.standing = {name: int(replies[name]["at"]) for name in plan.asked_parties}
        return plan

    def _coordinator(self, plan: Plan) -> Coordinator:
        own = self.work.own
        assert own is not None
        assert own.labels is not None
        block = None if self.task.name in plan.asked_parties else make_block(own.shard.features)
        with fitting_threads([own.shard]), np.errstate(**QUIET):
            self.coordinator = Coordinator(plan, own.labels.values, block)
        self.shelf = Shelf(self.task.folder / LEAD, 1)
        if self.shelf.numbers():
            states, self.state = from_arrays(self.shelf.get(self.shelf.numbers()[-1])[0])
            self.coordinator.restore(states["coordinator"])
        else:
            write_text(self.task.folder / JOB, self.text)
            self._keep()
        for name, at in self.standing.items():
            if at not in (self.state.exchange, self.state.exchange + 1):
                raise RunError(
                    f"party {name!r} stands at exchange {at}, the coordinator at {self.state.exchange}: "
                    "one of them lost what it had written; run the job again from the beginning"
                )
        return self.coordinator

    def _keep(self) -> None:
        """Have the coordinator's state on the disk before the next exchange begins."""
        self.shelf.put(self.state.exchange, checkpoint_arrays(self), {})  # type: ignore[arg-type]

    def snapshot(self) -> dict[str, Arrays]:
        """The coordinator's state, for its checkpoint."""
        return {"coordinator": self.coordinator.state()}

    def _train(self, plan: Plan, coordinator: Coordinator, observe: Observer | None) -> dict[str, Any]:
        engine, folder, state = Sites(self.site, self.run, plan), self.task.folder, self.state
        if plan.secure:
            agree(coordinator, engine, state.exchange)
        own = self.work.own
        assert own is not None
        with (
            fitting_threads([own.shard]),
            np.errstate(**QUIET),
            growing_trace(folder / TRACE, state.trace) as add,
        ):

            def after(row: Any) -> None:
                add(row)
                if observe:
                    observe(row)

            run_loop(plan, coordinator, engine, state, after, exchanged=lambda _: self._keep())
        last = state.trace[-1]
        return {"rounds": state.rounds, "converged": state.converged, "note": state.note, "objective": last.objective}

    def _end(self, plan: Plan, coordinator: Coordinator, names: Sequence[str]) -> None:
        """Every site writes its own part; the lead, last, what belongs to no single one."""
        state, folder, own = self.state, self.task.folder, self.work.own
        assert own is not None
        assert own.labels is not None
        gathered = {} if self.task.name in plan.asked_parties else self.coordinator.side.parts()
        for name in names:
            self._ask([name], "end", {"part": part_to_plain(gathered[name])} if gathered else {})
        private = plan.private
        joint = {
            "format": FORMAT,
            "loss": self.task.job.model.loss,
            "task": plan.problem.loss.task,
            "classes": list(own.labels.classes),
            "parties": list(names),
            "constant": float(self.coordinator.side.intercept),
            "predictions_for": None if private is None else private.predictions_for,
        }
        write_json(folder / MODEL / f"{JOINT}.json", joint)
        write_trace(folder / TRACE, state.trace)
        write_json(
            folder / RESULT,
            {
                "format": FORMAT,
                "converged": state.converged,
                "note": state.note,
                "rounds": state.rounds,
                "seconds": state.seconds,
                "traffic": traffic(state.trace),
            },
        )
        self.shelf.forget()
