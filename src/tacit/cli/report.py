"""`tacit report`: one page about a finished run."""

from __future__ import annotations

import argparse
from pathlib import Path

DESCRIPTION = """\
Write one HTML page about a finished run: who trained what, how good the model
is against each party alone and all data in one place, what each party adds, and
each column where numbers are curves, how the run went, and what its privacy
certificate says. The page is one file, with its pictures inside; it needs no
network and no script, and prints well.

How good the model is was computed by tacit train. In a private run it comes
from labels and single scores, which no certificate covers: keep such a page."""
EPILOG = """\
examples:
  tacit report runs/credit
  tacit report runs/credit --out credit.html"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the verb."""
    parser.add_argument("directory", metavar="RUN", help="directory that tacit train wrote")
    parser.add_argument("--party", metavar="NAME", help="draw the curves of this party's columns, and nobody else's")
    parser.add_argument("--out", metavar="FILE", help="the page (default: report.html in the directory of the run)")


def run(options: argparse.Namespace) -> int:
    """Write the page and say where it is."""
    from tacit.report.run import write_report

    path = write_report(options.directory, None if options.out is None else Path(options.out), options.party)
    print(f"written    {path}")
    return 0
