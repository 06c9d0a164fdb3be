"""The public numbers of the published mechanism."""

from __future__ import annotations

from dataclasses import dataclass

NOISY = "noisy coefficients"  # the name under which the noise of every round is planned


@dataclass(frozen=True)
class PublishedSettings:
    """What both sides use.

    Attributes
    ----------
    rho : float
        Penalty of the augmented Lagrangian of the summed loss, never adapted.
    radius : float
        b1: largest norm of a party's coefficients before noise.
    row_norm : float
        Longer rows are scaled down to it.
    inverse : bool
        True for noise of covariance sigma^2 (D'D)^-1, False for sigma^2 I.
    """

    rho: float
    radius: float
    row_norm: float
    inverse: bool
