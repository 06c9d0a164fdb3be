"""Private models in which the label holder's own part is of trees, or may be.

| class | of |
|---|---|
| Codes | the columns of protected parties by public codes, and what each column adds (boosting estimators) |
| OwnTreesAsked | trees of the label holder's own columns, or what does better out of fold (`own_part`) |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tacit.columns.raw import OwnColumns, RawEncoder
from tacit.columns.spec import AUTO, SPLINE
from tacit.columns.table import ArrowTable
from tacit.errors import InputError
from tacit.estimators.base import ColumnLayout
from tacit.estimators.encoding import (
    ColumnWishes,
    Encodings,
    Setting,
    as_table,
    dense,
    encode_columns,
    encoded_again,
    row_norms,
)
from tacit.privacy.certificate import Certificate
from tacit.privacy.request import Privacy
from tacit.problem.losses import Loss
from tacit.run.prepare import with_encoding
from tacit.solvers.boosting import TreeSettings
from tacit.solvers.boosting.losses import make_loss
from tacit.types import Shard


def protects_rows(privacy: Any) -> bool:
    """Whether the rows of all parties but the first are protected, so that their columns become public codes."""
    return isinstance(privacy, Privacy) and privacy.epsilon is not None


def protected_tables(blocks: Sequence[Any], layout: ColumnLayout) -> list[ArrowTable]:
    """The tables of all parties but the first."""
    parts = list(zip(blocks, layout.names, layout.party_names, strict=True))[1:]
    return [as_table(dense(block, name, columns), columns, name) for block, columns, name in parts]


@dataclass(frozen=True, eq=False)
class Codes:
    """How protected parties' columns become numbers, and the request with the norm of their rows."""

    encodings: Encodings = field(default_factory=Encodings)
    privacy: Privacy | None = None

    def again(self, tables: Sequence[ArrowTable]) -> list[Shard]:
        """New rows."""
        return [encoded_again(table, self.encodings.encoders) for table in tables]

    def certificate(self, certificate: Certificate) -> Certificate:
        """With what is true of the codes."""
        if not self.encodings.by_party:
            return certificate
        return with_encoding(certificate, self.encodings.by_party, shared=False, by="ranges and categories state")

    def row_norms(self, parties: Sequence[str]) -> dict[str, float]:
        """By protected party the largest norm of a row."""
        return row_norms(self.privacy, parties, rows_are_split=False)


def encode_protected(
    own: Shard, tables: Sequence[ArrowTable], wishes: tuple[Any, Any], loss: Loss, privacy: Privacy
) -> tuple[Codes, list[Shard]]:
    """All parties' shards: the label holder's as it is, the others by curves of public constants.

    Parameters
    ----------
    own : Shard
        The label holder's columns as trees take them.
    tables : sequence of ArrowTable
        Those of the others.
    wishes : (ranges, categories)
    loss : Loss
        That the others fit.
    privacy : Privacy
    """
    for table in tables:
        if table.n_rows != own.features.n:
            raise InputError(
                f"{own.name} has {own.features.n} rows, {table.party} has {table.n_rows}: row i must be the same sample"
            )
    setting = Setting(False, loss, privacy, False)
    encodings, shards = encode_columns([own, *tables], ColumnWishes(SPLINE, *wishes), setting)
    return Codes(encodings, encodings.privacy(privacy, [shard.name for shard in shards])), shards


# --- The label holder's own part of a private model by trees, or by what does better out of fold on its own rows


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


def ask_trees(own_part: Any, table: ArrowTable | Shard, loss: Loss, privacy: Privacy | None) -> OwnTreesAsked:
    """What trees need to know, where the own part may be trees.

    Raises
    ------
    InputError
        Where nothing is private, the label holder's rows are protected, or trees do not have the loss.
    """
    if own_part not in OWN_PARTS:
        raise InputError(f"own_part={own_part!r} is unknown: choose one of {', '.join(OWN_PARTS)}")
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
    return replace(coded, features=OwnColumns(coded.features, raw.features, coded.curves))
