"""A site's part in a feature split: its party, answering the coordinator at the site that holds the labels."""

from __future__ import annotations

from typing import Any

import numpy as np

import tacit
from tacit.algorithms.base import Algorithm
from tacit.errors import RunError
from tacit.federation.journal import Journal, Record
from tacit.federation.matching import Matching
from tacit.federation.own_data import OwnFile, OwnRows, matrix_bytes, open_file
from tacit.federation.parts import part_of, write_about, write_certificate, write_part
from tacit.federation.site import Payload, Task, own_data
from tacit.federation.wire import from_plain, to_plain
from tacit.job.memory import check_as_they_are
from tacit.plan import Plan
from tacit.plan.budget import check_on_cluster
from tacit.plan.from_job import plan_job
from tacit.privacy.releases import arrays_digest, digest
from tacit.runtime.coordinator import NAME as COORDINATOR
from tacit.runtime.model import PartyModel
from tacit.runtime.party import Party
from tacit.runtime.result import QUIET
from tacit.runtime.threads import fitting_threads
from tacit.types import Arrays, Message

UNASKED = ("keys", "agree")  # about masks, which are never saved


class PartyWork:
    """One party of a feature split, from its file to its part of the model."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.file: OwnFile | None = None
        self.matching: Matching | None = None
        self.own: OwnRows | None = None
        self.plan: Plan | None = None
        self.party: Party | None = None  # None where the coordinator itself has this site's columns
        self.shared: Any = None
        self.sent: Message | None = None
        self.journal = Journal(task.folder / "journal")

    def handle(self, step: str, payload: Payload, caller: str) -> dict[str, Any]:
        """Do one step, for the lead alone."""
        if caller != self.task.lead:
            raise RunError(f"{caller!r} does not lead this job: refused")
        steps = {
            "open": self.open,
            "align": self.align,
            "shape": self.shape,
            "begin": self.begin,
            "answer": self.answer,
            "end": self.end,
            "forget": self.forget,
        }
        if step not in steps:
            raise RunError(f"there is no step {step[:40]!r} in a feature split")
        return steps[step](payload)

    def open(self, payload: Payload) -> dict[str, Any]:
        """Read the site's file."""
        task = self.task
        if task.dask is not None:
            check_as_they_are(task.job, "a site with dask")
        with own_data():
            file = self.file = open_file(task.job, task.name, task.data, task.dask)
            if file.spec.id is not None:
                self.matching = Matching(task.folder, task.name, task.job.names, file.ids, file.spec.id)
        aligned = "" if self.matching is None else self.matching.run
        return {"rows": file.rows, "version": tacit.__version__, "aligned": aligned}

    def align(self, payload: Payload) -> dict[str, Any]:
        """One question of a private alignment."""
        if self.matching is None:
            raise RunError(f"{self.task.name!r} has no ids in this job to align by")
        return self.matching.answer(payload)

    def shape(self, payload: Payload) -> dict[str, Any]:
        """Pick the common rows and encode the columns."""
        assert self.file is not None
        found = None if self.matching is None else self.matching.found
        if self.matching is not None and found is None:
            raise RunError(f"the rows of {self.task.name!r} were not aligned")
        with own_data():
            self.own = self.file.take(None if found is None else found.rows)
        features = self.own.shard.features
        return {"rows": features.shape[0], "columns": features.shape[1], "bytes": matrix_bytes(features)}

    def begin(self, payload: Payload) -> dict[str, Any]:
        """Make the plan, see whether to take part, and go on from the journal where there is one."""
        assert self.own is not None
        task, shard = self.task, self.own.shard
        rows, columns = int(payload["rows"]), tuple(int(count) for count in payload["columns"])
        if rows != shard.features.shape[0] or columns[task.job.names.index(task.name)] != shard.features.shape[1]:
            raise RunError(f"{task.lead!r} says other sizes than those of {task.name!r}: refused")
        plan = plan_job(task.job, rows, columns, int(payload["bytes"]))
        task.check_plan(plan, payload["plan"])
        if task.dask is not None:
            check_on_cluster(plan.method, private=plan.private is not None)
        task.gate.allow(task.run, task.job, plan, task.name)
        self.plan = plan
        if task.name in plan.asked_parties:
            self._make_party(plan)
        return {"at": max(self.journal.at, 0)}

    def _make_party(self, plan: Plan) -> None:
        assert self.own is not None
        make_shared = plan.algorithm.shared if isinstance(plan.algorithm, Algorithm) else None
        self.shared = make_shared(plan.problem) if make_shared else None
        with fitting_threads([self.own.shard]), np.errstate(**QUIET):
            self.party = Party(self.own.shard, plan, self.shared)
        if self.journal.last is None:
            self.journal.write(Record(0, "", {}, self._states()))  # the keys of the noise, before anything is sent
            return
        states = self.journal.last.states
        if self.shared is not None:
            self.shared.restore(states["shared"])
        self.party.restore(states["party"])

    def _states(self) -> dict[str, Arrays]:
        assert self.party is not None
        states = {"party": self.party.state()}
        return states if self.shared is None else {**states, "shared": self.shared.state()}

    def answer(self, payload: Payload) -> dict[str, Any]:
        """One exchange: an answer is made once, kept, and sent again as it was where it is asked for again."""
        if self.party is None:
            raise RunError(f"{self.task.name!r} has no answers to give in this job")
        message = from_plain(payload["message"], COORDINATOR)
        if message.kind in UNASKED:
            return {"message": to_plain(self.party.answer(message))}
        asked = f"{message.kind} {message.round} {digest(message)}"
        record = self.journal.find(message.round, asked)
        if record is None:
            record = self._answer(message, asked)
        if self.sent is None or self.sent.round != message.round:  # masks are used once: what was sent is sent again
            # Taken down once, also where the site died between its journal and its book.
            self.task.gate.released(self.task.run, message.round, arrays_digest(record.answer))
            self.sent = self.party.release(message, record.answer)
        return {"message": to_plain(self.sent)}

    def _answer(self, message: Message, asked: str) -> Record:
        assert self.party is not None
        assert self.own is not None
        with fitting_threads([self.own.shard]), np.errstate(**QUIET):
            answer: Arrays = dict(self.party.work(message))  # type: ignore[arg-type]
        record = Record(message.round, asked, answer, self._states())
        self.journal.write(record)
        return record

    def end(self, payload: Payload) -> dict[str, Any]:
        """Write this site's part of the model to its own disk; one that the coordinator made comes with the message."""
        assert self.own is not None
        assert self.plan is not None
        assert self.file is not None
        if payload.get("part") is not None:
            model = part_of(payload["part"], self.own.shard)
        else:
            party = self.party
            assert party is not None
            model = PartyModel(party.name, party.columns, party.coef, party.offset, party.clip)
        folder, encoding = self.task.folder, self.own.encoding
        write_part(folder, model, self.file.spec.id, encoding)
        write_about(folder, self.task.lead, self.task.job.names)
        write_certificate(folder, self.plan.certificate(), self.task.name, encoding, shared=False)
        return {}

    def forget(self, payload: Payload) -> dict[str, Any]:
        """Delete the journal of a run that is over everywhere."""
        self.journal.forget()
        return {}
