"""Points of a trade-off: read from a file, or kept in the directory of a job's design, so that no run is made twice."""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.errors import InputError

if TYPE_CHECKING:
    from tacit.job import Job
    from tacit.privacy.events import Event
    from tacit.run.folder import PreparedRun
    from tacit_papers.design.tuning_cost import TuningCost


# --- points of a trade-off: read from a file, with what they were measured under ---------------------

MOST_POINTS = 100_000
ROUNDS, DELTA = 3, 1e-5


@dataclass(frozen=True)
class Measured:
    """Points, the bounds on what may be chosen, and the cost of a choice.

    Attributes
    ----------
    alphas, losses : list of float
        One entry for each run.
    rounds, delta
        Of every run.
    most_alpha, most_loss : float
        Bounds on alpha, and on the fitted loss.
    cost : callable
        What choosing an alpha costs.
    picture : Path or None
        Where to draw it.
    notes : tuple of str
        What else there is to say about how they were measured.
    next_steps : callable
        What to do with the alpha that was chosen, and with the epsilon of a run at it.
    """

    alphas: list[float]
    losses: list[float]
    rounds: int
    delta: float
    most_alpha: float
    most_loss: float
    cost: Callable[[float], TuningCost]
    picture: Path | None = None
    notes: tuple[str, ...] = ()
    next_steps: Callable[[float, float], list[str]] = lambda alpha, epsilon: []


def points_of_file(options: argparse.Namespace) -> Measured:
    """Points that were measured elsewhere."""
    from tacit_papers.design.tuning_cost import tuning_cost

    for name in ("alphas", "repeats", "out", "loss_bound"):
        if getattr(options, name) is not None:
            option = "--" + name.replace("_", "-")
            raise InputError(f"{option} goes with a job file, and {options.source} holds points: leave {option} out")
    for name in ("max_alpha", "max_loss"):
        if getattr(options, name) is None:
            option = "--" + name.replace("_", "-")
            raise InputError(f"{option} is missing: points need it, see tacit design --help")
    table = read_points(options.source)
    alphas = [alpha for alpha, _ in table]
    rounds = ROUNDS if options.rounds is None else options.rounds
    delta = DELTA if options.delta is None else options.delta

    def cost(alpha: float) -> TuningCost:
        return tuning_cost(
            alphas, alpha, rounds, delta,
            largest=options.max_alpha, tuned_on=options.tuned_on, loss_mu=options.loss_mu,
        )  # fmt: skip

    picture = None if options.picture is None else Path(options.picture)
    losses = [loss for _, loss in table]
    return Measured(alphas, losses, rounds, delta, options.max_alpha, options.max_loss, cost, picture)


def read_points(name: str | Path, columns: Sequence[str] = ("alpha", "loss")) -> list[list[float]]:
    """Columns of a CSV file, line by line."""
    from tacit.text import show

    path = Path(name)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            header = [field.strip() for field in reader.fieldnames or []]
            reader.fieldnames = header
            missing = [column for column in columns if column not in header]
            if missing:
                wanted = " and ".join((", ".join(columns[:-1]), columns[-1]))
                raise InputError(f"{name} has no column {missing[0]!r}: its first line must name {wanted}")
            rows = [row for _, row in zip(range(MOST_POINTS + 1), reader, strict=False)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"cannot read {show(str(name))} ({type(error).__name__}): give a CSV file") from error
    if len(rows) > MOST_POINTS:
        raise InputError(f"{name} has more than {MOST_POINTS} points: give fewer")
    return [[_number(row[column], column, line, str(name)) for column in columns] for line, row in enumerate(rows, 2)]


def _number(text: str | None, column: str, line: int, name: str) -> float:
    from tacit.text import show

    try:
        return float(text or "")
    except ValueError:
        raise InputError(f"{name}, line {line}: {column} is {show(text)}, which is no number") from None


# --- the directory of `tacit design JOB.toml`: the points, so that no run is made twice --------------

# | file | holds |
# |---|---|
# | job.toml | the job as it is run at every alpha |
# | points.csv | alpha, repeat and loss, a line for each run that was made |
# | sweep.json | the noise on losses, and a fingerprint of the data, for its owner alone |
# | tradeoff.png | the picture |

POINTS, SETTINGS, PICTURE, FORMAT = "points.csv", "sweep.json", "tradeoff.png", 1
COLUMNS = ("alpha", "repeat", "loss")
Done = dict[tuple[float, int], float]


@dataclass(frozen=True)
class LossNoise:
    """Noise on each loss: its GDP parameter, and what each row's loss counts for at most; None without."""

    mu: float | None
    bound: float | None

    def event(self, rows: int) -> Event | None:
        """What one noisy loss costs."""
        from tacit_papers.design.sweep import loss_noise

        return None if self.mu is None or self.bound is None else loss_noise(self.mu, self.bound, rows)[1]


@contextmanager
def held(out: Path, job: Job, begun: PreparedRun, noise: LossNoise) -> Iterator[None]:
    """Hold the directory, which is begun or checked, for one process."""
    from tacit.files import read_json, show_path, write_json, write_text
    from tacit.run.checkpoint import fingerprint
    from tacit.run.folder import JOB, LOCK, RunFolder
    from tacit.text import one_line

    record = {
        "format": FORMAT,
        "loss_mu": noise.mu,
        "loss_bound": noise.bound,
        "data": json.loads(json.dumps(fingerprint(begun.shards, begun.labels))),
    }
    try:
        names = {path.name for path in out.iterdir()} if out.exists() else set()
    except (OSError, ValueError) as error:
        raise InputError(f"cannot write into {show_path(out)} ({one_line(error)}): choose another --out") from error
    if SETTINGS not in names and names - {LOCK, JOB}:
        raise InputError(f"{show_path(out)} holds other files and no points: choose another --out")
    with RunFolder(out).held():
        if (out / SETTINGS).exists():
            RunFolder(out).check_job(job)
            _check_same(read_json(out / SETTINGS), record, out)
        else:
            write_text(out / JOB, job.to_toml(out))
            write_json(out / SETTINGS, record, secret=True)
        yield


def _check_same(saved: dict[str, Any], record: dict[str, Any], out: Path) -> None:
    from tacit.files import show_path

    said = {
        "format": "the version of the format",
        "loss_mu": "--loss-mu",
        "loss_bound": "--loss-bound",
        "data": "the rows or labels",
    }
    for key, words in said.items():
        if saved.get(key) != record[key]:
            raise InputError(
                f"{words} changed since the points in {show_path(out)} were measured: undo it, or choose another --out"
            )


def read_done(out: Path) -> Done:
    """Losses of the runs that were made, by alpha and repeat."""
    if not (out / POINTS).exists():
        return {}
    return {(alpha, int(repeat)): loss for alpha, repeat, loss in read_points(out / POINTS, COLUMNS)}


def write_done(out: Path, done: Done, *, secret: bool) -> None:
    """Write all points; what is `secret` can be read by its owner alone."""
    from tacit.files import write_text

    lines = [f"{alpha!r},{repeat},{loss!r}" for (alpha, repeat), loss in done.items()]
    write_text(out / POINTS, "\n".join([",".join(COLUMNS), *lines]) + "\n", secret=secret)
