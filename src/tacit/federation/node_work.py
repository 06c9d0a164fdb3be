"""A site's part in a sample split: its node, talking to its neighbours and to nobody else."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import tacit
from tacit.errors import FaultError, RunError
from tacit.federation.journal import Journal, Record
from tacit.federation.own_data import OwnRows, open_node
from tacit.federation.parts import write_about, write_certificate, write_part, write_whole
from tacit.federation.site import Ask, Payload, Task, own_data
from tacit.federation.wire import from_plain, to_plain
from tacit.plan import GraphPlan
from tacit.plan.from_job import plan_nodes
from tacit.privacy.releases import arrays_digest
from tacit.runtime.files import write_json
from tacit.runtime.graph.node import TO_ALL, TO_ONE, Node, Outbox
from tacit.runtime.model import PartyModel
from tacit.runtime.result import QUIET
from tacit.runtime.saved import FORMAT
from tacit.runtime.store import RESULT
from tacit.runtime.threads import fitting_threads
from tacit.types import Arrays, Message


class NodeWork:
    """One node of a sample split, from its file to its model."""

    def __init__(self, task: Task, ask: Ask) -> None:
        self.task, self.ask = task, ask
        self.own: OwnRows | None = None
        self.plan: GraphPlan | None = None
        self.node: Node | None = None
        self.journal = Journal(task.folder / "journal")
        self.inboxes: dict[int, dict[str, Message]] = {}  # by round, then by neighbour
        self.outboxes: dict[int, Outbox] = {}  # what was sent under the masks in force, by round
        self.lock = threading.Lock()

    def handle(self, step: str, payload: Payload, caller: str) -> dict[str, Any]:
        """Do one step: what a neighbour puts in, or what the lead asks for."""
        if step == "put":
            return self.put(payload, caller)
        if caller != self.task.lead:
            raise RunError(f"{caller!r} does not lead this job: refused")
        steps = {
            "open": self.open,
            "begin": self.begin,
            "keys": self.keys,
            "agree": self.agree,
            "again": self.again,
            "play": self.play,
            "finish": self.finish,
            "end": self.end,
            "forget": self.forget,
        }
        if step not in steps:
            raise RunError(f"there is no step {step[:40]!r} in a sample split")
        return steps[step](payload)

    def open(self, payload: Payload) -> dict[str, Any]:
        """Read the site's file."""
        with own_data():
            self.own = open_node(self.task.job, self.task.name, self.task.data)
        shard = self.own.shard
        names = hashlib.sha256("\n".join(shard.columns).encode()).hexdigest()
        rows, columns = shard.features.shape
        return {"rows": rows, "columns": columns, "names": names, "version": tacit.__version__}

    def begin(self, payload: Payload) -> dict[str, Any]:
        """Make the plan, see whether to take part, and go on from the journal where there is one."""
        own, task = self.own, self.task
        assert own is not None
        assert own.labels is not None
        rows, columns = tuple(int(count) for count in payload["rows"]), int(payload["columns"])
        if (rows[task.job.names.index(task.name)], columns) != own.shard.features.shape:
            raise RunError(f"{task.lead!r} says other sizes than those of {task.name!r}: refused")
        plan = plan_nodes(task.job, rows, columns, {})
        task.check_plan(plan, payload["plan"])
        task.gate.allow(task.run, task.job, plan, task.name)
        with fitting_threads([own.shard]), np.errstate(**QUIET):
            self.node = Node(own.shard, own.labels.values, None, plan)
        self.plan = plan
        if self.journal.last is None:
            self.journal.write(Record(0, "", {}, {"node": self.node.state()}))  # the keys of the noise, before all else
        else:
            self.node.restore(self.journal.last.states["node"], 0)  # nothing goes on its way before masks are agreed on
        return {"at": self.journal.at}

    def keys(self, payload: Payload) -> dict[str, Any]:
        """A new public key, where the run has masks and this node hides its part."""
        masks = self._node().masks
        if masks is None or masks.is_middle:
            return {}
        masks.renew()
        return {"key": masks.key}

    def agree(self, payload: Payload) -> dict[str, Any]:
        """Agree on masks with the others; what is on its way again goes under the new ones."""
        node = self._node()
        if node.masks is not None and not node.masks.is_middle:
            node.masks.agree(payload["keys"])
        return {}

    def again(self, payload: Payload) -> dict[str, Any]:
        """Send the messages of a round that was played to the neighbours once more, the same."""
        round_ = int(payload["round"])
        if round_:
            self._send(self.journal.read(round_))
        return {}

    def play(self, payload: Payload) -> dict[str, Any]:
        """Play a round once, and send what it made; a round that was played sends the same once more."""
        node, round_ = self._node(), int(payload["round"])
        record = self.journal.find(round_, f"round {round_}")
        if record is None:
            record = self._play(round_, self._inbox(round_ - 1))
        sent = self._send(record)
        with self.lock:
            for old in [number for number in self.inboxes if number < round_ - 1]:
                del self.inboxes[old]
                self.outboxes.pop(old, None)
        told = node.progress
        numbers = {"dual": float(told.dual), "rho": float(told.rho), "bytes": sent}
        return {"done": bool(told.done), "note": told.note, **numbers}

    def _play(self, round_: int, inbox: Mapping[str, Message]) -> Record:
        node, own = self._node(), self.own
        assert own is not None
        with fitting_threads([own.shard]), np.errstate(**QUIET):
            self.outboxes[round_] = node.answer(round_, inbox)
        record = Record(round_, f"round {round_}", {}, {"node": node.state()})
        self.journal.write(record)
        return record

    def _outbox(self, record: Record) -> Outbox:
        """What a record's round sends, under the masks in force, which are used once: the same where it was sent."""
        if record.number not in self.outboxes:
            self.outboxes[record.number] = self._node().outbox_of(record.states["node"], record.number)
        return self.outboxes[record.number]

    def _send(self, record: Record) -> int:
        """Hand each neighbour its message, at once, taken down before; bytes that were sent."""
        self.task.gate.released(self.task.run, record.number, sent_digest(record.states["node"]))
        outbox = self._outbox(record)
        with ThreadPoolExecutor(max(1, len(outbox))) as pool:
            for reply in pool.map(lambda name: self.ask([name], "put", {"message": to_plain(outbox[name])}), outbox):
                for name, said in reply.items():
                    if said.get("error"):
                        raise RunError(f"neighbour {name!r}: {said['error']}")
                    if said.get("fault"):
                        raise FaultError(f"neighbour {name!r}: {said['fault']}")
        return sum(message.nbytes for message in outbox.values())

    def put(self, payload: Payload, caller: str) -> dict[str, Any]:
        """Take in a neighbour's message; the same one again changes nothing, another one is refused."""
        node = self._node()
        if caller not in node.neighbours:
            raise RunError(f"{caller!r} is no neighbour of {node.name!r}: refused")
        message = from_plain(payload["message"], caller)
        with self.lock:
            if message.round < self.journal.at - 1:
                raise RunError(f"{caller!r} sent a message of round {message.round}, which is long over")
            if message.round > self.journal.at + 1:
                raise RunError(f"{caller!r} sent a message of round {message.round} too soon")
            self.inboxes.setdefault(message.round, {})[caller] = message
        return {}

    def _inbox(self, round_: int) -> dict[str, Message]:
        with self.lock:
            return dict(self.inboxes.get(round_, {})) if round_ else {}

    def finish(self, payload: Payload) -> dict[str, Any]:
        """Take in the messages of the last round."""
        round_ = int(payload["round"])
        with np.errstate(**QUIET):
            self._node().finish(round_, self._inbox(round_ - 1))
        return {}

    def end(self, payload: Payload) -> dict[str, Any]:
        """Write the node's model to its own disk."""
        node, own, plan = self._node(), self.own, self.plan
        assert own is not None
        assert plan is not None
        folder = self.task.folder
        model = PartyModel(node.name, node.columns, node.coef, -node.intercept)
        assert own.labels is not None
        write_part(folder, model, None, own.encoding)
        write_whole(folder, plan, model, own.labels.classes, own.encoding)
        write_about(folder, self.task.lead, self.task.job.names)
        write_certificate(folder, plan.certificate(), node.name, own.encoding, shared=True)
        if self.task.name != self.task.lead:  # who writes it last, when all have ended
            write_json(folder / RESULT, {"format": FORMAT, "rounds": self.journal.at})
        return {}

    def forget(self, payload: Payload) -> dict[str, Any]:
        """Delete the journal of a run that is over everywhere."""
        self.journal.forget()
        return {}

    def _node(self) -> Node:
        if self.node is None:
            raise RunError("a step was asked for before the run has begun")
        return self.node


def sent_digest(state: Arrays) -> str:
    """A fingerprint of all that the round of a state sent, before masks."""
    return arrays_digest({key: array for key, array in state.items() if key.startswith((TO_ALL, TO_ONE))})
