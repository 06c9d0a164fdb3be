"""What a job may say beside `memory`: rows that stay on disk are numbers, used as they are, and all are trained on."""

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
        As `check_as_they_are`.
    """
    if job.memory is not None:
        check_as_they_are(job, "memory")


def check_as_they_are(job: Job, key: str) -> None:
    """Refuse what does not go with rows that are used as they are, and all of them; `key` names who wants that.

    Raises
    ------
    InputError
        For a sample split, [search], holdout, statements about columns, and any scale but "none".
    """
    if job.split == "samples":
        raise InputError(f'{key} is not used with split = "samples": leave {key} out')
    if job.search is not None:
        raise InputError(f"{key} does not go with [search]: give model.alpha instead, or leave {key} out")
    if job.holdout:
        raise InputError(f"{key} does not go with holdout = {job.holdout:g}: leave one of them out")
    for party in job.parties:
        if party.columns:
            raise InputError(
                f"party {show(party.name)}: {key} uses columns as they are, and columns says otherwise of "
                f"{show(party.columns[0].name)}: remove it, or leave {key} out"
            )
    if job.encode.scale != "none":
        raise InputError(
            f'{key} uses numbers as they are, and jobs scale them by default: write scale = "none" under [encode] '
            f"(scale them in the files where their sizes differ much), or leave {key} out"
        )
