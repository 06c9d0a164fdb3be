"""`tacit init`: a first job file from data files."""

from __future__ import annotations

import argparse
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.errors import InputError

if TYPE_CHECKING:
    from tacit.job.skeleton import Skeleton

DESCRIPTION = """\
Write a first job file from the parties' data files (.csv, .csv.gz, .parquet),
with comments that say what to check. Parties are named by their files.

With --epsilon, or --protect, the job has a section [privacy]: every party but
the one with the labels is protected, and all are with --split samples. Of a
protected party only the names of columns are read (of a Parquet file also
their types), and never its rows: their ranges and categories are left for you
to fill in, and the job does not run before."""
EPILOG = """\
examples:
  tacit init bank.csv phone.csv --label default
  tacit init bank.csv phone.csv --label default --epsilon 1 --out credit.toml
  tacit init bank.csv phone.csv --label default --epsilon 1 --protect bank
  tacit init north.csv east.csv south.csv --label ill --split samples"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the verb."""
    parser.add_argument("files", metavar="FILE", nargs="+", help="the data of a party, one file for each")
    parser.add_argument("--label", metavar="COLUMN", help="column of the labels (default: one with two values)")
    parser.add_argument("--epsilon", metavar="E", help="protect rows; E is for the whole run, smaller is more private")
    parser.add_argument(
        "--protect", metavar="NAME", nargs="+", default=[], help="protect this party as well, also if it has the labels"
    )
    parser.add_argument(
        "--split",
        choices=["features", "samples"],
        default="features",
        help="what differs between parties: their columns (the default) or their rows",
    )
    parser.add_argument("--out", metavar="JOB.toml", default="job.toml", help="the job file (default: job.toml)")
    parser.add_argument("--overwrite", action="store_true", help="replace the job file if it is there")


def run(options: argparse.Namespace) -> int:
    """Write the job and say what to do next."""
    from tacit.files import write_text
    from tacit.job.skeleton import SkeletonOptions, make_skeleton

    out = _out(options.out, overwrite=options.overwrite)
    epsilon = None if options.epsilon is None else _number(options.epsilon)
    wanted = SkeletonOptions(options.label, tuple(options.protect), epsilon, options.split)
    made = make_skeleton([Path(file) for file in options.files], out, wanted)
    write_text(out, made.text)
    _print(made, out)
    return 0


def _out(name: str, *, overwrite: bool) -> Path:
    """Where to write; refused where something is there already."""
    from tacit.files import show_path

    out = Path(name)
    if out.suffix.lower() != ".toml":
        raise InputError(f"--out {show_path(out)} is not allowed: end its name in .toml")
    if not out.parent.is_dir():
        raise InputError(f"cannot write {show_path(out)}: give --out a file in a directory that is there")
    if os.path.lexists(out) and (out.is_dir() or not overwrite):
        raise InputError(f"{show_path(out)} is there already: give --overwrite to replace it, or another --out")
    return out


def _number(text: str) -> float:
    from tacit.text import show

    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise InputError(f"--epsilon {show(text)} is not allowed: it must be a number above 0")
    return value


def _print(made: Skeleton, out: Path) -> None:
    """What was written, and what to do next."""
    from tacit.files import show_path
    from tacit.text import listing, plural, show

    job = show_path(out)
    who = "each party" if len(made.holders) > 1 else show(made.holders[0])
    matched = "" if made.id is None else f"; the id is {show(made.id)}"
    print(f"{job}: {plural(len(made.parties), 'party')}; {who} has the label {show(made.label)}{matched}")
    if made.protected:
        print(f"protected: {listing(made.protected)}; of their files only the names of columns were read")
    steps = ["check the label, which is a guess" if made.proposed else "read it through"]
    if made.protected:
        steps.append("fill in the lines with a ? without looking at the rows")
    steps += [f"tacit plan {job}", f"tacit train {job} --report"]
    print("next:")
    for number, step in enumerate(steps, start=1):
        print(f"  {number}. {step}")
