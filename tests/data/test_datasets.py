from __future__ import annotations

import dataclasses
import gzip
import hashlib
import io
import os
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from tacit.data import datasets
from tacit.errors import InputError

TEXT = b"+1 1:1 3:1\n-1 2:1\n"
FILE = dataclasses.replace(datasets._A9A, sha256=hashlib.sha256(TEXT).hexdigest())


class Response(io.BytesIO):
    headers = {"Content-Length": str(len(TEXT))}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, no TACIT_DATA and no internet."""

    def offline(*args: Any, **options: Any) -> Any:
        raise urllib.error.URLError("no route to host")

    monkeypatch.delenv("TACIT_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(urllib.request, "urlopen", offline)
    return tmp_path / "tacit"


def online(monkeypatch: pytest.MonkeyPatch, content: bytes) -> list[str]:
    asked: list[str] = []

    def urlopen(url: str, timeout: float) -> Response:
        asked.append(url)
        return Response(content)

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    return asked


def test_download_is_checked_and_cached(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = online(monkeypatch, TEXT)
    assert datasets.content_of(FILE) == TEXT
    assert datasets.content_of(FILE) == TEXT
    assert asked == [FILE.url]
    assert [path.name for path in cache.iterdir()] == ["a9a.svm.gz"]
    assert gzip.decompress((cache / "a9a.svm.gz").read_bytes()) == TEXT


def test_wrong_download_is_refused_and_not_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    online(monkeypatch, b"<html>not found</html>")
    with pytest.raises(InputError, match=r"is not the known a9a\.svm\.gz \(sha256"):
        datasets.content_of(FILE)
    assert not cache.exists()


def test_cache_that_cannot_be_written_costs_nothing_else(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.write_text("a file where the folder should be")
    online(monkeypatch, TEXT)
    assert datasets.content_of(FILE) == TEXT


def test_broken_write_leaves_nothing_behind(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.mkdir()

    def full(*args: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", full)
    datasets._store(TEXT, FILE)
    assert list(cache.iterdir()) == []


def test_offline_says_what_to_do(cache: Path) -> None:
    with pytest.raises(InputError) as caught:
        datasets.load_a9a()
    message = str(caught.value)
    assert "\n" not in message
    assert "cannot download https://www.csie.ntu.edu.tw" in message
    assert "connect to the internet, or put a9a.svm.gz in" in message


def test_without_public_source_says_which_file_goes_where(cache: Path) -> None:
    with pytest.raises(InputError, match=r'"mnist49\.npz" is not at hand .* put it in .*TACIT_DATA'):
        datasets.load_mnist49()
    with pytest.raises(InputError, match=r'"basehock\.svm\.gz" is not at hand'):
        datasets.load_basehock()


def test_folder_comes_before_cache(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    monkeypatch.setenv("TACIT_DATA", str(folder))
    cache.mkdir()
    (cache / FILE.name).write_bytes(gzip.compress(TEXT))
    assert datasets.content_of(FILE) == TEXT
    (folder / FILE.name).write_bytes(gzip.compress(b"other"))
    with pytest.raises(InputError, match=r"mine/a9a\.svm\.gz is not the known"):
        datasets.content_of(FILE)
    (folder / FILE.name).write_bytes(b"no archive")
    with pytest.raises(InputError, match=r"cannot read .*remove it or replace it"):
        datasets.content_of(FILE)


def test_a9a(real_data: Path) -> None:
    data = datasets.load_a9a()
    assert sp.issparse(data.X_train)
    assert (data.X_train.shape, data.X_test.shape) == ((32561, 123), (16281, 123))
    assert data.X_train.dtype == np.float64
    assert np.unique(data.y_train, return_counts=True)[1].tolist() == [24720, 7841]


def test_mnist49(real_data: Path) -> None:
    data = datasets.load_mnist49()
    assert (data.X_train.shape, data.X_test.shape) == ((11791, 784), (1991, 784))
    assert (data.X_train.min(), data.X_train.max()) == (0, 1)
    assert set(data.y_train.tolist()) == {-1.0, 1.0}


def test_basehock(real_data: Path) -> None:
    data = datasets.load_basehock()
    assert data.X_train.shape == (1993, 4862)
    assert data.X_test is None
    assert data.X_train.data.min() == pytest.approx(np.log(2))
