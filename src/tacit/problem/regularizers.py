"""Penalties and constraints on coefficients: none, ridge, lasso, elastic net; a ball, bounds, a sign."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from tacit.errors import InputError
from tacit.types import Vector

# --- What a regularizer must know about itself


Form = Literal["quadratic", "separable", "ball", "group"]


class Regularizer(ABC):
    """R(x) of one party's coefficients; the objective has alpha * R. A constraint is worth 0 or infinity.

    Attributes
    ----------
    name : str
        The name users write.
    form : {"quadratic", "separable", "ball", "group"}
        How the x-update solves it: "quadratic" by linear algebra (R = l2/2 ||x||^2), "separable" by
        coordinate descent (R = l1 ||x||_1 + l2/2 ||x||^2 with low <= x <= high), "ball" by its secular
        equation (||x|| <= radius), "group" by its envelope alone (norms of groups).
    l1, l2, low, high, radius : float
        The numbers of that form.
    strong_convexity : float
        True lower bound on the curvature of R.
    constraint : bool
        True where R is 0 or infinity, so that alpha has no meaning.
    """

    name: ClassVar[str]
    form: ClassVar[Form]
    constraint: ClassVar[bool] = False
    l1: float = 0.0
    l2: float = 0.0
    low: float = -math.inf
    high: float = math.inf
    radius: float = math.inf

    @property
    def strong_convexity(self) -> float:
        """Lower bound on the curvature of R."""
        return self.l2

    def for_groups(self, widths: Sequence[int]) -> Regularizer:
        """The penalty of a party whose columns are encoded as so many each; itself where that does not matter."""
        return self

    @abstractmethod
    def value(self, x: Vector) -> float:
        """R(x); infinite outside a constraint (with a relative slack of 1e-9 for rounding)."""

    @abstractmethod
    def prox(self, v: Vector, step: float) -> Vector:
        """The argmin over x of R(x) + ||x - v||^2 / (2 step)."""

    @abstractmethod
    def conjugate(self, v: Vector) -> float:
        """The sup over x of v.x - R(x); infinite outside its domain."""

    @abstractmethod
    def shrink(self, v: Vector) -> float:
        """Largest factor in [0, 1] by which v can be multiplied to lie in the domain of the conjugate."""


# --- No regularizer: R(x) = 0


class NoPenalty(Regularizer):
    """R(x) = 0: only the loss decides."""

    name = "none"
    form = "quadratic"
    constraint = True

    def value(self, x: Vector) -> float:
        """0 everywhere."""
        return 0.0

    def prox(self, v: Vector, step: float) -> Vector:
        """The point itself."""
        return np.array(v, dtype=np.float64)

    def conjugate(self, v: Vector) -> float:
        """0 at v = 0, infinite elsewhere."""
        return np.inf if np.any(v) else 0.0

    def shrink(self, v: Vector) -> float:
        """0 unless v = 0."""
        return 0.0 if np.any(v) else 1.0


# --- Ridge: R(x) = 1/2 ||x||^2


class L2(Regularizer):
    """R(x) = 1/2 ||x||^2: small coefficients."""

    name = "l2"
    form = "quadratic"
    l2 = 1.0

    def value(self, x: Vector) -> float:
        """1/2 ||x||^2."""
        with np.errstate(over="ignore"):
            return 0.5 * float(np.sum(np.square(x)))

    def prox(self, v: Vector, step: float) -> Vector:
        """Every coefficient divided by 1 + step."""
        return np.asarray(v / (1.0 + step))

    def conjugate(self, v: Vector) -> float:
        """1/2 ||v||^2: R is its own conjugate."""
        return self.value(v)

    def shrink(self, v: Vector) -> float:
        """1: the conjugate is finite everywhere."""
        return 1.0


# --- Lasso: R(x) = ||x||_1


_SLACK = 1e-12  # rounding that still counts as on the edge of the dual ball


class L1(Regularizer):
    """R(x) = ||x||_1: few coefficients."""

    name = "l1"
    form = "separable"
    l1 = 1.0

    def value(self, x: Vector) -> float:
        """||x||_1."""
        with np.errstate(over="ignore"):
            return float(np.sum(np.abs(x)))

    def prox(self, v: Vector, step: float) -> Vector:
        """Soft threshold: every coefficient moved towards 0 by step."""
        return soft_threshold(v, step)

    def conjugate(self, v: Vector) -> float:
        """0 where max|v| <= 1, infinite elsewhere."""
        return 0.0 if np.max(np.abs(v), initial=0.0) <= 1.0 + _SLACK else np.inf

    def shrink(self, v: Vector) -> float:
        """1 / max|v|, at most 1."""
        return 1.0 / max(1.0, float(np.max(np.abs(v), initial=0.0)))


def soft_threshold(v: Vector, amount: float) -> Vector:
    """Every entry moved towards 0 by an amount, and not beyond it."""
    return np.sign(v) * np.maximum(np.abs(v) - amount, 0.0)


# --- Elastic net: R(x) = l1_ratio ||x||_1 + (1 - l1_ratio) / 2 ||x||^2


class ElasticNet(Regularizer):
    """R(x) = l1_ratio ||x||_1 + (1 - l1_ratio) / 2 ||x||^2: few coefficients, shared by correlated columns.

    Parameters
    ----------
    l1_ratio : float
        Share of the absolute value: 0 is "l2", 1 is "l1".
    """

    name = "elastic_net"
    form = "separable"

    def __init__(self, l1_ratio: float = 0.5) -> None:
        if not 0.0 <= l1_ratio <= 1.0:
            raise InputError(f"l1_ratio={l1_ratio:g} is not allowed: it must lie between 0 and 1")
        self.l1 = float(l1_ratio)
        self.l2 = 1.0 - self.l1

    def value(self, x: Vector) -> float:
        """Weighted sum of both norms."""
        with np.errstate(over="ignore"):
            square = float(np.sum(np.square(x))) if self.l2 else 0.0
            return self.l1 * float(np.sum(np.abs(x))) + 0.5 * self.l2 * square

    def prox(self, v: Vector, step: float) -> Vector:
        """Soft threshold by step l1_ratio, then divided by 1 + step (1 - l1_ratio)."""
        return np.asarray(soft_threshold(v, step * self.l1) / (1.0 + step * self.l2))

    def conjugate(self, v: Vector) -> float:
        """Sum of max(|v| - l1_ratio, 0)^2 / (2 (1 - l1_ratio)); that of "l1" for l1_ratio = 1."""
        if self.l2 == 0.0:
            return L1().conjugate(v)
        with np.errstate(over="ignore"):
            excess = np.maximum(np.abs(v) - self.l1, 0.0)
            return float(np.sum(np.square(excess))) / (2.0 * self.l2)

    def shrink(self, v: Vector) -> float:
        """1, the conjugate being finite everywhere; that of "l1" for l1_ratio = 1."""
        return L1().shrink(v) if self.l2 == 0.0 else 1.0


# --- Group lasso: R(x) = sum over groups of sqrt(size) ||x_g||


class GroupLasso(Regularizer):
    """R(x) = sum over groups of sqrt(size) ||x_g||: few columns, each with all of its encoded columns or none.

    Parameters
    ----------
    widths : sequence of int, or None
        Sizes of the groups, one after the other; None for groups of one, as in "l1".
    """

    name = "group_lasso"
    form = "group"
    l1 = 1.0

    def __init__(self, widths: Sequence[int] | None = None) -> None:
        self.widths = None if widths is None else np.asarray(widths, dtype=np.int64)

    def for_groups(self, widths: Sequence[int]) -> Regularizer:
        """With the encoded columns of each column as a group."""
        return GroupLasso(widths) if len(widths) else self

    def spread(self, by_group: Vector, size: int) -> Vector:
        """A number of each group, at each of its coefficients."""
        return by_group if self.widths is None else np.repeat(by_group, self.widths)

    def means(self, x: Vector) -> Vector:
        """Mean of each group."""
        return x if self.widths is None else np.add.reduceat(x, self._starts) / self.widths

    def norms(self, x: Vector) -> Vector:
        """Norm of each group."""
        if self.widths is None:
            return np.abs(x)
        scale = max(float(np.max(np.abs(x), initial=0.0)), 1e-300)
        return np.asarray(scale * np.sqrt(np.add.reduceat(np.square(x / scale), self._starts)))

    def factors(self, size: int) -> Vector:
        """Weight of each group."""
        return np.ones(size) if self.widths is None else np.sqrt(self.widths)

    @property
    def _starts(self) -> npt.NDArray[np.int64]:
        assert self.widths is not None, "groups of one have no starts"
        return np.cumsum(self.widths) - self.widths

    def value(self, x: Vector) -> float:
        """Weighted sum of the groups' norms."""
        with np.errstate(over="ignore"):
            return float(self.factors(x.size) @ self.norms(x))

    def prox(self, v: Vector, step: float) -> Vector:
        """Each group shortened by step times its weight, and not beyond 0."""
        norms, least = self.norms(v), step * self.factors(v.size)
        kept = np.divide(np.maximum(norms - least, 0.0), norms, out=np.zeros_like(norms), where=norms > 0)
        return np.asarray(v * self.spread(kept, v.size))

    def conjugate(self, v: Vector) -> float:
        """0 where no group is longer than its weight, infinite elsewhere."""
        return 0.0 if np.max(self.norms(v) / self.factors(v.size), initial=0.0) <= 1.0 + _SLACK else np.inf

    def shrink(self, v: Vector) -> float:
        """1 over the longest group beside its weight, at most 1."""
        return 1.0 / max(1.0, float(np.max(self.norms(v) / self.factors(v.size), initial=0.0)))


# --- Norm constraint: ||x|| <= radius


_SLACK = 1e-9  # rounding that still counts as feasible


class Ball(Regularizer):
    """R(x) = 0 for ||x|| <= radius, infinite elsewhere.

    Parameters
    ----------
    radius : float
        Largest Euclidean norm of one party's coefficients.
    """

    name = "ball"
    form = "ball"
    constraint = True

    def __init__(self, radius: float = 1.0) -> None:
        if not (radius > 0 and math.isfinite(radius)):
            raise InputError(f'radius={radius:g} is not allowed: it must be positive and finite; "none" has no bound')
        self.radius = float(radius)

    def value(self, x: Vector) -> float:
        """0 within the radius, infinite elsewhere."""
        return 0.0 if _norm(x) <= self.radius * (1.0 + _SLACK) else np.inf

    def prox(self, v: Vector, step: float) -> Vector:
        """Projection: v shortened to the radius where it is longer."""
        size = _norm(v)
        return np.array(v, dtype=np.float64) if size <= self.radius else np.asarray(v * (self.radius / size))

    def conjugate(self, v: Vector) -> float:
        """Norm of v times the radius."""
        return self.radius * _norm(v)

    def shrink(self, v: Vector) -> float:
        """1: the conjugate is finite everywhere."""
        return 1.0


def _norm(x: Vector) -> float:
    """Euclidean norm whose squares cannot overflow."""
    scale = float(np.max(np.abs(x), initial=0.0))
    return scale * float(np.sqrt(np.sum(np.square(x / scale)))) if scale > 0.0 else 0.0


# --- Bounds: low <= x <= high


_BOX_SLACK = 1e-9  # rounding that still counts as feasible


class Box(Regularizer):
    """R(x) = 0 for low <= x <= high, infinite elsewhere.

    Parameters
    ----------
    low, high : float
        Bounds of every coefficient.
    """

    name = "box"
    form = "separable"
    constraint = True

    def __init__(self, low: float = -1.0, high: float = 1.0) -> None:
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise InputError(
                f"low={low:g}, high={high:g} is not allowed: both must be finite, with low below high; "
                'for x >= 0 alone use "nonnegative"'
            )
        self.low = float(low)
        self.high = float(high)

    def value(self, x: Vector) -> float:
        """0 within the bounds, infinite elsewhere."""
        slack = _BOX_SLACK * max(abs(self.low), abs(self.high))
        return 0.0 if np.all((x >= self.low - slack) & (x <= self.high + slack)) else np.inf

    def prox(self, v: Vector, step: float) -> Vector:
        """Projection: entries clipped into the bounds."""
        return np.clip(v, self.low, self.high)

    def conjugate(self, v: Vector) -> float:
        """Sum of max(low v, high v)."""
        with np.errstate(over="ignore"):
            return float(np.sum(np.maximum(self.low * v, self.high * v)))

    def shrink(self, v: Vector) -> float:
        """1: the conjugate is finite everywhere."""
        return 1.0


# --- Sign constraint: x >= 0


_VALUE_SLACK = 1e-9  # rounding that still counts as feasible
_DUAL_SLACK = 1e-12  # rounding that still counts as the right sign, against the largest entry


class NonNegative(Regularizer):
    """R(x) = 0 for x >= 0, infinite elsewhere."""

    name = "nonnegative"
    form = "separable"
    constraint = True
    low = 0.0

    def value(self, x: Vector) -> float:
        """0 where no coefficient is negative, infinite elsewhere."""
        scale = max(1.0, float(np.max(np.abs(x), initial=0.0)))
        return 0.0 if np.all(x >= -_VALUE_SLACK * scale) else np.inf

    def prox(self, v: Vector, step: float) -> Vector:
        """Projection: negative entries become 0."""
        return np.maximum(v, 0.0)

    def conjugate(self, v: Vector) -> float:
        """0 where no entry is positive, infinite elsewhere."""
        return 0.0 if self._is_dual(v) else np.inf

    def shrink(self, v: Vector) -> float:
        """0 where an entry is positive, else 1."""
        return 1.0 if self._is_dual(v) else 0.0

    def _is_dual(self, v: Vector) -> bool:
        """True where v <= 0 up to rounding."""
        return bool(np.all(v <= _DUAL_SLACK * np.max(np.abs(v), initial=0.0)))
