"""A site of a federation whose own cluster keeps its rows trains the same model as with its rows in memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.data import cluster_rows
from tacit.data.cluster import ClusterAddress, connect
from tacit.errors import RunError
from tests.cluster.local import Pair
from tests.federation.loopback import Loopback

JOB = """
[job]
name = "joint"
engine = "flare"
{job}
[model]
alpha = 1e-3
[encode]
scale = "{scale}"
{more}
[[party]]
name = "bank"
id = "id"
label = "y"
[[party]]
name = "shop"
id = "id"
"""


def coefs(folder: Path) -> Any:
    found = [json.loads((folder / name / f"run-00000001/model/{name}.json").read_text()) for name in ("bank", "shop")]
    return np.concatenate([[*part["coef"], part["offset"]] for part in found])


def text(job: str = "", scale: str = "none", more: str = "") -> str:
    return JOB.format(job=job, scale=scale, more=more)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    monkeypatch.setattr(cluster_rows, "BLOCK_ROWS", 64)
    Pair(tmp_path, 300).write()
    return {name: tmp_path / f"{name}.parquet" for name in ("bank", "shop")}


def test_sites_train_the_same_model(files: dict[str, Path], tmp_path: Path, address: str) -> None:
    Loopback(files, tmp_path / "here").run(text())
    loop = Loopback(files, tmp_path / "there")
    with connect(ClusterAddress(address)):
        for name in files:
            loop.sites[name].dask = ClusterAddress(address)
        loop.run(text())
    np.testing.assert_allclose(coefs(tmp_path / "there"), coefs(tmp_path / "here"), rtol=0, atol=1e-10)
    sizes = [reply for _, name, step, _, reply in loop.carried if step == "shape" and name == "shop"]
    assert sizes == [{"rows": 200, "columns": 4, "bytes": 0}]


REFUSED = {
    "scaled": (text(scale="standard"), 'a site with dask uses numbers as they are.*scale = "none"'),
    "private": (text(more="[privacy]\nepsilon = 1"), r"--dask does not go with \[privacy\]"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_go_with_a_cluster_is_refused(
    files: dict[str, Path], tmp_path: Path, address: str, name: str
) -> None:
    job, expected = REFUSED[name]
    loop = Loopback(files, tmp_path / "there")
    loop.sites["shop"].dask = ClusterAddress(address)
    with connect(ClusterAddress(address)), pytest.raises(RunError, match=expected):
        loop.run(job)
