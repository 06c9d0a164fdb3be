"""Public tables with raw columns: what the loaders make of the published files."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
from pathlib import Path

import numpy as np
import pytest

from tacit.data import datasets
from tacit.errors import InputError

ADULT = (
    b"|1x3 Cross validator\n"
    b"39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, "
    b"United-States, <=50K.\n"
    b"50, ?, 83311, Bachelors, 13, Never-married, ?, Not-in-family, White, Male, 0, 0, 13, ?, >50K.\n\n"
)


def put(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes) -> None:
    file = getattr(datasets, name)
    (folder / file.name).write_bytes(gzip.compress(content))
    monkeypatch.setattr(datasets, name, dataclasses.replace(file, sha256=hashlib.sha256(content).hexdigest()))
    monkeypatch.setenv("TACIT_DATA", str(folder))


def test_adult_has_numbers_text_and_blanks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_ADULT", "_ADULT_TEST"):
        put(tmp_path, monkeypatch, name, ADULT)
    train, test = datasets.load_adult()
    assert train.equals(test)
    assert train.column_names == list(datasets.ADULT_COLUMNS)
    assert train["age"].to_pylist() == [39, 50]
    assert train["workclass"].to_pylist() == ["State-gov", None]
    assert train["native-country"].to_pylist() == ["United-States", None]
    assert train["income"].to_pylist() == ["<=50K", ">50K"]


def test_a_cell_of_one_space_is_blank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, monkeypatch, "_TELCO", b"gender,TotalCharges,Churn\nMale,29.5,No\nFemale, ,Yes\n")
    assert datasets.load_telco().to_pydict() == {
        "gender": ["Male", "Female"], "TotalCharges": [29.5, None], "Churn": ["No", "Yes"],
    }  # fmt: skip


def test_without_the_file_it_says_where_to_put_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACIT_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(InputError, match=r'"heloc\.csv\.gz" is not at hand .* put it in .*TACIT_DATA'):
        datasets.load_heloc()


def test_published_sizes(real_data: Path) -> None:
    train, test = datasets.load_adult()
    assert (train.shape, test.shape) == ((32561, 15), (16281, 15))
    assert sum(value == ">50K" for value in train["income"].to_pylist()) == 7841
    assert sum(value == ">50K" for value in test["income"].to_pylist()) == 3846
    assert datasets.load_heloc().shape == (10459, 24)
    assert datasets.load_telco().shape == (7043, 20)
    assert datasets.load_housing()["total_bedrooms"].null_count == 207
    bike = datasets.load_bike()
    assert bike.shape == (17520, 17)
    np.testing.assert_array_equal(bike["cnt"], bike["casual"].to_numpy() + bike["registered"].to_numpy())
    X, y = datasets.load_raetsch("splice")
    assert (X.shape, sorted(set(X.ravel())), set(y)) == ((3175, 60), [1, 2, 3, 4], {-1.0, 1.0})
