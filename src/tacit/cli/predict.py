"""`tacit predict`: joint prediction from a saved run."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.errors import InputError
from tacit.text import raw

if TYPE_CHECKING:
    from tacit.run.predict import Predictions

DESCRIPTION = """\
Predict new rows with the model of a finished run. Each party scores its own
columns, and only the scores are added. Rows are matched by the id column if the
job has one, otherwise by position; labels are ignored. Where the parties hold
different rows (split = "samples"), one file is enough.

Writes CSV: the id under its own name (or row, counted from 1), score,
prediction and, for the logistic loss, the probability of the positive label."""
EPILOG = """\
examples:
  tacit predict runs/credit bank.csv shop.csv
  tacit predict runs/credit shop=new/shop.csv bank=new/bank.csv --out scores.csv
  tacit predict runs/hospitals new-patients.csv
  tacit predict credit-0123456789ab --kit credit/server
                          every organisation scores its own rows, and the one
                          that led the training gets the predictions"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the verb."""
    add_run_and_files(parser, "*")
    parser.add_argument("--kit", metavar="KIT", help="predict between organisations, by the kit of the server")
    parser.add_argument("--out", metavar="FILE", help="write the predictions to FILE instead of the terminal")


def add_run_and_files(parser: argparse.ArgumentParser, count: str) -> None:
    """Describe the directory of a run, and files of new rows; `count` as in argparse."""
    parser.add_argument("directory", metavar="RUN", help="directory that tacit train wrote")
    parser.add_argument(
        "data",
        metavar="DATA",
        nargs=count,
        help="one file per party, in the order of the job; or PARTY=FILE in any order (.csv, .parquet, .svm)",
    )


def run(options: argparse.Namespace) -> int:
    """Predict and write the predictions."""
    if options.kit is not None:
        from tacit.cli.together import predict_together

        return predict_together(options.directory, options)
    if not options.data:
        raise InputError("DATA is missing: give one file per party; see tacit predict --help")
    from tacit.run.predict import load_model, load_rows, predict
    from tacit.run.saved import prediction_remarks

    model = load_model(options.directory)
    paths = match_paths(options.data, [party.name for party in model.parties])
    data = load_rows(model, paths)
    for remark in prediction_remarks(model, data):
        print(f"tacit: {remark}", file=sys.stderr)
    write_predictions(options.out, predict(model, data))
    return 0


def write_predictions(out: str | None, predictions: Predictions) -> None:
    """Write the predictions to a file, or to the terminal where `out` is None."""
    from tacit.run.predict import csv_text
    from tacit.text import plural

    if out is None:
        file = sys.stdout if sys.stdout.isatty() else raw(sys.stdout)  # ids in a file are as they were
        for text in csv_text(predictions):
            file.write(text)
    else:
        _write(Path(out), predictions)
        print(f"{plural(len(predictions.score), 'prediction')} in {out}")


def match_paths(arguments: Sequence[str], names: Sequence[str]) -> list[str]:
    """The parties' files in their order, from plain paths in that order or from PARTY=FILE in any."""
    from tacit.text import listing, nearest, plural, show

    pairs = [argument.split("=", 1) for argument in arguments if _is_pair(argument, names)]
    for name, _ in pairs:
        if name not in names:
            raise InputError(f"there is no party {show(name)}{nearest(name, names)}: the parties are {listing(names)}")
    if not pairs:
        if len(arguments) != len(names):
            raise InputError(
                f"{plural(len(arguments), 'data file')} for {plural(len(names), 'party')}: "
                f"give one for each, in the order {listing(names)}"
            )
        return list(arguments)
    if len(pairs) < len(arguments):
        raise InputError(f"some data are PARTY=FILE and some not: name the party of each, of {listing(names)}")
    found = dict(pairs)
    if len(found) < len(pairs):
        raise InputError("a party is given two files: give one for each")
    missing = [name for name in names if name not in found]
    if missing:
        raise InputError(f"no file for party {listing(missing)}: add {missing[0]}=FILE")
    return [found[name] for name in names]


def _is_pair(argument: str, names: Sequence[str]) -> bool:
    """A path may hold an equals sign too: what names no party and is there as a file is a path."""
    return "=" in argument and (argument.split("=", 1)[0] in names or not os.path.exists(argument))


def _write(path: Path, predictions: Predictions) -> None:
    from tacit.files import show_path
    from tacit.run.predict import write_csv

    if path.is_dir() or not path.parent.is_dir():
        raise InputError(f"cannot write {show_path(path)}: give --out the name of a file in a directory that is there")
    write_csv(path, predictions)
