"""What `tacit train` says of rows that were matched by id, where they are few, and their labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.cli.wording import tell

if TYPE_CHECKING:
    from tacit.data.align import Counts
    from tacit.data.load import JobData
    from tacit.job import Job
    from tacit.problem.losses import Loss
    from tacit.runtime.labels import Labels

FEW = 10  # one row in so many of the smallest file: ids that are written in two ways match here and there


def matched_labels(job: Job, loss: Loss, data: JobData) -> Labels:
    """The labels of the common rows, as the loss wants them."""
    from tacit.runtime.labels import encode_labels

    positive = next(spec.positive for spec in job.parties if spec.name == job.holder)
    return encode_labels(data.labels, loss, job.holder, positive, dropped=data.counts.dropped[job.holder])


def warn_of_few(counts: Counts) -> None:
    """Say so where fewer than a tenth of the rows of the smallest file were matched."""
    from tacit.data.wording import show

    rows = {name: counts.kept + dropped for name, dropped in counts.dropped.items()}
    if FEW * counts.kept >= min(rows.values()):
        return
    parts = ", ".join(f"{counts.kept} of {count} at {show(name)}" for name, count in rows.items())
    tell(f"tacit: hardly any rows match by id: {parts}: see that all parties write their ids in the same way")
