"""Algorithms of the feature split by name. A new one is one file and one line in `ALGORITHMS`."""

from tacit.algorithms.base import Algorithm
from tacit.algorithms.memory import Memory
from tacit.algorithms.sgd import Sgd
from tacit.algorithms.sharing import Averaged, Published

ALGORITHMS: dict[str, type[Algorithm]] = {
    "averaged": Averaged,
    "memory": Memory,
    "published": Published,
    "sgd": Sgd,
}

__all__ = ["ALGORITHMS", "Algorithm"]
