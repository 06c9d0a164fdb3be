"""What a mechanism adds to a plan, and what a protected party lets in.

What a protected party lets in: its guarantee holds for every message that passes here.

The bounds of docs/proofs/gram.md need labels and symbols among those that were planned, and numbers that no
computation turns into something infinite. They need nothing else of what the label holder sends: neither that it
is honest, nor that it is sensible.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tacit.errors import RunError
from tacit.privacy.certificate import Certificate
from tacit.privacy.releases import Planned
from tacit.privacy.request import Privacy
from tacit.solvers.base import PrivateAlgorithm
from tacit.solvers.consensus import PrivateConsensus
from tacit.topologies import Graph
from tacit.types import Arrays, Vector

# --- What privacy adds to a plan: planned releases, and the certificate that they earn, from the same numbers


COORDINATOR = "coordinator"  # whose planned releases are those of the side that holds the labels
LABELS = "labels"  # the name of the planned release of the labels, randomized once
LARGEST_NORM = 1e50  # of rows and coefficients, or 1 over it: squares and products stay far from over- and underflow


UNMEASURED = "not measured: "  # how a sentence begins that a measurement, where there is one, takes the place of
MEASURES = "rows that are kept out of training (holdout = 0.2 under [job]) measure it"


@dataclass(frozen=True)
class Sizes:
    """The public numbers of a run: who takes part, who holds the labels, and how much each holds."""

    parties: tuple[str, ...]
    holder: str
    rows: int
    columns: tuple[int, ...]
    max_rounds: int
    secure: bool = False  # whether answers travel under masks

    @property
    def others(self) -> tuple[str, ...]:
        """The parties without the labels."""
        return tuple(name for name in self.parties if name != self.holder)

    def columns_of(self, party: str) -> int:
        """How many columns a party holds."""
        return self.columns[self.parties.index(party)]


@dataclass(frozen=True)
class PrivatePlan:
    """A mechanism with its numbers, what it may release, and what is claimed.

    Attributes
    ----------
    privacy : Privacy
        What was asked.
    mechanism : str
        What answers it.
    algorithm : PrivateAlgorithm or None
        Its sides; None where an ordinary algorithm runs on randomized labels.
    settings : object
        Public numbers that every side of the algorithm uses.
    releases : mapping of str to planned releases
        By party, and under "coordinator" for the side that holds the labels.
    certificate : Certificate
        What the planned run proves.
    holder : str
        The party that holds the labels.
    rounds : int
        Exchanges, fixed beforehand.
    noise : mapping of str to float
        Standard deviations by what they are added to, for people.
    outlook : tuple of str
        What the sizes say about the use of the run, in plain sentences.
    traffic : mapping of str to (int, int)
        Bytes to each asked party and back over the whole run, where they are known beforehand; else empty.
    seconds : float or None
        Rough guess of the time of the run; None where there is none.
    """

    privacy: Privacy
    mechanism: str
    algorithm: PrivateAlgorithm | None
    settings: Any
    releases: Mapping[str, tuple[Planned, ...]]
    certificate: Certificate
    holder: str
    rounds: int
    noise: Mapping[str, float]
    outlook: tuple[str, ...] = ()
    traffic: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    seconds: float | None = None

    @property
    def predictions_for(self) -> str | None:
        """The only party that may see predictions; None where anyone may."""
        return self.holder if getattr(self.settings, "own_exact", False) else None

    def record(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "mechanism": self.mechanism,
            "holder": self.holder,
            "rounds": self.rounds,
            "noise": dict(self.noise),
            "asked": self.privacy.record(),
        }


@dataclass(frozen=True)
class GraphSizes:
    """The public numbers of a sample split, from which noise is calibrated.

    Attributes
    ----------
    graph : Graph
    rows : tuple of int
        Rows of each node, in the order of the graph.
    columns : int
        Columns of every node.
    max_rounds : int
    published : bool
        Whether the paper's exact form was asked for.
    options : object
        Options of the method, where it has some; None leaves them to it.
    secure : bool
        Whether what nodes send to the middle of a star travels under masks, so that only the sum can be read.
    """

    graph: Graph
    rows: tuple[int, ...]
    columns: int
    max_rounds: int
    published: bool = False
    options: object = None
    secure: bool = False

    @property
    def total(self) -> int:
        """Rows of all nodes."""
        return sum(self.rows)


@dataclass(frozen=True)
class PrivateGraphPlan:
    """A private method with its numbers, what it may release, and what is claimed.

    Attributes
    ----------
    privacy : Privacy
        What was asked.
    method : str
        What answers it.
    algorithm : PrivateConsensus
        Makes each node's side.
    settings : object
        Public numbers that every node uses.
    releases : mapping of str to planned releases
        By node.
    certificate : Certificate
        What the planned run proves.
    rounds : int
        Messages of each node, fixed beforehand.
    noise : mapping of str to float
        Standard deviations by what they are added to, for people.
    outlook : tuple of str
        What the sizes say about the use of the run, in plain sentences.
    masked : bool
        Whether sums on their way to the middle of a star travel under masks. The noise may count on it.
    """

    privacy: Privacy
    method: str
    algorithm: PrivateConsensus
    settings: Any
    releases: Mapping[str, tuple[Planned, ...]]
    certificate: Certificate
    rounds: int
    noise: Mapping[str, float]
    outlook: tuple[str, ...] = ()
    masked: bool = False

    def record(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "method": self.method,
            "secure_aggregation": self.masked,
            "rounds": self.rounds,
            "noise": dict(self.noise),
            "asked": self.privacy.record(),
        }


# --- What a protected party lets in: its guarantee holds for every message that passes here


LARGEST = 1e100  # of a number that comes in: sums and products of such numbers and rows stay finite


class Inbox:
    """One message to a protected party."""

    def __init__(self, arrays: Arrays, owner: str) -> None:
        self.arrays, self.owner = arrays, owner

    def numbers(self, name: str, size: int) -> Vector:
        """`size` numbers of moderate size."""
        if name not in self.arrays:
            raise RunError(
                f"party {self.owner!r}: {name} is missing in what the label holder sent: nothing is released"
            )
        array = np.asarray(self.arrays[name])
        if array.dtype != np.float64 or array.shape != (size,):
            raise RunError(
                f"party {self.owner!r}: the label holder sent {name} of shape {array.shape} and type {array.dtype}, "
                f"not {size} float64 numbers: nothing is released"
            )
        if not np.all(np.abs(array) <= LARGEST):
            raise RunError(
                f"party {self.owner!r}: the label holder sent {name} with numbers that are not finite or beyond "
                f"{LARGEST:g}: nothing is released"
            )
        return array

    def choices(self, name: str, size: int, allowed: Iterable[float]) -> Vector:
        """`size` numbers, each of them one of those allowed."""
        array, among = self.numbers(name, size), [float(value) for value in allowed]
        if not np.all(np.isin(array, among)):
            listed = ", ".join(f"{value:g}" for value in among)
            raise RunError(
                f"party {self.owner!r}: the label holder sent {name} other than {listed}, for which no bound holds: "
                "nothing is released"
            )
        return array
