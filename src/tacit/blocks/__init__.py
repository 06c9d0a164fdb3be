"""The block that fits a party's features: in memory, as curves, on disk, on a cluster, or as they are for trees."""

from __future__ import annotations

from typing import cast

from tacit.blocks.cluster import ClusterBlock
from tacit.blocks.curves import CurveBlock, TableBlock
from tacit.blocks.dense import Block
from tacit.blocks.streamed import SparseStreamedBlock, StreamedBlock
from tacit.columns.compact import CurveMatrix
from tacit.columns.raw import OwnColumns, RawTable
from tacit.data.cluster import ClusterRows
from tacit.data.rows_on_disk import SparseRows, StreamedRows
from tacit.types import Matrix


def make_block(features: Matrix) -> Block:
    """The block of these features, wherever they are; what trees take needs none."""
    if isinstance(features, RawTable | OwnColumns):
        return cast("Block", features)
    if isinstance(features, CurveMatrix):
        return TableBlock(features) if features.is_tabled else CurveBlock(features)
    if isinstance(features, SparseRows):
        return SparseStreamedBlock(features)
    if isinstance(features, ClusterRows):
        return ClusterBlock(features)
    return StreamedBlock(features) if isinstance(features, StreamedRows) else Block(features)
