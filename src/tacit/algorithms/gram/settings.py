"""Public numbers of private sharing in Gram space, all of them from sizes and from what was asked; proofs: gram.md.

| symbol | meaning |
|---|---|
| K, J | noisy gradients, and the step J / (k + J) of the k-th |
| L1, L2 | bounds on the loss derivative and on the weight of a row |
| mu | what the whole fit may spend (Gaussian differential privacy) |
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tacit.problem.losses.base import Loss

CENTRE_SHARE = 0.05  # of mu^2 for the mean and the trace
CHECK_SHARE = 0.05  # of mu^2 for the change of the loss
PRIOR = 1.0  # variance of a coefficient, for rows of norm about 1
BEND_AT = 4.0  # the label holder's score enters as clip(score, -4, 4) / 4
CONSTANT = 0.3  # the constant column beside rows whose derivative may have both signs
RADIUS = 1.25  # centred rows are clipped at this many times their root mean square norm
LEAST_SPREAD = 0.05  # mean squared norm of centred rows: at least this part of the largest
NOISE_FACTOR = 2.0  # on the variance of the gradient noise in the ridge: decreasing steps do not average perfectly
FOLDS = 5


@dataclass(frozen=True)
class FitSettings:
    """One private fit.

    Attributes
    ----------
    steps, decay : int, float
        K and J.
    slope, weight : float
        L1 and L2.
    bent : bool
        True where the side columns are (1, clip(score)/4), free of charge; False for one small constant column.
    row_norm : float
        Public bound on the norm of a row.
    mean_sd, trace_sd, gram_sd, gradient_sd : float
        Noise of the four releases, for rows of norm 1.
    label_noise : float
        Variance that randomized labels add to each derivative.
    check_clip, check_sd : float
        Clip of a row's change of loss, and the noise of its sum; 0 where it is not released.
    """

    steps: int
    decay: float
    slope: float
    weight: float
    bent: bool
    row_norm: float
    mean_sd: float
    trace_sd: float
    gram_sd: float
    gradient_sd: float
    label_noise: float = 0.0
    check_clip: float = 0.0
    check_sd: float = 0.0


@dataclass(frozen=True)
class Response:
    """One randomized symbol for each row: its epsilon, how many levels of the score, and the clip of a residual."""

    epsilon: float
    levels: int
    clip: float

    @property
    def symbols(self) -> int:
        """How many symbols there are: (level, label), or the sign of the residual."""
        return 2 * self.levels


@dataclass(frozen=True)
class GramSettings:
    """A whole run: the fit of each party, and what the label holder does.

    Attributes
    ----------
    holder : str
        The party that holds the labels.
    target : str
        "half", "logistic", "margin", "residual" (see `targets`), or "symbols" where the label holder is protected too.
    fits : mapping of party to FitSettings
        The protected parties.
    damping : float
        Weight of each protected party's score: fits beside each other explain some of the same.
    label_epsilon : float or None
    own_exact : bool
        The label holder's part of the model is its own exact fit: predictions must stay with it.
    own : FitSettings or None
        The label holder's private fit, where its rows are protected too.
    response : Response or None
        What then leaves it for each row.
    refit : Response or None
        One randomized bit for each row from each protected party, for a refit of the label holder.
    alpha : float
        Weight of the l2 penalty in the objective.
    seen_loss : Loss
        The loss of the label holder's own fit: for randomized labels their unbiased one.
    """

    holder: str
    target: str
    fits: dict[str, FitSettings]
    damping: float
    alpha: float
    seen_loss: Loss
    label_epsilon: float | None = None
    own_exact: bool = False
    own: FitSettings | None = None
    response: Response | None = None
    refit: Response | None = None

    @property
    def checks(self) -> bool:
        """Whether the parties say how their fit changes the loss."""
        return any(fit.check_sd > 0 for fit in self.fits.values())


def steps_for(rows: int) -> tuple[int, float]:
    """K and J by the number of rows: fewer, bolder steps where there is little to average."""
    return (30, 3.0) if rows >= 2000 else (12, 2.0)


def damping_for(protected: int) -> float:
    """Weight of each protected party's score."""
    return float(protected ** (-1 / 3))


@dataclass(frozen=True)
class Bounds:
    """L2 sensitivities of the four releases in units of which mu is 1; each pair is released under one budget.

    The mean and the trace together cost mu1^2 where their deviations are `mean` / mu1 and `trace` / mu1; the Gram
    matrix and all gradients together cost mu2^2 where theirs are `gram` / mu2 and `gradient` / mu2.
    """

    mean: float
    trace: float
    gram: float
    gradient: float


def bounds(slope: float, weight: float, steps: int, *, one_signed: bool, neighbours: str) -> Bounds:
    """Sensitivities of a fit; theorems 1 to 4 of gram.md.

    `one_signed`: the label, which does not belong to the protected row, fixes the sign of the derivative. Then side
    columns of squared norm up to 2 cost nothing; otherwise there is one constant column, which costs its square.
    """
    side = 1.0 if one_signed else math.sqrt(1 + CONSTANT**2)
    fit = (math.sqrt(8) * weight * side, 2 * slope * math.sqrt(steps) * side)
    # zero-out changes less about rows that are not centred yet; a centred row of zeros is one like any other
    first = math.sqrt(3 / 8) if neighbours == "zero-out" else 1.0
    return Bounds(2 * weight * first, math.sqrt(8) * weight * first, *fit)


def rounding(rows: int, row_at_once: int) -> float:
    """Relative growth of every sensitivity by rounding in sums of sums over the rows (gram.md, section 7)."""
    unit = 2.0**-53
    return 40 * (row_at_once + rows / row_at_once + 32) * unit * rows
