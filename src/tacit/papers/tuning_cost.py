"""What it costs to choose alpha on private rows: the runs that were tried compose with the run that is kept.

Choosing alpha from losses of private rows is a release. Every run that was tried sent models about the same rows, and
the losses that were compared say more. The choice itself is a function of them, and costs nothing on top. A choice on
public or generated rows costs nothing at all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tacit.errors import InputError
from tacit.privacy import accountant
from tacit.privacy.events import Event, GaussianRelease, NormRelease, PureRelease
from tacit.privacy.fields import as_whole, plain, positive, show

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
        That run and the models of all that were tried.
    together : float
        The same and the losses that were compared; infinite where these were taken on private rows without noise.
    pure : float
        The sum of the alphas of all these rounds; `models` at delta 0, but for the noise that hides last digits.
    tried : int
        Runs beside the one that is kept, on private rows.
    """

    delta: float
    run: float
    models: float
    together: float
    pure: float
    tried: int

    def record(self) -> dict[str, Any]:
        """As plain values."""
        return {name: plain(value) for name, value in asdict(self).items()}


def run_epsilon(alpha: float, rounds: int, delta: float) -> float:
    """Epsilon at `delta` of a run of `rounds` rounds that are alpha-DP each, by exact composition."""
    return accountant.epsilon([PureRelease(positive(alpha, "alpha"), as_whole(rounds, "rounds", 1))], delta)


def tuning_cost(
    tried: Sequence[float],
    chosen: float,
    rounds: int,
    delta: float,
    *,
    tuned_on: str = "private",
    loss_mu: float | None = None,
) -> TuningCost:
    """Epsilon of the runs that were tried, the losses that were compared, and the run that is kept.

    With tried alphas a_1..a_k, each for T rounds, and the chosen alpha, the events are T PureRelease(a_i) for each i,
    k GaussianRelease of `loss_mu`, and T PureRelease(alpha); the accountant adds them up (docs/proofs/composition.md).
    The noise with which a run hides last digits (a thousandth of its mu) is not among them; `Sweep.events` has it.

    Parameters
    ----------
    tried : sequence of float
        The alpha of every run, one entry for each run, repeated runs included.
    chosen : float
    rounds : int
        Rounds of every run.
    delta : float
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
    return composed_cost(kept, [[PureRelease(alpha, rounds)] for alpha in counted], losses, delta)


def composed_cost(
    kept: Sequence[Event], tried: Sequence[Sequence[Event]], losses: Sequence[Event], delta: float
) -> TuningCost:
    """As `tuning_cost`, from the events of the run that is kept, of each that was tried, and of each noisy loss.

    Fewer losses than runs that were tried: some were compared without noise, which has no epsilon.
    """
    models = [*kept, *(event for run in tried for event in run)]
    exact = len(losses) < len(tried)
    return TuningCost(
        delta,
        accountant.epsilon(kept, delta),
        accountant.epsilon(models, delta),
        math.inf if exact else accountant.epsilon([*models, *losses], delta),
        accountant.pure_epsilon([event for event in models if isinstance(event, PureRelease | NormRelease)]),
        len(tried),
    )
