"""What one organisation does when it is asked: its own rows, its own disk, its own consent. Knows no transport.

A joint job is a row of steps that the leading site asks of all sites, itself included (`lead.py`):

| step | who may ask | what the site does | what leaves |
|---|---|---|---|
| open | the lead | reads the job, which is data, and its own file | number of rows, version |
| align | the lead | its part of private alignment, where the job names ids | points of a curve |
| shape | the lead | picks the common rows and encodes its columns | number of columns, bytes |
| begin | the lead | makes the same plan as everybody; consent; budget | where its journal stands |
| answer | the lead | one exchange of a feature split | one planned message |
| play, put, again | the lead; a neighbour | one round of a sample split | planned messages; how far it has come |
| end, forget | the lead | writes its part of the model to its own disk; deletes its journal | nothing |

Whatever goes wrong comes back as one line without data in it; the caller names the site. An "error" is a refusal, which
ends the run. A "fault" (a full disk, another process that still runs) interrupts it: the site drops what it has in
memory, which may be ahead of its journal, and the run goes on when it is opened again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import tacit
from tacit.data.cluster import ClusterAddress, ClusterDataError, ClusterGoneError
from tacit.data.wording import one_line, show
from tacit.errors import FaultError, InputError, RunError
from tacit.job import Job
from tacit.job.file import parse_job
from tacit.plan import GraphPlan, Plan
from tacit.runtime.files import write_text

PROBLEM = "problem.txt"
Payload = Mapping[str, Any]
Ask = Callable[[Sequence[str], str, Payload], dict[str, dict[str, Any]]]


class Gate(Protocol):
    """A site's say in whether a job is run: its consent and its budget."""

    def allow(self, run: str, job: Job, plan: Plan | GraphPlan, party: str) -> None:
        """Return where the site takes part in the run; raise `RunError` where it does not."""

    def allow_scores(self, run: str, party: str, lines: Sequence[str]) -> None:
        """Return where the site lets its scores leave; raise `RunError` where it does not."""

    def released(self, run: str, number: int, digest: str) -> None:
        """Take down that a release is about to leave; the same one again, as it is sent again, counts once."""


class OpenGate:
    """Takes part in everything: for tests, and for parties of one process."""

    def allow(self, run: str, job: Job, plan: Plan | GraphPlan, party: str) -> None:
        """Yes."""

    def allow_scores(self, run: str, party: str, lines: Sequence[str]) -> None:
        """Yes."""

    def released(self, run: str, number: int, digest: str) -> None:
        """Nothing is taken down."""


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
    gate : Gate
    dask : ClusterAddress or None
        The site's own cluster, which reads and keeps its rows.
    """

    run: str
    job: Job
    name: str
    data: Path
    folder: Path
    lead: str
    gate: Gate
    dask: ClusterAddress | None = None

    def check_plan(self, plan: Plan | GraphPlan, told: object) -> None:
        """Refuse a plan that is not the lead's: then somebody runs other software, or said other sizes."""
        if told != plan_print(plan):
            raise RunError(
                f"{self.name!r} makes another plan of this job than {self.lead!r}: "
                "install the same version of tacit everywhere"
            )


class OwnDataError(InputError):
    """Something is wrong with a site's own data; the line may quote them, so it does not travel."""


STAYS = (OwnDataError, ClusterDataError, ClusterGoneError)  # what is said of a cluster names machines and files


@contextmanager
def own_data() -> Iterator[None]:
    """What goes wrong inside is about the site's own data."""
    try:
        yield
    except InputError as error:
        raise OwnDataError(str(error)) from error


class Work(Protocol):
    """A site's part in one run, by the split of the job."""

    def handle(self, step: str, payload: Payload, caller: str) -> dict[str, Any]:
        """Do one step."""


def plan_print(plan: Plan | GraphPlan) -> str:
    """A fingerprint of everything a plan says."""
    record = {**plan.record(), "seed": plan.problem.seed, "certificate": plan.certificate().to_json()}
    return hashlib.sha256(json.dumps(record, sort_keys=True, default=str).encode()).hexdigest()


def lead_of(job: Job) -> str:
    """The site that leads a job: the holder of the labels, or the first node."""
    return job.holder if job.split == "features" else job.names[0]


class Site:
    """One organisation; makes the work of a run when it is opened.

    Parameters
    ----------
    name : str
    data : Path
        Its own file.
    folder : Path
        Where it keeps runs.
    gate : Gate
    ask : callable
        Asks other sites: names, step, payload -> their replies.
    new : Path or None
        Its own file of rows to predict; None for the file it trains on.
    dask : ClusterAddress or None
        Its own cluster, where its rows outgrow the machine.
    """

    def __init__(
        self,
        name: str,
        data: Path,
        folder: Path,
        gate: Gate,
        ask: Ask,
        new: Path | None = None,
        dask: ClusterAddress | None = None,
    ) -> None:
        self.name, self.data, self.folder, self.gate, self.ask, self.dask = name, data, folder, gate, ask, dask
        self.new = data if new is None else new
        self.open_run = ""
        self.work: Work | None = None
        self.busy = threading.RLock()
        self.lock: RunLock | None = None

    def handle(self, step: str, payload: Payload, caller: str) -> dict[str, Any]:
        """Do one step, and never raise: what is wrong is returned as a line under "error" or "fault".

        One step at a time, so that one which is asked for again waits for the first; neighbours put in what they have
        at any time.
        """
        try:
            if step == "put" and self.work is not None:
                return self.work.handle(step, payload, caller)
            with self.busy:
                return self._step(step, payload, caller)
        except FaultError as error:
            return self._fault(one_line(error))
        except (InputError, RunError) as error:
            return {"error": self.told(error)}
        except OSError as error:  # a disk that refuses what is not written by way of `runtime.files`
            return self._fault(
                f"{type(error).__name__} in step {step[:40]!r}: {error.strerror or 'the system refused'}"
            )
        except Exception as error:  # the text of any other error may quote data: its type does not
            logging.getLogger(__name__).exception("step %r failed", step[:40])
            return {"error": f"{type(error).__name__} in step {step[:40]!r}: see the log of {self.name!r}"}

    def told(self, error: InputError | RunError) -> str:
        """What others are told of an error; one that may quote own data is written down for this organisation alone."""
        if not isinstance(error, STAYS):
            return one_line(error)
        if self.open_run:
            write_text(self.folder / self.open_run / PROBLEM, one_line(error) + "\n", secret=True)
        return "it cannot use its own data; why is told there, by tacit status"

    def _fault(self, line: str) -> dict[str, Any]:
        """Drop the work: its state may be ahead of what is on the disk, and must not answer anything."""
        logging.getLogger(__name__).warning("interrupted: %s", line)
        self.work = None
        return {"fault": line}

    def _step(self, step: str, payload: Payload, caller: str) -> dict[str, Any]:
        if step == "open":
            return self._open(payload, caller)
        if self.work is None:
            raise FaultError(f"{step[:40]!r} was asked for before the job was opened")
        return self.work.handle(step, payload, caller)

    def _open(self, payload: Payload, caller: str) -> dict[str, Any]:
        from tacit.federation.works import make_work  # it knows all kinds of work, which know this file

        if payload.get("version") != tacit.__version__:
            raise RunError(
                f"{caller!r} runs tacit {show(payload.get('version'))}, {self.name!r} runs {tacit.__version__}: "
                "install the same version everywhere"
            )
        run, text = check_run(payload.get("run")), payload.get("job")
        folder = self.folder / run
        folder.mkdir(parents=True, exist_ok=True)
        if self.lock is None or self.lock.folder != folder:
            self.lock = RunLock(folder)
        self.open_run = run
        (folder / PROBLEM).unlink(missing_ok=True)  # it may have been mended since
        self.work = make_work(self, run, text, caller)
        return self.work.handle("open", payload, caller)


class RunLock:
    """Held by the one process of a site that works on a run; the system lets it go when that ends, however it ends.

    A process of an earlier attempt may still run when the job is handed in again: two would write one journal.

    Raises
    ------
    FaultError
        Where another process holds it.
    """

    def __init__(self, folder: Path) -> None:
        import fcntl

        self.folder = folder
        self.file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.lockf(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self.file)
            raise FaultError("another process still works on this run") from error


def read_text(text: object) -> Job:
    """The job of a text that came from elsewhere: data, checked like a file; refuses what sites cannot run together."""
    if not isinstance(text, str) or len(text) > 1_000_000:
        raise InputError("there is no job in the message")
    job = parse_job(text, "the job")
    for key, value in (("holdout", job.holdout), ("memory", job.memory), ("[search]", job.search)):
        if value:
            raise InputError(f'{key} cannot be used with engine = "flare" yet: leave it out of the job')
    return job


def check_run(run: object) -> str:
    """The name of a run, which names a folder."""
    if not isinstance(run, str) or not 8 <= len(run) <= 100 or not run.replace("-", "").isalnum() or not run.isascii():
        raise InputError("the run has no name of 8 to 100 letters, digits and -")
    return run
