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
from tacit.federation.matching import from_reply, to_request
from tacit.federation.party_handler import UNASKED, PartyHandler, make_star_plan
from tacit.federation.protocol import (
    Answer,
    Answered,
    Begin,
    Begun,
    Done,
    End,
    Forget,
    Interrupted,
    Matched,
    Open,
    Opened,
    Packet,
    Prepare,
    Prepared,
    Reason,
    Refused,
    Reply,
    Shape,
    Shaped,
    Step,
)
from tacit.federation.shelf import Shelf
from tacit.federation.site import QUESTIONS, Site, plan_print, read_text, required
from tacit.plan import Plan
from tacit.privacy.releases import digest
from tacit.runtime.checkpoint import checkpoint_arrays, from_arrays
from tacit.runtime.coordinator import Coordinator
from tacit.runtime.files import read_json, write_json, write_text
from tacit.runtime.loop import LoopState, Observer, agree, run_loop, traffic
from tacit.runtime.model import PartyModel
from tacit.runtime.result import QUIET
from tacit.runtime.saved import FORMAT, JOINT, MODEL
from tacit.runtime.store import JOB, RESULT, TRACE
from tacit.runtime.threads import fitting_threads
from tacit.runtime.trace_file import growing_trace, write_trace
from tacit.types import Arrays, Message

ASKED_FIRST = (Prepare, Begin)  # steps before which people are asked, at the leading site first
LEAD = "lead"  # the folder of the coordinator's states


def ask_all(site: Site, names: Sequence[str], request: Step, kind: type[Reply] = Done) -> dict[str, Reply]:  # type: ignore[assignment]
    """Ask this site and others at once; raise where one of them does not do what it is asked, with its name.

    Raises
    ------
    PartyRefusedError
        Where one refuses.
    PartyInterruptedError
        Where one was interrupted, and none refuses.
    """
    others, replies = [name for name in names if name != site.name], {}
    if isinstance(request, ASKED_FIRST) and site.name in names:  # people decide: nobody else is asked after a no
        replies = {site.name: site.handle(request, site.name)}
        _check(replies)
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(site.ask, others, request) if others else None
        if site.name in names and not replies:
            replies = {site.name: site.handle(request, site.name)}
        if coming is not None:
            replies |= coming.result()
    _check({name: replies[name] for name in names})
    found = {name: reply for name in names if isinstance(reply := replies[name], kind)}
    if len(found) < len(names):
        strange = next(name for name in names if name not in found)
        raise RunError(f"party {strange!r} sent a reply that is not the one to {type(request).__name__}")
    return found


def _check(replies: Mapping[str, Step]) -> None:
    """Raise where a party refused, or else where one was interrupted."""
    for failure, error in ((Refused, PartyRefusedError), (Interrupted, PartyInterruptedError)):
        for name, reply in replies.items():
            if isinstance(reply, failure):
                raise error(name, reply.reason)


class PartyRefusedError(RunError):
    """A party does not do what it was asked: whose refusal, and its constant reason."""

    def __init__(self, party: str, reason: Reason) -> None:
        super().__init__(f"party {party!r}: {reason.line}")
        self.party, self.reason = party, reason


class PartyInterruptedError(FaultError):
    """A party could not do what it was asked, and nobody refused."""

    def __init__(self, party: str, reason: Reason) -> None:
        super().__init__(f"party {party!r}: {reason.line}")
        self.party, self.reason = party, reason


def outcome_line(error: Exception) -> str:
    """What the server, and with it whoever handed the job in, is told of a run that was refused: a constant line."""
    if isinstance(error, (PartyRefusedError, PartyInterruptedError)):
        return str(error)
    return "the leading party stopped the run; tacit status there says why"


def align_sites(site: Site, names: Sequence[str], prepared: Mapping[str, Prepared]) -> None:
    """Let sites find their common rows by private matching, where they have not all done so in this run before."""
    runs = {prepared[name].matched for name in names}
    if len(runs) == 1 and runs != {""}:
        return

    def ask(name: str, step: str, payload: dict[str, Any]) -> Any:
        return from_reply(ask_all(site, [name], to_request(step, payload), Matched)[name])

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
        replies = ask_all(self.site, self.names, Answer(message=Packet.of(message)), Answered)
        answers = [replies[name].message.message(name) for name in self.names]
        for answer in answers:
            if answer.kind != message.kind:
                raise RunError(f"party {answer.sender!r} sent an answer of kind {answer.kind!r} to {message.kind!r}")
        return answers

    def close(self) -> None:
        """Nothing is held open."""


class StarLead:
    """Leads one run of a feature split at the site that holds the labels."""

    def __init__(self, site: Site, run: str, job_text: str) -> None:
        self.site, self.run, self.text = site, run, job_text
        self.state = LoopState()

    def go(self, observe: Observer | None = None) -> int:
        """Run to the end, or go on from where the run was; the number of rounds."""
        site, names = self.site, read_text(self.text).names
        ask_all(site, names, Open(run=self.run, job=self.text, version=tacit.__version__), Opened)
        result = site.folder / self.run / RESULT
        if result.is_file():
            ask_all(site, names, Forget())
            return int(read_json(result)["rounds"])
        handler = site.handler
        if not isinstance(handler, PartyHandler):
            raise RunError("the job is not open here")
        self.handler, self.task = handler, handler.task
        self._align(names, ask_all(site, names, Prepare(), Prepared))
        plan = self._plan(names, ask_all(site, names, Shape(), Shaped))
        coordinator = self._coordinator(plan)
        self._train(plan, coordinator, observe)
        self._end(plan, names)
        ask_all(site, names, Forget())
        return self.state.rounds

    def _align(self, names: Sequence[str], prepared: Mapping[str, Prepared]) -> None:
        """Find the common rows by private matching, where the job names ids and all have not done so before."""
        by_id = {party.name: party.id is not None for party in self.task.job.parties}
        if not any(by_id.values()) or len(names) < 2:
            return
        if not all(by_id.values()):
            name = next(name for name, known in by_id.items() if not known)
            raise RunError(f"party {name!r} has no id column in the job, others have: give each one, or none")
        align_sites(self.site, names, prepared)

    def _plan(self, names: Sequence[str], shapes: Mapping[str, Shaped]) -> Plan:
        """The plan of the sizes that the parties told; every party makes it again for itself."""
        rows = {name: shapes[name].rows for name in names}
        if len(set(rows.values())) > 1:
            held = ", ".join(f"{name!r} has {count}" for name, count in rows.items())
            raise RunError(f"the parties have different numbers of rows ({held}): name an id column for each party")
        count, columns = rows[names[0]], tuple(shapes[name].columns for name in names)
        plan = make_star_plan(self.task, count, columns)
        replies = ask_all(self.site, names, Begin(rows=[count], columns=list(columns), plan=plan_print(plan)), Begun)
        self.standing = {name: replies[name].at for name in plan.asked_parties}
        return plan

    def _coordinator(self, plan: Plan) -> Coordinator:
        own = required(self.handler.own)
        labels = required(own.labels)
        block = None if self.task.name in plan.asked_parties else make_block(own.shard.features)
        with fitting_threads([own.shard]), np.errstate(**QUIET):
            self.coordinator = Coordinator(plan, labels.values, block)
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

    def _train(self, plan: Plan, coordinator: Coordinator, observe: Observer | None) -> None:
        engine, folder, state = Sites(self.site, self.run, plan), self.task.folder, self.state
        if plan.secure:
            agree(coordinator, engine, state.exchange)
        own = required(self.handler.own)
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

    def _end(self, plan: Plan, names: Sequence[str]) -> None:
        """Every site writes its own part, made from its own fit; the lead, last, what belongs to no single one."""
        state, folder, own = self.state, self.task.folder, required(self.handler.own)
        asked = plan.asked_parties
        ask_all(self.site, asked, End(scale=float(getattr(self.coordinator.side, "part_scale", 1.0))))
        if self.task.name not in asked:
            part = self.coordinator.side.parts()[self.task.name]
            self.handler.keep_part(PartyModel(self.task.name, own.shard.columns, **part))
        private = plan.private
        joint = {
            "format": FORMAT,
            "loss": self.task.job.model.loss,
            "task": plan.problem.loss.task,
            "classes": list(required(own.labels).classes),
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
