"""Algorithms of the feature split by name. A new one is one file and one entry in `ALGORITHMS`."""

from tacit.algorithms.base import Algorithm
from tacit.algorithms.memory import MEMORY
from tacit.algorithms.multipliers import MULTIPLIERS
from tacit.algorithms.sgd import SGD
from tacit.algorithms.sharing import AVERAGED, PUBLISHED

ALGORITHMS: dict[str, Algorithm] = {method.name: method for method in (AVERAGED, MEMORY, MULTIPLIERS, PUBLISHED, SGD)}

__all__ = ["ALGORITHMS", "Algorithm"]
