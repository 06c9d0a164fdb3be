"""A site of a federation whose own cluster keeps its rows trains the same model as with its rows in memory."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.data import cluster
from tacit.data import cluster as cluster_rows
from tacit.data.cluster import ClusterAddress, ClusterDataError, ClusterGoneError, connect
from tacit.errors import RunError
from tacit.federation.protocol import Shape, Shaped
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
    sizes = [one.answered for one in loop.carried if isinstance(one.asked, Shape) and one.name == "shop"]
    assert sizes == [Shaped(rows=200, columns=4)]


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
    with connect(ClusterAddress(address)), pytest.raises(RunError, match="'shop': it stopped"):
        loop.run(job)
    assert re.search(expected, (tmp_path / "there/shop/run-00000001/problem.txt").read_text())


def test_a_cluster_that_is_gone_is_told_at_home_alone(
    files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 0.5)
    loop, problem = Loopback(files, tmp_path), tmp_path / "shop" / "run-00000001" / "problem.txt"
    loop.sites["shop"].dask = ClusterAddress("tcp://127.0.0.1:9")
    with pytest.raises(RunError, match="'shop': it stopped"):
        loop.run(text())
    assert "127.0.0.1" not in str(loop.carried)
    assert "cannot reach the Dask scheduler at tcp://127.0.0.1:9" in problem.read_text()
    loop.sites["shop"].dask = None
    loop.run(text())
    assert not problem.exists()


@pytest.mark.parametrize("kind", [ClusterDataError, ClusterGoneError])
def test_what_a_worker_says_of_rows_stays_at_home(files: dict[str, Path], tmp_path: Path, kind: Any) -> None:
    loop = Loopback(files, tmp_path)

    def fail(*_: object) -> None:
        raise kind("column is infinite in row 3")

    loop.sites["shop"].authorizer.allow_preparing = lambda *_, **__: fail()  # type: ignore[method-assign]
    with pytest.raises(RunError, match="'shop': it stopped") as caught:
        loop.run(text())
    assert "row 3" not in str(caught.value)
    assert not any(b"row 3" in one.reply for one in loop.carried)
    assert "row 3" in (tmp_path / "shop/run-00000001/problem.txt").read_text()
