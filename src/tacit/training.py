"""A job from Python: train it as `tacit train` does, into a folder, and get back what that folder holds."""

from __future__ import annotations

import os
import re
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.columns.spec import SPLINE
from tacit.data.cluster import Cluster, ClusterAddress
from tacit.errors import InputError, RunError
from tacit.job import Job, read_job
from tacit.plan import Plan
from tacit.run import evaluation
from tacit.run.checkpoint import (
    CHECKPOINT_SECONDS,
    LOW_MEMORY_CHECKPOINT_SECONDS,
    Checkpoints,
    check_interval,
    write_checkpoint,
)
from tacit.run.drive import Observer
from tacit.run.folder import PreparedRun, RunFolder
from tacit.run.graph import GraphRun
from tacit.run.prepare import (
    cluster_for,
    labels_by_node,
    prepare,
    prepare_codes,
    with_encoding,
    with_memory,
    with_own_trees,
)
from tacit.run.result import Result
from tacit.run.search import (
    TermsSearch,
    search_job,
    settle_dispersion,
    with_alpha,
    with_dispersion,
)
from tacit.run.star import Run
from tacit.text import plural, size
from tacit.types import TraceRow

if TYPE_CHECKING:
    from tacit.estimators.fitted import LoadedModel

Note = Callable[[str], None]
REPLACED = (
    "the run that is replaced was private: what it released stays released, and what the new run spends on the same "
    "rows comes on top"
)
MOST_FILES = 3  # that are named while they are read


def run_job(
    job: str | os.PathLike[str] | Job,
    out: str | os.PathLike[str] | None = None,
    *,
    resume: bool = False,
    overwrite: bool = False,
    memory: str | None = None,
    dask: str | ClusterAddress | None = None,
    checkpoint_every: float | None = None,
    observe: Observer | None = None,
    note: Note | None = None,
) -> LoadedModel:
    """Train a job in this process, as `tacit train` does: the same files in the same folder.

    Parameters
    ----------
    job : path or Job
        The job file, or what was read from one.
    out : path, optional
        The folder of the run; by default runs/NAME, by the job's name.
    resume : bool
        Whether to continue the run in the folder. One that is finished is read, and not run again.
    overwrite : bool
        Whether to replace the run in the folder.
    memory : str, optional
        Limit the memory of the process, such as "2GB": rows of Parquet and LIBSVM files are then left on disk.
    dask : str or ClusterAddress, optional
        A Dask cluster that reads, keeps and multiplies the rows of Parquet files.
    checkpoint_every : float, optional
        Seconds between saves of the state, at least (by default 2); 0 saves after every round.
    observe : callable, optional
        Called after each round with its row of the trace.
    note : callable, optional
        Called with each remark, such as that the run did not converge; by default they are warnings.

    Returns
    -------
    LoadedModel
        The finished run, as `load` reads it.

    Raises
    ------
    InputError
        For a job, files or a folder that cannot be used.
    RunError
        Where the run failed; it has no model then.
    """
    check_interval(checkpoint_every, "checkpoint_every")
    if resume and overwrite:
        raise InputError("resume continues the run in the folder and overwrite replaces it: choose one")
    known = job if isinstance(job, Job) else read_job(job)
    if known.engine != "in-process":
        raise InputError('run_job trains in this process: for engine = "flare" use tacit train JOB --kit KIT')
    known = with_memory(known, memory)
    folder = RunFolder(default_folder(known.name) if out is None else out)
    address = ClusterAddress(dask) if isinstance(dask, str) else dask
    with cluster_for(known, address) as cluster:
        observer = _Callbacks(observe, note or _warn)
        train_job(
            known,
            folder,
            observer,
            resume=resume,
            overwrite=overwrite,
            cluster=cluster,
            checkpoint_every=checkpoint_every,
        )
    from tacit.estimators.fitted import load  # with scikit-learn, which `tacit train` does without

    return load(folder.path)


def default_folder(name: str) -> Path:
    """The folder of the run of a job that was given none."""
    safe = re.sub(r"[^\w.-]+", "-", name).strip("-.")
    return Path("runs", safe or "run")


# --- Who looks on ----------------------------------------------------------------------------------------


class JobObserver:
    """Whoever looks on while a job is trained; this one shows nothing, others override what they show."""

    def note(self, remark: str) -> None:
        """Take a remark that a user should read."""

    def searched(self, record: dict[str, Any]) -> None:
        """Take the record of a search for alpha that was made just now."""

    def going_on(self, rounds: int) -> None:
        """Learn that the run goes on after so many rounds."""

    def resumable(self, folder: Path) -> AbstractContextManager[None]:
        """Around everything after which an interrupted run can go on in its folder."""
        return nullcontext()

    def working(self, what: str) -> AbstractContextManager[None]:
        """Around what takes its time before the first round: files that are read, a search."""
        return nullcontext()

    def rounds(self, plan: Plan) -> AbstractContextManager[Observer | None]:
        """Around the training: what to call after each round."""
        return nullcontext()

    def comparing(self) -> AbstractContextManager[evaluation.Watch | None]:
        """Around the evaluation: what to call before each model that is trained to compare with."""
        return nullcontext()


@dataclass(frozen=True)
class _Callbacks(JobObserver):
    """Two functions of whoever calls `run_job`."""

    observe: Observer | None
    remark: Note

    def note(self, remark: str) -> None:
        self.remark(remark)

    def rounds(self, plan: Plan) -> AbstractContextManager[Observer | None]:
        return nullcontext(self.observe)


def _warn(remark: str) -> None:
    warnings.warn(remark, stacklevel=2)


# --- From the job to a finished run ------------------------------------------------------------------------


@dataclass(frozen=True)
class Trained:
    """A job that was trained just now: what it was trained on, what came out, how good it is, how alpha was chosen."""

    prepared: PreparedRun
    result: Result
    evaluation: dict[str, Any]
    search: dict[str, Any] | None

    @property
    def ended_as_planned(self) -> bool:
        """Whether its stopping rule holds, or it went its fixed number of rounds."""
        return self.result.converged or self.result.plan.fixed_rounds


def train_job(
    job: Job,
    folder: RunFolder,
    observer: JobObserver,
    *,
    resume: bool = False,
    overwrite: bool = False,
    cluster: Cluster | None = None,
    checkpoint_every: float | None = None,
) -> Trained | None:
    """Train a job into a folder, evaluate the model and write everything; None where the run was finished before."""
    with folder.locked(resume=resume, overwrite=overwrite):
        if folder.finished and not overwrite:
            folder.check_job(job)
            folder.forget()
            return None
        prepared, search = _prepare(job, None if overwrite else folder.read_search(job), observer, cluster)
        if overwrite:  # not before: a job that is refused takes no run away
            _clear(folder, observer)
        folder.begin(prepared)
        if search is not None:
            folder.write_search(search)
        with observer.resumable(folder.path):
            result = _train(folder, prepared, observer, checkpoint_every)
            trained = Trained(prepared, result, _evaluate_and_finish(folder, prepared, result, observer), search)
    if not trained.ended_as_planned:
        observer.note(f"not converged: {_why_not(result)}")
    if result.boosting is not None and not any(map(any, result.boosting.steps)):
        rows = plural(len(prepared.labels.values), "row")
        observer.note(f"no trees were kept, so every row gets the same prediction: {rows} told nothing of the labels")
    return trained


def _clear(folder: RunFolder, observer: JobObserver) -> None:
    if folder.was_private:
        observer.note(REPLACED)
    folder.clear()


def _prepare(
    job: Job, record: dict[str, Any] | None, observer: JobObserver, cluster: Cluster | None
) -> tuple[PreparedRun, dict[str, Any] | None]:
    """What is to be trained, with the alpha and terms that the job's search takes, and its record; None without one.

    A run that goes on takes what its search took: `record`.
    """
    spec, reading = job.searched, f"reading, matching and encoding {_files(job)}"
    if spec is None:
        with observer.working(reading):
            prepared = prepare(job, cluster=cluster, note=observer.note)
        return _with_dispersion(prepared, observer), None
    if record is not None:
        settled = job.with_terms(record["terms"]) if job.chooses_terms else job
        with observer.working(reading):
            return _with_alpha(prepare(settled, cluster=cluster, note=observer.note), record), record
    with observer.working(reading):
        codes = prepare_codes(job, cluster=cluster, note=observer.note)
    with observer.working("choosing the model by cross-validation"):
        found = [search_job(code.plan, code.shards, code.labels, spec) for code in codes]
    record = found[0].record()
    if job.chooses_terms:
        record = TermsSearch(found[0], found[1] if len(found) > 1 else None).record()
    observer.searched(record)
    _note_search(record, observer.note)
    return _with_alpha(codes[record.get("terms") == SPLINE and len(codes) > 1], record), record


def _files(job: Job) -> str:
    """The parties' files, with how large they are together."""
    paths = [job.folder / spec.data for spec in job.parties]
    names = ", ".join(path.name for path in paths) if len(paths) <= MOST_FILES else plural(len(paths), "file")
    return f"{names} ({size(sum(path.stat().st_size for path in paths if path.is_file()))})"


def _with_alpha(prepared: PreparedRun, record: dict[str, Any]) -> PreparedRun:
    return replace(prepared, plan=with_alpha(prepared.plan, record["alpha"]))


def _with_dispersion(prepared: PreparedRun, observer: JobObserver) -> PreparedRun:
    """The dispersion that the job leaves open fitted beforehand; the same whenever the run goes on."""
    plan, labels = prepared.plan, prepared.labels.values
    if not plan.estimates_dispersion:
        return prepared

    def fit(plan: Plan, last: Result | None) -> Result:
        return _make_run(replace(prepared, plan=plan)).go()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = settle_dispersion(fit(plan, None), fit, prepared.shards, labels)
    for remark in caught:
        observer.note(str(remark.message))
    observer.note(f"the dispersion is {found.dispersion:.6g}, estimated in {found.rounds} rounds")
    return replace(prepared, plan=with_dispersion(plan, found.dispersion))


def _note_search(record: dict[str, Any], note: Note) -> None:
    """What a user should know of a search: fits that did not converge, and an alpha at the edge."""
    if record["unfinished"]:
        codes = 2 if record.get("curve") else 1
        fits = codes * len(record["alphas"]) * record["folds"]
        note(
            f"{record['unfinished']} of the {fits} fits of the search did not converge: "
            "raise rounds or tol, or scale the columns to similar size"
        )
    if record["remark"]:
        note(record["remark"])


def _train(folder: RunFolder, prepared: PreparedRun, observer: JobObserver, checkpoint_every: float | None) -> Result:
    """Run to the end, from the last checkpoint where there is one; the certificate says what is true of the encoding.

    A run that fails before anything was saved leaves no trace; one whose method gave up leaves its trace and no model.
    """
    try:
        result = _go(folder, prepared, observer, checkpoint_every)
    except RunError:
        folder.abandon()
        raise
    if result.note and not result.converged:
        folder.write_trace(result.trace)
        raise RunError(f"{result.note} (stopped after round {len(result.trace)}; no model was written)")
    certificate = with_encoding(result.certificate, prepared.encodings, shared=prepared.job.rows_are_split)
    return replace(result, certificate=with_own_trees(certificate, prepared.raw))


def _go(folder: RunFolder, prepared: PreparedRun, observer: JobObserver, checkpoint_every: float | None) -> Result:
    run = _make_run(prepared)
    if folder.restore(run) and run.state.rounds:
        observer.going_on(run.state.rounds)
    if prepared.plan.private is not None and not folder.checkpoint.exists():
        write_checkpoint(folder.checkpoint, run)  # the keys of the noise, before anything is sent
    usual = LOW_MEMORY_CHECKPOINT_SECONDS if prepared.plan.problem.low_memory else CHECKPOINT_SECONDS
    save = Checkpoints(folder.checkpoint, usual if checkpoint_every is None else checkpoint_every)
    with (
        observer.rounds(prepared.plan) as show,
        folder.growing_trace(run.state.trace) as add,
        noted_interrupts() as check,
    ):

        def observe(row: TraceRow) -> None:
            add(row)
            if show is not None:
                show(row)

        def after_round(run: Any) -> None:
            save(run)
            check()

        return run.go(observe, after_round)


def _make_run(prepared: PreparedRun) -> Run | GraphRun:
    plan, shards = prepared.plan, prepared.shards
    if prepared.job.rows_are_split:
        return GraphRun(plan, shards, labels_by_node(prepared))
    return Run(plan, shards, prepared.labels.values, prepared.held if plan.evaluates_privately else None)


@contextmanager
def noted_interrupts() -> Iterator[Callable[[], None]]:
    """Yield a function that raises an interrupt which Python dropped, as it does in destructors (of files, say)."""
    pressed: list[int] = []
    if threading.current_thread() is not threading.main_thread():  # signals reach the main thread alone
        yield lambda: None
        return

    def note(number: int, frame: Any) -> None:
        pressed.append(number)
        raise KeyboardInterrupt

    def check() -> None:
        if pressed:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, note)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, before)


def _evaluate_and_finish(
    folder: RunFolder, prepared: PreparedRun, result: Result, observer: JobObserver
) -> dict[str, Any]:
    """Evaluate a run that came to its end, write evaluation.json and then the rest, and return the evaluation.

    In this order, as a run that is killed before it is evaluated would else count as finished, and never be.
    """
    try:
        with observer.comparing() as watch:
            record = evaluation.evaluate(result, prepared, watch)
    except Exception:
        folder.finish(result, prepared)  # the model is there, and going on would only fail again
        raise
    if prepared.matching is not None:
        record["matching"] = prepared.matching.record()
    folder.write_evaluation(record)
    folder.finish(result, prepared)
    return record


def _why_not(result: Result) -> str:
    if result.boosting is not None:
        return (
            f"the loss on held-out rows had not stopped falling after {len(result.trace)} rounds; the model is "
            "usable, and may gain a little from more: raise rounds"
        )
    return (
        f"the stopping rule (tol = {result.plan.problem.tol:g}) does not hold after {len(result.trace)} rounds; "
        "the model is usable but not optimal: raise rounds or tol, or scale the columns to a similar size"
    )
