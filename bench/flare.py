"""Training between processes over FLARE beside the bare exchange of the same arrays, and beside one process."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.data import Task, a9a
from bench.parties import Parties
from bench.progress import say
from bench.row import Row, seconds
from tacit.run.graph import Neighbours
from tacit.run.star import InProcess
from tacit.types import Message, Vector

TITLE = "a9a between processes with mutual TLS: 3 parties with columns each, 6 nodes with rows each"
MOST_DIFFERENCE, MOST_RATIO = 1e-10, 1.5
PARTIES = [f"party{k}" for k in range(1, 7)]
STAR = PARTIES[:3]
ROUNDS, QUICK_ROUNDS, QUICK_ROWS = 60, 4, 500


@dataclass
class Exchanges:
    """Numbers in the arrays of each exchange of a run in one process: down and up, or from whom to whom."""

    star: list[list[list[int]]] = field(default_factory=list)
    ring: list[list[Any]] = field(default_factory=list)

    def rounds(self, trace: Sequence[Mapping[str, Any]], parties: int) -> list[list[Any]]:
        """What is exchanged in each round: where there are no neighbours, as much as has the bytes of the trace."""
        if self.ring:
            return self.ring
        left, rounds = iter(self.star), []
        for row in trace:
            bytes_, exchanges = 0, []
            while bytes_ < row["bytes_down"]:
                exchanges.append(next(left))
                bytes_ += 8 * sum(exchanges[-1][0]) * parties
            rounds.append(exchanges)
        return rounds


def run(quick: bool) -> list[Row]:
    """Train both splits over FLARE; the bare exchange runs before and after, in the same federation."""
    task, rounds = a9a(), QUICK_ROUNDS if quick else ROUNDS
    table = [] if quick else task.remark()
    with tempfile.TemporaryDirectory(prefix="tacit-bench-") as name:
        folder = Path(name)
        columns, rows = write_columns(folder, task, quick), write_rows(folder, task, quick)
        say("starting a server and six parties")
        with Parties(folder, PARTIES, columns[STAR[0]]) as parties:
            table += _part("star of 3", parties, star_job(folder, columns, rounds), columns, judged=not quick)
            table += _part("ring of 6", parties, ring_job(folder, rows, rounds), rows, judged=not quick)
    return table


# --- files and jobs -----------------------------------------------------------------------------------


def write_columns(folder: Path, task: Task, quick: bool) -> dict[str, Path]:
    """A third of the columns for each of three parties, the labels with the first."""
    X, y = _dense(task, quick)
    files = {}
    for name, chosen in zip(STAR, np.array_split(np.arange(X.shape[1]), len(STAR)), strict=True):
        columns: dict[str, Any] = {f"x{j}": X[:, j] for j in chosen}
        files[name] = _write(folder / f"{name}-columns.parquet", {**columns, **({"y": y} if name == STAR[0] else {})})
    return files


def write_rows(folder: Path, task: Task, quick: bool) -> dict[str, Path]:
    """A sixth of the rows for each of six nodes."""
    X, y = _dense(task, quick)
    files = {}
    for name, chosen in zip(PARTIES, np.array_split(np.arange(len(y)), len(PARTIES)), strict=True):
        columns = {f"x{j}": X[chosen, j] for j in range(X.shape[1])}
        files[name] = _write(folder / f"{name}-rows.parquet", {**columns, "y": y[chosen]})
    return files


def _dense(task: Task, quick: bool) -> tuple[Any, Any]:
    X, y = task.X.toarray(), (task.y > 0).astype(np.int8)
    return (X[:QUICK_ROWS], y[:QUICK_ROWS]) if quick else (X, y)


def _write(path: Path, columns: Mapping[str, Any]) -> Path:
    pq.write_table(pa.table({name: pa.array(column) for name, column in columns.items()}), path)
    return path


def star_job(folder: Path, files: Mapping[str, Path], rounds: int) -> tuple[Path, Path]:
    """The job of the feature split, for one process and for FLARE."""
    head = f'name = "star"\nrounds = {rounds}\ntol = 0.0\n'
    return _jobs(folder, "star", head + "[encode]\nscale = 'none'\n[model]\nalpha = 1e-4\n", files, [STAR[0]])


def ring_job(folder: Path, files: Mapping[str, Path], rounds: int) -> tuple[Path, Path]:
    """The job of the sample split, for one process and for FLARE."""
    head = f'name = "ring"\nsplit = "samples"\nrounds = {rounds}\ntol = 0.0\n'
    sections = "[encode]\nscale = 'none'\n[model]\nalpha = 1e-4\n[graph]\nkind = 'ring'\n"
    return _jobs(folder, "ring", head + sections, files, PARTIES)


def _jobs(folder: Path, name: str, head: str, files: Mapping[str, Path], holders: Sequence[str]) -> tuple[Path, Path]:
    made = []
    for engine in ("in-process", "flare"):
        text = f'[job]\nengine = "{engine}"\n{head}'
        for party, path in files.items():
            text += f'[[party]]\nname = "{party}"\n' + ('label = "y"\n' if party in holders else "")
            text += f'data = "{path}"\n' if engine == "in-process" else ""
        made.append(folder / f"{name}-{engine}.toml")
        made[-1].write_text(text)
    return made[0], made[1]


# --- measuring ----------------------------------------------------------------------------------------


def _part(
    what: str, parties: Parties, jobs: tuple[Path, Path], files: Mapping[str, Path], *, judged: bool
) -> list[Row]:
    names, name = list(files), jobs[0].stem.split("-")[0]
    say(f"{what}: in one process")
    here = parties.folder / f"{name}-here"
    exchanges = train_here(jobs[0], here)
    rounds = exchanges.rounds(_trace(here), len(names))
    plan = {"lead": names[0], "others": names[1:], "rounds": rounds, "neighbours": bool(exchanges.ring)}
    say(f"{what}: the bare exchange of {len(rounds)} rounds")
    before = bare(parties, f"{name}-bare-before", names, plan)
    say(f"{what}: training over FLARE")
    training = parties.train(jobs[1], files)
    say(f"{what}: the bare exchange again")
    after = bare(parties, f"{name}-bare-after", names, plan)
    ours = np.diff([row["seconds"] for row in _trace(parties.kits[names[0]].jobs / training)])
    difference = max(
        float(np.abs(_coef(parties.kits[one].jobs / training, one) - _coef(here, one)).max()) for one in names
    )
    return _rows(what, ours, np.concatenate([before, after]), difference, judged=judged)


def _rows(what: str, ours: Vector, bare: Vector, difference: float, *, judged: bool) -> list[Row]:
    ratio = float(np.median(ours) / np.median(bare))
    limit = (MOST_RATIO, "at most 1.5") if judged else (None, "")
    return [
        Row(f"{what}: largest difference of a coefficient", f"{difference:.1e}", difference, MOST_DIFFERENCE, "1e-10"),
        Row(f"{what}: seconds per round / bare exchange", f"{ratio:.2f}", ratio, *limit),
        Row(f"{what}: seconds per round, median of {len(ours)}", seconds(float(np.median(ours)))),
        Row(f"{what}: bare exchange, median of {len(bare)}", seconds(float(np.median(bare)))),
    ]


def train_here(job: Path, out: Path) -> Exchanges:
    """Train in this process; what was exchanged."""
    from tacit.cli.main import main

    with watched() as exchanges, contextlib.redirect_stderr(io.StringIO()):
        if main(["train", str(job), "--out", str(out), "--quiet"]):
            raise RuntimeError("training in one process failed")
    return exchanges


@contextlib.contextmanager
def watched() -> Iterator[Exchanges]:
    """Take down how many numbers the runs of this process exchange."""
    seen = Exchanges()
    star, ring = InProcess.exchange, Neighbours._deliver

    def exchange(engine: InProcess, message: Message) -> list[Message]:
        answers = star(engine, message)
        seen.star.append([_lengths(message), _lengths(answers[0])])
        return answers

    def deliver(engine: Neighbours, outboxes: Any) -> Any:
        carried = ring(engine, outboxes)
        seen.ring.append([[a, b, _lengths(message)] for a, out in outboxes.items() for b, message in out.items()])
        return carried

    with patch.object(InProcess, "exchange", exchange), patch.object(Neighbours, "_deliver", deliver):
        yield seen


def _lengths(message: Message) -> list[int]:
    return [int(array.size) for array in message.arrays.values()]


def bare(parties: Parties, run: str, names: Sequence[str], plan: Mapping[str, Any]) -> Vector:
    """Seconds of each round but the first in which FLARE carries such arrays, and nobody does anything with them."""
    folder = parties.submit(run, names, "Stopwatch", plan, "Echo")
    return np.array(json.loads((folder / "times.json").read_text())["seconds"])[1:]


def _trace(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "trace.jsonl").read_text().splitlines()]


def _coef(folder: Path, name: str) -> Vector:
    record = json.loads((folder / "model" / f"{name}.json").read_text())
    return np.array([*record["coef"], record["offset"]])
