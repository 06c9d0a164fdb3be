"""Which addresses are used, and how connecting fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from tacit.data import cluster
from tacit.data.cluster import ClusterAddress, ClusterGoneError, connect
from tacit.errors import InputError
from tacit.federation.own_site import own_cluster

REFUSED = {
    "no port": ("tcp://127.0.0.1", "is no address"),
    "no kind": ("127.0.0.1:8786", "is no address"),
    "other kind": ("http://127.0.0.1:8786", "is no address"),
    "bad port": ("tcp://127.0.0.1:99999", "is no address"),
    "not encrypted": ("tcp://10.0.0.7:8786", "is not encrypted"),
    "a name that only begins like loopback": ("tcp://localhost.evil.example:8786", "is not encrypted"),
    "any address": ("tcp://0.0.0.0:8786", "is not encrypted"),
    "no certificates": ("tls://10.0.0.7:8786", "--dask-tls FOLDER"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    address, expected = REFUSED[name]
    with pytest.raises(InputError, match=expected):
        ClusterAddress(address).check()
    with pytest.raises(InputError, match=expected):
        own_cluster({"dask": address})


@pytest.mark.parametrize("scheduler", ["tcp://127.0.0.1:8786", "tcp://localhost:1", "tcp://[::1]:8786"])
def test_loopback_needs_no_encryption(scheduler: str) -> None:
    ClusterAddress(scheduler).check()


def test_an_own_network_is_allowed_where_somebody_says_so() -> None:
    ClusterAddress("tcp://10.0.0.7:8786", insecure=True).check()
    assert own_cluster({"dask": "tcp://10.0.0.7:8786", "dask_insecure": True}) is not None


def test_certificates_are_three_files(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").touch()
    with pytest.raises(InputError, match=r"cert\.pem"):
        ClusterAddress("tls://10.0.0.7:8786", str(tmp_path)).check()


def test_settings_of_a_site() -> None:
    assert own_cluster({"data": "x"}) is None
    assert own_cluster({"dask": "tcp://127.0.0.1:1"}) == ClusterAddress("tcp://127.0.0.1:1")
    for wrong in ({"dask": 3}, {"dask": "tcp://127.0.0.1:1", "dask_insecure": "yes"}):
        with pytest.raises(InputError, match=r"site\.toml"):
            own_cluster(wrong)


def test_nobody_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 1.0)
    with pytest.raises(ClusterGoneError, match="cannot reach the Dask scheduler at tcp://127"):
        connect(ClusterAddress("tcp://127.0.0.1:9"))


def test_another_version_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "__version__", "99")
    with pytest.raises(InputError, match="install 99 everywhere"):
        connect(ClusterAddress(address))
