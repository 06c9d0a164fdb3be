"""What every algorithm of the feature split looks like: a coordinator's side and a party's side."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from tacit.types import Vector

Arrays = dict[str, Vector]


@dataclass(frozen=True)
class Progress:
    """What the coordinator knows after a round.

    Attributes
    ----------
    objective : float
        Objective of the model that the parties would have if the run ended now.
    gap : float
        Certified upper bound on objective minus optimum, or infinity where none can be stated.
    primal, dual : float
        Residuals: how far z is from the sum of the shares; how far the optimality condition is from holding.
    rho : float
        Penalty in force (0 for a method that has none), times the total row weight.
    stationarity : float
        The Lyapunov function V of the sharing paper, eq. (13), at the round's start (NaN where it does not apply).
    done : bool
        True where the stopping rule holds.
    note : str
        Why a run that is not done must stop now; empty otherwise.
    """

    objective: float
    gap: float = math.inf
    primal: float = 0.0
    dual: float = 0.0
    rho: float = 0.0
    stationarity: float = math.nan
    done: bool = False
    note: str = ""


class PartySide(Protocol):
    """State in, arrays out: everything a party does in a round except deciding what may leave."""

    coef: Vector

    def start_at(self, coef: Vector) -> Arrays:
        """Begin from given coefficients; return what the coordinator needs to know of them."""

    def step(self, round_: int, inbox: Arrays) -> Arrays:
        """Answer one broadcast."""

    def finish(self, inbox: Arrays) -> None:
        """Take in the closing broadcast."""

    def state(self) -> Arrays:
        """Arrays from which `restore` goes on."""

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""


class CoordinatorSide(Protocol):
    """The side that holds the labels and sees only sums over the parties."""

    intercept: float

    def start_at(self, total: Arrays, intercept: float) -> None:
        """Begin from the summed answers of the parties' `start_at`."""

    def broadcast(self) -> Arrays:
        """What goes to every party next."""

    def combine(self, total: Arrays) -> Progress:
        """Take in the sum of the parties' answers."""

    def closing(self) -> Arrays:
        """The last broadcast, after which every party holds the final coefficients."""

    def state(self) -> Arrays:
        """Arrays from which `restore` goes on."""

    def restore(self, state: Arrays) -> None:
        """Go on from `state`."""
