"""From a job and its files to a plan that can be trained: both splits, rows in memory, on disk or on a cluster."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.errors import InputError
from tacit.text import size, tell

if TYPE_CHECKING:
    from tacit.columns.constants import Encoding
    from tacit.data.align import Counts
    from tacit.data.cluster import Cluster
    from tacit.data.holdout import HeldOut
    from tacit.data.load import JobData
    from tacit.data.nodes import NodesData
    from tacit.job import Job
    from tacit.problem.losses import Loss
    from tacit.run.folder import PreparedRun
    from tacit.run.labels import Labels
    from tacit.types import Shard, Vector


# --- What `tacit plan` and `tacit train` say about the encoding of columns


ALL = "all parties"


def encoding_record(encodings: Mapping[str, Encoding]) -> dict[str, Any]:
    """For each party whether its rows are protected, and its columns, as plain values."""
    from tacit.columns.words import record

    return {name: {"protected": own.protected, "columns": record(own)} for name, own in encodings.items()}


def train_lines(encodings: Mapping[str, Encoding], *, shared: bool) -> list[str]:
    """The columns of each party, by kind; those of all in one where they are the same."""
    from tacit.columns.words import column_lines

    if shared and encodings:
        encoding = next(iter(encodings.values()))
        how = "" if encoding.protected else "; scales and categories were shared between the parties"
        first, *rest = column_lines(ALL, encoding)
        return [first + how, *rest]
    return [line for name, own in encodings.items() for line in column_lines(name, own)]


def plan_lines(encodings: Mapping[str, Encoding], *, shared: bool) -> list[str]:
    """The columns of each party, and where the constants of their encoding come from."""
    from tacit.columns.words import column_lines, constants
    from tacit.plan.describe import many

    lines = [line for name, own in encodings.items() for line in column_lines(name, own)]
    titled = [f"{'' if number else 'columns':<11} {line}" for number, line in enumerate(lines)]
    uncovered, assumed = constants(encodings, shared=shared)
    if any(own.protected for own in encodings.values()):
        assumed.append("columns that the job says nothing about count as numbers: training refuses text in them")
    return [*titled, *many("encoding", [*(f"not covered: {text}" for text in uncovered), *assumed])]


# --- What `tacit train` says of rows that were matched by id, where they are few, and their labels


FEW = 10  # one row in so many of the smallest file: ids that are written in two ways match here and there


def matched_labels(job: Job, loss: Loss, data: JobData) -> Labels:
    """The labels of the common rows, as the loss wants them."""
    from tacit.run.labels import encode_labels

    positive = next(spec.positive for spec in job.parties if spec.name == job.holder)
    return encode_labels(data.labels, loss, job.holder, positive, dropped=data.counts.dropped[job.holder])


def warn_of_few(counts: Counts) -> None:
    """Say so where fewer than a tenth of the rows of the smallest file were matched."""
    from tacit.text import show

    rows = {name: counts.kept + dropped for name, dropped in counts.dropped.items()}
    if FEW * counts.kept >= min(rows.values()):
        return
    parts = ", ".join(f"{counts.kept} of {count} at {show(name)}" for name, count in rows.items())
    tell(f"tacit: hardly any rows match by id: {parts}: see that all parties write their ids in the same way")


# --- Jobs with split = "samples": from the job and its files to a plan


def prepare_nodes(job: Job, file: str) -> PreparedRun:
    """Read the data of a job and plan its run; refusals name the job's file."""
    from tacit.job import load_job_nodes
    from tacit.plan.from_job import plan_nodes
    from tacit.problem.registry import get_loss
    from tacit.run.folder import PreparedRun

    try:
        loss = get_loss(job.model.loss)  # before files that may be large are read
        data = load_job_nodes(job)
        labels, epsilons, held = (
            _encode(data.labels, data.epsilons, loss, job.names, common_positive(job)),
            data.epsilons,
            None,
        )
        shards: Sequence[Shard] = data.shards
        if job.holdout:
            shards, labels, epsilons, held = _hold_out(job, data, labels)
        rows = tuple(shard.features.shape[0] for shard in shards)
        plan = plan_nodes(job, rows, len(shards[0].columns), epsilons)
        plan.problem.loss.check_labels(labels.values)
    except InputError as error:
        raise InputError(f"{file}: {error}") from error
    encodings = {} if data.encoding is None else dict.fromkeys(job.names, data.encoding)
    return PreparedRun(job, plan, shards, labels, held, encodings)


def _hold_out(
    job: Job, data: NodesData, labels: Labels
) -> tuple[Sequence[Shard], Labels, Mapping[str, Vector], HeldOut]:
    """Hold the job's part of the rows of each node out."""
    from dataclasses import replace

    import numpy as np

    from tacit.data.holdout import held_rows, set_aside

    pairs = zip(data.shards, data.ids, strict=True)
    masks = [held_rows(shard.features.shape[0], job.holdout, job.seed or 0, ids) for shard, ids in pairs]
    shards, values, held = set_aside(data.shards, labels.values, masks)
    left = {shard.name: ~mask for shard, mask in zip(shards, masks, strict=True)}
    epsilons = {name: own[left[name]] for name, own in data.epsilons.items()}
    known = np.concatenate([epsilons[name] for name in job.names]) if epsilons else None
    return shards, replace(labels, values=values, epsilons=known), epsilons, held


def labels_by_node(begun: PreparedRun) -> list[Vector]:
    """Each node's labels."""
    import numpy as np

    ends = np.cumsum([shard.features.shape[0] for shard in begun.shards])[:-1]
    return list(np.split(begun.labels.values, ends))


def common_positive(job: Job) -> str | float | bool | None:
    """The label that is positive, where a party chooses it: it holds for all."""
    from tacit.text import listing

    chosen = {(type(spec.positive), spec.positive): spec.positive for spec in job.parties if spec.positive is not None}
    if len(chosen) > 1:
        raise InputError(f"the parties choose different labels as positive, {listing(chosen.values())}: choose one")
    return next(iter(chosen.values()), None)


def _encode(
    labels: Sequence[Any],
    epsilons: Mapping[str, Vector],
    loss: Loss,
    names: Sequence[str],
    positive: str | float | bool | None,
) -> Labels:
    """Labels of all nodes, one after the other, as the loss wants them."""
    from dataclasses import replace

    import numpy as np

    from tacit.run.labels import encode_labels
    from tacit.text import show

    if loss.task != "classification":
        parts = [encode_labels(own, loss, name, positive).values for own, name in zip(labels, names, strict=True)]
        return replace(encode_labels(labels[0], loss, names[0]), values=np.concatenate(parts))
    kinds = {own.dtype.kind in "OUS" for own in labels}
    if len(kinds) > 1:
        text = next(name for own, name in zip(labels, names, strict=True) if own.dtype.kind in "OUS")
        raise InputError(f"the labels of party {show(text)} are text, those of another are not: use the same for all")
    encoded = encode_labels(np.concatenate(list(labels)), loss, "", positive)
    return encoded if not epsilons else replace(encoded, epsilons=np.concatenate([epsilons[name] for name in names]))


# --- `tacit train --memory SIZE`: training on rows that stay on disk


def with_memory(job: Job, memory: str | None) -> Job:
    """The job with the amount of memory that was given on the command line, where it was."""
    from tacit.job.file import check_memory
    from tacit.job.values import AMOUNT
    from tacit.text import show

    if memory is None:
        return job
    try:
        job = replace(job, memory=AMOUNT.parse(memory))
    except ValueError as error:
        raise InputError(f"--memory {show(memory)} is not allowed: it must be {AMOUNT.allowed}") from error
    check_memory(job)
    return job


def prepare_streamed(job: Job, loss: Loss) -> tuple[JobData, PreparedRun]:
    """Plan a job on rows that stay on disk, and bring them there."""
    import numpy as np

    from tacit.data.streamed import open_files, stream_training_data
    from tacit.job.values import bytes_of
    from tacit.plan.from_job import plan_job
    from tacit.plan.memory import check_reading
    from tacit.run.folder import PreparedRun

    files = open_files(job.parties, job.folder)
    columns = tuple(len(file.features) for file in files)
    least = min(file.rows for file in files)
    plan_job(job, least, columns, 0)  # what cannot be run is refused before anything is read
    for file in files:
        check_reading(bytes_of(job.memory or ""), file.reading_bytes, file.rows, columns)
    scale = job.encode.scale_of(False)
    wanted = sum(file.scratch_bytes(least, scaled=scale != "none") for file in files)
    tell(f"tacit: keeping up to {size(wanted)} of rows in {tempfile.gettempdir()} while it trains")
    data = stream_training_data(files, scale)
    warn_of_few(data.counts)
    labels = matched_labels(job, loss, data)
    data = replace(data, labels=np.zeros(0))  # a number for each row: kept once
    plan = plan_job(job, len(labels.values), columns, 0)
    plan.problem.loss.check_labels(labels.values)
    return data, PreparedRun(job, plan, data.shards, labels, encodings=data.encodings)


# --- `tacit train --dask ADDRESS`: training on rows that are on a Dask cluster


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
    from tacit.job.file import check_as_they_are

    if job.engine == "flare":
        raise InputError('--dask is not for engine = "flare": each site names its own cluster, dask in its site.toml')
    if job.memory is not None:
        raise InputError("--dask and memory both keep rows elsewhere: leave one of them out")
    check_as_they_are(job, "--dask")
    tls = None if options.dask_tls is None else str(Path(options.dask_tls).resolve())
    return connect(ClusterAddress(options.dask, tls, options.dask_insecure))


def prepare_on_cluster(job: Job, loss: Loss, cluster: Cluster) -> tuple[JobData, PreparedRun]:
    """Plan a job on rows that a cluster reads, and have them read."""
    from tacit.data.align import align
    from tacit.data.cluster import ClusterFile, ClusterRows
    from tacit.data.labels import check_labels
    from tacit.data.load import JobData
    from tacit.plan.from_job import plan_job
    from tacit.plan.memory import check_on_cluster
    from tacit.run.folder import PreparedRun
    from tacit.run.labels import encode_labels
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
    return JobData(shards, values, alignment.ids, alignment.counts), PreparedRun(job, plan, shards, labels)
