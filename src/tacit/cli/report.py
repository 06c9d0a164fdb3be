"""`tacit report`: one page about a finished run."""

from __future__ import annotations

import argparse
from pathlib import Path

from tacit.errors import InputError

DESCRIPTION = """\
Write one HTML page about a finished run: who trained what, how good the model
is against each party alone and all data in one place, what each party adds, and
each column where numbers are curves, how the run went, and what its privacy
certificate says. The page is one file, with its pictures inside; it needs no
network and no script, and prints well.

Between organisations each writes its own page, from its own home, by its kit:
what was trained and with whom, its own part of the model, what left its
machine, its budget, the certificate; at the site that led also how the run
went.

How good the model is was computed by tacit train. In a private run it comes
from labels and single scores, which no certificate covers: keep such a page."""
EPILOG = """\
examples:
  tacit report runs/credit
  tacit report runs/credit --out credit.html
  tacit report credit/shop         the last run that ended at the shop
  tacit report credit/shop --job credit-0123456789ab"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the verb."""
    parser.add_argument("directory", metavar="RUN", help="directory that tacit train wrote, or a kit")
    parser.add_argument("--job", metavar="NAME", help="with a kit: which run (default: the last that ended)")
    parser.add_argument("--party", metavar="NAME", help="draw the curves of this party's columns, and nobody else's")
    parser.add_argument("--out", metavar="FILE", help="the page (default: report.html in the directory of the run)")


def run(options: argparse.Namespace) -> int:
    """Write the page and say where it is."""
    from tacit.cli.accept import run_of
    from tacit.run.folder import RunFolder

    place, out = run_of(options.directory, options.job, ended=True), None if options.out is None else Path(options.out)
    if RunFolder(place).is_part:
        if options.party is not None:
            raise InputError("--party is not used here: the page holds the columns of its own organisation alone")
        from tacit.federation.site_report import write_site_report

        path = write_site_report(place, out)
    else:
        from tacit.report.run import write_report

        path = write_report(place, out, options.party)
    print(f"written    {path}")
    return 0
