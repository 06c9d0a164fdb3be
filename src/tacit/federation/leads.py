"""What the leading site does: it asks the others, and runs a feature split, a sample split or a prediction.

A feature split is led by the site that holds the labels. The loop, the coordinator and the parties are those of a run
in one process; only the engine differs. After every exchange the coordinator's state is on the lead's own disk, and the
answers are on the disks of those who gave them: at most one exchange is asked for again, with the same numbers, and the
same answers come.

A sample split is led by its first node, which keeps the rounds in step and sees no message of others. Every node finds
out for itself that the run is over, and tells the lead so. The trace holds what nodes tell of their own progress, which
is nothing in a private run; the objective of the joint model is known to nobody.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import numpy as np

from tacit.alignment import align
from tacit.blocks import block_of
from tacit.errors import FaultError, RunError
from tacit.federation.journal import VersionedArrays
from tacit.federation.matching import AnswerLog, from_reply, to_request
from tacit.federation.node_handler import NodeHandler, make_graph_plan
from tacit.federation.party_handler import UNASKED, PartyHandler, make_star_plan
from tacit.federation.progress import MatchingProgress
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
    PartyRefusedError,
    Play,
    Played,
    Prepare,
    Prepared,
    Reason,
    Refused,
    Reply,
    Resend,
    Reveal,
    Revealed,
    Scores,
    Settle,
    Shape,
    Shaped,
    Step,
    Tell,
    Try,
    party_error,
)
from tacit.federation.score_handler import ScoreHandler, add_up, read_request
from tacit.federation.site import QUESTIONS, MakeHandler, Own, Site, plan_print, read_text
from tacit.plan import Plan
from tacit.privacy.releases import digest
from tacit.run.checkpoint import checkpoint_arrays, from_arrays
from tacit.run.coordinator import Coordinator
from tacit.run.drive import QUIET, LoopState, Observer, drive, fitting_threads
from tacit.run.evaluation import (
    NOT_SERVED,
    Figures,
    evaluate_sites,
    evaluate_sites_by_release,
    headlines,
    masked_scores,
    not_evaluated,
    shares_figures,
    shows_scores,
)
from tacit.run.folder import PreparedRun, RunFolder, SavedJoint, SavedResult, history_record
from tacit.run.predict import load_model, predictions_of, write_csv
from tacit.run.result import Model, PartyModel, Result, make_part, traffic
from tacit.run.search import search_job, with_alpha
from tacit.run.star import Star
from tacit.solvers.base import Progress
from tacit.solvers.boosting.model import lightgbm_version
from tacit.solvers.boosting.sides import BoostingHistory
from tacit.text import one_line
from tacit.types import Arrays, Message, Shard, TraceRow, Vector
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
    for failure in (Refused, Interrupted):
        for name, reply in replies.items():
            if isinstance(reply, failure):
                raise party_error(name, reply)


def open_all(site: Site, names: Sequence[str], request: Open, make: MakeHandler[Own]) -> Own:
    """Open a run at this site, which leads it, and at the others; the handler of this site's own part.

    Raises
    ------
    PartyRefusedError, PartyInterruptedError
        Where one does not open it.
    """
    own = site.lead(request, make)
    ask_all(site, [name for name in names if name != site.name], request, Opened)
    return own


def align_sites(site: Site, names: Sequence[str], prepared: Mapping[str, Prepared]) -> None:
    """Let sites find their common rows by private matching, where they have not all done so in this run before.

    One that was interrupted goes on with the pieces of lists that are still to come. Where a site has lost its part of
    it, it begins anew, once.
    """
    runs, folder = {prepared[name].matched for name in names}, site.folder / site.open_run
    log = AnswerLog(folder)
    if len(runs) == 1 and runs != {""}:
        log.forget()
        return
    try:
        _match(site, names, log)
    except PartyRefusedError as error:
        if not log.begun or error.reason not in (Reason.TURN, Reason.MESSAGE):
            raise
        log.forget()
        _match(site, names, log := AnswerLog(folder))
    log.forget()


def _match(site: Site, names: Sequence[str], log: AnswerLog) -> None:
    """Ask all questions of a matching whose answers are not in the log."""

    def ask(name: str, step: str, payload: dict[str, Any]) -> Any:
        return from_reply(ask_all(site, [name], to_request(step, payload), Matched)[name])

    with MatchingProgress(site.folder / site.open_run) as observe:
        align(names, ask, at_once=True, observe=observe, kept=log)


def agree_on_masks(site: Site, masked: Sequence[str]) -> None:
    """Pass the keys of masks on between these sites; nothing where there are none.

    Raises
    ------
    RunError
        Where one of them sent no key.
    """
    if not masked:
        return
    keys = [reply.key for reply in ask_all(site, masked, Keys(), Key).values()]
    held = [key.array() for key in keys if key is not None]
    if len(held) < len(masked):
        raise RunError("a party sent no key for its masks")
    ask_all(site, masked, Agree(keys=Numbers.of(np.stack(held))))


class Sites:
    """The engine between organisations: the lead's own party answers here, the others where they are."""

    def __init__(self, site: Site, run: str, plan: Plan) -> None:
        self.site, self.run, self.names = site, run, list(plan.asked_parties)
        self.private = plan.private is not None

    def exchange(self, message: Message) -> list[Message]:
        """Ask every party; their answers in the parties' order."""
        if self.private and message.kind not in UNASKED:  # what the labels say with noise is a release too: once
            self.site.authorizer.released(self.run, QUESTIONS + message.round, digest(message))
        replies = ask_all(self.site, self.names, Answer(message=Packet.of(message)), Answered)
        answers = [replies[name].message.message(name, singles=True) for name in self.names]
        for answer in answers:
            if answer.kind != message.kind:
                raise RunError(f"party {answer.sender!r} sent an answer of kind {answer.kind!r} to {message.kind!r}")
        return answers

    def close(self) -> None:
        """Nothing is held open."""


class TrainingLead:
    """Leads one run of training at a site; `folder` is what is kept of it there."""

    def __init__(self, site: Site, run: str, job_text: str) -> None:
        self.site, self.run, self.text = site, run, job_text
        self.folder = RunFolder(site.folder / run)

    def finished_rounds(self, names: Sequence[str]) -> int | None:
        """Rounds of a run that ended before, which all may forget now; None where it has not ended."""
        if not self.folder.finished:
            return None
        ask_all(self.site, names, Forget())
        return int(self.folder.read_result()["rounds"])


class StarLead(TrainingLead):
    """Leads one run of a feature split at the site that holds the labels."""

    def go(self, observe: Observer | None = None) -> int:
        """Run to the end, or go on from where the run was; the number of rounds."""
        site, job = self.site, read_text(self.text)
        names, trees = job.names, lightgbm_version() if job.grows_trees(site.name) else ""
        opening = Open(run=self.run, job=self.text, version=__version__, lightgbm=trees)
        handler = open_all(site, names, opening, PartyHandler.open)
        if (rounds := self.finished_rounds(names)) is not None:
            return rounds
        self.handler, self.task = handler, handler.task
        prepared = ask_all(site, names, Prepare(), Prepared)
        self._align(names, prepared)
        plan = self._plan(names, ask_all(site, names, Shape(numbers=self._numbers(prepared)), Shaped))
        session = self._session(self._settled(plan))
        self._end(session, self._train(session, observe), names)
        ask_all(site, names, Forget())
        return session.state.rounds

    def _align(self, names: Sequence[str], prepared: Mapping[str, Prepared]) -> None:
        """Find the common rows by private matching, where the job names ids and all have not done so before."""
        by_id = {party.name: party.id is not None for party in self.task.job.parties}
        if not any(by_id.values()) or len(names) < 2:
            return
        if not all(by_id.values()):
            name = next(name for name, known in by_id.items() if not known)
            raise RunError(f"party {name!r} has no id column in the job, others have: give each one, or none")
        align_sites(self.site, names, prepared)

    def _numbers(self, prepared: Mapping[str, Prepared]) -> dict[str, str]:
        """Every party's number for the holdout, shown once all are bound to theirs; none where the job has a seed."""
        bound = {name: reply.bound for name, reply in prepared.items() if reply.bound}
        if not bound:
            return {}
        revealed = ask_all(self.site, list(prepared), Reveal(bound=bound), Revealed)
        return {name: reply.number for name, reply in revealed.items()}

    def _plan(self, names: Sequence[str], shapes: Mapping[str, Shaped]) -> Plan:
        """The plan of the sizes that the parties told; every party makes it again for itself."""
        rows = {name: shapes[name].rows for name in names}
        if len(set(rows.values())) > 1:
            held = ", ".join(f"{name!r} has {count}" for name, count in rows.items())
            raise RunError(f"the parties have different numbers of rows ({held}): name an id column for each party")
        count, columns = rows[names[0]], tuple(shapes[name].columns for name in names)
        curves = [shapes[name].curve_columns for name in names]
        plan = make_star_plan(self.task, count, columns, curves, self.handler.own.held_count)
        sizes = Begin(rows=[count], columns=list(columns), curve_columns=curves, plan=plan_print(plan))
        replies = ask_all(self.site, names, sizes, Begun)
        self.standing = {name: replies[name].at for name in plan.asked_parties}
        return plan

    def _settled(self, plan: Plan) -> Plan:
        """The plan with the alpha that the search of the job takes; a run that goes on takes the same.

        A search that was interrupted goes on with the folds that are not done; without privacy nothing is spent.
        """
        spec, own = self.task.job.search, self.handler.own
        if spec is None:
            return plan
        alpha = self.folder.read_searched_alpha()
        if alpha is None:
            own_fold = partial(FoldStar, self)
            found = search_job(plan, [own.shard], own.held_labels, spec, make=own_fold, kept=self.folder)
            self.folder.write_search(found.record())
            alpha = found.alpha
        ask_all(self.site, self.task.job.names, Settle(alpha=alpha))
        return with_alpha(plan, alpha)

    def _session(self, plan: Plan) -> SitesStar:
        """The coordinator with its state on this site's disk, in step with the parties at theirs."""
        own = self.handler.own
        labels = own.held_labels
        block = None if self.task.name in plan.asked_parties else block_of(own.shard)
        with fitting_threads([own.shard]), np.errstate(**QUIET):
            coordinator = Coordinator(plan, labels.values, block, own.held)
        session = SitesStar(plan, coordinator, Sites(self.site, self.run, plan), own.shard)
        self.versions = VersionedArrays(self.task.folder / LEAD, 1)
        if self.versions.numbers():
            session.restore(*from_arrays(self.versions.get(self.versions.numbers()[-1])[0]))
        else:
            self.folder.write_job(self.text)
            self._keep(session)
        for name, at in self.standing.items():
            if at not in (session.state.exchange, session.state.exchange + 1):
                raise RunError(
                    f"party {name!r} stands at exchange {at}, the coordinator at {session.state.exchange}: "
                    "one of them lost what it had written; run the job again from the beginning"
                )
        return session

    def _keep(self, session: SitesStar) -> None:
        """Have the coordinator's state on the disk before the next exchange begins."""
        self.versions.put(session.state.exchange, checkpoint_arrays(session), {})

    def _train(self, session: SitesStar, observe: Observer | None) -> Model:
        session.agree()
        with self.folder.growing_trace(session.state.trace) as add:
            return drive(session, both(add, observe), exchanged=self._keep)

    def _end(self, session: SitesStar, model: Model, names: Sequence[str]) -> None:
        """Every site writes its own part, made from its own fit; the lead, last, what belongs to no single one."""
        plan, asked = session.plan, session.plan.asked_parties
        ask_all(self.site, asked, End(scale=session.part_scale))
        if self.task.name not in asked:
            self.handler.keep_part(session.own_part())
        classes = self.handler.own.held_labels.classes
        costs = self.task.job.model.costs
        self.folder.write_joint(SavedJoint(plan.problem.loss, classes, names, model, costs=costs))
        if self.handler.own.held is not None:
            self._evaluate(session, model)
        finish_lead(self.folder, session.state, session.history)
        self.versions.forget()

    # --- evaluation ------------------------------------------------------------------------------------

    def _evaluate(self, session: SitesStar, model: Model) -> None:
        """Try the model on the rows held out, keep all figures here, and tell the others what the job says.

        A party that refuses its scores, or sends what is none, costs the figures and not the model.
        """
        job, others = self.task.job, [name for name in self.task.job.names if name != self.task.name]
        record = self.folder.read_evaluation()
        if record is None:
            record = self._evaluated(session, model)
            self.folder.write_evaluation(record)
        told = headlines(record) if shares_figures(session.plan, job) else Figures()
        rows = self.handler.own.held_count
        ask_all(self.site, others, Tell(rows=rows, **vars(told)))

    def _evaluated(self, session: SitesStar, model: Model) -> dict[str, Any]:
        plan, handler = session.plan, self.handler
        own = handler.own
        prepared = PreparedRun(self.task.job, plan, [own.shard], own.held_labels, own.held)
        tried = getattr(session.coordinator.side, "tried", None)
        if tried is not None:
            return evaluate_sites_by_release(plan, prepared, tried)
        if not shows_scores(plan):
            return not_evaluated(plan, prepared, NOT_SERVED)
        try:
            known = {handler.task.name: handler.held_scores(), **self._others_scores(plan)}
            parts = {name: known[name] for name in plan.party_names if name in known} | known  # in the job's order
            scores = np.sum(list(parts.values()), axis=0) + model.constant
        except FaultError:  # it goes on when everybody is back
            raise
        except RunError as error:
            return not_evaluated(plan, prepared, f"Nothing was evaluated: {one_line(error)}.")
        with fitting_threads([own.shard]), np.errstate(**QUIET):
            return evaluate_sites(plan, prepared, parts, scores)

    def _others_scores(self, plan: Plan) -> dict[str, Vector]:
        """What the others add to the scores of the rows held out; under masks their sum alone."""
        others, masked = [n for n in self.task.job.names if n != self.task.name], masked_scores(plan, self.task.name)
        if not others:
            return {}
        agree_on_masks(self.site, masked)
        replies = ask_all(self.site, others, Scores(), Answered)
        answers = [replies[name].message.message(name) for name in others]
        shape = self.handler.held_scores().shape
        if masked:
            return {" and ".join(masked): add_up(answers, masked, shape)}
        return {answer.sender: add_up([answer], (), shape) for answer in answers}


class SitesStar(Star):
    """The session of a feature split at the site that leads it: the coordinator's state is all that it has."""

    def __init__(self, plan: Plan, coordinator: Coordinator, engine: Sites, own: Shard) -> None:
        super().__init__(plan, coordinator, engine, LoopState())
        self.own = own

    @contextmanager
    def running(self) -> Iterator[None]:
        """With the threads that fit the lead's own columns."""
        with fitting_threads([self.own]), np.errstate(**QUIET):
            yield

    @property
    def part_scale(self) -> float:
        """The one number of the parties' parts that the coordinator sets."""
        return float(getattr(self.coordinator.side, "part_scale", 1.0))

    @property
    def history(self) -> BoostingHistory | None:
        """Losses and steps by round of a run of trees; None where there are none."""
        return getattr(self.coordinator.side, "history", None)

    def own_part(self) -> PartyModel:
        """The part of the lead itself, where the coordinator has its columns."""
        return cast(
            "PartyModel", make_part(self.own.name, self.own.columns, self.coordinator.side.parts()[self.own.name])
        )

    def result(self) -> Model:
        """What belongs to no single party: the parts of the model are with their owners."""
        private = self.plan.private
        readers = None if private is None else private.predictions_for
        constant = self.coordinator.side.intercept
        return Model((), constant if np.ndim(constant) else float(constant), predictions_for=readers)

    def snapshot(self) -> dict[str, Arrays]:
        """The coordinator's state, for its checkpoint."""
        return {"coordinator": self.coordinator.state()}

    def restore(self, states: dict[str, Arrays], state: LoopState) -> None:
        """Go on from the coordinator's state."""
        self.coordinator.restore(states["coordinator"])
        self.state = state


class FoldStar(SitesStar):
    """One fold of the search for alpha: its rows at every site, at one alpha after the other."""

    def __init__(self, lead: StarLead, plan: Plan) -> None:
        own, weights = lead.handler.own, plan.problem.row_weights
        assert weights is not None
        with fitting_threads([own.shard]), np.errstate(**QUIET):
            coordinator = Coordinator(plan, own.held_labels.values)
        super().__init__(plan, coordinator, Sites(lead.site, lead.run, plan), own.shard)
        self.site = lead.site
        self._ask(Numbers.of((weights > 0).astype(np.uint8)))
        self.agree()

    def _ask(self, seen: Numbers | None = None) -> None:
        ask_all(self.site, self.plan.asked_parties, Try(alpha=self.plan.problem.alpha, seen=seen))

    def retune(self, plan: Plan) -> None:
        """Go on from the end of the last fit with another alpha."""
        self.plan = plan
        self._ask()
        self.coordinator.retune(plan)
        self.state = LoopState(exchange=self.state.exchange + 1)  # the closing broadcast had a number too

    def go(self) -> Result:
        """Run to the end; the parts of the model are with their owners, and not asked for."""
        model, state = drive(self), self.state
        return Result(
            plan=self.plan,
            model=model,
            trace=state.trace,
            certificate=self.plan.certificate(),
            converged=state.converged,
            note=state.note,
            seconds=state.seconds,
            traffic=traffic(state.trace),
        )


def both(add: Observer, observe: Observer | None) -> Observer:
    """Write a round down, and then show it to whoever looks on."""

    def after(row: TraceRow) -> None:
        add(row)
        if observe:
            observe(row)

    return after


def finish_lead(folder: RunFolder, state: LoopState, history: BoostingHistory | None = None) -> None:
    """Write how a run went that this site led, which ends it here; `history` is that of trees."""
    folder.write_trace(state.trace)
    folder.write_result(
        SavedResult(
            rounds=state.rounds,
            converged=state.converged,
            note=state.note,
            seconds=state.seconds,
            traffic=traffic(state.trace),
            boosting=None if history is None else history_record(history),
        )
    )


# --- What the first node of a sample split does to lead it: it keeps the rounds in step


class GraphLead(TrainingLead):
    """Leads one run of a sample split at its first node."""

    def go(self, observe: Observer | None = None) -> int:
        """Run to the end, or go on from where the run was; the number of rounds."""
        site, names = self.site, read_text(self.text).names
        handler = open_all(site, names, Open(run=self.run, job=self.text, version=__version__), NodeHandler.open)
        if (rounds := self.finished_rounds(names)) is not None:
            return rounds
        self.handler, self.task = handler, handler.task
        session = SitesGraph(site, names, self._plan(names, ask_all(site, names, Prepare(), Prepared)), handler)
        self._go_on(session)
        session.agree()
        with self.folder.growing_trace(session.state.trace) as add:
            drive(session, both(add, observe), checkpoint=self.folder.keep)
        ask_all(site, names, End())
        finish_lead(self.folder, session.state)
        self.folder.checkpoint.unlink(missing_ok=True)
        ask_all(site, names, Forget())
        return session.state.rounds

    def _plan(self, names: Sequence[str], prepared: Mapping[str, Prepared]) -> Plan:
        """The plan of the sizes that the nodes told; every node makes it again for itself."""
        first = prepared[names[0]]
        for name in names:
            if (prepared[name].names, prepared[name].columns) != (first.names, first.columns):
                raise RunError(f"party {name!r} has different columns than {names[0]!r}: all need the same, by name")
        rows = tuple(prepared[name].rows for name in names)
        plan = make_graph_plan(self.task, self.handler.own, rows)
        sizes = Begin(rows=list(rows), columns=[first.columns], plan=plan_print(plan))
        replies = ask_all(self.site, names, sizes, Begun)
        self.standing = {name: replies[name].at for name in names}
        return plan

    def _go_on(self, session: SitesGraph) -> None:
        """Bring the lead to its last round, in step with the nodes at their sites."""
        saved = self.folder.read_checkpoint()
        if saved is not None:
            session.restore(*saved)
        else:
            self.folder.write_job(self.text)
            self.folder.keep(session)
        for name, at in self.standing.items():
            if at not in (session.state.rounds, session.state.rounds + 1):
                raise RunError(
                    f"party {name!r} stands at round {at}, the lead at {session.state.rounds}: one of them lost what "
                    "it had written; run the job again from the beginning"
                )


class SitesGraph:
    """The session of a sample split at its first node, which keeps the rounds in step and sees no message of others."""

    knows_objective = False  # nobody does

    def __init__(self, site: Site, names: Sequence[str], plan: Plan, own: NodeHandler) -> None:
        self.site, self.names, self.plan, self.own = site, names, plan, own
        self.state = LoopState()

    def agree(self) -> None:
        """Pass the keys of masks on, where the run has them."""
        plan = self.plan
        if plan.secure:
            agree_on_masks(self.site, plan.graph.names)

    @contextmanager
    def running(self) -> Iterator[None]:
        """What was on its way is sent once more; under new masks a sum that was going up is, from its beginning."""
        for round_ in self.own.node.sent_again(self.state.rounds):
            ask_all(self.site, self.names, Resend(round=round_))
        yield

    def exchange(self) -> Progress:
        """One round at every node, and what they tell of their own progress."""
        told = list(ask_all(self.site, self.names, Play(round=self.state.exchange + 1), Played).values())
        self.state.exchange += 1
        self.state.up += sum(one.sent for one in told)
        done = [one.done for one in told]
        if any(done) != all(done):
            raise RunError(
                f"round {self.state.exchange}: {done.count(True)} of {len(done)} nodes would stop, others not"
            )
        residuals = [one.residual for one in told if one.residual is not None]
        return Progress(
            objective=math.nan,
            primal=math.nan,
            dual=max(residuals) if len(residuals) == len(told) else math.nan,
            rho=self.own.node.progress.rho,
            done=all(done),
        )

    def close(self) -> None:
        """Every node takes in the last messages."""
        ask_all(self.site, self.names, Finish(round=self.state.exchange + 1))

    def result(self) -> None:
        """Nothing: each node has its model."""

    def snapshot(self) -> dict[str, Arrays]:
        """The lead has no arrays of its own."""
        return {}

    def restore(self, states: dict[str, Arrays], state: LoopState) -> None:
        """Go on after the last round that the lead wrote down."""
        self.state = state


# --- What the site that gets the predictions does: it asks the others for their scores, and adds them up


PREDICTIONS = "predictions.csv"


class ScoreLead:
    """Leads one joint prediction."""

    def __init__(self, site: Site, run: str, text: str) -> None:
        self.site, self.run, self.text, self.request = site, run, text, read_request(text)

    def go(self, observe: Observer | None = None) -> int:
        """Predict the common rows into predictions.csv of the run, in one round."""
        site, names = self.site, self.request.parties
        handler = open_all(site, names, Open(run=self.run, job=self.text, version=__version__), ScoreHandler.open)
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
        others = self._others((rows.pop(), *np.shape(model.constant)), answered == {True})
        total = model.constant + handler.common_scores() + others
        predictions = predictions_of(model, np.array(handler.common_ids(), dtype=object), total, model.ids[0])
        write_csv(handler.folder / PREDICTIONS, predictions, secret=True)
        site.close()
        return 1

    def _others(self, shape: tuple[int, ...], answered: bool) -> Vector:
        """The sum of the other parties' scores; where all sent them before, the same bytes come again."""
        site, others, masked = self.site, self.request.parties[1:], self.request.masked
        if not answered:
            agree_on_masks(site, masked)
        replies = ask_all(site, others, Scores(), Answered)
        return add_up([replies[name].message.message(name) for name in others], masked, shape)
