"""Noise whose density depends on its norm alone: proportional to exp(-rate |e|), in any number of dimensions.

The direction is uniform, the norm has the Gamma law of shape `size` and mean size / rate. Both are made from uniform
numbers of 53 bits by inverse distribution functions in floating point: unlike the Gaussian noise of `randomness` this
noise is on no grid, and its law is exact only up to rounding. What is released must hide the last digits by other
means, or say that it does not (docs/proofs/dynamic.md, section 4).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaincinv, ndtri

from tacit.errors import InputError
from tacit.privacy.randomness import NoiseSource
from tacit.types import Vector


def norm_noise(source: NoiseSource, size: int, rate: float) -> Vector:
    """One vector of density proportional to exp(-rate |e|).

    Parameters
    ----------
    source : NoiseSource
    size : int
        Its number of entries, at least 1.
    rate : float
        How fast the density falls with the norm: the mean norm is size / rate.
    """
    if not 0 < rate < math.inf:
        raise InputError(f"rate={rate} is not allowed: it must be finite and above 0")
    if size < 1:
        raise InputError(f"size={size} is not allowed: it must be at least 1")
    uniform = source.uniform(size + 1)
    direction = ndtri(uniform[:size])
    norm = float(gammaincinv(size, uniform[size])) / rate
    return np.asarray(direction * (norm / float(np.linalg.norm(direction))))


def largest_norm(size: int, rate: float) -> float:
    """The longest vector that `norm_noise` can make: its norm comes from a uniform number of at most 1 - 2^-53."""
    return float(gammaincinv(size, 1.0 - 2.0**-53)) / rate * (1 + 1e-9)
