"""Losses: one file each. `tacit.problem.registry` finds them by name."""

from tacit.problem.losses.absolute import Absolute
from tacit.problem.losses.base import Loss, Task, unbounded_reason
from tacit.problem.losses.hinge import Hinge
from tacit.problem.losses.huber import Huber
from tacit.problem.losses.logistic import Logistic
from tacit.problem.losses.modified import Modified, modified
from tacit.problem.losses.poisson import Poisson
from tacit.problem.losses.sigmoid import Sigmoid
from tacit.problem.losses.squared import Squared
from tacit.problem.losses.squared_hinge import SquaredHinge

__all__ = [
    "Absolute",
    "Hinge",
    "Huber",
    "Logistic",
    "Loss",
    "Modified",
    "Poisson",
    "Sigmoid",
    "Squared",
    "SquaredHinge",
    "Task",
    "modified",
    "unbounded_reason",
]
