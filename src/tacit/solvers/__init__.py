"""Solvers of the feature split by name. A new one is one file or package, and one entry in `SOLVERS`."""

from tacit.solvers.base import Solver
from tacit.solvers.boosting import TREES
from tacit.solvers.memory import MEMORY
from tacit.solvers.multipliers import MULTIPLIERS
from tacit.solvers.sgd import SGD
from tacit.solvers.sharing import AVERAGED, PUBLISHED

SOLVERS: dict[str, Solver] = {solver.name: solver for solver in (MEMORY, AVERAGED, MULTIPLIERS, PUBLISHED, SGD, TREES)}
# Those that linear models name as their method; trees have estimators of their own.
METHODS: tuple[str, ...] = tuple(sorted(name for name, one in SOLVERS.items() if not one.reads_each_answer))

__all__ = ["METHODS", "SOLVERS", "Solver"]
