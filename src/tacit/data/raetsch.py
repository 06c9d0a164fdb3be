"""Rätsch's benchmarks: seven small two-class sets with their splits, three of which can be generated."""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tacit.data.public_files import PublicFile, content_of
from tacit.errors import InputError
from tacit.types import Vector

FILE = PublicFile("raetsch_benchmarks.npz", "804f9708d3c6d3a0a5428101f1b9b35d558242069f4ab031031dde3274718302")
NAMES = ("banana", "german", "image", "ringnorm", "splice", "twonorm", "waveform")
GENERATED = ("twonorm", "ringnorm", "waveform")


@dataclass(frozen=True, eq=False)
class Raetsch:
    """One of the sets.

    Attributes
    ----------
    X : array of shape (rows, columns)
        As published (standardised; splice: codes 1 to 4).
    y : array of shape (rows,)
        -1 and +1.
    train, test : arrays of shape (splits, rows of the part)
        Places of the rows of each published split.
    """

    X: npt.NDArray[np.float64]
    y: Vector
    train: npt.NDArray[np.int64]
    test: npt.NDArray[np.int64]


def load_raetsch(name: str) -> Raetsch:
    """Load one of NAMES.

    Raises
    ------
    InputError
        For another name, or when the file is damaged or not at hand; it has no public source to download it from.
    """
    if name not in NAMES:
        raise InputError(f"there is no benchmark {name!r}: choose one of {', '.join(NAMES)}")
    with np.load(io.BytesIO(content_of(FILE)), allow_pickle=False) as arrays:
        X, y, train, test = (arrays[f"{name}_{part}"] for part in ("X", "y", "train", "test"))
    return Raetsch(X.astype(float), y.astype(float), train.astype(np.int64), test.astype(np.int64))


def generate(name: str, rows: int, seed: int) -> tuple[npt.NDArray[np.float64], Vector]:
    """Draw rows of "twonorm", "ringnorm" (Breiman 1996) or "waveform" (Breiman et al. 1984) from their definitions.

    The published files hold standardised columns; these are standardised over the rows drawn, too.

    Returns
    -------
    X, y : arrays
        20 columns (21 of waveform) and labels -1 and +1.

    Raises
    ------
    InputError
        For another name.
    """
    if name not in GENERATED:
        raise InputError(f"{name!r} has no definition to draw it from: choose one of {', '.join(GENERATED)}")
    rng = np.random.default_rng(seed)
    X, y = _waveform(rng, rows) if name == "waveform" else _norms(rng, rows, ring=name == "ringnorm")
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def _norms(rng: np.random.Generator, rows: int, ring: bool) -> tuple[npt.NDArray[np.float64], Vector]:
    """Two normal classes in 20 dimensions: means +-2/sqrt(20), or N(0, 4 I) against N(2/sqrt(20), I)."""
    d = 20
    y = rng.choice([-1.0, 1.0], size=rows)
    noise = rng.standard_normal((rows, d))
    if ring:
        wide = (y > 0)[:, None]
        return np.where(wide, 2.0 * noise, noise + 2.0 / np.sqrt(d)), y
    return noise + y[:, None] * 2.0 / np.sqrt(d), y


def _waveform(rng: np.random.Generator, rows: int) -> tuple[npt.NDArray[np.float64], Vector]:
    """Random mixtures of two of three triangles, and noise; the second class against the other two."""
    places = np.arange(1, 22)
    waves = np.stack([np.maximum(6 - np.abs(places - peak), 0) for peak in (11, 15, 7)]).astype(float)
    kind = rng.integers(3, size=rows)
    share = rng.random((rows, 1))
    first, second = np.array([0, 0, 1])[kind], np.array([1, 2, 2])[kind]
    X = share * waves[first] + (1 - share) * waves[second] + rng.standard_normal((rows, 21))
    return X, np.where(kind == 1, 1.0, -1.0)
