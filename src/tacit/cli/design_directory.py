"""The directory of `tacit design JOB.toml`: the points, so that no run is made twice.

| file | holds |
|---|---|
| job.toml | the job as it is run at every alpha |
| points.csv | alpha, repeat and loss, a line for each run that was made |
| sweep.json | the noise on losses, and a fingerprint of the data, for its owner alone |
| tradeoff.png | the picture |
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.cli.design_points import read_points
from tacit.errors import InputError

if TYPE_CHECKING:
    from tacit.job import Job
    from tacit.privacy.events import Event
    from tacit.runtime.store import Begun

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
        from tacit.papers.sweep import loss_noise

        return None if self.mu is None or self.bound is None else loss_noise(self.mu, self.bound, rows)[1]


@contextmanager
def held(out: Path, job: Job, begun: Begun, noise: LossNoise) -> Iterator[None]:
    """Hold the directory, which is begun or checked, for one process."""
    from tacit.data.wording import one_line
    from tacit.runtime.files import read_json, show_path, write_json, write_text
    from tacit.runtime.store import JOB, LOCK, RunDirectory, fingerprint, take

    record = {
        "format": FORMAT,
        "loss_mu": noise.mu,
        "loss_bound": noise.bound,
        "data": json.loads(json.dumps(fingerprint(begun.shards, begun.labels))),
    }
    try:
        out.mkdir(parents=True, exist_ok=True)
        if not (out / SETTINGS).exists() and {path.name for path in out.iterdir()} - {LOCK, JOB}:
            raise InputError(f"{show_path(out)} holds other files and no points: choose another --out")
        lock = open(out / LOCK, "ab")  # noqa: SIM115
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"cannot write into {show_path(out)} ({one_line(error)}): choose another --out") from error
    with lock:
        take(lock, out)
        if (out / SETTINGS).exists():
            RunDirectory(out).check_job(job)
            _check_same(read_json(out / SETTINGS), record, out)
        else:
            write_text(out / JOB, job.to_toml(out))
            write_json(out / SETTINGS, record, secret=True)
        yield


def _check_same(saved: dict[str, Any], record: dict[str, Any], out: Path) -> None:
    from tacit.runtime.files import show_path

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
    from tacit.runtime.files import write_text

    lines = [f"{alpha!r},{repeat},{loss!r}" for (alpha, repeat), loss in done.items()]
    write_text(out / POINTS, "\n".join([",".join(COLUMNS), *lines]) + "\n", secret=secret)
