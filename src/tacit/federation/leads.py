"""What the leading site does: it asks the others, and runs a feature split, a sample split or a prediction.

What the site that holds the labels does to lead a feature split: it asks the others, and runs the coordinator.

The loop, the coordinator and the parties are those of a run in one process; only the engine differs. After every
exchange the coordinator's state is on the lead's own disk, and the answers are on the disks of those who gave them: at
most one exchange is asked for again, with the same numbers, and the same answers come.

What the first node of a sample split does to lead it: it keeps the rounds in step, and sees no message of others.

Every node finds out for itself that the run is over, and tells the lead so. The trace holds what nodes tell of their
own progress, which is nothing in a private run; the objective of the joint model is known to nobody.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from tacit.alignment import align
from tacit.blocks import make_block
from tacit.errors import FaultError, RunError
from tacit.federation.journal import Shelf
from tacit.federation.matching import from_reply, to_request
from tacit.federation.node_handler import NodeHandler
from tacit.federation.party_handler import UNASKED, PartyHandler, make_star_plan
from tacit.federation.protocol import (
    Agree,
    Answer,
    Answered,
    Begin,
    Begun,
    Done,
    End,
    Finish,
    Forget,
    Interrupted,
    Key,
    Keys,
    Matched,
    Numbers,
    Open,
    Opened,
    Packet,
    Play,
    Played,
    Prepare,
    Prepared,
    Reason,
    Refused,
    Reply,
    Resend,
    Scores,
    Shape,
    Shaped,
    Step,
)
from tacit.federation.score_handler import SHARE, ScoreHandler, read_request
from tacit.federation.site import QUESTIONS, Site, plan_print, read_text, required
from tacit.files import read_json, write_json, write_text
from tacit.plan import Plan
from tacit.plan.from_job import plan_nodes
from tacit.privacy.releases import digest
from tacit.run.checkpoint import checkpoint_arrays, from_arrays, read_checkpoint, write_checkpoint
from tacit.run.coordinator import Coordinator
from tacit.run.drive import LoopState, Observer, agree, check_private, run_loop, spent_of, traffic
from tacit.run.folder import CHECKPOINT, FORMAT, JOB, JOINT, MODEL, RESULT, TRACE
from tacit.run.masking import unmask
from tacit.run.model import PartyModel
from tacit.run.predict import load_model, predictions_of, write_csv
from tacit.run.star import QUIET, fitting_threads
from tacit.run.trace_file import growing_trace, write_trace
from tacit.types import Arrays, Message, TraceRow, Vector
from tacit.version import __version__

# --- What the site that holds the labels does to lead a feature split: it asks the others, and runs the coordinator


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
        ask_all(site, names, Open(run=self.run, job=self.text, version=__version__), Opened)
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


# --- What the first node of a sample split does to lead it: it keeps the rounds in step


class GraphLead:
    """Leads one run of a sample split at its first node."""

    def __init__(self, site: Site, run: str, job_text: str) -> None:
        self.site, self.run, self.text = site, run, job_text
        self.state = LoopState()

    def go(self, observe: Observer | None = None) -> int:
        """Run to the end, or go on from where the run was; the number of rounds."""
        site, names, folder = self.site, read_text(self.text).names, self.site.folder / self.run
        ask_all(site, names, Open(run=self.run, job=self.text, version=__version__), Opened)
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

    def _plan(self, names: Sequence[str], prepared: Mapping[str, Prepared]) -> Plan:
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

    def _agree(self, plan: Plan, names: Sequence[str]) -> None:
        """Pass the keys of masks on, where the run has them."""
        if not plan.secure:
            return
        middle = plan.graph.names[plan.graph.centre]
        replies = ask_all(self.site, names, Keys(), Key)
        keys = [key.array() for name in plan.graph.names if name != middle and (key := replies[name].key) is not None]
        if len(keys) < len(names) - 1:
            raise RunError("a party sent no key for its masks")
        ask_all(self.site, names, Agree(keys=Numbers.of(np.stack(keys))))

    def _rounds(self, plan: Plan, names: Sequence[str], observers: Sequence[Observer]) -> None:
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


# --- What the site that gets the predictions does: it asks the others for their scores, and adds them up


PREDICTIONS = "predictions.csv"


class ScoreLead:
    """Leads one joint prediction."""

    def __init__(self, site: Site, run: str, text: str) -> None:
        self.site, self.run, self.text, self.request = site, run, text, read_request(text)

    def go(self, observe: Observer | None = None) -> int:
        """Predict the common rows into predictions.csv of the run, in one round."""
        site, names = self.site, self.request.parties
        ask_all(site, names, Open(run=self.run, job=self.text, version=__version__), Opened)
        handler = site.handler
        if not isinstance(handler, ScoreHandler):
            raise RunError("the prediction is not open here")
        prepared = ask_all(site, names, Prepare(), Prepared)
        model = load_model(site.folder / self.request.run, own=[site.name])
        align_sites(site, names, prepared)
        begun = ask_all(site, names, Begin(rows=[], columns=[], plan=""), Begun)
        rows = {reply.rows for reply in begun.values()}
        if len(rows) != 1:
            raise RunError("the parties say different numbers of common rows: start again")
        answered = {begun[name].at > 0 for name in names[1:]}
        if len(answered) > 1 and self.request.masked:
            raise RunError("some parties have sent their scores and others lost their masks: start a new prediction")
        total = model.constant + handler.common_scores() + self._others(rows.pop(), answered == {True})
        predictions = predictions_of(model, np.array(handler.common_ids(), dtype=object), total)
        write_csv(handler.folder / PREDICTIONS, predictions, secret=True)
        site.close()
        return 1

    def _others(self, rows: int, answered: bool) -> Vector:
        """The sum of the other parties' scores; where all sent them before, the same bytes come again."""
        site, others, masked = self.site, self.request.parties[1:], self.request.masked
        if masked and not answered:
            keys = [reply.key for reply in ask_all(site, masked, Keys(), Key).values()]
            together = np.stack([key.array() for key in keys if key is not None])
            ask_all(site, masked, Agree(keys=Numbers.of(together)))
        replies = ask_all(site, others, Scores(), Answered)
        answers = [replies[name].message.message(name) for name in others]
        wanted, kind = np.dtype(np.uint64 if masked else np.float64), {SHARE}
        for answer in answers:
            if set(answer.arrays) != kind or answer.arrays[SHARE].dtype != wanted:
                raise RunError(f"party {answer.sender!r} sent something else than its scores")
        total = unmask(answers, masked)[SHARE] if masked else np.asarray(answers[0].arrays[SHARE], dtype=np.float64)
        if total.shape != (rows,):
            raise RunError(f"the parties {', '.join(others)} did not send one score for each of {rows} rows")
        return total
