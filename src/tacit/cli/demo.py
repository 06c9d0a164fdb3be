"""`tacit demo`: two parties train one model on data shipped with scikit-learn."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.errors import InputError
from tacit.text import command, duration, traffic

if TYPE_CHECKING:
    import numpy.typing as npt

    from tacit.types import Vector

DESCRIPTION = """\
Two parties hold different measurements of the same 569 breast tumours: a
clinic their shape and the diagnoses, a lab their size and texture. They train
one model together, which is compared, on held-out patients, with each party
alone, with all data in one place, and with a joint model that is private.

Writes the parties' files and a job file, to go on with tacit train and predict."""
EPILOG = """\
example:
  tacit demo --out demo-run"""

CLINIC, LAB = "clinic", "lab"
SHAPE = ("compactness", "concavity", "concave", "symmetry", "fractal")  # what the clinic measures; the lab: the rest
SEED, HELD_OUT = 0, 0.3
EPSILON = 4.0  # of the private run
FIRST, WIDTH = "party 1", 79  # how an estimator names its first party; columns of text
ALPHA = 1e-2  # the power of ten with the least log loss in 5-fold cross-validation on the patients to train on
JOB = f"""\
[job]
name = "demo"

[model]
loss = "logistic"
penalty = "l2"
alpha = {ALPHA}

[[party]]
name = "{CLINIC}"
data = "{CLINIC}.csv"
id = "patient"
label = "diagnosis"

[[party]]
name = "{LAB}"
data = "{LAB}.csv"
id = "patient"
"""
FILES = ("job.toml", f"{CLINIC}.csv", f"{LAB}.csv", f"{CLINIC}-new.csv", f"{LAB}-new.csv")


@dataclass(frozen=True, eq=False)
class Patients:
    """Some patients: each party's measurements, and the diagnoses."""

    ids: npt.NDArray[Any]
    blocks: tuple[Vector, Vector]
    diagnosis: npt.NDArray[Any]


@dataclass(frozen=True)
class ComparedModel:
    """One line of the table."""

    who: str
    columns: int
    accuracy: float
    log_loss: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the verb."""
    parser.add_argument("--out", metavar="DIR", default="demo-run", help="directory for the files (default: demo-run)")


def run(options: argparse.Namespace) -> int:
    """Train, compare, write the files, and say what happened."""
    from tacit import Privacy, VerticalClassifier, alone, pooled

    folder = Path(options.out)
    _check_folder(folder)
    names, train, test = load_patients()
    model = VerticalClassifier(alpha=ALPHA).fit(list(train.blocks), train.diagnosis)
    seconds = model.trace_[-1].seconds
    private = VerticalClassifier(alpha=ALPHA, privacy=Privacy(epsilon=EPSILON))
    private.fit(list(train.blocks), train.diagnosis)
    widths = [block.shape[1] for block in train.blocks]
    lines = [
        _measure(f"{CLINIC} alone", alone(model, 0), widths[0], train, test),
        _measure(f"{LAB} alone (given the diagnoses)", alone(model, 1), widths[1], train, test),
        _measure("both together, by Tacit", model, sum(widths), None, test),
        _measure("all data in one place", pooled(model), sum(widths), train, test),
        _measure(f"both together, with epsilon {EPSILON:g}", private, sum(widths), None, test),
    ]
    write_files(folder, names, train, test)
    _print_table(lines)
    print()
    _explain(lines, model, seconds, len(train.ids), len(test.ids))
    print()
    _explain_private(lines, private)
    print()
    _print_next(folder)
    return 0


# --- the data ----------------------------------------------------------------------------------------


def load_patients() -> tuple[list[list[str]], Patients, Patients]:
    """Names of each party's columns, and the patients to train on and to test on.

    Each party standardises its own columns by what it sees of the patients to train on.
    """
    import numpy as np
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import train_test_split

    data = load_breast_cancer()
    diagnosis = np.array(data.target_names)[data.target]
    ids = np.random.RandomState(SEED).permutation(len(diagnosis)) + 1000
    fit, held_out = train_test_split(np.arange(len(ids)), test_size=HELD_OUT, random_state=SEED, stratify=data.target)
    centre, spread = data.data[fit].mean(axis=0), data.data[fit].std(axis=0)
    values = (data.data - centre) / spread
    names = [str(name).replace(" ", "_") for name in data.feature_names]
    is_shape = np.array([any(word in name for word in SHAPE) for name in names])
    parts = [
        Patients(ids[rows], (values[np.ix_(rows, is_shape)], values[np.ix_(rows, ~is_shape)]), diagnosis[rows])
        for rows in (fit, held_out)
    ]
    columns = [[name for name, shape in zip(names, is_shape, strict=True) if shape == own] for own in (True, False)]
    return columns, parts[0], parts[1]


def _measure(who: str, model: Any, columns: int, train: Patients | None, test: Patients) -> ComparedModel:
    """Accuracy and log loss on the held-out patients; trains first where `train` is given."""
    from sklearn.metrics import accuracy_score, log_loss

    if train is not None:
        model.fit(list(train.blocks), train.diagnosis)
    blocks = list(test.blocks)
    accuracy = accuracy_score(test.diagnosis, model.predict(blocks))
    return ComparedModel(who, columns, float(accuracy), float(log_loss(test.diagnosis, model.predict_proba(blocks))))


# --- the files ---------------------------------------------------------------------------------------


def _check_folder(folder: Path) -> None:
    """Refuse a directory with other files; that of an earlier demo is written again."""
    from tacit.files import show_path

    where = show_path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        held = {path.name for path in folder.iterdir()}
    except (OSError, ValueError) as error:
        raise InputError(f"cannot write into {where}: give another directory with --out") from error
    if held and not held >= set(FILES):
        raise InputError(f"{where} holds other files: give another directory with --out")


def write_files(folder: Path, names: Sequence[Sequence[str]], train: Patients, test: Patients) -> None:
    """Write each party's files, in an order of rows of its own, and the job."""
    from tacit.files import write_text

    for number, party in enumerate((CLINIC, LAB)):
        for end, patients in (("", train), ("-new", test)):
            label = patients.diagnosis if party == CLINIC and not end else None
            text = _csv(patients.ids, patients.blocks[number], names[number], label, seed=number)
            write_text(folder / f"{party}{end}.csv", text)
    write_text(folder / "job.toml", JOB)


def _csv(ids: Any, block: Any, names: Sequence[str], label: Any, seed: int) -> str:
    import numpy as np

    lines = [",".join(["patient", *names, *([] if label is None else ["diagnosis"])])]
    for row in np.random.RandomState(seed).permutation(len(ids)):
        cells = [str(ids[row]), *(repr(float(value)) for value in block[row])]
        lines.append(",".join(cells if label is None else [*cells, str(label[row])]))
    return "\n".join(lines) + "\n"


# --- what is printed ---------------------------------------------------------------------------------


def _print_table(lines: Sequence[ComparedModel]) -> None:
    """A table: with rules and colour in a terminal, plain text elsewhere."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 80, highlight=False)
    fancy = console.is_terminal
    table = Table(box=box.SIMPLE_HEAD if fancy else None, pad_edge=fancy)
    table.add_column("trained by")
    for title in ("columns", "test accuracy", "test log loss"):
        table.add_column(title, justify="right")
    for line in lines:
        style = "bold green" if fancy and "Tacit" in line.who else ""
        table.add_row(line.who, str(line.columns), f"{line.accuracy:.1%}", f"{line.log_loss:.4f}", style=style)
    console.print(table)


def _explain(lines: Sequence[ComparedModel], model: Any, seconds: float, trained: int, tested: int) -> None:
    joint, together = lines[2:4]
    apart = _up(abs(joint.log_loss - together.log_loss))
    print(
        f"The {CLINIC} and the {LAB} trained one model on {trained} patients in {model.n_rounds_} rounds\n"
        f"({duration(seconds)}; {traffic(model.traffic_)}).\n"
        f"On {tested} other patients:\n"
        f"- its log loss is within {apart} of what all data in one place give;\n"
        f"{_against_clinic(lines[0], joint)}\n"
        f"{_against_lab(lines[1], joint)}\n"
        "No measurement and no coefficient was sent, but this run adds no noise: it is\n"
        f"NOT differentially private (epsilon = {model.certificate_.epsilon(0):g})."
    )


def _explain_private(lines: Sequence[ComparedModel], private: Any) -> None:
    """What the private run brought, as it came out, and what it could tell by itself."""
    alone, with_noise = lines[0], lines[4]
    better = "better" if with_noise.log_loss < alone.log_loss else "no better"
    text = (
        f"The last line is a run with noise, in {private.n_rounds_} rounds: {better} than the {CLINIC} alone by its "
        f"log loss here, with other noise in every run. It is differentially private (epsilon = {EPSILON:g} for each "
        f"row of the {LAB}, delta = {private.certificate_.target.delta:g}) where columns are scaled without looking at "
        f"the patients, which this demo does not do, and it protects no row or diagnosis of the {CLINIC}. What the "
        f"run can tell by itself: {private.outlook_[0].replace(FIRST, CLINIC)}."
    )
    print(textwrap.fill(text, WIDTH))


def _against_clinic(alone: ComparedModel, joint: ComparedModel) -> str:
    """What joining did for the party with the diagnoses, as it came out."""
    verb = "falls" if joint.log_loss < alone.log_loss else "does not fall"
    both = f"{alone.log_loss:.4f} alone, {joint.log_loss:.4f} joint"
    return f"- for the {CLINIC}, which has the diagnoses, it {verb}: {both};"


def _against_lab(alone: ComparedModel, joint: ComparedModel) -> str:
    """What joining did for the party without them, as it came out."""
    if joint.log_loss < alone.log_loss:
        return f"- the {LAB} alone would do worse, even if it had the diagnoses."
    return f"- the {LAB} alone would do no worse, if it had the diagnoses, which it has not."


def _up(value: float) -> str:
    """A bound with one digit, rounded up, and never 0."""
    return next(text for text in ("0.0001", "0.001", "0.01", "0.1", "1", "1000") if value <= float(text))


def _print_next(folder: Path) -> None:
    out = _free(folder)
    print("Next, do the same from files:")
    print("  " + command("tacit", "train", folder / "job.toml", "--out", out))
    print("  " + command("tacit", "predict", out, folder / f"{CLINIC}-new.csv", folder / f"{LAB}-new.csv"))


def _free(folder: Path) -> Path:
    """A directory for a run that does not exist yet."""
    number = 1
    while (path := folder / ("run" if number == 1 else f"run-{number}")).exists():
        number += 1
    return path
