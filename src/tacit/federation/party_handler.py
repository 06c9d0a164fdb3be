"""A site's part in a feature split: its party, answering the coordinator at the site that holds the labels."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tacit.data.align import in_order
from tacit.data.holdout import Key as HoldoutKey
from tacit.data.holdout import held_rows
from tacit.errors import InputError
from tacit.federation.journal import Journal, JournalRecord
from tacit.federation.matching import HoldoutNumber, Matching, describe_matching
from tacit.federation.own_data import OwnFile, OwnRows, UnchangedData, open_file
from tacit.federation.parts import mark_over, write_about, write_certificate, write_masks, write_part
from tacit.federation.protocol import (
    Agree,
    Answer,
    Answered,
    Begin,
    Begun,
    Done,
    End,
    Forget,
    Key,
    Keys,
    Match,
    Matched,
    Numbers,
    Open,
    Packet,
    Prepare,
    Prepared,
    Reason,
    RefusalError,
    Reveal,
    Revealed,
    Scores,
    Settle,
    Shape,
    Shaped,
    Step,
    Tell,
    Try,
)
from tacit.federation.score_handler import SHARE, MaskedScores
from tacit.federation.site import QUESTIONS, Site, StepResult, Task, private_errors, received
from tacit.files import read_json, write_json
from tacit.job.file import check_as_they_are
from tacit.plan import Plan
from tacit.plan.memory import check_on_cluster, check_one_score
from tacit.privacy.releases import arrays_digest, digest
from tacit.problem.alphas import alpha_grid
from tacit.run.coordinator import NAME as COORDINATOR
from tacit.run.drive import QUIET, fitting_threads
from tacit.run.evaluation import Figures, masked_scores, shows_scores, told_record
from tacit.run.folder import RunFolder
from tacit.run.party import Party
from tacit.run.prepare import plan_job
from tacit.run.result import PartyModel
from tacit.run.search import fold_plan, with_alpha
from tacit.solvers.boosting.model import lightgbm_version
from tacit.text import show
from tacit.types import Arrays, Message, Vector

UNASKED = ("keys", "agree")  # about masks, which are never saved
HELD_OUT = "scores of rows held out"  # part of every mask of these
EVALUATED = 2 * QUESTIONS - 1  # the number under which they are recorded
SETTLED = "alpha.json"  # the alpha that a search took
SCALE = "scale.json"  # the one number of the part that the lead set


def make_star_plan(
    task: Task, rows: int, columns: tuple[int, ...], curve_columns: Sequence[int] = (), held: int = 0
) -> Plan:
    """The plan of public sizes; how many entries of a row are zero is data, so none counts as zero here."""
    plan = plan_job(task.job, rows, columns, 8 * rows * sum(columns), curve_columns, held)
    if task.job.search is not None and not plan.solver.supports_path:
        raise InputError(
            "[search] between organisations needs a method that follows alpha, and method = "
            f"{show(plan.recorded_method)} does not"
            ': choose a smooth loss with penalty = "l2", or give model.alpha'
        )
    return plan


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
    model = StepResult[PartyModel]()

    def __init__(self, task: Task) -> None:
        self.task = task
        self.matching: Matching | None = None  # None where rows are matched by position
        self.rows: Any = None  # the common rows that were taken, in their order; None for all
        self.held: Any = None  # which of them are kept out of training; None for none
        self.number: HoldoutNumber | None = None  # this site's part of the key of the holdout, where there is one
        self.shared: Any = None
        self.sent: Message | None = None
        self.seen: Any = None  # weights of the rows of that fit
        self.fold: Party | None = None  # of a fit of the search for alpha, which keeps no journal

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
            case Reveal():
                return self.reveal(request)
            case Shape():
                return self.shape(request)
            case Begin():
                return self.begin(request)
            case Try():
                return self.try_alpha(request)
            case Settle():
                return self.settle(request)
            case Answer():
                return self.answer(request)
            case Keys():
                return self.keys()
            case Agree():
                return self.masked.agree(request)
            case Scores():
                return self.scores()
            case End():
                return self.end(request)
            case Tell():
                return self.tell(request)
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
        if task.job.holdout and task.job.seed is None:
            self.number = HoldoutNumber(task.folder, task.name, task.job.names)
        matched = "" if self.matching is None else self.matching.run
        return Prepared(matched=matched, bound="" if self.number is None else self.number.fingerprint)

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
        if self.number is not None and self.number.shown:  # whoever knows the key must not choose the rows
            raise RefusalError(Reason.TRIES)
        return self.matching.answer(request)

    def reveal(self, request: Reveal) -> Revealed:
        """Show the own number for the holdout, once the common rows are known."""
        if self.number is None or (self.matching is not None and not self.matching.run):
            raise RefusalError(Reason.TURN)
        return Revealed(number=self.number.show(request.bound))

    def shape(self, request: Shape) -> Shaped:
        """Pick the common rows, hold some out and encode the columns."""
        job, self.rows = self.task.job, self._common_rows()
        count = self.file.rows if self.rows is None else len(self.rows)
        self.held = None
        if job.holdout:
            key: HoldoutKey = (job.seed or 0) if self.number is None else self.number.key(request.numbers)
            self.held = held_rows(count, job.holdout, key, self._common_ids())
        with private_errors():
            own = self.file.take(self.rows, self.held)
            sizes = own.sizes(self.task.job)
        self.own = own
        return Shaped(rows=sizes[0], columns=sizes[1], curve_columns=sizes[2])

    def _common_rows(self) -> Any:
        """The common rows, in the order in which the party brings them; None for all of its file.

        Matching leaves them in an order that is random. They are put in that of their ids, as in one process: every
        party does that for itself, whatever the lead says of the order.
        """
        return None if self.matching is None else in_order(self.file.ids, self.matching.rows)

    def _common_ids(self) -> Any:
        """The ids of the common rows, in their order; None where rows are matched by position."""
        return None if self.rows is None else self.file.ids.take(self.rows).to_numpy(zero_copy_only=False)

    def begin(self, request: Begin) -> Begun:
        """Make the plan, ask for the second consent, and go on from the journal where there is one."""
        own, task = self.own, self.task
        columns, curves = tuple(request.columns), tuple(request.curve_columns)
        self._check_sizes(tuple(request.rows), columns, curves)
        plan = make_star_plan(task, request.rows[0], columns, curves, own.held_count)
        task.check_plan(plan, request.plan)
        if task.name in plan.asked_parties:
            task.check_record(self.journal.at)
        if task.dask is not None:
            check_on_cluster(plan.recorded_method, private=plan.private is not None)
            check_one_score(plan.problem.loss, "--dask")
        taken = {"rows": self.rows, "held": self.held}
        rows = "" if self.rows is None else arrays_digest({k: v for k, v in taken.items() if v is not None})
        data = UnchangedData(task.folder, own, begun=self.journal.last is not None, rows=rows)
        bound = {"data": data.digest} | ({"rows": rows} if rows else {})
        bound |= {"lightgbm": lightgbm_version()} if task.job.grows_trees(task.name) else {}
        task.authorizer.allow(task.run, task.job, plan, task.name, bound)
        data.keep()
        task.keep_plan(plan)
        self.plan = plan
        if task.name in plan.asked_parties and task.job.search is None:
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
        trained = self.rows if self.held is None else self.rows[~self.held] if self.rows is not None else None
        rows = self.matching.ids_print(trained) if self.matching is not None and plan.secure else ""
        context = self.task.mask_context(plan)
        with fitting_threads([own.shard]), np.errstate(**QUIET):
            held = None if own.held is None else own.held.shards[0]
            party = self.party = Party(own.shard, plan, self.shared, context, self.task.signer, rows, held)
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

    # --- the search for alpha --------------------------------------------------------------------------

    def try_alpha(self, request: Try) -> Done:
        """Begin a fit on some rows, or go on with another alpha; a fold is done anew where a process dies."""
        spec = self.task.job.search
        if spec is None or (self.task.folder / SETTLED).exists():
            raise RefusalError(Reason.TURN)
        if request.alpha not in alpha_grid(spec.alphas, self.plan.problem.total):
            raise RefusalError(Reason.MESSAGE)
        with fitting_threads([self.own.shard]), np.errstate(**QUIET):
            if request.seen is not None:
                self.fold = self._fold_party(request.alpha, request.seen)
            elif self.fold is None:
                raise RefusalError(Reason.TURN)
            else:
                self.fold.retune(fold_plan(self.plan, request.alpha, self.seen))
        return Done()

    def _fold_party(self, alpha: float, seen: Numbers) -> Party:
        marks = seen.array()
        if marks.shape != (self.own.shard.features.shape[0],) or not set(np.unique(marks)) <= {0, 1} or not marks.any():
            raise RefusalError(Reason.MESSAGE)
        self.seen = marks.astype(np.float64)
        plan = fold_plan(self.plan, alpha, self.seen)
        trained = self.rows if self.held is None or self.rows is None else self.rows[~self.held]
        rows = self.matching.ids_print(trained) if self.matching is not None and plan.secure else ""
        context = f"search {arrays_digest({'seen': marks})} {self.task.mask_context(self.plan)}"
        return Party(self.own.shard, plan, plan.solver.make_shared(plan.problem), context, self.task.signer, rows)

    def settle(self, request: Settle) -> Done:
        """Take the alpha of the search, once, and make the party of the training."""
        spec, path = self.task.job.search, self.task.folder / SETTLED
        if spec is None or request.alpha not in alpha_grid(spec.alphas, self.plan.problem.total):
            raise RefusalError(Reason.MESSAGE)
        if path.exists() and read_json(path) != {"alpha": request.alpha}:
            raise RefusalError(Reason.SECOND)
        write_json(path, {"alpha": request.alpha})
        self.fold, self.plan = None, with_alpha(self.plan, request.alpha)
        if self.task.name in self.plan.asked_parties:
            self._make_party(self.plan)
        return Done()

    # --- training --------------------------------------------------------------------------------------

    def answer(self, request: Answer) -> Answered:
        """One exchange: an answer is made once, kept, and sent again as it was where it is asked for again."""
        message = received(request.message, COORDINATOR, singles=True)
        if self.fold is not None:
            with fitting_threads([self.own.shard]), np.errstate(**QUIET):
                return Answered(message=Packet.of(self.fold.answer(message)))
        party = self.party
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
        folder, self.model = self.task.folder, model
        write_part(folder, model, self.file.spec.id, self.own)
        write_about(folder, self.task, model, self.own, self.plan, max(self.journal.at, 0))
        write_certificate(folder, self.plan, self.task.name, self.own, shared=False)

    # --- evaluation ------------------------------------------------------------------------------------

    @cached_property
    def masked(self) -> MaskedScores:
        """How scores of rows held out leave: under masks of their own where the run has masks."""
        task, plan = self.task, self.plan
        context = f"{HELD_OUT} {task.mask_context(plan)}"
        return MaskedScores(task.name, masked_scores(plan, task.lead), context, task.folder, task.signer)

    def keys(self) -> Key:
        """A fresh key for the masks of scores of rows held out."""
        self._check_scores_are_due()
        self.masked.renew()
        return self.masked.keys()

    def scores(self) -> Answered:
        """The own scores of the rows held out, agreed to with the training: the same whenever they are asked for."""
        self._check_scores_are_due()
        scores = self.held_scores()
        self.task.authorizer.released(self.task.run, EVALUATED, arrays_digest({SHARE: scores}))
        seen = "" if self.matching is None else self.matching.ids_print(self.rows[self.held])
        return self.masked.answer(scores, seen)

    def held_scores(self) -> Vector:
        """What this party adds to the score of each row that was held out."""
        assert self.own.held is not None
        with fitting_threads([self.own.shard]), np.errstate(**QUIET):
            return np.asarray(self.model.score(self.own.held.shards[0].features), dtype=np.float64)

    def _check_scores_are_due(self) -> None:
        """Refuse scores where none were agreed to, and before the training is over."""
        if self.own.held is None or not shows_scores(self.plan):
            raise RefusalError(Reason.NOT_AGREED)
        _ = self.model

    def tell(self, request: Tell) -> Done:
        """Keep what the label holder tells of the evaluation; another one later is refused."""
        told = Figures(request.joint, request.errors, request.alone, request.against)
        numbers = [value for own in (told.joint, told.errors, told.alone, told.against) for value in own.values()]
        if self.own.held is None or request.rows != self.own.held_count or not np.isfinite(numbers).all():
            raise RefusalError(Reason.MESSAGE)
        if self.task.name == self.task.lead:
            raise RefusalError(Reason.TURN)
        record = told_record(self.plan, self.task.job, self.own.held_count, told, told_by=self.task.lead)
        folder = RunFolder(self.task.folder)
        if (known := folder.read_evaluation()) is not None and known != json.loads(json.dumps(record)):
            raise RefusalError(Reason.SECOND)
        folder.write_evaluation(record)
        return Done()

    def forget(self) -> Done:
        """Delete the journal of a run that is over everywhere, and the fingerprint of its data."""
        mark_over(self.task.folder)
        self.journal.forget()
        UnchangedData.forget(self.task.folder)
        return Done()
