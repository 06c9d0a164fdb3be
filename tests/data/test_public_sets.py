"""Gisette, and the sums of all public sets that the package knows."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
from pathlib import Path

import pytest

from tacit.data import datasets


def put(folder: Path, file: object, content: bytes) -> object:
    (folder / file.name).write_bytes(gzip.compress(content))  # type: ignore[attr-defined]
    return dataclasses.replace(file, sha256=hashlib.sha256(content).hexdigest())  # type: ignore[call-overload]


def test_gisette_is_scaled_by_its_train_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACIT_DATA", str(tmp_path))
    texts = (b"0 7 \n999 7 \n", b"1\n-1\n", b"500 7 \n0 7 \n", b"-1\n1\n")
    files = tuple(put(tmp_path, file, text) for file, text in zip(datasets._GISETTE, texts, strict=True))
    monkeypatch.setattr(datasets, "_GISETTE", files)
    data = datasets.load_gisette()
    assert data.X_train.tolist() == [[-1, -1], [1, -1]]
    assert data.X_test[0, 0] == pytest.approx(1000 / 999 - 1)
    assert data.y_test is not None
    assert data.y_test.tolist() == [-1, 1]


def test_every_set_has_a_sum() -> None:
    assert set(datasets.SUMS) == {"a9a", "gisette", "mnist49", "basehock"}
    assert all(len(part) == 64 for sums in datasets.SUMS.values() for part in sums.split())
