"""The block that fits a party's features: in memory, on disk as dense or sparse rows, or on a cluster."""

from __future__ import annotations

from tacit.algorithms.block import Block
from tacit.algorithms.cluster import ClusterBlock
from tacit.algorithms.streamed import StreamedBlock
from tacit.algorithms.streamed_sparse import SparseStreamedBlock
from tacit.data.cluster_rows import ClusterRows
from tacit.data.rows_on_disk import StreamedRows
from tacit.data.sparse_on_disk import SparseRows
from tacit.types import Matrix


def make_block(features: Matrix) -> Block:
    """The block of these features, wherever they are."""
    if isinstance(features, SparseRows):
        return SparseStreamedBlock(features)
    if isinstance(features, ClusterRows):
        return ClusterBlock(features)
    return StreamedBlock(features) if isinstance(features, StreamedRows) else Block(features)
