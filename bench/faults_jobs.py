"""The jobs of a drill, and the files that all of them use: both splits, with and without masks, noise and matching."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

PARTIES = ("bank", "shop", "phone")
ROWS, COMMON = 1_500, 1_400  # rows of each file, and those whose ids all files have

NOISE = "[privacy]\nepsilon = 100000\nnoise_seed = 5\n"  # a seed, so that the disturbed run can be compared
SGD = "[model]\nmethod = 'sgd'\n"  # 13 exchanges a round
AS_THEY_ARE = "[encode]\nscale = 'none'\n"


@dataclass(frozen=True)
class DrillJob:
    """One job of a drill.

    Attributes
    ----------
    faults, quick : int
        How many it has to bear in the full drill, and in the quick one.
    pace : float
        Seconds by which each exchange is slowed down, so that faults find it running.
    top, rest : str
        Settings of [job], and the sections after it.
    samples : bool
        Whether the rows are split; else the columns are.
    matched : bool
        Whether rows are matched by id, which puts them into another order in each run.
    rounding : bool
        Whether a run that went on is the same up to rounding alone: its releases are counted, and not compared.
    """

    faults: int
    quick: int
    pace: float
    top: str
    rest: str = ""
    samples: bool = False
    matched: bool = False
    rounding: bool = False

    @property
    def tolerance(self) -> float:
        """Largest difference to the undisturbed run."""
        return 1e-9 if self.rounding else 0.0


RING, STAR = "[graph]\nkind = 'ring'\n", "[graph]\nkind = 'star'\n"
MASKS, EXACT = "secure_aggregation = true\n", "tol = 1e-14\n"
JOBS = {
    "sgd": DrillJob(20, 0, 0.1, "rounds = 40\n" + EXACT, SGD),
    "shares": DrillJob(5, 1, 0.4, "rounds = 30\n", NOISE + "mechanism = 'shares'\n" + AS_THEY_ARE),
    "masks": DrillJob(10, 1, 0.4, "rounds = 8\n" + EXACT + MASKS, SGD),
    "matched": DrillJob(10, 2, 1.0, "rounds = 40\n" + EXACT, matched=True, rounding=True),
    "nodes": DrillJob(5, 1, 0.2, "rounds = 60\n", RING + NOISE + AS_THEY_ARE, samples=True),
    "plain nodes": DrillJob(5, 1, 0.4, "rounds = 80\ntol = 1e-300\n", RING, samples=True, rounding=True),
    "star": DrillJob(5, 1, 0.2, "rounds = 60\n" + MASKS, STAR + NOISE + AS_THEY_ARE, samples=True),
}


def write_files(folder: Path) -> dict[str, Path]:
    """One file for each party, which serves all jobs: ids, the same columns everywhere, and the labels."""
    rng = np.random.default_rng(0)
    features = rng.uniform(-0.5, 0.5, size=(ROWS, 2 * len(PARTIES)))
    labels = (features @ rng.normal(size=features.shape[1]) + 0.2 * rng.normal(size=ROWS) > 0).astype(float)
    files = {}
    for k, name in enumerate(PARTIES):
        own = np.arange(ROWS) + np.where(np.arange(ROWS) < COMMON, 0, 10_000 * (k + 1))
        files[name] = folder / f"{name}.csv"
        table = np.column_stack([own, features[:, 2 * k : 2 * k + 2], labels])
        np.savetxt(files[name], table, delimiter=",", header="id,a,b,y", comments="", fmt=["%d"] + ["%.17g"] * 3)
    return files


def job_text(name: str, files: Mapping[str, Path] | None = None) -> str:
    """A job between sites; with files, the same one in one process."""
    job, engine = JOBS[name], "flare" if files is None else "in-process"
    split = "samples" if job.samples else "features"
    lines = [f'[job]\nname = "{name}"\nengine = "{engine}"\nsplit = "{split}"\n{job.top}{job.rest}']
    for k, party in enumerate(PARTIES):
        lines.append(f'[[party]]\nname = "{party}"\nfeatures = ["a", "b"]\n')
        lines.append("" if files is None else f'data = "{files[party]}"\n')
        lines.append('label = "y"\n' if job.samples or k == 0 else "")
        lines.append('id = "id"\n' if job.matched else "")
    return "".join(lines)
