"""What a job may say beside `memory`: rows that stay on disk are numbers, and all are trained on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.data.wording import show
from tacit.errors import InputError

if TYPE_CHECKING:
    from tacit.job.file import Job


def check_memory(job: Job) -> None:
    """Refuse what does not go with `memory`, where the job has it.

    Raises
    ------
    InputError
        For a sample split, [search], holdout, and statements about columns.
    """
    if job.memory is None:
        return
    if job.split == "samples":
        raise InputError('memory is not used with split = "samples": leave memory out')
    if job.search is not None:
        raise InputError("memory does not go with [search]: give model.alpha instead, or leave memory out")
    if job.holdout:
        raise InputError(f"memory does not go with holdout = {job.holdout:g}: leave one of them out")
    for party in job.parties:
        if party.columns:
            raise InputError(
                f"party {show(party.name)}: memory takes columns as the files have them, and columns says otherwise of "
                f"{show(party.columns[0].name)}: remove it, or leave memory out"
            )
