"""`tacit train --dask ADDRESS`: training on rows that are on a Dask cluster."""

from __future__ import annotations

import argparse
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.cli.wording import size, tell
from tacit.errors import InputError

if TYPE_CHECKING:
    from tacit.data.cluster import Cluster
    from tacit.data.load import JobData
    from tacit.job import Job
    from tacit.problem.losses import Loss
    from tacit.runtime.store import Begun


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments about a cluster."""
    parser.add_argument(
        "--dask",
        metavar="ADDRESS",
        help="have the rows of Parquet files read, kept and multiplied by a Dask cluster, such as tls://HOST:8786",
    )
    parser.add_argument("--dask-tls", metavar="FOLDER", help="ca.pem, cert.pem and key.pem, for tls://")
    parser.add_argument("--dask-insecure", action="store_true", help="allow tcp:// to another machine")


def words(options: argparse.Namespace) -> tuple[str, ...]:
    """The same arguments, for a command that goes on."""
    if options.dask is None:
        return ()
    tls = () if options.dask_tls is None else ("--dask-tls", options.dask_tls)
    return ("--dask", options.dask, *tls, *(("--dask-insecure",) if options.dask_insecure else ()))


def cluster_for(job: Job, options: argparse.Namespace) -> AbstractContextManager[Cluster | None]:
    """The cluster that was asked for, None where none was; refuses a job that does not go with it."""
    if options.dask is None:
        if options.dask_tls is not None or options.dask_insecure:
            raise InputError("--dask-tls and --dask-insecure say something of a cluster: give --dask ADDRESS too")
        return nullcontext()
    from tacit.data.cluster import ClusterAddress, connect
    from tacit.job.memory import check_as_they_are

    if job.engine == "flare":
        raise InputError('--dask is not for engine = "flare": each site names its own cluster, dask in its site.toml')
    if job.memory is not None:
        raise InputError("--dask and memory both keep rows elsewhere: leave one of them out")
    check_as_they_are(job, "--dask")
    tls = None if options.dask_tls is None else str(Path(options.dask_tls).resolve())
    return connect(ClusterAddress(options.dask, tls, options.dask_insecure))


def prepare_on_cluster(job: Job, loss: Loss, cluster: Cluster) -> tuple[JobData, Begun]:
    """Plan a job on rows that a cluster reads, and have them read."""
    from tacit.data.align import align
    from tacit.data.cluster_rows import ClusterFile, ClusterRows
    from tacit.data.labels import check_labels
    from tacit.data.load import JobData
    from tacit.plan.budget import check_on_cluster
    from tacit.plan.from_job import plan_job
    from tacit.runtime.labels import encode_labels
    from tacit.runtime.store import Begun
    from tacit.types import Shard

    holder = next(spec for spec in job.parties if spec.name == job.holder)
    files = [ClusterFile(spec, job.folder, holder.label or "") for spec in job.parties]
    alignment = align([file.table for file in files], [spec.id for spec in job.parties])
    place = job.parties.index(holder)
    values = check_labels(files[place].table.column(holder.label or ""), party=holder.name)[alignment.rows[place]]
    labels = encode_labels(values, loss, holder.name, holder.positive)
    plan = plan_job(job, len(labels.values), tuple(len(file.features) for file in files), 0)
    check_on_cluster(plan.method, private=plan.private is not None)
    plan.problem.loss.check_labels(labels.values)
    wanted = sum(file.rows * len(file.features) * file.dtype.itemsize for file in files)
    tell(f"tacit: the workers at {cluster.address.scheduler} read up to {size(wanted)} of rows")
    shards = [
        Shard(file.spec.name, ClusterRows(cluster, file, rows), file.features)
        for file, rows in zip(files, alignment.rows, strict=True)
    ]
    return JobData(shards, values, alignment.ids, alignment.counts), Begun(job, plan, shards, labels)
