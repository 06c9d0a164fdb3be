"""`tacit train`: train a job into a folder."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.errors import InputError

if TYPE_CHECKING:
    from tacit.data.cluster import Cluster, ClusterAddress
    from tacit.job import Job

DESCRIPTION = """\
Train a job: read the parties' files, train, and write the model, the trace and
the privacy certificate into a directory. Rows are matched by id where parties
hold different columns (split = "features").

A run that was stopped or killed continues with --resume, to the same result;
--overwrite replaces a run."""
EPILOG = """\
a job file:
  [job]
  name = "credit"
  holdout = 0.2            # keep part of the rows to evaluate the model on
  [model]
  kind = "linear"          # or "trees": boosted trees
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

for parties with different rows and the same columns:
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
        help="in-process, or flare between organisations (default: the job's)",
    )
    parser.add_argument("--kit", metavar="KIT", help="kit of the federation's server, for engine flare")
    existing = parser.add_mutually_exclusive_group()
    existing.add_argument("--resume", action="store_true", help="continue the run in the directory")
    existing.add_argument("--overwrite", action="store_true", help="replace the run in the directory")
    parser.add_argument(
        "--memory",
        metavar="SIZE",
        help="limit memory, such as 2GB: rows of Parquet and LIBSVM files stay on disk",
    )
    parser.add_argument(
        "--dask",
        metavar="ADDRESS",
        help="keep the rows of Parquet files on a Dask cluster, such as tls://HOST:8786",
    )
    parser.add_argument("--dask-tls", metavar="FOLDER", help="ca.pem, cert.pem and key.pem, for tls://")
    parser.add_argument("--dask-insecure", action="store_true", help="allow tcp:// to another machine")
    parser.add_argument("--quiet", action="store_true", help="no progress and no summary")
    parser.add_argument("--report", action="store_true", help="also write report.html, as tacit report does")
    parser.add_argument(
        "--checkpoint-every",
        metavar="SECONDS",
        type=float,
        default=None,
        help="least seconds between checkpoints (default: 2); 0 saves after every round",
    )


def run(options: argparse.Namespace) -> int:
    """Train, or go on, and say how it went."""
    from tacit.job import read_job
    from tacit.job.file import check_engine, check_trees
    from tacit.run.checkpoint import check_interval
    from tacit.run.prepare import cluster_for, with_memory

    check_interval(options.checkpoint_every, "--checkpoint-every")
    job = read_job(options.job)
    check_engine(options.engine or job.engine)
    job = with_memory(replace(job, engine=options.engine or job.engine), options.memory, "--memory")
    check_trees(job)
    with cluster_for(job, _address(options), "--dask") as cluster:
        _refuse_idle(job, options)
        if job.engine == "flare":
            from tacit.cli.together import train_together

            return train_together(job, options)
        return _train_here(job, options, cluster)


def _refuse_idle(job: Job, options: argparse.Namespace) -> None:
    """Refuse options that would do nothing."""
    if job.engine != "flare":
        if options.kit is not None:
            raise InputError("--kit is for training between organisations: add --engine flare, or leave --kit out")
        return
    idle = {
        "--out": options.out is not None,
        "--overwrite": options.overwrite,
        "--report": options.report,
        "--checkpoint-every": options.checkpoint_every is not None,
    }
    for name, given in idle.items():
        if given:
            raise InputError(f"{name} does nothing between organisations, where each has its own part: leave it out")


def _address(options: argparse.Namespace) -> ClusterAddress | None:
    """The cluster that was asked for; None where none was."""
    if options.dask is None:
        if options.dask_tls is not None or options.dask_insecure:
            raise InputError("--dask-tls and --dask-insecure say something of a cluster: give --dask ADDRESS too")
        return None
    from tacit.data.cluster import ClusterAddress

    tls = None if options.dask_tls is None else str(Path(options.dask_tls).resolve())
    return ClusterAddress(options.dask, tls, options.dask_insecure)


def _train_here(job: Job, options: argparse.Namespace, cluster: Cluster | None) -> int:
    """Train in this process, the rows here or on a cluster."""
    from tacit.cli import summary
    from tacit.run.folder import RunFolder
    from tacit.training import default_folder, train_job

    folder = RunFolder(options.out or default_folder(job.name))
    trained = train_job(
        job,
        folder,
        summary.Terminal(options),
        resume=options.resume,
        overwrite=options.overwrite,
        cluster=cluster,
        checkpoint_every=options.checkpoint_every,
    )
    page = summary.report_if_possible(folder.path) if options.report and trained is not None else None
    if not options.quiet:
        lines = summary.finished_before(folder) if trained is None else summary.summary(trained, folder.path, page)
        print("\n".join(lines))
    return 0
