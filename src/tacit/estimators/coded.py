"""Protected parties beside a label holder with trees: their columns by public codes, and what each column adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tacit.blocks import make_block
from tacit.columns.encoder import Encoder
from tacit.columns.spec import SPLINE
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
from tacit.run.result import PartyModel
from tacit.types import Shard, Vector


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


def column_adds(part: PartyModel, shard: Shard, encoder: Encoder) -> tuple[dict[str, Vector], float]:
    """What each column of a protected party adds to each row, and what it adds to all of them.

    A long row is clipped, and so is what each of its columns adds.
    """
    rows, found = make_block(shard.features), {}
    clipped = rows if part.clip is None else part.clip.apply(rows)
    for column, place in zip(encoder.columns, encoder.slices, strict=True):
        own = np.zeros(part.coef.size)
        own[place] = part.coef[place]
        found[column.name] = np.asarray(clipped.predict(own))
    return found, part.constant
