"""What it costs to choose alpha on private rows: all runs tried compose with one at the largest alpha allowed.

Choosing alpha from losses of private rows is a release. Every run that was tried sent models about the same rows, and
the losses that were compared say more. The run that is kept then has an alpha that depends on what these released, so
that its own epsilon is not fixed beforehand: counted at the chosen alpha, the stated delta can be exceeded (1.75 times
in the test). What holds is the cost at the largest alpha that could have been chosen, whichever was
(docs/proofs/composition.md, section 3b). A choice on public or generated rows costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from tacit.errors import InputError
from tacit.privacy import accountant
from tacit.privacy.events import Event, GaussianRelease, NormRelease, PureRelease
from tacit.records import as_whole, plain, positive, show

TUNED_ON = ("private", "public")


@dataclass(frozen=True)
class TuningCost:
    """Epsilons at `delta`, each for one row over everything that it names.

    Attributes
    ----------
    delta : float
    run : float
        The run that is kept, alone.
    models : float
        The models of all runs that were tried, and of a run at the largest alpha that may be chosen.
    together : float
        The same and the losses that were compared; infinite where these were taken on private rows without noise.
    pure : float
        The sum of the alphas of all these rounds; `models` at delta 0, but for the noise that hides last digits.
    tried : int
        Runs beside the one that is kept, on private rows.
    largest : float or None
        The largest alpha that may be chosen; None where the choice costs nothing.
    """

    delta: float
    run: float
    models: float
    together: float
    pure: float
    tried: int
    largest: float | None = None

    def record(self) -> dict[str, Any]:
        """As plain values."""
        return {name: value if value is None else plain(value) for name, value in asdict(self).items()}


def run_epsilon(alpha: float, rounds: int, delta: float) -> float:
    """Epsilon at `delta` of a run of `rounds` rounds that are alpha-DP each, by exact composition."""
    return accountant.epsilon([PureRelease(positive(alpha, "alpha"), as_whole(rounds, "rounds", 1))], delta)


def tuning_cost(
    tried: Sequence[float],
    chosen: float,
    rounds: int,
    delta: float,
    *,
    largest: float | None = None,
    tuned_on: str = "private",
    loss_mu: float | None = None,
) -> TuningCost:
    """Epsilon of the runs that were tried, the losses that were compared, and the run that is kept.

    With tried alphas a_1..a_k, each for T rounds, and A the largest alpha that may be chosen, the events are
    T PureRelease(a_i) for each i, k GaussianRelease of `loss_mu`, and T PureRelease(A); the accountant adds them up.
    The noise with which a run hides last digits (a thousandth of its mu) is not among them; `Sweep.events` has it.
    a_1..a_k, A and T must be fixed before any result is seen.

    Parameters
    ----------
    tried : sequence of float
        The alpha of every run, one entry for each run, repeated runs included.
    chosen : float
    rounds : int
        Rounds of every run.
    delta : float
    largest : float, optional
        The largest alpha that may be chosen, fixed beforehand. Needed where runs were tried on private rows.
    tuned_on : {"private", "public"}
        "public": the runs that were tried used public or generated rows, and nothing is counted for them.
    loss_mu : float, optional
        GDP parameter of the noise on each loss that was compared. None: the losses were exact, which has no epsilon
        where the rows are private.
    """
    if tuned_on not in TUNED_ON:
        raise InputError(f"tuned_on={show(tuned_on)} is unknown: choose one of {', '.join(TUNED_ON)}")
    as_whole(rounds, "rounds", 1)
    kept: list[Event] = [PureRelease(positive(chosen, "chosen"), rounds)]
    counted = list(tried) if tuned_on == "private" else []
    counted = [positive(alpha, "alpha") for alpha in counted]
    losses = [] if loss_mu is None else [GaussianRelease(positive(loss_mu, "loss_mu"), 1.0)] * len(counted)
    at_most = _largest(chosen, largest) if counted else chosen
    bound = [PureRelease(at_most, rounds)]
    return composed_cost(kept, [[PureRelease(alpha, rounds)] for alpha in counted], losses, delta, bound, at_most)


def _largest(chosen: float, largest: float | None) -> float:
    if largest is None:
        raise InputError("largest is missing: give the largest alpha that may be chosen, as the cost is that of it")
    if positive(largest, "largest") < chosen:
        raise InputError(f"chosen={chosen:g} is above largest={largest:g}: give the largest alpha that may be chosen")
    return largest


def composed_cost(
    kept: Sequence[Event],
    tried: Sequence[Sequence[Event]],
    losses: Sequence[Event],
    delta: float,
    bound: Sequence[Event],
    largest: float,
) -> TuningCost:
    """As `tuning_cost`, from the events of the run that is kept, of each that was tried, and of each noisy loss.

    `bound` are events that dominate a run at any alpha up to `largest` (see `dominating`); where nothing was tried on
    private rows, those of the run that is kept count. Fewer losses than runs that were tried: some were compared
    without noise, which has no epsilon.
    """
    models = [*(bound if tried else kept), *(event for run in tried for event in run)]
    exact = len(losses) < len(tried)
    return TuningCost(
        delta,
        accountant.epsilon(kept, delta),
        accountant.epsilon(models, delta),
        math.inf if exact else accountant.epsilon([*models, *losses], delta),
        accountant.pure_epsilon([event for event in models if isinstance(event, PureRelease | NormRelease)]),
        len(tried),
        largest if tried else None,
    )


def dominating(events: Sequence[Event]) -> tuple[Event, ...]:
    """Events that dominate the run at every smaller alpha, from those of the run at the largest alpha.

    With d the dimension, a round of "dual" at alpha a releases with a volume v <= a/(2 sqrt(d)) and a change a - v, and
    v + (a - v)|u| <= a (1/(2 sqrt(d)) + (1 - 1/(2 sqrt(d)))|u|) grows with a: the largest volume at the largest alpha
    dominates. A round of "primal" has v = 0. The noise that hides last digits has a mu that grows with alpha, but for
    rounding, for which a millionth is added.
    """
    return tuple(_largest_volume(event) for event in events)


def _largest_volume(event: Event) -> Event:
    if isinstance(event, GaussianRelease):
        return replace(event, sensitivity=event.sensitivity * (1 + 1e-6))
    if not isinstance(event, NormRelease) or not event.volume:
        return event
    alpha = event.change + event.volume
    volume = max(event.volume, alpha / (2 * math.sqrt(event.size)) * (1 + 1e-11))
    return replace(event, change=alpha - volume, volume=volume)
