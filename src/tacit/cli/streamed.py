"""`tacit train --memory SIZE`: training on rows that stay on disk."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from typing import TYPE_CHECKING

from tacit.cli.wording import size, tell
from tacit.errors import InputError

if TYPE_CHECKING:
    from tacit.data.load import JobData
    from tacit.job import Job
    from tacit.problem.losses import Loss
    from tacit.runtime.store import Begun


def with_memory(job: Job, memory: str | None) -> Job:
    """The job with the amount of memory that was given on the command line, where it was."""
    from tacit.data.wording import show
    from tacit.job.memory import check_memory
    from tacit.job.values import AMOUNT

    if memory is None:
        return job
    try:
        job = replace(job, memory=AMOUNT.parse(memory))
    except ValueError as error:
        raise InputError(f"--memory {show(memory)} is not allowed: it must be {AMOUNT.allowed}") from error
    check_memory(job)
    return job


def prepare_streamed(job: Job, loss: Loss) -> tuple[JobData, Begun]:
    """Plan a job on rows that stay on disk, and bring them there."""
    import numpy as np

    from tacit.cli.matching import matched_labels, warn_of_few
    from tacit.data.streamed import open_files, stream_training_data
    from tacit.job.values import bytes_of
    from tacit.plan.budget import check_reading
    from tacit.plan.from_job import plan_job
    from tacit.runtime.store import Begun

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
    return data, Begun(job, plan, data.shards, labels, encodings=data.encodings)
