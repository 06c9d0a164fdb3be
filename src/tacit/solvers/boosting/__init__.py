"""Boosted trees over split columns: each party grows trees on its own columns, the label holder adds them up."""

from __future__ import annotations

from typing import Any

from tacit.solvers.base import Solver
from tacit.solvers.boosting.losses import TreeLoss
from tacit.solvers.boosting.settings import TreeSettings
from tacit.solvers.boosting.sides import TreeHolder, TreeParty


def _refusal(loss: Any, regularizer: Any) -> str:
    return (
        "" if isinstance(loss, TreeLoss) else "trees have losses and settings of their own (VerticalBoostingClassifier)"
    )


TREES = Solver(
    name="trees",
    refusal=_refusal,
    party=TreeParty,
    coordinator=TreeHolder,
    vectors=(0.85, 1.0),
    on_cluster=False,
    reads_each_answer=True,
    singles=("margin", "added"),
)

__all__ = ["TREES", "TreeLoss", "TreeSettings"]
