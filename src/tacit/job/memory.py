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
        As `check_all_rows`.
    """
    if job.memory is not None:
        check_all_rows(job, "memory")


def check_as_they_are(job: Job, key: str) -> None:
    """Refuse what does not go with numbers that are used as they are; `key` names who wants that.

    Raises
    ------
    InputError
        As `check_all_rows`, and for any scale but "none".
    """
    check_all_rows(job, key)
    if job.encode.scale != "none":
        raise InputError(
            f'{key} uses numbers as they are, and jobs scale them by default: write scale = "none" under [encode] '
            f"(scale them in the files where their sizes differ much), or leave {key} out"
        )


def check_all_rows(job: Job, key: str) -> None:
    """Refuse what does not go with rows that are elsewhere, and all trained on; `key` names who wants that.

    Raises
    ------
    InputError
        For a sample split, [search], holdout, and statements about columns.
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
                f"party {show(party.name)}: {key} takes columns as the files have them, and columns says otherwise of "
                f"{show(party.columns[0].name)}: remove it, or leave {key} out"
            )
