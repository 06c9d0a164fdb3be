"""What one organisation does when it is asked: its own rows, its own disk, its own consent. Knows no transport.

`protocol.py` lists the steps, who may ask for them, and what leaves. A site that does not do what it is asked says one
of a few constants (`Reason`); the details stay in its own run folder, for `tacit status`. What depends on rows is never
told by the kind of a refusal: every such stop is the same constant.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Generic, Protocol, Self, TypeVar, overload

from tacit.data.cluster import ClusterAddress
from tacit.errors import FaultError, InputError, RunError
from tacit.federation.protocol import (
    Forget,
    Interrupted,
    InterruptionError,
    Open,
    Opened,
    Packet,
    Prepare,
    Put,
    Reason,
    RefusalError,
    Refused,
    Step,
    party_error,
)
from tacit.files import open_lock, read_json, text_digest, try_lock, write_json, write_text
from tacit.job import Job
from tacit.job.file import parse_job
from tacit.plan import Plan
from tacit.plan.terms import with_terms
from tacit.run.folder import RunFolder, plan_record
from tacit.run.masking import KeySigner
from tacit.text import one_line
from tacit.types import Message
from tacit.version import __version__

PROBLEM = "problem.txt"
OVER = "over.json"  # a run that ended: nothing of it is done again
QUESTIONS = 500_000_000  # from here on the lead's record numbers what it sends; below, what its own party answers
OWNER = "owner.json"  # whose run it is: written at the first yes, and compared whenever the run is opened
Ask = Callable[[Sequence[str], Step], dict[str, Step]]
Value = TypeVar("Value")


@dataclass(frozen=True)
class MatchingLimits:
    """What a party allows in matching ids.

    Attributes
    ----------
    most_ids : int
        Ids that another party may bring at most.
    least_common : int
        Rows that must be common to all parties at least.
    tries : int
        How often ids are matched in one run at most: matching that was interrupted begins again.
    """

    most_ids: int = 10_000_000
    least_common: int = 20
    tries: int = 5


class Authorizer(Protocol):
    """A site's say in what is asked of it: its consent, in stages, and its budget."""

    limits: MatchingLimits

    def allow_job(self) -> None:
        """Return where the organisation takes part in jobs at all; raise `RefusalError` where it does not."""

    def allow_preparing(self, run: str, party: str, others: Sequence[str], lines: Sequence[str], job: str) -> None:
        """Return where ids may be matched and sizes told for this text of a job; raise `RefusalError` where not."""

    def allow(self, run: str, job: Job, plan: Plan, party: str, bound: Mapping[str, str]) -> None:
        """Return where the site takes part in the training; raise `RefusalError` where it does not.

        `bound` is what the consent depends on besides: fingerprints of the rows and of their alignment.
        """

    def allow_scores(self, run: str, party: str, lines: Sequence[str], bound: Mapping[str, str]) -> None:
        """Return where the site lets these scores leave; raise `RefusalError` where it does not."""

    def released(self, run: str, number: int, digest: str) -> None:
        """Record that a release is about to leave; the same one again, as it is sent again, counts once."""

    def last_release(self, run: str) -> int:
        """The largest number under which this party has answered in a run, by the record; -1 where there is none."""


class AllowAll:
    """Takes part in everything: for tests, and for parties of one process."""

    limits = MatchingLimits(least_common=1)

    def allow_job(self) -> None:
        """Take part in every job."""

    def allow_preparing(self, run: str, party: str, others: Sequence[str], lines: Sequence[str], job: str) -> None:
        """Let ids be matched and sizes be told."""

    def allow(self, run: str, job: Job, plan: Plan, party: str, bound: Mapping[str, str]) -> None:
        """Take part in every training."""

    def allow_scores(self, run: str, party: str, lines: Sequence[str], bound: Mapping[str, str]) -> None:
        """Let all scores leave."""

    def released(self, run: str, number: int, digest: str) -> None:
        """Record nothing."""

    def last_release(self, run: str) -> int:
        """Know of no release."""
        return -1


@dataclass(frozen=True)
class Task:
    """One run of a job at a site.

    Attributes
    ----------
    run : str
        Names the run at every site: the same when it goes on, another when the job is run again.
    job : Job
    name : str
        Of the site, and of its party in the job.
    data : Path
        The site's own file.
    folder : Path
        Where the site keeps the run's journal and its part of the model.
    lead : str
        The site that leads.
    authorizer : Authorizer
    dask : ClusterAddress or None
        The site's own cluster, which reads and keeps its rows.
    signer : KeySigner or None
        Vouches for the keys of masks.
    text : str
        The job as it came.
    """

    run: str
    job: Job
    name: str
    data: Path
    folder: Path
    lead: str
    authorizer: Authorizer
    dask: ClusterAddress | None = None
    signer: KeySigner | None = None
    text: str = ""

    @classmethod
    def of(cls, site: Site, request: Open, caller: str) -> Task:
        """The run that another site, or this one, opens here.

        Raises
        ------
        RefusalError
            Where whoever asks does not lead the job, or it is not for this site.
        """
        job = read_text(request.job)
        check_asked(site.name, caller, lead_of(job), job.names)
        own = (site.authorizer, site.dask, site.signer, request.job)
        return cls(request.run, job, site.name, site.data, site.folder / request.run, caller, *own)

    @property
    def others(self) -> tuple[str, ...]:
        """Everybody else in the job."""
        return tuple(name for name in self.job.names if name != self.name)

    def mask_context(self, plan: Plan) -> str:
        """What masks of this run are bound to: parties that were told different jobs or plans get sums of noise."""
        text = text_digest(self.job.to_toml())
        return f"{self.run} {text} {plan_print(plan)}"

    def keep_plan(self, plan: Plan) -> None:
        """Keep the job and the plan, which are public among the parties, for whoever looks at the run here."""
        folder = RunFolder(self.folder)
        folder.write_job(self.text)
        folder.write_plan(plan_record(plan))

    def check_lead(self, caller: str) -> None:
        """Refuse whoever does not lead."""
        if caller != self.lead:
            raise RefusalError(Reason.NOT_LEAD)

    def check_record(self, at: int) -> None:
        """Refuse to go on from a journal that ends before what has left: its noise would be drawn a second time."""
        if self.authorizer.last_release(self.run) > at:
            raise RefusalError(Reason.LOST)

    def check_plan(self, plan: Plan, told: str) -> None:
        """Refuse a plan that is not the lead's: then somebody runs different software, or told different sizes."""
        if told != plan_print(plan):
            raise RefusalError(Reason.PLAN)


class Handler(Protocol):
    """A site's part in one run: does the steps that the protocol lists for it, for whoever may ask."""

    def handle(self, request: Step, caller: str) -> Step:
        """Do one step for a site whose name is known."""


@contextmanager
def private_errors() -> Iterator[None]:
    """What goes wrong inside is about the site's own data: why stays here."""
    try:
        yield
    except InputError as error:
        raise RefusalError(Reason.STOPPED, one_line(error)) from error


class StepResult(Generic[Value]):
    """What one step of a handler leaves for later ones; to need it before that step was asked for is out of turn.

    An attribute of a handler: its step sets it, and a step that fails deletes what it may have left half done.

    Raises
    ------
    RefusalError
        `Reason.TURN`, where it is read and is not there.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, handler: None, owner: type) -> Self: ...

    @overload
    def __get__(self, handler: object, owner: type) -> Value: ...

    def __get__(self, handler: object | None, owner: type) -> Self | Value:
        if handler is None:
            return self
        value: Value | None = vars(handler).get(self.name)
        if value is None:
            raise RefusalError(Reason.TURN)
        return value

    def __set__(self, handler: object, value: Value) -> None:
        vars(handler)[self.name] = value

    def __delete__(self, handler: object) -> None:
        vars(handler).pop(self.name, None)


def received(packet: Packet, sender: str, *, singles: bool = False) -> Message:
    """The message that another site sent; `singles` where there may be float32 numbers in it.

    Raises
    ------
    RefusalError
        Where its arrays cannot be used: that is known from the message alone.
    """
    try:
        return packet.message(sender, singles=singles)
    except RunError as error:
        raise RefusalError(Reason.MESSAGE, str(error)) from error


def check_asked(site: str, caller: str, lead: str, names: Sequence[str]) -> None:
    """Refuse whoever does not lead what a text asks for, and a text in which this site takes no part."""
    if caller != lead:
        raise RefusalError(Reason.NOT_LEAD)
    if site not in names:
        raise RefusalError(Reason.JOB)


def mask_cautions(unchecked: Sequence[str], reader: str) -> list[str]:
    """What a party is shown where it cannot check the keys of masks of others: who could read it with false ones."""
    if not unchecked:
        return []
    names = ", ".join(unchecked)
    return [
        f"nobody here has confirmed the keys of {names}: {reader} could then read your part alone; compare and confirm "
        "them first (tacit federation members KIT)"
    ]


def plan_print(plan: Plan) -> str:
    """A fingerprint of everything a plan says."""
    record = {**plan.record(), "seed": plan.problem.seed, "certificate": plan.certificate().to_json()}
    return text_digest(json.dumps(record, sort_keys=True, default=str))


def lead_of(job: Job) -> str:
    """The site that leads a job: the holder of the labels, or the first node."""
    return job.names[0] if job.rows_are_split else job.holder


Own = TypeVar("Own", bound=Handler)
MakeHandler = Callable[["Site", Open, str], Own]  # for a request to open a run, and who asks


class Site:
    """One organisation; makes the handler of a run when it is opened.

    Parameters
    ----------
    name : str
    data : Path
        Its own file.
    folder : Path
        Where it keeps runs.
    authorizer : Authorizer
    ask : callable
        Asks other sites: names, request -> their replies.
    make_handler : callable
        What a request to open asks for: `tacit.federation.handlers.make_handler`.
    new : Path or None
        Its own file of rows to predict; None for the file it trains on.
    dask : ClusterAddress or None
        Its own cluster, where its rows outgrow the machine.
    signer : KeySigner or None
        Vouches for the keys of its masks, and checks those of others; None where sites have no keys of their own.
    """

    def __init__(
        self,
        name: str,
        data: Path,
        folder: Path,
        authorizer: Authorizer,
        ask: Ask,
        make_handler: MakeHandler[Handler],
        new: Path | None = None,
        dask: ClusterAddress | None = None,
        signer: KeySigner | None = None,
    ) -> None:
        self.name, self.data, self.folder = name, data, folder
        self.authorizer, self.ask, self.dask = authorizer, ask, dask
        self.make_handler, self.new, self.signer = make_handler, data if new is None else new, signer
        self.open_run, self.opened_by, self.agreed = "", "", False
        self.owner: dict[str, str] = {}  # who leads the run that is open, and a fingerprint of its text
        self.handler: Handler | None = None
        self.busy = threading.RLock()
        self.lock: RunLock | None = None

    def handle(self, request: Step, caller: str) -> Step:
        """Do one step, and never raise: why it is not done is one of a few constants.

        One step at a time, so that one which is asked for again waits for the first; neighbours put in what they have
        at any time.
        """
        try:
            if isinstance(request, Put) and self.handler is not None:
                return self.handler.handle(request, caller)
            with self.busy:
                return self._step(request, caller)
        except Exception as error:
            return self._failure(request, caller, error)

    def lead(self, request: Open, make: MakeHandler[Own]) -> Own:
        """Open a run that this site leads; the handler of its own part.

        Raises
        ------
        PartyRefusedError, PartyInterruptedError
            Where another site would be refused or interrupted, with the same reason.
        """
        try:
            with self.busy:
                self.authorizer.allow_job()
                return self._open(request, self.name, make)
        except Exception as error:
            raise party_error(self.name, self._failure(request, self.name, error)) from error

    def _failure(self, request: Step, caller: str, error: Exception) -> Refused | Interrupted:
        """Why a step was not done, as whoever asked may know it; what is wrong stays here."""
        match error:
            case InterruptionError():
                return self._interrupted(error.reason, error)
            case FaultError():
                return self._interrupted(Reason.DISK, error)
            case RefusalError() if isinstance(request, Open):  # it was not taken: nothing about the run that is open
                logging.getLogger(__name__).warning("%s opened nothing: %s", caller, one_line(error))
                return Refused(reason=error.reason)
            case RefusalError():
                return self._refused(error.reason, error.detail)
            case InputError() | RunError():  # the line may quote data: it stays here
                return self._refused(Reason.STOPPED, one_line(error))
            case OSError():  # a disk that refuses what is not written by way of `tacit.files`
                return self._interrupted(Reason.DISK, error)
        logging.getLogger(__name__).exception("%s failed", type(request).__name__)
        return self._refused(Reason.STOPPED, f"{type(error).__name__}: see the log")

    def note_problem(self, line: str) -> None:
        """Write down what is wrong for this organisation alone."""
        if line and self.open_run:
            write_text(self.folder / self.open_run / PROBLEM, line + "\n", secret=True)

    def _refused(self, reason: Reason, detail: str) -> Refused:
        """Refuse with a constant; what is wrong here is written down for this organisation alone."""
        self.note_problem(detail)
        return Refused(reason=reason)

    def _interrupted(self, reason: Reason, error: Exception) -> Interrupted:
        """Drop the handler: its state may be ahead of what is on the disk, and must not answer anything."""
        logging.getLogger(__name__).warning("interrupted: %s", one_line(error))
        self.handler = None
        return Interrupted(reason=reason)

    def _step(self, request: Step, caller: str) -> Step:
        self.authorizer.allow_job()
        if isinstance(request, Open):
            self._open(request, caller, self.make_handler)
            return Opened()
        if self.handler is None:
            raise InterruptionError(Reason.NOT_OPEN)
        if (self.folder / self.open_run / OVER).exists() and not isinstance(request, Forget):
            raise RefusalError(Reason.OVER)
        reply = self.handler.handle(request, caller)
        if isinstance(request, Prepare):
            self.agreed = True
            write_json(self.folder / self.open_run / OWNER, self.owner)  # the run is this lead's from now on
        if isinstance(request, Forget):
            self.close()
        return reply

    def _open(self, request: Open, caller: str, make: MakeHandler[Own]) -> Own:
        """Read a job; in the middle of a run that the site has agreed to, nobody but its own lead opens anything."""
        if request.version != __version__:
            raise RefusalError(Reason.VERSION)
        if self.handler is not None and self.agreed and caller != self.opened_by:
            raise RefusalError(Reason.BUSY)
        handler = make(self, request, caller)  # of a job that is none nothing is kept
        folder = self.folder / request.run
        owner = {"lead": caller, "job": text_digest(request.job), "version": f"tacit {__version__}"}
        if (folder / OWNER).exists():
            check_owner(read_json(folder / OWNER), owner)
        folder.mkdir(parents=True, exist_ok=True)
        if self.lock is None or self.lock.folder != folder:
            self.lock = RunLock(folder)
        (folder / PROBLEM).unlink(missing_ok=True)  # it may have been fixed since
        self.open_run, self.opened_by, self.agreed, self.handler = request.run, caller, False, handler
        self.owner = owner
        return handler

    def close(self) -> None:
        """End the run that is open: another member may open one."""
        self.handler, self.open_run, self.opened_by, self.agreed = None, "", "", False


def check_owner(before: Mapping[str, object], now: Mapping[str, object]) -> None:
    """Refuse to go on with the run of another lead or job, or one that another version of the software began.

    Raises
    ------
    RefusalError
    """
    if any(before.get(key) != now[key] for key in ("lead", "job")):
        raise RefusalError(Reason.OTHER_JOB)
    if before.get("version") != now["version"]:
        began = before.get("version") or "an older version of tacit"
        raise RefusalError(Reason.BEGUN_WITH, f"this run was begun with {began}, and this is {now['version']}")


class RunLock:
    """Held by the one process of a site that works on a run; the system lets it go when that ends, however it ends.

    A process of an earlier attempt may still run when the job is handed in again: two would write one journal.

    Raises
    ------
    InterruptionError
        Where another process holds it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = open_lock(folder / "lock")
        if not try_lock(self.file, by_process=True):
            os.close(self.file)
            raise InterruptionError(Reason.LOCKED)


def is_worked_on(folder: Path) -> bool:
    """Whether another process works on a run: for people who look at it, not for a process that works on it itself."""
    try:
        file = os.open(folder / "lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not try_lock(file, by_process=True)
    finally:
        os.close(file)


@lru_cache(maxsize=64)
def read_text(text: str) -> Job:
    """The job of a text that came from elsewhere: data, checked like a file; refuses what sites cannot run together.

    Kept, since every step of a run looks at its job.
    """
    job = parse_job(text, "the job")
    if job.memory:
        raise InputError("memory is about one machine, and each site has its own: leave it out of the job")
    if job.holdout_words and not job.holdout:
        raise InputError(f'{job.holdout_words} is not for engine = "flare" yet: write holdout = 0.2, or leave it out')
    return _with_curves(job) if job.has_curves else job


def _with_curves(job: Job) -> Job:
    """The job with what curves need to know of its plan; refuses curves that sites cannot make together."""
    if job.encode.terms == "auto":
        raise InputError('terms = "auto" cannot be used with engine = "flare" yet: write "linear" or "spline"')
    if job.rows_are_split and job.encode.pairs is None:
        raise InputError(
            "between organisations that hold different rows give pairs = ... under [encode]: "
            "tacit plan prints the number"
        )
    return with_terms(job)


def check_run(run: object) -> str:
    """The name of a run, which names a folder."""
    if not isinstance(run, str) or not 8 <= len(run) <= 100 or not run.replace("-", "").isalnum() or not run.isascii():
        raise InputError("the name of a run has 8 to 100 letters, digits and -: give all of it, as tacit status does")
    return run
