"""`tacit align`: match the rows of a job's parties by id without one party's ids reaching another."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.errors import InputError

if TYPE_CHECKING:
    from tacit.alignment import Aligner
    from tacit.data.align import Counts
    from tacit.job import Job

DESCRIPTION = """\
Find the rows that all parties of a job hold, by private set intersection: ids
travel under every party's secret key, and in secret orders. Each party gets a
file that says which of its rows are common, in an order that is the same for
all; others learn how many ids it has, and which of theirs are common to all.

It reads the parties' files on this machine and lets the parties talk in this
process, as they would from one machine to another. What whoever compares the
lists learns besides, and what is not covered: docs/proofs/alignment.md."""
EPILOG = """\
examples:
  tacit align credit.toml
  tacit align credit.toml --out aligned

It needs the extra align: pip install 'tacit[align]'"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the verb."""
    parser.add_argument("job", metavar="JOB.toml", help="the job file, with an id for each party")
    parser.add_argument("--out", metavar="DIR", help="where the files go (default: alignments/NAME, by the job's name)")
    parser.add_argument("--quiet", action="store_true", help="no progress and no summary")


def run(options: argparse.Namespace) -> int:
    """Align and write one file for each party."""
    from tacit.alignment import align_here
    from tacit.job import read_job
    from tacit.run.progress import progress_bar
    from tacit.training import default_folder

    job = read_job(options.job)
    _check(job)
    folder = Path(options.out) if options.out else Path("alignments", default_folder(job.name).name)
    _make(folder)
    aligners = read_aligners(job)
    with progress_bar("align", visible=not options.quiet) as observe:
        counts = align_here(aligners, observe=observe)
    for aligner in aligners:
        assert aligner.alignment is not None
        aligner.alignment.write(folder / f"{aligner.name}.npz")
    if not options.quiet:
        _print(job, counts, folder)
    return 0


def read_aligners(job: Job) -> list[Aligner]:
    """Read each party's ids."""
    from tacit.alignment import Aligner
    from tacit.data.load import read_training_table

    aligners = []
    for spec in job.parties:
        table = read_training_table(spec, job.folder)
        assert spec.id is not None
        aligners.append(Aligner(spec.name, table.arrow(spec.id), job.names, column=spec.id))
    return aligners


def _check(job: Job) -> None:
    """Refuse jobs without rows to match."""
    from tacit.text import show

    if job.rows_are_split:
        raise InputError(
            f"job {show(job.name)} has split = {show(job.split)}: its parties hold different rows, and there is "
            "nothing to align"
        )
    for spec in job.parties:
        if spec.id is None:
            raise InputError(f"party {show(spec.name)} has no id column: give it id = its column")


def _make(folder: Path) -> None:
    """Make the folder before the work begins, so that it is not in vain."""
    from tacit.files import show_path
    from tacit.text import one_line

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write into {show_path(folder)} ({one_line(error)}): choose another --out") from error


def _print(job: Job, counts: Counts, folder: Path) -> None:
    """How many rows each party has, how many are common, and where the files are."""
    from tacit.files import show_path
    from tacit.text import plural

    width = max(len("common"), *(len(name) for name in job.names))
    for name in job.names:
        print(f"{name:<{width}}  {plural(counts.kept + counts.dropped[name], 'row')}, {counts.dropped[name]} left out")
    print(f"{'common':<{width}}  {plural(counts.kept, 'row')}, in one order for all")
    files = ", ".join(f"{name}.npz" for name in job.names)
    print(f"{'files':<{width}}  {show_path(folder)}: {files}; each is its own party's alone")
