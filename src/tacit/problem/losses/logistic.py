"""The prox of the logistic loss, compiled: root of m - a - s sigma(-m) = 0 for every row.

m -> -m maps the equation to itself with a -> -(a + s), so only roots m >= 0 need solving, that is, rows with
a + s / 2 >= 0. There f(m) = m - a - s sigma(-m) is increasing and concave, and |f''| <= f'. Hence:

- Newton from any m >= 0 lands at or left of the root, and from there climbs monotonically to it;
- a Newton move d bounds the distance e to the root: e <= -log(1 - d) from the left, e <= |d| from the right;
- for |d| <= 1/2, Halley's move (Newton's, divided by 1 - c with |c| <= 1/4) at least divides the distance
  by 2.5, and it is cubic in the end: a last move below 1e-5 leaves an error near 1e-15.

Rows are solved in blocks with all branches as selections: the compiler then works on several rows at once,
which is five times faster than stopping row by row.

Logistic loss: value = log(1 + exp(-y z)).

Every round evaluates it once per row, so the loops are compiled. Throughout, m = y z is the margin and
sigma(m) = 1 / (1 + exp(-m)).

Softmax loss of C classes: value = log sum_c exp(z_c) - t . z, with C scores z for each row.

| symbol | meaning |
|---|---|
| y | the class of a row: 0, 1, ... C - 1 |
| p | exp(z_c) / sum of these: the probability of each class |
| t | the target: 1 for class y, 0 for the others; of randomized labels see below |

grad = p - t, of norm sqrt 2 at most, and hess = diag(p) - p p', of norm 1/2 at most. A number added to all scores of a
row changes neither, so that scores mean something up to a constant for each row; those of a fit sum to zero.

Labels that went through randomized response over C classes are kept with probability k = e^eps / (e^eps + C - 1), and
become each other class with b = 1 / (e^eps + C - 1). With t = (1[c = y'] - b) / (k - b) of the outcome y' the mean of
the loss over the coins is that of the true label (docs/proofs/labels.md, theorem 7). It stays convex: t is in a linear
term.

Scores of all rows come as one long vector, row after row, or as a table of C columns; derivatives have the same shape.
"""

from __future__ import annotations

import math
import numbers
from typing import NoReturn

import numpy as np
from numba import njit
from scipy.special import softmax, xlog1py, xlogy

from tacit.errors import InputError
from tacit.problem.losses.base import LEAST_EPSILON, SLACK, Loss, indicate, slack_of
from tacit.types import Vector

# --- An exponential that compiled loops can run on several rows at once


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


# --- The prox of the logistic loss, compiled: root of m - a - s sigma(-m) = 0 for every row


_PROX_BLOCK = 256  # rows whose scratch space fits the first-level cache
_MOST_MOVES = 200  # never reached: 4 or 5 moves are usual
_LAST_MOVE = 1e-5
_FAR_STEP = 20.0  # from here on the start by logarithms saves more than it costs
_SMALL = 0.01  # below this margin sigma(-m) - 1/2 cancels
_PROX_FINITE = {"nnan", "ninf", "nsz"}  # inputs are finite, so comparisons may become selections


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
    low, center, step, sign = np.empty(_PROX_BLOCK), np.empty(_PROX_BLOCK), np.empty(_PROX_BLOCK), np.empty(_PROX_BLOCK)
    floor, m, move = np.empty(_PROX_BLOCK), np.empty(_PROX_BLOCK), np.empty(_PROX_BLOCK)
    for begin in range(0, v.size, _PROX_BLOCK):
        count = min(_PROX_BLOCK, v.size - begin)
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


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_PROX_FINITE)
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


# --- Logistic loss: value = log(1 + exp(-y z))


_BLOCK = 512  # terms of one product: at most 2^512
_FINITE = {
    "nnan",
    "ninf",
    "nsz",
}  # inputs are finite; never "reassoc", which would undo the rounding in the exponential


class Logistic(Loss):
    """Logistic loss, log(1 + exp(-y z)): logistic regression."""

    name = "logistic"
    task = "classification"
    lipschitz = 1.0
    curvature = 0.25
    log_odds = True

    def value(self, z: Vector, y: Vector) -> Vector:
        """log(1 + exp(-y z))."""
        margin = y * z
        return np.log1p(np.exp(-np.abs(margin))) + np.maximum(-margin, 0.0)

    def grad(self, z: Vector, y: Vector) -> Vector:
        """-y sigma(-y z)."""
        margin = y * z
        small = np.exp(-np.abs(margin))
        return np.asarray(-y * np.where(margin > 0, small, 1.0) / (1.0 + small))

    def hess(self, z: Vector, y: Vector) -> Vector:
        """sigma(m) sigma(-m)."""
        small = np.exp(-np.abs(y * z))
        return np.asarray(small / np.square(1.0 + small))

    def slopes(self, z: Vector, y: Vector) -> tuple[Vector, Vector]:
        """(grad, hess) from one exponential per row."""
        shape = np.broadcast(z, y).shape
        grad, hess = np.empty(shape), np.empty(shape)
        _fill_slopes(_flat(z, shape), _flat(y, shape), grad.ravel(), hess.ravel())
        return grad, hess

    def total(self, z: Vector, y: Vector, weights: Vector | None = None) -> float:
        """Weighted sum of the values; without weights one logarithm serves many rows."""
        if weights is not None:
            return super().total(z, y, weights)
        shape = np.broadcast(z, y).shape
        return float(_sum_values(_flat(z, shape), _flat(y, shape)))

    def prox(self, v: Vector, y: Vector, step: float | Vector) -> Vector:
        """Root of m - y v - step sigma(-m) = 0, to rounding; see `logistic_prox`."""
        shape = np.broadcast(v, y).shape
        z = np.empty(shape)
        steps = np.full(1, step) if np.ndim(step) == 0 else _flat(step, shape)
        fill_prox(_flat(v, shape), _flat(y, shape), steps, int(np.ndim(step) > 0), z.ravel())
        return z

    def conjugate(self, t: Vector, y: Vector) -> Vector:
        """Negative entropy p log p + (1 - p) log(1 - p) with p = -t y, for 0 <= p <= 1."""
        pull = -t * y
        inside = (pull >= -slack_of(t)) & (pull <= 1.0 + SLACK)
        p = np.clip(pull, 0.0, 1.0)
        return indicate(inside, xlogy(p, p) + xlog1py(1.0 - p, -p))

    def recover(self, r: Vector) -> tuple[Vector, Vector]:
        """Prediction and curvature from the derivative: |r| = sigma(-m) and the label is -sign(r).

        A derivative that rounds to 0 or to 1 stands for every margin beyond about 690 or below about -36.
        """
        pull = np.clip(np.abs(r), 1e-300, 1.0 - 1e-16)
        margin = np.log1p(-pull) - np.log(pull)
        # copysign, not sign: a derivative that underflowed to -0.0 still tells its label.
        return -np.copysign(1.0, r) * margin, pull * (1.0 - pull)


def _flat(values: float | Vector, shape: tuple[int, ...]) -> Vector:
    """Contiguous float64 copy-if-needed of one value per row."""
    full = values if np.shape(values) == shape else np.broadcast_to(values, shape)
    return np.ascontiguousarray(full, dtype=np.float64).ravel()


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FINITE)
def _fill_slopes(z: Vector, y: Vector, grad: Vector, hess: Vector) -> None:
    """Write grad and hess of every row."""
    for i in range(z.size):
        margin = y[i] * z[i]
        size = abs(margin)
        small = exp_negative(-(size if size < 700.0 else 700.0))
        share = 1.0 / (1.0 + small)
        rest = small * share
        grad[i] = -y[i] * (rest if margin > 0.0 else share)
        hess[i] = share * rest


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FINITE)
def _sum_values(z: Vector, y: Vector) -> float:
    """Sum of log(1 + exp(-m)): the logarithm of a product of terms between 1 and 2, taken once per block."""
    terms, linear = np.empty(_BLOCK), np.empty(_BLOCK)
    total = 0.0
    for begin in range(0, z.size, _BLOCK):
        count = min(_BLOCK, z.size - begin)
        for j in range(count):
            margin = y[begin + j] * z[begin + j]
            size = abs(margin)
            terms[j] = 1.0 + exp_negative(-(size if size < 700.0 else 700.0))
            linear[j] = 0.5 * (size - margin)
        terms[count:] = 1.0
        linear[count:] = 0.0
        half = _BLOCK
        while half > 1:
            half //= 2
            for j in range(half):
                terms[j] *= terms[j + half]
                linear[j] += linear[j + half]
        total += linear[0] + math.log(terms[0])
    return total


# --- More than two classes


LEAST_CHANCE = 1e-300  # a derivative that underflowed stands for every smaller probability,
NEAR_ONE = 1e-16  # and one that rounds to -1 for every smaller one of the own class


class Softmax(Loss):
    """Softmax loss: logistic regression with more than two classes.

    Parameters
    ----------
    classes : int
        How many, at least 2.
    epsilon : float or None
        The label epsilon with which labels were randomized; None for true labels.
    """

    task = "classification"
    lipschitz = math.sqrt(2.0)
    curvature = 0.5
    log_odds = True

    def __init__(self, classes: int, epsilon: float | None = None) -> None:
        self.outputs, self.epsilon = int(classes), epsilon
        self.name = "softmax"
        self.spread = 0.0  # b / (k - b), what each entry of t is lowered by
        if epsilon is not None:
            _check_epsilon(epsilon)
            self.spread = math.exp(-epsilon) / -math.expm1(-epsilon)
            self.name = f"softmax of labels randomized at epsilon {float(epsilon)!r}"
        self.least_slope = self.spread
        self.lipschitz = math.sqrt(2.0) * (1 + self.outputs * self.spread)

    @property
    def keep(self) -> float:
        """Probability with which a label was kept."""
        return (1 + self.spread) / (1 + self.outputs * self.spread)

    def targets(self, y: Vector) -> Vector:
        """The vector t of each row."""
        t = np.full((y.size, self.outputs), -self.spread)
        t[np.arange(y.size), y.astype(np.intp)] += 1 + self.outputs * self.spread
        return t

    def _rows(self, z: Vector, y: Vector) -> Vector:
        return np.reshape(z, (y.size, self.outputs))

    def value(self, z: Vector, y: Vector) -> Vector:
        """Log sum exp(z) - t . z of each row."""
        rows = self._rows(z, y)
        own = rows[np.arange(y.size), y.astype(np.intp)]
        top = rows.max(axis=1, keepdims=True)
        plain = np.log(np.exp(rows - top).sum(axis=1)) + (top[:, 0] - own)
        if not self.spread:
            return np.asarray(plain)
        return np.asarray(plain - self.spread * (self.outputs * own - rows.sum(axis=1)))

    def grad(self, z: Vector, y: Vector) -> Vector:
        """P - t, in the shape of z; exact to rounding where p of the own class is near 1."""
        return self.slopes(z, y)[0]

    def hess(self, z: Vector, y: Vector) -> Vector:
        """diag(p) - p p' of each row, C x C."""
        p = softmax(self._rows(z, y), axis=1)
        return np.asarray(np.eye(self.outputs) * p[:, :, None] - p[:, :, None] * p[:, None, :])

    def slopes(self, z: Vector, y: Vector) -> tuple[Vector, Vector]:
        """(grad, p), both in the shape of z: with p the curvature is known (`hess`)."""
        rows, at = self._rows(z, y), (np.arange(y.size), y.astype(np.intp))
        small = np.exp(rows - rows.max(axis=1, keepdims=True))
        p = small / small.sum(axis=1, keepdims=True)
        slope = p.copy()
        slope[at] = 0.0
        slope[at] = -slope.sum(axis=1)  # p - 1 without cancelling
        if self.spread:
            slope += self.spread
            slope[at] -= self.outputs * self.spread
        return slope.reshape(np.shape(z)), p.reshape(np.shape(z))

    def prox(self, v: Vector, y: Vector, step: float | Vector) -> NoReturn:
        """Not available: no solver that needs it takes several scores for each row."""
        raise NotImplementedError("softmax has no prox")

    def conjugate(self, t: Vector, y: Vector) -> Vector:
        """Negative entropy of t + target of each row, which must be a probability of each class."""
        p = self._rows(t, y) + self.targets(y)
        slack = SLACK * max(1.0, float(np.abs(p).max(initial=0.0)), self.outputs * self.spread)
        inside = (p >= -slack).all(axis=1) & (np.abs(p.sum(axis=1) - 1.0) <= self.outputs * slack)
        p = np.clip(p, 0.0, 1.0)
        return np.where(inside, xlogy(p, p).sum(axis=1), np.inf)

    def recover(self, r: Vector) -> tuple[Vector, Vector] | None:
        """Scores that sum to zero in each row, and p: the own class has the only negative derivative.

        None of randomized labels, whose targets are added to what is small.
        """
        if self.spread:
            return None
        p = np.array(np.reshape(r, (-1, self.outputs)))
        at = (np.arange(len(p)), p.argmin(axis=1))
        p[at] = np.maximum(1.0 + p[at], NEAR_ONE)
        p = np.maximum(p, LEAST_CHANCE)
        z = np.log(p)
        z -= z.mean(axis=1, keepdims=True)
        return z.reshape(np.shape(r)), p.reshape(np.shape(r))

    def best_constant(self, y: Vector, weights: Vector | None, widest: float) -> Vector:
        """The scores, summing to zero, that fit best where they are the same for every row; within -widest .. widest.

        Raises
        ------
        InputError
            Where randomized labels say that a class has a share below 0.
        """
        weights = np.ones(y.size) if weights is None else weights
        counts = np.bincount(y.astype(np.intp), weights, minlength=self.outputs)
        share = (1 + self.outputs * self.spread) * counts / counts.sum() - self.spread
        if self.spread and share.min() <= 0:
            raise InputError(
                f"the randomized labels leave class {int(share.argmin()) + 1} of {self.outputs} a share of "
                f"{share.min():.3g}, not above 0, so that no intercept is best: use more rows or a larger "
                "label_epsilon (randomizing again costs it again)"
            )
        z = np.log(np.maximum(share, math.exp(-widest)))
        return np.asarray(z - z.mean())

    def check_labels(self, y: Vector) -> None:
        """Refuse what is no class."""
        if not np.all((y >= 0) & (y < self.outputs) & (y == np.floor(y))):
            raise InputError(f"loss='softmax' needs labels 0 to {self.outputs - 1}")


def of_classes(loss: Loss, count: int) -> Loss:
    """The loss for so many classes: the same for two, softmax for more where it is the logistic loss.

    Raises
    ------
    InputError
        For any other loss.
    """
    if count <= 2:
        return loss
    if isinstance(loss, Logistic):
        return Softmax(count)
    raise InputError(
        f"Only binary classification is supported with loss={loss.name!r}, and the labels have {count} classes: use "
        "loss='logistic', or join them into two"
    )


def _check_epsilon(epsilon: object) -> None:
    is_number = isinstance(epsilon, numbers.Real) and not isinstance(epsilon, bool)
    if not is_number or not LEAST_EPSILON <= float(epsilon) < math.inf:  # type: ignore[arg-type]
        raise InputError(f"label epsilon={epsilon!r} is not allowed: it must be finite and at least {LEAST_EPSILON:g}")
