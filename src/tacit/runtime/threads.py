"""How many threads linear algebra gets: one where the products are too small to share out.

On a busy machine, waking threads for products of microseconds costs ten times the products themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

from scipy import sparse
from threadpoolctl import ThreadpoolController

from tacit.data.cluster_rows import ClusterRows
from tacit.data.rows_on_disk import RowsOnDisk
from tacit.types import Shard

LARGE = 20_000_000  # entries of one dense block from which threads pay for products with vectors
WIDE, WIDE_LARGE = 200, 4_000_000  # columns and entries from which they pay for its Gram matrix


def fitting_threads(shards: Sequence[Shard]) -> AbstractContextManager[Any]:
    """Context in which a run on these shards should be made and run."""
    held = [shard.features for shard in shards if not sparse.issparse(shard.features)]
    elsewhere = (RowsOnDisk, ClusterRows)  # these come in pieces, or are not here
    shapes = [features.shape for features in held if not isinstance(features, elsewhere)]
    if any(n * d >= LARGE or (d >= WIDE and n * d >= WIDE_LARGE) for n, d in shapes):
        return nullcontext()
    context: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return context


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
