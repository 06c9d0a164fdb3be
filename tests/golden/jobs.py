"""Jobs by the command line: what every verb prints, and every file of a run."""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.golden import adapter, values
from tests.golden.fitting import Record, transcript

INTERRUPTED = 130  # exit code
ROWS, NODE_ROWS = 60, (30, 40, 26)
NODES = ("north", "east", "south")
BANK = '[[party]]\nname = "bank"\ndata = "bank.csv"\nid = "customer"\nlabel = "default"\n'
SHOP = '[[party]]\nname = "shop"\ndata = "shop.csv"\nid = "customer"\n'
UNSCALED = '[encode]\nscale = "none"\n'
ENCODED = """
[party.columns]
s0 = { low = -1, high = 1 }
s1 = { missing = true }
town = { values = ["ham", "sea", "wood"] }
code = { buckets = 3 }
day = { low = 2000-01-01, high = 2020-01-01 }
"""
CURVES = 'alpha = 0.01\nterms = "spline"'
CURVED = ENCODED.replace("s1 = { missing = true }", "s1 = { low = -2, high = 2, missing = true }")
VERBS = ("plan", "plan --json", "train", "predict", "explain", "verify", "report")


# --- files -----------------------------------------------------------------------------------------------


def write_csv(path: Path, table: Mapping[str, Sequence[Any]]) -> Path:
    """A table in a file."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(table)
        lines.writerows(zip(*table.values(), strict=True))
    return path


def customers(folder: Path, *, encoded: bool = False) -> None:
    """The files of a bank and of a shop, with rows that only one of them has, in other orders."""
    rng = np.random.RandomState(4)
    X = rng.normal(size=(ROWS, 5))
    score = X @ [1.2, -0.8, 0.5, 1.0, -0.6] + 0.2 + rng.normal(size=ROWS)
    ids = [f"c{number:03d}" for number in range(ROWS)]
    bank = {"customer": ids, **{f"b{j}": X[:, j].round(6) for j in range(3)}}
    write_csv(folder / "bank.csv", {**bank, "default": np.where(score > 0, "yes", "no")})
    order = rng.permutation(ROWS)[3:]
    shop: dict[str, Any] = {
        "customer": [ids[i] for i in order],
        **{f"s{j}": X[order, 3 + j].round(6) for j in range(2)},
    }
    write_csv(folder / "shop.csv", {**shop, **(_texts(len(order)) if encoded else {})})


def _texts(count: int) -> dict[str, Any]:
    """Columns of text and of dates, with blanks."""
    towns = [("ham", "sea", "", "wood", "hill")[i % 5] for i in range(count)]
    days = ["" if i % 9 == 4 else f"20{i % 18:02d}-{1 + i % 12:02d}-1{i % 10}" for i in range(count)]
    return {"town": towns, "code": [f"k{i % 7}" for i in range(count)], "day": days}


def wards(folder: Path, kinds: tuple[Any, Any] = ("no", "yes")) -> None:
    """The files of three hospitals."""
    rng = np.random.RandomState(6)
    for name, count in zip(NODES, NODE_ROWS, strict=True):
        X = (rng.normal(size=(count, 3)) / 3).round(6)
        ill = np.where(X @ [4.0, -3.0, 2.0] + 0.3 + 0.5 * rng.normal(size=count) > 0, kinds[1], kinds[0])
        ids = [f"{name}{i}" for i in range(count)]
        write_csv(folder / f"{name}.csv", {"patient": ids, **{f"x{j}": X[:, j] for j in range(3)}, "ill": ill})


def credit(*, top: str = "", model: str = "alpha = 0.01", more: str = "", shop: str = "") -> str:
    """The text of a job of the bank and the shop."""
    text = f'[job]\nname = "credit"\n{top}\n' + f"[model]\n{model}\n" + more
    return text + BANK + SHOP + shop


def clinic(*, top: str = "", more: str = "") -> str:
    """The text of a job of the three hospitals."""
    text = f'[job]\nname = "wards"\nsplit = "samples"\n{top}\n[model]\nalpha = 0.05\n[graph]\nkind = "ring"\n{more}'
    party = '[[party]]\nname = "{0}"\ndata = "{0}.csv"\nid = "patient"\nlabel = "ill"\n'
    return text + "".join(party.format(name) for name in NODES)


# --- commands --------------------------------------------------------------------------------------------


def told(folder: Path, *words: str) -> Record:
    """Run a command; what it printed, and its exit code."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = adapter.command_line(words)
    printed = {"out": values.of_text(out.getvalue(), folder), "err": values.of_text(err.getvalue(), folder)}
    return {"code": code, **printed}


def trained(folder: Path, *more: str) -> Record:
    """Train the job of the folder, with everything that was said."""
    with adapter.watched() as seen:
        printed = told(folder, "train", "job.toml", "--out", "run", *more)
    return {**printed, "transcript": transcript(seen)}


def whole_way(
    write: Callable[[Path], None], text: str, new: Sequence[str], verbs: Sequence[str], folder: Path
) -> Record:
    """Plan, train and use a job."""
    write(folder)
    (folder / "job.toml").write_text(text, encoding="utf-8")
    commands: dict[str, Callable[[], Record]] = {
        "plan": lambda: told(folder, "plan", "job.toml"),
        "plan --json": lambda: told(folder, "plan", "job.toml", "--json"),
        "train": lambda: trained(folder),
        "predict": lambda: told(folder, "predict", "run", *new, "--out", "predicted.csv"),
        "explain": lambda: told(folder, "explain", "run", *new, "--row", "2"),
        "verify": lambda: told(folder, "verify", "run"),
        "report": lambda: told(folder, "report", "run"),
    }
    printed = {verb: commands[verb]() for verb in verbs}
    predicted = folder / "predicted.csv"
    more = {"predicted": values.of_file(predicted, folder)} if predicted.exists() else {}
    return {"printed": printed, **more, "files": values.of_folder(folder / "run", folder)}


def resumed(write: Callable[[Path], None], text: str, at: int, folder: Path) -> Record:
    """Stop a run in the middle, and go on."""
    write(folder)
    (folder / "job.toml").write_text(text, encoding="utf-8")
    with adapter.stopped_at(at):
        first = trained(folder, "--checkpoint-every", "0")
    assert first["code"] == INTERRUPTED, "the run ended before it could be stopped"
    middle = values.of_folder(folder / "run", folder)
    second = trained(folder, "--resume")
    return {"stopped": first, "middle": middle, "resumed": second, "files": values.of_folder(folder / "run", folder)}


BOTH = ("bank.csv", "shop.csv")
PRIVATE = "[privacy]\nepsilon = 4\nnoise_seed = 3\n"
ENCODING = partial(customers, encoded=True)
CONFIGURATIONS: dict[str, Callable[[Path], Record]] = {
    "jobs-features": partial(whole_way, customers, credit(top="holdout = 0.2\nseed = 1"), BOTH, VERBS),
    "jobs-features-curves-private": partial(
        whole_way, ENCODING, credit(top="holdout = 0.2", model=CURVES, more=PRIVATE, shop=CURVED), BOTH, VERBS[:-1]
    ),
    "jobs-features-resumed-private": partial(
        resumed, customers, credit(more=PRIVATE + 'mechanism = "shares"\n' + UNSCALED), 2
    ),
    "jobs-samples-resumed": partial(resumed, wards, clinic(top="rounds = 5", more=UNSCALED), 4),
}
NOISY = {
    "jobs-features-curves-private",
    "jobs-features-resumed-private",
}
