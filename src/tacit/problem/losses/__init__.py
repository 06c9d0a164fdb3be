"""Losses by name. A new loss is one file with a subclass of `Loss` and one line in `LOSSES`."""

from tacit.problem.losses.absolute import Absolute
from tacit.problem.losses.base import Loss, Task
from tacit.problem.losses.hinge import Hinge
from tacit.problem.losses.huber import Huber
from tacit.problem.losses.logistic import Logistic
from tacit.problem.losses.modified import Modified, modified, unbounded_reason
from tacit.problem.losses.poisson import Poisson
from tacit.problem.losses.sigmoid import Sigmoid
from tacit.problem.losses.squared import Squared
from tacit.problem.losses.squared_hinge import SquaredHinge
from tacit.problem.registry import find

LOSSES: dict[str, type[Loss]] = {
    "absolute": Absolute,
    "hinge": Hinge,
    "huber": Huber,
    "logistic": Logistic,
    "poisson": Poisson,
    "sigmoid": Sigmoid,
    "squared": Squared,
    "squared_hinge": SquaredHinge,
}


def get_loss(loss: str | Loss) -> Loss:
    """Loss of that name with its default parameters; a loss is returned as it is.

    Raises
    ------
    InputError
        Where the name is unknown.
    """
    return loss if isinstance(loss, Loss) else find("loss", loss, LOSSES)()


__all__ = [
    "LOSSES",
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
    "get_loss",
    "modified",
    "unbounded_reason",
]
