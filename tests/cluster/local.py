"""Clusters of worker processes on this machine, and files for them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

PARTIES = """
[[party]]
name = "bank"
data = "bank.parquet"
id = "id"
label = "y"
[[party]]
name = "shop"
data = "shop.parquet"
id = "id"
"""


@contextmanager
def local_cluster(**options: Any) -> Iterator[Any]:
    """Two worker processes with one thread each, reached by loopback alone and ended at the end.

    They are forked from a process that has imported what they need.
    """
    import dask
    from distributed import LocalCluster
    from distributed.utils import get_mp_context

    settings = {
        "n_workers": 2,
        "threads_per_worker": 1,
        "dashboard_address": "127.0.0.1:0",
        "silence_logs": 50,
        **options,
    }
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        get_mp_context().set_forkserver_preload(["distributed", "tacit.blocks.cluster"])
        with LocalCluster(host="127.0.0.1", **settings) as cluster:
            yield cluster


def pids(cluster: Any) -> dict[str, int]:
    """By address of a worker, the number of its process."""
    from distributed import Client

    with Client(cluster, set_as_default=False) as client:
        found: dict[str, int] = client.run(os.getpid)
    return found


class Pair:
    """The files of two parties: ids in another order, some of them at one party alone."""

    def __init__(self, folder: Path, rows: int = 3000) -> None:
        self.folder = folder
        rng = np.random.RandomState(5)
        X = rng.normal(size=(rows, 8)) @ (np.eye(8) + 0.4 * rng.normal(size=(8, 8))) + rng.normal(size=8)
        y = np.where(X @ rng.normal(size=8) / 3 + rng.logistic(size=rows) > 0.5, 1, 0)
        order = rng.permutation(rows)[: rows - 100]
        ids = np.array([f"c{number:06d}" for number in range(rows)])
        self.bank = {"id": ids, **{f"a{j}": X[:, j] for j in range(4)}, "y": y}
        self.shop = {"id": ids[order], **{f"b{j}": X[order, 4 + j] for j in range(4)}}

    def write(self, job: str = "", model: str = "alpha = 1e-3", more: str = "", encode: str = 'scale = "none"') -> Path:
        pq.write_table(pa.table(self.bank), self.folder / "bank.parquet", row_group_size=1000)
        pq.write_table(pa.table(self.shop), self.folder / "shop.parquet", row_group_size=300)
        path = self.folder / "pair.toml"
        path.write_text(f"[job]\n{job}\n[model]\n{model}\n[encode]\n{encode}\n{more}\n{PARTIES}")
        return path
