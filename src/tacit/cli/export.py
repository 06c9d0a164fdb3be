"""`tacit export`: a model for whoever has no Tacit, and its card."""

from __future__ import annotations

import argparse
from pathlib import Path

from tacit.files import show_path, writable

DESCRIPTION = """\
Write a trained model in a form that others can use without Tacit:

  python   one file of plain Python that needs nothing but Python
  onnx     an ONNX graph, for every runtime of ONNX
  skops    the format of skops, which is read without pickle (Tacit reads it)
  card     a model card in Markdown: what the model is, on what it was trained,
           how good it is, what its privacy certificate says, its limits

All forms give the scores of tacit predict to 1e-6. Without --party all parts
are written, and a row then has the columns of all parties; with --party the
part of one party, whose scores are added to those of the others."""
EPILOG = """\
examples:
  tacit export runs/credit --to python
  tacit export runs/credit --to onnx --party bank --out bank.onnx
  tacit export runs/credit --to card"""
FORMS = ("python", "onnx", "skops", "card")
ENDINGS = {"python": "py", "card": "md"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the verb."""
    parser.add_argument("directory", metavar="RUN", help="directory that tacit train wrote")
    parser.add_argument("--to", choices=FORMS, required=True, help="the form")
    parser.add_argument("--party", metavar="NAME", help="the part of this party alone")
    parser.add_argument("--out", metavar="FILE", help="the file (default: the name of the run, in this directory)")


def run(options: argparse.Namespace) -> int:
    """Write the file and say where it is."""
    from tacit.run.hand_over import export
    from tacit.run.predict import load_model
    from tacit.text import tell

    name = "-".join([Path(options.directory).resolve().name, *([options.party] if options.party else [])])
    target = writable(options.out or f"{name}.{ENDINGS.get(options.to, options.to)}", "--out")
    if options.to == "card":
        return _write_card(options, target)
    model = load_model(options.directory, None if options.party is None else [options.party])
    for line in model.not_covered:
        tell(f"tacit: {line}")
    export(model, target, options.to, None if options.party is None else [options.party])
    print(f"written    {show_path(target)}")
    return 0


def _write_card(options: argparse.Namespace, target: Path) -> int:
    from tacit.errors import InputError
    from tacit.files import write_text
    from tacit.report.card import model_card
    from tacit.run.saved import read_run

    if options.party is not None:
        raise InputError("--party is not used here: a card is about the whole model")
    write_text(target, model_card(read_run(options.directory)))
    print(f"written    {show_path(target)}")
    return 0
