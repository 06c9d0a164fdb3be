"""`tacit evaluate`: how good a saved model is on new rows with labels."""

from __future__ import annotations

import argparse
import sys

from tacit.cli.predict import add_run_and_files, match_paths
from tacit.errors import InputError

DESCRIPTION = """\
Evaluate the model of a finished run on new rows with labels: AUC, Gini, KS,
PR-AUC, log loss, Brier score, lift and tenths of the rows by score for two
classes; R2, errors and deviance for numbers and counts. Each has a 95 %
interval. Files are given and matched as for tacit predict; that of the label
holder has the label column. Where the parties hold different rows
(split = "samples"), one file is enough.

All files are read here. Between organisations nobody can do that."""
EPILOG = """\
examples:
  tacit evaluate runs/credit new/bank.csv new/shop.csv
  tacit evaluate runs/credit shop=new/shop.csv bank=new/bank.csv --json all.json
  tacit evaluate runs/hospitals new-patients.csv"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the verb."""
    add_run_and_files(parser, "+")
    parser.add_argument("--json", metavar="FILE", help="also write all figures to FILE as JSON")


def run(options: argparse.Namespace) -> int:
    """Evaluate and print the measures."""
    from tacit.files import writable, write_json
    from tacit.run.folder import RunFolder
    from tacit.run.saved import read_run

    if RunFolder(options.directory).is_part:
        raise InputError(
            "this is one organisation's part of a joint run, and evaluating needs rows of all parties: predict with "
            "tacit predict RUN --kit KIT, and compare with the labels"
        )
    known = read_run(options.directory)
    paths = match_paths(options.data, [party.name for party in known.model.parties])
    found = known.evaluated(paths)
    for remark in found.remarks:
        print(f"tacit: {remark}", file=sys.stderr)
    print(found)
    if options.json is not None:
        write_json(writable(options.json, "--json"), found.record(), secret=known.certificate.private)
    return 0
