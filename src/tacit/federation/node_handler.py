"""A site's part in a sample split: its node, talking to its neighbours and to nobody else."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

import numpy as np

from tacit.federation.journal import Journal, JournalRecord
from tacit.federation.own_data import OwnRows, UnchangedData, open_node
from tacit.federation.parts import mark_over, write_about, write_certificate, write_masks, write_part, write_whole
from tacit.federation.protocol import (
    Agree,
    Begin,
    Begun,
    Done,
    End,
    Finish,
    Forget,
    Interrupted,
    InterruptionError,
    Key,
    Keys,
    Numbers,
    Open,
    Packet,
    Play,
    Played,
    Prepare,
    Prepared,
    Put,
    Reason,
    RefusalError,
    Refused,
    Resend,
    Step,
)
from tacit.federation.site import Ask, Site, StepResult, Task, private_errors, received
from tacit.files import text_digest
from tacit.plan import Plan
from tacit.privacy.releases import arrays_digest, digest
from tacit.run.drive import QUIET, fitting_threads
from tacit.run.evaluation import evaluate_node
from tacit.run.folder import PreparedRun, RunFolder, SavedResult
from tacit.run.graph import consensus_model
from tacit.run.node import TO_ALL, TO_ONE, Node, Outbox
from tacit.run.prepare import plan_nodes
from tacit.run.result import PartyModel
from tacit.text import show
from tacit.types import Arrays, Message

DONE, RESIDUAL = "done", "residual"  # what the journal keeps of a round's progress


def make_graph_plan(task: Task, own: OwnRows, rows: tuple[int, ...]) -> Plan:
    """The plan of public sizes; all nodes have the same columns, so each knows those of the others by its own."""
    _, columns, curves = own.sizes(task.job)
    return plan_nodes(task.job, rows, columns, {}, [curves] * len(rows))


class NodeHandler:
    """One node of a sample split, from its file to its model."""

    own = StepResult[OwnRows]()
    plan = StepResult[Plan]()
    node = StepResult[Node]()

    def __init__(self, task: Task, ask: Ask) -> None:
        self.task, self.ask = task, ask
        self.finished = False
        self.inboxes: dict[int, dict[str, Message]] = {}  # by round, then by neighbour
        self.outboxes: dict[int, Outbox] = {}  # what was sent under the masks in force, by round
        self.recorded: set[int] = set()  # rounds whose release is in the book
        self.lock = threading.Lock()

    @classmethod
    def open(cls, site: Site, request: Open, caller: str) -> NodeHandler:
        """The part of a site in a job that somebody opens there; it asks its neighbours as its site does."""
        return cls(Task.of(site, request, caller), site.ask)

    @cached_property
    def journal(self) -> Journal:
        """What the node has played in this run, on its disk."""
        return Journal(self.task.folder / "journal")

    def handle(self, request: Step, caller: str) -> Step:
        """Do one step: take in what a neighbour puts, or do what the lead asks for."""
        if isinstance(request, Put):
            return self.put(request, caller)
        self.task.check_lead(caller)
        match request:
            case Prepare():
                return self.prepare()
            case Begin():
                return self.begin(request)
            case Keys():
                return self.keys()
            case Agree():
                return self.agree(request)
            case Resend():
                return self.resend(request)
            case Play():
                return self.play(request)
            case Finish():
                return self.finish(request)
            case End():
                return self.end()
            case Forget():
                return self.forget()
        raise RefusalError(Reason.TURN)

    # --- before training -------------------------------------------------------------------------------

    def prepare(self) -> Prepared:
        """Ask for the first consent, and read the site's file."""
        task = self.task
        task.authorizer.allow_preparing(task.run, task.name, task.others, self.describe(), task.job.to_toml())
        with private_errors():
            own = open_node(task.job, task.name, task.data)
            rows, columns, _ = own.sizes(task.job)
        self.own = own
        names = text_digest("\n".join(own.shard.columns))
        return Prepared(rows=rows, columns=columns, names=names)

    def describe(self) -> list[str]:
        """What the organisation is shown before anything about its data is told."""
        task = self.task
        told = "the number of your rows and of your columns after encoding, and a fingerprint of the column names"
        return [
            f"job          {show(task.job.name)}: preparation",
            f"with         {', '.join(task.others)}",
            f"you tell     {task.lead}, and the others by the plan: {told}",
        ]

    def begin(self, request: Begin) -> Begun:
        """Make the plan, ask for the second consent, and go on from the journal where there is one."""
        own, task = self.own, self.task
        labels, names = own.held_labels, task.job.names
        told = request.rows[names.index(task.name)] if len(request.rows) == len(names) else -1
        if ((told,), tuple(request.columns)) != (own.shard.features.shape[:1], own.shard.features.shape[1:]):
            raise RefusalError(Reason.SIZES)
        plan = make_graph_plan(task, own, tuple(request.rows))
        task.check_plan(plan, request.plan)
        task.check_record(self.journal.at)
        data = UnchangedData(task.folder, own, begun=self.journal.last is not None)
        task.authorizer.allow(task.run, task.job, plan, task.name, {"data": data.digest})
        data.keep()
        task.keep_plan(plan)
        with fitting_threads([own.shard]), np.errstate(**QUIET):
            node = Node(own.shard, labels.values, None, plan, task.mask_context(plan), task.signer)
        if self.journal.last is None:
            # The keys of the noise, before all else.
            self.journal.write(JournalRecord(0, "", {}, {"node": node.state()}))
        else:
            node.restore(self.journal.last.states["node"])
        with self.lock:
            self.node, self.plan, self.finished = node, plan, False
            self.inboxes.clear()  # every neighbour sends its last messages once more
            self.outboxes.clear()
        return Begun(at=self.journal.at)

    def keys(self) -> Key:
        """A new public key, where the run has masks."""
        masks = self.node.masks
        with self.lock:  # what was sent under old masks is sent again under new ones
            self.inboxes.clear()
            self.outboxes.clear()
        if masks is None:
            return Key()
        masks.renew()
        return Key(key=Numbers.of(masks.key))

    def agree(self, request: Agree) -> Done:
        """Agree on masks with the others."""
        masks = self.node.masks
        if masks is not None:
            masks.agree(request.keys.array())
            write_masks(self.task.folder, masks.fingerprint, masks.unchecked)
        return Done()

    # --- rounds ----------------------------------------------------------------------------------------

    def resend(self, request: Resend) -> Done:
        """Send the messages of a round that was played to the neighbours once more: the same, under new masks."""
        if request.round:
            if request.round > self.journal.at:
                raise RefusalError(Reason.TURN)
            self._send(request.round)
        return Done()

    def play(self, request: Play) -> Played:
        """Play a round once, and send what it made; a round that was played sends and says the same once more."""
        round_ = request.round
        record = self.journal.find(round_, f"round {round_}")
        if record is None:
            record = self._play(round_, self._inbox(round_ - 1))
        sent = self._send(round_)
        with self.lock:
            for old in [number for number in self.inboxes if number < round_ - 1]:
                del self.inboxes[old]
                self.outboxes.pop(old, None)
        residual = None if self.plan.private is not None else float(record.answer[RESIDUAL][0])
        return Played(done=bool(record.answer[DONE][0]), sent=sent, residual=residual)

    def _play(self, round_: int, inbox: Mapping[str, Message]) -> JournalRecord:
        node = self.node
        try:
            with fitting_threads([self.own.shard]), np.errstate(**QUIET):
                self.outboxes[round_] = node.answer(round_, inbox)
        except Exception:
            del self.node  # a step that failed leaves nothing of itself: the next one begins from the journal
            raise
        progress = node.progress
        if progress.note:  # no method of this split has one
            raise RefusalError(Reason.STOPPED, progress.note)
        told = {DONE: np.array([float(progress.done)]), RESIDUAL: np.array([float(progress.dual)])}
        record = JournalRecord(round_, f"round {round_}", told, {"node": node.state()})
        self.journal.write(record)
        return record

    def _outbox(self, round_: int) -> Outbox:
        """What a round sends, under the masks in force, which are used once: the same where it was sent."""
        if round_ not in self.outboxes:
            anew = self.node.is_made_anew(round_)  # of such a round the state is not needed, and may be gone
            state = {} if anew else self.journal.read(round_).states["node"]
            self.outboxes[round_] = self.node.again(round_, state, self._inbox(round_ - 1))
        return self.outboxes[round_]

    def _send(self, round_: int) -> int:
        """Hand each neighbour its message, all at once, recorded before; bytes that were sent."""
        if round_ not in self.recorded and round_ in self.journal.numbers():
            state = self.journal.read(round_).states["node"]
            self.task.authorizer.released(self.task.run, round_, sent_digest(state, masked=self.plan.secure))
            self.recorded.add(round_)
        outbox = self._outbox(round_)
        with ThreadPoolExecutor(max(1, len(outbox))) as pool:
            for replies in pool.map(lambda name: self.ask([name], Put(message=Packet.of(outbox[name]))), outbox):
                for name, reply in replies.items():
                    if isinstance(reply, Refused):
                        raise RefusalError(reply.reason, f"neighbour {name!r}: {reply.reason.line}")
                    if isinstance(reply, Interrupted):
                        raise InterruptionError(reply.reason, f"neighbour {name!r}: {reply.reason.line}")
        return sum(message.nbytes for message in outbox.values())

    def put(self, request: Put, caller: str) -> Done:
        """Take in a neighbour's message; the same one again changes nothing, a different one is refused."""
        node = self.node
        if caller not in node.neighbours:
            raise RefusalError(Reason.NOT_NEIGHBOUR)
        message = received(request.message, caller)
        with self.lock:
            if not node.first_again(self.journal.at) <= message.round <= self.journal.at + 1:
                raise RefusalError(Reason.OLD)
            known = self.inboxes.setdefault(message.round, {}).setdefault(caller, message)
            if digest(known) != digest(message):
                raise RefusalError(Reason.SECOND)
        return Done()

    def _inbox(self, round_: int) -> dict[str, Message]:
        with self.lock:
            return dict(self.inboxes.get(round_, {})) if round_ else {}

    def finish(self, request: Finish) -> Done:
        """Take in the messages of the last round, once."""
        if not self.finished:
            with np.errstate(**QUIET):
                self.node.finish(request.round, self._inbox(request.round - 1))
            self.finished = True
        return Done()

    def end(self) -> Done:
        """Write the node's model to its own disk."""
        node, own, plan = self.node, self.own, self.plan
        folder = self.task.folder
        model = PartyModel(node.name, node.columns, node.coef, -node.intercept)
        write_part(folder, model, None, own)
        write_whole(folder, plan, model, own, node, self.task.job.model.costs)
        write_about(folder, self.task, model, own, plan, self.journal.at)
        write_certificate(folder, plan, node.name, own, shared=True)
        if own.held is not None and RunFolder(folder).read_evaluation() is None:
            prepared = PreparedRun(self.task.job, plan, [own.shard], own.held_labels, own.held)
            whole = consensus_model(plan, (model,), model.coef, node.intercept, node)
            with fitting_threads([own.shard]), np.errstate(**QUIET):
                RunFolder(folder).write_evaluation(evaluate_node(prepared, whole))
        if self.task.name != self.task.lead:  # who writes it last, when all have ended
            RunFolder(folder).write_result(SavedResult(rounds=self.journal.at))
        return Done()

    def forget(self) -> Done:
        """Delete the journal of a run that is over everywhere, and the fingerprint of its data."""
        mark_over(self.task.folder)
        self.journal.forget()
        UnchangedData.forget(self.task.folder)
        return Done()


def sent_digest(state: Arrays, *, masked: bool) -> str:
    """A fingerprint of all that the round of a state sent, before masks; under them of the node's part of a sum."""
    sent = (TO_ALL, TO_ONE, "tree.partial") if masked else (TO_ALL, TO_ONE)
    return arrays_digest({key: array for key, array in state.items() if key.startswith(sent)})
