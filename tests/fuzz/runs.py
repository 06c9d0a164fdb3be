"""Small finished runs to spoil: columns split, columns split and private, rows split over a graph."""

from __future__ import annotations

import contextlib
import io
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

from tacit.cli.main import main

KINDS = ("features", "private", "samples")
ROWS = 40


@dataclass(frozen=True)
class Answer:
    """What a command said."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Trained:
    """A run, the job and the files it was trained on, and those to predict."""

    kind: str
    folder: Path
    data: tuple[str, ...]

    @property
    def run(self) -> Path:
        return self.folder / "run"

    def files(self) -> dict[str, bytes]:
        """Every file of the run."""
        found = sorted(path for path in self.run.rglob("*") if path.is_file() and path.name != "run.lock")
        return {str(path.relative_to(self.run)): path.read_bytes() for path in found}


def tacit(*words: object) -> Answer:
    """Call the command line in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(word) for word in words])
    return Answer(code, out.getvalue(), err.getvalue())


def check_refusal(answer: Answer) -> None:
    """A command that did not do its work says why in one line, and that is a refusal and no slip of the program."""
    assert answer.code in (1, 2), answer
    lines = answer.err.splitlines()
    assert lines, answer
    assert lines[-1].startswith("tacit: error: "), answer
    assert "Traceback" not in answer.err, answer
    assert "TACIT_DEBUG" not in answer.err, answer  # how errors that nobody foresaw are told


def write_tables(folder: Path, kind: str) -> tuple[str, ...]:
    """Write the parties' files and return their names."""
    rng = np.random.RandomState(5)
    x = rng.normal(size=(ROWS, 4)).round(3)
    labels = np.where(x @ [1.0, -1.0, 0.5, 2.0] + rng.normal(size=ROWS) > 0, "yes", "no")
    cities = np.array(["Bern", "Basel", "Zürich"])[rng.randint(3, size=ROWS)]
    if kind == "samples":
        for number, name in enumerate(("north", "east", "south")):
            rows = range(number, ROWS, 3)
            lines = [f"{x[i, 0]},{x[i, 1]},{labels[i]}" for i in rows]
            (folder / f"{name}.csv").write_text("\n".join(["a,b,y", *lines]) + "\n")
        return ("north.csv",)
    lines = [f"c{i:02d},{x[i, 0]},{x[i, 1]},{cities[i]},{labels[i]}" for i in range(ROWS)]
    if kind == "private":  # a list of categories would have to be public
        lines = [f"c{i:02d},{x[i, 0]},{x[i, 1]},{labels[i]}" for i in range(ROWS)]
    header = "id,a,b,y" if kind == "private" else "id,a,b,city,y"
    (folder / "bank.csv").write_text("\n".join([header, *lines]) + "\n")
    lines = [f"c{i:02d},{x[i, 2]},{'' if i == 3 and kind == 'features' else x[i, 3]}" for i in range(ROWS)]
    (folder / "shop.csv").write_text("\n".join(["id,c,d", *reversed(lines)]) + "\n")
    return ("bank.csv", "shop.csv")


def job_text(kind: str) -> str:
    """The job of a kind."""
    if kind == "samples":
        head = 'name = "wards"\nsplit = "samples"\nrounds = 30\n[model]\nalpha = 0.1\n[graph]\nkind = "ring"\n'
        names = ("north", "east", "south")
        keys = [f'data = "{name}.csv"\nlabel = "y"\n' for name in names]
    else:
        more = "holdout = 0.2\n[encode]\nrare = 3\n" if kind == "features" else ""
        more = "[privacy]\nepsilon = 2\ndelta = 1e-5\nnoise_seed = 3\n" if kind == "private" else more
        head = f'name = "credit"\nrounds = 30\n{more}[model]\nalpha = 0.1\n'
        names = ("bank", "shop")
        keys = ['data = "bank.csv"\nid = "id"\nlabel = "y"\n', 'data = "shop.csv"\nid = "id"\n']
    return f"[job]\n{head}" + "".join(f'[[party]]\nname = "{n}"\n{k}' for n, k in zip(names, keys, strict=True))


@cache
def trained(kind: str) -> Trained:
    """A finished run, trained once in each process; nobody changes it."""
    folder = Path(mkdtemp(prefix=f"tacit-{kind}-{os.getpid()}-"))
    data = write_tables(folder, kind)
    (folder / "job.toml").write_text(job_text(kind))
    answer = tacit("train", folder / "job.toml", "--out", folder / "run", "--quiet")
    assert answer.code == 0, answer
    return Trained(kind, folder, data)
