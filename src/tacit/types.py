"""Records that cross layers: what a party holds, what travels, what a round leaves behind."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint64]
Single = npt.NDArray[np.float32]
Matrix = Any  # a 2-D numpy array (float32 or float64) or a scipy CSR array: both know @, .T, .shape

SCORE_CLIP = 4.0  # where a model adds a part of its score once more, it is clipped here (`bend` of a model's part)
Arrays = dict[str, Vector]
Curves = tuple[tuple[int, int, int], ...]  # see `Shard`


@dataclass(frozen=True)
class Shard:
    """One party's columns of the common rows.

    Attributes
    ----------
    name : str
        The party's name, used in every message about it.
    features : Matrix
        n rows x d columns, numeric and finite; dense (float32 or float64) or CSR.
    columns : tuple of str
        Names of the d columns.
    curves : tuple of (int, int, int)
        For each curve its first column, the number of its columns, and its pairs of frequencies; 0 pairs where a line
        comes first, and what bends follows.
    groups : tuple of int
        Encoded columns of each column, one after the other; empty where columns are as they are.
    """

    name: str
    features: Matrix
    columns: tuple[str, ...] = ()
    curves: Curves = ()
    groups: tuple[int, ...] = ()


@dataclass(frozen=True)
class Message:
    """What travels in one direction of one round: named arrays, nothing else.

    They are float64, or uint64 where they are keys or numbers under masks, or float32 where a solver names them
    (`Solver.singles`). `kind` says what is asked of the receiver, or what is answered: "keys", "agree" (both for masks
    only), "start", "step" or "finish".
    """

    sender: str
    round: int
    arrays: Mapping[str, Vector | Words | Single] = field(default_factory=dict)
    kind: str = "step"

    @property
    def nbytes(self) -> int:
        """Size of the payload in bytes."""
        return sum(array.nbytes for array in self.arrays.values())


@dataclass(frozen=True)
class TraceRow:
    """One round of a run.

    Attributes
    ----------
    round : int
    objective : float
        Objective of the joint model after the round.
    gap : float
        Certified upper bound on the distance of the objective to its optimum; infinite where none was stated.
    primal, dual : float
        Residuals of the round.
    rho : float
        Penalty in force, 0 for a method that has none.
    stationarity : float
        Lyapunov function of the sharing paper, eq. (13); NaN where it does not apply.
    seconds : float
        Time since the start of the run, waiting included.
    bytes_down, bytes_up : int
        Payload from the coordinator to all parties and back, in this round.
    epsilon : float
        Privacy spent so far; infinite in a run without privacy.
    """

    round: int
    objective: float
    gap: float
    primal: float
    dual: float
    rho: float
    stationarity: float
    seconds: float
    bytes_down: int
    bytes_up: int
    epsilon: float = math.inf


class Trace(list[TraceRow]):
    """The rounds of a run, in order."""

    def to_frame(self) -> Any:
        """One row per round as a pandas DataFrame (pandas must be installed)."""
        import pandas as pd

        return pd.DataFrame([asdict(row) for row in self])
