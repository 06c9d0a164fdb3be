"""`tacit randomize`: a contributor randomizes labels before the data reach anybody else."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.errors import InputError

if TYPE_CHECKING:
    from tacit.data.randomized import LabelFile
    from tacit.privacy.randomness import NoiseSource
    from tacit.types import Vector

DESCRIPTION = """\
Randomize the labels of a file once, before it reaches any server: each label is
kept with probability e^E / (1 + e^E), else turned into the other kind. What
the new file adds to anyone's odds for a label is a factor of e^E at most.

The new file says in a column of its own at which epsilon each label was
randomized. A job that reads it trains with the loss that makes up for the
flips, and its certificate says what the labels are protected by.

Only the labels are protected: all other columns are copied as they are. Rows
come out in a random order, as an order by label would give labels away; ids
that were given out in such an order do, too."""
EPILOG = """\
examples:
  tacit randomize people.csv --label default --epsilon 1
  tacit randomize people.csv --label default --epsilon-column wish
  tacit randomize mine.csv --label default --epsilon 2 --classes no,yes

Randomize once: each further file from the same labels spends epsilon again."""
LEAST = 1e-3  # below it labels are coins, and no loss makes up for that


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the verb."""
    parser.add_argument("file", metavar="FILE", help="the data with the true labels (.csv, .csv.gz, .parquet)")
    parser.add_argument("--label", metavar="COL", required=True, help="column of the labels, of two kinds")
    parser.add_argument("--epsilon", metavar="E", help="epsilon of each label: smaller is more private")
    parser.add_argument("--epsilon-column", metavar="COL", help="column with each person's own epsilon; blanks take E")
    parser.add_argument("--classes", metavar="A,B", help="the two kinds of labels (default: those in the file)")
    parser.add_argument("--out", metavar="FILE", help="the new file (default: FILE with .randomized in its name)")


def run(options: argparse.Namespace) -> int:
    """Randomize, write, and say what to do next."""
    from tacit.data.randomized import read_label_file
    from tacit.files import show_path, write_atomically
    from tacit.privacy.randomness import NoiseSource
    from tacit.text import plural

    path = Path(options.file)
    epsilon = None if options.epsilon is None else _number(options.epsilon)
    if epsilon is None and options.epsilon_column is None:
        raise InputError("nothing says how private the labels shall be: give --epsilon, or --epsilon-column")
    out = _out(path, options.out)
    file = read_label_file(
        path, options.label, kinds=_kinds(options.classes), epsilon=epsilon, epsilon_from=options.epsilon_column
    )
    _check_epsilons(file)
    source = NoiseSource()
    signs = flip(file, source)
    order = source.uniform(len(signs)).argsort()
    write_atomically(out, lambda raw: file.write(raw, signs, order))
    low, high = float(file.epsilons.min()), float(file.epsilons.max())
    size = f"{low:g}" if low == high else f"{low:g} to {high:g}"
    print(
        f"{show_path(out)}: {plural(len(signs), 'label')} randomized at epsilon {size}. Hand over this file, for a job "
        f'with split = "samples", and never {show_path(path)}: its labels are the true ones.'
    )
    return 0


def flip(file: LabelFile, source: NoiseSource) -> Vector:
    """Randomize each label once, with its own epsilon."""
    import numpy as np

    from tacit.privacy.randomness import randomize_labels

    signs = np.empty(len(file.signs))
    for epsilon in np.unique(file.epsilons):
        rows = file.epsilons == epsilon
        signs[rows] = randomize_labels(file.signs[rows], float(epsilon), source)
    return signs


def _number(text: str) -> float:
    from tacit.text import show

    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not LEAST <= value < float("inf"):
        raise InputError(f"--epsilon {show(text)} is not allowed: it must be a number of at least {LEAST:g}")
    return value


def _check_epsilons(file: LabelFile) -> None:
    import numpy as np

    bad = np.flatnonzero(~((file.epsilons >= LEAST) & (file.epsilons < np.inf)))
    if bad.size:
        value = file.epsilons[bad[0]]
        found = "blank" if np.isnan(value) else f"{value:g}"
        raise InputError(
            f"{file.path.name}: the epsilon of row {bad[0] + 1} is {found}: it must be a number of at least {LEAST:g}; "
            "blanks take --epsilon"
        )


def _kinds(text: str | None) -> tuple[str, str] | None:
    from tacit.text import show

    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or not all(parts) or parts[0] == parts[1]:
        raise InputError(f"--classes {show(text)} is not allowed: give the two kinds of labels, as in --classes no,yes")
    return parts[0], parts[1]


def _out(path: Path, given: str | None) -> Path:
    """Where to write: a new file of the same kind."""
    from tacit.files import show_path

    ending = "".join(path.suffixes[-2:]) if path.name.lower().endswith(".gz") else path.suffix
    out = Path(given) if given is not None else path.with_name(path.name.removesuffix(ending) + ".randomized" + ending)
    if not out.name.lower().endswith(ending.lower()):
        raise InputError(f"--out {show_path(out)} is of another kind than {path.name}: end its name in {ending}")
    if os.path.lexists(out):
        raise InputError(
            f"{show_path(out)} is there already: hand that one over, or choose another --out; randomizing the same "
            "labels twice spends epsilon twice"
        )
    if not out.parent.is_dir():
        raise InputError(f"cannot write {show_path(out)}: give --out a file in a directory that is there")
    return out
