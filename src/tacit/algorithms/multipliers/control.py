"""The few numbers of every broadcast."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from enum import IntEnum

import numpy as np

from tacit.types import Vector


class Kind(IntEnum):
    """What an exchange is for."""

    EVALUATE = 0  # the objective of the model k at the point just reached
    STEP = 1  # a Newton step on the smoothed problem
    MULTIPLY = 2  # the same, after both sides have moved their multipliers


@dataclass(frozen=True)
class Control:
    """One broadcast's numbers.

    Attributes
    ----------
    kind : Kind
    slot : int
        Where the step just taken belongs; -1 before the first.
    refresh : bool
        True where the metric is sent along.
    keep : bool
        True where the coefficients evaluated last are the best so far.
    plain : bool
        True where the others' past moves are to be left out, because the last directions they gave went astray.
    stiffness : float
        sigma of the loss's envelope.
    growth : float
        By how much the penalty's stiffness grows with its multiplier.
    up, down : float
        Factors of the positive and the negative part of r that give the dual point.
    damping : float
        Least curvature of the penalty's envelope, as a part of its stiffness.
    """

    kind: Kind
    slot: int
    refresh: bool
    keep: bool
    plain: bool
    stiffness: float
    growth: float
    up: float
    down: float
    damping: float

    def pack(self) -> Vector:
        """The numbers as they travel."""
        return np.array(astuple(self), dtype=np.float64)

    @classmethod
    def unpack(cls, numbers: Vector) -> Control:
        """The numbers as they are used."""
        kind, slot, refresh, keep, plain, *rest = (float(number) for number in numbers)
        return cls(Kind(int(kind)), int(slot), bool(refresh), bool(keep), bool(plain), *rest)
