"""`tacit compare`: lines, curves and trees of a job on the same held-out rows."""

from __future__ import annotations

import argparse
import json
import shlex
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.errors import InputError
from tacit.text import tell

if TYPE_CHECKING:
    from collections.abc import Callable

    from tacit.job import Job
    from tacit.report.compare import ModelComparison, Spending, Train

DESCRIPTION = """\
Train lines, curves and boosted trees on the same rows, evaluate each on the
held-out rows, and say which to choose: the simplest one that no other beats by
more than two standard errors.

A job without [privacy]: nothing is written, and nothing is private. The alpha
of lines and curves is chosen by cross-validation, as [search] says. --epsilon
trains each once more with noise, to show what privacy would cost.

A job with [privacy]: each of the three is trained with the privacy asked, and
three private models of the same rows spend three times. So it shows what that
sums up to and trains nothing, unless --spend is given. The models are kept in
a folder each: whichever you take needs no further run, and the same command
again spends nothing more."""
EPILOG = """\
examples:
  tacit compare credit.toml
  tacit compare credit.toml --epsilon 1
  tacit compare private.toml --spend --out runs/private-compare"""
WIDTH = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the verb."""
    parser.add_argument("job", metavar="JOB.toml", help="the job file, with holdout")
    parser.add_argument(
        "--epsilon", metavar="E", type=float, help="without [privacy]: also simulate what this epsilon would cost"
    )
    parser.add_argument("--spend", action="store_true", help="with [privacy]: train all three, and spend three times")
    parser.add_argument("--out", metavar="DIR", help="with --spend: where the runs go (default: runs/NAME-compare)")
    parser.add_argument("--json", action="store_true", help="print it for machines")
    parser.add_argument("--quiet", action="store_true", help="no progress")


def run(options: argparse.Namespace) -> int:
    """Train all three and print the table; of a job with privacy the plan alone, unless it may spend."""
    from tacit.job import read_job

    job = read_job(options.job)
    if job.privacy is None:
        return _plain(job, options)
    if options.epsilon is not None:
        raise InputError(
            "--epsilon is for jobs without [privacy], and this one has an epsilon of its own: leave it out"
        )
    return _private(job, options)


def _plain(job: Job, options: argparse.Namespace) -> int:
    """Compare without privacy, and where asked with noise that is simulated."""
    from tacit.report.compare import ASK_EPSILON, MIXED, NOT_PRIVATE, SIMULATED, compare_job, table
    from tacit.run.progress import progress_bar

    for given, flag in ((options.spend, "--spend"), (options.out is not None, "--out")):
        if given:
            raise InputError(f"{flag} is for jobs with [privacy], and this one has none: leave it out")
    with progress_bar("comparing", visible=not options.quiet) as watch:
        found = compare_job(job, _note, watch, epsilon=options.epsilon)
    said = f"{MIXED} {SIMULATED}" if found.simulated else f"{NOT_PRIVATE} {ASK_EPSILON}"
    return _show(found.record(), options, [*table(found), "", *_wrap(found.sentence), "", *_wrap(said)])


def _private(job: Job, options: argparse.Namespace) -> int:
    """Show what the comparison spends; with --spend make it."""
    from tacit.report.compare import compare_private, plan_spending, spending_lines
    from tacit.run.progress import progress_bar
    from tacit.training import default_folder

    jobs, spending = plan_spending(job, _note)
    out = Path(options.out) if options.out is not None else default_folder(f"{job.name}-compare")
    if not options.spend:
        lines = [part for line in spending_lines(spending) for part in _wrap(line, "    ")]
        again = f"tacit compare {shlex.quote(options.job)} --spend"
        said = f"Nothing was trained, and nothing is spent. To train these {len(jobs)} models into {out}: {again}"
        return _show({"format": 1, "job": job.name, "spending": spending.record()}, options, [*lines, "", *_wrap(said)])
    with progress_bar("comparing", visible=not options.quiet) as watch:
        found = compare_private(job, jobs, spending, _trainer(out, _note), watch)
    return _show(found.record(), options, _spent(found, spending, out))


def _spent(found: ModelComparison, spending: Spending, out: Path) -> list[str]:
    """The table of private models, and what making it has cost."""
    from tacit.report.compare import BOOSTED, MIXED, NOT_COVERED, protection, table

    models = f"{len(found.candidates)} private models of the same rows"
    cost = f"This comparison trained {models}, and spent the sum of their epsilons: {protection(spending.total)}."
    kept = f"Its models are kept: use {out / found.taken} as it is, as training it again would spend once more."
    grown = next((one.claims for one in found.candidates if one.name == BOOSTED), ())
    mixed = [MIXED] if any(one["unit"] != "label" for one in grown) else []
    left = [f"{name} was left out: {why}" for name, why in spending.left_out.items()]
    said = [found.sentence, *left, "", f"{cost} {kept}", "", " ".join([*mixed, NOT_COVERED])]
    return [*table(found), "", *(line for one in said for line in _wrap(one) or [""])]


def _trainer(out: Path, note: Callable[[str], None]) -> Train:
    """Train one kind of model into its folder; one that was begun there goes on, and spends nothing more."""
    from tacit.run.folder import RunFolder
    from tacit.run.prepare import prepare
    from tacit.training import JobObserver, train_job

    class Remarks(JobObserver):
        def note(self, remark: str) -> None:
            note(remark)

    def train(name: str, job: Job) -> tuple[object, RunFolder]:
        folder = RunFolder(out / name)
        trained = train_job(job, folder, Remarks(), resume=folder.begun)
        return prepare(job) if trained is None else trained.prepared, folder

    return train  # type: ignore[return-value]


def _note(remark: str) -> None:
    tell(f"tacit: {remark}")


def _wrap(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _show(record: dict[str, object], options: argparse.Namespace, lines: list[str]) -> int:
    if options.json:
        print(json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        print("\n".join(lines))
    return 0
