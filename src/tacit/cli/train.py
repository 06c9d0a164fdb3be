"""`tacit train`: train a job into a run directory."""

from __future__ import annotations

import argparse
import math
import re
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.cli.prepare import add_arguments as add_dask_arguments
from tacit.cli.prepare import cluster_for, prepare_on_cluster, words
from tacit.errors import InputError, RunError
from tacit.text import command, tell

if TYPE_CHECKING:
    from tacit.data.cluster import Cluster
    from tacit.data.load import JobData
    from tacit.job import Job
    from tacit.run.folder import PreparedRun, RunFolder
    from tacit.run.graph import GraphRun
    from tacit.run.result import Result
    from tacit.run.star import Run
    from tacit.types import Shard, TraceRow

HELP = "train what a job file describes"
DESCRIPTION = """\
Train a job: read the parties' files, train, and write the model, the trace and
the privacy certificate into a directory. Rows are matched by id where the
parties hold other columns (split = "features"); they are not where the parties
hold other rows (split = "samples").

A run that is stopped or killed goes on with --resume, to the same result."""
EPILOG = """\
a job file:
  [job]
  name = "credit"
  holdout = 0.2            # keep a part of the rows to try the model on
  [model]
  loss = "logistic"        # hinge, squared_hinge, squared, huber, poisson ...
  alpha = 1e-4             # or, to choose it by cross-validation, instead:
                           # [search]
                           # alphas = 10, or [1e-4, 1e-3]; folds = 5
                           # rule = "best" or "one-standard-error"
  [[party]]
  name = "bank"
  data = "bank.csv"        # next to the job file; .parquet and .svm also
  id = "customer"
  label = "default"
  [[party]]
  name = "shop"
  data = "shop.csv"
  id = "customer"
  [party.columns]          # text is a category, blanks are filled; to choose:
  zip = { kind = "category" }
  age = { low = 18, high = 90 }
  [privacy]                # without it nothing is protected
  epsilon = 1              # of the whole run, for each row of shop

for parties with other rows and the same columns:
  split = "samples"        # in [job]; then each party has a label, and
  [graph]                  # talks to its neighbours only
  kind = "ring"            # complete, star, grid, random; or
                           # edges = [["bank", "shop"], ...]
  [privacy.options]        # numbers of the methods dual, primal and pdml
  alphas = [0.1, 0.2]      # epsilon of each round, or a table by party"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the verb."""
    parser.add_argument("job", metavar="JOB.toml", help="the job file")
    parser.add_argument("--out", metavar="DIR", help="directory of the run (default: runs/NAME, by the job's name)")
    parser.add_argument(
        "--engine",
        metavar="ENGINE",
        help="where it runs: in-process, or flare between organisations (default: what the job says)",
    )
    parser.add_argument("--kit", metavar="KIT", help="kit of the federation's server, for engine flare")
    parser.add_argument("--resume", action="store_true", help="go on with the run in the directory")
    parser.add_argument(
        "--memory",
        metavar="SIZE",
        help="keep the process below so much, such as 2GB: rows of Parquet and LIBSVM files are then left on disk",
    )
    add_dask_arguments(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress and no summary")
    parser.add_argument("--report", action="store_true", help="also write report.html, as tacit report does")
    parser.add_argument(
        "--checkpoint-every",
        metavar="SECONDS",
        type=float,
        default=None,
        help="save the state at most so often (default: 2); 0 saves after every round",
    )


def run(options: argparse.Namespace) -> int:
    """Train, or go on, and say how it went."""
    from tacit.cli.prepare import with_memory
    from tacit.job import read_job
    from tacit.job.file import check_engine

    _check_interval(options.checkpoint_every)
    job = read_job(options.job)
    check_engine(options.engine or job.engine)
    job = with_memory(replace(job, engine=options.engine or job.engine), options.memory)
    with cluster_for(job, options) as found:
        if job.engine == "flare":
            from tacit.cli.together import train_together

            return train_together(job, options)
        return _train_here(job, options, found)


def _train_here(job: Job, options: argparse.Namespace, found: Cluster | None) -> int:
    """Train in this process, the rows here or on a cluster."""
    from tacit.cli.prepare import prepare_nodes
    from tacit.cli.summary import evaluate_and_finish, is_finished, report_if_possible, summary, with_alpha
    from tacit.run.encoded import with_encoding
    from tacit.run.folder import RunFolder

    directory = RunFolder(options.out or default_directory(job.name))
    with directory.locked(resume=options.resume):
        if directory.finished:
            directory.check_job(job)
            directory.forget()
            return _already_finished(directory, options.quiet)
        data: JobData | None = None
        if job.split == "samples":
            begun = prepare_nodes(job, Path(options.job).name)
        else:
            data, begun = prepare(job, found)
        begun, searched = with_alpha(begun, directory, quiet=options.quiet)
        directory.begin(begun)
        if searched is not None:
            directory.write_search(searched)
        with _stoppable(directory, options):
            try:
                result = _train(directory, begun, options)
            except RunError:
                directory.abandon()
                raise
            _refuse_diverged(directory, result)
            certificate = with_encoding(result.certificate, begun.encodings, shared=job.split == "samples")
            result = replace(result, certificate=certificate)
            evaluated = evaluate_and_finish(directory, result, begun, data, quiet=options.quiet)
    if not is_finished(result):
        tell(f"tacit: not converged: {_why_not(result)}")
    page = report_if_possible(directory.path) if options.report else None
    if not options.quiet:
        print("\n".join(summary(begun, result, directory.path, data, evaluated, searched, page)))
    return 0


def default_directory(name: str) -> Path:
    """The directory of a job that was given none."""
    safe = re.sub(r"[^\w.-]+", "-", name).strip("-.")
    return Path("runs", safe or "run")


# --- from the job to a plan --------------------------------------------------------------------------


def prepare(job: Job, found: Cluster | None = None) -> tuple[JobData, PreparedRun]:
    """Read the data of a job, or have a cluster read them, and plan its run."""
    from tacit.cli.prepare import matched_labels, prepare_streamed, warn_of_few
    from tacit.data.holdout import held_rows, set_aside
    from tacit.job import load_job_data
    from tacit.plan.from_job import plan_job
    from tacit.problem.registry import get_loss
    from tacit.run.folder import PreparedRun

    loss = get_loss(job.model.loss)  # before files that may be large are read
    if found is not None:
        return prepare_on_cluster(job, loss, found)
    if job.memory is not None:
        return prepare_streamed(job, loss)
    data = load_job_data(job, warn_of_few)
    labels, held = matched_labels(job, loss, data), None
    shards: Sequence[Shard] = data.shards
    if job.holdout:
        mask = held_rows(len(data.labels), job.holdout, job.seed or 0, data.ids)
        shards, left, held = set_aside(data.shards, labels.values, [mask] * len(data.shards))
        labels = replace(labels, values=left)
    columns = tuple(shard.features.shape[1] for shard in shards)
    plan = plan_job(job, len(labels.values), columns, sum(_nbytes(shard.features) for shard in shards))
    plan.problem.loss.check_labels(labels.values)
    return data, PreparedRun(job, plan, shards, labels, held, data.encodings)


def _nbytes(matrix: Any) -> int:
    if hasattr(matrix, "indptr"):
        return int(matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes)
    return int(matrix.nbytes)


def _check_interval(seconds: float | None) -> None:
    if seconds is not None and not 0 <= seconds < math.inf:
        raise InputError(f"--checkpoint-every {seconds} is not allowed: it must be a number of seconds, 0 or above")


# --- the run -----------------------------------------------------------------------------------------


@contextmanager
def _stoppable(directory: RunFolder, options: argparse.Namespace) -> Iterator[None]:
    """Say how to go on with a run that is interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        memory = () if options.memory is None else ("--memory", options.memory)
        same = (*memory, *words(options))
        again = command("tacit", "train", options.job, "--out", directory.path, *same, "--resume")
        raise KeyboardInterrupt(f"stopped; go on with: {again}") from None


def _train(directory: RunFolder, begun: PreparedRun, options: argparse.Namespace) -> Result:
    from tacit.run.checkpoint import CHECKPOINT_SECONDS, LEAN_CHECKPOINT_SECONDS, Checkpoints, write_checkpoint
    from tacit.run.progress import progress

    the_run = _make_run(begun)
    if directory.restore(the_run) and the_run.state.rounds and not options.quiet:
        print(f"going on after round {the_run.state.rounds}")
    if begun.plan.private is not None and not directory.checkpoint.exists():
        write_checkpoint(directory.checkpoint, the_run)  # the keys of the noise, before anything is sent
    usual = LEAN_CHECKPOINT_SECONDS if begun.plan.problem.lean else CHECKPOINT_SECONDS
    seconds = usual if options.checkpoint_every is None else options.checkpoint_every
    save = Checkpoints(directory.checkpoint, seconds)
    with (
        progress(begun.plan, visible=not options.quiet) as show,
        directory.growing_trace(the_run.state.trace) as add,
        noted_interrupts() as check,
    ):

        def observe(row: TraceRow) -> None:
            add(row)
            if show is not None:
                show(row)

        def after_round(run: Any) -> None:
            save(run)
            check()

        return the_run.go(observe, after_round)


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


def _make_run(begun: PreparedRun) -> Run | GraphRun:
    from tacit.cli.prepare import labels_by_node
    from tacit.run.graph import GraphRun
    from tacit.run.star import Run

    if begun.job.split == "samples":
        return GraphRun(begun.plan, begun.shards, labels_by_node(begun))
    return Run(begun.plan, begun.shards, begun.labels.values)


def _refuse_diverged(directory: RunFolder, result: Result) -> None:
    """A run whose method gave up leaves its trace and no model."""
    if result.note and not result.converged:
        directory.write_trace(result.trace)
        raise RunError(f"{result.note} (stopped after round {len(result.trace)}; no model was written)")


def _why_not(result: Result) -> str:
    return (
        f"the stopping rule (tol = {result.plan.problem.tol:g}) does not hold after {len(result.trace)} rounds; "
        "the model is usable but not optimal: raise rounds or tol, or scale the columns to similar size"
    )


def _already_finished(directory: RunFolder, quiet: bool) -> int:
    record = directory.read_result()
    if not quiet:
        print(f"the run in {directory.path} is finished ({record.get('rounds')} rounds): nothing to do")
    return 0
