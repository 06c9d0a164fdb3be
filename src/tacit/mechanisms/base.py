"""What a mechanism adds to a plan, and what a protected party lets in.

The guarantee of a protected party holds for every message that it lets in. The bounds of docs/proofs/gram.md need
labels and symbols among those that were planned, and numbers that no computation turns into something infinite. They
need nothing else of what the label holder sends: neither that it is honest, nor that it is sensible.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from tacit.errors import InputError, RunError
from tacit.privacy.calibration import budget_mu
from tacit.privacy.certificate import Certificate
from tacit.privacy.releases import Planned
from tacit.privacy.request import Privacy
from tacit.problem.losses.base import Loss
from tacit.problem.losses.modified import modified
from tacit.solvers.base import PrivateSolver, Problem
from tacit.solvers.consensus import PrivateConsensus
from tacit.topologies import Layout
from tacit.types import Arrays, Shard, Vector

# --- What privacy adds to a plan: planned releases, and the certificate that they earn, from the same numbers


COORDINATOR = "coordinator"  # whose planned releases are those of the side that holds the labels
LABELS = "labels"  # the name of the planned release of the labels, randomized once
USUAL_ROUNDS = 200  # max_rounds where nobody said anything, in the estimators and in jobs
CENTRE_SHARE = 0.05  # of mu^2 for the mean row and how far rows are from it
LARGEST_NORM = 1e50  # of rows and coefficients, or 1 over it: squares and products stay far from over- and underflow


UNMEASURED = "not measured: "  # how a sentence begins that a measurement, where there is one, takes the place of
ESTIMATED = "estimated from noisy sums"  # the same of a sentence with an estimate
CURVES_OR_LINES = (
    "curves or lines: no release tells which are better; in 109 trials curves won 78, were level in 16 and lost 15, 14 "
    "of them where effects are straight"
)
LEAST_MASKED = 3  # parties under masks: whoever takes its own numbers off a sum must be left with a sum of two
MEASURES = "rows that are kept out of training (holdout = 0.2 under [job]) measure it"


def is_provisional(sentence: str) -> bool:
    """Whether a sentence of an outlook holds only until a measurement: an estimate, or that nothing was measured."""
    return sentence.startswith((UNMEASURED, ESTIMATED))


def about_curves(shards: Iterable[Shard]) -> tuple[str, ...]:
    """What is said of curves of public constants; nothing where there are none."""
    curved = any(pairs > 0 for shard in shards for _, _, pairs in shard.curves)
    return (CURVES_OR_LINES,) if curved else ()


@dataclass(frozen=True)
class MechanismRequest:
    """What is asked of a mechanism beside the layout: the privacy of the run, and the choices that noise depends on.

    Attributes
    ----------
    privacy : Privacy
        How private the whole run must be.
    problem : Problem
        What is minimised.
    max_rounds : int
    method : str
        The solver that the user named.
    rho : float or str
        As the user gave it; that of `problem` is in the unit of the solvers.
    secure : bool
        Whether answers travel under masks, so that only their sum can be read.
    published : bool
        Whether the paper's exact form was asked for.
    options : object
        Options of a paper's mechanism; None leaves them to it.
    evaluated : bool
        Whether a planned release is to say how good the model is on rows that are held out.
    """

    privacy: Privacy
    problem: Problem
    max_rounds: int
    method: str = "auto"
    rho: float | str = "auto"
    secure: bool = False
    published: bool = False
    options: object = None
    evaluated: bool = False


@dataclass(frozen=True)
class PrivatePlan:
    """A mechanism with its numbers, what it may release, and what is claimed.

    Attributes
    ----------
    privacy : Privacy
        What was asked.
    mechanism : Mechanism
        What answers it.
    solver : PrivateSolver, PrivateConsensus or None
        Its sides; None where an ordinary solver runs on randomized labels.
    settings : object
        Public numbers that every side of the solver uses.
    releases : mapping of str to planned releases
        By party, and under "coordinator" for the side that holds the labels.
    certificate : Certificate
        What the planned run proves.
    rounds : int
        Exchanges, fixed beforehand.
    noise : mapping of str to float
        Standard deviations by what they are added to, for people.
    outlook : tuple of str
        What the sizes say about the use of the run, in plain sentences.
    holder : str
        The party that holds the labels; empty where every node holds those of its rows.
    traffic : mapping of str to (int, int)
        Bytes to each party and from it over the whole run, where they are known beforehand; else empty.
    seconds : float or None
        Rough guess of the time of the run; None where there is none.
    masked : bool
        Whether the noise may count on masks under which sums over all nodes travel.
    honest : int
        How many parties' noise hides a release: more than one under masks alone.
    models_are_released : bool
        Whether each node's model may be seen: not where it is a mean of models that were never released.
    """

    privacy: Privacy
    mechanism: Mechanism[Any]
    solver: PrivateSolver | PrivateConsensus | None
    settings: Any
    releases: Mapping[str, tuple[Planned, ...]]
    certificate: Certificate
    rounds: int
    noise: Mapping[str, float]
    outlook: tuple[str, ...] = ()
    holder: str = ""
    traffic: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    seconds: float | None = None
    masked: bool = False
    honest: int = 1
    models_are_released: bool = True

    @property
    def predictions_for(self) -> str | None:
        """The only party that may see predictions; None where anyone may."""
        return self.holder if getattr(self.settings, "holder_is_exact", False) else None


AnyLayout = TypeVar("AnyLayout", bound=Layout)


class Mechanism(ABC, Generic[AnyLayout]):
    """What is released with which noise, and what that proves; everything that is asked of a mechanism by others.

    A new one is a subclass in a module of its own, and one line in `MECHANISMS`. Attributes that a subclass does not
    set are those of a mechanism with a solver of its own whose model may be used by anybody.

    Attributes
    ----------
    name : str
        As in `Privacy(mechanism=...)`.
    split : str
        The split it is for: that of its layout.
    summary : str
        What it does, in one line.
    can_be_named : bool
        Whether users may give its name; one without is what some request gets by itself.
    has_own_solver : bool
        Whether a solver of its own runs; an ordinary solver on randomized labels does otherwise.
    takes_several_classes : bool
        Whether its proof is for more than two classes too.
    allowed_solvers : tuple of str
        Names of solvers that users may give beside it, though it has a solver of its own.
    covers_model : bool
        Whether the model is covered too, so that further rows may be scored at no more privacy.
    model_stays_local : bool
        Whether each party's part of the model is covered by no claim, so that nobody else may have its file.
    can_leave_out_holder : bool
        Whether protect="others" leaves the rows of whoever holds the labels unprotected.
    hides_labels : bool
        Whether bounds for the rows of whoever holds the labels include these.
    splits_noise : bool
        Whether noise may be split between honest parties, whose answers travel under masks.
    supports_masks : bool
        Whether masks are possible on a graph.
    noise_at_nodes : bool
        Whether nodes that hold different rows each add a noise of their own.
    takes_given_labels : bool
        Whether it takes labels that were randomized before the data came to a node.
    can_evaluate : bool
        Whether it has a release that says how good the model is on rows held out.
    noise_in_objective : bool
        Whether the noise of every round is inside the objective, so that models have densities.
    noise_in_column_space : bool
        Whether its noise has no more directions than a party has columns, so that projections tell data apart.
    vectors : (float, float)
        Numbers per row in a round, to a party and back, where the traffic of the run is not known exactly.
    noise_remarks : tuple of str
        What people need to know to read its deviations.
    """

    name: ClassVar[str]
    split: ClassVar[str]
    summary: ClassVar[str]
    can_be_named: ClassVar[bool] = True
    has_own_solver: ClassVar[bool] = True
    takes_several_classes: ClassVar[bool] = False
    allowed_solvers: ClassVar[tuple[str, ...]] = ()
    covers_model: ClassVar[bool] = True
    model_stays_local: ClassVar[bool] = False
    can_leave_out_holder: ClassVar[bool] = False
    hides_labels: ClassVar[bool] = True
    splits_noise: ClassVar[bool] = False
    supports_masks: ClassVar[bool] = False
    noise_at_nodes: ClassVar[bool] = False
    takes_given_labels: ClassVar[bool] = False
    can_evaluate: ClassVar[bool] = False
    noise_in_objective: ClassVar[bool] = False
    noise_in_column_space: ClassVar[bool] = False
    vectors: ClassVar[tuple[float, float]] = (1.0, 1.0)
    noise_remarks: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def plan(self, request: MechanismRequest, layout: AnyLayout) -> PrivatePlan:
        """Noise, planned releases and the certificate, from what was asked and public sizes.

        Raises
        ------
        InputError
            Where no theorem covers what was asked: with the reason and the way out.
        """

    def is_default(self, privacy: Privacy, *, given_labels: bool) -> bool:
        """Whether it is what mechanism="auto" stands for, given what was asked and whether labels came randomized."""
        return False

    def seen_loss(self, loss: Loss, privacy: Privacy) -> Loss:
        """The loss that a solver minimises: for labels that are randomized before it begins, their unbiased one."""
        return loss if privacy.label_epsilon is None else modified(loss, privacy.label_epsilon)

    def gradient_noise(self, privacy: Privacy, loss: Loss, parties: Sequence[str], *, secure: bool) -> float:
        """About the deviation of the noise in one entry of the mean gradient, all rounds together, times the rows.

        How fine the curves of protected rows are follows from it (docs/proofs/curves.md); no guarantee does.
        """
        apart = self.noise_at_nodes and not secure
        mus = [budget_mu(privacy.epsilon_of(name), privacy.delta) for name in (parties if apart else parties[:1])]
        return 2.0 * math.sqrt(math.fsum(mu**-2 for mu in mus) / (1 - CENTRE_SHARE))

    def wants_masks(self, privacy: Privacy, parties: int) -> bool:
        """Whether secure_aggregation="auto" means masks: where sums over nodes are enough, and three share them."""
        return self.supports_masks and parties >= LEAST_MASKED and privacy.epsilon_by_party is None

    def check_classes(self, loss: Loss) -> None:
        """Refuse more than two classes where no proof covers them.

        Raises
        ------
        InputError
        """
        if loss.outputs > 1 and not self.takes_several_classes:
            raise InputError(
                f"privacy of rows is for two classes, and the labels have {loss.outputs}: protect the labels alone "
                "(epsilon=None with label_epsilon, where columns are split), leave privacy out, or join them into two"
            )

    def describe(self, *, given_labels: bool = False) -> str:
        """What it does, in one line; also where labels came randomized."""
        return self.summary

    def check_choices(self, planned: PrivatePlan, request: MechanismRequest) -> PrivatePlan:
        """Refuse choices that the mechanism has no use for; remark on those that change nothing."""
        if self.has_own_solver and request.method not in ("auto", *self.allowed_solvers):
            raise InputError(
                f"method={request.method!r} does not go with this privacy, whose mechanism has a method of its own: "
                "leave method out"
            )
        if request.evaluated and not self.can_evaluate:
            raise InputError(
                f"mechanism={self.name!r} has no private evaluation of rows held out, and exact figures would not be "
                "covered: leave holdout out, or choose mechanism='gram'"
            )
        return planned


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
