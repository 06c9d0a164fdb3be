"""`tacit audit`: try to break the privacy of a job."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.errors import InputError
from tacit.run.progress import progress_bar
from tacit.text import tell

if TYPE_CHECKING:
    from tacit.audit.auditor import Audit, Effort, Observer
    from tacit.plan import Plan

DESCRIPTION = """\
Try to break what a job claims about privacy: play the whole job on data sets
that differ in one record, in process and between sites, with restarts, and
compare every byte that leaves; replay its mechanism on neighbouring data, guess
from many runs which of two data sets they were made from, and read labels, rows
and coefficients off what is sent and served.

The job's plan is attacked on generated data: its own rows are read for their
sizes alone. An audit can show that a claim is false, not that one is true.

Of trees nothing is claimed. Their job is trained on its own rows, to measure
what the answers reveal: a label holder who knows a tenth of another party's
rows guesses the cells of the rest, without the answers and with them."""
EPILOG = """\
example:
  tacit audit job.toml --out audits/credit

verdicts: no violation found (at 95 %: of a measurement, which has an error); as
stated (the attack succeeds, and the certificate says that this is not covered);
broken.
exit codes: 0 no violation of a claim was found, 1 one was, 2 wrong input."""
UNBROKEN, BROKEN_CLAIM = 0, 1
DIFFERENCES = 5  # that are printed
JSON, PICTURE = "audit.json", "audit.png"
LEAST, MOST = {"attack": 27, "verdict": 19}, {"verdict": 19}  # characters of a column


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the verb."""
    parser.add_argument("job", metavar="JOB.toml", help="the job file")
    parser.add_argument("--out", metavar="DIR", help=f"directory for {JSON} and {PICTURE} (default: none is written)")
    parser.add_argument("--runs", metavar="N", type=int, help="runs of the guessing game, for each party (4000)")
    parser.add_argument("--pairs", metavar="N", type=int, help="neighbours to replay, for each party (2000)")
    parser.add_argument("--quick", action="store_true", help="fewer runs and neighbours: a minute at most")
    parser.add_argument("--seed", metavar="N", type=int, help="make the audit repeatable (default: it is not)")
    parser.add_argument("--quiet", action="store_true", help="no progress")


def run(options: argparse.Namespace) -> int:
    """Audit, and say what was found."""
    from tacit.audit.auditor import QUICK, Effort, audit_trees
    from tacit.audit.harness.check import test_job
    from tacit.cli.summary import refuse_search
    from tacit.job import read_job
    from tacit.run.prepare import prepare

    effort = QUICK if options.quick else Effort()
    for name, least in (("runs", 40), ("pairs", 1), ("seed", 0)):
        value = getattr(options, name)
        if value is not None and value < least:
            raise InputError(f"--{name} {value} is not allowed: it must be a whole number of at least {least}")
        effort = effort if value is None else replace(effort, **{name: value})
    effort = replace(effort, workers=min(4, os.cpu_count() or 1))
    out = _directory(options.out)
    job = read_job(options.job)
    refuse_search(job, "tacit audit")
    if job.evaluates_privately:
        tell("tacit: the release about rows held out is not played here: the plan is attacked without holdout")
        job = job.without_holdout()
    prepared = prepare(job, note=lambda remark: tell(f"tacit: {remark}"))
    plan, whole = prepared.plan, test_job(job, options.command)
    with progress_bar("audit", visible=not options.quiet) as observe:
        if job.trees is None or job.privacy is not None:
            found = audit_any(plan, effort, observe)
        else:
            found = audit_trees(plan, prepared.shards, prepared.labels.values, effort, observe)
    if whole is not None:
        found = replace(found, findings=(whole, *found.findings))
    _print(plan, found)
    if out is not None:
        _write(found, out)
    return UNBROKEN if found.unbroken else BROKEN_CLAIM


def audit_any(plan: Plan, effort: Effort, observe: Observer | None = None) -> Audit:
    """Audit a plan of either split."""
    from tacit.audit.auditor import audit
    from tacit.audit.graph import audit_graph
    from tacit.plan import FeatureSplit, SampleSplit

    if plan.problem.loss.outputs > 1 and (plan.private is None or plan.private.privacy.epsilon is None):
        raise InputError("tacit audit attacks models of more than two classes where rows are protected, and no others")
    audits = {FeatureSplit.split: audit, SampleSplit.split: audit_graph}
    return audits[plan.layout.split](plan, effort, observe)


def _directory(name: str | None) -> Path | None:
    """Make the directory before an audit that may take minutes."""
    if name is None:
        return None
    path = Path(name)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot make the directory {name!r}: give another one with --out") from error
    return path


def _write(found: Audit, out: Path) -> None:
    from tacit.audit.findings import MISSING, draw, has_matplotlib, to_json

    (out / JSON).write_text(to_json(found), encoding="utf-8")
    written = [JSON]
    if found.games and has_matplotlib():
        draw(found.games, out / PICTURE)
        written.append(PICTURE)
    elif found.games:
        tell(f"tacit: {MISSING}")
    print(f"written    {out}: {', '.join(written)}")


def _print(plan: Plan, found: Audit) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from tacit.audit.attacks import NEIGHBOURS
    from tacit.audit.findings import TITLES, conclusion, lines

    console = Console(width=None if sys.stdout.isatty() else 100, highlight=False)
    fancy = console.is_terminal
    print(f"mechanism  {found.mechanism}")
    print(f"claimed    {str(plan.certificate()).splitlines()[1]}")
    for finding in found.findings:
        if finding.name == NEIGHBOURS:
            print("neighbours", finding.found)
            for text in finding.details.get("differences", ())[:DIFFERENCES]:
                print(f"           {text}")
    print()
    table = Table(box=box.SIMPLE_HEAD if fancy else None, pad_edge=fancy)
    for title in TITLES:
        table.add_column(title, min_width=LEAST.get(title), max_width=MOST.get(title), overflow="fold")
    styles = {"broken": "bold red", "as stated": "yellow"}
    for *texts, verdict in (line for line in lines(found) if line[0] != NEIGHBOURS):
        table.add_row(
            *(Text(text) for text in texts), Text(verdict, style=styles.get(verdict, "green") if fancy else "")
        )
    console.print(table)
    print()
    print(*conclusion(found), sep="\n")
