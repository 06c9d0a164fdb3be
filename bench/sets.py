"""Sets with two classes for the sample split: UCI Adult and four of the Rätsch sets, with public norms of their rows.

Adult: 14 attributes. Categories are one-hot, by the list that its description publishes, and a missing one has no
column; numbers are brought to [0, 1] by the public bounds below, capital gain and loss on a logarithmic scale. So each
attribute adds at most 1 to the square of a row, and no row is longer than sqrt(14).

Rätsch: columns are standardised by their publisher; rows longer than sqrt(columns) are scaled down by both methods.
"""

from __future__ import annotations

import gzip
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.special import expit

from tacit.types import Matrix, Vector

TEST_SHARE = 0.3
BOUNDS = {  # attribute: least, most, and whether on a logarithmic scale
    "age": (17.0, 90.0, False),
    "fnlwgt": (0.0, 1.5e6, False),
    "education-num": (1.0, 16.0, False),
    "capital-gain": (0.0, 1e5, True),
    "capital-loss": (0.0, 5e3, True),
    "hours-per-week": (1.0, 99.0, False),
}
SHAPES = {"german": (1000, 20), "waveform": (5000, 21), "image": (2310, 18), "twonorm": (7400, 20)}
ADULT_SHAPE = (32561, 16281, 105)


@dataclass(frozen=True, eq=False)
class Set:
    """A set, with a fixed test part or without.

    Attributes
    ----------
    X, y
        All rows where there is no test part of its own.
    row_norm : float
        Public norm to which longer rows are scaled down.
    test : pair or None
        The published test part.
    missing : bool
        The files are not at hand, and the rows are generated.
    """

    name: str
    X: Matrix
    y: Vector
    row_norm: float
    test: tuple[Matrix, Vector] | None = None
    missing: bool = False

    def split(self, seed: int) -> tuple[Matrix, Vector, Matrix, Vector]:
        """Train and test rows: as published, or 70 and 30 of 100 drawn at random."""
        if self.test is not None:
            return self.X, self.y, *self.test
        order = np.random.default_rng(seed).permutation(len(self.y))
        test, train = np.split(order, [round(TEST_SHARE * len(order))])
        return self.X[train], self.y[train], self.X[test], self.y[test]


def _folder() -> Path:
    return Path(os.environ.get("TACIT_DATA") or ".")


@cache
def raetsch(name: str) -> Set:
    """One of the Rätsch sets, all its rows."""
    path = _folder() / "raetsch_benchmarks.npz"
    rows, columns = SHAPES[name]
    if not path.is_file():
        return Set(name, *_generated(rows, columns), float(np.sqrt(columns)), missing=True)
    with np.load(path, allow_pickle=False) as arrays:
        X, y = arrays[f"{name}_X"].astype(float), arrays[f"{name}_y"].astype(float)
    return Set(name, X, y, float(np.sqrt(columns)))


@cache
def adult() -> Set:
    """UCI Adult with its published test part."""
    paths = [_folder() / f"adult.{part}.gz" for part in ("names", "data", "test")]
    norm = float(np.sqrt(14))
    if not all(path.is_file() for path in paths):
        train, test, columns = ADULT_SHAPE
        X, y = _generated(train + test, columns)
        return Set("adult", X[:train], y[:train], norm, (X[train:], y[train:]), missing=True)
    names, train_text, test_text = (gzip.decompress(path.read_bytes()).decode() for path in paths)
    attributes = _attributes(names)
    return Set("adult", *_encoded(train_text, attributes), norm, _encoded(test_text, attributes))


def _attributes(names: str) -> dict[str, list[str]]:
    """Attributes with their categories, as the description lists them; numbers have none."""
    lines = [line for line in names.splitlines() if ":" in line and not line.startswith("|")]
    found = {}
    for line in lines:
        name, values = line.rstrip(".").split(":")
        found[name] = [] if "continuous" in values else [value.strip() for value in values.split(",")]
    return found


def _encoded(text: str, attributes: dict[str, list[str]]) -> tuple[Matrix, Vector]:
    """Rows and labels of one file."""
    lines = [line for line in text.splitlines() if line.count(",") == len(attributes)]
    table = np.array([[cell.strip().rstrip(".") for cell in line.split(",")] for line in lines])
    blocks = []
    for number, (name, values) in enumerate(attributes.items()):
        cells = table[:, number]
        blocks.append(_number(cells, name) if not values else (cells[:, None] == np.array(values)).astype(float))
    return sparse.csr_array(np.hstack(blocks)), np.where(table[:, -1] == ">50K", 1.0, -1.0)


def _number(cells: Vector, name: str) -> Vector:
    least, most, logarithmic = BOUNDS[name]
    value = np.clip(cells.astype(float), least, most) - least
    return np.asarray(np.log1p(value) / np.log1p(most - least) if logarithmic else value / (most - least))[:, None]


def _generated(rows: int, columns: int) -> tuple[Matrix, Vector]:
    """Normal rows with labels of a logistic model."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, columns))
    scores = X @ rng.normal(scale=2.0 / np.sqrt(columns), size=columns)
    return X, np.where(rng.random(rows) < expit(scores), 1.0, -1.0)
