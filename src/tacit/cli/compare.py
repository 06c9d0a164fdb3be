"""`tacit compare`: lines, curves and trees of a job on the same held-out rows."""

from __future__ import annotations

import argparse
import json
import textwrap

from tacit.text import tell

DESCRIPTION = """\
Train lines, curves and boosted trees on the same rows, evaluate each on the
held-out rows, and say which to choose: the simplest one that no other beats by
more than two standard errors.

Nothing is written. It trains without noise: a job with [privacy] is refused.
The alpha of lines and curves is chosen by cross-validation, as [search] says."""
EPILOG = """\
examples:
  tacit compare credit.toml
  tacit compare credit.toml --json"""
WIDTH = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the verb."""
    parser.add_argument("job", metavar="JOB.toml", help="the job file, with holdout")
    parser.add_argument("--json", action="store_true", help="print it for machines")
    parser.add_argument("--quiet", action="store_true", help="no progress")


def run(options: argparse.Namespace) -> int:
    """Train all three and print the table."""
    from tacit.job import read_job
    from tacit.report.compare import NOT_PRIVATE, compare_job, table
    from tacit.run.progress import progress_bar

    job = read_job(options.job)
    with progress_bar("comparing", visible=not options.quiet) as watch:
        found = compare_job(job, lambda remark: tell(f"tacit: {remark}"), watch)
    if options.json:
        print(json.dumps(found.record(), indent=2, ensure_ascii=False, allow_nan=False))
        return 0
    print("\n".join([*table(found), "", *textwrap.wrap(found.sentence, WIDTH), "", *textwrap.wrap(NOT_PRIVATE, WIDTH)]))
    return 0
