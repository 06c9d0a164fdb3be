"""An exponential that compiled loops can run on several rows at once."""

from __future__ import annotations

import numpy as np
from numba import njit

_ROUNDER = 6755399441055744.0  # 1.5 * 2^52: adding it leaves the nearest integer in the low bits


@njit(cache=True, nogil=True, inline="always")
def exp_negative(x: float) -> float:
    """exp(x) for -700 <= x <= 0 to rounding, without the call that would keep rows from running abreast.

    x = k log 2 + r with |r| <= log(2) / 2: 13 terms of the series in r, then k added to the exponent bits.
    """
    shifted = x * 1.4426950408889634 + _ROUNDER
    k = shifted - _ROUNDER
    r = (x - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10
    series = 1.0 / 479001600.0 + r / 6227020800.0
    series = 1.0 / 362880.0 + r * (1.0 / 3628800.0 + r * (1.0 / 39916800.0 + r * series))
    series = 1.0 / 720.0 + r * (1.0 / 5040.0 + r * (1.0 / 40320.0 + r * series))
    series = 1.0 + r * (1.0 + r * (0.5 + r * (1.0 / 6.0 + r * (1.0 / 24.0 + r * (1.0 / 120.0 + r * series)))))
    bits = (np.float64(shifted).view(np.int64) + np.int64(1023)) << np.int64(52)
    power: float = np.int64(bits).view(np.float64)
    return series * power
