"""`tacit summary`: standard errors, p-values and intervals of a saved model."""

from __future__ import annotations

import argparse

from tacit.errors import InputError

DESCRIPTION = """\
Coefficients of a linear model with standard errors, p-values and 95 %
intervals, by party and column, and a test for each party and for each curve or
category: does it add anything? The files of the job are read again.

Without a penalty (penalty = "none") the figures are those of maximum
likelihood, as statsmodels gives them for all data in one place. With a penalty
the intervals cover what training with it gives on average. Private models and
runs between organisations are refused: the page "Standard errors" of the
documentation says why."""
EPILOG = """\
examples:
  tacit summary runs/credit
  tacit summary runs/credit --party phone       what this party may see
  tacit summary runs/credit --json errors.json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the verb."""
    parser.add_argument("directory", metavar="RUN", help="directory that tacit train wrote")
    parser.add_argument("--party", metavar="NAME", help="show the coefficients of this party alone")
    parser.add_argument("--json", metavar="FILE", help="also write all figures to FILE as JSON")


def run(options: argparse.Namespace) -> int:
    """Compute and print them."""
    from tacit.files import writable, write_json
    from tacit.run.folder import RunFolder
    from tacit.run.saved import APART, read_run

    if RunFolder(options.directory).is_part:
        raise InputError(APART)
    found = read_run(options.directory).summary()
    found = found if options.party is None else found.of(options.party)
    print(found)
    if options.json is not None:
        write_json(writable(options.json, "--json"), found.record())
    return 0
