"""Settings of the paper's experiments, and what was chosen where it gives none.

| symbol | here | meaning |
|---|---|---|
| n, E | NODES, EDGES | servers and links, as printed |
| a, beta, V, t | WEIGHT, PENALTY, FIRST_SD, ROUNDS | not printed: chosen here, not fitted to the printed results |
| rho, R, eps | DECAY, BOUND, EPSILON | decay of the variance, bound of the noise in the objective, label epsilon |

The paper refers to "experiments under the synthetic dataset" for what it does not print; it has none.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

NODES, EDGES = 10, 13
ADULT_ROWS = 45_000
DELTA = 1e-5

WEIGHT = 1.0  # the plainest number for the weight of a regularizer
PENALTY = 0.1  # as large as a/n, the curvature that the regularizer gives a node
FIRST_SD = 0.1  # then the first noise on 105 coefficients has a norm of about 1, like the rows
ROUNDS = 100
DECAY, BOUND, EPSILON = 0.8, 1.0, 1.0  # printed for Fig. 4(a), 3 and 4(b), and one of the two epsilons of Table I

BOUNDS = (1.0, 3.0, 9.0)  # Fig. 4(a); Table I has 1 and 9
DECAYS = (0.7, 0.8, 0.9, 0.95)  # Fig. 4(b)
EPSILONS = (0.2, 0.4, 0.6, 0.8, 1.0)  # Fig. 4(c)

SETS = ("german", "image", "ringnorm", "banana", "splice", "twonorm", "waveform")  # in the order of Table I
COLUMNS: dict[str, tuple[float | None, float]] = {  # Table I: label epsilon and R of each column
    "none": (None, 0.0),
    "eps=0.4": (0.4, 0.0),
    "eps=1": (1.0, 0.0),
    "eps=0.4,R=1": (0.4, 1.0),
    "eps=0.4,R=9": (0.4, 9.0),
    "eps=1,R=1": (1.0, 1.0),
    "eps=1,R=9": (1.0, 9.0),
}


@dataclass(frozen=True)
class Setup:
    """One setting of pdml.

    Attributes
    ----------
    epsilon : float or None
        Of each label; None: true labels.
    bound : float
        R.
    decay : float or None
        rho; None: models leave without noise.
    first_sd, penalty, weight : float
        V, beta and a.
    rounds : int
    """

    epsilon: float | None = EPSILON
    bound: float = BOUND
    decay: float | None = DECAY
    first_sd: float = FIRST_SD
    penalty: float = PENALTY
    weight: float = WEIGHT
    rounds: int = ROUNDS

    def with_(self, **changes: Any) -> Setup:
        """The same with some changes."""
        return replace(self, **changes)

    def record(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


USUAL = Setup()
LABELS_ONLY = Setup(bound=0.0, decay=None)


def of_column(name: str) -> Setup:
    """The setting of a column of Table I; noise on models goes with noise in the objective."""
    epsilon, bound = COLUMNS[name]
    return Setup(epsilon=epsilon, bound=bound, decay=DECAY if bound else None)
