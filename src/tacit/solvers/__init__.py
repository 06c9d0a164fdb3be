"""Solvers of the feature split by name. A new one is one file or package, and one entry in `ALGORITHMS`."""

from tacit.solvers.base import Algorithm
from tacit.solvers.boosting import TREES
from tacit.solvers.memory import MEMORY
from tacit.solvers.multipliers import MULTIPLIERS
from tacit.solvers.sgd import SGD
from tacit.solvers.sharing import AVERAGED, PUBLISHED

ALGORITHMS: dict[str, Algorithm] = {
    method.name: method for method in (MEMORY, AVERAGED, MULTIPLIERS, PUBLISHED, SGD, TREES)
}
# Those that linear models name as their method; trees have estimators of their own.
METHODS: tuple[str, ...] = tuple(sorted(name for name, one in ALGORITHMS.items() if not one.reads_each_answer))

__all__ = ["ALGORITHMS", "METHODS", "Algorithm"]
