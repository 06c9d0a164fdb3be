"""The prox of the logistic loss, compiled: root of m - a - s sigma(-m) = 0 for every row.

m -> -m maps the equation to itself with a -> -(a + s), so only roots m >= 0 need solving, that is, rows with
a + s / 2 >= 0. There f(m) = m - a - s sigma(-m) is increasing and concave, and |f''| <= f'. Hence:

- Newton from any m >= 0 lands at or left of the root, and from there climbs monotonically to it;
- a Newton move d bounds the distance e to the root: e <= -log(1 - d) from the left, e <= |d| from the right;
- for |d| <= 1/2, Halley's move (Newton's, divided by 1 - c with |c| <= 1/4) at least divides the distance
  by 2.5, and it is cubic in the end: a last move below 1e-5 leaves an error near 1e-15.

Rows are solved in blocks with all branches as selections: the compiler then works on several rows at once,
which is five times faster than stopping row by row.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from tacit.problem.losses.exponential import exp_negative
from tacit.types import Vector

_BLOCK = 256  # rows whose scratch space fits the first-level cache
_MOST_MOVES = 200  # never reached: 4 or 5 moves are usual
_LAST_MOVE = 1e-5
_FAR_STEP = 20.0  # from here on the start by logarithms saves more than it costs
_SMALL = 0.01  # below this margin sigma(-m) - 1/2 cancels
_FINITE = {"nnan", "ninf", "nsz"}  # inputs are finite, so comparisons may become selections


@njit(cache=True, nogil=True)
def fill_prox(v: Vector, y: Vector, steps: Vector, stride: int, out: Vector) -> None:
    """Write the prox of every row.

    Parameters
    ----------
    v, y : array of n
        Points and labels -1 or +1.
    steps : array of n or of 1
    stride : int
        1 for one step per row, 0 for one step for all rows.
    out : array of n
    """
    low, center, step, sign = np.empty(_BLOCK), np.empty(_BLOCK), np.empty(_BLOCK), np.empty(_BLOCK)
    floor, m, move = np.empty(_BLOCK), np.empty(_BLOCK), np.empty(_BLOCK)
    for begin in range(0, v.size, _BLOCK):
        count = min(_BLOCK, v.size - begin)
        for j in range(count):
            i = begin + j
            step[j] = steps[i * stride]
            a = y[i] * v[i]
            middle = a + 0.5 * step[j]
            center[j] = abs(middle)
            low[j] = a if middle >= 0.0 else -(a + step[j])
            sign[j] = y[i] if middle >= 0.0 else -y[i]
            floor[j] = max(low[j], 0.0)
            m[j] = _start(low[j], floor[j], step[j])
        for _ in range(_MOST_MOVES):
            _advance(count, low, step, floor, m, move)
            if np.max(move[:count]) <= _LAST_MOVE:
                break
        for j in range(count):
            small = center[j] <= _SMALL * (1.0 + 0.25 * step[j])
            out[begin + j] = sign[j] * (_solve_small(center[j], step[j]) if small else m[j])


@njit(cache=True, nogil=True)
def _start(low: float, floor: float, step: float) -> float:
    """A point at or left of the root.

    The root is at least that of m - low = (step / 2) exp(-m), whose Lambert function has a simple bound.
    """
    if step > _FAR_STEP:
        room = math.log(0.5 * step) - low
        if room > 1.0:
            return max(floor, low + room - math.log(room))
    return floor


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FINITE)
def _advance(count: int, low: Vector, step: Vector, floor: Vector, m: Vector, move: Vector) -> None:
    """One move of every row: Halley's where Newton's is at most 1/2, else Newton's; move gets its size.

    With e = exp(-m): f' = 1 + s e / (1 + e)^2 and f'' = -s e (1 - e) / (1 + e)^3; all is multiplied by
    (1 + e)^2 to spare divisions.
    """
    for j in range(count):
        small = exp_negative(-(m[j] if m[j] < 700.0 else 700.0))
        whole = 1.0 + small
        square = whole * whole
        pull = step[j] * small
        slope = square + pull
        newton = ((low[j] - m[j]) * square + pull * whole) / slope
        halley = newton / (1.0 - 0.5 * newton * pull * (1.0 - small) / (slope * whole))
        size = abs(newton)
        moved = m[j] + (halley if size <= 0.5 else newton)
        m[j] = moved if moved > floor[j] else floor[j]
        move[j] = size


@njit(cache=True, nogil=True)
def _solve_small(center: float, step: float) -> float:
    """The same root below about 0.01, from m + (step / 2) tanh(m / 2) = center with center = a + step / 2.

    Four terms of tanh(m / 2) are exact to rounding there, and the small root keeps its relative accuracy.
    """
    m = center / (1.0 + 0.25 * step)
    for _ in range(3):
        square = m * m
        ratio = 1.0 - square * (1.0 / 12.0 - square * (1.0 / 120.0 - square * 17.0 / 20160.0))
        slope = 1.0 + 0.25 * step * (1.0 - 0.25 * square)
        m -= (m + 0.25 * step * m * ratio - center) / slope
    return m
