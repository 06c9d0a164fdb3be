"""`tacit curves`: what each column adds to the score, as pictures and as a CSV."""

from __future__ import annotations

import argparse
from pathlib import Path

from tacit.text import tell

DESCRIPTION = """\
Write what each column adds to the score, over its range: one picture (SVG) for
each column of the parties' files, and curves.csv with all values (party,
column, x, value, low, high). x is a number, a date, a category, or "missing"
for blanks; low and high are the band that the noise of a private run makes,
where it is known.

A value is what tacit explain gives as the share of a row with this cell. It
needs no row: everything comes from the model. A folder that holds one party's
part of a joint run gives the curves of that party."""
EPILOG = """\
examples:
  tacit curves runs/credit
  tacit curves runs/credit --party bank --out bank-curves"""
FOLDER = "curves"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the verb."""
    parser.add_argument("directory", metavar="RUN", help="directory that tacit train wrote")
    parser.add_argument("--party", metavar="NAME", help="the curves of this party, and nobody else's")
    parser.add_argument("--out", metavar="FOLDER", help="where to write (default: curves in the directory of the run)")


def run(options: argparse.Namespace) -> int:
    """Write the files and say where they are."""
    from tacit.report.curves import band_lines, write_curves
    from tacit.run.curves import load_curves, of_party
    from tacit.run.folder import JOB, RunFolder
    from tacit.text import plural

    path = Path(options.directory)
    curves = of_party(load_curves(path), options.party)
    folder = path / FOLDER if options.out is None else Path(options.out)
    certificate = RunFolder(path).read_certificate()
    job = RunFolder(path).read_job() if (path / JOB).exists() else None
    written = write_curves(curves, folder, secret=certificate.private)
    for line in band_lines(curves, job, certificate):
        tell(f"tacit: {line}")
    print(f"written    {plural(len(written) - 1, 'picture')} and {written[0]}")
    return 0
