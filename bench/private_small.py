"""Small sets, where privacy often costs more than the collaboration gives: does the run itself say so?"""

from __future__ import annotations

import gzip
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from bench.data import ALPHA
from bench.outlook import Told, counted, opposed, told_by
from bench.progress import say
from bench.row import Row
from tacit import Privacy, VerticalClassifier, alone
from tacit.types import Matrix, Vector

DELTA = 1e-5
SPLITS = 20
TEST_SHARE = 0.3
SETS = ("breast_hetero", "ionosphere_scale_hetero")


@dataclass(frozen=True, eq=False)
class Cut:
    """One set, cut between two parties by its publisher: the guest holds the labels."""

    name: str
    blocks: tuple[Matrix, Matrix]
    y: Vector


def small_rows(epsilons: Sequence[float], splits: int | None = None) -> list[Row]:
    """The others' rows protected, on random train and test parts of each set."""
    rows = []
    for name in SETS:
        cut = _read(name)
        if cut is None:
            rows.append(Row(name, "skipped: put its two files into a folder named by the variable TACIT_DATA"))
            continue
        rows += [_row(cut, epsilon, splits or SPLITS) for epsilon in epsilons]
    return rows


def _row(cut: Cut, epsilon: float, splits: int) -> Row:
    """Mean test log loss of the label holder alone and of the private model, beside what the runs said."""
    say(f"{cut.name}, epsilon {epsilon:g}")
    pairs = [_split(cut, epsilon, seed) for seed in range(splits)]
    losses, told = np.array([losses for losses, _ in pairs]), [said for _, said in pairs]
    change = losses[:, 1] - losses[:, 0]
    mean, spread = losses.mean(axis=0), float(change.std(ddof=1))
    shown = f"alone {mean[0]:.3f}, private {mean[1]:.3f}, change {change.mean():+.3f} +/- {spread:.3f}, "
    wrong = sum(opposed(one, value) for one, value in zip(told, change, strict=True))
    shown += f"better in {int((change < 0).sum())}; said: {counted(told)}; against the test rows {wrong}"
    columns = " | ".join(str(block.shape[1]) for block in cut.blocks)
    return Row(f"{cut.name} ({columns}, {len(cut.y)} rows), A, epsilon {epsilon:g}", shown, float(mean[1]))


def _split(cut: Cut, epsilon: float, seed: int) -> tuple[tuple[float, float], Told]:
    """Log loss of both models on a third of the rows, drawn at random."""
    train, test = train_test_split(np.arange(len(cut.y)), test_size=TEST_SHARE, random_state=seed, stratify=cut.y)
    model = VerticalClassifier(alpha=ALPHA, privacy=Privacy(epsilon=epsilon, delta=DELTA, noise_seed=seed))
    own = alone(VerticalClassifier(alpha=ALPHA), 0)
    losses = tuple(_loss(one, cut, train, test) for one in (own, model))
    return (losses[0], losses[1]), told_by(model.outlook_)


def _loss(model: Any, cut: Cut, train: Any, test: Any) -> float:
    model.fit([block[train] for block in cut.blocks], cut.y[train])
    return float(log_loss(cut.y[test], model.predict_proba([block[test] for block in cut.blocks])[:, 1]))


def _read(name: str) -> Cut | None:
    """Both parties' tables, whose rows stand in the same order; None where they are not at hand."""
    folder = Path(os.environ.get("TACIT_DATA") or ".")
    paths = [folder / f"{name}_{side}.csv.gz" for side in ("guest", "host")]
    if not all(path.is_file() for path in paths):
        return None
    guest, host = (_table(path) for path in paths)
    assert np.array_equal(guest[:, 0], host[:, 0]), "the ids of both parties agree"
    return Cut(name.split("_")[0], (guest[:, 2:], host[:, 1:]), np.where(guest[:, 1] > 0, 1.0, -1.0))


def _table(path: Path) -> Vector:
    """Numbers of a table with a header; an empty cell is 0."""
    with gzip.open(path, "rt") as lines:
        return np.asarray(np.genfromtxt(lines, delimiter=",", skip_header=1, filling_values=0.0))
