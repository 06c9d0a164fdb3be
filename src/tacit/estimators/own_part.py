"""The label holder's own part of a private model by trees, or by what does better out of fold on its own rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tacit.columns.raw import OwnColumns, RawEncoder
from tacit.columns.spec import AUTO
from tacit.columns.table import ArrowTable
from tacit.errors import InputError
from tacit.privacy.request import Privacy
from tacit.problem.losses import Loss
from tacit.solvers.boosting import TreeSettings
from tacit.solvers.boosting.losses import make_loss
from tacit.types import Shard

CURVES, TREES = "curves", "trees"
OWN_PARTS = (CURVES, TREES, AUTO)
TREE_LOSSES = {"logistic": "logistic", "squared": "squared", "absolute": "quantile"}


@dataclass(frozen=True, eq=False)
class OwnTreesAsked:
    """Trees for the label holder's own columns: how its cells become theirs, and how they are grown."""

    encoder: RawEncoder
    settings: TreeSettings

    def shard(self, table: ArrowTable) -> Shard:
        """Rows as trees take them."""
        raw = self.encoder.table(table)
        return Shard(table.party, raw, raw.columns)


def ask_trees(own_part: Any, table: ArrowTable | Shard, loss: Loss, privacy: Privacy | None) -> OwnTreesAsked | None:
    """What trees need to know, where the own part may be trees.

    Raises
    ------
    InputError
        Where nothing is private, the label holder's rows are protected, or trees do not have the loss.
    """
    if own_part not in OWN_PARTS:
        raise InputError(f"own_part={own_part!r} is unknown: choose one of {', '.join(OWN_PARTS)}")
    if own_part == CURVES:
        return None
    if privacy is None or privacy.epsilon is None or not privacy.spares_holder:
        raise InputError(
            f"own_part={own_part!r} is for privacy=Privacy(epsilon=...) with protect='others', where the label "
            "holder's part needs no noise: leave it out"
        )
    if loss.name not in TREE_LOSSES:
        raise InputError(f"own_part={own_part!r} does not fit loss={loss.name!r}: choose {', '.join(TREE_LOSSES)}")
    if isinstance(table, Shard):
        raise InputError(f'own_part={own_part!r} needs encoded columns: give terms="spline", ranges or categories')
    return OwnTreesAsked(RawEncoder.learn(table), TreeSettings(make_loss(TREE_LOSSES[loss.name])))


def with_trees(coded: Shard, asked: OwnTreesAsked, table: ArrowTable, own_part: str) -> Shard:
    """The label holder's shard: for trees alone, or in both forms."""
    raw = asked.shard(table)
    if own_part == TREES:
        return raw
    return Shard(coded.name, OwnColumns(coded.features, raw.features), coded.columns)
