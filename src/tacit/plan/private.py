"""What privacy adds to a plan: planned releases, and the certificate that they earn, from the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tacit.algorithms.base import PrivateAlgorithm, Problem
from tacit.errors import InputError
from tacit.privacy.certificate import Certificate
from tacit.privacy.releases import Planned
from tacit.privacy.request import Privacy
from tacit.problem.losses.base import Loss
from tacit.problem.losses.modified import modified

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


Planner = Callable[[Privacy, Problem, Sizes], PrivatePlan]


def plan_privacy(privacy: object, problem: Problem, sizes: Sizes) -> PrivatePlan | None:
    """The plan of what was asked, or None where nothing was.

    Raises
    ------
    InputError
        Where it cannot be proven: with the reason and the way out.
    """
    if privacy is None:
        return None
    if not isinstance(privacy, Privacy):
        raise InputError(f"privacy={privacy!r} is not allowed: give tacit.Privacy(...), or None")
    if COORDINATOR in sizes.parties:
        raise InputError(f"a party of a private run cannot be named {COORDINATOR!r}: rename it")
    if problem.row_weights is not None:
        raise InputError("sample_weight is not available with privacy: no bound is proven for weighted rows")
    if privacy.epsilon_by_party is not None:
        raise InputError("epsilon_by_party is for rows split over a graph: give one epsilon here")
    _check_names(privacy, sizes)
    mechanism = mechanism_of(privacy)
    if privacy.honest is not None and mechanism != "shares":
        raise InputError(
            f"honest={privacy.honest} does not fit mechanism={mechanism!r}: noise is split between parties in "
            "mechanism='shares' alone, so leave honest out"
        )
    planned = _planners()[mechanism](privacy, problem, sizes)
    if privacy.delta * sizes.rows >= 1 and privacy.epsilon is not None:
        return replace(planned, outlook=(*planned.outlook, _large_delta(privacy.delta, sizes.rows)))
    return planned


def _large_delta(delta: float, rows: int) -> str:
    return (
        f"delta = {delta:g} is not below 1/{rows}, one over the number of rows: a run that publishes a whole row now "
        "and then would satisfy it too; ask for a delta far below that"
    )


def _check_names(privacy: Privacy, sizes: Sizes) -> None:
    """Refuse a norm for somebody who takes no part: it is a slip in a name."""
    named = privacy.row_norm if isinstance(privacy.row_norm, Mapping) else {}
    for name in named:
        if name not in sizes.parties:
            known = ", ".join(repr(party) for party in sizes.parties)
            raise InputError(f"row_norm names {name!r}, which is no party: the parties are {known}")


def mechanism_of(privacy: Privacy) -> str:
    """What answers a request; "labels" where only labels are randomized."""
    if privacy.epsilon is None and privacy.mechanism != "auto":
        raise InputError(
            f"mechanism={privacy.mechanism!r} needs epsilon: give a number, or leave mechanism out to randomize labels"
        )
    if privacy.epsilon is None:
        return "labels"
    return "gram" if privacy.mechanism == "auto" else privacy.mechanism


def seen_loss(loss: Loss, privacy: object) -> Loss:
    """The loss that an algorithm minimises: for labels that were randomized before it begins, their unbiased one."""
    if not isinstance(privacy, Privacy) or privacy.label_epsilon is None or mechanism_of(privacy) == "gram":
        return loss
    return modified(loss, privacy.label_epsilon)


def _planners() -> dict[str, Planner]:
    from tacit.plan.gram import plan_gram  # these need the records above
    from tacit.plan.labels import plan_labels
    from tacit.plan.published import plan_published, plan_published_inverse
    from tacit.plan.shares import plan_shares

    return {
        "gram": plan_gram,
        "labels": plan_labels,
        "published": plan_published,
        "published-inverse": plan_published_inverse,
        "shares": plan_shares,
    }
