"""Losses: one class each. `tacit.problem.registry` finds them by name."""

from tacit.problem.losses.base import Loss, Task, unbounded_reason
from tacit.problem.losses.families import Gamma, NegativeBinomial, Poisson, Tweedie
from tacit.problem.losses.hinge import Hinge, SquaredHinge
from tacit.problem.losses.logistic import Logistic, Softmax, of_classes
from tacit.problem.losses.modified import Modified, modified
from tacit.problem.losses.residual import Absolute, Huber, Quantile, Squared
from tacit.problem.losses.sigmoid import Sigmoid

__all__ = [
    "Absolute",
    "Gamma",
    "Hinge",
    "Huber",
    "Logistic",
    "Loss",
    "Modified",
    "NegativeBinomial",
    "Poisson",
    "Quantile",
    "Sigmoid",
    "Softmax",
    "Squared",
    "SquaredHinge",
    "Task",
    "Tweedie",
    "modified",
    "of_classes",
    "unbounded_reason",
]
