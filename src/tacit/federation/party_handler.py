"""A site's part in a feature split: its party, answering the coordinator at the site that holds the labels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tacit.data.align import in_order
from tacit.federation.journal import Journal, JournalRecord
from tacit.federation.matching import Matching, describe_matching
from tacit.federation.own_data import OwnFile, OwnRows, UnchangedData, open_file
from tacit.federation.parts import mark_over, write_about, write_certificate, write_masks, write_part
from tacit.federation.protocol import (
    Answer,
    Answered,
    Begin,
    Begun,
    Done,
    End,
    Forget,
    Match,
    Matched,
    Open,
    Packet,
    Prepare,
    Prepared,
    Reason,
    RefusalError,
    Shape,
    Shaped,
    Step,
)
from tacit.federation.site import Site, StepResult, Task, private_errors, received
from tacit.files import read_json, write_json
from tacit.job.file import check_as_they_are
from tacit.plan import Plan
from tacit.plan.memory import check_on_cluster
from tacit.privacy.releases import arrays_digest, digest
from tacit.run.coordinator import NAME as COORDINATOR
from tacit.run.drive import QUIET, fitting_threads
from tacit.run.party import Party
from tacit.run.prepare import plan_job
from tacit.run.result import PartyModel
from tacit.solvers.boosting.model import lightgbm_version
from tacit.text import show
from tacit.types import Arrays, Message

UNASKED = ("keys", "agree")  # about masks, which are never saved
SCALE = "scale.json"  # the one number of the part that the lead set


def make_star_plan(task: Task, rows: int, columns: tuple[int, ...], curve_columns: Sequence[int] = ()) -> Plan:
    """The plan of public sizes; how many entries of a row are zero is data, so none counts as zero here."""
    return plan_job(task.job, rows, columns, 8 * rows * sum(columns), curve_columns)


def _check_lightgbm(told: str) -> None:
    """Refuse to grow trees without LightGBM, or with another version than the lead's: they would be other trees."""
    own = lightgbm_version()
    if not own:
        raise RefusalError(Reason.NO_LIGHTGBM)
    if own != told:
        raise RefusalError(Reason.LIGHTGBM, f"this site has LightGBM {own}, the lead {show(told)}")


class PartyHandler:
    """One party of a feature split, from its file to its part of the model."""

    file = StepResult[OwnFile]()
    own = StepResult[OwnRows]()
    plan = StepResult[Plan]()
    party = StepResult[Party]()  # of no use where the coordinator itself has this site's columns

    def __init__(self, task: Task) -> None:
        self.task = task
        self.matching: Matching | None = None  # None where rows are matched by position
        self.rows: Any = None  # the common rows that were taken, in their order; None for all
        self.shared: Any = None
        self.sent: Message | None = None

    @classmethod
    def open(cls, site: Site, request: Open, caller: str) -> PartyHandler:
        """The part of a site in a job that somebody opens there.

        Raises
        ------
        RefusalError
            Also where the site is to grow trees, and has not the lead's version of LightGBM.
        """
        task = Task.of(site, request, caller)
        if task.job.grows_trees(site.name):
            _check_lightgbm(request.lightgbm)
        return cls(task)

    @cached_property
    def journal(self) -> Journal:
        """What the site has answered in this run, on its disk."""
        return Journal(self.task.folder / "journal")

    def handle(self, request: Step, caller: str) -> Step:
        """Do one step, for the lead alone."""
        self.task.check_lead(caller)
        match request:
            case Prepare():
                return self.prepare()
            case Match():
                return self.match(request)
            case Shape():
                return self.shape()
            case Begin():
                return self.begin(request)
            case Answer():
                return self.answer(request)
            case End():
                return self.end(request)
            case Forget():
                return self.forget()
        raise RefusalError(Reason.TURN)

    # --- before training -------------------------------------------------------------------------------

    def prepare(self) -> Prepared:
        """Ask for the first consent, and read the site's file."""
        task = self.task
        id_ = next(spec.id for spec in task.job.parties if spec.name == task.name)
        task.authorizer.allow_preparing(task.run, task.name, task.others, self.describe(id_), task.job.to_toml())
        if task.dask is not None:
            check_as_they_are(task.job, "a site with dask")
        with private_errors():
            file = self.file = open_file(task.job, task.name, task.data, task.dask)
            file.check()
            if file.spec.id is not None:
                names, limits = task.job.names, task.authorizer.limits
                self.matching = Matching(task.folder, task.name, names, file.ids, file.spec.id, limits)
        return Prepared(matched="" if self.matching is None else self.matching.run)

    def describe(self, id_: str | None) -> list[str]:
        """What the organisation is shown before anything about its data is told."""
        task, limits = self.task, self.task.authorizer.limits
        lines = [f"job          {show(task.job.name)}: preparation", f"with         {', '.join(task.others)}"]
        when = " before and after encoding" if task.job.has_curves else " after encoding"
        sizes = f"the number of your columns{'' if task.job.grows_trees(task.name) else when}"
        if id_ is None:
            return [*lines, f"you tell     {task.lead}, and the others by the plan: the number of your rows, {sizes}"]
        return [*lines, *describe_matching(limits, f"ids of column {show(id_)}", task.lead, f"; {sizes}")]

    def match(self, request: Match) -> Matched:
        """One question of the private matching of ids, where the job names them."""
        if self.matching is None:
            raise RefusalError(Reason.TURN)
        return self.matching.answer(request)

    def shape(self) -> Shaped:
        """Pick the common rows and encode the columns."""
        self.rows = self._common_rows()
        with private_errors():
            own = self.file.take(self.rows)
            sizes = own.sizes(self.task.job)
        self.own = own
        return Shaped(rows=sizes[0], columns=sizes[1], curve_columns=sizes[2])

    def _common_rows(self) -> Any:
        """The common rows, in the order in which the party brings them; None for all of its file.

        Matching leaves them in an order that is random. Trees depend on it, so there they are ordered by their ids, as
        in one process: every party does that for itself, whatever the lead says of the order.
        """
        if self.matching is None:
            return None
        rows = self.matching.rows
        return rows if self.task.job.trees is None else in_order(self.file.ids, rows)

    def begin(self, request: Begin) -> Begun:
        """Make the plan, ask for the second consent, and go on from the journal where there is one."""
        own, task = self.own, self.task
        columns, curves = tuple(request.columns), tuple(request.curve_columns)
        self._check_sizes(tuple(request.rows), columns, curves)
        plan = make_star_plan(task, request.rows[0], columns, curves)
        task.check_plan(plan, request.plan)
        if task.name in plan.asked_parties:
            task.check_record(self.journal.at)
        if task.dask is not None:
            check_on_cluster(plan.recorded_method, private=plan.private is not None)
        rows = "" if self.rows is None else arrays_digest({"rows": self.rows})
        data = UnchangedData(task.folder, own, begun=self.journal.last is not None, rows=rows)
        bound = {"data": data.digest} | ({"rows": rows} if rows else {})
        bound |= {"lightgbm": lightgbm_version()} if task.job.grows_trees(task.name) else {}
        task.authorizer.allow(task.run, task.job, plan, task.name, bound)
        data.keep()
        task.keep_plan(plan)
        self.plan = plan
        if task.name in plan.asked_parties:
            self._make_party(plan)
        return Begun(at=max(self.journal.at, 0))

    def _check_sizes(self, rows: tuple[int, ...], columns: tuple[int, ...], curves: tuple[int, ...]) -> None:
        """Refuse sizes that are not those of this party, or not one for each."""
        names = self.task.job.names
        if len(rows) != 1 or len(columns) != len(names) or len(curves) != len(names):
            raise RefusalError(Reason.SIZES)
        at = names.index(self.task.name)
        if (rows[0], columns[at], curves[at]) != self.own.sizes(self.task.job):
            raise RefusalError(Reason.SIZES)

    def _make_party(self, plan: Plan) -> None:
        own = self.own
        self.shared = plan.solver.make_shared(plan.problem)
        rows = self.matching.ids_print(self.rows) if self.matching is not None and plan.secure else ""
        context = self.task.mask_context(plan)
        with fitting_threads([own.shard]), np.errstate(**QUIET):
            party = self.party = Party(own.shard, plan, self.shared, context, self.task.signer, rows)
        if self.journal.last is None:
            # The keys of the noise, before anything is sent.
            self.journal.write(JournalRecord(0, "", {}, self._states()))
            return
        states = self.journal.last.states
        if self.shared is not None:
            self.shared.restore(states["shared"])
        party.restore(states["party"])

    def _states(self) -> dict[str, Arrays]:
        states = {"party": self.party.state()}
        return states if self.shared is None else {**states, "shared": self.shared.state()}

    # --- training --------------------------------------------------------------------------------------

    def answer(self, request: Answer) -> Answered:
        """One exchange: an answer is made once, kept, and sent again as it was where it is asked for again."""
        party, message = self.party, received(request.message, COORDINATOR, singles=True)
        if message.kind in UNASKED:
            reply = party.answer(message)
            write_masks(self.task.folder, party.fingerprint, party.unchecked)
            return Answered(message=Packet.of(reply))
        asked = f"{message.kind} {message.round} {digest(message)}"
        record = self.journal.find(message.round, asked)
        if record is None:
            record = self._answer(message, asked)
        if self.sent is None or self.sent.round != message.round:  # masks are used once: what was sent is sent again
            # Recorded once, also where the site died between its journal and its book.
            self.task.authorizer.released(self.task.run, message.round, arrays_digest(record.answer))
            self.sent = party.send(message, record.answer)
        return Answered(message=Packet.of(self.sent))

    def _answer(self, message: Message, asked: str) -> JournalRecord:
        try:
            with fitting_threads([self.own.shard]), np.errstate(**QUIET):
                answer: Arrays = dict(self.party.work(message))  # type: ignore[arg-type]
        except Exception:
            del self.party  # a step that failed leaves nothing of itself: the next one begins from the journal
            raise
        record = JournalRecord(message.round, asked, answer, self._states())
        self.journal.write(record)
        return record

    def end(self, request: End) -> Done:
        """Write this site's part of the model, computed from its own fit, to its own disk."""
        model, path = self.party.model(request.scale), self.task.folder / SCALE
        if path.exists() and read_json(path) != {"scale": request.scale}:
            raise RefusalError(Reason.SECOND)  # one scale for a run: another one would ask the rows another question
        write_json(path, {"scale": request.scale})
        self.keep_part(model)
        return Done()

    def keep_part(self, model: PartyModel) -> None:
        """Write a part of the model, who took part, and the certificate."""
        folder = self.task.folder
        write_part(folder, model, self.file.spec.id, self.own)
        write_about(folder, self.task, model, self.own, self.plan, max(self.journal.at, 0))
        write_certificate(folder, self.plan, self.task.name, self.own, shared=False)

    def forget(self) -> Done:
        """Delete the journal of a run that is over everywhere, and the fingerprint of its data."""
        mark_over(self.task.folder)
        self.journal.forget()
        UnchangedData.forget(self.task.folder)
        return Done()
