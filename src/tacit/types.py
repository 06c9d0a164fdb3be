"""Records that cross layers: what a party holds, what travels, what a round leaves behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]
Matrix = Any  # a 2-D numpy array (float32 or float64) or a scipy CSR array: both know @, .T, .shape


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
    """

    name: str
    features: Matrix
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Message:
    """What travels in one direction of one round: named float64 arrays, nothing else."""

    sender: str
    round: int
    arrays: Mapping[str, Vector] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Size of the payload in bytes."""
        return sum(array.nbytes for array in self.arrays.values())
