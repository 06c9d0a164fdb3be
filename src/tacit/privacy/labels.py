"""Labels under randomized response: each one kept or flipped once.

With q = 1 / (1 + e^eps) a label of -1 or +1 is flipped with probability q and kept with p = 1 - q. The result is
eps-differentially private for the label, for ever, as far as everything else is made from the randomized ones. What is
computed from true labels (an evaluation on rows held out, the label holder's own exact fit) is not covered by it.
Randomizing the same labels a second time costs eps a second time. The proofs, and the list of places where true labels
may be used by mistake, are in docs/proofs/labels.md.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal

import numpy as np

from tacit.errors import InputError
from tacit.privacy.randomness import NoiseSource
from tacit.records import positive
from tacit.types import Vector

_DIGITS = Context(prec=60)
_RAISE = Decimal("1." + 49 * "0" + "1")  # by 1e-50, far above the relative error of 60 digits
_LARGEST = 700  # from here on q is below 2^-64, the least probability of a coin


def randomize_labels(labels: Vector, epsilon: float, source: NoiseSource) -> Vector:
    """Flip each label with probability 1 / (1 + e^epsilon), independently.

    Parameters
    ----------
    labels : array of n
        -1 or +1.
    epsilon : float
        What each label is protected by, above 0.
    source : NoiseSource
        Where the coins come from; one with a seed protects nobody.

    Returns
    -------
    array of n
        Randomized labels. No label is flipped less often than with probability 1 / (1 + e^epsilon): all rounding goes
        to more flipping, and never beyond 1/2.

    Raises
    ------
    InputError
        For labels other than -1 and +1; the message never shows a label.
    """
    values = _binary(labels)
    flip = source.coin(_flip_probability(epsilon), values.size)
    return np.where(flip, -values, values)


def keep_probability(epsilon: float) -> float:
    """Probability with which a label is kept: e^epsilon / (1 + e^epsilon)."""
    return 1.0 / (1.0 + math.exp(-positive(epsilon, "epsilon")))


def debiased(labels: Vector, epsilon: float) -> Vector:
    """Unbiased estimate of each true label on the scale 0, 1 from its randomized form -1 or +1.

    It is (y01' - q) / (1 - 2q), outside [0, 1] by construction: for sums and averages, not for one row.
    """
    return np.asarray(0.5 + _binary(labels) / (2.0 * math.tanh(0.5 * positive(epsilon, "epsilon"))))


def label_noise(epsilon: float) -> float:
    """Variance of `debiased` around the true label: q (1 - q) / (1 - 2q)^2, that is, 1 / (2 sinh(epsilon / 2))^2."""
    half = 0.5 * positive(epsilon, "epsilon")
    odds = math.exp(-half) / -math.expm1(-2.0 * half)  # 1 / (2 sinh), without overflow
    return odds * odds


def _flip_probability(epsilon: float) -> float:
    """A float that is at least 1 / (1 + e^epsilon), and at most 1/2."""
    size = Decimal(min(positive(epsilon, "epsilon"), _LARGEST))
    exact = _DIGITS.multiply(_DIGITS.divide(1, _DIGITS.add(1, _DIGITS.exp(size))), _RAISE)
    near = float(exact)
    return min(near if Decimal(near) >= exact else math.nextafter(near, 1.0), 0.5)


def _binary(labels: Vector) -> Vector:
    """Labels as float64, each of them -1 or +1; messages never show one, since they are private."""
    values = np.asarray(labels, dtype=np.float64)
    if values.ndim != 1:
        raise InputError(f"labels have shape {values.shape}: give one for each row")
    bad = np.flatnonzero(np.abs(values) != 1)
    if bad.size:
        raise InputError(f"labels must be -1 or +1: that of row {bad[0] + 1} is neither; encode the two classes so")
    return values
