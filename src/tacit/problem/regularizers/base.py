"""What a regularizer must know about itself."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar, Literal

from tacit.types import Vector

Form = Literal["quadratic", "separable", "ball"]


class Regularizer(ABC):
    """R(x) of one party's coefficients; the objective has alpha * R. A constraint is worth 0 or infinity.

    Attributes
    ----------
    name : str
        The name users write.
    form : {"quadratic", "separable", "ball"}
        How the x-update solves it: "quadratic" by linear algebra (R = l2/2 ||x||^2), "separable" by
        coordinate descent (R = l1 ||x||_1 + l2/2 ||x||^2 with low <= x <= high), "ball" by its secular
        equation (||x|| <= radius).
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
