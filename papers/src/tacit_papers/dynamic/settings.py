"""What the paper states of its experiment, and what was chosen where it states nothing.

| symbol | here | stated |
|---|---|---|
| rho, C^R | ridge, weight | Tables II and III; the caption of Fig. 3 has another C^R for PVP |
| alpha_p(t) | alpha | one number for all nodes and iterations of a run |
| eta | eta | nowhere |
| P, E | nodes, graph | nowhere |
| B_p | rows | nowhere: C^R <= B_p, so that there are at least 1750 at each node |

The paper chose rho by the loss at alpha 0.3. The same rule chose eta from ETAS here; `eta/...` pieces show the others.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from tacit.types import Vector
from tacit_papers.public_sets import load_adult

ALPHAS = (0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
SHOWN = (0.01, 0.1, 0.5, 1.0)  # Fig. 3(a) to (d)
TUNED = 0.3  # the alpha at which the paper chose rho
ETAS = (0.1, 1.0, 10.0, 100.0)
RIDGES = (1e-10, 10**-2.5, 0.1, 1.0, 10.0)
WEIGHTS = (146.0, 1750.0)
DELTA = 1e-5
NAMES = {"none": "Algorithm 1 (no privacy)", "dvp": "DVP", "pvp": "PVP, C^R 146", "pvp-table": "PVP, C^R 1750"}


@dataclass(frozen=True)
class Run:
    """One run of an algorithm.

    Attributes
    ----------
    algorithm : {"none", "dvp", "pvp"}
    alpha : float
        Of one iteration; nothing for "none".
    ridge, weight, eta : float
        rho, C^R and eta of the paper.
    nodes : int
    graph : str
    rows : int
        How many of the 30162 complete train rows are dealt out.
    iterations : int
        Before the stop time; one more ends the run.
    seeds : int
        How many runs, with seeds 0, 1, ...
    sound : bool
        The form that has a proof, in place of the published one.
    """

    algorithm: str
    alpha: float = 0.0
    ridge: float = 1e-10
    weight: float = 1750.0
    eta: float = 10.0
    nodes: int = 10
    graph: str = "random"
    rows: int = 30162
    iterations: int = 100
    seeds: int = 1
    sound: bool = False

    def record(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


NONE = Run("none")
DVP = Run("dvp", ridge=10**-2.5)
PVP = Run("pvp", ridge=0.1, weight=146.0)
PVP_TABLE = replace(PVP, weight=1750.0)
PUBLISHED = {"none": NONE, "dvp": DVP, "pvp": PVP, "pvp-table": PVP_TABLE}


@dataclass(frozen=True, eq=False)
class Rows:
    """Adult as the paper needs it: complete rows of norm at most 1 (Assumption 3)."""

    train: Vector
    labels: Vector
    test: Vector
    test_labels: Vector


@lru_cache(maxsize=2)
def adult_rows(count: int) -> Rows:
    """The first `count` complete train rows and all complete test rows, as 105 columns."""
    adult = load_adult()
    whole = adult.complete()
    table, labels = adult.unary()[whole], adult.y[whole]
    table = table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1.0)
    cut = int(whole[: adult.n_train].sum())
    return Rows(table[: min(count, cut)], labels[: min(count, cut)], table[cut:], labels[cut:])
